"""The socket protocol, version 2 (docs/protocol.md): its messages as plain data, and strict parsing.

No socket, no clock, no dependencies. The server and `bethink.client` both use it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias, TypeVar

from bethink.errors import BethinkError
from bethink.trace import ResumePoint, Step, Tail

VERSION = 2
PATH = "/v1/stream"
ROOM_PATH = "/v1/rooms/{name}/stream"  # the same for the speaker of a room: a proxy can send it where the room is
LARGEST = 2**53  # the largest whole number that every JSON parser reads exactly

CODES = {  # code of an error → close code of the socket, HTTP status
    "size": (1009, 413),
    "internal": (1011, 500),
    "draining": (1012, 503),
    "invalid": (4400, 422),
    "version": (4400, 422),
    "policy": (4400, 422),
    "unauthorized": (4401, 401),
    "origin": (4403, 403),
    "model": (4404, 404),
    "not_found": (4404, 404),
    "room": (4404, 404),
    "replaced": (4400, 409),
    "taken": (4400, 409),
    "idle": (4408, 408),
    "changed": (4409, 409),
    "diverged": (4409, 409),
    "text": (4413, 413),
    "rate": (4429, 429),
    "slow": (4430, 422),
    "full": (4503, 503),
}
NO_RETRY = frozenset({1007, 1009, 4400, 4401, 4404, 4409, 4413})  # close codes after which trying again cannot succeed

Message: TypeAlias = dict[str, Any]
Value = TypeVar("Value", str, int, bool)


class Refusal(BethinkError):
    """An error that the server sends: a code for programs, a sentence for people."""

    def __init__(self, code: str, message: str, *, fatal: bool = True) -> None:
        super().__init__(message)
        self.code = code
        self.fatal = fatal
        self.close, self.status = CODES.get(code, (1011, 422))

    def to_message(self) -> Message:
        return {"type": "error", "code": self.code, "message": str(self), "fatal": self.fatal}


@dataclass(frozen=True, slots=True)
class Resume:
    """Where to continue, and how many steps the client has seen."""

    model: str  # with a fingerprint of its files
    point: ResumePoint
    seen: int
    check: str = ""
    session: str = ""  # the session that got this resume point
    mark: str = ""  # the server's signature

    def to_message(self) -> Message:
        """The resume point as the server sent it."""
        return resume_message(self.model, self.point) | {"session": self.session, "mark": self.mark}


@dataclass(frozen=True, slots=True)
class Start:
    model: str = ""
    policy: str = ""
    token: str = field(default="", repr=False)
    resume: Resume | None = None
    room: str = field(default="", repr=False)  # a speaker's key
    glossary: Mapping[str, str] | None = field(default=None, repr=False)  # terms and how to write them
    tail: bool = False  # whether the client wants to know what may come next


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """Another policy from the next sentence on."""

    policy: str


@dataclass(frozen=True, slots=True)
class End:
    pass


Request: TypeAlias = Start | Text | Change | End


def read_request(frame: str) -> Request:
    """Parse a client's message; raises a Refusal if it does not follow the protocol."""
    try:
        got = json.loads(frame)
    except (ValueError, RecursionError):
        raise Refusal("invalid", "every frame must be one JSON object; this one is not JSON") from None
    kind = _field(got, "type", str)
    if kind == "text":
        return Text(_field(got, "text", str))
    if kind == "start":
        if (version := _field(got, "version", int)) != VERSION:
            raise Refusal("version", f"this server speaks version {VERSION} of the protocol, not {version}")
        resume = None if got.get("resume") is None else _resume(got["resume"])
        model, policy, token, room = (_field(got, name, str, "") for name in ("model", "policy", "token", "room"))
        glossary = got.get("glossary")
        texts = isinstance(glossary, dict) and all(isinstance(each, str) for each in glossary.values())
        if not (glossary is None or texts):
            raise Refusal("invalid", "the field 'glossary' must be an object of texts, a term and its translation each")
        return Start(model, policy, token, resume, room, glossary, _field(got, "tail", bool, False))
    if kind == "policy":
        return Change(_field(got, "policy", str))
    if kind == "end":
        return End()
    raise Refusal("invalid", f"no message has the type '{kind[:40]}'; there are start, text, policy and end")


def _resume(got: object) -> Resume:
    sentence, step, offset, seen = (_field(got, name, int) for name in ("sentence", "step", "offset", "seen"))
    if seen < step:
        raise Refusal("invalid", f"resume.seen is {seen}, but must be at least resume.step, which is {step}")
    point = ResumePoint(_field(got, "policy", str), sentence, step, offset, _field(got, "spoken", bool, False))
    check, session, mark = (_field(got, name, str, "") for name in ("check", "session", "mark"))
    return Resume(_field(got, "model", str), point, seen, check, session, mark)


def _field(message: object, name: str, kind: type[Value], default: Value | None = None) -> Value:
    """A field of a JSON object, checked: a text, a flag, or a whole number of at least 0."""
    if not isinstance(message, dict):
        raise Refusal("invalid", "a message and its 'resume' must be JSON objects")
    value = default if message.get(name) is None else message[name]
    if type(value) is not kind or (kind is int and not 0 <= value <= LARGEST):
        what = {str: "a text", bool: "true or false", int: "a whole number of at least 0"}[kind]
        raise Refusal("invalid", f"the field '{name}' must be {what}")
    return value


def resume_message(model: str, point: ResumePoint) -> Message:
    return {"model": model} | asdict(point)


def step_message(step: Step, check: int) -> Message:
    return {"type": "step"} | step.to_dict() | {"check": f"{check:08x}"}


def tail_message(tail: Tail) -> Message:
    return {"type": "tail", "sentence": tail.sentence, "text": tail.text}


def checked(check: int, step: Step) -> int:
    """The checksum of a sentence's steps, after one more step."""
    return zlib.crc32(f"{step.action[0]}{step.token},{step.read};".encode(), check)


_ENCODE, _ESCAPE = (json.JSONEncoder(ensure_ascii=escape, separators=(",", ":")).encode for escape in (False, True))


def dumps(message: Message) -> str:
    """One line of JSON in UTF-8; escaped if it holds half a surrogate pair, which UTF-8 cannot express."""
    text = _ENCODE(message)
    try:
        text.encode()
    except UnicodeEncodeError:
        return _ESCAPE(message)
    return text
