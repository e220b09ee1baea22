"""What a policy may see and must answer: the contract between the rules that decide and the stream that acts."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias

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
        """Source tokens read so far (i)."""

    @property
    def written(self) -> int:
        """Target tokens written so far (t - 1)."""

    @property
    def deferred(self) -> int:
        """How often the next token has been looked at and put off."""

    @property
    def source_words(self) -> Sequence[str]:
        """The source words read so far, with their punctuation; a word counts once all its tokens are read."""

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
        """The model's probability of the candidate."""

    @property
    def stability(self) -> float:
        """How likely it is that more source would not change the candidate; the confidence where the model has no judge."""

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


class Policy(Protocol):
    name: ClassVar[str]
    ceiling: ClassVar[Need]  # the most it ever needs: tells whether a model can serve it

    def needs(self, progress: Progress) -> Need: ...

    def decide(self, view: View) -> Decision:
        """Asked only while the source is open: once it has been read to its end, every token is written."""

    def cannot_pass(self, view: View) -> bool:
        """Whether the degrees before the candidate already show that `decide` will answer NO_EVIDENCE.

        Asked only of a policy that needs to look ahead, and may say False at any time: it saves time and changes nothing.
        """
