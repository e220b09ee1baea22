"""What a policy may see and must answer: the contract between the rules that decide and the stream that acts."""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeAlias

from bethink.errors import UsageError, unknown
from bethink.policy.settings import Setting, spell

if TYPE_CHECKING:  # importing numpy takes most of the time that `bethink --help` has
    import numpy as np
    import numpy.typing as npt

Degrees: TypeAlias = "npt.NDArray[np.float32]"


class Action(enum.StrEnum):
    READ = "READ"
    WRITE = "WRITE"


class Need(enum.IntEnum):
    """How much of the model a policy has to see before it can decide."""

    NOTHING = 0
    CANDIDATE = 1  # the next token and how sure the model is of it
    LOOKAHEAD = 2  # also the translation degree before and after that token


class Progress(Protocol):
    """What is known of a stream without asking the model."""

    @property
    def read(self) -> int:
        """Source tokens read so far (i); whole words if the policy has unit=word."""

    @property
    def written(self) -> int:
        """Target tokens written so far (t - 1); whole words if the policy has unit=word, without signs attached to a word."""

    @property
    def deferred(self) -> int:
        """How often the next token has been looked at and put off."""

    @property
    def source_words(self) -> Sequence[str]:
        """The source words read so far, with their punctuation; a word counts once all its tokens are read."""

    @property
    def word_complete(self) -> bool:
        """Whether the last source word has been read with all its tokens."""

    @property
    def target_text(self) -> str:
        """The translation written so far, the unfinished word included."""


class View(Progress, Protocol):
    """All a policy may see. The properties below are valid only as far as the policy said it needs them."""

    @property
    def candidate(self) -> int:
        """The id of the token that the model would write next."""

    @property
    def confidence(self) -> float:
        """The model's probability of the candidate, or of the whole word that it begins if the policy has unit=word."""

    @property
    def stability(self) -> float:
        """How likely the candidate is still right once the whole source is known; the confidence where the model has no judge."""

    @property
    def degrees(self) -> Degrees:
        """d of every source token read, before the candidate is written."""

    @property
    def gain(self) -> Degrees:
        """How much d of every source token read would rise by writing the candidate."""

    @property
    def explained(self) -> AbstractSet[int]:
        """Source positions that served as evidence for the tokens written so far."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an action was taken: a code that `reasons()` explains, the number it rests on, and what that was held against."""

    code: str = "policy"
    value: float | None = None
    threshold: float | None = None

    def to_dict(self) -> dict[str, str | float]:
        """For JSON: without what is not known."""
        numbers = {"value": self.value, "threshold": self.threshold}
        return {"code": self.code} | {name: round(number, 4) for name, number in numbers.items() if number is not None}


@dataclass(frozen=True, slots=True)
class Decision:
    """An action, its reason and, for a WRITE, the source positions (0-based) that the token was seen to translate."""

    action: Action
    evidence: tuple[int, ...] = ()
    reason: Reason = Reason()

    def because(self, code: str, value: float | None = None, threshold: float | None = None) -> Decision:
        """The same decision with its reason: `WRITE.because("sure", 0.93, 0.9)`."""
        return Decision(self.action, self.evidence, Reason(code, value, threshold))


READ = Decision(Action.READ)
WRITE = Decision(Action.WRITE)
NO_EVIDENCE = READ.because("no_evidence")


class Policy:
    """A policy is a frozen dataclass that extends this class and defines `decide`. Its fields are its settings."""

    name: ClassVar[str]  # by default module:Class
    title: ClassVar[str]  # for people, by default the name of the class
    ceiling: ClassVar[Need] = Need.NOTHING  # the most it ever needs: tells whether a model can serve it
    # Codes of its own reasons, in a few words with {value}, {threshold} and {evidence} where they belong.
    reasons: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls) -> None:
        cls.name = cls.__dict__.get("name", f"{cls.__module__}:{cls.__qualname__}")
        cls.title = cls.__dict__.get("title", cls.__name__)

    def __post_init__(self) -> None:
        for each in self.settings():
            if trouble := each.trouble(getattr(self, each.name)):
                raise UsageError(f"policy {self}: {each.name} {trouble}")

    def needs(self, progress: Progress) -> Need:
        """What it has to see for the decision at hand."""
        return self.ceiling

    def decide(self, view: View) -> Decision:
        """Asked from the first token read on, while the source is open: once that is read to its end, every token is written."""
        raise NotImplementedError

    def cannot_pass(self, view: View) -> bool:
        """Whether the degrees before the candidate already show that `decide` will answer NO_EVIDENCE.

        Asked only of a policy that needs to look ahead, and may say False at any time: it saves time and changes nothing.
        """
        return False

    def __str__(self) -> str:
        values = {each: getattr(self, each.name) for each in self.settings()}
        return self.spelled(
            {each.name: spell(value) for each, value in values.items() if not (each.terse and value == each.default)}
        )

    @classmethod
    def spelled(cls, values: Mapping[str, str]) -> str:
        """The text form: name:key=value,… and module:Class,key=value,… for a policy that is named so."""
        settings = ",".join(f"{key}={value}" for key, value in values.items())
        return f"{cls.name}{',' if ':' in cls.name else ':'}{settings}" if settings else cls.name

    @classmethod
    def settings(cls) -> list[Setting]:
        return [Setting.of(field) for field in dataclasses.fields(cls)]  # type: ignore[arg-type]

    @classmethod
    def parse(cls, text: str) -> Self:
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

    def counting(self, unit: str) -> Self:
        """The same policy counting in words or tokens, if it counts at all."""
        return dataclasses.replace(self, unit=unit) if hasattr(self, "unit") else self  # type: ignore[type-var]

    @classmethod
    def about(cls) -> str:
        """The first sentence of its documentation."""
        return (inspect.getdoc(cls) or "").partition("\n")[0]

    @classmethod
    def describe(cls, like: object = None, without: Sequence[str] = ()) -> dict[str, Any]:
        """All that a program needs to offer it: `spec` is its text form with {name} in place of each value.

        Defaults are those of `like` where that is of the same kind, and its unit in any case; settings `without` are not offered.
        """
        taken = [
            each.name for each in cls.settings() if type(like) is cls or (each.name == "unit" and hasattr(like, "unit"))
        ]
        described = [
            dataclasses.asdict(each) | ({"default": getattr(like, each.name)} if each.name in taken else {})
            for each in cls.settings()
            if each.name not in without
        ]
        spec = cls.spelled({each["name"]: f"{{{each['name']}}}" for each in described})
        return {"name": cls.name, "title": cls.title, "about": cls.about(), "spec": spec, "settings": described}
