"""`bethink analyze`: the degree under the microscope, paths against gold alignments, what parts are worth, what users feel."""

from __future__ import annotations

import argparse
from pathlib import Path

from bethink.cli import analyses, analyses_live
from bethink.cli.analyses import Finding, Kinds
from bethink.cli.common import EXAMPLES, Help, Verbs, console, verb


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
            "redraw analyses/degree.json --out slides",
        ),
        run,
    )
    kinds = made.add_subparsers(
        title="analyses", metavar="ANALYSIS", dest="analysis", required=True, parser_class=type(made)
    )
    for add_kind in (*analyses.ADD, *analyses_live.ADD, _add_redraw):
        add_kind(kinds)


def run(args: argparse.Namespace) -> int:
    _show(args.analysis, args.analyse(args), args.out)
    return 0


def _add_redraw(kinds: Kinds) -> None:
    made = kinds.add_parser(
        "redraw",
        help="tables and pictures again, from the numbers alone",
        description="Reads the JSON that an analysis wrote and makes its tables and pictures again, without a model or a text.",
        epilog=EXAMPLES.format("  bethink analyze redraw analyses/*.json --out slides"),
        formatter_class=Help,
    )
    made.add_argument("records", nargs="+", metavar="JSON", help="what analyses wrote, under the names they gave it")
    made.add_argument("--out", metavar="DIR", help="write tables and pictures there")
    made.set_defaults(run=_redraw)


def _redraw(args: argparse.Namespace) -> int:
    from bethink.evaluate.analyses.catalogue import load

    for name, finding in map(load, args.records):
        _show(name, finding, args.out)
    return 0


def _show(name: str, finding: Finding, folder: str | None) -> None:
    from bethink.evaluate.analyses import catalogue

    out = console()
    for table in catalogue.tables(name, finding):
        out.print(table.table())
    if folder:
        catalogue.save(Path(folder), name, finding)
        out.print(f"written: {folder}/{name}.json, .md, .svg and .png", markup=False, soft_wrap=True)
