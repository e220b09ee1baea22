"""What happened: one Step per action and one Translation per sentence, printed, sent, logged, scored and plotted alike."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bethink.policy import READ, Action, Reason


@dataclass(frozen=True, slots=True)
class Step:
    """One action of a stream, with everything that explains it.

    A WRITE carries what was known when its token was decided on, one number for each of the `read` source tokens:
    - `degrees`: how far each was translated before this token, where the model has capsules;
    - `gain`: by how much this token raises that, where the policy looks at it (`pe` and `pe-flip`) and the source is still open.
    Both are empty for a READ, and for the end that is put to a translation which grows without bound.

    `text` is what the step adds to what people see: for a READ the source word whose first token was read, for a WRITE the
    target text that became final (whole words only, so often nothing).
    """

    action: Action
    token: int  # the id that was read or written
    read: int  # source tokens read, this action included
    heard: int  # source words of which at least one token was read
    written: int  # target tokens written, this action included
    deferred: int = 0  # how often the token had been looked at and put off
    confidence: float | None = None
    evidence: tuple[int, ...] = ()  # source positions (0-based tokens) that the token was seen to translate
    degrees: tuple[float, ...] = ()
    gain: tuple[float, ...] = ()
    sentence: int = 0
    text: str = ""
    at: float | None = None  # seconds since the start, where the caller has a clock
    waited: float | None = None  # seconds since the newest source word it knew was fed, where the caller has a clock
    stability: float | None = (
        None  # of a WRITE, if the model has a judge: how likely more source would not have changed it
    )
    reason: Reason = READ.reason  # why the policy, or the end of the source, led to this action

    def with_text(self, text: str) -> Step:
        return dataclasses.replace(self, text=text) if text else self

    def with_sentence(self, sentence: int) -> Step:
        return dataclasses.replace(self, sentence=sentence) if sentence else self

    def to_dict(self) -> dict[str, Any]:
        """For JSON: empty fields left out, numbers rounded to what can be read."""
        record = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        kept = {name: value for name, value in record.items() if value is not None and value != () and value != ""}
        for name in ("degrees", "gain"):
            if name in kept:
                kept[name] = [round(value, 4) for value in kept[name]]
        for name in ("confidence", "stability", "at", "waited"):
            if name in kept:
                kept[name] = round(kept[name], 6)
        kept["reason"] = self.reason.to_dict()
        return kept


@dataclass(frozen=True)
class Translation:
    """One sentence, finished: its source words, how each splits into tokens, and every step taken."""

    source: tuple[str, ...]  # the words
    pieces: tuple[int, ...]  # how many tokens each word has
    steps: tuple[Step, ...]

    @classmethod
    def of(cls, steps: Sequence[Step]) -> Translation:
        """From the steps of one sentence, which name every source word they read."""
        reads = [step for step in steps if step.action is Action.READ]
        source = tuple(step.text for step in reads if step.text)
        tokens = collections.Counter(step.heard for step in reads[:-1])  # the last is end-of-sentence
        return cls(source, tuple(tokens[word + 1] for word in range(len(source))), tuple(steps))

    @property
    def writes(self) -> list[Step]:
        """The WRITE steps, the closing end-of-sentence token included."""
        return [step for step in self.steps if step.action is Action.WRITE]

    @property
    def text(self) -> str:
        return "".join(step.text for step in self.writes).strip()

    @property
    def path(self) -> list[int]:
        """g(t): source tokens read when each target token was written, both ends counting end-of-sentence."""
        return [step.read for step in self.writes]

    @property
    def delays(self) -> list[int]:
        """Source words heard when each target word became visible, as SimulEval counts."""
        heard: list[int] = []
        for step in self.writes:
            joins = heard and step.text and not step.text[0].isspace()  # punctuation that belongs to the word before
            heard += [step.heard] * (len(step.text.split()) - bool(joins))
        return heard

    @property
    def source_tokens(self) -> int:
        """Length of the source in model tokens, end-of-sentence included."""
        return sum(self.pieces) + 1


def deciding(steps: Sequence[Step]) -> Step:
    """Of the WRITEs of one word, the one whose reason speaks for the word.

    That is one with evidence, else the least sure of those written before the source was complete.
    """
    open_source = [step for step in steps if step.reason.code != "source_complete"]
    with_evidence = [step for step in steps if step.evidence]
    return min(with_evidence or open_source or steps, key=_sureness)


def _sureness(step: Step) -> float:
    return next((known for known in (step.stability, step.confidence) if known is not None), 1.0)


def shown(steps: Sequence[Step]) -> str:
    """The target text that a sequence of steps has put before the reader."""
    return "".join(step.text for step in steps if step.action is Action.WRITE)
