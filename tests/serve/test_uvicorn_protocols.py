"""What is written in one turn of the event loop reaches the system in one call, whole and in order."""

from __future__ import annotations

import asyncio

from bethink.serve.uvicorn_protocols import BatchingTransport
from tests.serve.servers import play


class Wire(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed, "nothing is written after the end"
        self.calls.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def test_frames_of_one_turn_go_out_together() -> None:
    async def scene() -> list[bytes]:
        wire = Wire()
        batching = BatchingTransport(wire, asyncio.get_running_loop())
        for turn in ("ab", "c", "def"):
            for frame in turn:
                batching.write(frame.encode())
            await asyncio.sleep(0)
        return wire.calls

    assert play(scene) == [b"ab", b"c", b"def"]


def test_last_words_are_written_before_the_end() -> None:
    async def scene() -> Wire:
        wire = Wire()
        batching = BatchingTransport(wire, asyncio.get_running_loop())
        batching.write(b"goodbye")
        batching.close()
        assert batching.is_closing()
        await asyncio.sleep(0)
        return wire

    wire = play(scene)
    assert wire.calls == [b"goodbye"]
    assert wire.closed
