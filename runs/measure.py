"""One policy of one system over one set, and which of them a comparison needs; what is done is not done again."""

from __future__ import annotations

import functools
import re
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import report
from random_baseline import ByProbability, RandomBaseline, accepted
from systems import FIXED, System, choices, each

from bethink import folder
from bethink.analysis.behaviour import watched
from bethink.backend.per_lag import PerLag
from bethink.errors import DataError, UsageError
from bethink.evaluate import Result, evaluate, load_pairs, load_results
from bethink.files import read_json, write_json
from bethink.policy import Policy, PostEvaluation, Weighing, parse
from bethink.translator import Translator

ACCEPTED = "accepted.json"  # beside results.json: the share of verdicts in favour
MADE = "made.json"  # and what the result was made with


@dataclass(frozen=True)
class Set:
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
    test: Set
    system: System
    spec: str
    p: float | None = None  # of the random baseline of the policy, if it is that
    unjudged: bool = False  # the judge is not asked

    @property
    def policy(self) -> Policy:
        rule = parse(self.spec)
        if self.unjudged:
            return ByProbability(rule)
        return rule if self.p is None else RandomBaseline(rule, self.p)

    @property
    def folder(self) -> Path:
        place = re.sub(r"[^\w=.+-]+", "_", str(self.policy))
        return self.work / "results" / self.test.role / self.test.name / self.system.name / place

    def result(self) -> Result | None:
        """What is there already; made with another model or text, it is in the way."""
        if not all((self.folder / name).is_file() for name in ("results.json", MADE)):
            return None
        if self.test.source:
            old, new = read_json(self.folder / MADE, DataError), self.ingredients()
            if other := [name for name in new if old.get(name) != new[name]]:
                raise UsageError(
                    f"{self.folder} was made with another {' and '.join(other)}; remove it to make it again"
                )
        return load_results(self.folder)[0]

    def ingredients(self) -> dict[str, Any]:
        """What a result follows from, besides the policy; the config of a model knows all its files."""
        files = {"source": Path(self.test.source), "reference": Path(self.test.reference)}
        files |= {f"model {name}": folder.find(self.work / name) / folder.CONFIG for name in self.system.parts}
        digests = {name: digest(path, path.stat().st_mtime_ns) for name, path in files.items()}
        return {"limit": self.test.limit} | digests

    def accepted(self) -> float | None:
        """The share of verdicts in favour, where verdicts were counted."""
        path = self.folder / ACCEPTED
        return float(read_json(path, DataError)["accepted"]) if path.is_file() else None


@functools.cache
def digest(path: Path, _written: int) -> str:
    """Of a file as it was when it was written; the same few are asked for again and again."""
    return folder.sha256(path)


def plan(work: Path, systems: Sequence[System], tests: Sequence[Set]) -> Iterator[Task]:
    """All that can be named by now: what depends on a choice or a count is named once there are the results to make it from."""
    for test in tests:
        for system in systems:
            tested = system.policies if system.tested is None else system.tested
            patterns = tested if test.role == "test" else system.policies
            tasks = {}
            for pattern in patterns:
                every = test.role == "dev" and not pattern.startswith("random ")
                for option in choices(pattern) if every else chosen(work, system, pattern, tests):
                    tasks |= {str(task.policy): task for task in resolved(work, test, system, option)}
            yield from tasks.values()


def resolved(work: Path, test: Set, system: System, option: str) -> Iterator[Task]:
    """The tasks of a pattern without choices."""
    control, _, pattern = option.rpartition(" ")
    for spec in each(pattern):
        task = Task(work, test, system, spec, unjudged=control == "unjudged")
        if control != "random":
            yield task
        elif (share := task.accepted()) is not None:
            yield replace(task, p=round(share, 4))


def chosen(work: Path, system: System, pattern: str, tests: Sequence[Set]) -> list[str]:
    """Of a pattern's choices the one that gains most, on average, over wait-k of the same model; none while results are missing.

    That is known of points between the ends of the wait-k curve only. A choice with most of its points beyond them cannot be compared
    and is named; it is not taken for a bad one.
    """
    options = choices(pattern)
    if len(options) == 1:
        return options
    dev = [test for test in tests if test.role == "dev"]
    if not dev:
        raise UsageError(
            f"{system.name} has choices to make ({pattern}) and no development set to make them on; "
            "give one with: compare.py evaluate --dev"
        )
    found: dict[str, float] = {}
    for option in options:
        gains: list[float | None] = []
        for test in dev:
            fixed, tried = (
                [Task(work, test, system, spec).result() for spec in each(one.removeprefix("random "))]
                for one in (FIXED, option)
            )
            if None in fixed or None in tried:
                return []
            gains += [report.above(result, fixed, "LAAL") for result in tried]
        within = [gain for gain in gains if gain is not None]
        if 2 * len(within) >= len(gains):
            found[option] = statistics.mean(within)
        else:
            print(f"{system.name}: {option} is beyond the ends of the wait-k curve and cannot be compared", flush=True)
    if not found:
        raise DataError(
            f"{system.name} has choices to make ({pattern}), but none of them has a latency within its wait-k curve on the "
            "development sets; give that more points in runs/systems.py"
        )
    return [max(found, key=lambda option: found[option])]


def attempt(task: Task, device: str | None, batch: int, threads: int) -> tuple[bool, str]:
    """Whether a task could be done, and one line about it."""
    name, start = f"{task.test.name} {task.system.name} {task.policy}", time.perf_counter()
    try:
        result = measure(task, opened(task.work, task.system.parts, device, threads), batch)
    except Exception as error:  # noqa: BLE001 - one that fails leaves the others alone
        return False, f"{name}: {type(error).__name__}: {error}"
    lag, bleu = report.lag(result, "LAAL"), report.bleu(result)
    return True, f"{name}: LAAL {lag:.2f}, BLEU {bleu:.2f}, {time.perf_counter() - start:.1f} s"


def measure(task: Task, translator: Translator, batch: int) -> Result:
    made = task.ingredients()
    translator.name = task.system.name
    sources, references = (lines[: task.test.limit] for lines in load_pairs(task.test.source, task.test.reference))
    policy = rule = task.policy
    if judging := isinstance(rule, PostEvaluation | Weighing):
        policy, verdicts = watched(rule)
    batch = max(1, batch // len(task.system.parts))  # each of several models holds all streams
    [result] = evaluate(translator, sources, references, [policy], task.folder, batch=batch)
    if judging:
        write_json(task.folder / ACCEPTED, {"accepted": accepted(rule, verdicts)})
    write_json(task.folder / MADE, made)
    return result


@functools.lru_cache(maxsize=1)
def opened(work: Path, names: tuple[str, ...], device: str | None, threads: int) -> Translator:
    """A model, or several wait-k models whose names end in k."""
    found = [Translator(work / name, device=device, threads=threads) for name in names]
    return per_lag(found, [int(name.rpartition("-")[2]) for name in names]) if len(found) > 1 else found[0]


def per_lag(models: Sequence[Translator], lags: Sequence[int]) -> Translator:
    """Adaptive-wait-k as published: for each lag from 1 to 10 the wait-k model nearest to it."""
    nearest = [models[min(range(len(lags)), key=lambda n: abs(lags[n] - lag))] for lag in range(1, 11)]
    backend = PerLag([model.backend for model in nearest])
    return Translator.of(backend, models[0].source, models[0].target, name="per-lag wait-k", policy=parse("adaptive"))
