"""One sentence in flight: what has been heard, read and written, and the few decoder rows already computed ahead.

A stream knows ids and decisions, no model and no clock. `advance` takes every action that needs no new computation and returns
the decoder rows that it needs next; `accept` takes them. Three things keep post-evaluation cheap, and all are exact:
- the row that evaluates y_t is the row that proposes y_{t+1}, so after a WRITE nothing is computed again;
- after a READ the rows t, t+1 and a few more are requested together, guessing that the candidates stay the same; a wrong guess
  costs one row, a right one saves a call of the model;
- a candidate whose degrees cannot rise enough is put off without looking ahead.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from bethink.backend import Row, Rows
from bethink.errors import BethinkError, UsageError
from bethink.policy import NO_EVIDENCE, READ, WRITE, Action, Decision, Degrees, Need, Policy
from bethink.text import EOS, Vocabulary, leaves_word
from bethink.trace import Step

NOTHING_READ = READ.because("too_early", 0, 1)
EARLY_END = READ.because("early_end")
SOURCE_COMPLETE = WRITE.because("source_complete")
WORD_BEGUN = WRITE.because("word_begun")
LONGEST_WORD = 16  # tokens of a word that are proposed together; what is longer is weighed in parts


class Stream:
    """Implements `policy.View`: a policy sees exactly the properties named there."""

    def __init__(self, policy: Policy, slot: int, target: Vocabulary | None = None) -> None:
        """`target` is for policies that look at the text written."""
        self.policy = policy
        self.slot = slot
        self._by_word = getattr(policy, "unit", "token") == "word"
        if self._by_word and target is None:
            raise UsageError(f"policy {policy} counts words, but this stream was opened without a vocabulary")
        # Whether only the token after a word shows that the word is complete: then a word is proposed with that token, and once it is
        # written, only tokens that leave it as it is may follow.
        self._shown_by_next = self._by_word and target is not None and not target.marks_ends
        self.done = False
        self.rounds = 0  # times the model was asked
        self._beyond: int | None = 0
        self._source: list[int] = []
        self._words: list[str] = []  # the source words heard
        self._word_of: list[int] = []  # of each source token; the end of the sentence is one past the last word
        self._closed = False
        self._encoded = 0
        self._vocabulary = target
        self._target: list[int] = []
        self._attached = False  # whether the word being written is a sign that attaches to the one before
        self._shut = True  # counting words: whether the last word written is complete
        self._complete = 0  # target words written whole; signs that attach to a word are none
        self._read = self.deferred = 0
        self._rows: list[Row] = []  # for positions written, written + 1, at the prefix read
        self._guesses: tuple[int, ...] = ()  # what the model would have written next, before the last READ
        self.put_off: tuple[int, ...] = ()  # the tokens that the policy put off last, until something is written
        self._seen = Need.NOTHING  # what the last decision looked at
        self.explained: AbstractSet[int] = set()
        self._steps: list[Step] = []
        self._error: Exception | None = None

    # what a policy sees

    @property
    def read(self) -> int:
        return self._heard if self._by_word else self._read

    @property
    def written(self) -> int:
        return self._complete if self._by_word else len(self._target)

    @property
    def source_words(self) -> Sequence[str]:
        return self._words[: self._heard if self.word_complete else self._heard - 1]

    @property
    def word_complete(self) -> bool:
        return self._read == len(self._source) or self._word_of[self._read] > self._heard - 1

    @property
    def target_text(self) -> str:
        if self._vocabulary is None:
            raise UsageError(
                f"policy {self.policy} looks at the text written, but this stream was opened without a vocabulary"
            )
        return self._vocabulary.decode(self._target, tidy=True)

    @property
    def candidate(self) -> int:
        return self._row(0).candidate

    @property
    def confidence(self) -> float:
        return math.prod(row.confidence for row in self._proposed())

    @property
    def stability(self) -> float:
        judged = [row.stability for row in self._proposed() if row.stability is not None]
        return min(judged) if judged else self.confidence

    @property
    def degrees(self) -> Degrees:
        return self._row(0).degrees

    @property
    def gain(self) -> Degrees:
        return self._row(len(self._proposed())).degrees - self._row(0).degrees

    def _proposed(self) -> list[Row]:
        """The rows of what would be written: of a token, or of a word with all its tokens."""
        self._row(0)
        return self._rows[: self._length()]

    def _row(self, ahead: int) -> Row:
        if ahead >= len(self._rows):
            raise UsageError(
                f"policy {self.policy} looks at what it did not ask for; set its ceiling to Need.{Need(min(ahead + 1, 2)).name}"
            )
        return self._rows[ahead]

    # input

    def feed(self, word: Sequence[int], text: str = "") -> None:
        """One more source word, as its tokens, and its text for those who want to read it."""
        assert word, "a word has tokens"
        assert not self._closed, "words come before the end"
        self._source += word
        self._word_of += [len(self._words)] * len(word)
        self._words.append(text)

    def close(self) -> None:
        """The source sentence is complete."""
        assert not self._closed, "a sentence ends once"
        self._source.append(EOS)
        self._word_of.append(len(self._words))
        self._closed = True

    def unencoded(self) -> list[int]:
        """Source ids fed since the last call, for the encoder: it may run ahead of what the policy reads."""
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
                self._read_on(decision)
            else:
                return None
        return None

    def accept(self, rows: Sequence[Row]) -> None:
        """The rows that `advance` asked for; those that followed a wrong guess are of no use."""
        first = rows[0]
        if self._shown_by_next and not self._rows and self._shut and self._target:
            first = first.apart or first
        self._rows.append(first)
        for guess, row in zip(self._guesses, rows[1:], strict=False):
            if self._rows[-1].candidate != guess:
                break
            self._rows.append(row)

    def fail(self, error: Exception) -> None:
        """The policy raised an error: the stream ends, and `take` raises it."""
        self.done, self._error = True, error
        if not isinstance(error, BethinkError):
            self._error = UsageError(f"policy {self.policy} raises {error!r}")
            self._error.__cause__ = error

    def take(self) -> list[Step]:
        """The steps since the last call."""
        if self._error is not None:
            raise self._error
        steps, self._steps = self._steps, []
        return steps

    def _decide(self) -> Decision | Rows:
        if not self._read:
            return NOTHING_READ
        ended = self._closed and self._read == len(self._source)
        certain = SOURCE_COMPLETE if ended else WORD_BEGUN if self._in_word() else None
        need = self._seen = Need.CANDIDATE if certain else self.policy.needs(self)
        if self._over_length():
            return (WRITE if ended else READ).because("length_limit")
        if need and self._rows and self._premature(ended):
            self.put_off = ()
            return EARLY_END
        if len(self._rows) < self._rows_for(need, certain):
            if need is Need.LOOKAHEAD and self._rows and self.policy.cannot_pass(self):
                self.put_off = (self.candidate,)
                return NO_EVIDENCE
            return self._request(need)
        decision = certain or self.policy.decide(self)
        if not isinstance(decision, Decision):
            raise UsageError(f"policy {self.policy}: decide must return READ or WRITE, not {decision!r}")
        if decision.action is Action.WRITE and not certain:
            proposed = self._rows_for(Need.CANDIDATE) if self._shown_by_next else 1
            if len(self._rows) < proposed and not (self._rows and self._premature(ended)):
                return self._request(Need.CANDIDATE)
        if decision.action is Action.WRITE and self._premature(ended):
            self._seen, self.put_off = Need.CANDIDATE, ()
            return EARLY_END
        if decision.action is Action.READ and need:
            self.put_off = _unended(self._proposed())
        return decision

    @property
    def _heard(self) -> int:
        """Source words of which at least one token was read."""
        return min(self._word_of[self._read - 1] + 1, len(self._words)) if self._read else 0

    def _in_word(self) -> bool:
        """Whether a word has been begun that must be finished before the policy is asked again."""
        left = self._shown_by_next and self._rows and self._leaves(self.candidate)
        return self._by_word and not self._shut and not left

    def _leaves(self, token: int) -> bool:
        assert self._vocabulary is not None
        return leaves_word(self._vocabulary, token)

    def _completed(self, tokens: Sequence[int]) -> int | None:
        """The number of these tokens with which a word is complete, if they show it."""
        assert self._vocabulary is not None
        if self._shown_by_next:
            return next((n for n, token in enumerate(tokens) if n and self._leaves(token)), None)
        return next((n for n, token in enumerate(tokens, 1) if self._vocabulary.closes_word(token)), None)

    def _length(self) -> int:
        """The rows that the proposal takes; while the end of its word is not in sight, one more than there are."""
        if not self._by_word:
            return 1
        length = self._completed([row.candidate for row in self._rows]) or len(self._rows) + 1
        return min(length, LONGEST_WORD)

    def _rows_for(self, need: Need, certain: Decision | None = None) -> int:
        """How many rows a decision needs: those of the proposal, or of the next token of a word that must be written anyhow."""
        if certain:
            return 2 if certain is WORD_BEGUN and self._shown_by_next else 1
        return self._length() + need - Need.CANDIDATE if need else 0

    def _premature(self, ended: bool) -> bool:
        """Whether the model would end the translation while there is more source to come."""
        return not ended and self.candidate == EOS

    def _request(self, need: Need) -> Rows:
        place = len(self._target)
        if self._rows:
            return Rows(self.slot, place + len(self._rows), (self._rows[-1].candidate,), (self._read,))
        length = (self._completed(self._guesses) or len(self._guesses) + 1) if self._by_word else 1
        ahead = length - 1 + max(need - Need.CANDIDATE, self._shown_by_next)
        guesses = () if self._beyond is None else self._guesses[: ahead + self._beyond]
        tokens = (self._target[-1] if self._target else EOS, *guesses)
        return Rows(self.slot, place, tokens, (self._read,) * len(tokens))

    def _over_length(self) -> bool:
        """A bound on what a broken model can write; it depends only on what was read."""
        return len(self._target) >= 2 * self._read + 50

    def _read_on(self, decision: Decision) -> None:
        """Reads a token, or a word with all its tokens."""
        self.deferred += self._seen is not Need.NOTHING
        if self._rows:
            self._guesses = _unended(self._rows)
            self._rows = []
        word = self._word_of[self._read]
        more = True
        while more:
            token, before = self._source[self._read], self._heard
            self._read += 1
            text = self._words[before] if self._heard > before else ""
            self._note(decision, token, text=text, put_off=self.put_off)
            more = self._by_word and self._read < len(self._source) and self._word_of[self._read] == word

    def _write(self, decision: Decision) -> None:
        cut = self._over_length()
        token = EOS if cut else self.candidate
        seen = [] if cut else self._rows
        gain = self.gain if seen and self._seen is Need.LOOKAHEAD else None
        begins = not self._in_word()
        self._target.append(token)
        if self._by_word:
            following = [] if decision is SOURCE_COMPLETE else [row.candidate for row in self._rows[1:2]]
            self._count_word(begins, [token, *following])
        complete = self._shown_by_next and self._shut
        self.explained |= set(decision.evidence)
        self._note(
            decision,
            token,
            confidence=seen[0].confidence if seen else None,
            stability=seen[0].stability if seen else None,
            evidence=decision.evidence,
            degrees=tuple(self.degrees.tolist()) if seen else (),
            gain=tuple(gain.tolist()) if seen and gain is not None else (),
            attention=() if not seen or seen[0].attention is None else tuple(seen[0].attention.tolist()),
            complete=complete,
        )
        self._rows = self._rows[1:]
        self._guesses = self._guesses[1:] if self._guesses[:1] == (token,) else ()
        self.deferred, self.put_off = 0, ()
        self.done = token == EOS

    def _count_word(self, begins: bool, tokens: Sequence[int]) -> None:
        """Count the word that the first of these tokens completes, if the token itself or the next one shows that it does.

        A comma that attaches to a complete word is no word.
        """
        assert self._vocabulary is not None
        if begins:
            self._complete += not self._shut and not self._attached  # the word before was complete only now
            self._attached = self._vocabulary.attaches(tokens[0])
        self._shut = self._completed(tokens) == 1
        self._complete += self._shut and not self._attached

    def _note(self, decision: Decision, token: int, **more: Any) -> None:
        counts = (self._read, self._heard, len(self._target), self.deferred)
        self._steps.append(Step(decision.action, token, *counts, reason=decision.reason, end=token == EOS, **more))


def _unended(rows: Sequence[Row]) -> tuple[int, ...]:
    """The tokens that these rows propose, up to the end of the translation."""
    return tuple(itertools.takewhile(lambda token: token != EOS, (row.candidate for row in rows)))
