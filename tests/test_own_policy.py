"""A policy in a file of one's own, here the example: it is found everywhere once the operator names it, and never by a request."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from bethink import Translator, toy
from bethink.cli import main
from bethink.engine import Engine
from bethink.errors import UsageError
from bethink.policy import READ, RULES, WRITE, Decision, Need, Policy, View, WaitK, load
from bethink.session import Sentence

EXAMPLES = Path(__file__).parents[1] / "examples"
MODULE = "punctuation_policy"
SPEC = f"{MODULE}:Punctuation"
SPEECH = "te riki nakoru , ne ruru wa homuran haturu ."


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In the folder of the example, which Python does not look into by itself, with nothing loaded yet."""
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place not in ("", str(EXAMPLES))])
    before = dict(RULES)
    yield
    RULES.clear()
    RULES.update(before)
    sys.modules.pop(MODULE, None)


pytestmark = pytest.mark.usefixtures("here")


def run(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(list(args)) == 0
    return capsys.readouterr().out


def test_translate_writes_only_at_punctuation(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "speech.txt").write_text(f"{SPEECH}\n")
    printed = run(capsys, "translate", "--model", "toy", "--policy", SPEC, "--json", str(tmp_path / "speech.txt"))
    steps = [json.loads(line) for line in printed.splitlines()]
    codes, newest = [], ""
    for step in steps:
        if step["action"] == "READ":
            newest = step.get("text") or newest
        else:
            codes.append(step["reason"]["code"])
            assert newest in {",", "."}
    assert {"mark", "source_complete"} == set(codes)


def test_its_settings_may_be_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "speech.txt").write_text(f"{SPEECH}\n")
    words = ["translate", "--model", "toy", str(tmp_path / "speech.txt"), "--policy"]
    assert run(capsys, *words, f"{SPEC},marks=%2C") == run(capsys, *words, f"{SPEC},marks=%2C.")
    assert run(capsys, *words, f"{SPEC},marks=;") == run(capsys, *words, "offline")


def test_evaluate_and_plot_know_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pairs = list(toy.sentences(4, seed=3))
    for side in ("source", "target"):
        (tmp_path / side).write_text("".join(f"{getattr(pair, side)}\n" for pair in pairs))
    files = [
        "--source",
        str(tmp_path / "source"),
        "--reference",
        str(tmp_path / "target"),
        "--out",
        str(tmp_path / "r"),
    ]
    run(capsys, "evaluate", "--model", "toy", *files, "--policy", SPEC, "offline", "wait-k:2")
    results = json.loads((tmp_path / "r" / "results.json").read_text())["results"]
    assert results[0]["policy"] == f"{SPEC},marks=.%2C;:!?,sure=0.4"
    run(capsys, "plot", str(tmp_path / "r"), "--out", str(tmp_path / "curves.svg"))
    assert (tmp_path / "curves.svg").stat().st_size > 1000


def test_help_lists_it_once_it_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    load(SPEC)
    shown = run(capsys, "translate", "--help")
    assert f"{SPEC},marks=.%2C;:!?,sure=0.4" in shown
    assert "Writes after a punctuation mark" in shown


def asked(url: str, body: dict[str, str] | None = None) -> Any:
    """The answer, or the error in it."""
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)


def test_a_server_offers_what_its_operator_loaded_and_imports_nothing_for_a_client() -> None:
    pytest.importorskip("fastapi", reason="the live service is not installed")
    from bethink.serve.models import Model
    from tests.serve.servers import running

    with running(Model.load("toy", threads=1)) as server:
        order = {"text": SPEECH, "policy": SPEC}
        refused = asked(f"{server.http}/v1/translate", order)
        assert refused["error"]["code"] == "policy"
        assert MODULE not in sys.modules
        load(SPEC)
        (model,) = asked(f"{server.http}/v1/models")["models"]
        (found,) = [policy for policy in model["policies"] if policy["name"] == SPEC]
        assert found["title"] == "Punctuation"
        assert found["settings"][0]["label"] == "Marks"
        assert model["reasons"]["mark"] == "a punctuation mark was read"
        answer = asked(f"{server.http}/v1/translate", order)
        assert answer["text"] == Translator("toy", threads=1).translate(SPEECH, SPEC)


def test_a_model_folder_imports_nothing() -> None:
    with pytest.raises(UsageError, match="no policy named"):
        Translator("toy", threads=1).translate(SPEECH, SPEC)
    assert MODULE not in sys.modules


@dataclass(frozen=True)
class Recording(Policy):
    """Wait-3 that writes down what it sees."""

    seen: ClassVar[list[tuple[int, tuple[str, ...], str]]] = []

    def decide(self, view: View) -> Decision:
        self.seen.append((view.read, tuple(view.source_words), view.target_text))
        return WaitK(3).decide(view)


def test_a_policy_sees_whole_words_and_the_text_written_however_the_source_is_cut() -> None:
    translator, said = Translator("de-en", threads=1), "Die Unabhängigkeitserklärung wurde gestern unterzeichnet."
    words, seen = said.split(), []
    for chunks in ([said], list(said), [f"{word} " for word in words]):
        Recording.seen.clear()
        steps = list(translator.stream(chunks, Recording()))
        seen.append(list(dict.fromkeys(Recording.seen)))  # it is asked again when more source comes
        assert "".join(step.text for step in steps if step.action == "WRITE").startswith(seen[-1][-1][2])
    assert seen[0] == seen[1] == seen[2]
    long = len(translator.source.encode(words[1]))
    assert long > 2, "a word of several tokens"
    short = len(translator.source.encode(words[0]))
    for read, source, _ in seen[0]:
        if short <= read < short + long:
            assert source == ("Die",), "a word counts once all its tokens are read"
        assert list(source) == words[: len(source)]
    assert max(len(source) for _, source, _ in seen[0]) >= 4


@dataclass(frozen=True)
class Greedy(Policy):
    """Looks at the candidate without having asked for it."""

    def decide(self, view: View) -> Decision:
        return WRITE if view.read and view.confidence > 0.5 else READ


@dataclass(frozen=True)
class Broken(Policy):
    def decide(self, view: View) -> Decision:
        return READ if view.read < 3 else 1 / 0  # type: ignore[return-value]


def test_a_policy_that_fails_ends_its_own_stream_alone() -> None:
    translator = Translator("toy", threads=1)
    engine = Engine(translator.backend)
    broken, sound = (
        Sentence.of(translator.target, engine, policy, translator.words(SPEECH)) for policy in (Broken(), WaitK(3))
    )
    engine.run()
    with pytest.raises(UsageError, match=r"policy .*:Broken raises ZeroDivisionError") as raised:
        broken.take()
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert sound.take() == list(next(translator.translate_many([SPEECH], "wait-k:3")).steps)
    with pytest.raises(UsageError, match="Broken raises"):
        list(translator.translate_many([SPEECH] * 3, Broken()))
    with pytest.raises(UsageError, match="Broken raises"):
        translator.translate(SPEECH, Broken())


@dataclass(frozen=True)
class Hasty(Policy):
    def decide(self, view: View) -> Decision:
        return WRITE


def test_nothing_is_written_before_something_is_read() -> None:
    steps = list(Translator("toy", threads=1).stream([SPEECH], Hasty()))
    assert (steps[0].action, steps[0].read, steps[1].action) == ("READ", 1, "WRITE")


def test_a_policy_that_looks_at_what_it_did_not_ask_for_is_told_what_to_ask_for() -> None:
    with pytest.raises(UsageError, match=r"set its ceiling to Need.CANDIDATE"):
        Translator("toy", threads=1).translate(SPEECH, Greedy())

    class Modest(Greedy):
        ceiling: ClassVar[Need] = Need.CANDIDATE

    assert Translator("toy", threads=1).translate(SPEECH, Modest())


@dataclass(frozen=True)
class Silent(Policy):
    def decide(self, view: View) -> Decision:
        return None  # type: ignore[return-value]


def test_a_policy_that_decides_nothing_is_told_what_to_return() -> None:
    with pytest.raises(UsageError, match="decide must return READ or WRITE, not None"):
        Translator("toy", threads=1).translate(SPEECH, Silent())


def test_own_policies_are_named_in_several_ways_and_a_misspelled_one_is_told() -> None:
    wanted = load(f"{SPEC},sure=0.5")
    assert load(f"{SPEC}:sure=0.5") == load(f"{MODULE}.py:Punctuation,sure=0.5") == wanted
    with pytest.raises(
        UsageError,
        match=r"no class in punctuation_policy named 'Punctuatoin'; there are Punctuation. Did you mean 'Punctuation'",
    ):
        load(f"{MODULE}:Punctuatoin")
