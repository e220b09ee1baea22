"""Where the time of a word goes: `bethink serve` with a meter at each of its parts, and simulated speakers.

    python benchmarks/parts.py --streams 80 --json parts.json --table docs/operating.md

Processor time in milliseconds for one source word, from the server's own clock of each thread. Besides, how full the model's calls are:
rows are decoder positions and source tokens, and of what the decoder looks at, the share that is source and not padding.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from live import Fleet, Server, between, level
from speakers import talks

from bethink import Translator
from bethink.backend.kv_cache import KVCache
from bethink.backend.onnx import Program
from bethink.cli import main as bethink
from bethink.engine_thread import EngineThread

SPENT: Counter[str] = Counter()  # seconds of a thread
MADE: Counter[str] = Counter()
TABLE = ("<!-- parts -->", "<!-- end of parts -->")  # what stands around the table on a page
NOTED = "BETHINK_PARTS"  # where the metered server leaves its account


class Metered(Server):
    entry = (str(Path(__file__)), "--metered")


def metered(part: str | Callable[..., str], act: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(act)
    def timed(*given: Any, **more: Any) -> Any:
        began = time.thread_time()
        try:
            return act(*given, **more)
        finally:
            SPENT[part if isinstance(part, str) else part(*given, **more)] += time.thread_time() - began

    return timed


def call(_: Program, feeds: Mapping[str, Any], **dims: int) -> str:
    """Which graph it was; and how full its call."""
    part = "decoder" if "prefixes" in feeds else "encoder"
    MADE[f"{part} calls"] += 1
    MADE[f"{part} rows"] += dims["R"]
    if part == "decoder":
        MADE["source read"] += int(feeds["prefixes"].sum())
        MADE["source looked at"] += dims["R"] * dims["I"]
    return part


def serve() -> int:
    """`bethink serve`, with meters; they cost a little themselves."""
    Program.run = metered(call, Program.run)  # type: ignore[method-assign]
    for name in ("seat", "show", "write"):
        setattr(KVCache, name, metered("caches", getattr(KVCache, name)))
    EngineThread.round = metered("thread", EngineThread.round)  # type: ignore[method-assign]
    try:
        return bethink(sys.argv[2:])
    finally:
        Path(os.environ[NOTED]).write_text(json.dumps({"spent": SPENT, "made": MADE}), "utf-8")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    translator = Translator(options.model, threads=1)
    made = talks(translator, options.policy, round(options.seconds * 2.5))
    noted = os.environ[NOTED] = f"/tmp/parts-{os.getpid()}.json"
    no_limits = [f"--max-{name}={10**6}" for name in ("rate", "burst", "lag", "address")]
    server = Metered(options.model, "--threads", str(options.threads), "--max-drain=1", *no_limits)
    fleet = Fleet([server], options.policy)
    loaded = fleet.cpu
    try:
        found = asyncio.run(level(fleet, made, options.streams))
        used = fleet.cpu - loaded
    finally:
        server.stop()
    account = json.loads(Path(noted).read_text("utf-8"))
    Path(noted).unlink()
    spent, words = account["spent"], sum(len(made[n % len(made)].words) for n in range(options.streams))
    parts = {part: spent[part] for part in ("decoder", "encoder", "caches")}
    parts["engine and its thread"] = spent["thread"] - sum(parts.values())
    parts["sockets and JSON"] = used - spent["thread"]
    parts["the speakers"] = found.client_cpu * words / found.words
    return {
        "model": translator.name,
        "policy": options.policy or str(translator.policy),
        "streams": options.streams,
        "threads": options.threads,
        "load": os.getloadavg()[0],
        "milliseconds": {part: round(1000 * seconds / words, 3) for part, seconds in parts.items()},
        "rows_per_word": {part: round(account["made"][f"{part} rows"] / words, 2) for part in ("decoder", "encoder")},
        "rows_per_call": {
            part: round(account["made"][f"{part} rows"] / account["made"][f"{part} calls"], 1)
            for part in ("decoder", "encoder")
        },
        "source_share": round(account["made"]["source read"] / account["made"]["source looked at"], 2),
    }


def table(found: dict[str, Any]) -> str:
    spent = found["milliseconds"]
    served = sum(spent.values()) - spent["the speakers"]
    lines = ["| part | ms per source word | of the server's time |", "|---|---|---|"]
    for part, milliseconds in spent.items():
        share = "" if part == "the speakers" else f"{milliseconds / served:.0%}"
        lines.append(f"| {part}{filled(found, part)} | {milliseconds:.2f} | {share} |")
    return "\n".join(lines)


def filled(found: dict[str, Any], part: str) -> str:
    if part not in found["rows_per_word"]:
        return ""
    unit = "positions" if part == "decoder" else "tokens"
    return f": {found['rows_per_word'][part]} {unit} a word, {found['rows_per_call'][part]:.0f} a call"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="de-en")
    parser.add_argument("--policy", default="", help="which the speakers ask for (default: the model's own)")
    parser.add_argument(
        "--threads", type=int, default=1, help="of the server's arithmetic; with more, it is not all counted"
    )
    parser.add_argument("--streams", type=int, default=80)
    parser.add_argument("--seconds", type=float, default=15.0, help="of speech")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    parser.add_argument("--table", type=Path, metavar="PAGE", help="the page whose table of parts to renew")
    options = parser.parse_args()
    found = measure(options)
    for name, value in found.items():
        print(f"{name}: {value}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.table:
        options.table.write_text(between(TABLE, options.table.read_text("utf-8"), table(found)), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(serve()) if sys.argv[1:2] == ["--metered"] else main()
