"""How fast a GPU trains: target tokens per second of the real trainer on a made-up corpus with lengths like Europarl's.

    python benchmarks/training.py                          multi-path and ped at Transformer-Base size
    python benchmarks/training.py --profile                and the kernels that take the time
    python benchmarks/training.py --compiled yes           only with compiled layers and recorded CUDA graphs
    python benchmarks/training.py --tiny --device cpu      a few seconds, to see that everything works

Utilisation is the arithmetic the model needs for its real tokens, padding and recomputation not counted, over what the same GPU does
in a large bfloat16 matrix product. Attention scores are left out of it: at these lengths they are under 2 %.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np
import torch

from bethink.model.config import ModelConfig
from bethink.text import PAD
from bethink.train.data import Update
from bethink.train.distributed import processes
from bethink.train.graphs import on_grid
from bethink.train.log import Totals
from bethink.train.loop import Trainer
from bethink.train.recipe import Recipe

BASE = ("model.width=512", "model.hidden=2048", "model.heads=8", "model.encoder_layers=6", "model.decoder_layers=6")
TINY = (
    "model.width=32",
    "model.hidden=64",
    "model.heads=2",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "model.capsules.width=16",
    "model.capsules.hidden=32",
)
LONGEST = 120  # tokens
KERNELS = 40  # in a profile


@dataclass(frozen=True)
class Speed:
    system: str
    compiled: bool
    tokens_per_second: float  # target tokens, padding not counted
    milliseconds: float  # per update
    gigabytes: float  # most memory held at once
    teraflops: float  # that the model needs, per second
    utilisation: float
    padding: float  # share of the positions computed that is only padding
    first: float  # seconds to compile, and to see every shape twice before measuring
    loss: float  # per target token at the end, to see that something was learned


def main() -> None:
    options = parse()
    settings = TINY if options.tiny else BASE
    sizes = {"sentences": 2000, "vocabulary": 500} if options.tiny else {"sentences": 400_000, "vocabulary": 32_000}
    with tempfile.TemporaryDirectory() as folder, processes(options.device) as group:
        write_corpus(Path(folder), **sizes, seed=1)
        rate = matmul_rate(group.device, 256 if options.tiny else 8192)
        print(f"{name(group.device)}: {rate / 1e12:.0f} TFLOP/s in a bfloat16 matrix product", flush=True)
        speeds = []
        for system, compiled in product(options.systems, options.compiled):
            changes = [f"system={system}", f"train.compile={str(compiled).lower()}", f"train.tokens={options.tokens}"]
            recipe = Recipe.load("de-en", [*settings, "train.buckets=1", *changes, *options.changes])
            trainer = Trainer(recipe, about(sizes["vocabulary"]), Path(folder), Path(folder), None, group)
            speeds.append(measure(trainer, options, rate))
            print(row(speeds[-1]), flush=True)
            if options.profile:
                profile(trainer)
            del trainer
            release(group.device)
    print("\n".join([HEAD, *map(row, speeds)]))
    if options.json:
        options.json.write_text(json.dumps([asdict(speed) for speed in speeds], indent=2) + "\n", encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("changes", nargs="*", help="changes to the recipe de-en, as model.norm=post")
    parser.add_argument("--systems", nargs="+", default=["multi-path", "ped"])
    parser.add_argument("--compiled", nargs="+", type=lambda text: text == "yes", default=[False, True], help="no, yes")
    parser.add_argument("--tokens", type=int, default=32768, help="positions on the longer side of an update")
    parser.add_argument("--updates", type=int, default=40, help="measured, after the same ones ran twice")
    parser.add_argument("--device")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    return parser.parse_intermixed_args()


def write_corpus(folder: Path, *, sentences: int, vocabulary: int, seed: int) -> None:
    """Log-normal lengths with a mean of about 27, targets nearly as long as their sources, words as common as Zipf says."""
    rng = np.random.default_rng(seed)
    source = rng.lognormal(np.log(27) - 0.6**2 / 2, 0.6, sentences)
    target = source * rng.lognormal(0.0, 0.15, sentences)
    chances = 1 / (np.arange(vocabulary - 3) + 2.7)
    for part in ("train", "dev"):
        for side, drawn in (("source", source), ("target", target)):
            lengths = drawn.round().clip(2, LONGEST).astype(np.int64)
            offsets = np.concatenate([[0], lengths.cumsum()])
            words = rng.choice(vocabulary - 3, offsets[-1], p=chances / chances.sum()) + 3
            words[offsets[1:] - 1] = 1  # end of sentence
            np.save(folder / f"{part}.{side}.ids.npy", words.astype(np.int32))
            np.save(folder / f"{part}.{side}.offsets.npy", offsets)
        source, target = source[:100], target[:100]


def about(vocabulary: int) -> dict[str, object]:
    """The part of a prepared folder's manifest that training looks at."""
    return {"fingerprint": "made up", "source": {"size": vocabulary}, "target": {"size": vocabulary}}


def measure(trainer: Trainer, options: argparse.Namespace, rate: float) -> Speed:
    device = trainer.group.device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    first = sum(run(trainer, 0, options.updates)[0] for _ in range(2))  # every shape is computed, then recorded
    seconds, updates, loss = run(trainer, 0, options.updates)
    tokens = sum(update.tokens for update in updates)
    parts = [part for update in updates for part in update.parts]
    source = sum(int((part.source != PAD).sum()) for part in parts)
    computed = [on_grid(part) if trainer.replay else part for part in parts]
    positions = sum(part.source.numel() + part.target.numel() for part in computed)
    work = arithmetic(trainer.objective.model.config, source, tokens) / seconds
    return Speed(
        system=trainer.recipe.system,
        compiled=trainer.config.compile,
        tokens_per_second=tokens / seconds,
        milliseconds=1000 * seconds / len(updates),
        gigabytes=torch.cuda.max_memory_allocated() / 1e9 if device.type == "cuda" else 0.0,
        teraflops=work / 1e12,
        utilisation=work / rate,
        padding=1 - (source + tokens) / positions,
        first=first,
        loss=loss / tokens,
    )


def run(trainer: Trainer, start: int, count: int) -> tuple[float, list[Update], float]:
    """Seconds for `count` updates, prepared one ahead as in training; the updates; the sum of their losses."""
    totals = Totals(trainer.group.device)
    updates = []
    with ThreadPoolExecutor(max_workers=1) as ahead:
        following = ahead.submit(trainer.batches.update, start)
        following.result()
        begun = time.perf_counter()
        for number in range(start + 1, start + count + 1):
            updates.append(following.result())
            following = ahead.submit(trainer.batches.update, number)
            trainer._update(updates[-1], totals)
        loss = float(totals.sums[0])  # waits for the device
        return time.perf_counter() - begun, updates, loss


def arithmetic(config: ModelConfig, source: int, target: int) -> float:
    """Floating-point operations of forward and backward in matrix products with weights: 6 per weight and token."""
    square, feed = config.width**2, 2 * config.width * config.hidden
    per_source = config.encoder_layers * (4 * square + feed) + config.decoder_layers * 2 * square
    per_target = config.decoder_layers * (6 * square + feed) + config.width * config.target_vocabulary
    if capsules := config.capsules:
        votes, again = capsules.count * capsules.width, capsules.iterations - 1
        per_source += config.width * votes + capsules.width * votes
        per_target += config.width * capsules.width + again * capsules.width * votes
        per_target += (config.width + votes) * capsules.hidden + capsules.hidden * config.width
        per_target += 4 * config.width * votes // 2 + config.width * votes // 2  # the heads of the constraints
        per_target += config.width * (config.source_vocabulary + config.target_vocabulary)
    return 6.0 * (per_source * source + per_target * target)


def matmul_rate(device: torch.device, size: int) -> float:
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    times = []
    for _ in range(13):
        begun = time.perf_counter()
        (a @ b)[0, 0].item()
        times.append(time.perf_counter() - begun)
    return float(2 * size**3 / np.median(times[3:]))


def profile(trainer: Trainer) -> None:
    activities = [torch.profiler.ProfilerActivity.CPU]
    if trainer.group.device.type == "cuda":
        activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as made:
        run(trainer, 0, 4)
    kind = "device" if trainer.group.device.type == "cuda" else "cpu"
    events = sorted(made.key_averages(), key=lambda event: -getattr(event, f"self_{kind}_time_total"))
    total = sum(getattr(event, f"self_{kind}_time_total") for event in events)
    print(f"per update: {total / 4000:.1f} ms in kernels, of which")
    for event in events[:KERNELS]:
        spent = getattr(event, f"self_{kind}_time_total")
        print(f"  {spent / 4000:8.3f} ms {100 * spent / total:5.1f} % {event.count / 4:7.1f} x  {event.key[:110]}")


def name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def release(device: torch.device) -> None:
    torch.compiler.reset()  # what the next trainer compiles must not count as compiled once more
    gc.collect()  # a trainer and its recordings refer to each other
    if device.type == "cuda":
        torch.cuda.empty_cache()


HEAD = (
    f"{'system':12} {'compiled':8} {'tokens/s':>10} {'ms':>8} {'GB':>6} {'TFLOP/s':>8} "
    f"{'used':>6} {'pads':>6} {'first':>7} loss"
)


def row(speed: Speed) -> str:
    return (
        f"{speed.system:12} {'yes' if speed.compiled else 'no':8} {speed.tokens_per_second:10,.0f} "
        f"{speed.milliseconds:8.1f} {speed.gigabytes:6.1f} {speed.teraflops:8.1f} {speed.utilisation:6.1%} "
        f"{speed.padding:6.1%} {speed.first:6.1f}s {speed.loss:.3f}"
    )


if __name__ == "__main__":
    main()
