"""One sentence in flight: what has been heard, read and written, and the few decoder rows already computed ahead.

A stream knows ids and decisions, no model and no clock. `advance` takes every action that needs no new computation and says
which decoder rows it needs next; `accept` takes them. Three facts keep post-evaluation cheap, and all are exact:
- the row that evaluates y_t is the row that proposes y_{t+1}, so after a WRITE nothing is computed again;
- after a READ the rows t, t+1 and a few more are asked for together, guessing that what the model was about to say it still
  says; a wrong guess only costs a row, a right one brings the verdict on the next word, or the word itself, for nothing;
- a candidate whose degrees cannot rise enough is put off without looking ahead.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from bethink.backend import Row, Rows
from bethink.policy import READ, WRITE, Action, Decision, Degrees, Need, Policy
from bethink.text import EOS
from bethink.trace import Step


class Stream:
    """Implements `policy.View`; what a policy may see is exactly the public properties named there."""

    def __init__(self, policy: Policy, slot: int) -> None:
        self.policy = policy
        self.slot = slot
        self.done = False
        self.rounds = 0  # times the model was asked
        self._beyond: int | None = 0
        self._source: list[int] = []
        self._begins: list[bool] = []  # whether the token is the first of a word
        self._closed = False
        self._encoded = 0
        self._target: list[int] = []
        self._read = self._heard = self._deferred = 0
        self._rows: list[Row] = []  # for positions written, written + 1, at the prefix read
        self._guesses: tuple[int, ...] = ()  # what the model would have written next, before the last READ
        self._weighed = Need.NOTHING  # what the last decision looked at
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
    def stability(self) -> float:
        row = self._rows[0]
        return row.confidence if row.stability is None else row.stability

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

    def advance(self, beyond: int | None = 0) -> Rows | None:
        """Act as far as possible; the rows needed to go on, or None when waiting for source or done.

        `beyond` is how many rows more than needed may be asked for where there are guesses, None to guess nothing.
        """
        self._beyond = beyond
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
        """The rows that `advance` asked for; those that followed a wrong guess are of no use."""
        self._rows.append(rows[0])
        for guess, row in zip(self._guesses, rows[1:], strict=False):
            if self._rows[-1].candidate != guess:
                break
            self._rows.append(row)

    def take(self) -> list[Step]:
        """The steps since the last call."""
        steps, self._steps = self._steps, []
        return steps

    def _decide(self) -> Decision | Rows:
        ended = self._closed and self._read == len(self._source)
        need = self._weighed = Need.CANDIDATE if ended else self.policy.needs(self)
        if self._over_length():
            return WRITE if ended else READ
        if need and self._rows and self._premature(ended):
            return READ
        if len(self._rows) < need:
            return READ if self._rows and self.policy.cannot_pass(self) else self._request(need)
        decision = WRITE if ended else self.policy.decide(self)
        if decision.action is Action.WRITE and not self._rows:
            return self._request(Need.CANDIDATE)
        if decision.action is Action.WRITE and self._premature(ended):
            self._weighed = Need.CANDIDATE
            return READ
        return decision

    def _premature(self, ended: bool) -> bool:
        """An end of the translation while there is more to hear."""
        return not ended and self.candidate == EOS

    def _request(self, need: Need) -> Rows:
        if self._rows:
            return Rows(self.slot, self.written + len(self._rows), (self._rows[-1].candidate,), (self._read,))
        guesses = () if self._beyond is None else self._guesses[: need - 1 + self._beyond]
        tokens = (self._target[-1] if self._target else EOS, *guesses)
        return Rows(self.slot, self.written, tokens, (self._read,) * len(tokens))

    def _over_length(self) -> bool:
        """A bound on what a model gone astray can write, a function of what was read alone."""
        return self.written >= 2 * self._read + 50

    def _read_on(self) -> None:
        token = self._source[self._read]
        self._heard += self._begins[self._read]
        self._read += 1
        self._deferred += self._weighed is not Need.NOTHING
        if self._rows:
            self._guesses = self._candidates()
            self._rows = []
        self._steps.append(Step(Action.READ, token, self._read, self._heard, self.written, self._deferred))

    def _write(self, decision: Decision) -> None:
        cut = self._over_length()
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
                tuple(self.gain.tolist()) if seen and self._weighed is Need.LOOKAHEAD else (),
                stability=seen[0].stability if seen else None,
            )
        )
        self._rows = self._rows[1:]
        self._guesses = self._guesses[1:] if self._guesses[:1] == (token,) else ()
        self._deferred = 0
        self.done = token == EOS

    def _candidates(self) -> tuple[int, ...]:
        """The next words as far as they are known, up to the end of the translation."""
        return tuple(itertools.takewhile(lambda token: token != EOS, (row.candidate for row in self._rows)))
