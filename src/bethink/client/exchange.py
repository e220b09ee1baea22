"""What a client's user and its connection hand each other: text one way, steps the other, both bounded. Knows no socket."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator

from bethink.errors import BethinkError
from bethink.serve.protocol import LiveStep, Message
from bethink.serve.replay import Memory

AHEAD = 262_144  # units of text that may wait to be sent
BEHIND = 256  # steps that may wait to be read


class Exchange:
    def __init__(self) -> None:
        self.memory = Memory()
        self._steps: deque[LiveStep | Exception] = deque()
        self._news, self._taken = asyncio.Event(), asyncio.Event()  # steps came in, were read
        self._more, self._room = asyncio.Event(), asyncio.Event()  # text came in, was sent
        self._closed = False  # nothing more will happen
        self._outcome: Exception | None = None  # and why, unless all was said

    # for who speaks and reads

    async def say(self, text: str) -> None:
        self._require_open()
        while self.memory.unsent > AHEAD:
            self._room.clear()
            await self._room.wait()
            self._require_open()
        self.memory.say(text)
        self._more.set()

    def change(self, policy: str) -> None:
        self._require_open()
        self.memory.change(policy)
        self._more.set()

    def end(self) -> None:
        self.memory.ended = True
        self._more.set()

    async def next(self) -> LiveStep | None:
        """The next step; None after the last, and whatever ended it all is raised."""
        while not self._steps:
            if self._closed:
                if self._outcome is not None:
                    raise self._outcome
                return None
            self._news.clear()
            await self._news.wait()
        step = self._steps.popleft()
        self._taken.set()
        if isinstance(step, Exception):
            raise step
        return step

    def _require_open(self) -> None:
        if self._outcome is not None:
            raise self._outcome
        if self.memory.ended or self._closed:
            raise BethinkError("this text has ended; open another Client for another text")

    # for the connection

    def unsent(self, largest: int) -> Iterator[Message]:
        """What is to be sent now, in texts of at most so many characters; `end` last, if the text is complete."""
        memory = self.memory
        while memory.sent < len(memory.items):
            item = memory.items[memory.sent]
            memory.sent += 1
            if item.policy:
                yield {"type": "policy", "policy": item.policy}
            for begin in range(0, len(item.text), largest):
                yield {"type": "text", "text": item.text[begin : begin + largest]}
            self._room.set()
        if memory.ended:
            yield {"type": "end"}

    async def more(self) -> None:
        """Wait until there is something to send."""
        while not (self.memory.ended or self.memory.sent < len(self.memory.items)):
            self._more.clear()
            await self._more.wait()

    async def give(self, step: LiveStep | Exception) -> None:
        """To the reader; waits while it is far behind."""
        while len(self._steps) >= BEHIND:
            self._taken.clear()
            await self._taken.wait()
        self._steps.append(step)
        self._news.set()

    def close(self, outcome: Exception | None) -> None:
        """Nobody is left waiting."""
        self._closed, self._outcome = True, outcome
        self._news.set()
        self._room.set()
