"""Attacks on a server, and how late a bystander's words are meanwhile: `python -m tests.load.attack MODEL [ATTACK …]`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

from websockets.asyncio.client import connect

from tests.ports import free_port
from tests.serve.talk import CONT, PING, TEXT, frame, raw

ROOT = Path(__file__).parents[2]
TALKS = {
    "toy": "te riki nakoru , ne ruru wa homuran haturu . ",
    "de-en": "Wir wollen gemeinsam darüber sprechen , wie unsere Stadt in zehn Jahren aussehen soll . ",
}
ELSEWHERE = ("127.0.0.2", 0)  # the address of the bystander; the attackers have another
START = json.dumps({"type": "start", "version": 2}).encode()


async def flood(port: int, payload: bytes, read: bool = True) -> None:
    """One socket that sends the same bytes as fast as they are taken; it comes back when it is put out."""
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            async with raw(port) as (reader, writer):
                if not read:
                    writer.transport.pause_reading()  # type: ignore[attr-defined]
                while True:
                    writer.write(payload)
                    await writer.drain()
                    if reader.at_eof():
                        break
                    await asyncio.sleep(len(payload) / 1.5e6)
        await asyncio.sleep(0.1)


async def paste(port: int, text: str) -> None:
    """A stream that sends text as fast as it is taken."""
    while True:
        with contextlib.suppress(OSError, Exception):
            async with connect(f"ws://127.0.0.1:{port}/v1/stream", compression=None, close_timeout=0.1) as socket:
                await socket.send(START.decode())
                reading = asyncio.create_task(_drop(socket))
                try:
                    while not reading.done():
                        await socket.send(json.dumps({"type": "text", "text": text * 20}))
                        await asyncio.sleep(0.05)
                finally:
                    reading.cancel()
        await asyncio.sleep(0.5)


async def _drop(socket: object) -> None:
    async for _ in socket:  # type: ignore[attr-defined]
        pass


async def bystander(port: int, talk: str, seconds: float) -> list[float]:
    """Someone who speaks three words a second; from each word sent to the step that read it, in milliseconds."""
    lags: list[float] = []
    async with connect(f"ws://127.0.0.1:{port}/v1/stream", compression=None, local_addr=ELSEWHERE) as socket:
        await socket.send(START.decode())
        await socket.recv()
        sent: list[tuple[int, float]] = []

        async def hear() -> None:
            async for message in socket:
                step = json.loads(message)
                while sent and step["type"] == "step" and sent[0][0] <= step.get("offset", -1):
                    lags.append(1000 * (time.monotonic() - sent.pop(0)[1]))

        hearing = asyncio.create_task(hear())
        position, deadline = 0, time.monotonic() + seconds
        words = talk.split()
        for number in range(10**6):
            word = words[number % len(words)] + " "
            position += len(word)
            sent.append((position, time.monotonic()))
            await socket.send(json.dumps({"type": "text", "text": word}))
            await asyncio.sleep(1 / 3)
            if time.monotonic() > deadline:
                break
        await asyncio.sleep(1)
        hearing.cancel()
        lags += [1000 * (time.monotonic() - at) for _, at in sent[:-1]]  # never read
    return lags


@contextlib.contextmanager
def serving(model: str, *flags: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "bethink",
        "serve",
        "--model",
        model,
        "--threads",
        "1",
        "--port",
        str(port),
        *flags,
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stderr is not None
        process.stderr.readline()
        time.sleep(1)
        yield port, process
    finally:
        process.kill()
        process.wait()


def memory(process: subprocess.Popen[str]) -> float:
    """Megabytes of the process."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def fragments(size: int) -> bytes:
    """A message in parts of this many bytes each."""
    return frame(TEXT, b"x", last=False) + frame(CONT, b"x" * size, last=False) * 4096


Attack = Callable[[int, str], list[Coroutine[None, None, None]]]
ATTACKS: dict[str, Attack] = {
    "at rest": lambda _, __: [],
    "one socket pings": lambda port, _: [flood(port, frame(PING) * 4096)],
    "one socket sends empty parts": lambda port, _: [flood(port, fragments(0))],
    "one socket sends empty texts": lambda port, _: [
        flood(port, frame(TEXT, START) + frame(TEXT, b'{"type":"text","text":""}') * 1024)
    ],
    "20 sockets ping and never read": lambda port, _: [
        flood(port, frame(PING, b"x" * 125) * 512, False) for _ in range(20)
    ],
    "80 sockets paste": lambda port, talk: [paste(port, talk) for _ in range(80)],
}


async def under(attack: Attack, port: int, process: subprocess.Popen[str], talk: str) -> tuple[list[float], float]:
    tasks = [asyncio.create_task(one) for one in attack(port, talk)]
    await asyncio.sleep(3)
    lags = await bystander(port, talk, 12)
    used = memory(process)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return lags, used


def main() -> None:
    model, only = sys.argv[1], sys.argv[2:]
    for name, attack in ATTACKS.items():
        if only and name not in only:
            continue
        with serving(model) as (port, process):
            lags, used = asyncio.run(under(attack, port, process, TALKS[model]))
        median, p95 = statistics.median(lags), statistics.quantiles(lags, n=20)[-1]
        print(f"{name:32} median {median:7.1f} ms, p95 {p95:7.1f} ms, {used:5.0f} MB", flush=True)


if __name__ == "__main__":
    main()
