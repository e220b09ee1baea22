"""Advances many streams together: each round makes one batched encoder call and one batched decoder call for all that can move."""

from __future__ import annotations

from collections.abc import Sequence

from bethink.backend import Backend
from bethink.errors import ModelError, UsageError
from bethink.policy import Need, Offline, Policy
from bethink.stream import Stream


class Engine:
    """Streams join and leave at any round; one that waits for its speaker costs nothing."""

    def __init__(self, backend: Backend, *, batch: int = 64, speculate: bool = True) -> None:
        if batch < 1:
            raise UsageError(f"an engine advances at least 1 stream at a time, not {batch}")
        self.backend = backend
        self.rounds = 0
        self.rows = 0
        self._batch = batch
        self._speculate = speculate
        self._ready: dict[Stream, None] = {}  # in order of arrival, so that everyone gets a turn

    def open(self, policy: Policy) -> Stream:
        check(self.backend, policy)
        return Stream(policy, self.backend.open(), speculate=self._speculate)

    def hear(self, stream: Stream, word: Sequence[int]) -> None:
        stream.hear(word)
        self._ready[stream] = None

    def close(self, stream: Stream) -> None:
        """The source of a stream is complete; the stream ends by itself when its translation does."""
        stream.close()
        self._ready[stream] = None

    def abandon(self, stream: Stream) -> None:
        """Forget a stream that is not wanted any more."""
        self._ready.pop(stream, None)
        if not stream.done:
            stream.done = True
            self.backend.close(stream.slot)

    def round(self) -> bool:
        """One round over the streams that can move; False when every stream waits or is done."""
        turn = []
        for stream in list(self._ready):
            del self._ready[stream]
            if (request := stream.advance()) is not None:
                turn.append((stream, request))
                if len(turn) == self._batch:
                    break
            elif stream.done:
                self.backend.close(stream.slot)
        if not turn:
            return False
        self._encode([stream for stream, _ in turn])
        answers = self.backend.step([request for _, request in turn])
        for (stream, request), rows in zip(turn, answers, strict=True):
            stream.accept(rows)
            self._ready[stream] = None
            self.rows += len(request.tokens)
        self.rounds += 1
        return True

    def run(self) -> None:
        """Rounds until nothing more can move."""
        while self.round():
            pass

    def _encode(self, streams: Sequence[Stream]) -> None:
        fresh = [(stream.slot, ids) for stream in streams if (ids := stream.unencoded())]
        if fresh:
            self.backend.read(fresh)


def check(backend: Backend, policy: Policy) -> None:
    """A model that cannot serve a policy says so before the first word."""
    if policy.ceiling is Need.LOOKAHEAD and not backend.capsules:
        raise ModelError(
            f"policy {policy} looks at the translation degree, but this model has no capsules; "
            "use wait-k or adaptive, or a model trained with the PED system"
        )
    if not backend.causal and not isinstance(policy, Offline):
        raise ModelError(
            f"policy {policy} reads word by word, but this model's encoder is bidirectional; use 'offline'"
        )
