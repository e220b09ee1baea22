"""What a written token costs under each policy, beside the paper's own table: seconds per token, as times those of wait-k.

    python benchmarks/policies.py                          a model of Transformer-Base size with random weights, about ten minutes
    python benchmarks/policies.py --model de-en --rho 0.3 --sentences 10      a model of yours instead; it needs capsules
    python benchmarks/policies.py --k 3 9 --threads 2 --clock wall
    python benchmarks/policies.py --quick                  seconds, to see that all works

The contestants take turns on the same sentences. wait-k runs on a model without capsules; "wait-k, capsules" is the model of
post-evaluation without its policy, which the paper calls "w/o PE"; pe is Algorithm 1, pe-flip the rule of the released code, and
weigh the policy of the bundled model. adaptive runs once on one model for all lags, and once as published, with ten models of which
every lag has its own: here ten copies in memory, so that both write the very same words. A model of yours is used for all of them,
so there both kinds of wait-k are the same. One sentence at a time, all of it there at once.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import shared
from shared import Work

from bethink.backend import Backend
from bethink.backend.per_lag import PerLag
from bethink.evaluate.drawing import BLUE, VERMILLION, figure_in, tidy_axes
from bethink.policy import AdaptiveWaitK, Policy, PostEvaluation, PostEvaluationFlip, WaitK, Weighing

LENGTH = 25  # tokens, of source and target, where weights are random
MODELS = 10  # one per lag
PUBLISHED = {"wait-k": 1.0, "wait-k, capsules": 1.2, "pe": 2.45, "adaptive, ten models": 7.24}  # the paper's, as ratios


def main() -> None:
    options = parse()
    with shared.progress() as tell, shared.workshop() as folder:
        tell("making models")
        plain, capsules, per_lag, texts, limit = prepare(options, folder)
        bars = shared.Bars.of(capsules, texts, limit)
        bars = bars if options.rho is None else replace(bars, rho=options.rho)
        results = []
        for k in options.k:
            tell(f"k = {k}")
            weighing = Weighing(k) if options.model else Weighing(k, rho=float(f"{1.5 * bars.sure:.3g}"))
            jobs = contestants(plain, capsules, per_lag, bars, weighing)
            runs = {who: runner(*job, texts, limit) for who, job in jobs.items()}
            done = shared.race(runs, options.turns, lambda text, k=k: tell(f"k = {k}, {text}"))  # type: ignore[misc]
            results += [row(who, str(jobs[who][1]), k, done, shared.clock_of(options)) for who in jobs]
    random = f"{'tiny' if options.quick else 'Transformer-Base'}, random {options.precision} weights"
    about = {"model": options.model or random, "clock": shared.clock_of(options)}
    facts = {**about, "threads": options.threads, "sentences": len(texts), "turns": options.turns}
    shared.save(options.json, {**facts, "results": results})
    report(results, facts)
    draw(results, options.out)


def parse() -> argparse.Namespace:
    made = shared.parser(__doc__, "policies")
    made.add_argument("--model", help="a model folder with capsules, or the name of one, instead of random weights")
    made.add_argument("--k", nargs="+", type=int, default=[3, 9], help="tokens to wait for at the start (default: 3 9)")
    made.add_argument(
        "--rho", type=float, help="the rise that pe asks for (default: so that half of the words find one)"
    )
    made.add_argument("--sentences", type=int, default=4, help="per turn (default: 4)")
    shared.add_sizes(made, turns=7)
    options = made.parse_args()
    if options.quick:
        options.turns, options.sentences = 2, 2
    return options


def prepare(
    options: argparse.Namespace, folder: Path
) -> tuple[Backend, Backend, Backend, list[shared.Words], int | None]:
    """A model without capsules (or the same again), one with, one model per lag, sentences, and how long translations are made."""
    if options.model:
        return own(options)
    sizes = shared.QUICK if options.quick else shared.BASE
    paths = {
        capsules: shared.write_graphs(folder / str(capsules), sizes, options.precision, capsules=capsules)
        for capsules in (False, True)
    }
    texts = shared.sentences(options.sentences, LENGTH, sizes.vocabulary)
    per_lag = PerLag([shared.load(paths[False], options.threads) for _ in range(MODELS)])
    return shared.load(paths[False], options.threads), shared.load(paths[True], options.threads), per_lag, texts, LENGTH


def own(options: argparse.Namespace) -> tuple[Backend, Backend, Backend, list[shared.Words], int | None]:
    (first, texts, _), *others = (shared.open_model(options.model, options.threads) for _ in range(MODELS + 1))
    return first, first, PerLag([other for other, *_ in others]), texts[: options.sentences], None


def contestants(
    plain: Backend, capsules: Backend, per_lag: Backend, bars: shared.Bars, weighing: Weighing
) -> dict[str, tuple[Backend, Policy]]:
    k = weighing.k
    adaptive = AdaptiveWaitK(rho_1=min(2 * bars.sure, 1.0), rho_k=0.0, k_max=MODELS)
    return {
        "wait-k": (plain, WaitK(k)),
        "weigh": (plain, weighing),
        "wait-k, capsules": (capsules, WaitK(k)),
        "pe": (capsules, PostEvaluation(k, bars.rho, 2)),
        "pe-flip": (capsules, PostEvaluationFlip(k, 0.0)),
        "adaptive, one model": (plain, adaptive),
        "adaptive, ten models": (per_lag, adaptive),
    }


def runner(backend: Backend, policy: Policy, texts: list[shared.Words], limit: int | None) -> shared.Contestant:
    return lambda: shared.translate(backend, policy, texts, limit=limit)[0]


def row(who: str, policy: str, k: int, done: dict[str, list[Work]], clock: str) -> dict[str, Any]:
    works = done[who]
    return {
        "who": who,
        "policy": policy,
        "k": k,
        "milliseconds_per_token": round(1000 * shared.middle(works, clock), 4),
        "ratio": round(shared.ratio(works, done["wait-k"], clock), 3),
        "published_ratio": PUBLISHED.get(who),
        "rounds_per_token": round(works[0].rounds / works[0].tokens, 3),
        "rows_per_token": round(works[0].rows / works[0].tokens, 3),
    }


def report(results: list[dict[str, Any]], facts: dict[str, Any]) -> None:
    headings = ["", "policy", "ms/token", "÷ wait-k", "published", "rounds/token", "rows/token"]
    rows = [
        [
            each["who"],
            each["policy"],
            f"{each['milliseconds_per_token']:.2f}",
            f"{each['ratio']:.2f}",
            f"{each['published_ratio']:.2f}" if each["published_ratio"] else "–",
            f"{each['rounds_per_token']:.2f}",
            f"{each['rows_per_token']:.2f}",
        ]
        for each in results
    ]
    note = ", ".join(f"{name} {value}" for name, value in facts.items())
    shared.show("Cost of a written token", headings, rows, note)


def draw(results: list[dict[str, Any]], out: Path) -> None:
    """Bars to the right, one panel per k; a mark where the paper's own implementation stood."""
    ks = list(dict.fromkeys(each["k"] for each in results))
    with figure_in(out, (3.4 * len(ks) + 1.0, 2.6)) as figure:
        panels = figure.subplots(1, len(ks), sharey=True, squeeze=False)[0]
        for axes, k in zip(panels, ks, strict=True):
            rows = [each for each in results if each["k"] == k][::-1]
            places = range(len(rows))
            axes.barh(places, [each["ratio"] for each in rows], color=BLUE, height=0.62, label="bethink")
            for place, each in zip(places, rows, strict=True):
                end, style = (each["ratio"], place), {"color": "white", "va": "center", "ha": "right", "fontsize": 8}
                axes.annotate(f"{each['ratio']:.2f}", end, (-3, -0.5), textcoords="offset points", **style)
            known = [(each["published_ratio"], place) for place, each in zip(places, rows, strict=True)]
            marks = [mark for mark in known if mark[0]]
            axes.plot(
                *zip(*marks, strict=True), "|", color=VERMILLION, markersize=15, markeredgewidth=2, label="published"
            )
            axes.set_yticks(places, [each["who"] for each in rows])
            axes.set_xlim(0, 1.12 * max(each["published_ratio"] or each["ratio"] for each in results))
            axes.set_title(f"k = {k}", fontsize=10)
            axes.set_xlabel("time per written token ÷ wait-k")
            tidy_axes(axes, legend="upper right" if axes is panels[-1] else None)
            axes.grid(visible=False, axis="y")
            axes.margins(y=0.03)


if __name__ == "__main__":
    main()
