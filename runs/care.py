"""What care costs and keeps: the policy `weigh` with the bundled model at several settings of care, on the development sets.

    python runs/care.py results/care      # runs/logs/care.json and docs/figures/care.svg

results/care/europarl.dev and results/care/newstest2013 are what `bethink evaluate` writes for the first 1,000 lines of each set, with the
policies offline, weigh:k=1,r=16,rate=1.2,rho=0.98, the same with r=40, and weigh:k=3,r=8,rate=1.2,rho=0.98 with care=0, 0.5, 0.6, 0.7, 0.8
and 0.9. This takes about 20 minutes on one core.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bethink.evaluate import drawing, load_results
from bethink.files import write
from bethink.policy import Weighing, parse

ROOT = Path(__file__).parents[1]
SETS = ("europarl.dev", "newstest2013")
LOSSES = {
    "negation lost": ("negation", "lost"),
    "negation invented": ("negation", "invented"),
    "numbers lost": ("numbers", "lost"),
    "names lost": ("names", "lost"),
}
Record = dict[str, list[dict[str, Any]]]


def record(out: Path) -> Record:
    """Every number of the picture and of the text about it."""
    return {
        name: [
            {
                "policy": result.policy,
                "sentences": result.scores.sentences,
                "BLEU": result.scores.quality["standard"]["BLEU"].score,
                "LAAL": result.scores.latency["simuleval"]["LAAL"],
                "meaning": result.scores.meaning,
            }
            for result in load_results(out / name)
        ]
        for name in SETS
    }


def draw(found: Record, picture: Path) -> None:
    with drawing.figure_in(picture, (8, 6)) as figure:
        plots = figure.subplots(2, len(found), sharex="col")
        for column, (name, rows) in enumerate(found.items()):
            points = [(parse(row["policy"]), row) for row in rows]
            cared = [(policy.care, row) for policy, row in points if isinstance(policy, Weighing) and policy.k == 3]
            cared.sort(key=lambda each: each[0])
            quality, losses = plots[0][column], plots[1][column]
            drawing.line(quality, [(row["LAAL"], row["BLEU"]) for _, row in cared], 0, "BLEU")
            whole = next(row["BLEU"] for row in rows if row["policy"] == "offline")
            drawing.level(quality, whole, "whole sentence")
            for n, (care, row) in enumerate(cared):
                aside = (-12, 6) if n % 2 else (4, -11)  # neighbours would overlap
                quality.annotate(f"{care:g}", (row["LAAL"], row["BLEU"]), aside, textcoords="offset points", fontsize=8)
            for n, (label, (kind, measure)) in enumerate(LOSSES.items(), 1):
                drawing.line(losses, [(row["LAAL"], row["meaning"][kind][measure]) for _, row in cared], n, label)
            quality.set_title(name, fontsize=10)
            losses.set_xlabel("LAAL in words, along care")
            losses.set_ylim(bottom=0)
            drawing.tidy_axes(quality, "lower right")
            drawing.tidy_axes(losses, None)
            losses.set_ylim(bottom=-0.1)
        plots[0][0].set_ylabel("BLEU (the numbers are care)")
        plots[1][0].set_ylabel("lost or invented by the policy, %")
        drawing.below_all(figure, plots[1][0], len(LOSSES))


if __name__ == "__main__":
    found = record(Path(sys.argv[1]))
    write(ROOT / "runs" / "logs" / "care.json", json.dumps(found, indent=1) + "\n")
    draw(found, ROOT / "docs" / "figures" / "care.svg")
