"""What a client keeps so that it can begin again where its connection broke: the open sentence, and what was not sent yet."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from bethink.serve.protocol import LiveStep, Mark, Message, cut, units


@dataclass(frozen=True, slots=True)
class Said:
    """A text, or a change of policy, and its place in the whole text."""

    offset: int
    text: str = ""
    policy: str = ""

    @property
    def end(self) -> int:
        return self.offset + units(self.text)


class Memory:
    """One text on its way, free of sockets: `docs/protocol.md` says why this is enough."""

    def __init__(self) -> None:
        self.items: deque[Said] = deque()
        self.sent = 0  # how many of them were sent on this connection
        self.ended = False
        self.seen = 0
        self._mark: Mark | None = None
        self._check = ""
        self._offset = 0

    @property
    def unsent(self) -> int:
        """Units of text that still have to be sent."""
        return self._offset - self.items[self.sent].offset if self.sent < len(self.items) else 0

    def say(self, text: str) -> None:
        if text:
            self.items.append(Said(self._offset, text=text))
            self._offset = self.items[-1].end

    def change(self, policy: str) -> None:
        self.items.append(Said(self._offset, policy=policy))

    def see(self, step: LiveStep) -> None:
        self.seen, self._check = step.n + 1, step.check

    def settle(self, mark: Mark) -> None:
        """Everything before the mark is done with, but not a change of policy right at it."""
        self._mark = mark
        while self.items and (first := self.items[0]).offset < mark.offset:
            if first.end > mark.offset:
                self.items[0] = Said(mark.offset, text=cut(first.text, mark.offset - first.offset))
                return
            self.items.popleft()
            self.sent = max(0, self.sent - 1)

    def resume(self) -> Message:
        """For `start`: where to begin again; nothing if nothing began."""
        self.sent = 0
        if self._mark is None:
            return {}
        check = {"check": self._check} if self.seen > self._mark.step else {}
        return {"resume": self._mark.to_message() | {"seen": self.seen} | check}
