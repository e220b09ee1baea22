"""Turns the steps of a session into what a client is told: numbered, by source word, timed, with how to go on after a break."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bethink.evaluate import latency
from bethink.policy import Action
from bethink.serve.ledger import Arrival, Ledger
from bethink.serve.protocol import LEAST_GAIN, LiveStep, Mark, Message, checked
from bethink.text import EOS
from bethink.trace import Step, Translation

EDGES = (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 2000, 5000, 10_000, 60_000)


class Lags:
    """How late words were, in milliseconds, in little memory however many there are."""

    def __init__(self) -> None:
        self._counts = [0] * (len(EDGES) + 1)
        self._sum = self._most = 0

    def add(self, lag: int) -> None:
        self._counts[bisect.bisect_left(EDGES, lag)] += 1
        self._sum += lag
        self._most = max(self._most, lag)

    def to_message(self) -> Message:
        total = sum(self._counts)
        if not total:
            return {}
        mean = round(self._sum / total, 1)
        return {"mean": mean, "p50": self._quantile(0.5), "p95": self._quantile(0.95), "max": self._most}

    def _quantile(self, share: float) -> int:
        """The upper edge of the bin it falls into, or the largest of all where that is less."""
        rank, seen = share * sum(self._counts), 0
        for edge, count in zip(EDGES, self._counts, strict=False):
            seen += count
            if seen >= rank:
                return min(edge, self._most)
        return self._most


class Summary:
    """What `final` says: counts and means over the sentences of one connection."""

    def __init__(self) -> None:
        self.words = self.written = 0
        self.lags = Lags()
        self._sentences = 0
        self._sums: dict[str, float] = {}

    def add(self, words: int, written: int, scores: Mapping[str, float]) -> None:
        self.words += words
        self.written += written
        if scores:
            self._sentences += 1
            self._sums = {name: self._sums.get(name, 0.0) + value for name, value in scores.items()}

    def latency(self) -> dict[str, float]:
        return {name: round(value / self._sentences, 3) for name, value in self._sums.items()}


class Teller:
    """Follows one session. `mark` is where the next sentence can be begun anew, by whoever has seen all before it."""

    def __init__(self, ledger: Ledger, mark: Mark, began: float) -> None:
        self.mark = mark
        self.step = mark.step  # the number of the next step
        self.summary = Summary()
        self._ledger = ledger
        self._began = began
        self._first = mark.sentence
        self._spoken = mark.spoken
        self._spaced = not mark.spoken  # a fresh session does not know that text stands before its first
        self._begin()

    def _begin(self) -> None:
        self._steps: list[Step] = []
        self._word_of: list[int] = []  # of each source token read; the end is one past the last word
        self._newest = Arrival(self._began, 0)
        self._check = 0
        self._before: Step | None = None  # the last WRITE

    def tell(self, step: Step, now: float) -> LiveStep:
        step = self._space(step)
        self._steps.append(step)
        self._check = checked(self._check, step.action, step.token, step.read)
        reads = step.action is Action.READ
        if reads:
            self._listen(step)
        lag = round(1000 * (now - self._newest.at))
        if step.text and not reads:
            self.summary.lags.add(lag)
        self.step += 1
        return LiveStep(
            n=self.step - 1,
            sentence=self._first + step.sentence,
            action=step.action,
            text=step.text,
            token=step.token,
            read=step.read,
            heard=step.heard,
            written=step.written,
            end=step.token == EOS,
            deferred=step.deferred,
            offset=self._newest.offset if reads else None,
            confidence=None if step.confidence is None else round(step.confidence, 4),
            stability=None if step.stability is None else round(step.stability, 4),
            gain=self._by_word(step.gain),
            evidence=tuple(sorted({self._word_of[position] for position in step.evidence})),
            settled=self._settled(step),
            at=round(1000 * (now - self._began)),
            lag=lag,
            check=f"{self._check:08x}",
            reason=step.reason.to_dict(),
        )

    def close_sentence(self) -> Message:
        """After its last step: the sentence in numbers, and a newer mark where there is an exact one."""
        entry, told = self._ledger.settle(self._steps[-1].sentence), Translation.of(self._steps)
        delays, words = told.delays, len(told.source)
        scores = _scores(delays, words) if delays and words else {}
        self.summary.add(words, len(delays), scores)
        number = self._first + self._steps[-1].sentence
        if entry.restart is not None:
            self.mark = replace(
                self.mark,
                policy=str(entry.policy),
                sentence=number + 1,
                step=self.step,
                offset=entry.restart,
                spoken=self._spoken,
            )
        self._begin()
        rounded = {name: round(value, 3) for name, value in scores.items()}
        message: Message = {"type": "sentence", "sentence": number, "words": words, "written": len(delays)}
        return message | ({"latency": rounded} if rounded else {}) | {"resume": self.mark.to_message()}

    def final(self, now: float) -> Message:
        summary = self.summary
        return {
            "type": "final",
            "steps": self.step,
            "sentences": self._first + self._ledger.begun,
            "words": summary.words,
            "written": summary.written,
            "seconds": round(now - self._began, 3),
            "latency": summary.latency(),
            "lag": summary.lags.to_message(),
        }

    def _space(self, step: Step) -> Step:
        if step.action is Action.WRITE and step.text:
            self._spoken = True
            if not self._spaced:
                self._spaced = True
                return step.with_text(" " + step.text)
        return step

    def _listen(self, step: Step) -> None:
        entry = self._ledger.entries[step.sentence]
        if step.token == EOS:
            assert entry.end is not None, "the ledger knows of an end before the session does"
            self._newest = entry.end
            self._word_of.append(step.heard)
        else:
            self._newest = entry.words[step.heard - 1]
            self._word_of.append(step.heard - 1)

    def _settled(self, step: Step) -> tuple[tuple[int, float], ...]:
        """What the word before turned out to translate, where nothing looked ahead when it was written."""
        if step.action is Action.READ:
            return ()
        before, self._before = self._before, step
        if before is None or before.gain:
            return ()
        return self._by_word([after - earlier for earlier, after in zip(before.degrees, step.degrees, strict=False)])

    def _by_word(self, gains: Sequence[float]) -> tuple[tuple[int, float], ...]:
        best: dict[int, float] = {}
        for position, gain in enumerate(gains):
            if gain >= LEAST_GAIN:
                word = self._word_of[position]
                best[word] = max(best.get(word, 0.0), gain)
        return tuple((word, round(gain, 4)) for word, gain in sorted(best.items()))


def _scores(delays: list[int], words: int) -> dict[str, float]:
    """In source words, against the length of the translation itself: there is no reference."""
    return {
        "AL": latency.average_lagging(delays, words, len(delays)),
        "AP": latency.average_proportion(delays, words, len(delays)),
        "DAL": latency.differentiable(delays, words),
        "CW": latency.consecutive_wait(delays, words),
    }
