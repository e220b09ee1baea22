"""Whole talks as one text without sentence boundaries: does the translation keep up, and does it drift, stall or loop?

Each talk is fed word by word to a `Session`, as live text is, at a speaking rate. The log and the files beside it have the form
that `omnisteval longform --word_level` reads:

- `POLICY/instances.log`: a JSON object per talk with its prediction and, for each of its words, when it was shown in milliseconds:
  `delays` by the source words it followed, `elapsed` with the computing time on top.
- `segmentation.json`, `references.txt`, `sources.txt`: the sentences of the reference, and when the speaker began each of them.

For the scores the translation is cut into the sentences of the reference (`resegment`).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bethink.errors import DataError, UsageError
from bethink.evaluate import latency, quality
from bethink.evaluate.instances import Scores
from bethink.evaluate.records import flaw, read
from bethink.evaluate.resegment import resegment
from bethink.evaluate.run import Result, ResultFolder, load_pairs
from bethink.files import read_lines, write
from bethink.policy import Policy
from bethink.text import without_punctuation
from bethink.trace import shown, words_begun
from bethink.translator import Translator

SEGMENTATION, REFERENCES, SOURCES = "segmentation.json", "references.txt", "sources.txt"  # beside results.json
TENTH = 0.1  # of a talk: its beginning and its end, for the drift
LOOP, WITHIN = 4, 50  # a loop: so many words in a row that were shown within so many words before
_STUTTER = re.compile(r"([^\W\d_]{1,8}?)\1{3,}")  # a loop within a word: the same letters four times in a row
Progress = Callable[[Policy, int, int], None]  # policy, words done, words in all
Pair = tuple[str, str]  # a source sentence and its reference


@dataclass(frozen=True)
class Talk:
    """A translated talk, as logged."""

    index: int
    source: str  # the name that the segmentation uses
    prediction: str
    delays: tuple[float, ...]  # milliseconds, for each word of the prediction
    elapsed: tuple[float, ...]
    source_length: float  # milliseconds
    source_words: int


@dataclass(frozen=True)
class Segment:
    """A sentence of the reference: when the speaker begins it and how long it takes, in seconds."""

    wav: str  # the name of its talk
    offset: float
    duration: float


def load_talks(
    sources: Sequence[str | os.PathLike[str]], references: Sequence[str | os.PathLike[str]]
) -> list[list[Pair]]:
    """Talks from pairs of files with one sentence per line; each file, and each part between empty lines, is a talk."""
    if len(sources) != len(references):
        raise UsageError(f"{len(sources)} source files but {len(references)} reference files; give as many of each")
    talks: list[list[Pair]] = []
    for source, reference in zip(sources, references, strict=True):
        lines = zip(*load_pairs(source, reference), strict=True)
        pairs = [(left.strip(), right.strip()) for left, right in lines]
        for number, pair in enumerate(pairs, start=1):
            if any(pair) and not all(pair):
                raise DataError(
                    f"line {number} is empty in only one of {source} and {reference}; an empty line ends a talk in both"
                )
        talks += [list(talk) for spoken, talk in itertools.groupby(pairs, any) if spoken]
    return talks


def as_heard(talks: Sequence[Sequence[Pair]], *, lower: bool, unpunctuated: bool) -> list[list[Pair]]:
    """The sources as a speech recogniser may write them; a sentence of which nothing is left goes with its reference."""

    def heard(line: str) -> str:
        line = without_punctuation(line) if unpunctuated else line
        return line.lower() if lower else line

    changed = [[(heard(source), reference) for source, reference in talk] for talk in talks]
    return [kept for talk in changed if (kept := [pair for pair in talk if pair[0]])]


def evaluate(
    translator: Translator,
    talks: Sequence[Sequence[Pair]],
    policies: Sequence[Policy],
    out_dir: str | os.PathLike[str],
    *,
    wpm: float = 150.0,
    progress: Progress | None = None,
) -> list[Result]:
    """Run every policy over the same talks; write results.json, a log for each policy, and what OmniSTEval needs."""
    if not any(talks):
        raise DataError("there are no talks to translate; expected at least one sentence")
    if wpm <= 0:
        raise UsageError(f"the speaker's pace is {wpm} words per minute, but must be above 0")
    pace, folder = 60_000 / wpm, Path(out_dir)
    kept = ResultFolder(folder, translator, hashlib.sha256(json.dumps([wpm, talks]).encode()).hexdigest())
    segments = [segment for number, talk in enumerate(talks) for segment in _segments(_name(number), talk, pace)]
    pairs = [pair for talk in talks for pair in talk]
    write(folder / SEGMENTATION, "[\n" + ",\n".join(json.dumps(asdict(each)) for each in segments) + "\n]\n")
    write(folder / SOURCES, "".join(f"{source}\n" for source, _ in pairs))
    write(folder / REFERENCES, "".join(f"{reference}\n" for _, reference in pairs))
    results: list[Result] = []
    for policy in {str(policy): policy for policy in policies}.values():
        said = [_listen(translator, n, talk, policy, pace, progress) for n, talk in enumerate(talks)]
        scores = score(said, segments, [reference for _, reference in pairs])
        results.append(kept.add(policy, scores, [asdict(talk) for talk in said], wpm))
    return results


def _name(number: int) -> str:
    return f"talk-{number + 1}"


def _segments(name: str, talk: Sequence[Pair], pace: float) -> list[Segment]:
    lengths = [len(source.split()) for source, _ in talk]
    starts = [0, *itertools.accumulate(lengths)]
    return [
        Segment(name, start * pace / 1000, length * pace / 1000) for start, length in zip(starts, lengths, strict=False)
    ]


def _listen(
    translator: Translator, number: int, talk: Sequence[Pair], policy: Policy, pace: float, progress: Progress | None
) -> Talk:
    """Feed a talk word by word, one per `pace` milliseconds; the talk ends with its last word."""
    words = [word for source, _ in talk for word in source.split()]
    session = translator.session(policy)
    texts: list[str] = []
    computing: list[float] = []
    for done, word in enumerate([*words, None], start=1):
        start = time.perf_counter()
        texts.append(shown(session.finish() if word is None else session.feed(f"{word} ")))
        computing.append((time.perf_counter() - start) * 1000)
        if progress:
            progress(policy, min(done, len(words)), len(words))
    arrivals = [pace * count for count in (*range(1, len(words) + 1), len(words))]
    ends = latency.schedule(arrivals, computing)
    delays: list[float] = []
    elapsed: list[float] = []
    for text, arrival, end in zip(texts, arrivals, ends, strict=True):
        begun = words_begun(text, first=not delays)
        delays += [arrival] * begun
        elapsed += [end] * begun
    prediction = "".join(texts).strip()
    return Talk(number, _name(number), prediction, tuple(delays), tuple(elapsed), len(words) * pace, len(words))


def rescore(log: str | os.PathLike[str]) -> Scores:
    """The scores of a log, from it and the files beside results.json."""
    folder = Path(log).absolute().parent.parent
    references = read_lines(folder / REFERENCES)
    segments: list[Segment] = _records(Segment, folder / SEGMENTATION, read_lines(folder / SEGMENTATION)[1:-1])
    talks: list[Talk] = _records(Talk, log, read_lines(log))
    known = {segment.wav for segment in segments}
    if len(segments) != len(references) or {talk.source for talk in talks} != known:
        raise DataError(f"{log} does not belong to {folder / SEGMENTATION} and {folder / REFERENCES}; give another log")
    return score(talks, segments, references)


def is_longform(log: str | os.PathLike[str]) -> bool:
    """Whether a log is one of talks: only these have a segmentation."""
    return (Path(log).absolute().parent.parent / SEGMENTATION).is_file()


def score(talks: Sequence[Talk], segments: Sequence[Segment], references: Sequence[str]) -> Scores:
    """Quality after re-segmentation, LongYAAL, and how the talks went."""
    predictions: list[str] = []
    kept: list[str] = []  # the references, in the order of the predictions
    lags: list[dict[str, float]] = []
    for talk in talks:
        words = talk.prediction.split()
        if not len(words) == len(talk.delays) == len(talk.elapsed):
            raise DataError(
                f"{talk.source} has {len(words)} words but {len(talk.delays)} delays; expected as many of each"
            )
        own = [(each, line) for each, line in zip(segments, references, strict=True) if each.wav == talk.source]
        kept += [line for _, line in own]
        places = resegment(words, [line for _, line in own], talk.source)
        predictions += [" ".join(words[place] for place in here) for here in places]
        end = max(each.offset * 1000 + each.duration * 1000 for each, _ in own)
        lags += [_lags(talk, *each, here, end) for each, here in zip(own, places, strict=True)]
    means = latency.mean(lags)
    said = [word for talk in talks for word in talk.prediction.split()]
    return Scores(
        sentences=len(references),
        latency={"longform": {name: means.pop(name) for name in ("LongYAAL", "LongYAAL-CA") if name in means}},
        quality=quality.score(predictions, kept) if quality.available() else {},
        erasure=0.0,  # a session only appends
        longform=means
        | {"stall": max(map(_stall, talks)), "loops": looped(said)}
        | {"reference loops": looped([word for line in kept for word in line.split()])},
    )


def _lags(talk: Talk, segment: Segment, reference: str, places: Sequence[int], end: float) -> dict[str, float]:
    """LongYAAL of one sentence; also under the name of the part of the talk, for its first and last tenth."""
    offset, found = segment.offset * 1000, {}
    for name, kind, times in (("LongYAAL", "lag", talk.delays), ("LongYAAL-CA", "lag CA", talk.elapsed)):
        shown_at = [times[place] - offset for place in places]
        lag = latency.yet_another(shown_at, segment.duration * 1000, latency.reference_length(reference), end - offset)
        if lag is None:
            continue
        found[name] = lag
        if offset < TENTH * end:
            found[f"{kind}, first tenth"] = lag
        elif offset >= (1 - TENTH) * end:
            found[f"{kind}, last tenth"] = lag
    return found


def _stall(talk: Talk) -> float:
    """The longest time in which no word was shown, in source words."""
    moments = np.array([0.0, *talk.delays, talk.source_length])
    return float(np.max(np.diff(moments))) * talk.source_words / talk.source_length


def looped(words: Sequence[str]) -> float:
    """The share of words, in percent, that repeat.

    A word does if it repeats its own letters, or ends a run of LOOP words that was already there within the WITHIN words before.
    """
    last: dict[tuple[str, ...], int] = {}
    repeated = 0
    for place, word in enumerate(words):
        run = tuple(words[place - LOOP + 1 : place + 1])
        again = len(run) == LOOP and place - last.get(run, -WITHIN - 1) <= WITHIN
        repeated += again or _STUTTER.search(word) is not None
        last[run] = place
    return 100 * repeated / max(len(words), 1)


def _records(kind: type, path: str | os.PathLike[str], lines: Sequence[str]) -> list[Any]:
    """One of a kind from each line of a file."""
    try:
        return [read(kind, json.loads(line.rstrip(",")), "the record", others=True) for line in lines]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{path} was not written by 'bethink evaluate --longform' ({flaw(error)})") from None
