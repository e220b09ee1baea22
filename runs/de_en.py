"""The tables and pictures of the German-English model, from the folders that `bethink evaluate` made.

    python runs/de_en.py results/europarl.dev results/newstest2013

Writes, between their markers, the section of docs/results.md and the scores of the model's card; also docs/figures/de-en-*.svg and
runs/logs/de-en-*.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from report import above_bases, overview
from tables import above, bleu, fixed, insert, lag

from bethink.analysis.sheet import number
from bethink.evaluate import Result
from bethink.evaluate.instances import read_log
from bethink.evaluate.plots import curves, logs_in
from bethink.evaluate.quality import compare
from bethink.evaluate.run import load_results
from bethink.files import write_atomically

ROOT = Path(__file__).parent.parent
QUALITY = bleu("standard")
LAGS = {name: lag("simuleval", name) for name in ("AL", "LAAL", "DAL")}
ORDER = ("offline", "wait-k", "adaptive", "weigh", "pe", "pe-flip")
NAME = "de-en"
BASES = [(NAME, kind) for kind in ("wait-k", "wait-k, rate=1.2", "adaptive")]  # that lines are held against


def main() -> None:
    folders = [Path(folder) for folder in sys.argv[1:]]
    insert(ROOT / "docs" / "results.md", "de-en", "\n\n".join(map(section, folders)))
    insert(ROOT / "models" / "de-en" / "MODEL_CARD.md", "scores", "\n\n".join(map(scores, folders)))


def section(folder: Path) -> str:
    """One test set: the table, the picture, the scores."""
    results = sorted(load_results(folder), key=place)
    name = folder.name
    picture = ROOT / "docs" / "figures" / f"de-en-{name}.svg"
    curves(results, picture, "LAAL", "simuleval", logs=logs_in(folder, results))
    heights = above_bases([(folder, result) for result in results], {NAME: NAME}, "standard", BASES)
    record = {"results": [result.to_dict() for result in results], "heights": heights}
    write_atomically(ROOT / "runs" / "logs" / f"de-en-{name}.json", (json.dumps(record, indent=1) + "\n").encode())
    lines = [
        f"**{name}**\n",
        f"![Quality against latency on {name}](figures/de-en-{name}.svg)\n",
        "| policy | AL | LAAL | DAL | AL (paper) | BLEU | BLEU (paper) | above wait-k at equal AL | LAAL | DAL |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(row(result, fixed(results)) for result in results),
        "",
        *overview(heights, BASES),
        *verdicts(folder, results),
    ]
    return "\n".join(lines)


def scores(folder: Path) -> str:
    """What a model card needs: the fixed policies, the recommended one at several latencies, and the whole sentence."""
    results = sorted(load_results(folder), key=place)
    told = [r for r in results if r in fixed(results) or r.policy.startswith(("weigh", "offline"))]
    lines = [f"**{folder.name}**\n", "| policy | AL | LAAL | DAL | BLEU |", "|---|---|---|---|---|"]
    for result in told:
        lags = " | ".join(f"{measure(result):.2f}" for measure in LAGS.values())
        lines.append(f"| `{result.policy}` | {lags} | {QUALITY(result):.2f} |")
    return "\n".join(lines)


def place(result: Result) -> tuple[int, str, float]:
    kind, _, settings = result.policy.partition(":")
    rate = settings.partition("rate=")[2].partition(",")[0] if kind == "wait-k" else ""
    return ORDER.index(kind), rate, LAGS["LAAL"](result)


def row(result: Result, curve: Sequence[Result]) -> str:
    lags = " | ".join(f"{measure(result):.2f}" for measure in LAGS.values())
    paper = f"{lag('paper', 'AL')(result):.2f} | {QUALITY(result):.2f} | {bleu('paper')(result):.2f}"
    gains = [number(above(result, curve, measure, QUALITY), 1, sign=True) for measure in LAGS.values()]
    blank = result.policy == "offline" or result in curve
    return f"| `{result.policy}` | {lags} | {paper} | {' | '.join([''] * 3 if blank else gains)} |"


def verdicts(folder: Path, results: Sequence[Result]) -> list[str]:
    """Each setting of weigh beside the quickest wait-k that is slower by all three measures, and whether chance explains the difference."""
    told = []
    for result in results:
        slower = [r for r in fixed(results) if all(m(r) >= m(result) for m in LAGS.values())]
        if not result.policy.startswith("weigh") or not slower:
            continue
        rival = min(slower, key=LAGS["LAAL"])
        logs = {r.policy: read_log(folder / r.log) for r in (rival, result)}
        references = [instance.reference for instance in logs[result.policy]]
        said = {policy: [instance.prediction for instance in log] for policy, log in logs.items()}
        test = compare(said, references)[1]
        difference = QUALITY(result) - QUALITY(rival)
        told.append(
            f"- `{result.policy}` beside `{rival.policy}`, which is slower by AL, LAAL and DAL: {difference:+.2f} BLEU "
            f"(paired bootstrap, 1,000 samples: p = {test.p_value:.3f})"
        )
    return told


if __name__ == "__main__":
    main()
