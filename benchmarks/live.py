"""How many speakers one server carries, what happens beyond, and whether anything is left over after a long day.

    python benchmarks/live.py                              everything, about six minutes
    python benchmarks/live.py --streams 100 300 500 --seconds 20 --json live.json --out live.svg
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

from bethink import Action, Translator, toy
from bethink.client import Client
from bethink.trace import shown

RATE = 150  # words per minute
TALKS = 8  # different ones
GOAL = 300.0  # milliseconds, 95th percentile
CROWD = 150  # connections per second, at least
HOUR = 60 * RATE  # words
HEAD = "  streams  refused  exact  words/s   p50 ms   p95 ms   max ms  server CPU  clients' CPU  server MB"


@dataclass(frozen=True)
class Talk:
    words: tuple[str, ...]
    places: tuple[tuple[int, int], ...]  # of each word: its sentence, and its number in it
    translation: str


@dataclass
class Told:
    """What one speaker's listener got."""

    lags: list[float]
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
    megabytes: float

    def __str__(self) -> str:
        return (
            f"{self.streams:9d}{self.refused:9d}{self.exact:7d}{self.words:9.0f}{self.p50:9.1f}{self.p95:9.1f}{self.worst:9.0f}"
            f"{self.server_cpu:12.2f}{self.client_cpu:14.2f}{self.megabytes:11.0f}"
        )


class Server:
    """`bethink serve` on a free port."""

    def __init__(self, model: str, *flags: str) -> None:
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
def serving(model: str, **limits: int) -> Iterator[Server]:
    given = {"rate": 1_000_000, "burst": 1_000_000, "streams": 4000, "lag": 1_000_000, "drain": 1} | limits
    server = Server(model, *(part for name, value in given.items() for part in (f"--max-{name}", str(value))))
    try:
        yield server
    finally:
        server.stop()


def talks(translator: Translator, words: int) -> list[Talk]:
    made = []
    for seed in range(TALKS):
        spoken: list[str] = []
        places: list[tuple[int, int]] = []
        for number, pair in enumerate(toy.sentences(words, seed=1000 + seed)):
            if len(spoken) >= words:
                break
            sentence = pair.source.split()
            spoken += sentence
            places += [(number, place) for place in range(len(sentence))]
        text = " ".join(spoken) + " "
        made.append(Talk(tuple(spoken), tuple(places), translator.translate(text)))
    return made


async def speaker(url: str, talk: Talk, delay: float) -> Told:
    """Says a talk, word by word, and listens."""
    await asyncio.sleep(delay)
    told, spoken, text = Told([]), {}, []  # type: ignore[var-annotated]
    try:
        async with connect(url, compression=None, open_timeout=60, ping_interval=None) as socket:
            await socket.send('{"type":"start","version":1}')
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
            await socket.send(f'{{"type":"text","text":"{word} "}}')
            due += 60 / RATE
        await socket.send('{"type":"end"}')


async def level(server: Server, made: Sequence[Talk], streams: int) -> Level:
    """So many speakers at once, who begin within the time of a few words."""
    draw = random.Random(streams)
    began, cpu, own = time.perf_counter(), server.cpu, time.process_time()
    told = await asyncio.gather(
        *(speaker(server.url, made[n % len(made)], draw.uniform(0, 10 * 60 / RATE)) for n in range(streams))
    )
    seconds = time.perf_counter() - began
    carried = [one for one in told if not one.refused]
    lags = sorted(lag for one in carried for lag in one.lags) or [0.0]
    return Level(
        streams=streams,
        refused=len(told) - len(carried),
        exact=sum(one.exact for one in carried),
        words=sum(len(made[0].words) for _ in carried) / seconds,
        p50=lags[len(lags) // 2],
        p95=lags[int(0.95 * len(lags))],
        worst=lags[-1],
        server_cpu=(server.cpu - cpu) / seconds,
        client_cpu=(time.process_time() - own) / seconds,
        megabytes=server.megabytes,
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
    sentences = list(toy.sentences(words // 8, seed=77))
    memory: list[tuple[float, float]] = []
    began = time.perf_counter()

    async def watch() -> None:
        while True:
            memory.append(
                (round(time.perf_counter() - began, 1), round(await asyncio.to_thread(lambda: server.megabytes), 2))
            )
            await asyncio.sleep(1)

    watching = asyncio.create_task(watch())
    told = await asyncio.gather(*(long_talk(server, translator, sentences, n, words) for n in range(speakers)))
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


async def long_talk(
    server: Server, translator: Translator, sentences: Sequence[toy.ToyPair], number: int, words: int
) -> tuple[bool, int]:
    draw = random.Random(number)

    async def chunks() -> AsyncIterator[str]:
        said = 0
        while said < words:
            sentence = draw.choice(sentences).source
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


def main() -> None:
    options = parse()
    translator = Translator(options.model, threads=1)
    made = talks(translator, round(options.seconds * RATE / 60))
    results: dict[str, Any] = {
        "model": translator.name,
        "policy": str(translator.policy),
        "cores": os.cpu_count(),
        "levels": [],
    }
    print(
        f"{translator.name}, {translator.policy}, {RATE} words per minute; load average now {os.getloadavg()[0]:.1f}\n{HEAD}"
    )
    with serving(options.model) as server:
        for streams in options.streams:
            got = asyncio.run(level(server, made, streams))
            results["levels"].append(asdict(got))
            print(got, flush=True)
            if got.p95 > 4 * GOAL:
                break
    within = [found["streams"] for found in results["levels"] if found["p95"] < GOAL]
    results["carried"] = max(within, default=0)
    print(f"carried with p95 under {GOAL:g} ms: {results['carried']} streams\n")
    room, seconds = options.room, max(options.seconds, options.attempts / CROWD)
    with serving(options.model, streams=room) as server:
        made = talks(translator, round(seconds * RATE / 60))
        results["beyond"] = asyncio.run(beyond(server, made, room, options.attempts))
    print(f"room for {room}, {2 * room} come, and a crowd of {options.attempts} connections:\n{HEAD}")
    print(
        f"{Level(**results['beyond']['level'])}\nthe crowd was told {results['beyond']['answers']} in {results['beyond']['seconds']} s\n"
    )
    with serving(options.model) as server:
        results["soak"] = asyncio.run(soak(server, translator, options.speakers, options.words))
    print("soak:", json.dumps({key: value for key, value in results["soak"].items() if key != "memory"}))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    if options.out:
        draw(results, options.out)


def draw(results: dict[str, Any], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg" if path.suffix == ".svg" else "agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    streams = [found["streams"] for found in results["levels"]]
    for name, label in (("p50", "median"), ("p95", "95 %")):
        left.plot(streams, [found[name] for found in results["levels"]], marker="o", label=label)
    left.axhline(GOAL, color="grey", linewidth=1, linestyle="--")
    left.set(
        xlabel="speakers at 150 words per minute",
        ylabel="word lag, ms",
        yscale="log",
        title="beyond the policy's own waiting",
    )
    left.legend(frameon=False)
    times, sizes = zip(*results["soak"]["memory"], strict=True)
    right.plot(times, sizes)
    right.set(
        xlabel="seconds",
        ylabel="server memory, MB",
        ylim=(0, None),
        title=f"{results['soak']['hours']:g} hours of speech",
    )
    figure.savefig(path)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="toy", help="a model that speaks the toy language")
    parser.add_argument("--streams", nargs="+", type=int, default=[50, 100, 200, 300, 400, 500, 600, 800])
    parser.add_argument("--seconds", type=float, default=20.0, help="of speech at each number of speakers")
    parser.add_argument("--room", type=int, default=100, help="streams that the full server takes")
    parser.add_argument("--attempts", type=int, default=10_000, help="connections that come to it")
    parser.add_argument("--speakers", type=int, default=10, help="of the long talks")
    parser.add_argument("--words", type=int, default=HOUR, help="in each of them; an hour has 9,000")
    parser.add_argument("--quick", action="store_true", help="small numbers of everything")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    parser.add_argument("--out", type=Path, help="where to draw them")
    options = parser.parse_args()
    if options.quick:
        options.streams, options.seconds, options.room, options.attempts = [20, 50], 5.0, 20, 500
        options.speakers, options.words = 4, 900
    return options


if __name__ == "__main__":
    main()
