"""The policies: when each reads on and when it writes. To add one, write its class here and name it in RULES."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bethink.policy.contract import NO_EVIDENCE, READ, WRITE, Action, Decision, Need, Policy, Progress, Reason, View
from bethink.policy.settings import setting

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

ROUNDING = 1e-5  # by how much a degree, a sum of a few 32-bit numbers, may miss what it should be

# What the codes of reasons mean. A policy of its own file adds its codes in `reasons`.
REASONS = {
    "policy": "decided by the policy",
    "scheduled": "on schedule: {value} read, {threshold} required",
    "sure": "sure enough: {value:.0%}, {threshold:.0%} required",
    "stable": "likely to stay right: {value:.0%}, {threshold:.0%} required",
    "evidence": "translates {evidence}",
    "no_threshold": "no evidence is required",
    "put_off_limit": "put off {value}×, the most allowed",
    "lag_limit": "late by {value}, {threshold} allowed",
    "copied": "carried over, not translated",
    "term": "as the glossary says",
    "word_begun": "finishes the word that was begun",
    "source_complete": "the source sentence is complete",
    "length_limit": "the translation is too long for its source",
    "too_early": "too early: {value} read, {threshold} required",
    "half_word": "reads the source word to its end",
    "whole_sentence": "waits for the end of the sentence",
    "unsure": "not sure enough: {value:.0%}, {threshold:.0%} required",
    "unstable": "may turn out wrong: {value:.0%} likely to stay right, {threshold:.0%} required",
    "no_evidence": "would translate nothing clearly enough",
    "early_end": "the model would end here, but the source goes on",
}

START = {"least": 1, "slider": (1, 12, 1), "ends": ("sooner", "later"), "latency": True}
SHARE = {"least": 0, "most": 1, "slider": (0, 1, 0.02), "ends": ("bolder", "surer")}
RATE = {"least": 0.01, "slider": (0.8, 2, 0.1), "ends": ("faster", "slower")}
PATIENCE = {"ends": ("hasty", "patient")}
UNIT = {"choices": ("token", "word"), "terse": True}
COUNTED = "What READ takes, and what k, r and rate count."


@dataclass(frozen=True)
class Offline(Policy):
    """Reads the whole sentence, then writes: the best quality and the longest delay."""

    name: ClassVar[str] = "offline"
    title: ClassVar[str] = "Whole sentence"

    def decide(self, view: View) -> Decision:
        return READ.because("whole_sentence")


@dataclass(frozen=True)
class WaitK(Policy):
    """Reads k tokens, then `rate` tokens for each token it writes.

    g(t) = k + floor(rate (t - 1)).
    """

    k: int = setting(3, "Latency k", "Source tokens it stays behind.", **START)
    rate: float = setting(1.0, "Rate", "Source tokens read for each token written.", **RATE)
    unit: str = setting("token", "Unit", COUNTED, **UNIT)
    name: ClassVar[str] = "wait-k"
    title: ClassVar[str] = "Wait-k"

    def decide(self, view: View) -> Decision:
        due = scheduled(self.k, self.rate, view)
        if view.read < due:
            return READ.because("too_early", view.read, due)
        return WRITE.because("scheduled", view.read, due)


@dataclass(frozen=True)
class AdaptiveWaitK(Policy):
    """Writes when the model is sure enough for its lag: the longer the lag, the less sure it must be.

    Zheng et al. 2020: the threshold falls from rho_1 at lag 1 to rho_k at lag k_max. Runs over one multi-path model or, with one
    wait-k model per lag, over the model of each lag.
    """

    rho_1: float = setting(0.6, "Sureness ρ₁", "How sure it must be at lag 1.", **SHARE)
    rho_k: float = setting(0.0, "Sureness ρₖ", "How sure it must be at the longest lag.", **SHARE)
    k_max: int = setting(
        10,
        "Longest lag",
        "At this lag it writes in any case.",
        **START | {"least": 2, "slider": (2, 15, 1), "latency": False},
    )
    unit: str = setting("token", "Unit", COUNTED, **UNIT)
    name: ClassVar[str] = "adaptive"
    title: ClassVar[str] = "Adaptive wait-k"
    ceiling: ClassVar[Need] = Need.CANDIDATE

    def threshold(self, lag: int) -> float:
        return self.rho_1 - (lag - 1) * (self.rho_1 - self.rho_k) / (self.k_max - 1)

    def needs(self, progress: Progress) -> Need:
        return Need.CANDIDATE if 1 <= progress.read - progress.written < self.k_max else Need.NOTHING

    def decide(self, view: View) -> Decision:
        lag = view.read - view.written
        if lag < 1:
            return READ.because("too_early", view.read, view.written + 1)
        if lag >= self.k_max:
            return WRITE.because("lag_limit", lag, self.k_max)
        return judged("sure", view.confidence, self.threshold(lag))


@dataclass(frozen=True)
class Weighing(Policy):
    """Keeps pace with the speaker and writes early only what it is sure of.

    Never earlier than wait-k with this k and rate, at most r tokens later. In between a candidate is written if it will still be
    right once the whole source is known, with a probability of at least rho. The threshold falls with every token read, to a
    third of rho after r of them, where any candidate is written.

    With care, the threshold never falls below it: a candidate that is less likely to stay right waits for the end of the sentence, even
    beyond r, because a wrong word cannot be taken back. It also decides only when a source word has been read with all its tokens.
    """

    k: int = setting(2, "Latency k", "Source tokens it stays behind at least.", **START)
    r: int = setting(
        4,
        "Patience r",
        "Source tokens that a word waits at most.",
        least=1,
        slider=(1, 12, 1),
        latency=True,
        **PATIENCE,
    )
    rate: float = setting(1.2, "Rate", "Source tokens read for each token written.", **RATE)
    rho: float = setting(0.9, "Sureness ρ", "How likely a word must be to stay right, to be written at once.", **SHARE)
    care: float = setting(
        0.0,
        "Care",
        "How likely a word must be to stay right, to be written before the sentence ends; 0 writes any word after r tokens.",
        terse=True,
        **SHARE | {"ends": ("quick", "careful")},
    )
    unit: str = setting("token", "Unit", COUNTED, **UNIT)
    name: ClassVar[str] = "weigh"
    title: ClassVar[str] = "Weighing"
    ceiling: ClassVar[Need] = Need.CANDIDATE

    def needs(self, progress: Progress) -> Need:
        late = self._late(progress)
        if self.care:
            return Need.CANDIDATE if late >= 0 and progress.word_complete else Need.NOTHING
        return Need.CANDIDATE if 0 <= late < self.r else Need.NOTHING

    def decide(self, view: View) -> Decision:
        late = self._late(view)
        if late < 0:
            return READ.because("too_early", view.read, view.read - late)
        if self.care and not view.word_complete:
            return READ.because("half_word")
        if late >= self.r and not self.care:
            return WRITE.because("lag_limit", late, self.r)
        return judged("stable", view.stability, max(self.care, self.rho * (1 - 2 / 3 * min(late / self.r, 1))))

    def _late(self, progress: Progress) -> int:
        """How many tokens it has read beyond its schedule."""
        return progress.read - scheduled(self.k, self.rate, progress)


@dataclass(frozen=True)
class PostEvaluation(Policy):
    """Writes a word only if it visibly translates something that was read, or after r READs.

    Algorithm 1: after the first k tokens a candidate is written if some source token's degree would rise by at least rho (Eq. 10);
    one put off r times is written all the same.
    """

    k: int = setting(3, "Latency k", "Source tokens read before the first is written.", **START)
    rho: float = setting(
        0.24, "Evidence ρ", "How much more translated a source word must become.", **SHARE | {"slider": (0, 0.6, 0.02)}
    )
    r: int = setting(2, "Patience r", "How often a word is put off at most.", least=0, slider=(0, 12, 1), **PATIENCE)
    unit: str = setting("token", "Unit", COUNTED, **UNIT)
    name: ClassVar[str] = "pe"
    title: ClassVar[str] = "Post-evaluation"
    ceiling: ClassVar[Need] = Need.LOOKAHEAD

    def needs(self, progress: Progress) -> Need:
        return Need.NOTHING if progress.read < self.k else Need.LOOKAHEAD

    def decide(self, view: View) -> Decision:
        if view.read < self.k:
            return READ.because("too_early", view.read, self.k)
        if evidence := positions(view.gain >= self.rho):
            return Decision(Action.WRITE, evidence, Reason("evidence", float(view.gain.max()), self.rho))
        if self.rho == 0:  # a gain below 0 counts as 0
            return WRITE.because("no_threshold")
        return WRITE.because("put_off_limit", view.deferred, self.r) if view.deferred >= self.r else NO_EVIDENCE

    def cannot_pass(self, view: View) -> bool:
        """No degree can rise above 1, so none can rise by rho where all are above 1 - rho."""
        return 0 < self.rho > 1 - view.degrees.min() + ROUNDING and view.deferred < self.r


@dataclass(frozen=True)
class PostEvaluationFlip(Policy):
    """Writes a word if a source word turns from untranslated to translated, and never later than wait-k.

    The rule of the authors' released code. A source token flips when T - U goes from at most -tau to at least tau, T = d and
    U = 1 - d; it can flip once. Without a flip the candidate is put off until the wait-k schedule is reached.
    """

    k: int = setting(3, "Latency k", "Source tokens it stays behind at most.", **START)
    tau: float = setting(
        0.12, "Evidence τ", "How clearly a source word must turn.", **SHARE | {"slider": (0, 0.6, 0.02)}
    )
    name: ClassVar[str] = "pe-flip"
    title: ClassVar[str] = "Post-evaluation, flip rule"
    ceiling: ClassVar[Need] = Need.LOOKAHEAD

    def needs(self, progress: Progress) -> Need:
        started = progress.read >= self.k and not self._jumping(progress)
        return Need.LOOKAHEAD if started else Need.NOTHING

    def decide(self, view: View) -> Decision:
        due = self.k + view.written
        if view.read < self.k or self._jumping(view):
            return READ.because("too_early", view.read, self.k if view.read < self.k else due)
        before, after = view.degrees, view.degrees + view.gain
        flipped = (2 * before - 1 <= -self.tau) & (2 * after - 1 >= self.tau)
        if evidence := tuple(i for i in positions(flipped) if i not in view.explained):
            return Decision(Action.WRITE, evidence, Reason("evidence", float(view.gain[list(evidence)].max())))
        return WRITE.because("scheduled", view.read, due) if view.read >= due else NO_EVIDENCE

    def cannot_pass(self, view: View) -> bool:
        """Only a token that is untranslated, and has not flipped before, can flip."""
        if view.read >= self.k + view.written:
            return False
        return set(positions(2 * view.degrees - 1 <= -self.tau)) <= view.explained

    def _jumping(self, progress: Progress) -> bool:
        """Once a word is put off, the released rule reads on to the wait-k schedule without looking at it again."""
        return progress.deferred > 0 and progress.read < self.k + progress.written


def scheduled(k: int, rate: float, progress: Progress) -> int:
    """Source tokens that wait-k asks for before it writes the next token."""
    return k + math.floor(rate * progress.written + 1e-9)


def judged(code: str, value: float, threshold: float) -> Decision:
    """WRITE with the reason `sure` if the value reaches the threshold, otherwise READ with `unsure`; so for other codes."""
    if value >= threshold:
        return WRITE.because(code, value, threshold)
    return READ.because(f"un{code}", value, threshold)


def positions(mask: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(mask.nonzero()[0].tolist())


RULES: dict[str, type[Policy]] = {
    rule.name: rule for rule in (Offline, WaitK, AdaptiveWaitK, Weighing, PostEvaluation, PostEvaluationFlip)
}
