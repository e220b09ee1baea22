"""Plain conversations with a server, message by message, for tests that want to see every frame."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from collections.abc import AsyncIterator, Sequence
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from bethink.trace import Step

Message = dict[str, Any]


def start(**fields: Any) -> Message:
    return {"type": "start", "version": 2, **fields}


def text(words: str) -> Message:
    return {"type": "text", "text": words}


END: Message = {"type": "end"}


class Talk:
    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def say(self, *messages: Message | str | bytes) -> None:
        for message in messages:
            await self.socket.send(json.dumps(message) if isinstance(message, dict) else message)

    async def hear(self) -> Message:
        message: Message = json.loads(await self.socket.recv())
        return message

    async def rest(self) -> list[Message]:
        """Everything until the server closes."""
        messages = []
        with contextlib.suppress(ConnectionClosed):
            while True:
                messages.append(await self.hear())
        return messages

    @property
    def code(self) -> int | None:
        return self.socket.close_code


@contextlib.asynccontextmanager
async def talk(url: str, **options: Any) -> AsyncIterator[Talk]:
    async with connect(url, compression=None, max_size=None, **options) as socket:
        yield Talk(socket)


async def whole(url: str, *messages: Message, **fields: Any) -> list[Message]:
    """A conversation from start to end: all that the server said."""
    async with talk(url) as client:
        await client.say(start(**fields), *messages, END)
        return await client.rest()


def steps(messages: Sequence[Message]) -> list[Message]:
    return [message for message in messages if message["type"] == "step"]


def shown(messages: Sequence[Message]) -> str:
    return "".join(step["text"] for step in steps(messages) if step["action"] == "WRITE")


def core(step: Message | Step) -> tuple[Any, ...]:
    """What must be the same however a step came about."""
    if isinstance(step, Step):
        return (
            step.sentence,
            step.action.value,
            step.token,
            step.read,
            step.heard,
            step.written,
            step.deferred,
            step.text,
        )
    names = ("sentence", "action", "token", "read", "heard", "written", "deferred", "text")
    return tuple(step[name] for name in names)


CONT, TEXT, PING = 0x0, 0x1, 0x9  # kinds of frames
HANDSHAKE = (
    "GET /v1/stream HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def frame(kind: int, payload: bytes = b"", *, last: bool = True) -> bytes:
    """One frame as a client sends it; a mask of zeros changes nothing."""
    first, size = kind | 0x80 * last, len(payload)
    head = bytes([first, 0x80 | size]) if size < 126 else struct.pack("!BBH", first, 0xFE, size)
    return head + bytes(4) + payload


@contextlib.asynccontextmanager
async def raw(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """An open WebSocket whose frames are the caller's business."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HANDSHAKE.format(port=port).encode())
    try:
        await reader.readuntil(b"\r\n\r\n")
        yield reader, writer
    finally:
        writer.transport.abort()
