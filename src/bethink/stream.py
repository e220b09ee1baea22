"""One sentence in flight: what has been heard, read and written, and the few decoder rows already computed ahead.

A stream knows ids and decisions, no model and no clock. `advance` takes every action that needs no new computation and says
which decoder rows it needs next; `accept` takes them. Two facts keep post-evaluation cheap, and both are exact:
- the row that evaluates y_t is the row that proposes y_{t+1}, so after a WRITE nothing is computed again;
- after a READ the rows t and t+1 are asked for together, guessing that the candidate stays; a wrong guess only costs a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from bethink.backend import Row, Rows
from bethink.policy import READ, WRITE, Action, Decision, Degrees, Need, Policy
from bethink.text import EOS
from bethink.trace import Step


class Stream:
    """Implements `policy.View`; what a policy may see is exactly the public properties named there."""

    def __init__(self, policy: Policy, slot: int, *, speculate: bool = True) -> None:
        self.policy = policy
        self.slot = slot
        self.done = False
        self.rounds = 0  # times the model was asked
        self._speculate = speculate
        self._source: list[int] = []
        self._begins: list[bool] = []  # whether the token is the first of a word
        self._closed = False
        self._encoded = 0
        self._target: list[int] = []
        self._read = self._heard = self._deferred = 0
        self._rows: list[Row] = []  # for positions written, written + 1, at the prefix read
        self._guess: int | None = None  # the candidate before the last READ
        self._explained: set[int] = set()
        self._steps: list[Step] = []

    # what a policy sees

    @property
    def read(self) -> int:
        return self._read

    @property
    def written(self) -> int:
        return len(self._target)

    @property
    def deferred(self) -> int:
        return self._deferred

    @property
    def candidate(self) -> int:
        return self._rows[0].candidate

    @property
    def confidence(self) -> float:
        return self._rows[0].confidence

    @property
    def degrees(self) -> Degrees:
        return self._rows[0].degrees

    @property
    def gain(self) -> Degrees:
        return self._rows[1].degrees - self._rows[0].degrees

    @property
    def explained(self) -> AbstractSet[int]:
        return self._explained

    # input

    def hear(self, word: Sequence[int]) -> None:
        """One more source word, as its tokens."""
        assert word, "a word has tokens"
        assert not self._closed, "words come before the end"
        self._source += word
        self._begins += [True] + [False] * (len(word) - 1)

    def close(self) -> None:
        """The source sentence is complete."""
        assert not self._closed, "a sentence ends once"
        self._source.append(EOS)
        self._begins.append(False)
        self._closed = True

    @property
    def closed(self) -> bool:
        return self._closed

    def unencoded(self) -> list[int]:
        """Source ids heard since the last call, for the encoder: it may run ahead of what the policy reads."""
        fresh = self._source[self._encoded :]
        self._encoded = len(self._source)
        return fresh

    # acting

    def advance(self) -> Rows | None:
        """Act as far as possible; the rows needed to go on, or None when waiting for source or done."""
        while not self.done:
            decision = self._decide()
            if isinstance(decision, Rows):
                self.rounds += 1
                return decision
            if decision.action is Action.WRITE:
                self._write(decision)
            elif self._read < len(self._source):
                self._read_on()
            else:
                return None
        return None

    def accept(self, rows: Sequence[Row]) -> None:
        """The rows that `advance` asked for."""
        self._rows.append(rows[0])
        if len(rows) > 1 and self.candidate == self._guess:  # otherwise the second row followed a wrong guess
            self._rows.append(rows[1])

    def take(self) -> list[Step]:
        """The steps since the last call."""
        steps, self._steps = self._steps, []
        return steps

    def _decide(self) -> Decision | Rows:
        ended = self._closed and self._read == len(self._source)
        if self._babbling():
            return WRITE if ended else READ
        if not ended and self._rows and self.candidate == EOS:
            return READ  # a premature end: there is more to hear
        need = Need.CANDIDATE if ended else self.policy.needs(self)
        if len(self._rows) < need:
            return self._request(need)
        decision = WRITE if ended else self.policy.decide(self)
        if decision.action is Action.WRITE and not self._rows:
            return self._request(Need.CANDIDATE)
        return decision

    def _request(self, need: Need) -> Rows:
        last = self._target[-1] if self._target else EOS
        if self._rows:
            return Rows(self.slot, self.written + 1, (self.candidate,), (self._read,))
        if need is Need.LOOKAHEAD and self._speculate and self._guess not in (None, EOS):
            assert self._guess is not None
            return Rows(self.slot, self.written, (last, self._guess), (self._read, self._read))
        return Rows(self.slot, self.written, (last,), (self._read,))

    def _babbling(self) -> bool:
        """A bound on what a model gone astray can write, a function of what was read alone."""
        return self.written >= 2 * self._read + 50

    def _read_on(self) -> None:
        token = self._source[self._read]
        self._heard += self._begins[self._read]
        self._read += 1
        if self._rows:
            self._guess = self.candidate
            self._deferred += 1
            self._rows = []
        self._steps.append(Step(Action.READ, token, self._read, self._heard, self.written, self._deferred))

    def _write(self, decision: Decision) -> None:
        cut = self._babbling()
        token = EOS if cut else self.candidate
        seen = [] if cut else self._rows
        self._target.append(token)
        self._explained.update(decision.evidence)
        self._steps.append(
            Step(
                Action.WRITE,
                token,
                self._read,
                self._heard,
                self.written,
                self._deferred,
                self.confidence if seen else None,
                decision.evidence,
                tuple(self.degrees.tolist()) if seen else (),
                tuple(self.gain.tolist()) if len(seen) > 1 else (),
            )
        )
        self._rows = self._rows[1:]
        self._guess, self._deferred = None, 0
        self.done = token == EOS
