"""The delay that a reader experiences: a simulated speaker of a given pace, one stream, and real computing time.

A text is spoken word by word. Each word is available when its last letter is spoken, and computing it starts when the work on
earlier words is done. Two delays are measured for every target word shown: the time since the last word it was based on
(`response`, what computing costs), and the time since the source word at the same relative position of the sentence (`lag`, how far
the reader is behind the speaker, waiting included).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bethink.analysis.sheet import Sheet, number, percent
from bethink.errors import DataError
from bethink.evaluate import latency
from bethink.policy import Action, Policy
from bethink.trace import Step

if TYPE_CHECKING:
    from bethink.translator import Translator

QUANTILES = (50, 95, 99)


@dataclass(frozen=True)
class Felt:
    """One policy; milliseconds at each of the quantiles."""

    policy: str
    words: int  # shown
    response: tuple[float, ...]
    lag: tuple[float, ...]
    load: float  # share of the speaking time spent computing
    samples: tuple[float, ...] = ()  # the lag at each percentile, for drawing


@dataclass(frozen=True)
class Lags:
    model: str
    wpm: float
    sentences: int
    felt: tuple[Felt, ...]


@dataclass(frozen=True)
class Said:
    """Source words and shown steps, each with its time in milliseconds."""

    spoken: list[float]  # when each source word was complete
    shown: list[tuple[Step, float]]
    computing: float


def lags(translator: Translator, lines: Sequence[str], policies: Sequence[Policy], wpm: float = 150.0) -> Lags:
    words = [word for line in lines for word in f"{line}\n".split(" ") if word.strip()]
    if not words:
        raise DataError("there is nothing to say; give a source file with at least one word")
    listen(translator, words[:20], policies[0], wpm)  # warm-up: the first use of a model allocates memory
    felt = tuple(_felt(listen(translator, words, policy, wpm), policy) for policy in policies)
    return Lags(translator.name, wpm, len(lines), felt)


def listen(translator: Translator, words: Sequence[str], policy: Policy, wpm: float) -> Said:
    """Feed a text word by word; a sentence ends at its punctuation or at the end of its line."""
    session = translator.session(policy)
    answers: list[list[Step]] = []
    computing: list[float] = []
    for word in [*words, None]:
        start = time.perf_counter()
        answers.append(session.finish() if word is None else session.feed(word if word.endswith("\n") else f"{word} "))
        computing.append((time.perf_counter() - start) * 1000)
    spoken = [60_000 / wpm * n for n in range(1, len(words) + 1)]
    ends = latency.schedule([*spoken, spoken[-1]], computing)
    shown = [(step, end) for answer, end in zip(answers, ends, strict=True) for step in answer]
    return Said(spoken, shown, sum(computing))


def _felt(said: Said, policy: Policy) -> Felt:
    response: list[float] = []
    lag: list[float] = []
    begin = 0
    for _, group in itertools.groupby(said.shown, key=lambda one: one[0].sentence):
        steps = list(group)
        heard = sum(step.action is Action.READ and bool(step.text) for step, _ in steps)
        times = said.spoken[begin : begin + heard]
        begin += heard
        words = [(step.heard, end) for step, end in steps if step.action is Action.WRITE for _ in _new(step)]
        for n, (known, end) in enumerate(words):
            if times:
                response.append(end - times[min(known, len(times)) - 1])
                lag.append(end - times[min(n * len(times) // len(words), len(times) - 1)])
    if not lag:
        raise DataError(f"policy {policy} showed no word, so there is no delay to measure")
    at = [tuple(np.percentile(values, QUANTILES).tolist()) for values in (response, lag)]
    samples = tuple(np.percentile(lag, range(101)).tolist())
    return Felt(str(policy), len(lag), at[0], at[1], said.computing / said.spoken[-1], samples)


def _new(step: Step) -> list[str]:
    """The words that a step shows, without punctuation that belongs to the word before."""
    words = step.text.split()
    return words[1:] if words and step.written > 1 and not step.text[0].isspace() else words


def sheets(found: Lags) -> list[Sheet]:
    names = [f"{kind} p{q} (ms)" for kind in ("lag", "response") for q in QUANTILES]
    rows = [
        (one.policy, *(number(value, 0) for value in one.lag + one.response), percent(one.load), str(one.words))
        for one in found.felt
    ]
    note = (
        f"{found.model}: {found.sentences} sentences at {found.wpm:g} words per minute on this machine. Lag: from the word at the same "
        "place of the sentence; response: from the last word heard. Load: share of the speaking time spent computing."
    )
    return [Sheet("What the reader feels", ("policy", *names, "load", "words"), rows, note)]
