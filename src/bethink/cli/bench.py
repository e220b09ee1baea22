"""`bethink bench`: time and model calls per written token, start-up time, memory."""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bethink.cli.common import Verbs, add_model, add_policy, console, count, describe, open_translator, verb
from bethink.errors import DataError, ModelError
from bethink.policy import RULES, Action, WaitK

if TYPE_CHECKING:
    from rich.table import Table

    from bethink.policy import Policy
    from bethink.translator import Translator

TOY_SENTENCES, TOY_SEED = 10, 2022
GERMAN = (
    "Guten Morgen, meine Damen und Herren.",
    "Ich freue mich, dass Sie heute so zahlreich gekommen sind.",
    "Wir haben im letzten Jahr viel gelernt und noch mehr gefragt.",
    "Die Kommission hat den Vorschlag nach langer Beratung angenommen.",
    "Bitte rufen Sie mich morgen früh vor neun Uhr noch einmal an.",
    "Der Zug, der gestern wegen des Sturms ausfiel, fährt heute wieder.",
    "Sie hat das Buch, das er ihr geschenkt hatte, in einer Nacht gelesen.",
    "Wenn das Wetter so bleibt, werden wir am Sonntag in die Berge fahren.",
    "Niemand konnte damals ahnen, wie schnell sich die Stadt verändern würde.",
    "Es ist nicht leicht, einem Redner zu folgen, der sein Verb bis zum Schluss aufhebt.",
)


@dataclass(frozen=True)
class Cost:
    """The fastest run of one policy over all sentences, and its time relative to wait-k."""

    policy: str
    seconds: float
    tokens: int  # written, end-of-sentence included
    rounds: int  # batched model calls
    rows: int  # decoder positions computed
    ratio: float | None = None  # median over runs of: seconds per token ÷ those of the first wait-k

    def to_dict(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "tokens": self.tokens,
            "seconds": round(self.seconds, 6),
            "seconds_per_token": round(self.seconds / self.tokens, 9),
            "tokens_per_second": round(self.tokens / self.seconds, 3),
            "ratio_to_wait_k": None if self.ratio is None else round(self.ratio, 4),
            "rounds_per_token": round(self.rounds / self.tokens, 4),
            "rows_per_token": round(self.rows / self.tokens, 4),
        }


def add(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "bench",
        "measure speed, model calls and memory",
        "Translates sentences with every policy given and measures per written token: time, batched model calls (rounds) and decoder "
        "positions (rows); also the time to load the model and to its first word, and the peak memory of the process. The whole text "
        "is there from the start: nothing waits for a speaker. Policies take turns, and the fastest run of each counts. If wait-k is "
        "among them, the others are also given as a multiple of its time.",
        (
            "",
            "--policy wait-k:k=3 pe:k=3 --threads 1",
            "--streams 64 --source test.de --json",
        ),
        run,
    )
    add_policy(made, several=True)
    streams = "sentences translated at the same time; they are repeated if there are fewer (default: 1)"
    made.add_argument("--streams", type=count, default=1, metavar="N", help=streams)
    made.add_argument("--source", metavar="FILE", help="sentences, one per line (default: ten built-in ones)")
    made.add_argument("--repeat", type=count, default=3, metavar="N", help="runs per policy (default: 3)")
    made.add_argument("--json", action="store_true", help="print one JSON object")
    add_model(made)


def run(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    translator = open_translator(args)
    load = time.perf_counter() - began
    lines = sentences(args.source, translator)
    first = first_word(translator, lines[0])
    lines *= math.ceil(args.streams / len(lines))
    policies = args.policy or served(translator)
    with console(stderr=True).status(f"{len(policies)} policies, {args.repeat} times"):
        costs = race(translator, lines, policies, args.streams, args.repeat)
    facts = {
        "model": translator.name,
        "sentences": len(lines),
        "streams": args.streams,
        "load_seconds": round(load, 4),
        "first_word_seconds": round(first, 4),
        "peak_megabytes": peak_memory(),
    }
    if args.json:
        print(json.dumps({**facts, "policies": [cost.to_dict() for cost in costs]}))
    else:
        console().print(table(describe(translator), facts, costs))
    return 0


def served(translator: Translator) -> list[Policy]:
    """The recommended policy, and one of every other kind that the model can serve, with the same k."""
    k = getattr(translator.policy, "k", 3)
    found: list[Policy] = [translator.policy]
    for kind in RULES.values():
        policy = kind.parse(f"k={k}" if any(each.name == "k" for each in kind.settings()) else "")
        try:
            found.append(translator.served(policy))
        except ModelError:
            continue
    return list(dict.fromkeys(found))


def first_word(translator: Translator, line: str) -> float:
    """Seconds until a newly loaded model shows the first word of a sentence."""
    began = time.perf_counter()
    for step in translator.stream([line]):
        if step.action is Action.WRITE and step.text:
            break
    return time.perf_counter() - began


def race(
    translator: Translator, lines: Sequence[str], policies: Sequence[Policy], streams: int, repeat: int
) -> list[Cost]:
    """The fastest run of each policy, after a warm-up. Policies take turns, so that other load slows all of them alike."""
    runs: dict[Policy, list[Cost]] = {policy: [] for policy in policies}
    for policy in runs:
        _once(translator, lines[:streams], policy, streams)
    for _ in range(repeat):
        for policy, done in runs.items():
            done.append(_once(translator, lines, policy, streams))
    base = next((done for policy, done in runs.items() if isinstance(policy, WaitK)), None)
    return [replace(min(done, key=lambda cost: cost.seconds), ratio=_ratio(done, base)) for done in runs.values()]


def _once(translator: Translator, lines: Sequence[str], policy: Policy, streams: int) -> Cost:
    from bethink.engine import Engine

    engine = Engine(translator.backend, batch=streams)
    began = time.perf_counter()
    done = list(translator.translate_many(lines, policy, batch=streams, engine=engine))
    seconds = time.perf_counter() - began
    tokens = sum(len(translation.writes) for translation in done)
    return Cost(str(policy), seconds, tokens, engine.rounds, engine.rows)


def _ratio(done: Sequence[Cost], base: Sequence[Cost] | None) -> float | None:
    if base is None:
        return None
    pairs = zip(done, base, strict=True)
    return statistics.median((a.seconds / a.tokens) / (b.seconds / b.tokens) for a, b in pairs)


def peak_memory() -> float | None:
    """Peak memory of this process in megabytes, if the system reports it."""
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6, 1)


def table(model: str, facts: dict[str, Any], costs: Sequence[Cost]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    peak = "" if facts["peak_megabytes"] is None else f", peak memory {facts['peak_megabytes']:.0f} MB"
    told = f"{model}: {facts['sentences']} sentences, {facts['streams']} at a time\nloaded in {facts['load_seconds']:.2f} s, "
    told += f"first word {facts['first_word_seconds']:.3f} s later{peak}"
    made = Table(box=SIMPLE_HEAD, caption=Text(told, "table.caption"), caption_justify="left")
    made.add_column("policy")
    for heading in ("ms per token", "÷ wait-k", "tokens/s", "rounds per token", "rows per token", "tokens"):
        made.add_column(heading, justify="right")
    for cost in costs:
        made.add_row(
            Text(cost.policy),
            f"{1000 * cost.seconds / cost.tokens:.3f}",
            "–" if cost.ratio is None else f"{cost.ratio:.2f}",
            f"{cost.tokens / cost.seconds:,.0f}",
            f"{cost.rounds / cost.tokens:.2f}",
            f"{cost.rows / cost.tokens:.2f}",
            str(cost.tokens),
        )
    return made


def sentences(file: str | None, translator: Translator) -> list[str]:
    if file is not None:
        from bethink.files import read_lines

        lines = enumerate(read_lines(file), start=1)
        if found := [line for number, line in lines if translator.words(line, f"{file}, line {number}")]:
            return found
        raise DataError(f"{file} has no sentence to translate")
    if translator.about.get("toy"):
        from bethink import toy

        return [pair.source for pair in toy.sentences(TOY_SENTENCES, TOY_SEED)]
    return list(GERMAN)
