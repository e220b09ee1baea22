"""How many speakers one server carries, what happens beyond, and whether anything is left over after a long day.

    python benchmarks/live.py                              everything, about six minutes
    python benchmarks/live.py --processes 2 --threads 1    the same with two servers, as behind a proxy
    python benchmarks/live.py --model toy --scenes levels --streams 100 300 500 --json toy.json
    python benchmarks/live.py --draw de-en.json toy.json --out live.svg --table docs/operating.md
    python benchmarks/live.py --quick                      half a minute, to see that everything works

Real server processes (`bethink serve`) and simulated speakers on the same machine, over loopback; what the speakers cost is counted
apart. Every speaker talks at 150 words per minute, a word at a time. The lag of a target word is the time from the sending
of the newest source word it was written with to its arrival at the client: what computing, queueing and the network cost, beyond the
policy's own waiting. Every stream's translation is compared with what the translator says alone.

Four scenes: growing numbers of speakers; a server that takes fewer than come, and a crowd of connections that are refused; more speakers
than it can follow, which it has to find out by itself; and an hour of speech for each of some speakers as fast as the server takes it,
with connections cut at random.
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

from speakers import RATE, REFUSALS, Talk, sentences, speaker, talks
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus, WebSocketException

from bethink import Action, Translator
from bethink.client import Client
from bethink.serve.limits import Limits
from bethink.trace import shown

GOAL = 300.0  # milliseconds, 95th percentile
CROWD = 150  # connections per second, at least
RUSH = 10.0  # seconds in which all of a rush come
TABLE = ("<!-- levels -->", "<!-- end of levels -->")  # what stands around the table on a page
HOUR = 60 * RATE  # words
HEAD = "  streams  refused  failed  exact  words/s   p50 ms   p95 ms   max ms  server CPU  clients' CPU  CPU ms/word  server MB  load"


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
    failed: int = 0  # let in, or not even answered, and not carried to the end

    def __str__(self) -> str:
        return (
            f"{self.streams:9d}{self.refused:9d}{self.failed:8d}{self.exact:7d}{self.words:9.0f}{self.p50:9.1f}{self.p95:9.1f}{self.worst:9.0f}"
            f"{self.server_cpu:12.2f}{self.client_cpu:14.2f}{self.cost:13.2f}{self.megabytes:11.0f}{self.load:6.1f}"
        )


class Server:
    """`bethink serve` on a free port."""

    entry: tuple[str, ...] = ("-m", "bethink")

    def __init__(self, model: str, *flags: str) -> None:
        command = [sys.executable, *self.entry, "serve", "--model", model, "--port", "0", *flags]
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

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=30)


@dataclass(frozen=True)
class Fleet:
    """The servers of one machine, which a proxy would stand before: streams go to them in turn."""

    servers: Sequence[Server]
    policy: str

    def url(self, number: int) -> str:
        return self.servers[number % len(self.servers)].url

    @property
    def cpu(self) -> float:
        return sum(server.metric("process_cpu_seconds_total") for server in self.servers)

    @property
    def megabytes(self) -> float:
        return sum(server.metric("process_resident_memory_bytes") for server in self.servers) / 1e6


@contextlib.contextmanager
def serving(options: argparse.Namespace, **limits: float) -> Iterator[Fleet]:
    given = {
        "rate": 1_000_000,
        "burst": 1_000_000,
        "streams": 4000,
        "address": 4000,
        "lag": 1_000_000,
        "drain": 1,
    } | limits
    flags = [part for name, value in given.items() for part in (f"--max-{name}", str(value))]
    if options.threads:
        flags += ["--threads", str(options.threads)]
    with contextlib.ExitStack() as stack:
        servers = [Server(options.model, *flags) for _ in range(options.processes)]
        for server in servers:
            stack.callback(server.stop)
        yield Fleet(servers, options.policy)


async def level(fleet: Fleet, made: Sequence[Talk], streams: int, spread: float = 10 * 60 / RATE) -> Level:
    """So many speakers at once, who begin within `spread` seconds, by default the time of a few words."""
    draw = random.Random(streams)
    began, cpu, own = time.perf_counter(), fleet.cpu, time.process_time()
    told = await asyncio.gather(
        *(speaker(fleet.url(n), fleet.policy, made[n % len(made)], draw.uniform(0, spread)) for n in range(streams))
    )
    seconds = time.perf_counter() - began
    carried = [one for one in told if not (one.refused or one.failed)]
    if failures := Counter(one.failed for one in told if one.failed):
        print(f"of {streams} speakers {failures.total()} failed: {dict(failures)}")
    lags = sorted(lag for one in carried for lag in one.lags) or [0.0]
    return Level(
        streams=streams,
        refused=sum(bool(one.refused) for one in told),
        failed=failures.total(),
        exact=sum(one.exact for one in carried),
        words=(words := sum(one.words for one in carried) / seconds),
        p50=lags[len(lags) // 2],
        p95=lags[int(0.95 * len(lags))],
        worst=lags[-1],
        server_cpu=(used := (fleet.cpu - cpu) / seconds),
        cost=1000 * used / max(words, 1e-9),
        client_cpu=(time.process_time() - own) / seconds,
        megabytes=fleet.megabytes,
        load=os.getloadavg()[0],
    )


async def crowd(fleet: Fleet, attempts: int) -> Counter[str]:
    """Connections that come as fast as they can, to servers that are full."""
    answers: Counter[str] = Counter()

    async def knock(number: int) -> None:
        try:
            async with connect(fleet.url(number), compression=None, open_timeout=60, close_timeout=60) as socket:
                await socket.send('{"type":"start","version":2}')
                message = json.loads(await socket.recv())
                answers[message.get("code", message["type"])] += 1
        except InvalidStatus as error:
            answers[f"HTTP {error.response.status_code}"] += 1
        except (WebSocketException, OSError, TimeoutError) as error:
            answers[type(error).__name__] += 1

    for begin in range(0, attempts, 50):
        await asyncio.gather(*(knock(number) for number in range(begin, min(begin + 50, attempts))))
    return answers


async def beyond(fleet: Fleet, made: Sequence[Talk], room: int, attempts: int) -> dict[str, Any]:
    """The servers are full; as many again come, and then a crowd."""
    carried = asyncio.create_task(level(fleet, made, 2 * room))
    await asyncio.sleep(12 * 60 / RATE)
    began = time.perf_counter()
    answers = await crowd(fleet, attempts)
    seconds = time.perf_counter() - began
    return {
        "room": room,
        "level": asdict(await carried),
        "attempts": attempts,
        "answers": dict(answers),
        "seconds": round(seconds, 2),
    }


async def soak(fleet: Fleet, translator: Translator, speakers: int, words: int, file: Path | None) -> dict[str, Any]:
    """Long talks as fast as the server takes them, over connections that break."""
    memory: list[tuple[float, float]] = []
    began = time.perf_counter()

    async def watch() -> None:
        while True:
            memory.append(
                (round(time.perf_counter() - began, 1), round(await asyncio.to_thread(lambda: fleet.megabytes), 2))
            )
            await asyncio.sleep(1)

    watching = asyncio.create_task(watch())
    told = await asyncio.gather(*(long_talk(fleet.url(n), translator, n, words, file) for n in range(speakers)))
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


async def long_talk(url: str, translator: Translator, number: int, words: int, file: Path | None) -> tuple[bool, int]:
    draw, talk = random.Random(number), sentences(translator, number, file)

    async def chunks() -> AsyncIterator[str]:
        said = 0
        while said < words:
            sentence = next(talk)
            said += len(sentence.split())
            expected.append(sentence)
            yield f"{sentence} "

    expected: list[str] = []
    exact, done, text = True, 0, ""
    async with Client(url, policy="wait-k:3") as client:
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
    made = talks(translator, options.policy, round(options.seconds * RATE / 60), options.talk)
    found: list[Level] = []
    print(HEAD)
    with serving(options) as fleet:
        for streams in options.streams:
            found.append(asyncio.run(level(fleet, made, streams)))
            print(found[-1], flush=True)
            if found[-1].p95 > 4 * GOAL:
                break
    carried = max((one.streams for one in found if one.p95 < GOAL and not one.failed), default=0)
    print(f"carried with p95 under {GOAL:g} ms: {carried} streams\n")
    return {"levels": [asdict(one) for one in found], "carried": carried}


def full(options: argparse.Namespace, translator: Translator) -> dict[str, Any]:
    room, seconds = options.room, max(options.seconds, options.attempts / CROWD)
    made = talks(translator, options.policy, round(seconds * RATE / 60), options.talk)
    with serving(options, streams=room // options.processes) as fleet:
        got = asyncio.run(beyond(fleet, made, room, options.attempts))
    print(f"room for {room}, {2 * room} come, and a crowd of {options.attempts} connections:\n{HEAD}")
    print(f"{Level(**got['level'])}\nthe crowd was told {got['answers']} in {got['seconds']} s\n")
    return {"beyond": got}


def rush(options: argparse.Namespace, translator: Translator) -> dict[str, Any]:
    made = talks(translator, options.policy, round(options.seconds * RATE / 60), options.talk)
    with serving(options, lag=Limits.lag) as fleet:
        got = asyncio.run(level(fleet, made, options.rush, RUSH))
    print(
        f"{options.rush} come within {RUSH:g} s, and how many may come in is the servers' own affair:\n{HEAD}\n{got}\n"
    )
    return {"rush": asdict(got)}


def long(options: argparse.Namespace, translator: Translator) -> dict[str, Any]:
    with serving(options) as fleet:
        got = asyncio.run(soak(fleet, translator, options.speakers, options.words, options.talk))
    print("soak:", json.dumps({key: value for key, value in got.items() if key != "memory"}))
    return {"soak": got}


SCENES = {"levels": levels, "full": full, "rush": rush, "soak": long}


def main() -> None:
    options = parse()
    if options.draw:
        found = [json.loads(path.read_text("utf-8")) for path in options.draw]
        if options.out:
            draw(found, options.out)
        if options.table:
            options.table.write_text(with_table(options.table.read_text("utf-8"), found), encoding="utf-8")
        return
    translator = Translator(options.model, threads=1)
    results = {
        "model": translator.name,
        "policy": options.policy or str(translator.policy),
        "cores": os.cpu_count(),
        "processes": options.processes,
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


def with_table(page: str, found: Sequence[dict[str, Any]]) -> str:
    """A page with the table of these results, and what it comes to."""
    return between(TABLE, page, f"{table(found)}\n\n{told(found)}")


def between(marks: tuple[str, str], page: str, text: str) -> str:
    """A page with this text between two comments that it has."""
    before, rest = page.split(marks[0])
    after = rest.split(marks[1])[1]
    return f"{before}{marks[0]}\n{text}\n{marks[1]}{after}"


def table(found: Sequence[dict[str, Any]]) -> str:
    heads = (
        "model, policy, servers",
        "speakers",
        "words/s",
        "median and 95 % lag",
        "CPU of the servers",
        "per source word",
        "memory",
    )
    rows = [*heads, "CPU of the speakers"], ["---"] * (len(heads) + 1)
    lines = [*rows, *(row for results in found for row in level_rows(results))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def told(found: Sequence[dict[str, Any]]) -> str:
    """What the table comes to, and what happened to those who were too many."""
    lines = [
        f"- {described(results)}: {results['carried']} speakers with a 95th percentile under {GOAL:g} ms."
        for results in found
        if "carried" in results
    ]
    for results in found:
        if scene := results.get("beyond"):
            full, answers = Level(**scene["level"]), Counter(scene["answers"])
            refused = sum(answers[code] for code in REFUSALS)
            failed = answers.total() - answers["ready"] - refused
            lines.append(
                f"- {described(results)}, with room for {scene['room']} streams: of {full.streams} speakers who came, {full.refused} were"
                f" refused{_also(full.failed)}, and of {scene['attempts']:,} connections in the {scene['seconds']:.0f} s after them"
                f" {refused:,}{_also(failed)}; the {full.exact} who were in got exactly their words, with a 95th percentile of"
                f" {full.p95:.0f} ms."
            )
        if "rush" in results:
            one = Level(**results["rush"])
            lines.append(
                f"- {described(results)}, told no limit: of {one.streams} speakers who came within {RUSH:g} s {one.refused} were refused"
                f"{_also(one.failed)}; the {one.exact} who were in got exactly their words, with a 95th percentile of {one.p95:,.0f} ms."
            )
    loads = [one["load"] for results in found for one in results.get("levels", [])]
    lines.append(f"- Load average of the machine after the levels: {min(loads):.1f} to {max(loads):.1f}.")
    return "\n".join(lines)


def _also(failed: int) -> str:
    return f" and {failed:,} failed" if failed else ""


def level_rows(results: dict[str, Any]) -> Iterator[list[str]]:
    name = described(results)
    for each in results.get("levels", []):
        one = Level(**each)
        lag, memory = f"{one.p50:,.0f}, {one.p95:,.0f} ms", f"{one.megabytes:,.0f} MB"
        used = [f"{one.server_cpu:.2f} cores", f"{one.cost:.1f} ms", memory, f"{one.client_cpu:.2f} cores"]
        came = f"{one.streams}, {one.failed} failed" if one.failed else str(one.streams)
        yield [name, came, f"{one.words:.0f}", lag, *used]
        name = ""


def described(results: dict[str, Any]) -> str:
    servers, threads = results["processes"], results["threads"]
    each = f"{servers} server{'s' * (servers > 1)} × {threads} thread{'s' * (threads > 1)}"
    return f"{results['model']}, {results['policy'].split(':')[0]}, {each}"


def draw(found: Sequence[dict[str, Any]], path: Path) -> None:
    """Left: how late words are for more and more speakers. Right: what a word costs the server, which gets less in a crowd."""
    import matplotlib as mpl

    mpl.use("svg" if path.suffix == ".svg" else "agg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "bethink"
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
    for results in found:
        if "levels" not in results:
            continue
        streams = [one["streams"] for one in results["levels"]]
        label = described(results)
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
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="de-en", help="of the toy language or German; for others, see --talk")
    parser.add_argument("--talk", type=Path, help="a file of text to say, for a model of another language")
    parser.add_argument("--policy", default="", help="which the speakers ask for (default: the model's own)")
    parser.add_argument(
        "--threads", type=int, default=0, help="of the server's arithmetic (default: one for each core)"
    )
    parser.add_argument("--processes", type=int, default=1, help="servers, among which the speakers are divided")
    parser.add_argument("--scenes", nargs="+", choices=SCENES, default=list(SCENES))
    parser.add_argument("--streams", nargs="+", type=int, default=[1, 5, 10, 20, 40, 60, 100, 200, 300, 400, 500, 600])
    parser.add_argument("--seconds", type=float, default=20.0, help="of speech at each number of speakers")
    parser.add_argument("--room", type=int, default=100, help="streams that the full servers take, all together")
    parser.add_argument("--attempts", type=int, default=10_000, help="connections that come to it")
    parser.add_argument("--rush", type=int, default=200, help="speakers who come to servers that were told no limit")
    parser.add_argument("--speakers", type=int, default=10, help="of the long talks")
    parser.add_argument("--words", type=int, default=HOUR, help="in each of them; an hour has 9,000")
    parser.add_argument("--quick", action="store_true", help="small numbers of everything")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    parser.add_argument("--out", type=Path, help="where to draw them")
    parser.add_argument(
        "--draw", nargs="+", type=Path, metavar="JSON", help="measure nothing; draw these files to --out"
    )
    parser.add_argument(
        "--table", type=Path, metavar="PAGE", help="with --draw: the page whose table of levels to renew"
    )
    options = parser.parse_args()
    if options.draw and not (options.out or options.table):
        parser.error("--draw needs --out or --table")
    if options.quick:
        options.streams, options.seconds, options.room, options.attempts = [5, 20], 5.0, 20, 500
        options.rush, options.speakers, options.words = 20, 4, 900
    return options


if __name__ == "__main__":
    main()
