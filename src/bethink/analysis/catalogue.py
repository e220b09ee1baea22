"""Every analysis by its name: its record, its tables, its picture. Tables and picture are made from the record in its JSON file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bethink.analysis import ablation, alignment, calibration, degree, overlap, pictures, robustness
from bethink.analysis.sheet import Sheet
from bethink.errors import DataError, unknown
from bethink.evaluate.records import flaw, read, to_json
from bethink.files import read_lines, write


@dataclass(frozen=True)
class Analysis:
    record: type[Any]
    sheets: Callable[[Any], list[Sheet]]
    draw: Callable[[Any, Path], None]
    caption: str  # alternative text of the picture


CATALOGUE = {
    "degree": Analysis(
        degree.DegreeFindings,
        degree.sheets,
        pictures.degree,
        "What tells whether the source of a token has been read, what a degree means, how it grows, and how large its rises are",
    ),
    "alignment": Analysis(
        alignment.Paths, alignment.sheets, pictures.alignment, "Sufficiency and necessity against latency"
    ),
    "overlap": Analysis(
        overlap.Overlap,
        overlap.sheets,
        pictures.overlap,
        "How many of the words written and read the capsules remember",
    ),
    "ablation": Analysis(
        ablation.Ablation,
        ablation.sheets,
        pictures.ablation,
        "Quality against latency by two measures, with 95 % intervals",
    ),
    "robustness": Analysis(
        robustness.Robustness, robustness.sheets, pictures.robustness, "BLEU where the source is not clean"
    ),
    "calibration": Analysis(
        calibration.Calibration,
        calibration.sheets,
        pictures.calibration,
        "The share of words that were right once the whole source was known, against the stability that the judge gave them",
    ),
}


def markdown(name: str, record: Any) -> str:
    """The tables as a page shows them."""
    return "\n".join(sheet.markdown() for sheet in CATALOGUE[name].sheets(record))


def save(folder: Path, name: str, record: Any) -> None:
    """Write the record of one analysis, its tables and its picture."""
    write(folder / f"{name}.json", to_json(record))
    write(folder / f"{name}.md", markdown(name, record))
    CATALOGUE[name].draw(record, folder / f"{name}.svg")


def load(path: str | os.PathLike[str]) -> tuple[str, Any]:
    """The name of an analysis, which is the name of its file, and its record."""
    name = Path(path).stem
    if name not in CATALOGUE:
        raise unknown("analysis", name, CATALOGUE)
    text = "\n".join(read_lines(path))
    try:
        return name, read(CATALOGUE[name].record, json.loads(text), "the record")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{path} is not the record of an analysis ({flaw(error)}); expected what 'bethink analyze {name} --out' writes"
        ) from None
