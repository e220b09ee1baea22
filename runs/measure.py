"""Every system with its policies over development and test sets, in as many processes as there are; what is done is not done again."""

from __future__ import annotations

import functools
import multiprocessing
import os
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import tables
from systems import FIXED, System, choices, each
from verdicts import Counted, Judging, Lots, by_lot

from bethink import folder
from bethink.backend.per_lag import PerLag
from bethink.errors import DataError, UsageError
from bethink.evaluate import Result, evaluate, load_pairs, load_results
from bethink.export import export
from bethink.files import read_json, write_atomically
from bethink.policy import parse
from bethink.train.checkpoint import as_json
from bethink.translator import Translator

LAG, BLEU = tables.lag("simuleval", "LAAL"), tables.bleu("standard")  # what choices are made by
VERDICTS, MADE = "verdicts.json", "made.json"  # beside results.json: what was decided, and what it was made with
PAUSE = 5.0  # seconds between two looks at what there is to do
INT8 = "int8"  # in the folder of a run: its model as it would be shipped
T = TypeVar("T")


@dataclass(frozen=True)
class Test:
    """A development or test set, under its name."""

    role: str
    name: str
    source: str = ""
    reference: str = ""
    limit: int | None = None


@dataclass(frozen=True)
class Task:
    """One policy of one system over one set; its folder is what `bethink evaluate` leaves."""

    work: Path
    test: Test
    system: System
    policy: str

    @property
    def folder(self) -> Path:
        place = re.sub(r"[^\w=.+-]+", "_", self.policy)
        return self.work / "results" / self.test.role / self.test.name / self.system.name / place

    def result(self) -> Result | None:
        """What is there already; where a policy judges, its verdicts are counted, and without them its result is not complete."""
        counted = self.accepted() is not None or not isinstance(parse(self.policy), Judging)
        there = (self.folder / "results.json").is_file() and (not self.test.source or self.made())
        return load_results(self.folder)[0] if counted and there else None

    def made(self) -> bool:
        """Whether the folder says that it was made with what this task has; made with something else, it is in the way."""
        if not (path := self.folder / MADE).is_file():
            return False
        old, new = read_json(path, DataError), self.ingredients()
        if other := [name for name in new if old.get(name) != new[name]]:
            raise UsageError(f"{self.folder} was made with another {' and '.join(other)}; remove it to make it again")
        return True

    def ingredients(self) -> dict[str, Any]:
        """What a result follows from, besides the policy; the config of a model knows all its files."""
        files = {"source": Path(self.test.source), "reference": Path(self.test.reference)}
        for name in self.system.parts:
            files[f"model {name}"] = folder.find(model_of(self.work, name)) / folder.CONFIG
        return {"limit": self.test.limit} | {
            name: digest(path, path.stat().st_mtime_ns) for name, path in files.items()
        }

    def accepted(self) -> float | None:
        """The share of verdicts in favour, where verdicts were counted."""
        path = self.folder / VERDICTS
        return float(read_json(path, DataError)["accepted"]) if path.is_file() else None


@dataclass(frozen=True)
class Machine:
    """How a task is computed."""

    device: str | None = None
    batch: int = 64
    threads: int = 0  # 0: all cores


def measure_all(
    work: Path,
    systems: Sequence[System],
    tests: Sequence[Test],
    machine: Machine,
    *,
    jobs: int = 1,
    int8: bool = False,
    beside: Sequence[int] = (),
    final: bool = False,
) -> list[str]:
    """All that there is to do, or, of development sets, only what the test sets ask of them; returns what failed.

    Systems that are still being trained are waited for as long as one of the processes goes on that it is to work beside.
    """
    for test in tests:
        load_pairs(test.source, test.reference)  # what cannot be read is told before anything is computed
    if jobs > 1:
        machine = replace(machine, threads=1)
    busy: dict[Future[str], Task] = {}
    failed: dict[Task, str] = {}
    done, told = 0, list[str]()
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) if jobs > 1 else Here() as pool:
        while True:
            trained = not going_on(beside)  # asked first: what is trained before the end must be seen
            ready = [system for system in systems if not lacking(system, work)]
            if int8:
                make_small(work, ready)
            taken = {*busy.values(), *failed}
            todo = [
                task for task in plan(work, ready, tests, final=final) if task not in taken and task.result() is None
            ]
            for task in todo[: 2 * jobs - len(busy)]:  # not all at once: what is trained meanwhile may come first
                busy[pool.submit(measure, task, machine)] = task
            if not busy:
                if trained or len(ready) == len(systems):
                    break
                told = rest([system.name for system in systems if system not in ready], told)
                continue
            for finished in wait(busy, timeout=PAUSE, return_when=FIRST_COMPLETED).done:
                task, done = busy.pop(finished), done + 1
                if error := finished.exception():
                    failed[task] = f"{task.test.name} {task.system.name} {task.policy}: {type(error).__name__}: {error}"
                print(f"{done} done: {failed.get(task) or finished.result()}", flush=True)
    for system in systems:
        if missing := lacking(system, work):
            print(f"{system.name}: not evaluated, since there is no model in {', '.join(missing)}", flush=True)
    return list(failed.values())


def going_on(processes: Sequence[int]) -> bool:
    """Whether one of them still runs."""
    return any(map(_runs, processes))


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs, for someone else
        return True
    return True


def rest(names: list[str], told: list[str]) -> list[str]:
    """A moment's pause; tells what for if that is not what was told before."""
    if names != told:
        print(f"waiting for {', '.join(names)}", flush=True)
    time.sleep(PAUSE)
    return names


class Here(Executor):
    """One job: in this process, at once."""

    def submit(self, do: Callable[..., T], /, *args: Any, **options: Any) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(do(*args, **options))
        except Exception as error:  # noqa: BLE001 - as in a process of its own, it is for whoever asks for the result
            done.set_exception(error)
        return done


@functools.cache
def digest(path: Path, _written: int) -> str:
    """Of a file as it was when it was written; the same few are asked for again and again."""
    return folder.sha256(path)


def make_small(work: Path, systems: Sequence[System]) -> None:
    for name in dict.fromkeys(name for system in systems for name in system.parts):
        if not (work / name / INT8).is_dir():
            export(folder.find(work / name), work / name / INT8, precision="int8", name=name)


def model_of(work: Path, name: str) -> Path:
    """What is evaluated: the model of a run, or, where it was made small, that."""
    return small if (small := work / name / INT8).is_dir() else work / name


def lacking(system: System, work: Path) -> list[str]:
    """What it is made of and has no model yet."""
    return [
        name
        for name in system.parts
        if not any((work / name / inner / folder.CONFIG).is_file() for inner in (".", "model"))
    ]


def plan(work: Path, systems: Sequence[System], tests: Sequence[Test], *, final: bool = False) -> Iterator[Task]:
    """All that can be named by now: what depends on a choice or a count is named once there are the results to make it from."""
    for test in tests:
        for system in systems:
            tasks = {
                task.policy: task
                for pattern in patterns(system, test, final=final)
                for option in options_for(work, system, pattern, tests, every=test.role == "dev")
                for task in resolved(work, test, system, option)
            }
            yield from tasks.values()


def patterns(system: System, test: Test, *, final: bool) -> tuple[str, ...]:
    """What a set is to tell of a system: a development set all, or only by which policies those for the test sets are chosen."""
    if test.role == "test":
        return system.reported
    if not final:
        return system.policies
    found = tuple(pattern for pattern in system.reported if len(choices(pattern)) > 1)
    return (FIXED, *found) if found else ()


def options_for(work: Path, system: System, pattern: str, tests: Sequence[Test], *, every: bool) -> list[str]:
    """The patterns without choices to run: all of them, or the best on the development sets if that is known."""
    if every and not pattern.startswith("random "):
        return choices(pattern)
    best = chosen(work, system, pattern, tests)
    return [best] if best else []


def chosen(work: Path, system: System, pattern: str, tests: Sequence[Test]) -> str | None:
    """Of a pattern's choices the one whose points stand highest, on average, above wait-k of the same model.

    That is known of points as fast as some wait-k only; a choice with fewer than half of its points there, which could owe its
    height to a single one of them, is second to all others.
    """
    found = choices(pattern)
    if len(found) == 1:
        return found[0]
    dev = [test for test in tests if test.role == "dev"]
    if not dev:
        raise UsageError(
            f"{system.name} has choices to make ({pattern}) and no development set to make them on; "
            "give one with: compare.py evaluate --dev"
        )
    heights: dict[str, tuple[bool, float]] = {}
    for option in found:
        gains: list[float | None] = []
        for test in dev:
            fixed, tried = (
                [Task(work, test, system, policy).result() for policy in each(one.removeprefix("random "))]
                for one in (FIXED, option)
            )
            if None in fixed or None in tried:
                return None
            gains += [tables.above(r, [f for f in fixed if f], LAG, BLEU) for r in tried if r]
        if within := [gain for gain in gains if gain is not None]:
            heights[option] = 2 * len(within) >= len(gains), statistics.mean(within)
    if not heights:
        raise DataError(
            f"{system.name} has choices to make ({pattern}), but none of their points on the development sets has a latency "
            "within its wait-k curve; give that more points in runs/systems.py"
        )
    return max(heights, key=lambda option: heights[option])


def resolved(work: Path, test: Test, system: System, option: str) -> Iterator[Task]:
    """The tasks of a pattern without choices."""
    lots = option.startswith("random ")
    for policy in each(option.removeprefix("random ")):
        task = Task(work, test, system, policy)
        if not lots:
            yield task
        elif (accepted := task.accepted()) is not None:
            rule = parse(policy)
            assert isinstance(rule, Judging)
            yield replace(task, policy=str(by_lot(rule, accepted)))


def measure(task: Task, machine: Machine) -> str:
    """Runs a task; one line about it."""
    start, made = time.perf_counter(), task.ingredients()
    translator = opened(task.work, task.system.parts, machine.device, machine.threads)
    translator.name = task.system.name
    sources, references = (lines[: task.test.limit] for lines in load_pairs(task.test.source, task.test.reference))
    policy = parse(task.policy)
    if isinstance(policy, Judging):
        policy = Counted(policy)
    batch = max(1, machine.batch // len(task.system.parts))  # every model of a bank holds all streams
    [result] = evaluate(translator, sources, references, [policy], task.folder, batch=batch)
    if isinstance(policy, Counted):
        write_atomically(task.folder / VERDICTS, as_json({"accepted": policy.accepted}))
    write_atomically(task.folder / MADE, as_json(made))
    scores = f"LAAL {LAG(result):.2f}, BLEU {BLEU(result):.2f}, {time.perf_counter() - start:.1f} s"
    return f"{task.test.name} {task.system.name} {task.policy}: {scores}"


@functools.lru_cache(maxsize=1)
def opened(work: Path, names: tuple[str, ...], device: str | None, threads: int) -> Translator:
    """A model, or a bank of wait-k models whose names end in k."""
    found = [Lots(model_of(work, name), device=device, threads=threads) for name in names]
    return bank(found, [int(name.rpartition("-")[2]) for name in names]) if len(found) > 1 else found[0]


def bank(models: Sequence[Translator], lags: Sequence[int]) -> Translator:
    """Adaptive-wait-k as published: for each lag from 1 to 10 the wait-k model nearest to it."""
    nearest = [models[min(range(len(lags)), key=lambda n: abs(lags[n] - lag))] for lag in range(1, 11)]
    backend = PerLag([model.backend for model in nearest])
    return Lots.of(backend, models[0].source, models[0].target, name="bank of wait-k", policy=parse("adaptive"))
