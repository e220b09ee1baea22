"""Dataclasses as JSON and back. Reading checks every value, because the file may have been written by anyone."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

LARGEST = 1e15  # larger numbers are refused, so that sums stay finite
_hints = functools.cache(get_type_hints)


def to_json(record: Any) -> str:
    """A record as JSON; NaN and infinity become null."""
    return json.dumps(_finite(dataclasses.asdict(record)), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read(hint: Any, value: Any, name: str, *, others: bool = False) -> Any:
    """The value, checked against a type; a dataclass is made from an object, which may have unknown keys only with `others`."""
    origin, args = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint):
        return _object(hint, _as(dict, value, name, "an object"), others)
    if origin in (Union, types.UnionType):
        return None if value is None else read(args[0], value, name)
    if origin is tuple:
        values = _as(list, value, name, "a list")
        kinds = args[:1] * len(values) if args[-1] is Ellipsis else args
        return tuple(read(kind, each, name) for kind, each in zip(kinds, values, strict=True))
    if origin in (dict, Mapping):
        return {key: read(args[1], each, name) for key, each in _as(dict, value, name, "an object").items()}
    if hint is float:
        return math.nan if value is None else number(value, name)
    if hint is int and not (isinstance(value, int) and value >= 0):
        raise ValueError(f"{name} is {value!r}, expected a whole number of at least 0")
    return _as(hint, value, name, "text" if hint is str else hint.__name__)


def number(value: Any, name: str) -> float:
    """The value, if it is a number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -LARGEST < value < LARGEST:
        raise ValueError(f"{name} is {value!r}, expected a number")
    return value


def flaw(error: Exception) -> str:
    """What is wrong with a record, for an error message."""
    if isinstance(error, json.JSONDecodeError):
        return "it is not JSON"
    if isinstance(error, KeyError):
        return f"it lacks '{error.args[0]}'"
    return str(error) if isinstance(error, ValueError) else "it is built otherwise"


def _object(kind: Any, value: dict[str, Any], others: bool) -> Any:
    keys = {field.metadata.get("key", field.name): field for field in dataclasses.fields(kind)}
    if not others and (unknown := value.keys() - keys):
        raise ValueError(f"it has '{min(unknown)}', which is not known")
    given = {}
    for key, field in keys.items():
        if key in value:
            given[field.name] = read(_hints(kind)[field.name], value[key], key)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise KeyError(key)
    return kind(**given)


def _as(kind: type, value: Any, name: str, expected: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{name} is {value!r}, expected {expected}")
    return value
