"""The live protocol, version 1 (docs/protocol.md): its messages as plain data, read strictly and written without a word too many.

Pure: no socket, no clock, nothing to install. The server and `bethink.client` both stand on it.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from dataclasses import dataclass
from typing import Any, TypeAlias

from bethink.errors import BethinkError
from bethink.policy import Action
from bethink.trace import Step

VERSION = 1
PATH = "/v1/stream"
LEAST_GAIN = 0.01  # smaller rises of the degree say nothing and are not sent
LARGEST = 2**53  # the largest whole number that every JSON reader knows exactly

CLOSE = {  # the close code of the socket for each code of an error
    "size": 1009,
    "internal": 1011,
    "draining": 1012,
    "invalid": 4400,
    "version": 4400,
    "policy": 4400,
    "unauthorized": 4401,
    "model": 4404,
    "idle": 4408,
    "changed": 4409,
    "diverged": 4409,
    "text": 4413,
    "rate": 4429,
    "slow": 4430,
    "full": 4503,
}
# After these the same attempt can only fail again.
HOPELESS = frozenset({1007, 1009, 4400, 4401, 4404, 4409, 4413})

Message: TypeAlias = dict[str, Any]


class Refusal(BethinkError):
    """Something the server will not do: a word for programs, a sentence for people."""

    def __init__(self, code: str, message: str, *, fatal: bool = True) -> None:
        super().__init__(message)
        self.code = code
        self.fatal = fatal

    @property
    def close(self) -> int:
        return CLOSE.get(self.code, 1011)

    def to_message(self) -> Message:
        return {"type": "error", "code": self.code, "message": str(self), "fatal": self.fatal}


@dataclass(frozen=True, slots=True)
class Mark:
    """A place between two sentences from which the rest follows exactly: what the server calls `resume`."""

    model: str  # with a fingerprint of its files
    policy: str
    sentence: int = 0
    step: int = 0
    offset: int = 0  # in the client's text, UTF-16 code units
    spoken: bool = False  # whether the translation has text before this place

    def to_message(self) -> Message:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    def of(cls, message: object) -> Mark:
        got = _Fields(message, "resume")
        return cls(
            model=got.text("model"),
            policy=got.text("policy"),
            sentence=got.whole("sentence"),
            step=got.whole("step"),
            offset=got.whole("offset"),
            spoken=got.flag("spoken"),
        )


@dataclass(frozen=True, slots=True)
class Resume:
    """Where to begin again, and how much from there on has been seen."""

    mark: Mark
    seen: int
    check: str | None = None

    @classmethod
    def of(cls, message: object) -> Resume:
        got, mark = _Fields(message, "resume"), Mark.of(message)
        seen = got.whole("seen")
        if seen < mark.step:
            raise Refusal("invalid", f"resume.seen is {seen}, but resume.step is {mark.step}, which cannot be later")
        return cls(mark, seen, got.text("check", ""))


@dataclass(frozen=True, slots=True)
class Start:
    model: str = ""
    policy: str = ""
    token: str = dataclasses.field(default="", repr=False)
    resume: Resume | None = None


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """From the next sentence on, another policy."""

    policy: str


@dataclass(frozen=True, slots=True)
class End:
    pass


Request: TypeAlias = Start | Text | Change | End


def read_request(frame: str) -> Request:
    """What a client said; a Refusal if it is not a message of this protocol."""
    got = _Fields(_parsed(frame), "the message")
    kind = got.text("type")
    if kind == "text":
        return Text(got.text("text"))
    if kind == "start":
        return _start(got)
    if kind == "policy":
        return Change(got.text("policy"))
    if kind == "end":
        return End()
    raise Refusal("invalid", f"no message has the type '{kind[:40]}'; there are start, text, policy and end")


def _start(got: _Fields) -> Start:
    if (version := got.whole("version")) != VERSION:
        raise Refusal("version", f"this server speaks version {VERSION} of the protocol, not {version}")
    resume = None if got.value("resume") is None else Resume.of(got.value("resume"))
    return Start(got.text("model", ""), got.text("policy", ""), got.text("token", ""), resume)


@dataclass(frozen=True, slots=True)
class LiveStep:
    """One READ or WRITE as a client gets it: what `bethink.Step` says, told by source word, numbered and timed."""

    n: int
    sentence: int
    action: Action
    text: str
    token: int
    read: int
    heard: int
    written: int
    end: bool = False
    deferred: int = 0
    offset: int | None = None
    confidence: float | None = None
    stability: float | None = None
    gain: tuple[tuple[int, float], ...] = ()
    evidence: tuple[int, ...] = ()
    settled: tuple[tuple[int, float], ...] = ()
    at: int = 0  # milliseconds
    lag: int = 0  # milliseconds
    check: str = ""
    reason: dict[str, Any] = dataclasses.field(default_factory=dict)

    def to_message(self) -> Message:
        """Without the fields that say nothing."""
        message: Message = {"type": "step"}
        for name in _STEP_FIELDS:
            value = getattr(self, name)
            if (
                value
                or name in _ALWAYS
                or (value == 0 and name in ("offset", "confidence", "stability") and value is not None)
            ):
                message[name] = value
        return message

    def to_step(self) -> Step:
        """The step as the translator made it, less what was not sent."""
        return Step(
            self.action,
            self.token,
            self.read,
            self.heard,
            self.written,
            self.deferred,
            sentence=self.sentence,
            text=self.text,
        )

    @classmethod
    def of(cls, message: Message) -> LiveStep:
        values = {name: message[name] for name in _STEP_FIELDS if name in message}
        values["action"] = Action(values["action"])
        for name in ("gain", "settled"):
            values[name] = tuple((int(word), float(gain)) for word, gain in values.get(name, ()))
        values["evidence"] = tuple(values.get("evidence", ()))
        return cls(**values)


_STEP_FIELDS = tuple(field.name for field in dataclasses.fields(LiveStep))
_ALWAYS = frozenset({"n", "sentence", "action", "text", "token", "read", "heard", "written", "deferred", "at", "lag"})


_ENCODE, _ESCAPE = (json.JSONEncoder(ensure_ascii=escape, separators=(",", ":")).encode for escape in (False, True))


def dumps(message: Message) -> str:
    """One line of JSON; letters stay letters, but half a surrogate pair is escaped, for UTF-8 cannot say it."""
    text = _ENCODE(message)
    try:
        text.encode()
    except UnicodeEncodeError:
        return _ESCAPE(message)
    return text


def checked(check: int, action: Action, token: int, read: int) -> int:
    """The checksum of a sentence's steps, one step further."""
    return zlib.crc32(f"{action[0]}{token},{read};".encode(), check)


def units(text: str) -> int:
    """The length of a text in UTF-16 code units, the same however it is cut."""
    return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)


def cut(text: str, position: int) -> str:
    """The text from a position in UTF-16 code units on."""
    if text.isascii():
        return text[position:]
    raw = text.encode("utf-16-le", "surrogatepass")[2 * position :]
    return raw.decode("utf-16-le", "surrogatepass")


class _Fields:
    """A JSON object whose fields must have the right kind."""

    def __init__(self, message: object, name: str) -> None:
        if not isinstance(message, dict):
            raise Refusal("invalid", f"{name} is not a JSON object")
        self._values: dict[str, Any] = message

    def value(self, name: str) -> object:
        return self._values.get(name)

    def text(self, name: str, default: str | None = None) -> str:
        value = self._values.get(name)
        value = default if value is None else value
        if not isinstance(value, str):
            raise Refusal("invalid", f"the field '{name}' must be a text")
        return value

    def whole(self, name: str) -> int:
        value = self._values.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST:
            raise Refusal("invalid", f"the field '{name}' must be a whole number from 0 on")
        return value

    def flag(self, name: str) -> bool:
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise Refusal("invalid", f"the field '{name}' must be true or false")
        return value


def _parsed(frame: str) -> object:
    try:
        return json.loads(frame)
    except (ValueError, RecursionError):
        raise Refusal("invalid", "a frame is not JSON, but every frame must be one JSON object") from None
