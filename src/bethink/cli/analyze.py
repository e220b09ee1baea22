"""`bethink analyze`: the degree under the microscope, paths against gold alignments, what parts are worth, what users feel."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bethink.cli import analyses, analyses_live
from bethink.cli.analyses import Finding
from bethink.cli.common import Verbs, console, verb

if TYPE_CHECKING:
    from bethink.evaluate.analyses.sheet import Sheet


def add(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "analyze",
        "look closer: what the degree knows, what users feel",
        "The analyses of the paper, and some that users ask for. Each prints tables and, with --out, writes them as Markdown beside "
        "the numbers as JSON and a picture as SVG and PNG.",
        (
            "degree --source rwth.de --target rwth.en --alignment rwth.talp --out analyses",
            "alignment --source rwth.de --target rwth.en --alignment rwth.talp",
            "ablation ped=results/ped no-pe=results/no-pe --out analyses",
            "lag --source talk.de --wpm 150",
        ),
        run,
    )
    kinds = made.add_subparsers(
        title="analyses", metavar="ANALYSIS", dest="analysis", required=True, parser_class=type(made)
    )
    for add_kind in (*analyses.ADD, *analyses_live.ADD):
        add_kind(kinds)


def run(args: argparse.Namespace) -> int:
    finding, tables, draw = args.analyse(args)
    out = console()
    for table in tables:
        out.print(table.table())
    if args.out:
        save(Path(args.out), args.analysis, finding, tables, draw)
        out.print(f"written: {args.out}/{args.analysis}.json, .md, .svg and .png", markup=False, soft_wrap=True)
    return 0


def save(folder: Path, name: str, finding: Finding, tables: Sequence[Sheet], draw: Callable[[Any, Path], None]) -> None:
    """The numbers, the tables and the picture of one analysis."""
    from bethink.evaluate.instances import write

    record = json.dumps(_finite(finding.to_dict()), indent=1, ensure_ascii=False, allow_nan=False)
    write(folder / f"{name}.json", record + "\n")
    write(folder / f"{name}.md", "\n".join(table.markdown() for table in tables))
    for ending in ("svg", "png"):
        draw(finding, folder / f"{name}.{ending}")


def _finite(value: Any) -> Any:
    """JSON has no word for what is not a number."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
