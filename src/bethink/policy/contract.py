"""What a policy may see and must say: the contract between the rules that decide and the stream that acts."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias

if TYPE_CHECKING:  # numpy takes most of the time that `bethink --help` has
    import numpy as np
    import numpy.typing as npt

Degrees: TypeAlias = "npt.NDArray[np.float32]"


class Action(enum.StrEnum):
    READ = "READ"
    WRITE = "WRITE"


class Need(enum.IntEnum):
    """How much of the model a policy has to see before it can decide."""

    NOTHING = 0
    CANDIDATE = 1  # the next word and how sure the model is of it
    LOOKAHEAD = 2  # also the translation degree before and after that word


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
        """How often the next word has been weighed and put off."""


class View(Progress, Protocol):
    """All a policy may see. The second half is valid only as far as the policy said it needs it."""

    @property
    def candidate(self) -> int: ...

    @property
    def confidence(self) -> float:
        """The model's probability of the candidate."""

    @property
    def stability(self) -> float:
        """How likely it is that more source would not change the candidate; what a model cannot judge is its confidence."""

    @property
    def degrees(self) -> Degrees:
        """d of every source token read, before the candidate is written."""

    @property
    def gain(self) -> Degrees:
        """How much d of every source token read would rise by writing the candidate."""

    @property
    def explained(self) -> AbstractSet[int]:
        """Source positions that served as evidence for the words written so far."""


@dataclass(frozen=True, slots=True)
class Decision:
    """An action and, for a WRITE, the source positions (0-based) that the word was seen to translate."""

    action: Action
    evidence: tuple[int, ...] = ()


READ = Decision(Action.READ)
WRITE = Decision(Action.WRITE)


class Policy(Protocol):
    name: ClassVar[str]
    ceiling: ClassVar[Need]  # the most it ever needs: tells whether a model can serve it

    def needs(self, progress: Progress) -> Need: ...

    def decide(self, view: View) -> Decision: ...

    def cannot_pass(self, view: View) -> bool:
        """Whether the degrees before the candidate already show that it will be put off, so that nobody need look ahead.

        Asked only of a policy that needs to look ahead, and may say False at any time.
        """


class PolicyBase:
    """What all policies share: the text form, name:field=value,…, and hope."""

    name: ClassVar[str]

    def cannot_pass(self, view: View) -> bool:
        return False

    def __str__(self) -> str:
        settings = ",".join(f"{f.name}={getattr(self, f.name)}" for f in dataclasses.fields(self))  # type: ignore[arg-type]
        return f"{self.name}:{settings}" if settings else self.name
