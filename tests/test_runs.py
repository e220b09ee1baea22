"""The scripts that make the published results: a comparison from training to tables, and the paper's data sets in their own formats."""

from __future__ import annotations

import functools
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from bethink import cli, toy
from bethink.errors import DataError
from bethink.evaluate import Result, Scores, evaluate, load_results
from bethink.evaluate.quality import Quality
from bethink.export.restore import load_any
from bethink.folder import WEIGHTS, Folder, sha256
from bethink.model.weights import load_tensors, unique_tensors
from bethink.policy import RULES, parse
from bethink.train.corpora import find
from bethink.train.recipe import Recipe
from bethink.translator import Translator

ROOT = Path(__file__).parents[1]
TINY = """model.width=16 model.hidden=16 model.heads=2 model.encoder_layers=1 model.decoder_layers=1 model.capsules.width=8
model.capsules.hidden=8 train.tokens=300 train.buckets=1 train.warmup=2 train.updates=12 train.log=4 train.save=12 train.validate=12
train.average=1 train.tensorboard=false""".split()


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Imports a script, for this test alone, and the policy it adds."""
    monkeypatch.syspath_prepend(str(ROOT / "runs"))
    before, rules = set(sys.modules), dict(RULES)
    yield importlib.import_module
    for name in RULES.keys() - rules:
        del RULES[name]
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "").parent == ROOT / "runs":
            del sys.modules[name]


@pytest.fixture
def here(runs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Training, which has a process of its own, stays in this one, where the heavy imports are done."""
    monkeypatch.setattr(runs("compare"), "bethink", lambda command, _: cli.main(command))


@pytest.fixture
def table(runs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of systems, cut down to what shows every kind of row."""
    systems = runs("systems")
    fixed, pe, weigh = "wait-k:k={1,3,9}", "pe:k={1,3},rho=<0.001,0.9>,r=2", "weigh:k=1,r=3,rate=1.2,rho=0.5"
    rows = (
        systems.System("wait-1", "system=wait-k paths.k=1", ("wait-k:k=1",), curve="wait-k"),
        systems.System("multi-path", "system=multi-path", (fixed, "offline"), finals=(fixed,)),
        systems.System("bank", "", ("adaptive:rho_1=0.2,rho_k=0,k_max=10",), bank=("wait-1", "wait-3")),
        systems.System("ped", "system=ped", (fixed, pe, f"random {pe}"), cost=2),
        systems.System("judged", "", (weigh, f"random {weigh}"), judges="ped"),
    )
    monkeypatch.setattr(runs("compare"), "SYSTEMS", rows)
    monkeypatch.setattr(runs("measure"), "FIXED", fixed)
    monkeypatch.setattr(runs("measure"), "PAUSE", 0.05)
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


def test_a_shipped_model_becomes_a_trunk_that_has_nothing_only_some_systems_have(
    tmp_path: Path, runs: Callable[[str], Any]
) -> None:
    model, work = ROOT / "models" / "toy", tmp_path / "work"
    assert runs("compare").main(["trunk", str(work), "--like", str(model)]) == 0
    trunk = Folder.open(work / "trunk")
    assert Folder.open(model).model.capsules is not None
    assert trunk.model.capsules is None
    shipped = unique_tensors(load_any(Folder.open(model)))
    taken = load_tensors(trunk.path / WEIGHTS)
    assert all(torch.equal(tensor, shipped[name]) for name, tensor in taken.items())
    left = {name for name in shipped if name.startswith(("capsules.", "output_norm."))}  # the latter follows capsules
    assert shipped.keys() - taken.keys() == left
    assert Translator(trunk.path).translate("te riki nakoru .")  # something else than with capsules, but it can speak
    before = (trunk.path / WEIGHTS).stat().st_mtime_ns
    assert runs("compare").main(["trunk", str(work), "--like", str(model)]) == 0
    assert (trunk.path / WEIGHTS).stat().st_mtime_ns == before, "what is there is left alone"


@pytest.mark.usefixtures("here", "table")
def test_a_comparison_from_training_to_tables(
    tmp_path: Path, runs: Callable[[str], Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compare, work, data = runs("compare").main, tmp_path / "work", tmp_path / "data"
    assert cli.main(["prepare", "tiny", "data.toy=300", "--out", str(data)]) == 0
    systems = ["--systems", "multi-path", "ped"]
    training = ["train", str(work), "tiny", *TINY, "--data", str(data), *systems]

    assert compare([*training, "--seconds", "0.5", "--plan"]) == 0
    assert "still to do: 18 s" in capsys.readouterr().out  # 12 updates of half a second, and 12 that take twice as long
    assert compare([*training, "--seconds", "0.5", "--within", "9"]) == 0
    assert "ped: left for another day" in capsys.readouterr().out
    first = (work / "multi-path" / "cost.json").stat().st_mtime_ns
    assert compare(training) == 0
    assert (work / "multi-path" / "cost.json").stat().st_mtime_ns == first, "what is done is not done again"
    cost = json.loads((work / "ped" / "cost.json").read_text())
    assert cost["updates"] == 12
    assert cost["seconds"] > 0 < cost["tokens/s"]

    text = write(tmp_path / "text", [pair.source for pair in toy.sentences(30, 3)])
    assert compare(["judge", str(work), "--source", text, "--lines", "30"]) == 0
    assert (work / "judged" / "cost.json").is_file()

    for name in ("wait-1", "wait-3"):  # a bank asks models of one vocabulary; whose they are does not matter here
        (work / name).symlink_to(work / "multi-path")
    sets = ["--dev", *held_out(tmp_path, "seen", 1), "--test", *held_out(tmp_path, "new", 2)]
    assert compare(["evaluate", str(work), *sets]) == 0
    results = work / "results"
    tried = {path.name for path in (results / "dev" / "seen" / "ped").iterdir()}
    assert {"pe_k=1_rho=0.001_r=2", "pe_k=1_rho=0.9_r=2"} < tried, "development sets see all choices"
    met = {path.name for path in (results / "test" / "new" / "ped").iterdir()}
    assert len([name for name in met if name.startswith("pe_")]) == 2, "test sets see one of them"
    assert len([name for name in met if name.startswith("random_")]) == 2
    assert len(list((results / "test" / "new" / "bank").iterdir())) == 1
    assert sorted(path.name.partition("_")[0] for path in (results / "test" / "new" / "judged").iterdir()) == [
        "random-weigh",
        "weigh",
    ]
    plain = {role: {path.name for path in (results / role).glob("*/multi-path/*")} for role in ("dev", "test")}
    assert plain["dev"] - plain["test"] == {"offline"}, "test sets meet only what is to be reported"
    before = {path: path.stat().st_mtime_ns for path in results.rglob("results.json")}
    assert compare(["evaluate", str(work), *sets]) == 0
    assert before == {path: path.stat().st_mtime_ns for path in results.rglob("results.json")}

    small = tmp_path / "small"
    small.mkdir()

    def train(_: float) -> None:
        if not (small / "multi-path").exists():
            (small / "multi-path").symlink_to(work / "multi-path")
        else:
            training.kill()
            training.wait()

    monkeypatch.setattr(runs("measure").time, "sleep", train)  # while there is nothing to do
    evaluating = ["evaluate", str(small), *sets, "--systems", "multi-path"]
    training = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    assert compare([*evaluating, "wait-1", "--beside", str(training.pid)]) == 0
    assert len(list((small / "results").rglob("results.json"))) == 7, "what was trained meanwhile is evaluated, too"
    told = capsys.readouterr().out
    assert "waiting for wait-1, multi-path" in told
    assert "wait-1: not evaluated, since there is no model in wait-1" in told, "training has come to its end"
    shutil.rmtree(small / "results")
    measure = runs("measure").measure

    def fragile(task: Any, machine: Any) -> str:
        if task.policy == "offline":
            raise MemoryError("too little")
        return str(measure(task, machine))

    monkeypatch.setattr(runs("measure"), "measure", fragile)
    assert compare(evaluating) == 1
    assert "failed: seen multi-path offline: MemoryError: too little" in capsys.readouterr().err
    assert len(list((small / "results").rglob("results.json"))) == 6, "one that fails leaves the others alone"
    monkeypatch.setattr(runs("measure"), "measure", measure)

    small = tmp_path / "smaller"
    shutil.copytree(work / "multi-path", small / "multi-path")
    assert compare(["evaluate", str(small), *sets, *systems, "--int8"]) == 0
    assert Folder.open(small / "multi-path" / "int8").about["precision"] == "int8"
    made = json.loads(next((small / "results").rglob("made.json")).read_text())["model multi-path"]
    assert made == sha256(small / "multi-path" / "int8" / "config.json")

    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "results.md").write_text("# Results\n")
    assert compare(["tables", str(work), "--name", "toy", "--root", str(tmp_path)]) == 0
    assert compare(["tables", str(work), "--name", "end", "--root", str(tmp_path), "--final"]) == 0
    told = json.loads((tmp_path / "runs" / "logs" / "end.json").read_text())
    assert [one["name"] for one in told["sets"]] == ["new"], "settings are chosen on the other set, and it is not told"
    page = (tmp_path / "docs" / "results.md").read_text()
    assert page.startswith("# Results\n")
    assert "| ped | `pe:k=1,rho=" in page
    assert "tok:13a" in page
    assert "Paired bootstrap" in page
    assert "<svg" in (tmp_path / "docs" / "figures" / "toy-new-systems.svg").read_text()
    assert (tmp_path / "runs" / "logs" / "toy-ped.jsonl").read_bytes() == (work / "ped" / "log.jsonl").read_bytes()
    record = tmp_path / "runs" / "logs" / "toy.json"
    tried = {(one["model"], one["policy"]) for one in json.loads(record.read_text())["sets"][0]["tried"]}
    assert {("ped", "pe:k=1,rho=0.001,r=2"), ("ped", "pe:k=1,rho=0.9,r=2")} < tried, "what was not chosen is kept, too"
    runs("report").publish(json.loads(record.read_text()), "toy", tmp_path)
    assert (tmp_path / "docs" / "results.md").read_text() == page, "the record alone makes the same page"


@pytest.mark.usefixtures("here", "table")
def test_what_was_made_with_something_else_is_not_taken(
    tmp_path: Path, runs: Callable[[str], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    compare, work, data = runs("compare").main, tmp_path / "work", tmp_path / "data"
    cli.main(["prepare", "tiny", "data.toy=50", "--out", str(data)])
    only = ["--systems", "multi-path"]
    training = ["train", str(work), "tiny", *TINY, "--data", str(data), *only]
    assert compare([*training, "--updates", "2"]) == 0
    assert compare([*training, "--updates", "2", "--plan"]) == 0
    assert compare([*training[:3], "train.split=2", *training[3:], "--updates", "2"]) == 0, "that changes no update"
    assert compare([*training, "--updates", "3"]) == 1
    assert "multi-path was trained otherwise (train.updates: 2 → 3)" in capsys.readouterr().err
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


def test_what_is_asked_for_on_the_command_line_is_what_branches_get(runs: Callable[[str], Any]) -> None:
    compare = runs("compare")
    wanted = ["train.updates=50000", "train.rate=0.001", "train.warmup=4000", "model.dropout=0.3"]
    asked = ["train", "w", "tiny", *wanted, "--data", "d", "--from", "t", "--updates", "3000"]
    [system] = [system for system in compare.SYSTEMS if system.name == "aligned"]
    found = Recipe.load("tiny", compare.settings(system, compare.options().parse_args(asked)))
    assert (found.train.updates, found.train.rate, found.train.warmup) == (3000, 0.001 * compare.SHARE, 200)
    assert (found.model.dropout, found.system) == (0.3, "aligned")


@pytest.mark.usefixtures("table")
def test_systems_in_lanes_are_trained_at_the_same_time(
    tmp_path: Path, runs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compare, together = runs("compare"), threading.Barrier(2, timeout=10)
    monkeypatch.setattr(compare, "train_one", lambda system, _: together.wait() < 2 and system.name != "ped")
    training = ["train", str(tmp_path), "tiny", "--data", "d", "--lanes", "2", "--systems", "multi-path", "ped"]
    assert compare.main(training) == 1
    assert "failed: ped;" in capsys.readouterr().err


@pytest.mark.usefixtures("table")
def test_whoever_stops_the_training_wants_no_other_system_begun(
    tmp_path: Path, runs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    compare, begun = runs("compare"), []

    def train_one(system: Any, _: Any) -> bool:
        begun.append(system.name)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.5)  # the trainer, told too, takes a moment to end
        return False

    monkeypatch.setattr(compare, "train_one", train_one)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # started in the background, Python has none
    try:
        assert compare.main(["train", str(tmp_path), "tiny", "--data", "d", "--systems", "multi-path", "ped"]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert begun == ["multi-path"]


def test_what_is_told_to_end_ends_its_trainer(
    tmp_path: Path, runs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    compare, trainer = runs("compare"), tmp_path / "trainer"
    trainer.write_text("#!/bin/sh\nexec sleep 60\n")
    trainer.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(trainer))
    with (tmp_path / "told").open("w") as told, ThreadPoolExecutor(1) as beside:
        ended = beside.submit(compare.bethink, ["train"], told)
        while not compare.CHILDREN:
            time.sleep(0.001)
        with pytest.raises(KeyboardInterrupt):
            compare.stop()
        assert ended.result(timeout=30) == -signal.SIGTERM
    assert not compare.CHILDREN


@pytest.mark.usefixtures("table")
def test_a_judge_waits_for_what_it_is_to_judge(
    tmp_path: Path, runs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compare, base = runs("compare"), tmp_path / "ped" / "cost.json"
    judged = tmp_path / "judged" / "cost.json"
    judging = ["judge", str(tmp_path), "--source", "text"]
    monkeypatch.setattr(compare, "bethink", lambda *_: judged.parent.mkdir() or int(not base.is_file()))
    assert compare.main(judging) == 0
    assert "judged: left out, since ped is not trained" in capsys.readouterr().out
    assert not judged.exists()

    monkeypatch.setattr(runs("measure").time, "sleep", lambda _: write(base, ["{}"]))  # it is trained meanwhile
    assert compare.main([*judging, "--beside", str(os.getpid())]) == 0
    assert "waiting for ped" in capsys.readouterr().out
    assert json.loads(judged.read_text())["seconds"] >= 0


@pytest.mark.usefixtures("table")
def test_tables_tell_what_they_lack(
    tmp_path: Path, runs: Callable[[str], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results" / "test" / "new").mkdir(parents=True)
    tables = ["tables", str(tmp_path), "--name", "x", "--root", str(tmp_path), "--systems"]
    assert runs("compare").main([*tables, "wait-1", "multi-path"]) == 1
    assert "new has no results of wait-1, multi-path" in capsys.readouterr().err
    (tmp_path / "results" / "test").rename(tmp_path / "results" / "dev")
    assert runs("compare").main([*tables, "ped", "--final"]) == 1
    assert "holds no results of test sets" in capsys.readouterr().err
    (tmp_path / "results" / "dev").rename(tmp_path / "results" / "test")
    assert runs("compare").main([*tables, "ped"]) == 1
    assert "no development set to make them on; give one with: compare.py evaluate --dev" in capsys.readouterr().err


def point(policy: str, latency: float, score: float) -> Result:
    quality = {"standard": {"BLEU": Quality(score, "signature")}}
    return Result("m", policy, Scores(1, {"simuleval": {"LAAL": latency}}, quality, 0), "log")


def test_beyond_the_curve_there_is_no_number(runs: Callable[[str], Any]) -> None:
    tables, curve = runs("tables"), [point("wait-k:k=9,rate=1.0", 8, 30), point("wait-k:k=1,rate=1.0", 2, 20)]
    heights = [
        tables.above(point("pe", lag, 31), curve, tables.lag("simuleval", "LAAL"), tables.bleu("standard"))
        for lag in (1.9, 2, 5, 8, 8.1)
    ]
    assert heights == [None, 11, 6, 1, None]
    others = [point(policy, 3, 25) for policy in ("wait-k:k=1,rate=1.2", "wait-k:k=1,rate=1.05", "offline")]
    assert tables.fixed([*curve, *others]) == curve


def test_choices_are_made_where_the_curve_reaches(
    tmp_path: Path, runs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    measure, systems = runs("measure"), runs("systems")
    found = {"wait-k:k=1,rate=1.0": (1, 10), "wait-k:k=9,rate=1.0": (9, 20)}
    found |= {"pe:k=1,rho=0.1,r=2": (5, 16), "pe:k=3,rho=0.1,r=2": (8, 20)}
    found |= {"pe:k=1,rho=0.2,r=2": (5, 15.5), "pe:k=3,rho=0.2,r=2": (15, 25)}  # slow, not good
    monkeypatch.setattr(measure, "FIXED", "wait-k:k={1,9}")
    monkeypatch.setattr(measure.Task, "result", lambda task: point(task.policy, *found[task.policy]))
    choose = functools.partial(measure.chosen, tmp_path, systems.System("m", "", ()), "pe:k={1,3},rho=<0.1,0.2>,r=2")
    assert choose([measure.Test("dev", "d")]) == "pe:k={1,3},rho=0.1,r=2"
    found |= {"pe:k=1,rho=0.2,r=2": (5, 19), "pe:k=5,rho=0.1,r=2": (8, 20), "pe:k=5,rho=0.2,r=2": (16, 26)}
    three = functools.partial(measure.chosen, tmp_path, systems.System("m", "", ()), "pe:k={1,3,5},rho=<0.1,0.2>,r=2")
    assert three([measure.Test("dev", "d")]) == "pe:k={1,3,5},rho=0.1,r=2", "one high point of three says little"
    found |= {policy: (15, 25) for policy in found if policy.startswith("pe")}
    with pytest.raises(DataError, match="within its wait-k curve"):
        choose([measure.Test("dev", "d")])


def test_the_table_of_the_toy_language_is_that_of_its_record(runs: Callable[[str], Any]) -> None:
    record = json.loads((ROOT / "runs" / "logs" / "toy.json").read_text("utf-8"))
    made = runs("toy").report([Result.from_dict(result) for result in record["mean"]], record["seeds"])
    assert f"<!-- toy: begin -->\n{made}\n<!-- toy: end -->" in (ROOT / "docs" / "results.md").read_text("utf-8")


@pytest.mark.parametrize("name", ["de-en-comparison", "de-en-final", "en-de-comparison", "en-vi-comparison"])
def test_a_comparison_is_that_of_its_record(tmp_path: Path, runs: Callable[[str], Any], name: str) -> None:
    record = json.loads((ROOT / "runs" / "logs" / f"{name}.json").read_text("utf-8"))
    runs("report").publish(record, name, tmp_path)
    made = (tmp_path / "docs" / "results.md").read_text("utf-8").strip()
    assert made in (ROOT / "docs" / "results.md").read_text("utf-8")


def test_models_travel_in_parts(tmp_path: Path, runs: Callable[[str], Any]) -> None:
    compare, work, home = runs("compare").main, tmp_path / "work", tmp_path / "home"
    data = tmp_path / "data"
    cli.main(["prepare", "tiny", "data.toy=50", "--out", str(data)])
    assert compare(["train", str(work), "tiny", *TINY, "--data", str(data), "--systems", "ped", "--updates", "2"]) == 0
    for how in ("", "--int8"):
        parts = tmp_path / f"parts{how}"
        assert compare(["ship", str(work), "--to", str(parts), "--size", "0.05", *how.split()]) == 0
        assert len(list(parts.glob("ped.tar.*"))) > 1
        assert runs("pack").main(["unpack", str(parts / "ped.sha256"), "--to", f"{home}{how}"]) == 0
        assert Path(f"{home}{how}", "ped", "log.jsonl").read_bytes() == (work / "ped" / "log.jsonl").read_bytes()
        assert Translator(f"{home}{how}/ped").translate("ka")
    half, whole = (Folder.open(place / "ped" / "model").path / WEIGHTS for place in (home, work))
    assert half.stat().st_size < 0.6 * whole.stat().st_size


def test_a_damaged_part_is_named(
    tmp_path: Path, runs: Callable[[str], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    pack, parts = runs("pack"), tmp_path / "parts"
    (tmp_path / "what").mkdir()
    (tmp_path / "what" / "noise").write_bytes(os.urandom(3000))
    hashes = pack.pack(tmp_path / "what", parts, 1000)
    assert pack.unpack(hashes, tmp_path / "new") == tmp_path / "new" / "what"
    assert (tmp_path / "new" / "what" / "noise").read_bytes() == (tmp_path / "what" / "noise").read_bytes()
    assert all(part.stat().st_size <= 1000 for part in parts.glob("*.tar.*"))
    (parts / "what.tar.01").write_bytes(b"?")
    assert pack.main(["unpack", str(hashes), "--to", str(tmp_path / "again")]) == 1
    assert "what.tar.01 is not what was packed" in capsys.readouterr().err
    (parts / "what.tar.01").unlink()
    with pytest.raises(DataError, match=r"what.tar.01 is missing"):
        pack.unpack(hashes, tmp_path / "again")
    assert not (tmp_path / "again" / "what").exists()


def test_every_row_of_the_table_means_something(runs: Callable[[str], Any]) -> None:
    systems = runs("systems")
    names = [system.name for system in systems.SYSTEMS]
    assert len(set(names)) == len(names)
    for system in systems.SYSTEMS:
        assert set(system.bank) <= set(names)
        Recipe.load("tiny", system.settings.split())
        for pattern in system.policies:
            plain = pattern.removeprefix("random ")
            found = [policy for option in systems.choices(plain) for policy in systems.each(option)]
            assert found == [str(parse(policy)) for policy in found]
            assert len(systems.choices(plain)) == 1 or systems.FIXED in system.policies, (
                "choices are made beside wait-k"
            )
    drawn = {name for lines in (*systems.PICTURES.values(), systems.RIVALS) for name, _ in lines}
    assert drawn <= {system.label for system in systems.SYSTEMS}


@pytest.mark.parametrize("policy", ["random:k=2,p=0.3,r=1000", "random-weigh:k=2,p=0.3,r=1000"])
def test_lots_are_drawn_as_often_as_asked_and_always_the_same(runs: Callable[[str], Any], policy: str) -> None:
    verdicts = runs("verdicts")
    translator = verdicts.Lots("toy")
    sources = [pair.source for pair in toy.sentences(30, 5)]
    alone = dict(translator.as_completed(sources, policy, batch=1))
    together = dict(translator.as_completed(sources, policy, batch=64))
    assert {n: t.path for n, t in alone.items()} == {n: t.path for n, t in together.items()}
    seen = [verdicts.drawn(0.3, 7, SimpleNamespace(written=w, read=r)) for w in range(50) for r in range(50)]
    assert 0.27 < sum(seen) / len(seen) < 0.33


@pytest.mark.parametrize("policy", ["pe:k=2,rho=0.2,r=1000", "weigh:k=2,r=1000,rate=1,rho=0.9"])
def test_verdicts_are_counted(runs: Callable[[str], Any], policy: str) -> None:
    counted = runs("verdicts").Counted(parse(policy))
    found = list(Translator("toy").translate_many([pair.source for pair in toy.sentences(40, 6)], counted))
    open_writes = sum(step.read < t.source_tokens for t in found for step in t.writes)
    assert counted.verdicts[True] == open_writes, "where a word can wait for ever, all that is written was accepted"
    assert 0 < counted.accepted < 1


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
    short = {"SETTINGS": " ".join([*TINY, setting, "data.published=[]"]), "BRANCH": "12", "SYSTEMS": "multi-path"}
    for command in recorded(tmp_path, f"{recipe}.sh", tmp_path / "corpora", **short):
        assert run(runs, command) == 0, command
    data = tmp_path / "data" / recipe
    source = (data / "test.source.txt").read_text(encoding="utf-8").splitlines()
    assert source[0].lower().startswith(first.lower())
    page = (tmp_path / "docs" / "results.md").read_text(encoding="utf-8")
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
    (tmp_path / "runs" / "de-en" / "shipped").mkdir(parents=True)
    (tmp_path / "commands").unlink()
    again = recorded(tmp_path, "de-en.sh", tmp_path)
    assert again == [command for command in first if command[2:3] != ["export"]]


@pytest.mark.parametrize("script", ["de-en", "en-de", "en-vi"])
def test_our_scripts_give_commands_that_are_understood(tmp_path: Path, runs: Callable[[str], Any], script: str) -> None:
    heard(tmp_path)
    commands = recorded(tmp_path, f"{script}.sh", tmp_path)
    comparing = [runs("compare").options().parse_args(c[1:]) for c in commands if c[0] == "runs/compare.py"]
    assert [args.do.__name__ for args in comparing][-4:] == ["train", "judge", "evaluate", "tables"]
    assert {len(args.dev) * len(args.test) > 0 for args in comparing if args.do.__name__ == "evaluate"} == {True}
    prepared = next(c for c in commands if c[:3] == ["-m", "bethink", "prepare"])
    settings = [word for word in prepared[4:] if "=" in word]
    assert Recipe.load(prepared[3], settings).data.train


def texts(folder: Path) -> None:
    """What the scripts that go on with a trained model draw sentences from, and where they put them."""
    names = ("europarl.train", "tatoeba.train", "newstest2013", "newstest2015")
    for name in (f"{name}.{side}" for name in names for side in ("de", "en")):
        write(folder / "de-en" / name, [f"{name} {n}" for n in range(600)])
    (folder / "data" / "de-en-part").mkdir(parents=True)


def test_the_comparison_goes_on_with_the_bundled_model_and_a_part_of_the_text(
    tmp_path: Path, runs: Callable[[str], Any]
) -> None:
    texts(tmp_path)
    commands = recorded(tmp_path, "de-en-comparison.sh", tmp_path)
    comparing = [runs("compare").options().parse_args(command[1:]) for command in commands]
    assert [args.do.__name__ for args in comparing] == ["prepare", "trunk", "train", "judge", "evaluate", "tables"]
    settings = next(args.settings for args in comparing if args.do.__name__ == "prepare")
    assert Recipe.load("de-en", settings).data.asr_like == 0.1
    part = tmp_path / "data" / "de-en-part-text"
    german, english = ((part / f"europarl.train.{side}").read_text() for side in ("de", "en"))
    assert english == german.replace(".de ", ".en ")
    assert len(german.splitlines()) == 200
    assert len((tmp_path / "data" / "de-en-part" / "heard.de").read_text().splitlines()) == 200 + 300


def test_for_test_sets_alone_development_sets_only_choose(runs: Callable[[str], Any], tmp_path: Path) -> None:
    measure, systems = runs("measure"), {system.name: system for system in runs("systems").SYSTEMS}
    sets = [measure.Test("dev", "one"), measure.Test("test", "two")]
    asked = {task.policy for task in measure.plan(tmp_path, [systems["ped"]], sets[:1], final=True)}
    every = {task.policy for task in measure.plan(tmp_path, [systems["ped"]], sets[:1])}
    assert asked < every
    assert {policy.partition(":")[0] for policy in asked} == {"wait-k", "pe", "pe-flip"}
    assert len(asked) == 5 + 5 * 4 + 5 * 2
    told = list(measure.plan(tmp_path, [systems["multi-path"]], sets, final=True))  # which has nothing to choose
    assert {task.test.role for task in told} == {"test"}


def test_with_lanes_systems_are_judged_and_evaluated_while_others_train(
    tmp_path: Path, runs: Callable[[str], Any]
) -> None:
    texts(tmp_path)
    environment = {"LANES": "3", "JOBS": "2", "BATCH": "128", "SYSTEMS": "multi-path judged-multi-path"}
    commands = recorded(tmp_path, "de-en-comparison.sh", tmp_path, **environment)
    given = {args.do.__name__: args for args in (runs("compare").options().parse_args(c[1:]) for c in commands)}
    assert given.keys() == {"prepare", "trunk", "train", "judge", "evaluate", "tables"}
    assert given["train"].lanes == 3
    training, judging = given["evaluate"].beside
    assert given["judge"].beside == [training] != [judging]
    assert (given["evaluate"].jobs, given["evaluate"].batch) == (2, 128)


def test_a_script_that_fails_leaves_nothing_running(tmp_path: Path) -> None:
    texts(tmp_path)
    stub, going_on = tmp_path / "python", tmp_path / "pid"
    stub.write_text(
        f'#!/bin/sh\ncase "$2" in evaluate) echo $$ >"{going_on}"; exec sleep 60 ;; train) sleep 1; exit 3 ;; esac\n'
    )
    stub.chmod(0o755)
    environment = {"LANES": "2", "PYTHON": str(stub), "AT": str(tmp_path), "PATH": os.environ["PATH"]}
    command = ["bash", str(ROOT / "runs" / "de-en-comparison.sh"), str(tmp_path)]
    assert subprocess.run(command, env=environment, check=False, cwd=tmp_path).returncode == 3
    for _ in range(100):
        if not Path(f"/proc/{going_on.read_text().strip()}").exists():
            return
        time.sleep(0.05)
    pytest.fail("the evaluation goes on")


def test_the_bundled_model_comes_from_the_one_before_it(tmp_path: Path) -> None:
    texts(tmp_path)
    before = tmp_path / "before"
    commands = recorded(tmp_path, "de-en-shipped.sh", tmp_path, before)
    assert [command[2] for command in commands if command[:2] == ["-m", "bethink"]] == [
        *("train", "judge", "export"),
        *["evaluate"] * 4,
    ]
    [training] = [command[3:] for command in commands if command[2:3] == ["train"]]
    recipe = Recipe.load(training[0], [word for word in training[1:] if "=" in word])
    assert (recipe.losses.degree, recipe.losses.token, recipe.paths.kind) == (0.2, 0, "multi-path")
    assert training[training.index("--from") + 1] == str(before)
    for made in ("degree/model", "judged", "shipped"):
        (tmp_path / "runs" / "de-en-shipped" / made).mkdir(parents=True)
    (tmp_path / "commands").unlink()
    again = recorded(tmp_path, "de-en-shipped.sh", tmp_path, before)
    assert again == [command for command in commands if command[2:3] not in (["train"], ["judge"], ["export"])]


def test_a_line_stands_as_high_above_another_as_its_points_do(runs: Callable[[str], Any]) -> None:
    heights = runs("heights")

    def line(*points: tuple[float, float]) -> list[Any]:
        """The same in every draw, by every measure."""
        return [heights.Point(np.full(3, score), np.full((3, 3), lag)) for lag, score in points]

    base = line((6, 30), (2, 20), (4, 26))
    flat = heights.heights(line((1, 31), (9, 31)), base)
    assert set(flat) == {"AL", "LAAL", "DAL"}
    # above the base from 2 to 6: its mean there is (20 + 26) / 4 + (26 + 30) / 4
    assert flat["AL"] == heights.Height(31 - 25.5, 31 - 25.5, 31 - 25.5)
    assert heights.heights(base, base)["DAL"] == heights.Height(0, 0, 0)
    assert heights.heights(line((5.8, 31), (9, 31)), base)["AL"] is None, "a fifth of a word is too little to say"
    shaky = [heights.Point(np.array([31.0, 30, 34]), point.lags) for point in line((2, 0), (6, 0))]
    found = heights.heights(shaky, base)["LAAL"]
    assert (found.mean, round(found.low, 1), round(found.high, 1)) == (5.5, 4.6, 8.4)


def test_where_nothing_is_said_there_is_no_height(runs: Callable[[str], Any]) -> None:
    heights = runs("heights")
    base = [heights.Point(np.full(3, score), np.full((3, 3), lag)) for lag, score in ((2.0, 20.0), (6.0, 30.0))]
    silent = heights.Point(np.full(3, np.nan), np.full((3, 3), 4.0))
    assert heights.heights([*base, silent], base) == {"AL": None, "LAAL": None, "DAL": None}


def test_a_draw_of_all_sentences_scores_as_the_whole_set_does(tmp_path: Path, runs: Callable[[str], Any]) -> None:
    heights, translator = runs("heights"), Translator(ROOT / "models" / "toy")
    pairs = list(toy.sentences(12, 7))
    sources, references = [""] + [p.source for p in pairs], ["ka"] + [p.target for p in pairs]
    [result] = evaluate(translator, sources, references, [parse("wait-k:2")], tmp_path)
    drawn = heights.draws(len(sources), 5)
    assert drawn.sum(axis=1).tolist() == [len(sources)] * 6
    for profile in ("paper", "standard"):
        point = heights.point(tmp_path / result.log, drawn, profile)
        assert point.bleu[0] == pytest.approx(result.scores.quality[profile]["BLEU"].score)
        assert len(set(point.bleu.tolist())) > 1
    assert point.lags[0] == pytest.approx([result.scores.latency["simuleval"][name] for name in heights.MEASURES])
