"""When to speak: a policy looks at a stream and decides to READ one more source token or WRITE the candidate.

A policy is a frozen dataclass, a pure function of what it sees, with a one-line text form used everywhere:
`parse("pe:k=3,rho=0.24,r=2")` and `str(policy)` are inverse. It is asked only while the source is open; once the
source has been read to its end every system only writes. To add a policy, write its class here and name it in POLICIES.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from bethink.errors import UsageError, unknown

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


class _Spelled:
    """The text form shared by all policies: name:field=value,…"""

    name: ClassVar[str]

    def __str__(self) -> str:
        settings = ",".join(f"{f.name}={getattr(self, f.name)}" for f in dataclasses.fields(self))  # type: ignore[arg-type]
        return f"{self.name}:{settings}" if settings else self.name


@dataclass(frozen=True)
class Offline(_Spelled):
    """Reads the whole sentence, then writes: the upper bound in quality and in delay."""

    name: ClassVar[str] = "offline"
    ceiling: ClassVar[Need] = Need.NOTHING

    def needs(self, progress: Progress) -> Need:
        return Need.NOTHING

    def decide(self, view: View) -> Decision:
        return READ


@dataclass(frozen=True)
class WaitK(_Spelled):
    """Reads k tokens, then reads `rate` tokens for every one it writes: g(t) = k + floor(rate (t - 1))."""

    k: int = 3
    rate: float = 1.0
    name: ClassVar[str] = "wait-k"
    ceiling: ClassVar[Need] = Need.NOTHING

    def __post_init__(self) -> None:
        _require(self.k >= 1, self, "k must be at least 1")
        _require(self.rate > 0, self, "rate must be above 0")

    def needs(self, progress: Progress) -> Need:
        return Need.NOTHING

    def decide(self, view: View) -> Decision:
        due = self.k + math.floor(self.rate * view.written + 1e-9)
        return READ if view.read < due else WRITE


@dataclass(frozen=True)
class AdaptiveWaitK(_Spelled):
    """Writes when the candidate is likelier than a bar that falls with the lag, from rho_1 at lag 1 to rho_k at lag k_max.

    Zheng et al. 2020. Runs over one multi-path model or, with a bank of wait-k models, over the model of each lag.
    """

    rho_1: float = 0.6
    rho_k: float = 0.0
    k_max: int = 10
    name: ClassVar[str] = "adaptive"
    ceiling: ClassVar[Need] = Need.CANDIDATE

    def __post_init__(self) -> None:
        _require(self.k_max >= 2, self, "k_max must be at least 2")
        for value in (self.rho_1, self.rho_k):
            _require(0 <= value <= 1, self, "rho_1 and rho_k must lie between 0 and 1")

    def threshold(self, lag: int) -> float:
        return self.rho_1 - (lag - 1) * (self.rho_1 - self.rho_k) / (self.k_max - 1)

    def needs(self, progress: Progress) -> Need:
        return Need.CANDIDATE if 1 <= progress.read - progress.written < self.k_max else Need.NOTHING

    def decide(self, view: View) -> Decision:
        lag = view.read - view.written
        if lag < 1:
            return READ
        if lag >= self.k_max or view.confidence >= self.threshold(lag):
            return WRITE
        return READ


@dataclass(frozen=True)
class PostEvaluation(_Spelled):
    """Algorithm 1: writes a candidate only if it visibly translates something, at most r READs per word.

    After the first k tokens a candidate is written if some source token's degree would rise by at least rho (Eq. 10);
    a word put off r times is written all the same.
    """

    k: int = 3
    rho: float = 0.24
    r: int = 2
    name: ClassVar[str] = "pe"
    ceiling: ClassVar[Need] = Need.LOOKAHEAD

    def __post_init__(self) -> None:
        _require(self.k >= 1, self, "k must be at least 1")
        _require(self.r >= 0, self, "r must be at least 0")
        _require(0 <= self.rho <= 1, self, "rho must lie between 0 and 1")

    def needs(self, progress: Progress) -> Need:
        return Need.NOTHING if progress.read < self.k else Need.LOOKAHEAD

    def decide(self, view: View) -> Decision:
        if view.read < self.k:
            return READ
        evidence = _positions(view.gain >= self.rho)
        if evidence or self.rho == 0 or view.deferred >= self.r:  # a gain below 0 counts as 0
            return Decision(Action.WRITE, evidence)
        return READ


@dataclass(frozen=True)
class PostEvaluationFlip(_Spelled):
    """The rule of the authors' released code: a token must flip from untranslated to translated, never later than wait-k.

    A source token flips when T - U goes from at most -tau to at least tau, T = d and U = 1 - d; it can flip once. Without a
    flip the candidate is put off until the wait-k schedule is reached.
    """

    k: int = 3
    tau: float = 0.12
    name: ClassVar[str] = "pe-flip"
    ceiling: ClassVar[Need] = Need.LOOKAHEAD

    def __post_init__(self) -> None:
        _require(self.k >= 1, self, "k must be at least 1")
        _require(0 <= self.tau <= 1, self, "tau must lie between 0 and 1")

    def needs(self, progress: Progress) -> Need:
        started = progress.read >= self.k and not self._jumping(progress)
        return Need.LOOKAHEAD if started else Need.NOTHING

    def decide(self, view: View) -> Decision:
        if view.read < self.k or self._jumping(view):
            return READ
        before, after = view.degrees, view.degrees + view.gain
        flipped = (2 * before - 1 <= -self.tau) & (2 * after - 1 >= self.tau)
        evidence = tuple(i for i in _positions(flipped) if i not in view.explained)
        if evidence or view.read >= self.k + view.written:
            return Decision(Action.WRITE, evidence)
        return READ

    def _jumping(self, progress: Progress) -> bool:
        """Once a word is put off, the released rule reads on to the wait-k schedule without weighing again."""
        return progress.deferred > 0 and progress.read < self.k + progress.written


POLICIES: dict[str, Callable[..., Policy]] = {
    policy.name: policy for policy in (Offline, WaitK, AdaptiveWaitK, PostEvaluation, PostEvaluationFlip)
}


def parse(text: str) -> Policy:
    """The policy a text names: `wait-k:k=5`, or in short `wait-k:5`; settings left out keep their defaults."""
    name, _, settings = text.strip().partition(":")
    if name not in POLICIES:
        raise unknown("policy", name, POLICIES)
    kind: Any = POLICIES[name]
    fields = {f.name: f for f in dataclasses.fields(kind)}
    values: dict[str, int | float] = {}
    for position, setting in enumerate(filter(None, settings.split(","))):
        key, equals, value = setting.partition("=")
        if not equals:
            key, value = (list(fields)[position] if position < len(fields) else setting), setting
        key = key.strip()
        if key not in fields:
            raise unknown(f"setting of policy {name}", key, fields or ["none"])
        if key in values:
            raise UsageError(f"policy {name} is given {key} twice in '{text.strip()}'")
        values[key] = _number(value, whole=fields[key].type == "int", where=f"{name}: {key}")
    policy: Policy = kind(**values)
    return policy


def _number(text: str, *, whole: bool, where: str) -> int | float:
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        kind = "a whole number" if whole else "a number"
        raise UsageError(f"{where} is '{text.strip()}', but must be {kind}, as in 'pe:k=3,rho=0.24,r=2'") from None
    if not math.isfinite(value):
        raise UsageError(f"{where} is '{text.strip()}', but must be finite")
    return value


def _positions(mask: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(mask.nonzero()[0].tolist())


def _require(holds: bool, policy: object, rule: str) -> None:
    if not holds:
        raise UsageError(f"policy {policy}: {rule}")
