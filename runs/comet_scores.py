"""COMET of logs, where somebody has its model: python runs/comet_scores.py LOG… [--model NAME|FILE] [--out FILE]

COMET (`pip install unbabel-comet`, in an environment of its own: it brings another torch) judges a translation with a neural model that
reads source, translation and reference. A LOG is an instances.log of `bethink evaluate`, or an instances.resegmented.jsonl of OmniSTEval
with --source, the sources.txt that `evaluate --longform` writes. This script needs nothing of bethink.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

MODEL = "Unbabel/wmt22-comet-da"


def triples(log: Path, sources: Path | None = None) -> list[dict[str, str]]:
    """Source, translation and reference of every sentence of a log."""
    records = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    lines = sources.read_text("utf-8").splitlines() if sources else [record["source"] for record in records]
    if len(lines) != len(records):
        raise ValueError(f"{sources} has {len(lines)} lines but {log} has {len(records)} sentences")
    return [
        {"src": line, "mt": record["prediction"], "ref": record["reference"]}
        for line, record in zip(lines, records, strict=True)
    ]


def load(name: str) -> Any:
    """The model of that name, downloaded at its first use, or in that file."""
    from comet import download_model, load_from_checkpoint

    return load_from_checkpoint(name if Path(name).is_file() else download_model(name))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG", help="an instances.log of 'bethink evaluate'")
    parser.add_argument("--model", default=MODEL, help=f"a COMET model, or the file of one (default: {MODEL})")
    parser.add_argument("--source", type=Path, metavar="FILE", help="the source sentences, for logs that lack them")
    parser.add_argument("--gpus", type=int, default=0, metavar="N", help="how many GPUs to use (default: 0, the CPU)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the scores as JSON")
    args = parser.parse_args(argv)
    try:
        found = {str(log): triples(log, args.source) for log in args.logs}
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(
            f"comet_scores.py: cannot read the sentences to score: {error}; give an instances.log, and --source if it has no sentences",
            file=sys.stderr,
        )
        return 1
    try:
        model = load(args.model)
    except ImportError:
        print("comet_scores.py: COMET is not installed; run: pip install unbabel-comet", file=sys.stderr)
        return 1
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        print(
            f"comet_scores.py: cannot load {args.model}: {error}; give the file of a model with --model",
            file=sys.stderr,
        )
        return 1
    scores = {
        name: float(model.predict(data, batch_size=16, gpus=args.gpus).system_score) for name, data in found.items()
    }
    for name, score in scores.items():
        print(f"{score:.4f}  {args.model}  {name}")
    if args.out:
        args.out.write_text(json.dumps({"model": args.model, "scores": scores}, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
