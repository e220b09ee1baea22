"""The live protocol, version 2 (docs/protocol.md): its messages as plain data, read strictly.

Pure: no socket, no clock, nothing to install. The server and `bethink.client` both use it.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

from bethink.errors import BethinkError
from bethink.trace import ResumePoint, Step

VERSION = 2
PATH = "/v1/stream"
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
NO_RETRY = frozenset({1007, 1009, 4400, 4401, 4404, 4409, 4413})  # after these the same attempt can only fail again

Message: TypeAlias = dict[str, Any]


class Refusal(BethinkError):
    """Something the server will not do: a code for programs, a sentence for people."""

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
class Resume:
    """Where to begin again, and how much from there on has been seen."""

    model: str  # with a fingerprint of its files
    point: ResumePoint
    seen: int
    check: str = ""


@dataclass(frozen=True, slots=True)
class Start:
    model: str = ""
    policy: str = ""
    token: str = field(default="", repr=False)
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
    """A client's message; raises a Refusal if it is not one of this protocol."""
    try:
        parsed = json.loads(frame)
    except (ValueError, RecursionError):
        raise Refusal("invalid", "a frame is not JSON, but every frame must be one JSON object") from None
    got = _Fields(parsed, "the message")
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
    resume = None if got.value("resume") is None else _resume(got.value("resume"))
    return Start(got.text("model", ""), got.text("policy", ""), got.text("token", ""), resume)


def _resume(message: object) -> Resume:
    got = _Fields(message, "resume")
    sentence, step, offset = (got.whole(name) for name in ("sentence", "step", "offset"))
    point = ResumePoint(got.text("policy"), sentence, step, offset, got.flag("spoken"))
    seen = got.whole("seen")
    if seen < point.step:
        raise Refusal("invalid", f"resume.seen is {seen}, but resume.step is {point.step}, which cannot be later")
    return Resume(got.text("model"), point, seen, got.text("check", ""))


def resume_message(model: str, point: ResumePoint) -> Message:
    return {"model": model} | asdict(point)


def step_message(step: Step, check: int) -> Message:
    return {"type": "step"} | step.to_dict() | {"check": f"{check:08x}"}


def checked(check: int, step: Step) -> int:
    """The checksum of a sentence's steps, one step further."""
    return zlib.crc32(f"{step.action[0]}{step.token},{step.read};".encode(), check)


_ENCODE, _ESCAPE = (json.JSONEncoder(ensure_ascii=escape, separators=(",", ":")).encode for escape in (False, True))


def dumps(message: Message) -> str:
    """One line of JSON; letters stay letters, but half a surrogate pair is escaped, for UTF-8 cannot say it."""
    text = _ENCODE(message)
    try:
        text.encode()
    except UnicodeEncodeError:
        return _ESCAPE(message)
    return text


class _Fields:
    """A JSON object whose fields must have the right type."""

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
