"""The tail: what the model would write next. It costs nothing, changes nothing, and is what the policy looked at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bethink import Translator
from bethink.cli import main
from bethink.engine import Engine
from bethink.evaluate.instances import read_log
from bethink.policy import READ, Action, Decision, Need, Policy, View, parse
from bethink.text import Joiner, SentencePieces
from bethink.trace import Step, Translation, shown
from tests.fake import FakeBackend

SPECS = ["wait-k:2", "adaptive", "weigh:k=1,r=8,care=0.7", "pe:k=2,rho=0.5", "pe-flip:k=3", "offline"]
texts = st.lists(st.sampled_from(["haus", "baum.", "grün", "über,", "der", "\n", "80331"]), max_size=30).map(" ".join)


def translator(pieces: SentencePieces, policy: Policy | str = "pe:k=2,rho=0.5", ending: float = 0.1) -> Translator:
    policy = parse(policy) if isinstance(policy, str) else policy
    return Translator.of(FakeBackend(5, ending=ending), pieces, pieces, name="fake", policy=policy)


def translated(model: Translator, line: str, **options: Any) -> tuple[list[Step], tuple[int, int]]:
    """The steps of a line, and the work: calls of the model, and rows."""
    engine = Engine(model.backend)
    [(_, translation)] = model.as_completed([line], engine=engine, **options)
    return list(translation.steps), (engine.rounds, engine.rows)


@pytest.mark.parametrize("policy", SPECS)
@given(line=st.lists(st.sampled_from(["haus", "baum", "grün", "über", "80331"]), min_size=1, max_size=12).map(" ".join))
def test_it_changes_nothing_and_costs_no_model_work(pieces: SentencePieces, policy: str, line: str) -> None:
    model = translator(pieces, policy)
    plain, with_tail = translated(model, line), translated(model, line, tail=True)
    assert with_tail[1] == plain[1]
    assert [replace(step, tail=None).to_dict() for step in with_tail[0]] == [step.to_dict() for step in plain[0]]
    assert all(step.tail is None for step in plain[0])
    assert all(step.tail is None for step in with_tail[0] if step.action is Action.WRITE)


@pytest.mark.parametrize("policy", SPECS)
@given(text=texts)
def test_while_a_session_waits_it_shows_what_the_next_read_puts_off(
    pieces: SentencePieces, policy: str, text: str
) -> None:
    model = translator(pieces, policy)
    session, steps, waiting = model.session(), list[Step](), list[str]()
    for word in text.split(" "):
        steps += session.feed(f"{word} ")
        waiting.append(session.tail.text.strip())
        assert session.tail.sentence == session._count
    steps += session.finish()
    assert steps == list(model.stream([f"{text} "]))  # looking changes nothing
    assert shown(steps) == model.translate(f"{text} ")
    assert session.tail.text == ""
    assert all(step.tail is None for step in steps)
    if "\n" not in text and "baum." not in text and "80331" not in text and text:  # one sentence of words of the model
        whole, _ = translated(model, text, tail=True)
        reads = [(step.tail or "").strip() for step in whole if step.action is Action.READ and step.text]
        assert waiting[:-1] == reads[1:]


@dataclass(frozen=True)
class Never(Policy):
    """Looks at every word and never writes before the end."""

    name: ClassVar[str] = "never"
    ceiling: ClassVar[Need] = Need.CANDIDATE

    def needs(self, progress: Any) -> Need:
        return Need.CANDIDATE

    def decide(self, view: View) -> Decision:
        return READ


def test_it_is_what_would_be_written_at_that_moment(pieces: SentencePieces) -> None:
    """A policy that never writes puts off after i tokens what wait-i writes first."""
    line = "haus über der grün baum"
    steps, _ = translated(translator(pieces, Never(), ending=0.0), line)
    reads = [step for step in steps if step.action is Action.READ]
    assert reads[0].put_off == ()
    for step in reads[1:]:
        written, _ = translated(translator(pieces, f"wait-k:{step.read - 1}", ending=0.0), line)
        first = next(each for each in written if each.action is Action.WRITE)
        assert step.put_off == (first.token,)


def test_speakers_on_one_engine_have_the_tails_they_have_alone(pieces: SentencePieces) -> None:
    lines = ["haus über der grün baum", "der baum über", "grün der der der haus baum baum"] * 4
    model = translator(pieces)
    alone = [[step.tail for step in translated(model, line, tail=True)[0]] for line in lines]
    together = dict(model.as_completed(lines, tail=True))
    assert [[step.tail for step in together[n].steps] for n in range(len(lines))] == alone


def test_erasure_counts_the_tail_as_a_reader_sees_it() -> None:
    from bethink.evaluate.instances import instance, score

    def read(text: str, heard: int, tail: str | None) -> Step:
        return Step(Action.READ, 3, heard, heard, 0, text=text, tail=tail)

    def write(text: str) -> Step:
        return Step(Action.WRITE, 4, 3, 3, 1, text=text)

    steps = [read("a", 1, None), read("b", 2, "one"), read("c", 3, "two three"), write("two"), read("", 3, " nine")]
    steps += [write(" four"), write("")]
    made = instance(0, "a b c", "two four", Translation.of(steps), tail=True)
    assert made.prediction == "two four"
    # "one" and "three"; what no word waited for was never on the screen
    assert (made.erased, made.tail_erased) == (0, 2)
    assert score([made]).tail == {"erasure": 1.0}
    assert score([replace(made, tail_erased=None)]).tail == {}


def test_evaluate_measures_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, reference = tmp_path / "s.txt", tmp_path / "r.txt"
    source.write_text("te riki nakoru , ne ruru wa homuran haturu .\ntemo himaki muru .\n", "utf-8")
    reference.write_text("a b c\nd e f\n", "utf-8")
    files = ["evaluate", "--model", "toy", "--source", str(source), "--reference", str(reference)]
    files += ["--policy", "adaptive"]
    for flags, counted in (([], False), (["--tail"], True), (["--tail", "--clock"], True)):
        out = tmp_path / f"out{len(flags)}"
        assert main([*files, "--out", str(out), *flags]) == 0
        assert ("with tail" in capsys.readouterr().out) is counted
        instances = read_log(next(out.glob("*/instances.log")))
        assert all((one.tail_erased is not None) is counted and one.erased == 0 for one in instances)
    assert main([*files, "--out", str(tmp_path / "no"), "--tail", "--longform"]) == 2
    assert "--tail is measured on sentences" in capsys.readouterr().err


def test_it_shows_what_is_carried_over_and_not_what_stands_in_for_it(pieces: SentencePieces) -> None:
    joiner = Joiner(pieces)
    joiner.expect("haus", "info@example.org")
    ids = pieces.encode("haus")
    assert joiner.preview(ids) == "info@example.org"
    assert "".join(map(joiner.push, ids)) + joiner.finish() == "info@example.org"  # and is shown all the same
