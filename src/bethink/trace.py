"""What happened: one Step per action and one Translation per sentence, printed, sent, logged, scored and plotted alike."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bethink.policy import READ, Action, Reason

DOUBTFUL = 0.98  # stability below which words are marked for people


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """A place between two sentences of a text: a session that begins here takes the same steps as one that began earlier."""

    policy: str  # in force here
    sentence: int = 0  # the number of the next sentence
    step: int = 0  # the number of the next step
    offset: int = 0  # in the text, UTF-16 code units
    spoken: bool = False  # whether the translation has text before this place


@dataclass(frozen=True, slots=True)
class Step:
    """One action of a stream, with everything that explains it.

    A WRITE carries what was known when its token was decided on, one number for each of the `read` source tokens:
    - `degrees`: how far each was translated before this token, where the model has capsules;
    - `gain`: by how much this token raises that, where the policy looks at it (`pe` and `pe-flip`) and the source is still open;
    - `attention`: how much the decoder looked at each, where the model has no capsules. It often points at the words translated, but
      nothing taught it to.
    All are empty for a READ, and for the end that is put to a translation which grows without bound.

    `text` is what the step adds to what people see: for a READ the source word whose first token was read, for a WRITE the
    target text that became final (whole words only, so often nothing).

    The last fields are set by a `Session`, which knows the text and the time. Two steps are equal whatever they say.
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
    attention: tuple[float, ...] = ()
    sentence: int = 0
    text: str = ""
    stability: float | None = None  # of a WRITE, if the model has a judge: how likely it is still right in the end
    text_stability: float | None = None  # of a WRITE: that of `text`, if any of it came before the source was complete
    reason: Reason = READ.reason  # why the policy, or the end of the source, led to this action
    complete: bool = False  # of a WRITE: whether its word is complete, where the vocabulary does not say so by itself
    read_as: str | None = None  # of a READ: what the model reads in place of the word, if that is something else
    copied: str | None = None  # of a READ: what is shown for a word carried over; of a WRITE: such words in its text
    term: bool = False  # whether what is carried over is the translation of a term in the glossary
    notice: str | None = None  # of a READ: `number` or `name`, where the word looks like one
    correction: str | None = None  # of the last WRITE of a sentence: what puts right a meaning that was written wrongly
    end: bool = False  # whether the source sentence ends with this READ, its translation with this WRITE
    put_off: tuple[int, ...] = field(default=(), compare=False)  # of a READ: ids of the word that was put off last
    tail: str | None = field(default=None, compare=False)  # of a READ, if asked for: the text that would have come next
    n: int | None = field(default=None, compare=False)  # number of the step in its session, from 0
    offset: int | None = field(default=None, compare=False)  # of a READ: how far the text was read, UTF-16 code units
    at: int | None = field(default=None, compare=False)  # milliseconds since the session began
    lag: int | None = field(default=None, compare=False)  # milliseconds since the newest source word read had arrived
    resume: ResumePoint | None = field(default=None, compare=False)  # at the end of a sentence, if one can begin here

    def to_dict(self) -> dict[str, Any]:
        """For JSON, in `bethink translate --json` and on the socket: fields that say nothing are left out, except `text`."""
        record: dict[str, Any] = {}
        for name in _JSON_FIELDS:
            value = getattr(self, name)
            if value is None or value is False or value == ():
                continue
            if digits := _DIGITS.get(name):
                value = [round(each, digits) for each in value] if isinstance(value, tuple) else round(value, digits)
            record[name] = value
        return record | {"reason": self.reason.to_dict()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Step:
        """A step that was made JSON; fields that are not known are ignored."""
        values = {name: record[name] for name in _JSON_FIELDS if name in record and name != "action"}
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        return cls(**values, action=Action(record["action"]), reason=Reason(**record.get("reason", {})))


_JSON_FIELDS = tuple(each.name for each in dataclasses.fields(Step) if each.name not in ("reason", "resume", "put_off"))
_DIGITS = {"degrees": 4, "gain": 4, "attention": 3, "confidence": 4, "stability": 4, "text_stability": 4}


@dataclass(frozen=True, slots=True)
class Tail:
    """What the model would write next, after the text of this sentence: shown in grey, replaced freely, kept nowhere."""

    sentence: int
    text: str  # with the space before it; empty if nothing was looked at


def units(text: str) -> int:
    """The length of a text in UTF-16 code units, in which offsets are counted: the same however the text is cut."""
    return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)


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
            heard += [step.heard] * words_begun(step.text, first=not heard)
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

    def sure(step: Step) -> float:
        return next((known for known in (step.stability, step.confidence) if known is not None), 1.0)

    return min(with_evidence or open_source or steps, key=sure)


def words_begun(text: str, *, first: bool) -> int:
    """How many words begin with this piece of what is shown; without white space before it, it continues the word before."""
    joins = not first and text and not text[0].isspace()  # such as punctuation
    return len(text.split()) - bool(joins)


def doubtful(stability: float | None) -> bool:
    """Whether words with this stability are marked: they were shown early, and more source may well have changed them."""
    return stability is not None and stability < DOUBTFUL


def shown(steps: Sequence[Step], *, corrections: bool = False) -> str:
    """The target text that a sequence of steps has put before the reader."""
    text = ""
    for step in steps:
        if step.action is Action.WRITE:
            text += step.text
            text += correction_text(step.correction) if corrections and step.correction else ""
    return text


def sureness(steps: Sequence[Step]) -> float:
    """The geometric mean of the probabilities of the tokens written."""
    known = [step.confidence for step in steps if step.confidence]
    return math.exp(math.fsum(map(math.log, known)) / len(known)) if known else 0.0


def correction_text(correction: str) -> str:
    """A correction in plain text, as it follows its sentence."""
    return f" — correction: {correction}"
