"""One speaker and many listeners: how long a word takes from the room to every listener, and whether all see the same.

    python benchmarks/rooms.py                          # 500 listeners, a talk of two minutes at 150 words per minute
    python benchmarks/rooms.py --kills 50               # the server is killed and started again 50 times during the talk

The server, its speaker and the listeners (in a process of their own) share this machine. A word's time begins when the server
puts it into the room, before it is on disk, and ends when a listener's process has read it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from speakers import sentences

from bethink import Action, Translator
from bethink.client import Client
from bethink.files import write_atomically

RESULTS = Path(__file__).parent / "results"
AGAIN = 0.2  # seconds until a listener that lost its connection comes back


class Listener(asyncio.Protocol):
    """Keeps what arrives, and when; reads it after the talk, because listeners share the machine with the server."""

    def __init__(self, port: int, key: str) -> None:
        self.port, self.key = port, key
        self.pieces: list[tuple[float, bytes]] = []
        self.connections: list[int] = []  # the piece that each begins with
        self.last = -1  # the last event of the connections before
        self.done = asyncio.Event()

    async def run(self) -> None:
        while not self.done.is_set():
            try:
                await asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", self.port)
                await self.lost.wait()
            except OSError:
                await asyncio.sleep(AGAIN)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.lost = asyncio.Event()
        self.last = max([self.last, *(number for number, *_ in events(self.raw(-1)))])
        self.connections.append(len(self.pieces))
        name, _, token = self.key.partition(".")
        last = f"Last-Event-ID: {self.last}\r\n" if self.last >= 0 else ""
        request = f"GET /v1/rooms/{name}/events?token={token} HTTP/1.1\r\nHost: localhost\r\n{last}\r\n"
        transport.write(request.encode())

    def data_received(self, data: bytes) -> None:
        self.pieces.append((time.time(), data))
        if b"event: final" in (self.pieces[-2][1] if len(self.pieces) > 1 else b"") + data:
            self.done.set()
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()

    def raw(self, connection: int) -> bytes:
        """All that came on a connection."""
        if not self.connections:
            return b""
        begins = [*self.connections, len(self.pieces)]
        begin, end = (begins[-2], begins[-1]) if connection == -1 else (begins[connection], begins[connection + 1])
        return b"".join(data for _, data in self.pieces[begin:end])

    def text(self) -> str:
        found = [event for n in range(len(self.connections)) for event in events(self.raw(n))]
        numbers = [number for number, _, _ in found]
        assert numbers == sorted(set(numbers)), "an event came twice"
        return "".join(word for _, words, _ in found for _, word in words)

    def delays(self, opened: float) -> list[float]:
        """Milliseconds from the room to this listener, of the last word in each event."""
        return [
            1000 * (at - opened) - when
            for at, data in self.pieces
            for _, words, _ in events(data)
            for when, _ in words[-1:]
        ]


def events(raw: bytes) -> list[tuple[int, list[tuple[int, str]], bool]]:
    """The complete events in bytes that may hold chunk sizes and heads of answers as well."""
    found = []
    for block in raw.replace(b"\r\n", b"\n").split(b"id: ")[1:]:
        number, _, rest = block.partition(b"\ndata: ")
        data, end, _ = rest.partition(b"\n\n")
        if end:
            event = json.loads(data)
            found.append((int(number), event["words"], event.get("end", False)))
    return found


def listen(port: int, key: str, count: int, opened: float) -> None:
    """The listeners' process: prints what they got as JSON."""

    async def run() -> list[Listener]:
        listeners = [Listener(port, key) for _ in range(count)]
        tasks = [asyncio.create_task(listener.run()) for listener in listeners]
        while not all(listener.connections for listener in listeners):
            await asyncio.sleep(0.05)
        print("listening", flush=True)
        await asyncio.gather(*tasks)
        return listeners

    listeners = asyncio.run(run())
    texts = {listener.text() for listener in listeners}
    delays = sorted(delay for listener in listeners for delay in listener.delays(opened))
    connections = sum(len(listener.connections) for listener in listeners)
    print(
        json.dumps({"texts": sorted(texts), "delays": delays, "connections": connections, "cpu": time.process_time()})
    )


class Server:
    def __init__(self, model: str, folder: Path) -> None:
        self.command = [
            sys.executable,
            "-m",
            "bethink",
            "serve",
            "--model",
            model,
            "--threads",
            "1",
            "--rooms",
            str(folder),
        ]
        self.port = 0

    def start(self) -> None:
        command = [*self.command, "--port", str(self.port)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        assert "serving" in line, line + self.process.stderr.read()
        self.port = int(line.rpartition(":")[2])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            raw = answer.read()
        return json.loads(raw) if raw[:1] == b"{" else raw.decode()


async def speak(server: Server, key: str, words: list[str], rate: float, kills: int) -> str:
    """Say the words at their rate; kill the server at equal distances. Returns what the speaker was told."""
    async with Client(f"ws://127.0.0.1:{server.port}", room=key) as client:

        async def feed() -> None:
            for number, word in enumerate(words):
                await client.feed(f"{word} ")
                await asyncio.sleep(60 / rate)
                if (number + 1) * kills // len(words) > number * kills // len(words):
                    server.kill()
                    await asyncio.to_thread(server.start)
            await client.finish()

        feeding = asyncio.create_task(feed())
        said = "".join([step.text async for step in client if step.action is Action.WRITE])
        await feeding
    return said


def measure(args: argparse.Namespace) -> dict[str, Any]:
    translator = Translator(args.model, threads=1)
    words: list[str] = []
    for sentence in sentences(translator, 1000):
        words += sentence.split()
        if len(words) >= args.words:
            break
    with tempfile.TemporaryDirectory() as folder:
        server = Server(args.model, Path(folder))
        server.start()
        before = os.getloadavg()
        try:
            keys = server.ask("/v1/rooms", {})
            name, _, token = keys["listener"].partition(".")
            opened = server.ask(f"/v1/rooms/{name}?token={token}")["opened"]
            command = [sys.executable, __file__, "--listen", str(server.port), keys["listener"]]
            command += ["--listeners", str(args.listeners), "--opened", repr(opened)]
            crowd = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert crowd.stdout is not None
            assert crowd.stdout.readline() == "listening\n"
            began = time.monotonic()
            said = asyncio.run(speak(server, keys["speaker"], words, args.rate, args.kills))
            seconds = time.monotonic() - began
            got = json.loads(crowd.communicate(timeout=600)[0])
            metrics = dict(
                line.rsplit(" ", 1) for line in server.ask("/metrics").splitlines() if not line.startswith("#")
            )
        finally:
            server.kill()
    found = {
        "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "scheduling": scheduling(),
        "load": [round(one, 2) for one in (*before[:1], *os.getloadavg()[:1])],
        "model": args.model,
        "listeners": args.listeners,
        "words": len(words),
        "rate": args.rate,
        "kills": args.kills,
        "connections": got["connections"],
        "identical": got["texts"] == [said] and said == translator.translate(" ".join(words)),
    }
    if args.kills:  # what happens while there is no server is not a delay
        return found
    delays = got["delays"]
    return found | {
        "median": round(statistics.median(delays), 1),
        "p95": round(delays[int(0.95 * len(delays))], 1),
        "most": round(delays[-1], 1),
        "server_cores": round(float(metrics["process_cpu_seconds_total"]) / seconds, 3),
        "server_memory": round(float(metrics["process_resident_memory_bytes"]) / 1e6),
        "listener_cores": round(got["cpu"] / seconds, 3),
    }


def scheduling() -> str:
    """How this program and those it starts compete with others on the machine."""
    policy, nice = os.sched_getscheduler(0), os.nice(0)
    return f"nice {nice}" if policy == os.SCHED_OTHER else "real-time: other programs do not delay it"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="de-en")
    parser.add_argument("--listeners", type=int, default=500)
    parser.add_argument("--words", type=int, default=300)
    parser.add_argument("--rate", type=float, default=150.0, help="words per minute")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--json", type=Path, help="where to put the numbers")
    parser.add_argument("--listen", nargs=2, metavar=("PORT", "KEY"), help=argparse.SUPPRESS)
    parser.add_argument("--opened", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.listen:
        return listen(int(args.listen[0]), args.listen[1], args.listeners, args.opened)
    found = measure(args)
    for name, value in found.items():
        print(f"{name:16} {value}")
    if args.json:
        write_atomically(args.json, json.dumps(found, indent=1).encode() + b"\n")
    if not found["identical"]:
        raise SystemExit("not everybody saw the same words")
    return None


if __name__ == "__main__":
    main()
