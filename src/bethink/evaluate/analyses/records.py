"""Findings as JSON and back: the tables and pictures of an analysis follow from its numbers alone."""

from __future__ import annotations

import dataclasses
import json
import math
import types
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_json(finding: Any) -> str:
    """JSON has no word for what is not a number: it becomes null."""
    return json.dumps(_finite(finding.to_dict()), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def from_json(kind: type[T], text: str) -> T:
    """The finding that `to_json` wrote."""
    found: T = _value(kind, json.loads(text), kind.__name__)
    return found


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
