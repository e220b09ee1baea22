"""The settings of a policy: declared once as dataclass fields, then checked, parsed, spelled and described from there."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from types import UnionType
from typing import Any
from urllib.parse import quote, unquote

from bethink.errors import UsageError

TYPES: dict[str, tuple[type | UnionType, str]] = {
    "int": (int, "a whole number"),
    "float": (int | float, "a number"),
    "str": (str, "a text"),
}


@dataclass(frozen=True)
class Setting:
    """One setting as people and programs meet it."""

    name: str
    type: str  # int, float or str
    default: int | float | str
    label: str
    hint: str = ""
    least: float | None = None
    most: float | None = None
    slider: tuple[float, float, float] | None = None  # lowest, highest and step of the control on the page
    ends: tuple[str, str] | None = None  # what the two ends of the slider mean
    choices: tuple[str, ...] = ()  # the only values of a text
    latency: bool = False  # curves of quality over latency are drawn along it
    terse: bool = False  # left out of the text form while it has its default

    @classmethod
    def of(cls, field: dataclasses.Field[Any]) -> Setting:
        type_name = getattr(field.type, "__name__", field.type)
        if type_name not in TYPES:
            raise UsageError(f"setting {field.name} has the type {type_name}, but must be one of {', '.join(TYPES)}")
        if field.default is dataclasses.MISSING:
            raise UsageError(f"setting {field.name} has no default; every setting of a policy needs one")
        more: dict[str, Any] = {"label": field.name} | dict(field.metadata)
        return cls(field.name, type_name, field.default, **more)

    def parse(self, text: str, where: str, example: object) -> int | float | str:
        """The value that a text spells."""
        if self.type == "str":
            return unquote(text)
        shown = text.strip() if len(text) < 40 else f"{text.strip()[:40]}…"
        try:
            value = int(text) if self.type == "int" else float(text)
            finite = math.isfinite(value)
        except OverflowError:  # a whole number that no float can hold
            finite = False
        except ValueError:
            raise UsageError(f"{where} is '{shown}', but must be {TYPES[self.type][1]}, as in '{example}'") from None
        if not finite:
            raise UsageError(f"{where} is '{shown}', but must be finite")
        return value

    def trouble(self, value: object) -> str:
        """What is wrong with a value, or nothing."""
        kind, called = TYPES[self.type]
        if not isinstance(value, kind):
            return f"must be {called}, not {value!r}"
        if self.choices and value not in self.choices:
            return f"must be one of {', '.join(self.choices)}"
        if isinstance(value, int | float):
            above = self.least is None or value >= self.least
            below = self.most is None or value <= self.most
            if not (above and below):
                both = f"must lie between {self.least} and {self.most}"
                return both if self.most is not None else f"must be at least {self.least}"
        return ""


def setting(default: Any, label: str, hint: str = "", **more: Any) -> Any:
    """Declares a setting: `k: int = setting(3, "Latency k", "Tokens read before the first is written", least=1)`.

    What else can be said of it, from `least` to `terse`: see `Setting`.
    """
    return dataclasses.field(default=default, metadata={"label": label, "hint": hint, **more})


def spell(value: object) -> str:
    """A value as it stands in a policy's text form: of a text, commas and white space are percent-encoded."""
    return re.sub(r"[%,\s]", lambda match: quote(match[0]), value) if isinstance(value, str) else str(value)
