"""Sequence-level distillation: a teacher translates a corpus, and a student learns from the translations instead of the references."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bethink.errors import DataError, ModelError, UsageError
from bethink.files import new_folder, write_atomically, write_json
from bethink.folder import WEIGHTS, Folder, find, sha256
from bethink.model import device as devices
from bethink.model.config import LONGEST, LONGEST_PROMPT
from bethink.model.transformer import Transformer
from bethink.model.weights import load_model
from bethink.text import EOS
from bethink.train.corpora import read_lines
from bethink.train.data import MANIFEST, Corpus, manifest
from bethink.train.generate import Search, Tokens, translate
from bethink.train.prepare import Packer, fingerprint, save_array

Progress = Callable[[str, int, int], None]  # what is done, how many of how many


class Teacher:
    """A model with its weights, on the device that translates."""

    def __init__(
        self, folder: Path, search: Search, device: str | None = None, progress: Progress | None = None
    ) -> None:
        self.folder = Folder.open(find(folder))
        if not self.folder.has(WEIGHTS):
            raise ModelError(
                f"the model in {self.folder.path} has no weights for torch; a teacher is a run of 'bethink train', or a model made "
                "with: bethink export RUN --to DIR --weights"
            )
        self.search = search
        self.model: Transformer = load_model(self.folder).to(devices.choose(device))
        self._progress = progress
        self.tokens, self.seconds = 0, 0.0  # written so far, and the time that took

    @property
    def speed(self) -> float:
        """Tokens written per second."""
        return self.tokens / max(self.seconds, 1e-9)

    def translate(self, sentences: list[Tokens]) -> list[Tokens | None]:
        """The translation of each sentence of ids; None for one that had to be cut, as a rule because it repeats itself."""
        found: list[Tokens | None] = [None] * len(sentences)
        began = time.perf_counter()
        for done, (number, ids) in enumerate(translate(self.model, sentences, self.search), start=1):
            found[number] = ids if ids[-1] == EOS else None
            self.tokens += len(ids)
            if self._progress and (done % 1000 == 0 or done == len(sentences)):
                self._progress("translating", done, len(sentences))
        self.seconds += time.perf_counter() - began
        return found


def distill_text(teacher: Teacher, source: Path, out: Path) -> int:
    """Write a translation for every line of a text, an empty line where there is none; returns how many there are."""
    lines = _encoded(teacher, source)
    numbers = [number for number, ids in enumerate(lines) if len(ids) > 1]
    if not numbers:
        raise DataError(f"{source} has no text to translate")
    texts = [""] * len(lines)
    for number, ids in zip(numbers, teacher.translate([lines[each] for each in numbers]), strict=True):
        if ids is not None:
            texts[number] = teacher.folder.target.decode(ids.tolist())
    write_atomically(out, "".join(f"{text}\n" for text in texts).encode())
    return sum(map(bool, texts))


def distill_data(
    teacher: Teacher, data: Path, out: Path, *, keep: bool = False, also: Path | None = None
) -> dict[str, int]:
    """Write a prepared folder whose training targets are the teacher's; with `keep`, the pairs of before stay beside them.

    `also` is a text of the source language alone, which is translated, too. Pairs without a translation are left out. Pairs that are
    kept keep their word alignments; translations have none, since their words are others. Returns counts.
    """
    about = manifest(data)
    if out.exists():
        raise UsageError(f"{out} exists already; give another folder with --to")
    for side in ("source", "target"):
        if about[side]["kind"] != teacher.folder.config[side]["kind"] or sha256(data / about[side]["file"]) != sha256(
            teacher.folder.path / teacher.folder.config[side]["file"]
        ):
            raise DataError(
                f"{data} and the teacher in {teacher.folder.path} have different {side} vocabularies; prepare the data again with: "
                f"bethink prepare RECIPE --like {teacher.folder.path}"
            )
    corpus = Corpus(data, "train")
    sources = [corpus.source.sentence(number) for number in range(len(corpus))]
    packers = {"source": Packer(teacher.folder.source), "target": Packer(teacher.folder.target)}
    links = corpus.source.links if keep else None
    if keep:
        for number, source in enumerate(sources):
            _add(packers, source, corpus.target.sentence(number))
    if also is not None:
        longest = int(corpus.source.lengths.max())
        sources += [line for line in _encoded(teacher, also) if 1 < len(line) <= longest]
    targets = teacher.translate(sources)
    for source, target in zip(sources, targets, strict=True):
        if target is not None:
            _add(packers, source, target)
    counts = {"train pairs": len(packers["source"].offsets) - 1, "left out": sum(target is None for target in targets)}
    with new_folder(out) as folder:
        for path in data.iterdir():
            if path.name != MANIFEST and not path.name.startswith("train."):
                shutil.copy2(path, folder)
        for side, packer in packers.items():
            packer.save(folder / f"train.{side}")
        if links is not None:
            none = np.zeros(len(packers["source"].ids) - len(links), links.dtype)
            save_array(folder / "train.source.links.npy", np.concatenate([links, none]))
        origin = {"teacher": teacher.folder.name, "fingerprint": teacher.folder.fingerprint, "kept": keep}
        told = {
            "distilled": origin | dataclasses.asdict(teacher.search),
            "counts": about.get("counts", {}) | counts,
            "fingerprint": fingerprint(folder),
        }
        write_json(folder / MANIFEST, {**about, **told})
    return counts


def _encoded(teacher: Teacher, text: Path) -> list[Tokens]:
    """The lines of a text of the source language as ids, each ending in EOS."""
    packer = Packer(teacher.folder.source)
    most = LONGEST - LONGEST_PROMPT - 1
    return [np.array([*packer.encode(line)[:-1][:most], EOS]) for line in read_lines(text)]


def _add(packers: dict[str, Packer], source: Tokens, target: Tokens) -> None:
    packers["source"].add(source.tolist())
    packers["target"].add(target.tolist())
