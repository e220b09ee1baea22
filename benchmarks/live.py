"""How many speakers one server carries, what happens beyond, and whether anything is left over after a long day.

    python benchmarks/live.py                              everything, about six minutes
    python benchmarks/live.py --model toy --scenes levels --streams 100 300 500 --json toy.json
    python benchmarks/live.py --draw de-en.json toy.json --out live.svg
    python benchmarks/live.py --quick                      half a minute, to see that everything works

A real server process (`bethink serve`) and simulated speakers on the same machine, over loopback; what the speakers cost is part
of the picture. Every speaker talks at 150 words per minute, a word at a time. The lag of a target word is the time from the sending
of the newest source word it was written with to its arrival at the client: what computing, queueing and the network cost, beyond the
policy's own waiting. Every stream's translation is compared with what the translator says alone.

Three scenes: growing numbers of speakers; a server that takes fewer than come, and a crowd of connections that are refused; and an
hour of speech for each of some speakers as fast as the server takes it, with connections cut at random.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

import bethink
from bethink import Action, Translator, toy
from bethink.client import Client
from bethink.trace import shown

SAMPLES = Path(bethink.__file__).parent / "serve" / "page" / "samples"
RATE = 150  # words per minute
TALKS = 8  # different ones
GOAL = 300.0  # milliseconds, 95th percentile
CROWD = 150  # connections per second, at least
HOUR = 60 * RATE  # words
HEAD = "  streams  refused  exact  words/s   p50 ms   p95 ms   max ms  server CPU  clients' CPU  CPU ms/word  server MB  load"


@dataclass(frozen=True)
class Talk:
    words: tuple[str, ...]
    places: tuple[tuple[int, int], ...]  # of each word: its sentence, and its number in it
    translation: str


@dataclass
class Told:
    """What one speaker's listener got."""

    lags: list[float]
    words: int
    exact: bool = False
    refused: str = ""


@dataclass(frozen=True)
class Level:
    streams: int
    refused: int
    exact: int  # of those that were carried
    words: float  # source words per second, all together
    p50: float
    p95: float
    worst: float
    server_cpu: float  # cores
    client_cpu: float
    cost: float  # milliseconds of the server's CPU for one source word
    megabytes: float
    load: float  # of the machine, last minute

    def __str__(self) -> str:
        return (
            f"{self.streams:9d}{self.refused:9d}{self.exact:7d}{self.words:9.0f}{self.p50:9.1f}{self.p95:9.1f}{self.worst:9.0f}"
            f"{self.server_cpu:12.2f}{self.client_cpu:14.2f}{self.cost:13.2f}{self.megabytes:11.0f}{self.load:6.1f}"
        )


class Server:
    """`bethink serve` on a free port."""

    def __init__(self, model: str, policy: str, *flags: str) -> None:
        self.policy = policy
        command = [sys.executable, "-m", "bethink", "serve", "--model", model, "--port", "0", *flags]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        if "serving" not in line:
            sys.exit(f"the server did not start: {line}{self.process.stderr.read()}")
        self.http = "http" + line.split("http", 1)[1].strip()
        self.url = f"{self.http.replace('http', 'ws', 1)}/v1/stream"

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(f"{self.http}/metrics") as page:
            found = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", page.read().decode(), re.MULTILINE)
        return sum(map(float, found))

    @property
    def cpu(self) -> float:
        return self.metric("process_cpu_seconds_total")

    @property
    def megabytes(self) -> float:
        return self.metric("process_resident_memory_bytes") / 1e6

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=30)


@contextlib.contextmanager
def serving(options: argparse.Namespace, **limits: int) -> Iterator[Server]:
    given = {"rate": 1_000_000, "burst": 1_000_000, "streams": 4000, "lag": 1_000_000, "drain": 1} | limits
    flags = [part for name, value in given.items() for part in (f"--max-{name}", str(value))]
    if options.threads:
        flags += ["--threads", str(options.threads)]
    server = Server(options.model, options.policy, *flags)
    try:
        yield server
    finally:
        server.stop()


def sentences(translator: Translator, seed: int) -> Iterator[str]:
    """Without end: of the toy language, or of the talks that come with the page, in another order for each seed."""
    draw = random.Random(seed)
    if translator.about.get("toy"):
        known = [pair.source for pair in toy.sentences(400, seed=seed)]
    else:
        files = sorted(SAMPLES.glob(f"{translator.about['source']}-*.txt"))
        known = [one for file in files for one in re.split(r"(?<=[.!?])\s+", file.read_text("utf-8").strip())]
    while True:
        yield from draw.sample(known, len(known))


def talks(translator: Translator, policy: str, words: int) -> list[Talk]:
    made = []
    for seed in range(TALKS):
        spoken: list[str] = []
        for sentence in sentences(translator, 1000 + seed):
            spoken += sentence.split()
            if len(spoken) >= words:
                break
        steps = list(translator.stream([" ".join(spoken)], policy or None))
        places = tuple((step.sentence, step.heard - 1) for step in steps if step.action is Action.READ and step.text)
        made.append(Talk(tuple(spoken), places, shown(steps)))
    return made


async def speaker(server: Server, talk: Talk, delay: float) -> Told:
    """Says a talk, word by word, and listens."""
    await asyncio.sleep(delay)
    told, spoken, text = Told([], len(talk.words)), {}, []  # type: ignore[var-annotated]
    try:
        async with connect(server.url, compression=None, open_timeout=60, ping_interval=None) as socket:
            await socket.send(json.dumps({"type": "start", "version": 1, "policy": server.policy}))
            speaking: asyncio.Task[None] | None = None
            async for frame in socket:
                now, message = time.perf_counter(), json.loads(frame)
                if message["type"] == "ready":
                    speaking = asyncio.create_task(say(socket, talk, spoken))
                elif message["type"] == "step" and message["action"] == "WRITE" and message["text"]:
                    text.append(message["text"])
                    told.lags.append(1000 * (now - spoken[message["sentence"], message["heard"] - 1]))
                elif message["type"] == "error":
                    told.refused = message["code"]
            if speaking is not None:
                speaking.cancel()
    except (WebSocketException, OSError, TimeoutError) as error:
        told.refused = told.refused or type(error).__name__
    told.exact = "".join(text) == talk.translation
    return told


async def say(socket: ClientConnection, talk: Talk, spoken: dict[tuple[int, int], float]) -> None:
    due = time.perf_counter()
    with contextlib.suppress(ConnectionClosed):
        for word, place in zip(talk.words, talk.places, strict=True):
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            spoken[place] = time.perf_counter()
            await socket.send(json.dumps({"type": "text", "text": f"{word} "}))
            due += 60 / RATE
        await socket.send('{"type":"end"}')


async def level(server: Server, made: Sequence[Talk], streams: int) -> Level:
    """So many speakers at once, who begin within the time of a few words."""
    draw = random.Random(streams)
    began, cpu, own = time.perf_counter(), server.cpu, time.process_time()
    told = await asyncio.gather(
        *(speaker(server, made[n % len(made)], draw.uniform(0, 10 * 60 / RATE)) for n in range(streams))
    )
    seconds = time.perf_counter() - began
    carried = [one for one in told if not one.refused]
    lags = sorted(lag for one in carried for lag in one.lags) or [0.0]
    return Level(
        streams=streams,
        refused=len(told) - len(carried),
        exact=sum(one.exact for one in carried),
        words=(words := sum(one.words for one in carried) / seconds),
        p50=lags[len(lags) // 2],
        p95=lags[int(0.95 * len(lags))],
        worst=lags[-1],
        server_cpu=(used := (server.cpu - cpu) / seconds),
        cost=1000 * used / max(words, 1e-9),
        client_cpu=(time.process_time() - own) / seconds,
        megabytes=server.megabytes,
        load=os.getloadavg()[0],
    )


async def crowd(url: str, attempts: int) -> Counter[str]:
    """Connections that come as fast as they can, to a server that is full."""
    answers: Counter[str] = Counter()

    async def knock() -> None:
        try:
            async with connect(url, compression=None, open_timeout=60, close_timeout=60) as socket:
                await socket.send('{"type":"start","version":1}')
                message = json.loads(await socket.recv())
                answers[message.get("code", message["type"])] += 1
        except (WebSocketException, OSError, TimeoutError) as error:
            answers[type(error).__name__] += 1

    for begin in range(0, attempts, 50):
        await asyncio.gather(*(knock() for _ in range(min(50, attempts - begin))))
    return answers


async def beyond(server: Server, made: Sequence[Talk], streams: int, attempts: int) -> dict[str, Any]:
    """The server is full; as many again come, and then a crowd."""
    carried = asyncio.create_task(level(server, made, 2 * streams))
    await asyncio.sleep(12 * 60 / RATE)
    began = time.perf_counter()
    answers = await crowd(server.url, attempts)
    seconds = time.perf_counter() - began
    return {
        "level": asdict(await carried),
        "attempts": attempts,
        "answers": dict(answers),
        "seconds": round(seconds, 2),
    }


async def soak(server: Server, translator: Translator, speakers: int, words: int) -> dict[str, Any]:
    """Long talks as fast as the server takes them, over connections that break."""
    memory: list[tuple[float, float]] = []
    began = time.perf_counter()

    async def watch() -> None:
        while True:
            memory.append(
                (round(time.perf_counter() - began, 1), round(await asyncio.to_thread(lambda: server.megabytes), 2))
            )
            await asyncio.sleep(1)

    watching = asyncio.create_task(watch())
    told = await asyncio.gather(*(long_talk(server, translator, n, words) for n in range(speakers)))
    watching.cancel()
    third = max(1, len(memory) // 3)
    early, late = (
        statistics.median(value for _, value in part) for part in (memory[third : 2 * third], memory[-third:])
    )
    return {
        "speakers": speakers,
        "hours": round(speakers * words / HOUR, 2),
        "seconds": round(time.perf_counter() - began, 1),
        "exact": sum(exact for exact, _ in told),
        "reconnects": sum(reconnects for _, reconnects in told),
        "megabytes_middle_third": round(early, 2),
        "megabytes_last_third": round(late, 2),
        "memory": memory,
    }


async def long_talk(server: Server, translator: Translator, number: int, words: int) -> tuple[bool, int]:
    draw, talk = random.Random(number), sentences(translator, number)

    async def chunks() -> AsyncIterator[str]:
        said = 0
        while said < words:
            sentence = next(talk)
            said += len(sentence.split())
            expected.append(sentence)
            yield f"{sentence} "

    expected: list[str] = []
    exact, done, text = True, 0, ""
    async with Client(server.url, policy="wait-k:3") as client:
        async for step in client.stream(chunks()):
            if step.action is Action.WRITE:
                text += step.text
                if step.end:
                    if done % 100 == 0:  # every one would cost more than the server
                        exact &= text.strip() == shown(list(translator.stream([expected[done]], "wait-k:3")))
                    done, text = done + 1, ""
            if draw.random() < 1 / 5000:
                await cut(client)
    return exact and done == len(expected), client.reconnects


async def cut(client: Client) -> None:
    """As a network does it: without a goodbye."""
    if client.socket is not None:
        client.socket.transport.abort()


def levels(options: argparse.Namespace, translator: Translator) -> dict[str, Any]:
    made = talks(translator, options.policy, round(options.seconds * RATE / 60))
    found: list[Level] = []
    print(HEAD)
    with serving(options) as server:
        for streams in options.streams:
            found.append(asyncio.run(level(server, made, streams)))
            print(found[-1], flush=True)
            if found[-1].p95 > 4 * GOAL:
                break
    carried = max((one.streams for one in found if one.p95 < GOAL), default=0)
    print(f"carried with p95 under {GOAL:g} ms: {carried} streams\n")
    return {"levels": [asdict(one) for one in found], "carried": carried}


def full(options: argparse.Namespace, translator: Translator) -> dict[str, Any]:
    room, seconds = options.room, max(options.seconds, options.attempts / CROWD)
    made = talks(translator, options.policy, round(seconds * RATE / 60))
    with serving(options, streams=room) as server:
        got = asyncio.run(beyond(server, made, room, options.attempts))
    print(f"room for {room}, {2 * room} come, and a crowd of {options.attempts} connections:\n{HEAD}")
    print(f"{Level(**got['level'])}\nthe crowd was told {got['answers']} in {got['seconds']} s\n")
    return {"beyond": got}


def long(options: argparse.Namespace, translator: Translator) -> dict[str, Any]:
    with serving(options) as server:
        got = asyncio.run(soak(server, translator, options.speakers, options.words))
    print("soak:", json.dumps({key: value for key, value in got.items() if key != "memory"}))
    return {"soak": got}


SCENES = {"levels": levels, "full": full, "soak": long}


def main() -> None:
    options = parse()
    if options.draw:
        draw([json.loads(path.read_text("utf-8")) for path in options.draw], options.out)
        return
    translator = Translator(options.model, threads=1)
    results = {
        "model": translator.name,
        "policy": options.policy or str(translator.policy),
        "cores": os.cpu_count(),
        "threads": options.threads or os.cpu_count(),
        "rate": RATE,
    }
    print(f"{translator.name}, {results['policy']}, {RATE} words per minute; load average {os.getloadavg()[0]:.1f}")
    for scene in options.scenes:
        results |= SCENES[scene](options, translator)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if options.out:
        draw([results], options.out)


def draw(found: Sequence[dict[str, Any]], path: Path) -> None:
    """Left: how late words are for more and more speakers. Right: what a word costs the server, which gets less in a crowd."""
    import matplotlib as mpl

    mpl.use("svg" if path.suffix == ".svg" else "agg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "bethink"
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for results in found:
        streams = [one["streams"] for one in results["levels"]]
        label = f"{results['model']}, {results['policy'].split(':')[0]}"
        left.plot(streams, [one["p95"] for one in results["levels"]], marker="o", label=label)
        right.plot(streams, [one["cost"] for one in results["levels"]], marker="o", label=label)
    left.axhline(GOAL, color="grey", linewidth=1, linestyle="--")
    speakers = f"speakers at {RATE} words per minute"
    left.set(xlabel=speakers, ylabel="ms", xscale="log", yscale="log", title="word lag, 95th percentile")
    right.set(xlabel=speakers, ylabel="ms", xscale="log", ylim=(0, None), title="server CPU for one source word")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.xaxis.set_major_formatter("{x:g}")
    left.yaxis.set_major_formatter("{x:,g}")
    left.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model", default="de-en", help="one that speaks the toy language or that of a talk of the page"
    )
    parser.add_argument("--policy", default="", help="which the speakers ask for (default: the model's own)")
    parser.add_argument(
        "--threads", type=int, default=0, help="of the server's arithmetic (default: one for each core)"
    )
    parser.add_argument("--scenes", nargs="+", choices=SCENES, default=list(SCENES))
    parser.add_argument("--streams", nargs="+", type=int, default=[1, 5, 10, 20, 40, 60, 100, 200, 300, 400, 500, 600])
    parser.add_argument("--seconds", type=float, default=20.0, help="of speech at each number of speakers")
    parser.add_argument("--room", type=int, default=100, help="streams that the full server takes")
    parser.add_argument("--attempts", type=int, default=10_000, help="connections that come to it")
    parser.add_argument("--speakers", type=int, default=10, help="of the long talks")
    parser.add_argument("--words", type=int, default=HOUR, help="in each of them; an hour has 9,000")
    parser.add_argument("--quick", action="store_true", help="small numbers of everything")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    parser.add_argument("--out", type=Path, help="where to draw them")
    parser.add_argument(
        "--draw", nargs="+", type=Path, metavar="JSON", help="measure nothing; draw these files to --out"
    )
    options = parser.parse_args()
    if options.draw and not options.out:
        parser.error("--draw needs --out")
    if options.quick:
        options.streams, options.seconds, options.room, options.attempts = [5, 20], 5.0, 20, 500
        options.speakers, options.words = 4, 900
    return options


if __name__ == "__main__":
    main()
