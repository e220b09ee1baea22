"""Advances many streams together: each round makes one batched encoder call and one batched decoder call for all that can move."""

from __future__ import annotations

from collections.abc import Container, Sequence

from bethink.backend import Backend, Rows
from bethink.errors import ModelError, UsageError
from bethink.policy import RULES, Need, Offline, Policy
from bethink.stream import Stream
from bethink.text import Vocabulary

FEW = 4  # streams in a round for which the model's weights, not their rows, set the time
AHEAD = 2  # rows that are then computed on a guess, beyond those that a decision needs


class Engine:
    """Streams join and leave at any round; one that waits for source costs nothing."""

    def __init__(self, backend: Backend, *, batch: int = 64, speculate: bool = True) -> None:
        if batch < 1:
            raise UsageError(f"an engine advances at least 1 stream at a time, not {batch}")
        self.backend = backend
        self.rounds = 0  # decoder calls made
        self.rows = 0  # decoder positions computed
        self.width = 0  # streams in the last round
        self._batch = batch
        self._speculate = speculate
        self._ready: dict[Stream, Rows | None] = {}  # in the order of their turns, with the rows they need if known

    def open(self, policy: Policy, target: Vocabulary | None = None) -> Stream:
        """A new stream; `target` lets the policy see the text written."""
        check(self.backend, policy)
        return Stream(policy, self.backend.open(), target)

    def feed(self, stream: Stream, word: Sequence[int], text: str = "") -> None:
        stream.feed(word, text)
        self._ready.setdefault(stream)

    def close(self, stream: Stream) -> None:
        """The source of a stream is complete; the stream ends by itself when its translation does."""
        stream.close()
        self._ready.setdefault(stream)

    def abandon(self, stream: Stream) -> None:
        """Drop a stream that is not wanted any more."""
        self._ready.pop(stream, None)
        if not stream.done:
            stream.done = True
            self.backend.close(stream.slot)

    @property
    def ready(self) -> int:
        """How many streams may be able to move."""
        return len(self._ready)

    def is_ready(self, stream: Stream) -> bool:
        return stream in self._ready

    def round(self, held: Container[Stream] = ()) -> bool:
        """One round over the streams that can move, without those held back; False when every stream waits or is done.

        Streams act on the new rows at once, so that what can be written now does not wait for the stream's next turn.
        """
        turn = self._turn(held)
        if not turn:
            return False
        self.width = len(turn)
        if fresh := [(stream.slot, ids) for stream, _ in turn if (ids := stream.unencoded())]:
            self.backend.read(fresh)
        answers = self.backend.step([request for _, request in turn])
        for (stream, _), rows in zip(turn, answers, strict=True):
            stream.accept(rows)
            self.rows += len(rows)
            if more := self._advance(stream):
                self._ready[stream] = more
        self.rounds += 1
        return True

    def run(self) -> None:
        """Rounds until nothing more can move."""
        while self.round():
            pass

    def _turn(self, held: Container[Stream]) -> list[tuple[Stream, Rows]]:
        """Up to a batch of streams, first come first served, and the rows that each of them needs."""
        turn: list[tuple[Stream, Rows]] = []
        for stream in [stream for stream in self._ready if stream not in held]:
            if len(turn) == self._batch:
                break
            request = self._ready.pop(stream) or self._advance(stream)
            if request:
                turn.append((stream, request))
        return turn

    def _advance(self, stream: Stream) -> Rows | None:
        try:
            request = stream.advance(self._beyond())
        except Exception as error:  # noqa: BLE001 - a policy of the user's own may raise anything; the other streams go on
            request = None
            stream.fail(error)
        if stream.done:
            self.backend.close(stream.slot)
        return request

    def _beyond(self) -> int | None:
        """How many rows to guess: among few streams an extra row is nearly free, among many it costs as much as any other."""
        if not self._speculate:
            return None
        return AHEAD if max(self.width, len(self._ready)) <= FEW else 0


def check(backend: Backend, policy: Policy) -> None:
    """Raises before the first word where a model cannot serve a policy."""
    if policy.ceiling is Need.LOOKAHEAD and not backend.capsules:
        others = ", ".join(name for name, kind in RULES.items() if kind.ceiling is not Need.LOOKAHEAD)
        raise ModelError(
            f"policy {policy} looks at the translation degree, but this model has no capsules; "
            f"use one of {others}, or a model trained with the PED system"
        )
    if not backend.causal and not isinstance(policy, Offline):
        raise ModelError(
            f"policy {policy} reads word by word, but this model's encoder is bidirectional; use 'offline'"
        )
