"""What care costs and keeps: the policy `weigh` with the bundled model at several settings of care, on the development sets.

    python runs/care.py measure CORPORA --out results/care     # 1,000 lines of each set; about 20 minutes on one core
    python runs/care.py draw results/care                      # runs/logs/care.json and docs/figures/care.svg

Needs europarl.dev.{de,en} and newstest2013.{de,en} in CORPORA.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from bethink import Translator
from bethink.evaluate import drawing, evaluate, load_pairs, load_results, rescore
from bethink.policy import Weighing, parse

ROOT = Path(__file__).parents[1]
RECORD, PICTURE = ROOT / "runs" / "logs" / "care.json", ROOT / "docs" / "figures" / "care.svg"
SETS = ("europarl.dev", "newstest2013")
LINES = 1000
POLICIES = ("offline", *(f"weigh:k=3,r=8,rate=1.2,rho=0.98,care={care}" for care in (0.0, 0.5, 0.6, 0.7, 0.8, 0.9)))
PATIENT = ("weigh:k=1,r=16,rate=1.2,rho=0.98", "weigh:k=1,r=40,rate=1.2,rho=0.98")  # for comparison
LOSSES = {
    "negation lost": ("negation", "lost"),
    "negation invented": ("negation", "invented"),
    "numbers lost": ("numbers", "lost"),
    "names lost": ("names", "lost"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    measuring = verbs.add_parser("measure")
    measuring.add_argument("corpora", type=Path)
    measuring.add_argument("--out", type=Path, default=Path("results/care"))
    verbs.add_parser("draw").add_argument("out", type=Path)
    args = parser.parse_args()
    measure(args.corpora, args.out) if args.verb == "measure" else draw(record(args.out))


def measure(corpora: Path, out: Path) -> None:
    translator = Translator("de-en", threads=1)
    for name in SETS:
        sources, references = load_pairs(corpora / f"{name}.de", corpora / f"{name}.en")
        policies = [parse(spec) for spec in (*POLICIES, *PATIENT)]
        evaluate(translator, sources[:LINES], references[:LINES], policies, out / name)


def record(out: Path) -> dict[str, list[dict[str, Any]]]:
    """Every number of the picture and of the text about it, scored from the logs."""
    found = {}
    for name in SETS:
        found[name] = []
        for result in load_results(out / name):
            scores = rescore(out / name / result.log, spoken="de-en")
            found[name].append(
                {
                    "policy": result.policy,
                    "sentences": scores.sentences,
                    "BLEU": scores.quality["standard"]["BLEU"].score,
                    "LAAL": scores.latency["simuleval"]["LAAL"],
                    "meaning": scores.meaning,
                }
            )
    RECORD.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return found


def draw(found: dict[str, list[dict[str, Any]]]) -> None:
    with drawing.figure_in(PICTURE, (8, 6)) as figure:
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
    main()
