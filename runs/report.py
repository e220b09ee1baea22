"""What a comparison found, as a record that stands for itself, and that record as tables, pictures and tests of significance.

python runs/report.py runs/logs/de-en-comparison.json      writes docs/results.md and docs/figures again, without models or logs
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

from heights import MEASURES, Point, draws, heights, point
from measure import Test, options_for, resolved
from systems import PICTURES, PUBLISHED, RIVALS, System, each
from tables import Measure, above, bleu, fixed, insert, lag

from bethink.analysis.sheet import number
from bethink.errors import DataError
from bethink.evaluate import Result, load_results
from bethink.evaluate.instances import read_log
from bethink.evaluate.plots import curves
from bethink.evaluate.quality import compare
from bethink.files import write_atomically

LAGS = {name: lag("simuleval", name) for name in MEASURES}
AXES = {"standard": ("LAAL", "simuleval"), "paper": ("AL", "paper")}  # the latency beside each kind of BLEU
SAMPLES, NEAR = 1000, 1.0  # of the bootstrap; how far apart in latency points may be that it compares
BASES = (RIVALS[0], (RIVALS[0][0], "wait-k, rate=1.2"), ("adaptive-wait-k", "adaptive"))  # that lines are held against
AS_PUBLISHED = {policy for pattern in PUBLISHED for policy in each(pattern)}
Bases = Sequence[tuple[str, str]]
Record = dict[str, Any]


def gather(work: Path, systems: Sequence[System], profile: str, *, final: bool = False) -> Record:
    """Every set, or every test set, with the results to report, bootstrap included, and all that was tried on the development sets."""
    folders = sorted((work / "results").glob("*/*"), key=lambda path: (path.parent.name, path.name))
    tests = [Test(folder.parent.name, folder.name) for folder in folders]
    if not tests:
        raise DataError(f"{work} holds no results; make them with: python runs/compare.py evaluate {work}")
    labels = {system.name: system.label for system in systems}
    told = [test for test in tests if test.role == "test" or not final]
    if not told:
        raise DataError(f"{work} holds no results of test sets; make them with: compare.py evaluate --test")
    sets = []
    for test in told:
        found = list(reported(work, systems, tests, test))
        if not found:
            raise DataError(f"{test.name} has no results of {', '.join(labels)}; make them with compare.py evaluate")
        results = [result.to_dict() for _, result in found]
        compared = bootstrap(found, labels, profile)
        whole = {"heights": above_bases(found, labels, profile), "bootstrap": compared}
        sets.append({"role": test.role, "name": test.name, "results": results} | whole)
        if test.role == "dev":
            sets[-1]["tried"] = [summary(result) for result in tried(work, systems, test)]
    return {"profile": profile, "labels": labels, "sets": sets}


def reported(work: Path, systems: Sequence[System], tests: Sequence[Test], test: Test) -> Iterator[tuple[Path, Result]]:
    """The results of each system with the settings that the development sets chose, and where their logs lie."""
    for system in systems:
        tasks = {
            task.policy: task
            for pattern in system.policies
            for option in options_for(work, system, pattern, tests, every=False)
            for task in resolved(work, test, system, option)
        }
        yield from ((task.folder, result) for task in tasks.values() if (result := task.result()))


def tried(work: Path, systems: Sequence[System], test: Test) -> Iterator[Result]:
    """Everything there is of a development set, chosen or not."""
    for system in systems:
        for file in sorted((work / "results" / test.role / test.name / system.name).glob("*/results.json")):
            yield from load_results(file.parent)


def summary(result: Result) -> Record:
    lags = {name: round(measure(result), 2) for name, measure in LAGS.items()}
    return {"model": result.model, "policy": result.policy, **lags, "BLEU": round(bleu("standard")(result), 2)}


def line(results: Sequence[Result], labels: dict[str, str], name: str, kind: str) -> list[Result]:
    """The points of one system, or curve, with one kind of policy, slowest last; beside chosen settings the published ones are left out."""
    points = [r for r in results if labels[r.model] == name and r.policy.partition(":")[0] == kind]
    if kind == "wait-k":  # schedules that read faster than they write are a line of their own
        points = fixed(points)
    return sorted([r for r in points if r.policy not in AS_PUBLISHED] or points, key=LAGS["LAAL"])


def bootstrap(found: Sequence[tuple[Path, Result]], labels: dict[str, str], profile: str) -> list[Record]:
    """At each point of the first rival the point of every other that is nearest in latency, and whether chance explains the difference."""
    places = {id(result): folder / result.log for folder, result in found}
    results, time = [result for _, result in found], latency(profile)
    made = []
    for base in line(results, labels, *RIVALS[0]):
        near = [
            min(points, key=lambda r: abs(time(r) - time(base)))
            for r in RIVALS[1:]
            if (points := [p for p in line(results, labels, *r) if abs(time(p) - time(base)) <= NEAR])
        ]
        logs = {f"{r.model} {r.policy}": read_log(places[id(r)]) for r in (base, *near)}
        said = {name: [instance.prediction for instance in log] for name, log in logs.items()}
        if len(said) < 2:
            continue
        references = [instance.reference for instance in next(iter(logs.values()))]
        tests = compare(said, references, profile=profile, samples=SAMPLES)
        for rival, test in zip(near, tests[1:], strict=True):
            made.append(
                {"base": [base.model, base.policy], "rival": [rival.model, rival.policy], "p": test.p_value}
                | {"lags": [time(base), time(rival)], "difference": test.score - tests[0].score}
            )
    return made


def kind_of(result: Result) -> str:
    """Of a policy; fixed schedules that read faster than they write are of another kind for each pace."""
    name, _, rate = result.policy.partition(",rate=")
    return f"wait-k, rate={rate}" if name.startswith("wait-k") and not fixed([result]) else name.partition(":")[0]


def above_bases(
    found: Sequence[tuple[Path, Result]], labels: dict[str, str], profile: str, bases: Bases = BASES
) -> list[Record]:
    """How high every line stands above each of the bases, by every measure of latency."""
    weights = draws(found[0][1].scores.sentences, SAMPLES)
    lines: dict[tuple[str, str], list[Point]] = {}
    for folder, result in found:
        if result.policy != "offline" and result.policy not in AS_PUBLISHED:
            place = (labels[result.model], kind_of(result))
            lines.setdefault(place, []).append(point(folder / result.log, weights, profile))
    made = []
    for (name, kind), points in lines.items():
        others = {" ".join(base): lines[base] for base in bases if base in lines and base != (name, kind)}
        held = {base: heights(points, other) for base, other in others.items()}
        told = {base: {m: h and astuple(h) for m, h in one.items()} for base, one in held.items()}
        made.append({"system": name, "policy": kind, "points": len(points), "above": told})
    return made


def latency(profile: str) -> Measure:
    measure, counted = AXES[profile]
    return lag(counted, measure)


def publish(record: Record, name: str, root: Path) -> None:
    """The record, the pictures and the section of docs/results.md."""
    for folder in ("runs/logs", "docs/figures"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    write_atomically(root / "runs" / "logs" / f"{name}.json", (json.dumps(record, indent=1) + "\n").encode())
    page = root / "docs" / "results.md"
    if not page.exists():
        write_atomically(page, b"")
    insert(page, name, "\n\n".join(section(record, one, name, root) for one in record["sets"]))


def section(record: Record, one: Record, name: str, root: Path) -> str:
    """One set: pictures and the table of lines; every point and every test is folded away below them."""
    results, labels = [Result.from_dict(result) for result in one["results"]], record["labels"]
    role = "development set: settings were chosen on it" if one["role"] == "dev" else "test set"
    points = [
        "| system | policy | AL | LAAL | DAL | AL (paper) | BLEU | BLEU (paper) | above multi-path wait-k at equal AL | LAAL | DAL |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *(row(result, line(results, labels, *RIVALS[0])) for result in results),
        "",
        *(f"{profile} BLEU: `{signature}`  " for profile, signature in signatures(results)),
    ]
    tests = list(verdicts(one["bootstrap"], AXES[record["profile"]][0]))
    return "\n".join(
        [
            f"**{one['name']}** ({role}, {results[0].scores.sentences:,} sentences)\n",
            *(f"{picture}\n" for picture in pictures(record, one, results, name, root)),
            *overview(one.get("heights", [])),
            *folded(f"Every point on {one['name']}: {len(results)} rows", points),
            *folded(f"Paired bootstrap on {one['name']}: {len(one['bootstrap'])} tests", tests),
        ]
    ).rstrip()


def folded(summary: str, lines: Sequence[str]) -> Iterator[str]:
    """What most readers need not see, behind a line that tells what it is."""
    if lines:
        yield from (f"<details><summary>{summary}</summary>", "", *lines, "", "</details>", "")


def overview(lines: Sequence[Record], bases: Bases = BASES) -> Iterator[str]:
    """One row for each line of points: on the whole, is it higher?"""
    named = [" ".join(base) for base in bases if any(" ".join(base) in one["above"] for one in lines)]
    if not named:
        return
    yield (
        f"BLEU above other lines, on average over the latencies that both reach, by {', '.join(MEASURES)}; in bold where the middle 95 % "
        f"of {SAMPLES:,} draws of as many sentences have the same sign. Lines are straight between points, so one of few "
        "points looks a little lower than it is:\n"
    )
    yield f"| system | policy | points | {' | '.join(f'over {base}' + ' |' * (len(MEASURES) - 1) for base in named)} |"
    yield "|---|---|---|" + "---|" * len(named) * len(MEASURES)
    for one in lines:
        cells = [cell(one["above"].get(base, {}).get(measure)) for base in named for measure in MEASURES]
        if any(cells):
            yield f"| {one['system']} | {one['policy']} | {one['points']} | {' | '.join(cells)} |"
    yield ""


def cell(height: Sequence[float] | None) -> str:
    """A height, bold if both its bounds lie on one side of nothing."""
    if height is None:
        return ""
    mean, low, high = height
    return f"**{mean:+.1f}**" if low > 0 or high < 0 else f"{mean:+.1f}"


def pictures(record: Record, one: Record, results: Sequence[Result], name: str, root: Path) -> Iterator[str]:
    labels, profile = record["labels"], record["profile"]
    for picture, lines in PICTURES.items():
        points = [found for wanted in lines if (found := line(results, labels, *wanted))]
        if len(points) < 2:  # a picture compares
            continue
        drawn = [on_a_line(result, labels) for found in points for result in found]
        file = f"{name}-{one['name']}-{picture}.svg"
        curves(drawn, root / "docs" / "figures" / file, *AXES[profile], quality_profile=profile)
        yield f"![Quality against latency on {one['name']}: {picture}](figures/{file})"


def on_a_line(result: Result, labels: dict[str, str]) -> Result:
    """Named so that a picture puts it on the line of its system and kind of policy, whatever its other settings; k moves along a line."""
    kind, _, settings = result.policy.partition(":")
    first = settings.partition(",")[0]
    policy = f"{kind}:{first}" if first.startswith("k=") else result.policy
    return replace(result, model=labels[result.model], policy=policy)


def row(result: Result, curve: Sequence[Result]) -> str:
    lags = " | ".join(f"{measure(result):.2f}" for measure in LAGS.values())
    scores = f"{lag('paper', 'AL')(result):.2f} | {bleu('standard')(result):.2f} | {bleu('paper')(result):.2f}"
    alike = not curve or result in curve or result.policy == "offline"
    gains = [
        "" if alike else number(above(result, curve, measure, bleu("standard")), 1, sign=True)
        for measure in LAGS.values()
    ]
    return f"| {result.model} | `{result.policy}` | {lags} | {scores} | {' | '.join(gains)} |"


def signatures(results: Sequence[Result]) -> list[tuple[str, str]]:
    return sorted({(profile, r.scores.quality[profile]["BLEU"].signature) for r in results for profile in AXES})


def verdicts(tests: Sequence[Record], measure: str) -> Iterator[str]:
    if not tests:
        return
    yield f"Paired bootstrap, {SAMPLES:,} samples; beside each point of multi-path the points nearest in {measure}, if within {NEAR:g}:\n"
    yield f"| {measure} | system | policy | {measure} | BLEU difference | p |"
    yield "|---|---|---|---|---|---|"
    for test in tests:
        (base, policy), (rival, other), lags = test["base"], test["rival"], test["lags"]
        difference = f"{test['difference']:+.2f} | {test['p']:.3f}"
        yield f"| {lags[0]:.2f} ({base} `{policy}`) | {rival} | `{other}` | {lags[1]:.2f} | {difference} |"


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        publish(json.loads(path.read_text(encoding="utf-8")), path.stem, path.parents[2])
