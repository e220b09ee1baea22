"""One translated sentence, the log of all of them, and the scores computed from the log alone.

The log has SimulEval's format: one JSON object per line with `index prediction delays elapsed prediction_length reference source
source_length`, so `simuleval --score-only` and OmniSTEval can read it. Our own keys come after these. A log without them, written
by SimulEval itself, can be scored here, too, without the measures that need them.

SimulEval compares `elapsed` with `source_length`, so both must have one unit; for text it writes zeros. We write `elapsed` in
words of the speaker's time (equal to `delays` without a clock), and the exact milliseconds under a key of our own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from bethink.errors import DataError
from bethink.evaluate import latency, meaning, quality
from bethink.evaluate.quality import Quality
from bethink.evaluate.records import flaw, number, read
from bethink.files import read_lines, write
from bethink.policy import Action
from bethink.trace import Translation

INTERVALS = "intervals.json"  # beside a log
LOG = "instances.log"


@dataclass(frozen=True)
class Instance:
    """One sentence: source, reference, translation, and when each word was shown."""

    index: int
    source: str
    reference: str
    prediction: str
    source_length: int  # words
    delays: tuple[float, ...]  # source words read when each target word was shown
    # milliseconds of the speaker's time; empty without a clock
    elapsed: tuple[float, ...] = field(default=(), metadata={"key": "elapsed_ms"})
    source_ms: float | None = None  # how long the speaker took; none without a clock
    path: tuple[int, ...] = ()  # source tokens read when each target token was written, end-of-sentence included
    source_tokens: int = 0
    reference_tokens: int = 0  # end-of-sentence included; 0 if not known
    deferred: int = 0  # READs after which a weighed word was not written
    forced: int = 0  # tokens written without evidence by a policy that looks for it
    erased: int = 0  # words taken back
    tail_erased: int | None = None  # the same with the tail shown, if that was measured

    def to_dict(self) -> dict[str, Any]:
        """The record of the log, where `elapsed` is in words."""
        words = [moment * self.source_length / self.source_ms for moment in self.elapsed] if self.source_ms else []
        return {
            "index": self.index,
            "prediction": self.prediction,
            "delays": list(self.delays),
            "elapsed": words if self.source_ms else list(self.delays),
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
            **({} if self.tail_erased is None else {"tail_erased": self.tail_erased}),
        }

    def __post_init__(self) -> None:
        if self.path and self.source_tokens < 1:
            raise ValueError(f"source_tokens is {self.source_tokens}, expected what the path was read of")

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Instance:
        found: Instance = read(cls, record, "the sentence", others=True)
        return found


@dataclass(frozen=True)
class Scores:
    """The scores of a log: latency[profile][measure], quality[profile][measure], and words taken back per word.

    meaning[kind][measure] is what was done to negations, numbers and names: see `bethink.evaluate.meaning`.
    """

    sentences: int
    latency: dict[str, dict[str, float]]
    quality: dict[str, dict[str, Quality]]
    erasure: float
    longform: dict[str, float] = field(default_factory=dict)  # drift, stalls and loops, of whole talks only
    meaning: dict[str, dict[str, float]] = field(default_factory=dict)
    haste: dict[str, float] = field(default_factory=dict)  # words shown too early: see `bethink.evaluate.haste`
    tail: dict[str, float] = field(default_factory=dict)  # erasure: words taken back per word, if the tail is shown too


def instance(
    index: int,
    source: str,
    reference: str,
    translation: Translation,
    elapsed: Sequence[float] = (),
    source_ms: float | None = None,
    reference_tokens: int = 0,
    *,
    tail: bool = False,
) -> Instance:
    """The record of one translated sentence. `tail`: its steps have tails."""
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
        erased=latency.erased(list(accumulate(step.text for step in writes))),
        tail_erased=latency.erased(_with_tails(translation)) if tail else None,
    )


def _with_tails(translation: Translation) -> list[str]:
    """What is on the screen when each source word arrives, the tail included, and at the end."""
    text, screens = "", []
    for step in translation.steps:
        if step.action is Action.WRITE:
            text += step.text
        elif step.text:
            screens.append(text + (step.tail or ""))
    return [*screens, text]


def score(instances: Sequence[Instance], whole: Sequence[Instance] = (), spoken: str = "") -> Scores:
    """All measures of all profiles that the instances allow: `paper` needs paths, `clock` a clock, quality needs sacrebleu.

    What the policy does to the meaning needs `whole`, the same model's translations of whole sentences, and the languages, as in de-en.
    """
    if not instances:
        raise DataError("there are no sentences to score; expected at least one")
    predictions, references = [one.prediction for one in instances], [one.reference for one in instances]
    words = max(sum(len(one.delays) for one in instances), 1)
    tails = [one.tail_erased for one in instances if one.tail_erased is not None]
    return Scores(
        sentences=len(instances),
        latency=_latency(instances),
        quality=quality.score(predictions, references) if quality.available() else {},
        erasure=sum(one.erased for one in instances) / words,
        meaning=meaning.measure(instances, whole, spoken),
        tail={"erasure": sum(tails) / words} if len(tails) == len(instances) else {},
    )


def rescore(log: str | os.PathLike[str], whole: str | os.PathLike[str] | None = None, spoken: str = "") -> Scores:
    """The scores of a log, without the model that wrote it; `whole` is by default the log of `offline` in the folder beside its own."""
    beside = Path(log).absolute().parent.parent / "offline" / LOG
    whole = beside if whole is None and beside.is_file() else whole
    return score(read_log(log), read_log(whole) if whole else (), spoken)


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
    """Half of the 95 % confidence interval of a log's score, by bootstrap over its sentences.

    Resampling takes a second or two, so the result is kept in a file beside the log, under a hash of the log and the settings.
    """
    beside = log.parent / INTERVALS
    key = hashlib.sha256(f"{measure} {profile} {samples}\n".encode() + log.read_bytes()).hexdigest()
    try:
        known = {str(name): number(value, name) for name, value in json.loads(beside.read_text("utf-8")).items()}
    except (OSError, ValueError, AttributeError, RecursionError):
        known = {}  # missing or damaged: it is made again
    if key not in known:
        instances = read_log(log)
        references, said = [one.reference for one in instances], [one.prediction for one in instances]
        twice = {"it": said, "itself": said}
        known[key] = quality.compare(twice, references, measure=measure, profile=profile, samples=samples)[0].interval
        with contextlib.suppress(OSError):  # results in a read-only folder can be drawn, too
            write(beside, json.dumps(known, indent=1) + "\n")
    return known[key]


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
