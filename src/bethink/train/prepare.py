"""From parallel text to arrays of token ids: read, check, tokenise, learn vocabularies, encode."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import os
import random
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bethink import toy
from bethink.errors import DataError
from bethink.files import new_folder, read_json, write_json
from bethink.folder import CONFIG, save_vocabulary, sha256
from bethink.folder import find as find_model
from bethink.model.config import LONGEST, LONGEST_PROMPT
from bethink.text import EOS, SentencePieces, Vocabulary, WordFinalPieces, Words, load_vocabulary
from bethink.train.align import align
from bethink.train.checkpoint import disk_errors
from bethink.train.corpora import Pair, find, made_asr_like, read_pairs, tokenised
from bethink.train.data import MANIFEST, Corpus
from bethink.train.recipe import DataConfig, Recipe, TextConfig, differences, plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

TOY_SEEDS = {"train": 1, "dev": 2, "test": 3}
TOY_HELD_OUT = 500  # sentences each of the toy language's dev and test sets


def prepare(
    recipe: Recipe, data_dir: Path, out_dir: Path, console: Console | None = None, *, like: Path | None = None
) -> Path:
    """Make the folder that `train` reads from the recipe's corpora in `data_dir`; it appears only when it is complete.

    With `like`, a prepared folder or a model, its vocabularies are used, so that a model trained with them can be trained further.
    """
    from rich.console import Console

    console = console or Console(stderr=True)
    files = find(recipe.data, data_dir)
    data = dataclasses.replace(recipe.data, origin="", published=())
    words = _taken_over(like) if like else {}
    asked = {
        "settings": {"data": plain(data), "text": plain(recipe.text)},
        "inputs": {str(path.relative_to(data_dir)): sha256(path) for path in files},
        "vocabularies": {side: sha256(path) for side, (path, _) in words.items()},
    }
    if out_dir.exists():
        _require_same(out_dir, asked)
        console.print(f"{out_dir} is prepared already", highlight=False, markup=False)
        return out_dir
    with disk_errors("the prepared data", out_dir), new_folder(out_dir) as folder, _progress(console) as progress:
        known = {side: load_vocabulary(path, kind) for side, (path, kind) in words.items()}
        made = Preparation(recipe, data_dir, folder, progress, known).run()
        write_json(folder / MANIFEST, {**asked, **made, "fingerprint": fingerprint(folder)})
    for name, count in made["counts"].items():
        console.print(f"{name}: {count:,}", highlight=False)
    return out_dir


class Preparation:
    """The stages in order; each writes its files into the folder."""

    def __init__(
        self, recipe: Recipe, data_dir: Path, folder: Path, progress: Progress, known: dict[str, Vocabulary]
    ) -> None:
        self.data, self.text, self.seed = recipe.data, recipe.text, recipe.train.seed
        self.data_dir, self.folder, self.progress, self.known = data_dir, folder, progress, known
        self.counts: Counter[str] = Counter()
        self.written: Counter[str] = Counter()  # lines of text per part

    def run(self) -> dict[str, Any]:
        parts = [part for part in ("train", "dev", "test") if self.data.toy or getattr(self.data, part)]
        for part in parts:
            self._write_text(part)
        self._require_some("text", min(self.written["train"], self.written["dev"]))
        source, target = self._vocabularies()
        for part in ("train", "dev"):
            self._pack(part, source, target)
        for side in ("source", "target"):
            (self.folder / f"train.{side}.txt").unlink()  # the arrays are enough; dev and test are kept for evaluation
        self._require_some("pair", min(self.counts["train pairs"], self.counts["dev pairs"]))
        if self.data.align:
            task = self.progress.add_task("aligning words", total=None)
            links = align(Corpus(self.folder, "train"), self.data.align_most, self.seed)
            self.counts["train source tokens linked"] = int((links > 0).sum())
            save_array(self.folder / "train.source.links.npy", links.astype(np.uint16))
            self.progress.update(task, total=1, completed=1)
        sides = {
            side: {**save_vocabulary(self.folder, side, words), "size": len(words)}
            for side, words in (("source", source), ("target", target))
        }
        return {**sides, "counts": dict(self.counts)}

    def _require_some(self, what: str, count: int) -> None:
        if not count:
            found = ", ".join(f"{name}: {count:,}" for name, count in self.counts.items()) or "the files are empty"
            raise DataError(
                f"no {what} is left to train on or to validate with ({found}); look at the files and at data.longest"
            )

    def _write_text(self, part: str) -> None:
        """Write clean, tokenised lines, without pairs that have an empty side."""
        unique, seen = part == "train" and self.data.unique, set[int]()
        if self.data.toy:
            count = self.data.toy if part == "train" else TOY_HELD_OUT
            pairs: Iterator[Pair] = ((one.source, one.target) for one in toy.sentences(count, TOY_SEEDS[part]))
        else:
            pairs = read_pairs(getattr(self.data, part), self.data, self.data_dir, self.seed)
        if part == "train":
            pairs = made_asr_like(self._complete(pairs, part), self.data.asr_like, self.seed, self.data.source)
        with self._out(part, "source") as left, self._out(part, "target") as right:
            for source, target in self.progress.track(
                tokenised(pairs, self.data, self.text), description=f"reading {part}", total=None
            ):
                if part != "test" and not (source and target):
                    self.counts[f"{part} pairs dropped: empty"] += 1
                elif unique and (key := hash((source, target))) in seen:
                    self.counts[f"{part} pairs dropped: seen before"] += 1
                else:
                    if unique:
                        seen.add(key)
                    left.write(source + "\n")
                    right.write(target + "\n")
                    self.written[part] += 1

    def _complete(self, pairs: Iterator[Pair], part: str) -> Iterator[Pair]:
        for pair in pairs:
            if all(pair):
                yield pair
            else:
                self.counts[f"{part} pairs dropped: empty"] += 1

    def _vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        sides = ("source", "target")
        if self.known:
            return self.known["source"], self.known["target"]
        if self.text.joint:
            joint = self._vocabulary(sides)
            return joint, joint
        source, target = (self._vocabulary((side,)) for side in sides)
        return source, target

    def _vocabulary(self, sides: tuple[str, ...]) -> Vocabulary:
        lines = itertools.chain.from_iterable(self._lines("train", side) for side in sides)
        task = self.progress.add_task(f"learning the vocabulary of {' and '.join(sides)}", total=None)
        try:
            if self.text.kind == "words":
                return Words.build(lines, minimum=self.text.least)
            share, rng = self.text.sample / (self.written["train"] * len(sides)), random.Random(self.seed)
            sampled = (line for line in lines if share >= 1 or rng.random() < share)
            pieces = WordFinalPieces if self.text.kind == WordFinalPieces.kind else SentencePieces
            return pieces.train(sampled, self.folder / f"{sides[0]}.spm", self.text.size)
        finally:
            self.progress.update(task, total=1, completed=1)

    def _pack(self, part: str, source: Vocabulary, target: Vocabulary) -> None:
        """Write flat arrays of token ids and of sentence starts, for every pair that passes the filters."""
        sides = {"source": Packer(source), "target": Packer(target)}
        lines = zip(self._lines(part, "source"), self._lines(part, "target"), strict=True)
        for pair in self.progress.track(lines, description=f"encoding {part}", total=None):
            left, right = (packer.encode(line) for packer, line in zip(sides.values(), pair, strict=True))
            if reason := self._unfit(part, len(left), len(right)):
                self.counts[f"{part} pairs dropped: {reason}"] += 1
                continue
            sides["source"].add(left)
            sides["target"].add(right)
            self.counts[f"{part} pairs"] += 1
        for side, packer in sides.items():
            self.counts[f"{part} {side} tokens"] = len(packer.ids)
            packer.save(self.folder / f"{part}.{side}")

    def _unfit(self, part: str, source: int, target: int) -> str | None:
        """Why a pair is dropped, if it is; of the dev pairs only those that are too long for any model."""
        if max(source, target) > (self.data.longest if part == "train" else LONGEST - LONGEST_PROMPT):
            return "too long"
        if part == "train" and self.data.ratio and max(source, target) > self.data.ratio * min(source, target):
            return "lengths too different"
        return None

    def _out(self, part: str, side: str) -> IO[str]:
        return (self.folder / f"{part}.{side}.txt").open("w", encoding="utf-8", newline="\n")

    def _lines(self, part: str, side: str) -> Iterator[str]:
        with (self.folder / f"{part}.{side}.txt").open(encoding="utf-8", newline="\n") as lines:
            for line in lines:
                yield line.rstrip("\n")


class Packer:
    """Token ids of many sentences in one array; words are encoded one by one, as in a stream."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.encode_word = functools.cache(vocabulary.encode)
        self.type = np.dtype(np.uint16 if len(vocabulary) < 1 << 16 else np.int32)
        self.ids = array(self.type.char)
        self.offsets = array("q", [0])

    def encode(self, line: str) -> list[int]:
        return [*(token for word in line.split() for token in self.encode_word(word)), EOS]

    def add(self, ids: list[int]) -> None:
        self.ids.extend(ids)
        self.offsets.append(len(self.ids))

    def save(self, stem: Path) -> None:
        for name, content in (
            ("ids", np.asarray(self.ids, self.type)),
            ("offsets", np.asarray(self.offsets, np.int64)),
        ):
            save_array(stem.with_name(f"{stem.name}.{name}.npy"), content)


def save_array(path: Path, content: npt.NDArray[Any]) -> None:
    with path.open("wb") as handle:
        np.save(handle, content)
        handle.flush()
        os.fsync(handle.fileno())


def fingerprint(folder: Path) -> str:
    """A hash of the content of a prepared folder."""
    hashes = [f"{path.name} {sha256(path)}" for path in sorted(folder.iterdir())]
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def _taken_over(folder: Path) -> dict[str, tuple[Path, str]]:
    """The vocabulary files of a prepared folder or a model, and their kinds."""
    place = find_model(folder) if not (folder / MANIFEST).is_file() else folder
    about = read_json(next(path for path in (place / MANIFEST, place / CONFIG) if path.is_file()), DataError)
    return {side: (place / about[side]["file"], about[side]["kind"]) for side in ("source", "target")}


def _require_same(folder: Path, asked: dict[str, Any]) -> None:
    try:
        made = read_json(folder / MANIFEST, DataError)
    except DataError:
        made = {}
    if not all(isinstance(made.get(key), dict) for key in ("settings", "inputs")):
        raise DataError(f"{folder} is in use and holds no prepared data; give another folder with --out")
    made["settings"] = _whole(made["settings"])
    changed = differences({key: made.get(key, {}) for key in asked}, asked)
    if changed:
        raise DataError(
            f"{folder} was prepared otherwise ({'; '.join(changed[:3])}); give another folder with --out, or remove it"
        )


def _whole(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings that did not exist when the folder was made get their defaults."""
    defaults = {"data": plain(DataConfig()), "text": plain(TextConfig())}
    return settings | {
        key: values | settings[key] for key, values in defaults.items() if isinstance(settings.get(key), dict)
    }


def _progress(console: Console) -> Progress:
    from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*columns, console=console, refresh_per_second=4, disable=not console.is_terminal)
