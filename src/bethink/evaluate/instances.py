"""One scored sentence, the log that holds them, and the scores that follow from the log alone.

The log is SimulEval's: one JSON object a line with `index prediction delays elapsed prediction_length reference source
source_length`, so `simuleval --score-only` and OmniSTEval read it. Keys of ours come after, and a log without them, written
by SimulEval itself, can be scored here as far as it goes.

SimulEval compares `elapsed` with `source_length` and so wants both in one unit; for text it writes zeros. We write `elapsed` in
words of the speaker's time (equal to `delays` when no clock ran: computing cost nothing) and the exact milliseconds beside it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bethink.errors import DataError
from bethink.evaluate import latency, quality
from bethink.evaluate.quality import Quality
from bethink.evaluate.records import flaw, number, read
from bethink.files import not_utf8, write_atomically
from bethink.trace import Translation

INTERVALS = "intervals.json"  # beside a log


@dataclass(frozen=True)
class Instance:
    """What was said, what was expected, and when each word came."""

    index: int
    source: str
    reference: str
    prediction: str
    source_length: int  # words
    delays: tuple[float, ...]  # source words heard when each target word was shown
    # milliseconds of the speaker's time; empty when no clock ran
    elapsed: tuple[float, ...] = field(default=(), metadata={"key": "elapsed_ms"})
    source_ms: float | None = None  # how long the speaker took; none when no clock ran
    path: tuple[int, ...] = ()  # source tokens read when each target token was written, end-of-sentence included
    source_tokens: int = 0
    reference_tokens: int = 0  # end-of-sentence included; 0 when not known
    deferred: int = 0  # READs that put a weighed word off
    forced: int = 0  # tokens written without evidence by a policy that looked for it
    erased: int = 0  # words taken back

    def to_dict(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "prediction": self.prediction,
            "delays": list(self.delays),
            "elapsed": self._elapsed_words(),
            "prediction_length": len(self.delays),
            "reference": self.reference,
            "source": self.source,
            "source_length": self.source_length,
            "elapsed_ms": list(self.elapsed),
            "source_ms": self.source_ms,
            "path": list(self.path),
            "source_tokens": self.source_tokens,
            "reference_tokens": self.reference_tokens,
            "deferred": self.deferred,
            "forced": self.forced,
            "erased": self.erased,
        }

    def __post_init__(self) -> None:
        if self.path and self.source_tokens < 1:
            raise ValueError(f"source_tokens is {self.source_tokens}, expected what the path was read of")

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Instance:
        found: Instance = read(cls, record, "the sentence", others=True)
        return found

    def _elapsed_words(self) -> list[float]:
        if not self.source_ms:
            return list(self.delays)
        return [moment * self.source_length / self.source_ms for moment in self.elapsed]


@dataclass(frozen=True)
class Scores:
    """What a log amounts to: latency[profile][measure], quality[profile][measure], and words taken back per word."""

    sentences: int
    latency: dict[str, dict[str, float]]
    quality: dict[str, dict[str, Quality]]
    erasure: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def instance(
    index: int,
    source: str,
    reference: str,
    translation: Translation,
    elapsed: Sequence[float] = (),
    source_ms: float | None = None,
    reference_tokens: int = 0,
) -> Instance:
    """The record of one translated sentence."""
    writes = translation.writes
    open_writes = [step for step in writes if step.gain and step.read < translation.source_tokens]
    return Instance(
        index=index,
        source=source,
        reference=reference,
        prediction=translation.text,
        source_length=len(translation.source),
        delays=tuple(translation.delays),
        elapsed=tuple(elapsed),
        source_ms=source_ms,
        path=tuple(translation.path),
        source_tokens=translation.source_tokens,
        reference_tokens=reference_tokens,
        deferred=sum(step.deferred for step in writes),
        forced=sum(not step.evidence for step in open_writes),
        erased=latency.erased(_displays(translation)),
    )


def score(instances: Sequence[Instance]) -> Scores:
    """All measures of all profiles that the instances allow: `paper` needs paths, `clock` needs a clock."""
    if not instances:
        raise DataError("there are no sentences to score; expected at least one")
    words = sum(len(one.delays) for one in instances)
    return Scores(
        sentences=len(instances),
        latency=_latency(instances),
        quality=_quality(instances),
        erasure=sum(one.erased for one in instances) / max(words, 1),
    )


def rescore(log: str | os.PathLike[str]) -> Scores:
    """The scores of a log, without the model that wrote it."""
    return score(read_log(log))


def read_log(log: str | os.PathLike[str]) -> list[Instance]:
    found = []
    for place, line in enumerate(read_lines(log), start=1):
        try:
            found.append(Instance.from_dict(json.loads(line)))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataError(
                f"{log} is not a log of 'bethink evaluate': line {place} is not a scored sentence ({flaw(error)}); give an "
                "instances.log"
            ) from None
    return found


def interval(log: Path, measure: str = "BLEU", profile: str = "standard", samples: int = 1000) -> float:
    """How far chance moves the score of a log: half of its 95 % interval, by bootstrap over its sentences.

    Resampling takes a second or two, so what was found is kept in a file beside the log, under the hash of what it was found from.
    """
    beside = log.parent / INTERVALS
    key = hashlib.sha256(f"{measure} {profile} {samples}\n".encode() + log.read_bytes()).hexdigest()
    try:
        known = {str(name): number(value, name) for name, value in json.loads(beside.read_text("utf-8")).items()}
    except (OSError, ValueError, AttributeError, RecursionError):
        known = {}  # not there, or not ours: it can be made again
    if key not in known:
        instances = read_log(log)
        references, said = [one.reference for one in instances], [one.prediction for one in instances]
        twice = {"it": said, "itself": said}
        known[key] = quality.compare(twice, references, measure=measure, profile=profile, samples=samples)[0].interval
        with contextlib.suppress(OSError):  # results in a folder that nobody may write to can be drawn all the same
            write(beside, json.dumps(known, indent=1) + "\n")
    return known[key]


def write_log(log: Path, instances: Iterable[Instance]) -> None:
    write(log, "".join(json.dumps(one.to_dict()) + "\n" for one in instances))


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    """The lines of a UTF-8 file, cut at newlines only; empty lines stay, so that line n is sentence n."""
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError as error:
        raise DataError(not_utf8(path, error)) from None
    if not text.strip():
        raise DataError(f"{path} is empty; expected one sentence per line")
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def write(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all, in a folder that need not be there yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content if isinstance(content, bytes) else content.encode())


def _latency(instances: Sequence[Instance]) -> dict[str, dict[str, float]]:
    sentences = {
        "paper": [latency.paper(one.path, one.source_tokens, one.reference_tokens) for one in instances if one.path],
        "simuleval": [
            latency.simuleval(one.delays, one.source_length, one.reference)
            for one in instances
            if one.delays and one.source_length
        ],
        "clock": [
            latency.clock(one.elapsed, one.source_ms, one.reference)
            for one in instances
            if one.elapsed and one.source_ms
        ],
    }
    return {profile: latency.mean(scored) for profile, scored in sentences.items() if scored}


def _quality(instances: Sequence[Instance]) -> dict[str, dict[str, Quality]]:
    """Nothing where sacrebleu is not installed: latency can be had without it."""
    if not quality.available():
        return {}
    return quality.score([one.prediction for one in instances], [one.reference for one in instances])


def _displays(translation: Translation) -> list[str]:
    """What the reader saw after each WRITE."""
    shown: list[str] = []
    text = ""
    for step in translation.writes:
        text += step.text
        shown.append(text)
    return shown
