"""The rules: when each system reads on and when it speaks. To add one, write its class here and name it in RULES."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bethink.errors import UsageError
from bethink.policy.contract import READ, WRITE, Action, Decision, Need, Policy, PolicyBase, Progress, View

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

ROUNDING = 1e-5  # by how much a degree, a sum of a few 32-bit numbers, may miss what it should be


@dataclass(frozen=True)
class Offline(PolicyBase):
    """Reads the whole sentence, then writes: the upper bound in quality and in delay."""

    name: ClassVar[str] = "offline"
    ceiling: ClassVar[Need] = Need.NOTHING

    def needs(self, progress: Progress) -> Need:
        return Need.NOTHING

    def decide(self, view: View) -> Decision:
        return READ


@dataclass(frozen=True)
class WaitK(PolicyBase):
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
class AdaptiveWaitK(PolicyBase):
    """Writes when the candidate is likelier than a bar that falls with the lag, from rho_1 at lag 1 to rho_k at lag k_max.

    Zheng et al. 2020. Runs over one multi-path model or, with one wait-k model per lag, over the model of each lag.
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
class Weighing(PolicyBase):
    """Keeps pace with the speaker: never hastier than wait-k of that pace, at most r tokens later, and in between when it is sure.

    A candidate is written at once if the model judges that it will stand, with a probability of rho. Another waits, and the bar
    falls with every token, to a third of rho after r of them, where any candidate is written.
    """

    k: int = 2
    r: int = 4
    rate: float = 1.2
    rho: float = 0.9
    name: ClassVar[str] = "weigh"
    ceiling: ClassVar[Need] = Need.CANDIDATE

    def __post_init__(self) -> None:
        _require(self.k >= 1, self, "k must be at least 1")
        _require(self.r >= 1, self, "r must be at least 1")
        _require(self.rate > 0, self, "rate must be above 0")
        _require(0 <= self.rho <= 1, self, "rho must lie between 0 and 1")

    def needs(self, progress: Progress) -> Need:
        return Need.CANDIDATE if 0 <= self._late(progress) < self.r else Need.NOTHING

    def decide(self, view: View) -> Decision:
        late = self._late(view)
        if late < 0:
            return READ
        sure = late >= self.r or view.stability >= self.rho * (1 - 2 / 3 * late / self.r)
        return WRITE if sure else READ

    def _late(self, progress: Progress) -> int:
        """How many tokens it has read beyond what its pace asks for."""
        return progress.read - self.k - math.floor(self.rate * progress.written + 1e-9)


@dataclass(frozen=True)
class PostEvaluation(PolicyBase):
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

    def cannot_pass(self, view: View) -> bool:
        """No degree can rise above 1, so none can rise by rho where all are above 1 - rho."""
        return 0 < self.rho > 1 - view.degrees.min() + ROUNDING and view.deferred < self.r


@dataclass(frozen=True)
class PostEvaluationFlip(PolicyBase):
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

    def cannot_pass(self, view: View) -> bool:
        """Only a token that is untranslated, and has not flipped before, can flip."""
        if view.read >= self.k + view.written:
            return False
        return set(_positions(2 * view.degrees - 1 <= -self.tau)) <= view.explained

    def _jumping(self, progress: Progress) -> bool:
        """Once a word is put off, the released rule reads on to the wait-k schedule without weighing again."""
        return progress.deferred > 0 and progress.read < self.k + progress.written


def _positions(mask: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(mask.nonzero()[0].tolist())


def _require(holds: bool, policy: object, rule: str) -> None:
    if not holds:
        raise UsageError(f"policy {policy}: {rule}")


RULES: dict[str, Callable[..., Policy]] = {
    rule.name: rule for rule in (Offline, WaitK, AdaptiveWaitK, Weighing, PostEvaluation, PostEvaluationFlip)
}
