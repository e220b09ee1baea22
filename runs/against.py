"""Two models with the same kinds of policy, one against the other: python runs/against.py KEY RESULTS NEW OLD

RESULTS/SET/NEW and RESULTS/SET/OLD hold folders that `bethink evaluate` wrote. For each set and kind of policy it says how much BLEU the
new model's curve gains at equal latency and how many words of latency it saves at equal BLEU, with bounds by bootstrap over sentences, and
writes that with every point into runs/logs/experiments.json under KEY; title and text there stay. `python runs/report.py` makes the page.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from curve_gain import MEASURES, Gain, Point, gains, point, samples, saved
from report import ROOT, SAMPLES, bleu, kind_of, lag

from bethink.evaluate import Result, load_results
from bethink.files import write


def main(key: str, results: str, *names: str) -> None:
    path = ROOT / "runs" / "logs" / "experiments.json"
    record = json.loads(path.read_text("utf-8"))
    made: dict[str, Any] = {"gains": [], "points": []}
    for folder in sorted(Path(results).iterdir()):
        curves = {name: read(folder / name) for name in names}
        made["points"] += [row(folder.name, name, one) for name, found in curves.items() for _, one in found]
        weights = samples(next(iter(curves.values()))[0][1].scores.sentences, SAMPLES)
        new, old = ({kind: drawn(found, kind, weights) for kind in kinds(found)} for found in curves.values())
        for kind in new.keys() & old.keys() - {"offline"}:
            about = {"set": folder.name, "curve": f"{names[0]}: {kind}", "over": f"{names[1]}: {kind}"}
            by = {name: cells(gain) for name, gain in gains(new[kind], old[kind]).items()}
            less = {f"{name} saved": cells(gain) for name, gain in saved(new[kind], old[kind]).items()}
            made["gains"].append(about | {"by": by | less})
    made["gains"].sort(key=lambda gain: (gain["set"], gain["curve"]))
    record[key] = {"title": key, "about": ""} | record.get(key, {}) | made
    write(path, json.dumps(record, indent=1) + "\n")


def read(folder: Path) -> list[tuple[Path, Result]]:
    """The log and the result of every policy, the fastest first."""
    found = [(path.parent / one.log, one) for path in folder.glob("*/results.json") for one in load_results(path)]
    return sorted(found, key=lambda each: lag(each[1], "LAAL"))


def kinds(found: list[tuple[Path, Result]]) -> list[str]:
    return sorted({kind_of(one.policy) for _, one in found})


def drawn(found: list[tuple[Path, Result]], kind: str, weights: Any) -> list[Point]:
    return [point(log, weights, "standard") for log, one in found if kind_of(one.policy) == kind]


def cells(gain: Gain | None) -> list[float] | None:
    return None if gain is None else [round(number, 3) for number in gain]


def row(name: str, system: str, one: Result) -> dict[str, Any]:
    lags = {measure: round(lag(one, measure), 3) for measure in MEASURES}
    return {"set": name, "system": system, "policy": one.policy, **lags, "BLEU": round(bleu(one), 3)}


if __name__ == "__main__":
    main(*sys.argv[1:])
