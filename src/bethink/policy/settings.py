"""The settings of a policy: declared once as dataclass fields, then checked, parsed, spelled and described from there."""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, ClassVar
from urllib.parse import quote, unquote

from bethink.errors import UsageError, unknown
from bethink.policy.contract import Decision, Need, Progress, View

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

    What else can be said of it, `least`, `most`, `slider`, `ends`, `choices` and `latency`, see `Setting`.
    """
    return dataclasses.field(default=default, metadata={"label": label, "hint": hint, **more})


class PolicyBase:
    """What all policies share. A policy is a frozen dataclass that extends this class and defines `decide`.

    `reasons` explains the codes of its own reasons, in a few words with {value}, {threshold} and {evidence} where they belong;
    codes are shared by all policies, so it need not repeat those of others.
    """

    name: ClassVar[str]  # by default module:Class
    title: ClassVar[str]
    reasons: ClassVar[Mapping[str, str]] = {}
    ceiling: ClassVar[Need] = Need.NOTHING

    def __init_subclass__(cls) -> None:
        cls.name = cls.__dict__.get("name", f"{cls.__module__}:{cls.__qualname__}")
        cls.title = cls.__dict__.get("title", cls.__name__)

    def __post_init__(self) -> None:
        for each in self.settings():
            if trouble := each.trouble(getattr(self, each.name)):
                raise UsageError(f"policy {self}: {each.name} {trouble}")

    def needs(self, progress: Progress) -> Need:
        return self.ceiling

    def decide(self, view: View) -> Decision:
        raise NotImplementedError

    def cannot_pass(self, view: View) -> bool:
        return False

    def __str__(self) -> str:
        return self.spelled({each.name: spell(getattr(self, each.name)) for each in self.settings()})

    @classmethod
    def spelled(cls, values: Mapping[str, str]) -> str:
        """The text form: name:key=value,… and module:Class,key=value,… for a policy that is named so."""
        settings = ",".join(f"{key}={value}" for key, value in values.items())
        return f"{cls.name}{',' if ':' in cls.name else ':'}{settings}" if settings else cls.name

    @classmethod
    def settings(cls) -> list[Setting]:
        return [Setting.of(field) for field in dataclasses.fields(cls)]  # type: ignore[arg-type]

    @classmethod
    def parse(cls, text: str) -> PolicyBase:
        """From `k=3,r=2`, or in short `3,2`; settings left out keep their defaults."""
        known = {each.name: each for each in cls.settings()}
        values: dict[str, int | float | str] = {}
        for position, part in enumerate(filter(None, text.split(","))):
            key, equals, value = part.partition("=")
            if not equals:
                key, value = (list(known)[position] if position < len(known) else part), part
            key = key.strip()
            if key not in known:
                raise unknown(f"setting of policy {cls.name}", key, known or ["none"])
            if key in values:
                raise UsageError(f"policy {cls.name} is given {key} twice in '{text}'")
            values[key] = known[key].parse(value, f"{cls.name}: {key}", cls())
        return cls(**values)

    @classmethod
    def about(cls) -> str:
        """The first sentence of its documentation."""
        return (inspect.getdoc(cls) or "").partition("\n")[0]

    @classmethod
    def describe(cls, like: object = None) -> dict[str, Any]:
        """All that a program needs to offer it: `spec` is its text form with {name} in place of each value.

        Defaults are those of `like` where that is of the same kind.
        """
        described = [
            dataclasses.asdict(each) | ({"default": getattr(like, each.name)} if type(like) is cls else {})
            for each in cls.settings()
        ]
        spec = cls.spelled({each["name"]: f"{{{each['name']}}}" for each in described})
        return {"name": cls.name, "title": cls.title, "about": cls.about(), "spec": spec, "settings": described}


def spell(value: object) -> str:
    """A value as it stands in a policy's text form: of a text, commas and white space are percent-encoded."""
    return re.sub(r"[%,\s]", lambda match: quote(match[0]), value) if isinstance(value, str) else str(value)
