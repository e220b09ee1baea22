"""`bethink bench`: what translating costs here: time and model calls per written token, start-up, memory."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bethink.cli.common import Verbs, add_model, add_policy, console, count, describe, open_translator, verb
from bethink.errors import DataError
from bethink.policy import WaitK

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
    """One policy over all sentences."""

    policy: str
    seconds: float
    tokens: int  # written, end-of-sentence included
    rounds: int  # batched model calls
    rows: int  # decoder positions computed

    def to_dict(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "tokens": self.tokens,
            "seconds": round(self.seconds, 6),
            "seconds_per_token": round(self.seconds / self.tokens, 9),
            "tokens_per_second": round(self.tokens / self.seconds, 3),
            "rounds_per_token": round(self.rounds / self.tokens, 4),
            "rows_per_token": round(self.rows / self.tokens, 4),
        }


def add(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "bench",
        "measure speed, model calls and memory",
        "Translates sentences with every policy given and says what a written token costs: time, batched model calls (rounds) and "
        "decoder positions (rows), beside the time to load the model and the peak memory of the process. Sentences are there at once, "
        "so nothing waits for a speaker; each policy runs a few times and the fastest counts.",
        (
            "",
            "--policy wait-k:k=3 pe:k=3 --threads 1",
            "--streams 64 --source test.de --json",
        ),
        run,
    )
    add_policy(made, several=True)
    made.add_argument(
        "--streams", type=count, default=1, metavar="N", help="sentences translated at the same time (default: 1)"
    )
    made.add_argument(
        "--source", metavar="FILE", help="sentences to translate, one per line (default: ten built-in ones)"
    )
    made.add_argument(
        "--repeat", type=count, default=3, metavar="N", help="runs per policy, of which the fastest counts (default: 3)"
    )
    made.add_argument("--json", action="store_true", help="print one JSON object")
    add_model(made)


def run(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    translator = open_translator(args)
    load = time.perf_counter() - began
    sentences = _sentences(args.source, translator)
    policies = args.policy or list(dict.fromkeys((translator.policy, WaitK(k=getattr(translator.policy, "k", 3)))))
    costs = [measure(translator, sentences, policy, args.streams, args.repeat) for policy in policies]
    facts = {
        "model": translator.name,
        "sentences": len(sentences),
        "streams": args.streams,
        "load_seconds": round(load, 4),
        "peak_megabytes": peak_memory(),
    }
    if args.json:
        print(json.dumps({**facts, "policies": [cost.to_dict() for cost in costs]}))
    else:
        console().print(table(describe(translator), facts, costs))
    return 0


def measure(translator: Translator, sentences: Sequence[str], policy: Policy, streams: int, repeat: int) -> Cost:
    """The fastest of `repeat` runs, after one sentence to warm up."""
    from bethink.engine import Engine

    list(translator.translate_many(sentences[:1], policy, batch=1))
    best: Cost | None = None
    for _ in range(repeat):
        engine = Engine(translator.backend, batch=streams)
        began = time.perf_counter()
        done = list(translator.translate_many(sentences, policy, batch=streams, engine=engine))
        seconds = time.perf_counter() - began
        tokens = sum(len(translation.writes) for translation in done)
        if best is None or seconds < best.seconds:
            best = Cost(str(policy), seconds, tokens, engine.rounds, engine.rows)
    assert best is not None, "at least one run"
    return best


def peak_memory() -> float | None:
    """Megabytes, where the system keeps count."""
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
    told = f"{model}: {facts['sentences']} sentences, {facts['streams']} at a time; loaded in {facts['load_seconds']:.2f} s{peak}"
    made = Table(box=SIMPLE_HEAD, caption=Text(told, "table.caption"), caption_justify="left")
    made.add_column("policy")
    for heading in ("ms per token", "tokens/s", "rounds per token", "rows per token", "tokens"):
        made.add_column(heading, justify="right")
    for cost in costs:
        made.add_row(
            Text(cost.policy),
            f"{1000 * cost.seconds / cost.tokens:.3f}",
            f"{cost.tokens / cost.seconds:,.0f}",
            f"{cost.rounds / cost.tokens:.2f}",
            f"{cost.rows / cost.tokens:.2f}",
            str(cost.tokens),
        )
    return made


def _sentences(file: str | None, translator: Translator) -> list[str]:
    if file is not None:
        from bethink.evaluate.instances import read_lines

        lines = enumerate(read_lines(file), start=1)
        if found := [line for number, line in lines if translator.words(line, f"{file}, line {number}")]:
            return found
        raise DataError(f"{file} has no sentence to translate")
    if translator.about.get("toy"):
        from bethink import toy

        return [pair.source for pair in toy.sentences(TOY_SENTENCES, TOY_SEED)]
    return list(GERMAN)
