"""Settings from tables that anybody may have written: every key is known, and every value has its type and its range."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from bethink.errors import UsageError, unknown

Config = TypeVar("Config")
_NAMES: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    tuple[str, ...]: "a list of names",
    tuple[int, ...]: "a list of whole numbers",
}


def build(cls: type[Config], table: Any, where: str) -> Config:
    """The dataclass that a table describes; `where` is the table's name, for messages."""
    require_table(where, table)
    hints = typing.get_type_hints(cls)
    for key in table:
        if key not in hints:
            raise unknown(f"setting in [{where}]", key, hints)
    needed = [field.name for field in dataclasses.fields(cls) if field.default is field.default_factory]  # type: ignore[arg-type]
    if missing := [name for name in needed if name not in table]:
        raise UsageError(f"[{where}] lacks {', '.join(missing)}")
    return cls(**{key: typed(f"{where}.{key}", value, hints[key]) for key, value in table.items()})


def require_table(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where} is {value!r}, but must be a table")
    return value


def typed(key: str, value: Any, expected: Any) -> Any:
    """The value, if it has the type of the field; a table becomes the dataclass that the field holds."""
    if typing.get_origin(expected) is Literal:
        if value not in typing.get_args(expected):
            raise unknown(key, str(value), typing.get_args(expected))
        return value
    kinds = typing.get_args(expected) if isinstance(expected, types.UnionType) else (expected,)
    for kind in kinds:
        if dataclasses.is_dataclass(kind) and not isinstance(value, kinds):
            return build(typing.cast("type[Any]", kind), value, key)
    for kind, several in ((str, tuple[str, ...]), (int, tuple[int, ...])):
        if expected == several and isinstance(value, list) and all(type(item) is kind for item in value):
            return tuple(value)
    if expected is float and type(value) is int and abs(value) < 1 << 1000:  # larger ones do not fit a float
        return float(value)
    kind = expected if isinstance(expected, types.UnionType) else typing.get_origin(expected) or expected
    if not isinstance(value, kind) or (isinstance(value, bool) and expected is not bool):
        raise UsageError(f"{key} is {value!r}, but must be {_NAMES.get(expected, 'a table')}")
    return value


def require_least(where: str, config: Any, limits: Mapping[str, float]) -> None:
    """Refuse settings below their limits, and numbers that are not finite."""
    for name, least in limits.items():
        value = getattr(config, name)
        if not least <= value < math.inf:
            raise UsageError(f"{where}.{name} is {value}, but must be a number of at least {least}")
