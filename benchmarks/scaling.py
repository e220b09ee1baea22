"""How the cost of a written token grows: with the length of the sentence, and with the number of speakers at a time.

    python benchmarks/scaling.py                           a model of Transformer-Base size with random weights, about ten minutes
    python benchmarks/scaling.py --model de-en --policy wait-k:3 pe:k=3,rho=0.3,r=2      a model of yours instead
    python benchmarks/scaling.py --policy wait-k:3 pe:k=3,rho=0.001,r=2 --lengths 10 50 200 --streams 1 16 64
    python benchmarks/scaling.py --quick                   seconds, to see that all works

Left panel: one sentence of 10 to 200 tokens, translated by as many, time per source token. Nothing that was read or written is ever
computed again, so only attention grows, and slowly. Right panel: 1 to 128 sentences of 25 tokens at a time, one model call per round
for all of them; tokens per second of one processor. A model of yours gets real text: to the left its sentences joined by commas to
one, cut off at that many tokens, to the right as they are; it ends where it likes, but not after more tokens than were given.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import shared

from bethink.backend import Backend
from bethink.evaluate.drawing import COLOURS, MARKERS, figure_in, tidy_axes
from bethink.policy import Policy, PostEvaluation, WaitK, parse

LENGTH = 25  # tokens of each sentence where the number of streams changes


def main() -> None:
    options = arguments()
    sizes = shared.QUICK if options.quick else shared.BASE
    clock = shared.clock_of(options)
    with shared.progress() as tell, shared.workshop() as folder:
        tell("making the model")
        if options.model:
            backend, real, whole = shared.open_model(options.model, options.threads)
        else:
            path = shared.write_graphs(folder / "model", sizes, options.precision, capsules=True)
            backend, real, whole = shared.load(path, options.threads), [], []
        policies = options.policy or usual(backend, real[:2] or shared.sentences(2, LENGTH, sizes.vocabulary))
        results = []
        for length in options.lengths:
            texts = [shared.of_length(whole, length)] if real else shared.sentences(1, length, sizes.vocabulary)
            results += measure("length", length, backend, policies, texts, length, options.turns, clock, tell)
        for streams in options.streams:
            texts = (real * streams)[:streams] if real else shared.sentences(streams, LENGTH, sizes.vocabulary)
            limit = None if real else LENGTH
            results += measure("streams", streams, backend, policies, texts, limit, options.turns, clock, tell)
    random = f"{'tiny' if options.quick else 'Transformer-Base'}, random {options.precision} weights"
    facts = {"model": options.model or random, "clock": clock, "threads": options.threads, "turns": options.turns}
    shared.save(options.json, {**facts, "results": results})
    report(results, facts)
    draw(results, options.out)


def arguments() -> argparse.Namespace:
    made = shared.parser(__doc__, "scaling")
    made.add_argument("--model", help="a model folder with capsules, or the name of one, instead of random weights")
    made.add_argument(
        "--policy",
        nargs="+",
        type=parse,
        metavar="SPEC",
        help="(default: wait-k:3 and a pe that defers half its words)",
    )
    made.add_argument("--lengths", nargs="+", type=int, default=[10, 25, 50, 100, 200], help="of sentences, in tokens")
    made.add_argument("--streams", nargs="+", type=int, default=[1, 2, 4, 8, 16, 32, 64, 128], help="at a time")
    shared.add_sizes(made, turns=3)
    options = made.parse_args()
    if options.quick:
        options.turns, options.lengths, options.streams = 1, [10, 50], [1, 4, 16]
    return options


def usual(backend: Backend, texts: list[shared.Words]) -> list[Policy]:
    bars = shared.Bars.of(backend, texts, LENGTH)
    return [WaitK(3), PostEvaluation(3, bars.rho, 2)]


def measure(
    panel: str,
    size: int,
    backend: Backend,
    policies: list[Policy],
    texts: list[shared.Words],
    limit: int | None,
    turns: int,
    clock: str,
    tell: Any,
) -> list[dict[str, Any]]:
    runs: dict[str, shared.Contestant] = {
        str(policy): lambda policy=policy: shared.translate(backend, policy, texts, batch=len(texts), limit=limit)[0]  # type: ignore[misc]
        for policy in policies
    }
    done = shared.race(runs, turns, lambda text: tell(f"{panel} {size}, {text}"))
    heard = sum(len(word) for words in texts for word in words)
    return [
        {
            "panel": panel,
            "size": size,
            "policy": who,
            "tokens": works[0].tokens,
            "milliseconds_per_token": round(1000 * shared.middle(works, clock), 4),
            "milliseconds_per_source_token": round(1000 * shared.middle(works, clock) * works[0].tokens / heard, 4),
            "tokens_per_second": round(1 / shared.middle(works, clock), 2),
            "rounds_per_token": round(works[0].rounds / works[0].tokens, 4),
            "rows_per_token": round(works[0].rows / works[0].tokens, 4),
        }
        for who, works in done.items()
    ]


def report(results: list[dict[str, Any]], facts: dict[str, Any]) -> None:
    note = ", ".join(f"{name} {value}" for name, value in facts.items())
    for panel, title in (("length", "Tokens of one sentence"), ("streams", "Sentences at a time")):
        chosen = [each for each in results if each["panel"] == panel]
        headings = [
            panel,
            "policy",
            "tokens",
            "ms/token",
            "ms/source token",
            "tokens/s",
            "÷ first",
            "rounds/token",
            "rows/token",
        ]
        rows = []
        for each in chosen:
            first = next(other for other in chosen if other["policy"] == each["policy"])
            grown = each["milliseconds_per_source_token"] / first["milliseconds_per_source_token"]
            both = [f"{each[key]:.3f}" for key in ("milliseconds_per_token", "milliseconds_per_source_token")]
            costs = [*both, f"{each['tokens_per_second']:,.0f}", f"{grown:.2f}"]
            counts = [f"{each['rounds_per_token']:.2f}", f"{each['rows_per_token']:.2f}"]
            rows.append([str(each["size"]), each["policy"], str(each["tokens"]), *costs, *counts])
        shared.show(title, headings, rows, note)


def draw(results: list[dict[str, Any]], out: Path) -> None:
    with figure_in(out, (8.2, 3.2)) as figure:
        left, right = figure.subplots(1, 2)
        for number, policy in enumerate(dict.fromkeys(each["policy"] for each in results)):
            style = {"color": COLOURS[number], "marker": MARKERS[number], "markeredgecolor": "white", "label": policy}
            for axes, panel, value in (
                (left, "length", "milliseconds_per_source_token"),
                (right, "streams", "tokens_per_second"),
            ):
                points = [each for each in results if (each["panel"], each["policy"]) == (panel, policy)]
                axes.plot([each["size"] for each in points], [each[value] for each in points], **style)
        left.set_xlabel("tokens in the sentence")
        left.set_ylabel("ms per source token")
        streams = sorted({each["size"] for each in results if each["panel"] == "streams"})
        right.set_xscale("log", base=2)
        right.set_xticks(streams, list(map(str, streams)))
        right.minorticks_off()
        right.set_xlabel("sentences at a time")
        right.set_ylabel("tokens per second")
        tidy_axes(left, legend="lower right")
        tidy_axes(right, legend=None)
        for axes in (left, right):
            axes.set_ylim(0, 1.08 * axes.dataLim.y1)
            axes.yaxis.set_major_formatter("{x:,.6g}")
        figure.subplots_adjust(wspace=0.28)


if __name__ == "__main__":
    main()
