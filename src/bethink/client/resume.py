"""What a client keeps in order to continue after a lost connection: the open sentence and unsent text."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from bethink.serve.protocol import Message
from bethink.trace import units


@dataclass(frozen=True, slots=True)
class Item:
    """Text or a change of policy, and its place in the whole text."""

    offset: int
    text: str = ""
    policy: str = ""

    @property
    def end(self) -> int:
        return self.offset + units(self.text)


class ReplayBuffer:
    """The part of a text that may have to be sent again; knows no socket. docs/protocol.md explains why this is enough."""

    def __init__(self) -> None:
        self.items: deque[Item] = deque()
        self.ended = False
        self._sent = 0  # items sent on this connection
        self._seen = 0  # steps received
        self._check = ""  # checksum of the last of them
        self._point: Message | None = None  # the last `resume` object from the server
        self._offset = 0

    @property
    def unsent(self) -> int:
        """UTF-16 units of text not sent yet."""
        return self._offset - self.items[self._sent].offset if self._sent < len(self.items) else 0

    @property
    def has_news(self) -> bool:
        """Whether there is something to send; the end of the text counts."""
        return self.ended or self._sent < len(self.items)

    def feed(self, text: str) -> None:
        if text:
            self.items.append(Item(self._offset, text=text))
            self._offset = self.items[-1].end

    def change(self, policy: str) -> None:
        self.items.append(Item(self._offset, policy=policy))

    def messages(self, largest: int) -> Iterator[Message]:
        """The messages to send now, with at most `largest` characters of text each; `end` last, if the text is complete."""
        while self._sent < len(self.items):
            item = self.items[self._sent]
            self._sent += 1
            if item.policy:
                yield {"type": "policy", "policy": item.policy}
            for begin in range(0, len(item.text), largest):
                yield {"type": "text", "text": item.text[begin : begin + largest]}
        if self.ended:
            yield {"type": "end"}

    def see(self, message: Message) -> None:
        """Note a step that was received."""
        self._seen, self._check = message["n"] + 1, message["check"]

    def settle(self, point: Message) -> None:
        """Forget everything before a resume point; keep a change of policy exactly at it."""
        self._point, offset = point, int(point["offset"])
        self._seen = max(self._seen, int(point["step"]))  # in a room, a stream counts on from the one before it
        while self.items and (first := self.items[0]).offset < offset:
            if first.end > offset:
                self.items[0] = Item(offset, text=cut(first.text, offset - first.offset))
                return
            self.items.popleft()
            self._sent = max(0, self._sent - 1)

    def resume(self) -> Message:
        """The `resume` field for `start`, empty if nothing was received; everything kept will be sent again."""
        self._sent = 0
        if self._point is None:
            return {}
        check = {"check": self._check} if self._seen > self._point["step"] else {}
        return {"resume": self._point | {"seen": self._seen} | check}


def cut(text: str, position: int) -> str:
    """The text after a position that counts UTF-16 code units."""
    if text.isascii():
        return text[position:]
    raw = text.encode("utf-16-le", "surrogatepass")[2 * position :]
    return raw.decode("utf-16-le", "surrogatepass")
