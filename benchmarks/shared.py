"""What the benchmarks of translating share: models of a given size, sentences for them, races in turns, and how results are shown.

Weights are random, as time does not depend on what they say. What a policy decides does depend on it, so thresholds are set from
the model's own numbers: half of the words find evidence, half of the candidates are sure enough.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bethink.backend import Backend
from bethink.backend.onnx import OnnxBackend
from bethink.engine import Engine
from bethink.files import write_atomically
from bethink.folder import DECODER, ENCODER
from bethink.model.config import CapsuleConfig, ModelConfig
from bethink.policy import Action, Policy, PostEvaluation
from bethink.trace import Step

Words = list[tuple[int, ...]]  # one sentence: the ids of each of its words
CAPSULES = CapsuleConfig()
FIRST = 4  # ids below it are special


@dataclass(frozen=True)
class Sizes:
    """Transformer-Base, as in the paper, unless told otherwise."""

    vocabulary: int = 32_000
    width: int = 512
    hidden: int = 2048
    heads: int = 8
    encoder: int = 6
    decoder: int = 6
    capsules: CapsuleConfig = CAPSULES

    def config(self, *, capsules: bool) -> ModelConfig:
        return ModelConfig(
            self.vocabulary,
            self.vocabulary,
            width=self.width,
            hidden=self.hidden,
            heads=self.heads,
            encoder_layers=self.encoder,
            decoder_layers=self.decoder,
            dropout=0.0,
            capsules=self.capsules if capsules else None,
        )


BASE = Sizes()
QUICK = Sizes(400, 64, 128, 4, 2, 2, CapsuleConfig(width=32, hidden=64))


@dataclass(frozen=True)
class Work:
    """What translating some sentences took."""

    seconds: float  # on the clock
    computing: float  # seconds of processor time, all threads together
    tokens: int  # written
    rounds: int  # batched model calls
    rows: int  # decoder positions computed

    def per_token(self, clock: str) -> float:
        return (self.seconds if clock == "wall" else self.computing) / self.tokens


Contestant = Callable[[], Work]


def write_graphs(folder: Path, sizes: Sizes, precision: str, *, capsules: bool, seed: int = 0) -> Path:
    """The graphs of a model with random weights."""
    import torch

    from bethink.export import network
    from bethink.export.precision import PRECISIONS
    from bethink.model.transformer import Transformer

    torch.manual_seed(seed)
    model = Transformer(sizes.config(capsules=capsules)).eval()
    if model.capsules is not None:
        routing = model.capsules
        for layer in (routing.vote, routing.key, routing.capsule, routing.guide, routing.score):
            torch.nn.init.normal_(
                layer.weight, std=layer.weight.shape[-1] ** -0.5
            )  # as far from 0 as training takes them
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    weights["positions"] = model.positions.numpy()
    folder.mkdir(parents=True)
    for file, build in ((ENCODER, network.encoder), (DECODER, network.decoder)):
        (folder / file).write_bytes(build(model.config, weights, PRECISIONS[precision]).SerializeToString())
    return folder


def open_model(name: str, threads: int) -> tuple[Backend, list[Words], Words]:
    """A model of yours, the sentences that `bethink bench` would translate with it, and all of them as one."""
    from bethink import Translator
    from bethink.cli import bench

    translator = Translator(name, backend="onnx", threads=threads)
    lines = bench.sentences(None, translator)
    whole = ", ".join(line.rstrip(" .") for line in lines)
    *texts, one = ([tuple(word.ids) for word in translator.words(line)] for line in [*lines, whole])
    return translator.backend, texts, one


def of_length(text: Words, length: int) -> Words:
    """So many tokens of it, again from the beginning if need be."""
    ids = [token for word in text for token in word]
    return [(token,) for token in (ids * (length // len(ids) + 1))[:length]]


def sentences(count: int, length: int, vocabulary: int, seed: int = 1) -> list[Words]:
    ids = np.random.default_rng(seed).integers(FIRST, vocabulary, (count, length))
    return [[(int(token),) for token in row] for row in ids]


def translate(
    backend: Backend, policy: Policy, texts: Sequence[Words], *, batch: int = 1, limit: int | None = None
) -> tuple[Work, list[list[Step]]]:
    """All texts, `batch` at a time and each there at once; with a limit, as many tokens are written for each."""
    engine = Engine(backend, batch=batch)
    found: list[list[Step]] = []
    begun = time.perf_counter(), time.process_time()
    for start in range(0, len(texts), batch):
        found += _together(engine, policy, texts[start : start + batch], limit)
    seconds, computing = time.perf_counter() - begun[0], time.process_time() - begun[1]
    tokens = sum(step.action is Action.WRITE for steps in found for step in steps)
    return Work(seconds, computing, tokens, engine.rounds, engine.rows), found


def _together(engine: Engine, policy: Policy, texts: Sequence[Words], limit: int | None) -> list[list[Step]]:
    streams = []
    for words in texts:
        streams.append(engine.open(policy))
        for word in words:
            engine.feed(streams[-1], word)
        engine.close(streams[-1])
    found: list[list[Step]] = [[] for _ in streams]
    while engine.round():
        for steps, stream in zip(found, streams, strict=True):
            steps.extend(stream.take())
            if limit is not None and not stream.done and sum(s.action is Action.WRITE for s in steps) >= limit:
                engine.abandon(stream)
    return found


@dataclass(frozen=True)
class Bars:
    """Thresholds at which about half of a model's own candidates pass."""

    rho: float  # a rise of the degree
    sure: float  # a probability

    @classmethod
    def of(cls, backend: Backend, texts: Sequence[Words], limit: int | None) -> Bars:
        _, found = translate(backend, PostEvaluation(k=3, rho=0.0, r=0), texts, limit=limit)
        writes = [step for steps in found for step in steps if step.action is Action.WRITE]
        rises = [max(step.gain) for step in writes if step.gain]
        sure = [step.confidence for step in writes if step.confidence is not None]
        return cls(float(f"{statistics.median(rises):.3g}"), float(f"{statistics.median(sure):.3g}"))


def race(contestants: Mapping[str, Contestant], turns: int, tell: Callable[[str], None]) -> dict[str, list[Work]]:
    """Everyone in turn, several times, so that what else the machine does falls on all alike; a first turn to warm up."""
    done: dict[str, list[Work]] = {name: [] for name in contestants}
    for turn in range(turns + 1):
        for name, contestant in contestants.items():
            tell(f"turn {turn} of {turns}: {name}" if turn else f"warming up: {name}")
            work = contestant()
            if turn:
                done[name].append(work)
    return done


def middle(works: Sequence[Work], clock: str) -> float:
    """Seconds per token: the median of the turns."""
    return statistics.median(work.per_token(clock) for work in works)


def ratio(works: Sequence[Work], others: Sequence[Work], clock: str) -> float:
    """How many times as much a token costs, turn by turn: the median, as the machine may be slower in one turn than in another."""
    return statistics.median(a.per_token(clock) / b.per_token(clock) for a, b in zip(works, others, strict=True))


# options and results


def parser(about: str | None, name: str, *, picture: bool = True) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="a tiny model and few turns: seconds, to see that all works")
    made.add_argument(
        "--json", type=Path, default=Path(f"{name}.json"), help=f"where numbers go (default: {name}.json)"
    )
    if picture:
        made.add_argument(
            "--out", type=Path, default=Path(f"{name}.svg"), help=f"where the picture goes (default: {name}.svg)"
        )
    return made


def add_sizes(made: argparse.ArgumentParser, turns: int) -> None:
    made.add_argument("--threads", type=int, default=1, help="processor threads of the model (default: 1)")
    made.add_argument("--precision", choices=("int8", "float32"), default="int8", help="of the weights (default: int8)")
    made.add_argument(
        "--clock",
        choices=("cpu", "wall"),
        help="processor time, which others on the machine disturb little, or time on the wall (default: cpu with 1 thread)",
    )
    made.add_argument("--turns", type=int, default=turns, help=f"of which the median counts (default: {turns})")


def clock_of(options: argparse.Namespace) -> str:
    chosen: str = options.clock or ("cpu" if options.threads == 1 else "wall")
    return chosen


def load(path: Path, threads: int) -> OnnxBackend:
    return OnnxBackend.load(path, threads=threads)


@contextmanager
def workshop() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bethink-") as folder:
        yield Path(folder)


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """One line on the terminal that says what is going on."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    with console.status("starting") as status:
        last = ""

        def tell(text: str) -> None:
            nonlocal last
            if console.is_terminal:
                status.update(text)
            elif text.partition(":")[0] != last:
                last = text.partition(":")[0]
                console.print(last)

        yield tell


def save(path: Path, facts: Mapping[str, Any]) -> None:
    about: dict[str, Any] = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "system": platform.system(),
    }
    about |= {"cores": os.cpu_count(), "load_average": round(os.getloadavg()[0], 1)}  # what else was going on
    text = json.dumps({**about, **facts}, indent=2, ensure_ascii=False)
    write_atomically(path, f"{text}\n".encode())


def show(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from bethink.cli.common import console

    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", caption=note or None, caption_justify="left")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("", "policy") else "right")
    for row in rows:
        table.add_row(*row)
    console().print(table)
