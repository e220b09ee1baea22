"""The scripts that make the published results: a comparison from training to tables, the paper's data sets, and the published pages."""

from __future__ import annotations

import functools
import importlib
import json
import os
import random
import re
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bethink import cli, toy
from bethink.analysis.behaviour import watched
from bethink.errors import DataError
from bethink.evaluate import Result, Scores, evaluate, load_results
from bethink.evaluate.quality import Quality
from bethink.folder import Folder
from bethink.policy import parse
from bethink.train.corpora import find
from bethink.train.recipe import Recipe
from bethink.translator import Translator

ROOT = Path(__file__).parents[1]
TINY = """model.width=16 model.hidden=16 model.heads=2 model.encoder_layers=1 model.decoder_layers=1 model.capsules.width=8
model.capsules.hidden=8 train.tokens=300 train.buckets=1 train.warmup=2 train.updates=12 train.log=4 train.save=12 train.validate=12
train.average=1 train.tensorboard=false""".split()


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Imports a script, for this test alone."""
    monkeypatch.syspath_prepend(str(ROOT / "runs"))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "").parent == ROOT / "runs":
            del sys.modules[name]


@pytest.fixture
def here(runs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Training, which has a process of its own, stays in this one, where the heavy imports are done."""
    monkeypatch.setattr(runs("compare"), "bethink", cli.main)


@pytest.fixture
def table(runs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of systems, cut down to what shows every kind of row."""
    systems = runs("systems")
    fixed, pe, weigh = "wait-k:k={1,3,9}", "pe:k={1,3},rho=<0.001,0.9>,r=2", "weigh:k=1,r=3,rate=1.2,rho=0.5"
    rows = (
        systems.System("wait-1", "system=wait-k paths.k=1", ("wait-k:k=1",), curve="wait-k"),
        systems.System("multi-path", "system=multi-path", (fixed, "offline"), tested=(fixed,)),
        systems.System("per-lag", "", ("adaptive:rho_1=0.2,rho_k=0,k_max=10",), per_lag=("wait-1", "wait-3")),
        systems.System("ped", "system=ped", (fixed, pe, f"random {pe}")),
        systems.System("judged", "", (weigh, f"random {weigh}"), judges="ped"),
    )
    monkeypatch.setattr(runs("compare"), "SYSTEMS", rows)
    monkeypatch.setattr(runs("measure"), "FIXED", fixed)
    monkeypatch.setattr(runs("report"), "SAMPLES", 20)


def write(path: Path, lines: list[str]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def held_out(folder: Path, name: str, seed: int) -> list[str]:
    pairs = list(toy.sentences(8, seed))
    return [
        name,
        *(write(folder / f"{name}.{side}", [getattr(p, side) for p in pairs]) for side in ("source", "target")),
    ]


@pytest.mark.usefixtures("here", "table")
def test_a_comparison_from_training_to_tables(
    tmp_path: Path, runs: Callable[[str], Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compare, work, data = runs("compare").main, tmp_path / "work", tmp_path / "data"
    assert cli.main(["prepare", "tiny", "data.toy=300", "--out", str(data)]) == 0
    training = ["train", str(work), "tiny", *TINY, "--data", str(data), "--systems", "multi-path", "ped"]
    assert compare(training) == 0
    [first] = (work / "multi-path" / "checkpoints").iterdir()
    made = first.stat().st_mtime_ns
    assert compare(training) == 0
    assert first.stat().st_mtime_ns == made, "what is done is not done again"

    text = write(tmp_path / "text", [pair.source for pair in toy.sentences(30, 3)])
    assert compare(["judge", str(work), "--source", text, "--lines", "30"]) == 0
    assert (work / "judged" / "model").is_dir()

    sets = ["--dev", *held_out(tmp_path, "seen", 1), "--test", *held_out(tmp_path, "new", 2)]
    assert compare(["evaluate", str(work), *sets]) == 0
    assert "wait-1: not evaluated, since there is no model in wait-1" in capsys.readouterr().out
    for name in ("wait-1", "wait-3"):  # models of one vocabulary are asked by lag; whose they are does not matter here
        (work / name).symlink_to(work / "multi-path")
    assert compare(["evaluate", str(work), *sets]) == 0, "what was trained meanwhile is evaluated, too"
    results = work / "results"
    tried = {path.name for path in (results / "dev" / "seen" / "ped").iterdir()}
    assert {"pe_k=1_rho=0.001_r=2", "pe_k=1_rho=0.9_r=2"} < tried, "development sets see all choices"
    met = {path.name for path in (results / "test" / "new" / "ped").iterdir()}
    assert len([name for name in met if name.startswith("pe_")]) == 2, "test sets see one of them"
    assert len([name for name in met if name.startswith("random_")]) == 2
    assert len(list((results / "test" / "new" / "per-lag").iterdir())) == 1
    kinds = sorted(path.name.partition("_")[0] for path in (results / "test" / "new" / "judged").iterdir())
    assert kinds == ["random-weigh", "weigh"]
    plain = {role: {path.name for path in (results / role).glob("*/multi-path/*")} for role in ("dev", "test")}
    assert plain["dev"] - plain["test"] == {"offline"}, "test sets meet only what is to be reported"
    before = {path: path.stat().st_mtime_ns for path in results.rglob("results.json")}
    assert compare(["evaluate", str(work), *sets]) == 0
    assert before == {path: path.stat().st_mtime_ns for path in results.rglob("results.json")}

    tables_of_a_comparison(compare, work, tmp_path)

    measure = runs("measure").measure

    def fragile(task: Any, *settings: Any) -> Any:
        if task.spec == "offline":
            raise MemoryError("too little")
        return measure(task, *settings)

    monkeypatch.setattr(runs("measure"), "measure", fragile)
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "multi-path").symlink_to(work / "multi-path")
    assert compare(["evaluate", str(tmp_path / "small"), *sets, "--systems", "multi-path"]) == 1
    assert "failed: seen multi-path offline: MemoryError: too little" in capsys.readouterr().err
    assert len(list((tmp_path / "small" / "results").rglob("results.json"))) == 6, "one that fails leaves others alone"


def tables_of_a_comparison(compare: Callable[[list[str]], int], work: Path, root: Path) -> None:
    assert compare(["tables", str(work), "--name", "toy", "--root", str(root)]) == 0
    page = (root / "docs" / "results" / "toy.md").read_text()
    assert page.startswith("# toy\n")
    assert "| ped | `pe:k=1,rho=" in page
    assert "tok:13a" in page
    assert "Paired bootstrap" in page
    assert "<svg" in (root / "docs" / "figures" / "toy-new-systems.svg").read_text()
    assert (root / "runs" / "logs" / "toy-ped.jsonl").read_bytes() == (work / "ped" / "log.jsonl").read_bytes()
    path = root / "runs" / "logs" / "toy.json"
    record = json.loads(path.read_text())
    tried = {(one["model"], one["policy"]) for one in record["sets"][0]["tried"]}
    assert {("ped", "pe:k=1,rho=0.001,r=2"), ("ped", "pe:k=1,rho=0.9,r=2")} < tried, "what was not chosen is kept, too"
    path.write_text(json.dumps(record | {"title": "Toy systems", "about": "A test."}))
    assert compare(["tables", str(work), "--name", "toy", "--root", str(root)]) == 0
    again = (root / "docs" / "results" / "toy.md").read_text()
    assert again == page.replace("# toy\n", "# Toy systems\n\nA test.\n"), "what is said about it stays"


@pytest.mark.usefixtures("here", "table")
def test_what_was_made_with_something_else_is_not_taken(
    tmp_path: Path, runs: Callable[[str], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    compare, work, data = runs("compare").main, tmp_path / "work", tmp_path / "data"
    cli.main(["prepare", "tiny", "data.toy=50", "--out", str(data)])
    only = ["--systems", "multi-path"]
    training = ["train", str(work), "tiny", *TINY, "--data", str(data), *only]
    assert compare([*training, "--updates", "2"]) == 0
    assert compare([*training[:3], "train.split=2", *training[3:], "--updates", "2"]) == 0, "that changes no update"
    assert compare([*training[:3], "model.dropout=0.4", *training[3:], "--updates", "2"]) == 1
    told = capsys.readouterr().err
    assert "multi-path was started otherwise (model.dropout" in told
    assert "failed: multi-path" in told
    cli.main(["prepare", "tiny", "data.toy=60", "--out", str(tmp_path / "other")])
    assert compare([*training, "--updates", "2", "--data", str(tmp_path / "other")]) == 1
    assert "(other data)" in capsys.readouterr().err

    name, source, reference = held_out(tmp_path, "seen", 1)
    evaluating = ["evaluate", str(work), *only, "--dev", name, source, reference]
    assert compare(evaluating) == 0
    assert compare([*evaluating, "--limit", "3"]) == 1
    assert "was made with another limit; remove it" in capsys.readouterr().err
    config = work / "multi-path" / "model" / "config.json"
    config.write_text(config.read_text() + "\n")
    write(Path(source), ["ka"] * 8)
    assert compare(evaluating) == 1
    assert "was made with another source and model multi-path; remove it" in capsys.readouterr().err


def test_what_is_asked_for_on_the_command_line_is_what_systems_get(runs: Callable[[str], Any]) -> None:
    compare = runs("compare")
    wanted = ["train.updates=50000", "train.rate=0.001", "train.warmup=4000", "model.dropout=0.3"]
    asked = ["train", "w", "tiny", *wanted, "--data", "d", "--from", "t", "--updates", "3000"]
    [system] = [system for system in compare.SYSTEMS if system.name == "aligned"]
    found = Recipe.load("tiny", compare.settings(system, compare.options().parse_args(asked)))
    assert (found.train.updates, found.train.rate, found.train.warmup) == (3000, 0.001 * compare.SHARE, 200)
    assert (found.model.dropout, found.system) == (0.3, "aligned")
    asked += ["--rate", "5e-4", "--warmup", "500"]
    found = Recipe.load("tiny", compare.settings(system, compare.options().parse_args(asked)))
    assert (found.train.rate, found.train.warmup) == (5e-4, 500)


@pytest.mark.usefixtures("table")
def test_systems_in_lanes_are_trained_at_the_same_time(
    tmp_path: Path, runs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compare, together = runs("compare"), threading.Barrier(2, timeout=10)
    monkeypatch.setattr(compare, "bethink", lambda command: together.wait() >= 2 or "system=ped" in command)
    training = ["train", str(tmp_path), "tiny", "--data", "d", "--lanes", "2", "--systems", "multi-path", "ped"]
    assert compare.main(training) == 1
    assert "failed: ped" in capsys.readouterr().err


@pytest.mark.usefixtures("table")
def test_a_judge_needs_what_it_is_to_judge(
    tmp_path: Path, runs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compare, judged = runs("compare"), tmp_path / "judged" / "model"
    monkeypatch.setattr(compare, "bethink", lambda _: judged.mkdir(parents=True))
    for _ in range(2):
        assert compare.main(["judge", str(tmp_path), "--source", "text"]) == 0
        assert "judged: left out, since ped is not trained" in capsys.readouterr().out
    (tmp_path / "ped" / "model").mkdir(parents=True)
    for _ in range(2):  # what is done is not done again
        assert compare.main(["judge", str(tmp_path), "--source", "text"]) == 0
    assert judged.is_dir()


@pytest.mark.usefixtures("table")
def test_tables_tell_what_they_lack(
    tmp_path: Path, runs: Callable[[str], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results" / "test" / "new").mkdir(parents=True)
    tables = ["tables", str(tmp_path), "--name", "x", "--root", str(tmp_path), "--systems"]
    assert runs("compare").main([*tables, "wait-1", "multi-path"]) == 1
    assert "new has no results of wait-1, multi-path" in capsys.readouterr().err
    assert runs("compare").main([*tables, "ped"]) == 1
    assert "no development set to make them on; give one with: compare.py evaluate --dev" in capsys.readouterr().err
    (tmp_path / "results" / "test" / "new").rmdir()
    assert runs("compare").main([*tables, "ped"]) == 1
    assert "holds no results" in capsys.readouterr().err


def point(policy: str, latency: float, score: float) -> Result:
    quality = {"standard": {"BLEU": Quality(score, "signature")}}
    return Result("m", policy, Scores(1, {"simuleval": {"LAAL": latency}}, quality, 0), "log")


def test_beyond_the_curve_there_is_no_number(runs: Callable[[str], Any]) -> None:
    report, curve = runs("report"), [point("wait-k:k=9,rate=1.0", 8, 30), point("wait-k:k=1,rate=1.0", 2, 20)]
    gains = [report.above(point("pe", lag, 31), curve, "LAAL") for lag in (1.9, 2, 5, 8, 8.1)]
    assert gains == [None, 11, 6, 1, None]
    others = [point(policy, 3, 25) for policy in ("wait-k:k=1,rate=1.2", "wait-k:k=1,rate=1.05", "offline")]
    assert report.fixed([*curve, *others]) == curve


def test_choices_are_made_where_the_curve_reaches_and_others_are_named(
    tmp_path: Path, runs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measure, systems = runs("measure"), runs("systems")
    found = {"wait-k:k=1,rate=1.0": (1, 10), "wait-k:k=9,rate=1.0": (9, 20)}
    found |= {"pe:k=1,rho=0.1,r=2": (5, 16), "pe:k=3,rho=0.1,r=2": (8, 20)}
    found |= {"pe:k=1,rho=0.2,r=2": (5, 15.5), "pe:k=3,rho=0.2,r=2": (15, 25)}
    monkeypatch.setattr(measure, "FIXED", "wait-k:k={1,9}")
    monkeypatch.setattr(measure.Task, "result", lambda task: point(task.spec, *found[task.spec]))
    choose = functools.partial(measure.chosen, tmp_path, systems.System("m", "", ()))
    two, dev = "pe:k={1,3},rho=<0.1,0.2>,r=2", [measure.Set("dev", "d")]
    assert choose(two, dev) == ["pe:k={1,3},rho=0.1,r=2"]
    found |= {"pe:k=1,rho=0.2,r=2": (15, 24)}
    assert choose(two, dev) == ["pe:k={1,3},rho=0.1,r=2"]
    assert "rho=0.2,r=2 is beyond the ends of the wait-k curve and cannot be compared" in capsys.readouterr().out
    found |= {"wait-k:k=9,rate=1.0": (17, 20)}
    assert choose(two, dev) == ["pe:k={1,3},rho=0.2,r=2"], "with a longer curve it can, and it is better"
    found |= {policy: (18, 25) for policy in found if policy.startswith("pe")}
    with pytest.raises(DataError, match="within its wait-k curve"):
        choose(two, dev)


def test_the_wait_k_curve_reaches_as_far_as_slow_policies_do(runs: Callable[[str], Any]) -> None:
    systems = runs("systems")
    assert systems.each(systems.FIXED)[-1] == "wait-k:k=17,rate=1.0"
    assert runs("toy").LAGS[-1] == 17


def test_every_row_of_the_table_means_something(runs: Callable[[str], Any]) -> None:
    systems = runs("systems")
    names = [system.name for system in systems.SYSTEMS]
    assert len(set(names)) == len(names)
    for system in systems.SYSTEMS:
        assert {*system.per_lag, *([system.judges] if system.judges else [])} <= set(names)
        Recipe.load("tiny", system.settings.split())
        for pattern in system.policies:
            plain = pattern.rpartition(" ")[2]
            found = [policy for option in systems.choices(plain) for policy in systems.each(option)]
            assert found == [str(parse(policy)) for policy in found]
            beside = len(systems.choices(plain)) == 1 or systems.FIXED in system.policies
            assert beside, "choices are made beside wait-k"
    drawn = {name for curves in systems.PICTURES.values() for name, _ in curves}
    assert drawn <= {system.label for system in systems.SYSTEMS}


@pytest.mark.parametrize("rule", ["pe:k=2,rho=0.2,r=1000", "weigh:k=2,r=1000,rate=1,rho=0.9"])
def test_a_random_baseline_accepts_as_often_as_asked_and_always_the_same(runs: Callable[[str], Any], rule: str) -> None:
    baseline = runs("random_baseline")
    translator, policy = Translator("toy"), baseline.RandomBaseline(parse(rule), 0.3)
    sources = [pair.source for pair in toy.sentences(30, 5)]
    alone = dict(translator.as_completed(sources, policy, batch=1))
    together = dict(translator.as_completed(sources, policy, batch=64))
    assert {n: t.path for n, t in alone.items()} == {n: t.path for n, t in together.items()}
    views = [SimpleNamespace(written=w, read=r, source_words=["ka"]) for w in range(50) for r in range(50)]
    seen = [baseline.passes(0.3, view) for view in views]
    assert 0.27 < sum(seen) / len(seen) < 0.33
    assert str(policy) in ("random:k=2,p=0.3,r=1000", "random-weigh:k=2,p=0.3,r=1000,rate=1.0")


def test_without_its_judge_weigh_asks_the_probability(runs: Callable[[str], Any]) -> None:
    translator, rule = Translator(ROOT / "models" / "de-en"), parse("weigh:k=1,r=8,rho=0.8,unit=word")
    alone = runs("random_baseline").ByProbability(rule)
    text = "Das Haus, das wir gestern gesehen haben, wollen wir nicht kaufen."
    judged, plain = (next(iter(translator.translate_many([text], policy))).writes for policy in (rule, alone))
    assert [step.read for step in judged] != [step.read for step in plain]
    weighed = [step for step in plain if step.reason.code == "stable"]
    assert weighed
    assert all(step.reason.value == pytest.approx(step.confidence, abs=1e-4) for step in weighed)


@pytest.mark.parametrize("unit", ["token", "word"])
def test_controls_count_as_the_policy_inside(runs: Callable[[str], Any], unit: str) -> None:
    baseline, rule = runs("random_baseline"), parse(f"weigh:k=2,r=4,unit={unit}")
    controls = (watched(rule)[0], baseline.RandomBaseline(rule, 0.5), baseline.ByProbability(rule))
    assert [getattr(control, "unit", None) for control in controls] == [unit] * 3
    translator, [policy] = Translator(ROOT / "models" / "de-en"), [watched(rule)[0]]
    texts = ["Die Kommission hat den Vorschlag gestern angenommen.", "Ich glaube das nicht."]
    seen, plain = ([t.path for t in translator.translate_many(texts, one)] for one in (policy, rule))
    assert seen == plain, "what is watched decides the same"


@pytest.mark.parametrize("rule", ["pe:k=2,rho=0.2,r=1000", "weigh:k=2,r=1000,rate=1,rho=0.9"])
def test_verdicts_are_counted(runs: Callable[[str], Any], rule: str) -> None:
    policy, verdicts = watched(parse(rule))
    found = list(Translator("toy").translate_many([pair.source for pair in toy.sentences(40, 6)], policy))
    open_writes = sum(step.read < t.source_tokens for t in found for step in t.writes)
    share = runs("random_baseline").accepted(parse(rule), verdicts)
    assert share * len(verdicts) == pytest.approx(open_writes), (
        "where a word can wait for ever, all written was accepted"
    )
    assert 0 < share < 1


# the published pages


def test_the_published_tables_are_those_of_the_records(runs: Callable[[str], Any]) -> None:
    made = runs("report").pages()
    there = {path.stem: path.read_text("utf-8") for path in (ROOT / "docs" / "results").glob("*.md")}
    assert there.keys() == made.keys() | {"archive"}, "tables whose records are gone are in archive.md"
    assert [name for name, page in made.items() if there[name] != page] == [], "make them again: python runs/report.py"


def test_the_scores_on_the_card_are_those_of_the_record(runs: Callable[[str], Any]) -> None:
    record = json.loads((ROOT / "runs" / "logs" / "words.json").read_text("utf-8"))
    card = (ROOT / "models" / "de-en" / "MODEL_CARD.md").read_text("utf-8")
    assert f"<!-- scores: begin -->\n{runs('report').word_table(record)}\n<!-- scores: end -->" in card


def test_the_findings_are_short_and_their_tables_are_elsewhere() -> None:
    page = (ROOT / "docs" / "results.md").read_text("utf-8")
    assert len(page.splitlines()) <= 200
    assert "\n|" not in page


def test_what_the_pages_of_results_point_to_is_there_and_no_figure_is_left_over() -> None:
    docs = ROOT / "docs"
    pages = [docs / "results.md", *(docs / "results").glob("*.md")]
    drawn = set()
    for page in pages:
        for link in re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8")):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page.name} points to {link}"
                drawn.add((page.parent / link).resolve())
    others = {"live.svg", "degree.svg", *(path.name for path in (docs / "figures").glob("bench-*"))}  # of other pages
    left = {path.resolve() for path in (docs / "figures").rglob("*.svg")} - drawn
    assert {path.name for path in left} <= others


def test_both_bundled_models_are_analysed() -> None:
    published = {
        f"{path.parent.name}/{path.stem}" for path in (ROOT / "docs" / "figures" / "analyses").glob("*/*.json")
    }
    names = ("degree", "alignment", "overlap", "ablation", "robustness")
    judged = {"de-en/calibration"}  # the toy model has no judge
    ped = {"de-en-ped/alignment", "de-en-ped/degree"}  # that of docs/results/de-en-ped.md, which is not bundled
    assert published == {f"{model}/{name}" for model in ("de-en", "toy") for name in names} | judged | ped


# the paper's data sets


def vietnamese(folder: Path) -> None:
    """The Stanford release: tokenised, cased, entities escaped."""
    english = ["I &apos;m here , and that &apos;s it .", "&quot; Yes , &quot; she said .", "We read it 30 years ago ."]
    other = ["Tôi ở đây , và thế thôi .", "&quot; Vâng , &quot; cô ấy nói .", "Chúng tôi đã đọc nó 30 năm trước ."]
    for name, count in (("train", 20), ("tst2012", 1), ("tst2013", 1)):
        write(folder / f"{name}.en", english * count)
        write(folder / f"{name}.vi", other * count)


def iwslt14(folder: Path) -> None:
    """The official archive: talks with tags, test sets in XML."""
    said = {
        "de": ("Über alles", "Das ist Satz {}, nicht wahr?"),
        "en": ("On everything", "That’s sentence {}, isn't it?"),
    }
    for language, (title, sentence) in said.items():
        head = ["<url>http://www.ted.com/1</url>", "<keywords>talks</keywords>", "<talkid>1</talkid>"]
        body = [f"<title>{title}</title>", *(sentence.format(n) for n in range(60))]
        write(folder / "de-en" / f"train.tags.de-en.{language}", [*head, *body])
        for number, name in enumerate(("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")):
            segment = f'<seg id="1"> {sentence.format(number)} </seg>'
            xml = ['<?xml version="1.0" encoding="UTF-8"?>', "<mteval>", f"<title>{name}</title>", segment, "</mteval>"]
            write(folder / "de-en" / f"IWSLT14.{name}.de-en.{language}.xml", xml)


def wmt15(folder: Path) -> None:
    """Raw and cased; Europarl has empty lines, and a line separator within a line."""
    for name in ("europarl-v7.de-en", "commoncrawl.de-en", "news-commentary-v10.de-en", "newstest2013", "newstest2015"):
        count = 2 if name.startswith("newstest") else 20
        write(folder / f"{name}.de", [*["Die E-Mail kam\u2028an.", "Das Haus, das ich sah, ist grün."] * count, ""])
        write(folder / f"{name}.en", [*["The e-mail\u2028arrived.", "The house that I saw is green."] * count, ""])


EXPECTED = {
    "iwslt15-en-vi": (vietnamese, "text.least=1", "i 'm here"),
    "iwslt14-en-de": (iwslt14, "text.size=70", "that 's sentence 0 , isn 't it ?"),
    "wmt15-de-en": (wmt15, "text.size=70", "Die E @-@ Mail kam an ."),
}


@pytest.mark.usefixtures("here", "table")
@pytest.mark.parametrize("recipe", EXPECTED)
def test_the_papers_sets_from_their_own_formats_to_the_table(
    tmp_path: Path, runs: Callable[[str], Any], recipe: str
) -> None:
    """The script's own commands, one after the other, in this process."""
    make, setting, first = EXPECTED[recipe]
    make(tmp_path / "corpora")
    short = {"SETTINGS": " ".join([*TINY, setting, "data.published=[]"]), "UPDATES": "12", "SYSTEMS": "multi-path"}
    for command in recorded(tmp_path, f"{recipe}.sh", tmp_path / "corpora", **short):
        assert run(runs, command) == 0, command
    data = tmp_path / "data" / recipe
    source = (data / "test.source.txt").read_text(encoding="utf-8").splitlines()
    assert source[0].lower().startswith(first.lower())
    page = (tmp_path / "docs" / "results" / f"{recipe}-comparison.md").read_text(encoding="utf-8")
    assert "| multi-path | `wait-k:k=3,rate=1.0` |" in page
    assert load_results(next((tmp_path / "runs" / recipe / "results" / "test").rglob("results.json")))


def recorded(tmp_path: Path, script: str, *arguments: Path, **environment: str) -> list[list[str]]:
    """What a script would have Python do; THEN is a command that does some of it."""
    log, stub = tmp_path / "commands", tmp_path / "python"
    line = r'$(for word; do printf "%s\037" "$word"; done)'  # told at once: others may tell something, too
    executable(stub, f'printf "%s\\n" "{line}" >>"{log}"\nexec ${{THEN:-true}} "$@"')
    environment = {"PYTHON": str(stub), "AT": str(tmp_path), "PATH": os.environ["PATH"]} | environment
    subprocess.run(
        ["bash", str(ROOT / "runs" / script), *map(str, arguments)], env=environment, check=True, cwd=tmp_path
    )
    return [line.split("\037")[:-1] for line in log.read_text(encoding="utf-8").splitlines()]


def run(runs: Callable[[str], Any], command: list[str]) -> int:
    if command[:2] == ["-m", "bethink"]:
        return cli.main(command[2:])
    result: int = runs(Path(command[0]).stem).main(command[1:])
    return result


def executable(path: Path, does: str) -> Path:
    path.write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


ARCHIVES: dict[str, dict[str, tuple[str, str]]] = {  # what they hold, and in which folder
    "iwslt15-en-vi": {},
    "iwslt14-en-de": {"de-en.tgz": ("de-en/*", "de-en/")},
    "wmt15-de-en": {
        "de-en.tgz": ("europarl-v7.*", "training/"),
        "training-parallel-commoncrawl.tgz": ("commoncrawl.*", ""),
        "training-parallel-nc-v10.tgz": ("news-commentary-v10.*", "training/news/"),
    },
}
CURL = """echo "$2" >>"$WEB.log"
[ $# -lt 4 ] || exec >"$4"
name=${2##*/}
if [ -n "$BREAK" ] && mkdir "$WEB.$name" 2>/dev/null; then head -c "-$BREAK" "$WEB/$name"; exit 18; fi
exec cat "$WEB/$name"
"""
TOOLS = f"""case "$*" in
    runs/iwslt14.py*) exec "{sys.executable}" "$@" ;;
    *sacrebleu*src) exec curl -fLsS "sacrebleu/newstest20${{4#wmt}}.de" ;;
    *sacrebleu*ref) exec curl -fLsS "sacrebleu/newstest20${{4#wmt}}.en" ;;
esac
"""


class Web:
    """A set as it can be downloaded, with stubs that do so by the last part of an address; `wanted` is what shall come of it."""

    def __init__(self, tmp_path: Path, runs: Callable[[str], Any], recipe: str) -> None:
        self.at, self.recipe, self.corpora, self.files = tmp_path, recipe, tmp_path / "corpora", tmp_path / "web"
        EXPECTED[recipe][0](self.files)
        made = self.files
        if recipe == "iwslt14-en-de":
            made = tmp_path / "made"
            made.mkdir()
            assert runs("iwslt14").main([str(self.files / "de-en"), str(made)]) == 0
        self.wanted = contents(made)
        for archive, (pattern, folder) in ARCHIVES[recipe].items():
            with tarfile.open(self.files / archive, "w:gz") as packed:
                packed.addfile(tarfile.TarInfo(f"{folder}another.de"))
                for path in sorted(self.files.glob(pattern)):
                    packed.add(path, folder + path.name)
                    path.unlink()
        (tmp_path / "bin").mkdir()
        executable(tmp_path / "bin" / "curl", CURL)
        executable(tmp_path / "tools", TOOLS)

    def start(self, **environment: str) -> list[list[str]]:
        """What the script has Python do."""
        environment |= {"WEB": str(self.files), "PYTHONPATH": str(ROOT / "src"), "THEN": str(self.at / "tools")}
        environment["PATH"] = f"{self.at / 'bin'}:{os.environ['PATH']}"
        return recorded(self.at, f"{self.recipe}.sh", self.corpora, **environment)

    def downloads(self) -> list[str]:
        return (self.at / "web.log").read_text(encoding="utf-8").splitlines()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("recipe", EXPECTED)
def test_the_papers_sets_are_downloaded_once(tmp_path: Path, runs: Callable[[str], Any], recipe: str) -> None:
    web, data = Web(tmp_path, runs, recipe), Recipe.load(recipe).data
    web.start()
    assert contents(web.corpora) == web.wanted
    assert {path.name for path in find(data, web.corpora)} == web.wanted.keys()
    first = web.downloads()
    addresses = [address for address in first if not address.startswith("sacrebleu/")]
    assert all(address in data.origin or address.rpartition("/")[0] in data.origin for address in addresses)
    (tmp_path / "commands").unlink()
    assert {tuple(command[:2]) for command in web.start()} <= {("-m", "bethink")} | {
        ("runs/compare.py", verb) for verb in ("train", "judge", "evaluate", "tables")
    }
    assert web.downloads() == first


@pytest.mark.parametrize("left_out", [1, 30])
@pytest.mark.parametrize("recipe", EXPECTED)
def test_what_was_downloaded_in_part_is_not_taken_for_whole(
    tmp_path: Path, runs: Callable[[str], Any], recipe: str, left_out: int
) -> None:
    web = Web(tmp_path, runs, recipe)
    for _ in contents(web.files):  # each of which breaks off the first time
        with pytest.raises(subprocess.CalledProcessError):
            web.start(BREAK=str(left_out))
        there = {name: found for name, found in contents(web.corpora).items() if name in web.wanted}
        assert there.items() <= web.wanted.items()
    web.start(BREAK=str(left_out))
    assert contents(web.corpora) == web.wanted


def heard(folder: Path) -> None:
    """What runs/de-en.sh draws sentences from, and where it puts them."""
    for name in ("europarl", "tatoeba"):
        write(folder / "de-en" / f"{name}.train.de", [f"{name} {n}" for n in range(9)])
    (folder / "data" / "de-en").mkdir(parents=True)


def test_the_german_script_can_be_started_again_and_leaves_the_bundled_model_alone(tmp_path: Path) -> None:
    heard(tmp_path)
    (tmp_path / "models" / "de-en").mkdir(parents=True)
    first = recorded(tmp_path, "de-en.sh", tmp_path)
    assert sum(command[2:3] == ["export"] for command in first) == 1
    assert not [word for command in first for word in command if word.startswith(str(tmp_path / "models"))]
    assert sorted((tmp_path / "data" / "de-en").iterdir()) == [tmp_path / "data" / "de-en" / "heard.de"]
    (tmp_path / "runs" / "de-en" / "bundled").mkdir(parents=True)
    (tmp_path / "commands").unlink()
    again = recorded(tmp_path, "de-en.sh", tmp_path)
    assert again == [command for command in first if command[2:3] != ["export"]]


@pytest.mark.parametrize("script", ["de-en", "en-de", "en-vi"])
def test_our_scripts_give_commands_that_are_understood(tmp_path: Path, runs: Callable[[str], Any], script: str) -> None:
    heard(tmp_path)
    commands = recorded(tmp_path, f"{script}.sh", tmp_path)
    comparing = [runs("compare").options().parse_args(c[1:]) for c in commands if c[0] == "runs/compare.py"]
    assert [args.do.__name__ for args in comparing][:4] == ["train", "judge", "evaluate", "tables"]
    assert {len(args.dev) * len(args.test) > 0 for args in comparing if args.do.__name__ == "evaluate"} == {True}
    prepared = next(c for c in commands if c[:3] == ["-m", "bethink", "prepare"])
    settings = [word for word in prepared[4:] if "=" in word]
    assert Recipe.load(prepared[3], settings).data.train


@pytest.mark.parametrize(
    ("script", "verbs"),
    [
        ("de-en-live", ["prepare", "train", "distill", "train", "train", "export", "judge"]),
        ("de-en-further", ["prepare", "train", "average", "export", "judge"]),
    ],
)
def test_the_bundled_model_is_taught_trained_and_judged(
    tmp_path: Path, runs: Callable[[str], Any], script: str, verbs: list[str]
) -> None:
    """The script's own commands, with a small model in place of the bundled one."""
    data = Recipe.load("de-en-live").data
    lines = [" ".join(random.Random(seed).choices("abcdefgh", k=4 + seed % 5)) + " ." for seed in range(60)]
    for name in (*data.train, *data.dev):
        for side in ("de", "en"):
            write(
                tmp_path / "corpora" / f"{name}.{side}",
                lines if name in data.dev else [f"{name} {line}" for line in lines],
            )
    write(tmp_path / "corpora" / "mono.de", lines[:9])
    small, base = [*TINY, "text.size=300"], tmp_path / "base"
    for verb, *more in (
        ["prepare", "--data", str(tmp_path / "corpora"), "--out", str(tmp_path / "first")],
        ["train", "--data", str(tmp_path / "first"), "--run", str(base)],
    ):
        assert cli.main([verb, "de-en-live", *small, *more]) == 0
    short = {"SETTINGS": " ".join(small), "FROM": str(base / "model"), "LINES_JUDGED": "40"}
    commands = recorded(tmp_path, f"{script}.sh", tmp_path / "corpora", **short)
    assert [command[2] for command in commands] == verbs
    for command in commands:
        assert run(runs, command) == 0, command
    assert Folder.open(tmp_path / "runs" / script / "judged").model.judge


def test_a_curve_gains_over_another_what_its_points_do(runs: Callable[[str], Any]) -> None:
    gain = runs("curve_gain")

    def curve(*points: tuple[float, float]) -> list[Any]:
        """The same in every sample, by every measure."""
        return [gain.Point(np.full(3, score), np.full((3, 3), lag)) for lag, score in points]

    base = curve((6, 30), (2, 20), (4, 26))
    flat = gain.gains(curve((1, 31), (9, 31)), base)
    assert set(flat) == {"AL", "LAAL", "DAL"}
    # above the base from 2 to 6: its mean there is (20 + 26) / 4 + (26 + 30) / 4
    assert flat["AL"] == gain.Gain(31 - 25.5, 31 - 25.5, 31 - 25.5)
    assert gain.gains(base, base)["DAL"] == gain.Gain(0, 0, 0)
    assert gain.gains(curve((5.8, 31), (9, 31)), base)["AL"] is None, "a fifth of a word is too little to say"
    shaky = [gain.Point(np.array([31.0, 30, 34]), point.lags) for point in curve((2, 0), (6, 0))]
    found = gain.gains(shaky, base)["LAAL"]
    assert (found.mean, round(found.low, 1), round(found.high, 1)) == (5.5, 4.6, 8.4)


def test_a_curve_saves_the_words_by_which_it_is_faster_at_equal_bleu(runs: Callable[[str], Any]) -> None:
    gain = runs("curve_gain")
    base, faster = (
        [gain.Point(np.full(3, bleu), np.full((3, 3), lag)) for lag, bleu in points]
        for points in ([(6.0, 30.0), (2.0, 20.0)], [(3.5, 30.0), (1.5, 22.0)])
    )
    # from 22 to 30 BLEU: 2.8 to 6 words of the one, 1.5 to 3.5 of the other
    assert gain.saved(faster, base)["LAAL"].mean == pytest.approx((2.8 + 6) / 2 - (1.5 + 3.5) / 2)
    better = [gain.Point(np.full(3, bleu), np.full((3, 3), lag)) for lag, bleu in ((2.0, 30.2), (6.0, 34.0))]
    assert gain.saved(better, base)["LAAL"] is None, "they have no BLEU in common"


def test_two_models_are_put_against_each_other(
    tmp_path: Path, runs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    against, translator = runs("against"), Translator(ROOT / "models" / "toy")
    monkeypatch.setattr(against, "ROOT", tmp_path)
    write(tmp_path / "runs" / "logs" / "experiments.json", ['{"mine": {"title": "Mine", "about": "Of us."}}'])
    pairs = list(toy.sentences(8, 3))
    for name, policies in (("new", ("wait-k:2", "wait-k:5", "offline")), ("old", ("wait-k:1", "wait-k:4", "pe:k=1"))):
        for policy in policies:
            out = tmp_path / "results" / "dev" / name / policy
            evaluate(translator, [p.source for p in pairs], [p.target for p in pairs], [parse(policy)], out)
    against.main("mine", str(tmp_path / "results"), "new", "old")
    found = json.loads((tmp_path / "runs" / "logs" / "experiments.json").read_text("utf-8"))["mine"]
    assert (found["title"], found["about"], len(found["points"])) == ("Mine", "Of us.", 6)
    [one] = found["gains"]
    assert (one["curve"], one["over"]) == ("new: wait-k", "old: wait-k")
    assert set(one["by"]) == {f"{name}{what}" for name in ("AL", "LAAL", "DAL") for what in ("", " saved")}


def test_where_nothing_is_said_there_is_no_gain(runs: Callable[[str], Any]) -> None:
    gain = runs("curve_gain")
    base = [gain.Point(np.full(3, score), np.full((3, 3), lag)) for lag, score in ((2.0, 20.0), (6.0, 30.0))]
    silent = gain.Point(np.full(3, np.nan), np.full((3, 3), 4.0))
    assert gain.gains([*base, silent], base) == {"AL": None, "LAAL": None, "DAL": None}


def test_a_sample_of_all_sentences_scores_as_the_whole_set_does(tmp_path: Path, runs: Callable[[str], Any]) -> None:
    gain, translator = runs("curve_gain"), Translator(ROOT / "models" / "toy")
    pairs = list(toy.sentences(12, 7))
    sources, references = [""] + [p.source for p in pairs], ["ka"] + [p.target for p in pairs]
    [result] = evaluate(translator, sources, references, [parse("wait-k:2")], tmp_path)
    drawn = gain.samples(len(sources), 5)
    assert drawn.sum(axis=1).tolist() == [len(sources)] * 6
    for profile in ("paper", "standard"):
        point = gain.point(tmp_path / result.log, drawn, profile)
        assert point.bleu[0] == pytest.approx(result.scores.quality[profile]["BLEU"].score)
        assert len(set(point.bleu.tolist())) > 1
    assert point.lags[0] == pytest.approx([result.scores.latency["simuleval"][name] for name in gain.MEASURES])


def test_made_pairs_negate_both_sides_or_none(runs: Callable[[str], Any], tmp_path: Path) -> None:
    made = runs("made_pairs")
    made.main(str(tmp_path))
    german, english = ((tmp_path / f"made.{side}").read_text("utf-8").splitlines() for side in ("de", "en"))
    assert len(german) == len(english) > 8000
    pairs = list(zip(german, english, strict=True))
    # "erst um neun" is "not until nine", and "muss nicht" the opposite of "must": all other negations have a word on both sides
    odd = [pair for pair in pairs if ("nicht" in pair[0]) != bool(re.search(r"\bnot\b|cannot", pair[1]))]
    assert all("erst um" in left for left, _ in odd)
    assert sum("to not" in right for _, right in pairs) > 100
    assert made.in_words(1) == ("ein", "one")
    assert made.in_words(999_101) == (
        "neunhundertneunundneunzigtausendeinhundertein",
        "nine hundred and ninety-nine thousand one hundred and one",
    )
    assert {right.count("half past twelve") for left, right in pairs if "halb eins" in left} == {1}


def test_made_pairs_are_good_german_and_english(runs: Callable[[str], Any]) -> None:
    pairs = set(runs("made_pairs").made(8000))
    late = re.compile(r"has (not )?(?!to\b).*(only|after the vote|before the weekend|in summer)")  # did, not has
    assert not [right for _, right in pairs if late.search(right) or right.startswith("None of us must")]
    assert not [
        left
        for left, _ in pairs
        if re.search(r"(ins Büro|in den Bus) (heute|nicht|erst|trotz)|\beine \w+ .*nicht", left)
    ]
    assert not [left for left, _ in pairs if re.match(r"(Der|Das|Die) (Zug|Regen|Konzert|Dach) (will|möchte) ", left)]
