"""What a written token costs here and in CTranslate2, on the same layer sizes, in one run, turn by turn.

    pip install ctranslate2                                what this script needs beside bethink's 'train' and 'dev' extras
    python benchmarks/vs_ctranslate2.py                    everything, about ten minutes
    python benchmarks/vs_ctranslate2.py --threads 1 --batches 1 64 --precisions int8 --json cost.json --out cost.svg
    python benchmarks/vs_ctranslate2.py --tiny             a few seconds, to see that everything works

Weights are random, so nothing ends by itself: every sentence has 25 source tokens, all there at once, and gets 25 target tokens.
CTranslate2 reads the whole sentence and decodes greedily. bethink takes the way of its policy through the engine, with all that
belongs to it: wait-k computes one decoder row per token, post-evaluation also those before and after the words it puts off, and
its degrees. Time is from the source tokens to the last target token, encoder included, per token written; the median of the turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bethink.backend.onnx import OnnxBackend
from bethink.engine import Engine
from bethink.export import network
from bethink.folder import DECODER, ENCODER
from bethink.model.config import CapsuleConfig, ModelConfig
from bethink.policy import parse as parse_policy

LENGTH = 25  # tokens, of source and target
PEER = "CTranslate2"
CAPSULES = CapsuleConfig()

Sentences = list[list[int]]
Contestant = Callable[[Sentences], int]  # translates; returns how many tokens it wrote


@dataclass(frozen=True)
class Sizes:
    vocabulary: int = 32_000
    width: int = 512
    hidden: int = 2048
    heads: int = 8
    layers: int = 6
    deep: int = 10  # encoder layers of the model with few decoder layers
    shallow: int = 2
    capsules: CapsuleConfig = CAPSULES

    def model(self, encoder: int, decoder: int, *, capsules: bool) -> ModelConfig:
        return ModelConfig(
            self.vocabulary,
            self.vocabulary,
            width=self.width,
            hidden=self.hidden,
            heads=self.heads,
            encoder_layers=encoder,
            decoder_layers=decoder,
            dropout=0.0,
            capsules=self.capsules if capsules else None,
        )


TINY = Sizes(200, 32, 64, 2, 2, 3, 1, CapsuleConfig(width=16, hidden=32))


@dataclass(frozen=True)
class Cost:
    threads: int
    precision: str
    batch: int
    who: str
    milliseconds: float  # per written token
    ratio: float  # to CTranslate2


def main() -> None:
    options = parse()
    try:
        import ctranslate2  # noqa: F401
    except ModuleNotFoundError:
        sys.exit("this benchmark compares with CTranslate2, which is not installed; run: pip install ctranslate2")
    costs = []
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for cost in measure(Path(folder), options):
            costs.append(cost)
            print(row(cost), flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(cost) for cost in costs], indent=2) + "\n", encoding="utf-8")
    if options.out:
        draw(costs, options.out)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 16, 64], help="sentences at a time")
    parser.add_argument("--precisions", nargs="+", default=["int8", "float32"])
    parser.add_argument("--turns", type=int, default=5, help="of which the median counts")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    parser.add_argument("--out", type=Path, help="where to draw them")
    return parser.parse_args()


def measure(folder: Path, options: argparse.Namespace) -> Iterator[Cost]:
    sizes = TINY if options.tiny else Sizes()
    chance = np.random.default_rng(1)
    for precision in options.precisions:
        graphs = write_graphs(folder / f"ours-{precision}", sizes, precision)
        theirs = write_peer(folder / f"theirs-{precision}", sizes, precision)
        for threads in options.threads:
            contestants = {PEER: peer(theirs, precision, threads)} | {
                f"{policy}, {path.name} layers": ours(path, policy, threads) for policy, path in graphs
            }
            for batch in options.batches:
                times = race(contestants, chance, sizes, batch, options.turns)
                for who, each in times.items():
                    yield Cost(threads, precision, batch, who, 1000 * each, each / times[PEER])


def race(
    contestants: dict[str, Contestant], chance: np.random.Generator, sizes: Sizes, batch: int, turns: int
) -> dict[str, float]:
    """Seconds per token of each: the median over turns, in each of which everyone gets the same sentences."""
    times: dict[str, list[float]] = {who: [] for who in contestants}
    for turn in range(turns + 1):
        sentences = chance.integers(4, sizes.vocabulary, (batch, LENGTH)).tolist()
        for who, translate in contestants.items():
            begun = time.perf_counter()
            tokens = translate(sentences)
            if turn:  # the first is to warm up
                times[who].append((time.perf_counter() - begun) / tokens)
    return {who: statistics.median(each) for who, each in times.items()}


# bethink


def write_graphs(folder: Path, sizes: Sizes, precision: str) -> list[tuple[str, Path]]:
    """A policy and the folder of its model, named after its layers."""
    import torch

    from bethink.model.transformer import Transformer

    made = []
    layers, few = (sizes.layers, sizes.layers), (sizes.deep, sizes.shallow)
    for policy, counts in (("wait-k:3", layers), ("pe:k=3", layers), ("pe:k=3", few)):
        torch.manual_seed(0)
        model = Transformer(sizes.model(*counts, capsules=policy.startswith("pe"))).eval()
        weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
        weights["positions"] = model.positions.numpy()
        path = folder / policy.replace(":", "-") / "{}+{}".format(*counts)
        path.mkdir(parents=True)
        for file, build in ((ENCODER, network.encoder), (DECODER, network.decoder)):
            (path / file).write_bytes(build(model.config, weights, precision).SerializeToString())
        made.append((policy, path))
    return made


def ours(path: Path, policy: str, threads: int) -> Contestant:
    backend = OnnxBackend.load(path, threads=threads)
    chosen = parse_policy(policy)

    def translate(sentences: Sentences) -> int:
        engine = Engine(backend, batch=len(sentences))
        open_ones = {engine.open(chosen): 0 for _ in sentences}
        for stream, sentence in zip(open_ones, sentences, strict=True):
            for token in sentence:
                engine.hear(stream, [token])
            engine.close(stream)
        written = 0
        while open_ones and engine.round():
            for stream in list(open_ones):
                open_ones[stream] += sum(step.action.name == "WRITE" for step in stream.take())
                if open_ones[stream] >= LENGTH or stream.done:
                    engine.abandon(stream)
                    written += open_ones.pop(stream)
        return written

    return translate


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
    spec = TransformerSpec.from_config((sizes.layers, sizes.layers), sizes.heads, pre_norm=False)
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


def peer(folder: Path, precision: str, threads: int) -> Contestant:
    import ctranslate2

    translator = ctranslate2.Translator(
        os.fspath(folder), device="cpu", compute_type=precision, intra_threads=threads, inter_threads=1
    )

    def translate(sentences: Sentences) -> int:
        words = [[str(token) for token in sentence] for sentence in sentences]
        limits = {"min_decoding_length": LENGTH, "max_decoding_length": LENGTH}
        found = translator.translate_batch(words, beam_size=1, max_batch_size=len(words), return_scores=True, **limits)
        return sum(len(each.hypotheses[0]) for each in found)

    return translate


# what is shown

HEAD = f"{'threads':>7} {'precision':9} {'batch':>5} {'':24} {'ms/token':>9} {'÷ CTranslate2':>14}"


def row(cost: Cost) -> str:
    return (
        f"{cost.threads:7} {cost.precision:9} {cost.batch:5} {cost.who:24} {cost.milliseconds:9.3f} {cost.ratio:14.2f}"
    )


def draw(costs: list[Cost], out: Path) -> None:
    """Bars per setting, as times the cost in CTranslate2: below the line is cheaper."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    settings = list(dict.fromkeys((cost.threads, cost.precision, cost.batch) for cost in costs))
    names = list(dict.fromkeys(cost.who for cost in costs if cost.who != PEER))
    figure, axes = pyplot.subplots(figsize=(2 + len(settings), 4), layout="constrained")
    for n, who in enumerate(names):
        heights = [cost.ratio for cost in costs if cost.who == who]
        places = np.arange(len(settings)) + (n - (len(names) - 1) / 2) * 0.8 / len(names)
        axes.bar(places, heights, width=0.8 / len(names), label=who)
    axes.axhline(1, color="black", linewidth=0.8)
    labels = [
        f"{precision}\n{threads} thread{'s' * (threads > 1)}\nbatch {batch}" for threads, precision, batch in settings
    ]
    axes.set_xticks(range(len(settings)), labels)
    axes.set_ylabel("time per token ÷ CTranslate2")
    axes.legend(frameon=False)
    figure.savefig(out)


if __name__ == "__main__":
    main()
