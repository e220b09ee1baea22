"""Parallel text in two files, plain or compressed: found, checked and tokenised line by line."""

from __future__ import annotations

import functools
import gzip
import itertools
import lzma
import multiprocessing
import random
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from bethink.errors import DataError
from bethink.files import not_utf8
from bethink.text import normalise, without_punctuation
from bethink.text.languages import halting
from bethink.text.languages import load as load_language
from bethink.train.moses import Moses
from bethink.train.recipe import DataConfig, TextConfig

Pair = tuple[str, str]
OPENERS: dict[str, Callable[..., Any]] = {"": open, ".gz": gzip.open, ".xz": lzma.open}
CHUNK = 50_000  # lines in memory at a time
FEW = 5_000  # lines not worth starting processes for
OFTEN = 2 / 3  # of the ASR-like sources lose their capitals and, independently, as many their punctuation
SELDOM = 1 / 3  # of them have hesitations
HALTS = 1 / 12  # of the words of those
RUNS = (1, 1, 1, 1, 2, 2, 3, 6)  # how many sentences are joined into one
_SPLIT = re.compile(r"(?<=\w) ?['’](s|t|re|ve|ll|d|m)(?=\W|$)", re.IGNORECASE)


def find(config: DataConfig, data_dir: Path) -> list[Path]:
    """Every file that the recipe reads; the error names all missing files and where they come from."""
    if config.toy:
        return []
    names = [
        f"{name}.{side}"
        for name in (*config.train, *config.dev, *config.test)
        for side in (config.source, config.target)
    ]
    found = {name: existing(data_dir / name) for name in names}
    if missing := [name for name, path in found.items() if path is None]:
        origin = f"; they come from: {' '.join(config.origin.split())}" if config.origin else ""
        raise DataError(f"{data_dir} lacks {', '.join(missing)} (plain, .gz or .xz){origin}")
    return [path for path in found.values() if path is not None]


def existing(path: Path) -> Path | None:
    candidates = (path.with_name(path.name + suffix) for suffix in OPENERS)
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def read_pairs(part: tuple[str, ...], config: DataConfig, data_dir: Path, seed: int = 1) -> Iterator[Pair]:
    """The pairs of the corpora of one part of the data; of a corpus in data.most only some, drawn at random."""
    most = config.lines("most")
    for name in part:
        left, right = (existing(data_dir / f"{name}.{side}") for side in (config.source, config.target))
        assert left is not None
        assert right is not None
        pairs = read_two(left, right, config.lines("published").get(name))
        yield from _drawn(list(pairs), most[name], random.Random(f"{seed} {name}")) if name in most else pairs


def _drawn(pairs: list[Pair], most: int, draw: random.Random) -> Iterator[Pair]:
    """So many of the pairs, in their order."""
    for number in sorted(draw.sample(range(len(pairs)), min(most, len(pairs)))):
        yield pairs[number]


def read_two(source: Path, target: Path, published: int | None = None) -> Iterator[Pair]:
    """The normalised lines of two files, which must have the same length, and the published length if it is known."""
    counts = [0, 0]
    for pair in itertools.zip_longest(read_lines(source), read_lines(target)):
        for n, line in enumerate(pair):
            counts[n] += line is not None
        if None not in pair:
            yield pair
    if counts[0] != counts[1]:
        raise DataError(
            f"{source} has {counts[0]:,} lines but {target} has {counts[1]:,}; line n of one must translate line n of the other"
        )
    if published not in (None, counts[0]):
        raise DataError(
            f"{source} and {target.name} have {counts[0]:,} lines, but the published ones have {published:,}; fetch those, or use "
            "these all the same with data.published=[]"
        )


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a plain, .gz or .xz file, normalised."""
    opener = OPENERS.get(path.suffix, OPENERS[""])
    number = 0
    try:
        with opener(path, "rb") as lines:
            for line in lines:
                number += 1
                yield normalise(line.decode("utf-8").strip())
    except UnicodeDecodeError as error:
        raise DataError(not_utf8(path, error, number)) from None
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError) as error:
        raise DataError(f"{path} is damaged after line {number} ({error}); download it again") from None


def made_asr_like(pairs: Iterator[Pair], share: float, seed: int, language: str = "") -> Iterator[Pair]:
    """The pairs, a share of them with a source like the output of speech recognition: without capitals, without punctuation,
    with hesitations and repeated words, several sentences in one. The target is not changed, so the model learns to restore what the
    source lacks and to leave out what is too much.
    """
    draw = random.Random(seed)
    known = load_language(language)
    hesitations = known.hesitations if known else ()
    for pair in pairs:
        if draw.random() >= share:
            yield pair
            continue
        source, target = (
            " ".join(side) for side in zip(pair, *itertools.islice(pairs, draw.choice(RUNS) - 1), strict=True)
        )
        if draw.random() < OFTEN:
            source = source.lower()
        bare = without_punctuation(source) if draw.random() < OFTEN else source
        spoken = halting(bare, hesitations, draw, HALTS) if draw.random() < SELDOM else bare
        yield spoken or source, target


def tokenised(pairs: Iterator[Pair], data: DataConfig, text: TextConfig) -> Iterator[Pair]:
    """The pairs tokenised and lower-cased as the recipe says; Moses is slow, so many lines are tokenised on all cores.

    Text that Moses has tokenised before is not changed, so that raw and tokenised corpora can be mixed.
    """
    if text.tokenise == "none":
        for source, target in pairs:
            yield (source.lower(), target.lower()) if text.lower else (source, target)
        return
    aggressive = text.tokenise == "moses-aggressive"
    jobs = [Moses(language, aggressive=aggressive, lower=text.lower) for language in (data.source, data.target)]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        while chunk := list(itertools.islice(pairs, CHUNK)):
            run = functools.partial(pool.map, chunksize=1000) if len(chunk) > FEW else map
            done = []
            for job, lines in zip(jobs, zip(*chunk, strict=True), strict=True):
                # Moses splits "it's" well, but takes "it 's" for a quotation, so such contractions are joined first
                done.append(run(job, (_SPLIT.sub(r"'\1", line) for line in lines)))
            yield from zip(*done, strict=True)
