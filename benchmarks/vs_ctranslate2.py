"""What a written token costs here and in CTranslate2, on the same layer sizes, in one run, turn by turn.

    pip install ctranslate2                                what this needs beside bethink's 'train' and 'dev' extras
    python benchmarks/vs_ctranslate2.py                    1 and 2 threads, 1, 16 and 64 sentences, int8 and float32: half an hour
    python benchmarks/vs_ctranslate2.py --threads 1 --precisions int8 --turns 5
    python benchmarks/vs_ctranslate2.py --quick            seconds, to see that all works

Weights are random, so nothing ends by itself: every sentence has 25 source tokens, all there at once, and gets 25 target tokens.
CTranslate2 reads the whole sentence and decodes greedily, with the paper's 6+6 layers. bethink takes the way of its policy, with
all that belongs to it, on 6+6 layers of the same sizes and on 8+2 layers with 16,000 words. Post-evaluation ("pe") finds evidence
for about half of its words and puts off the others up to twice (rho is the median of the model's own rises); "pe, never sure" puts
off every word, the most that it can cost. Time is from the source tokens to the last target token, encoder included, per token
written.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import shared
from shared import Contestant, Sizes, Words, Work

from bethink.backend import Backend
from bethink.errors import BethinkError
from bethink.evaluate.drawing import COLOURS, figure_in, tidy_axes
from bethink.policy import Policy, PostEvaluation, WaitK

LENGTH = 25  # tokens, of source and target
PEER = "CTranslate2, 6+6"
SMALL = replace(shared.BASE, encoder=8, decoder=2, vocabulary=16_000)
QUICK_SMALL = replace(shared.QUICK, encoder=3, decoder=1)


@dataclass(frozen=True)
class Setting:
    threads: int
    precision: str
    batch: int  # sentences at a time


@dataclass(frozen=True)
class Cost:
    setting: Setting
    who: str
    policy: str
    milliseconds: float  # per written token
    ratio: float  # to CTranslate2
    rows: float  # decoder positions computed per written token


def main() -> None:
    options = parse()
    try:
        import ctranslate2  # noqa: F401
    except ModuleNotFoundError:
        raise SystemExit(
            "this benchmark compares with CTranslate2, which is missing; run: pip install ctranslate2"
        ) from None
    try:
        with shared.progress() as tell, shared.workshop() as folder:
            costs = list(measure(folder, options, tell))
    except BethinkError as error:
        raise SystemExit(str(error)) from None
    shared.save(options.json, {"turns": options.turns, "results": [asdict(cost) for cost in costs]})
    report(costs)
    draw(costs, options.out)


def parse() -> argparse.Namespace:
    made = shared.parser(__doc__, "vs_ctranslate2")
    made.add_argument("--threads", nargs="+", type=int, default=[1, 2], help="of both (default: 1 2)")
    made.add_argument(
        "--batches", nargs="+", type=int, default=[1, 16, 64], help="sentences at a time (default: 1 16 64)"
    )
    made.add_argument("--precisions", nargs="+", choices=("int8", "float32"), default=["int8", "float32"])
    made.add_argument("--turns", type=int, default=7, help="of which the median counts (default: 7)")
    options = made.parse_args()
    if options.quick:
        options.threads, options.batches, options.turns = [1], [1, 4], 1
    return options


def measure(folder: Path, options: argparse.Namespace, tell: Any) -> Iterator[Cost]:
    base, small = (shared.QUICK, QUICK_SMALL) if options.quick else (shared.BASE, SMALL)
    for precision in options.precisions:
        tell(f"making models, {precision}")
        theirs = write_peer(folder / f"theirs-{precision}", base, precision)
        ours = {
            "6+6": shared.write_graphs(folder / precision / "plain", base, precision, capsules=False),
            "6+6, capsules": shared.write_graphs(folder / precision / "capsules", base, precision, capsules=True),
            "8+2, capsules": shared.write_graphs(folder / precision / "small", small, precision, capsules=True),
        }
        for threads in options.threads:
            backends = {name: shared.load(path, threads) for name, path in ours.items()}
            jobs = contestants(backends, small.vocabulary)
            translator = peer(theirs, precision, threads)
            for batch in options.batches:
                setting = Setting(threads, precision, batch)
                texts = shared.sentences(batch, LENGTH, small.vocabulary)
                runs = {PEER: translator(texts)} | {who: ours_on(*job, texts) for who, job in jobs.items()}
                done = shared.race(runs, options.turns, lambda text, at=setting: tell(f"{label(at)}, {text}"))
                policies = {who: str(policy) for who, (_, policy) in jobs.items()}
                yield from (cost(setting, who, policies.get(who, "greedy"), done) for who in done)


def cost(setting: Setting, who: str, policy: str, done: dict[str, list[Work]]) -> Cost:
    """With one thread by processor time, which others on the machine disturb little; otherwise by the clock."""
    clock = "cpu" if setting.threads == 1 else "wall"
    rows = done[who][0].rows / done[who][0].tokens
    ratio = shared.ratio(done[who], done[PEER], clock)
    return Cost(setting, who, policy, 1000 * shared.middle(done[who], clock), ratio, rows)


# bethink


def contestants(backends: dict[str, Backend], vocabulary: int) -> dict[str, tuple[Backend, Policy]]:
    """Who runs, on which model, by which policy."""
    found: dict[str, tuple[Backend, Policy]] = {"wait-k, 6+6": (backends["6+6"], WaitK(3))}
    for name, layers in (("6+6, capsules", "6+6"), ("8+2, capsules", "8+2")):
        backend = backends[name]
        texts = shared.sentences(2, LENGTH, vocabulary, seed=2)
        rho = shared.Bars.of(backend, texts, LENGTH).rho
        if layers == "8+2":
            found["wait-k, 8+2"] = (backend, WaitK(3))
        found[f"pe, {layers}"] = (backend, PostEvaluation(k=3, rho=rho, r=2))
    found["pe, never sure, 8+2"] = (backends["8+2, capsules"], PostEvaluation(k=3, rho=1.0, r=2))
    return found


def ours_on(backend: Backend, policy: Policy, texts: list[Words]) -> Contestant:
    return lambda: shared.translate(backend, policy, texts, batch=len(texts), limit=LENGTH)[0]


# CTranslate2


def write_peer(folder: Path, sizes: Sizes, precision: str) -> Path:
    """A CTranslate2 model of the same layers, with weights as random."""
    from ctranslate2.specs import TransformerSpec

    chance = np.random.default_rng(0)

    def linear(layer: Any, rows: int, columns: int) -> None:
        layer.weight = (chance.standard_normal((rows, columns)) / columns**0.5).astype(np.float32)
        layer.bias = np.zeros(rows, dtype=np.float32)

    def norm(layer: Any) -> None:
        layer.gamma, layer.beta = np.ones((2, sizes.width), dtype=np.float32)

    def attention(layer: Any, *rows: int) -> None:
        for part, count in zip(layer.linear, rows, strict=True):
            linear(part, count * sizes.width, sizes.width)
        norm(layer.layer_norm)

    table = (chance.standard_normal((sizes.vocabulary, sizes.width)) / sizes.width**0.5).astype(np.float32)
    spec = TransformerSpec.from_config((sizes.encoder, sizes.decoder), sizes.heads, pre_norm=False)
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = spec.decoder.projection.weight = table
    for side in (spec.encoder, spec.decoder):
        side.scale_embeddings = True
        side.position_encodings.encodings = chance.standard_normal((1024, sizes.width)).astype(np.float32)
        for layer in side.layer:
            attention(layer.self_attention, 3, 1)
            if side is spec.decoder:
                attention(layer.attention, 1, 2, 1)
            linear(layer.ffn.linear_0, sizes.hidden, sizes.width)
            linear(layer.ffn.linear_1, sizes.width, sizes.hidden)
            norm(layer.ffn.layer_norm)
    words = ["<blank>", "<s>", "</s>", "<unk>", *map(str, range(4, sizes.vocabulary))]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.validate()
    spec.optimize(quantization=None if precision == "float32" else precision)
    folder.mkdir()
    spec.save(os.fspath(folder))
    return folder


def peer(folder: Path, precision: str, threads: int) -> Any:
    """What makes a contestant of sentences."""
    import ctranslate2

    translator = ctranslate2.Translator(
        os.fspath(folder), device="cpu", compute_type=precision, intra_threads=threads, inter_threads=1
    )
    limits = {"min_decoding_length": LENGTH, "max_decoding_length": LENGTH}

    def on(texts: list[Words]) -> Contestant:
        words = [[str(token) for word in text for token in word] for text in texts]

        def run() -> Work:
            begun = time.perf_counter(), time.process_time()
            found = translator.translate_batch(
                words, beam_size=1, max_batch_size=len(words), return_scores=True, **limits
            )
            seconds, computing = time.perf_counter() - begun[0], time.process_time() - begun[1]
            tokens = sum(len(each.hypotheses[0]) for each in found)
            return Work(seconds, computing, tokens, LENGTH, tokens)

        return run

    return on


# what is shown


def label(setting: Setting) -> str:
    threads = f"{setting.threads} thread{'s' * (setting.threads > 1)}"
    return f"{setting.precision}, {threads}, {setting.batch} at a time"


def report(costs: list[Cost]) -> None:
    for setting in dict.fromkeys(cost.setting for cost in costs):
        rows = [
            (cost.who, cost.policy, f"{cost.rows:.2f}", f"{cost.milliseconds:.3f}", f"{cost.ratio:.2f}")
            for cost in costs
            if cost.setting == setting
        ]
        clock = "processor time" if setting.threads == 1 else "time on the wall"
        headings = ("", "policy", "rows per token", "ms per token", "÷ CTranslate2")
        shared.show(f"{label(setting)} ({clock})", headings, rows)


def draw(costs: list[Cost], out: Path) -> None:
    """A panel per number of threads and precision, groups of bars per batch: below the line is cheaper than CTranslate2."""
    kinds = list(dict.fromkeys((cost.setting.precision, cost.setting.threads) for cost in costs))
    names = [who for who in dict.fromkeys(cost.who for cost in costs) if who != PEER]
    batches = list(dict.fromkeys(cost.setting.batch for cost in costs))
    with figure_in(out, (3.2 * len(kinds) + 0.6, 3.4)) as figure:
        panels = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
        for axes, (precision, threads) in zip(panels, kinds, strict=True):
            for n, who in enumerate(names):
                chosen = {
                    c.setting.batch: c.ratio
                    for c in costs
                    if c.who == who and c.setting.precision == precision and c.setting.threads == threads
                }
                places = np.arange(len(batches)) + (n - (len(names) - 1) / 2) * 0.8 / len(names)
                axes.bar(
                    places,
                    [chosen[batch] for batch in batches],
                    width=0.8 / len(names),
                    label=who,
                    color=COLOURS[n % len(COLOURS)],
                )
            axes.axhline(1, color="black", linewidth=0.8)
            axes.set_xticks(range(len(batches)), [str(batch) for batch in batches])
            axes.set_xlabel("sentences at a time")
            axes.set_title(f"{precision}, {threads} thread{'s' * (threads > 1)}", fontsize=10)
            axes.set_ylim(0, 1.35 * max(cost.ratio for cost in costs))  # room for the legend
            tidy_axes(axes, legend="upper left" if axes is panels[0] else None)
            axes.grid(visible=False, axis="x")
        panels[0].set_ylabel("time per token ÷ CTranslate2")


if __name__ == "__main__":
    main()
