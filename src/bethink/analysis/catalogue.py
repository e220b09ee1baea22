"""Every analysis by its name: its record, its tables, its picture. Tables and picture follow from the record in its JSON file."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from bethink.analysis import ablation, alignment, degree, lag, overlap, pictures, robustness, speed
from bethink.analysis.sheet import Sheet
from bethink.errors import DataError, unknown
from bethink.evaluate.instances import read_lines, write


@dataclass(frozen=True)
class Analysis:
    record: type[Any]
    sheets: Callable[[Any], list[Sheet]]
    draw: Callable[[Any, Path], None]
    caption: str  # what the picture shows, for readers who do not see it too


CATALOGUE = {
    "degree": Analysis(
        degree.Microscope,
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
    "lag": Analysis(
        lag.Lags, lag.sheets, pictures.lag, "How many words are shown how soon after the speaker said them"
    ),
    "speed": Analysis(speed.Speed, speed.sheets, pictures.speed, "Time per token, as a ratio to the first policy"),
}


def markdown(name: str, record: Any) -> str:
    """The tables as a page shows them."""
    return "\n".join(sheet.markdown() for sheet in CATALOGUE[name].sheets(record))


def save(folder: Path, name: str, record: Any) -> None:
    """The record of one analysis, and what follows from it: the tables and the picture."""
    write(folder / f"{name}.json", to_json(record))
    write(folder / f"{name}.md", markdown(name, record))
    CATALOGUE[name].draw(record, folder / f"{name}.svg")


def load(path: str | os.PathLike[str]) -> tuple[str, Any]:
    """The name of an analysis, which its file has, and its record."""
    name = Path(path).stem
    if name not in CATALOGUE:
        raise unknown("analysis", name, CATALOGUE)
    text = "\n".join(read_lines(path))
    try:
        return name, _value(CATALOGUE[name].record, json.loads(text), CATALOGUE[name].record.__name__)
    except (ValueError, TypeError, RecursionError) as error:
        raise DataError(
            f"{path} is not the record of an analysis ({type(error).__name__}: {error}); expected what "
            f"'bethink analyze {name} --out' writes"
        ) from None


def to_json(record: Any) -> str:
    """JSON has no word for what is not a number: it becomes null."""
    return json.dumps(_finite(dataclasses.asdict(record)), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _value(hint: Any, value: Any, name: str) -> Any:
    """A value of the type that a field is declared with."""
    origin, args = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(**{key: _value(hints.get(key, Any), each, key) for key, each in _as(dict, value, name).items()})  # type: ignore[operator]
    if origin in (Union, types.UnionType):
        return None if value is None else _value(args[0], value, name)
    if origin is tuple:
        values = _as(list, value, name)
        kinds = args[:1] * len(values) if args[-1] is Ellipsis else args
        return tuple(_value(one, each, name) for one, each in zip(kinds, values, strict=True))
    if origin is dict:
        return {key: _value(args[1], each, name) for key, each in _as(dict, value, name).items()}
    if hint is float:
        return math.nan if value is None else _as((int, float), value, name)
    return value if hint is Any else _as(hint, value, name)


def _as(kind: Any, value: Any, name: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}")
    return value
