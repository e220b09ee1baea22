"""Every analysis by its name: what it finds, its tables, its picture. All of it follows from the record in its JSON file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bethink.errors import DataError, unknown
from bethink.evaluate.analyses import ablation, alignment, degree_sheets, lag, overlap, pictures, robustness, speed
from bethink.evaluate.analyses.degree import Microscope
from bethink.evaluate.analyses.records import from_json, to_json
from bethink.evaluate.analyses.sheet import Sheet
from bethink.evaluate.instances import read_lines, write

ENDINGS = ("svg", "png")  # of the pictures


@dataclass(frozen=True)
class Analysis:
    finding: type[Any]
    sheets: Callable[[Any], list[Sheet]]
    draw: Callable[[Any, Path], None]
    caption: str  # what the picture shows, for those who do not see it too


CATALOGUE = {
    "degree": Analysis(
        Microscope,
        degree_sheets.sheets,
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
    "lag": Analysis(
        lag.Lags, lag.sheets, pictures.lag, "How many words are shown how soon after the speaker said them"
    ),
    "speed": Analysis(speed.Speed, speed.sheets, pictures.speed, "Time per token, as a ratio to the first policy"),
}


def tables(name: str, finding: Any) -> list[Sheet]:
    return CATALOGUE[name].sheets(finding)


def markdown(name: str, finding: Any) -> str:
    """The tables as a page shows them."""
    return "\n".join(table.markdown() for table in tables(name, finding))


def section(name: str, finding: Any, picture: str) -> str:
    """One analysis on a page: the picture, then the tables."""
    return f"![{CATALOGUE[name].caption}]({picture})\n\n{markdown(name, finding)}".rstrip("\n")


def save(folder: Path, name: str, finding: Any) -> None:
    """The numbers of one analysis, and what follows from them: the tables and the picture."""
    write(folder / f"{name}.json", to_json(finding))
    write(folder / f"{name}.md", markdown(name, finding))
    for ending in ENDINGS:
        CATALOGUE[name].draw(finding, folder / f"{name}.{ending}")


def load(path: str | os.PathLike[str]) -> tuple[str, Any]:
    """The name of an analysis, which its file has, and what it found."""
    name = Path(path).stem
    if name not in CATALOGUE:
        raise unknown("analysis", name, CATALOGUE)
    text = "\n".join(read_lines(path))
    try:
        return name, from_json(CATALOGUE[name].finding, text)
    except (ValueError, TypeError, RecursionError) as error:
        raise DataError(
            f"{path} is not the record of an analysis ({type(error).__name__}: {error}); expected what "
            f"'bethink analyze {name} --out' writes"
        ) from None
