"""`bethink translate`: text in, translation out, each word as soon as it is final."""

from __future__ import annotations

import argparse
import codecs
import dataclasses
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bethink.cli.common import Verbs, above_zero, add_model, add_policy, open_translator, verb
from bethink.errors import DataError
from bethink.files import conversion
from bethink.policy import Action

if TYPE_CHECKING:
    from bethink.policy import Policy
    from bethink.trace import Step
    from bethink.translator import Translator

CHUNK = 1 << 16
PARTS = re.compile(r"\n|[^\n]+")  # lines and their ends
SPOKEN = re.compile(r"\n|\S+[^\S\n]*|[^\S\n]+")  # the same, word by word


def add(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "translate",
        "translate text as it comes in",
        "Translates a file or what comes in on standard input while it is coming in: each target word is printed as soon as it is "
        "final and is never taken back. A line is a text of its own: its end completes the sentence and the translation. "
        "Standard output carries the translation and nothing else, unless --json or --watch ask for more.",
        (
            "speech.txt",
            "--watch --rate 150 speech.txt        # see it decide, at a speaker's pace",
            "--policy wait-k:k=5 --json < speech.txt | jq .text",
        ),
        run,
    )
    made.add_argument("file", nargs="?", metavar="FILE", help="the text to translate, UTF-8 (default: standard input)")
    add_model(made)
    add_policy(made)
    form = made.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print every READ and WRITE as one JSON object per line")
    form.add_argument(
        "--watch", action="store_true", help="for people: show what was heard, what was written, and why then"
    )
    made.add_argument(
        "--rate", type=above_zero, metavar="WPM", help="let the words arrive at this many words per minute"
    )


class Show(Protocol):
    """A way to put steps before the reader."""

    def step(self, step: Step) -> None: ...

    def end_line(self) -> None: ...


class Plain:
    """The translation and nothing else."""

    def step(self, step: Step) -> None:
        if step.action is Action.WRITE and step.text:
            print(step.text, end="", flush=True)

    def end_line(self) -> None:
        print(flush=True)


class Json:
    """Every step as a line of JSON, stamped with the seconds since the start."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def step(self, step: Step) -> None:
        stamped = dataclasses.replace(step, at=time.monotonic() - self._start)
        print(json.dumps(stamped.to_dict(), ensure_ascii=False), flush=True)

    def end_line(self) -> None:
        """A sentence's number says where it ends."""


def run(args: argparse.Namespace) -> int:
    with _source(args.file) as file:
        speaker = Speaker(open_translator(args), args.policy)
        with _show(args, speaker) as show:
            for part in _parts(file, args.rate, _called(args.file)):
                for step in speaker.finish() if part == "\n" else speaker.say(part):
                    show.step(step)
                if part == "\n":
                    show.end_line()
    return 0


class Speaker:
    """A session whose steps come out while the engine is still at work on the rest, with a watch on the time it takes."""

    def __init__(self, translator: Translator, policy: Policy | None) -> None:
        from bethink.engine import Engine

        self.translator = translator
        self.engine = Engine(translator.backend)
        self.computing = 0.0  # seconds
        self._session = translator.session(policy, engine=self.engine)

    @property
    def policy(self) -> Policy:
        return self._session.policy

    def say(self, text: str) -> Iterator[Step]:
        self._session.push(text)
        return self._work()

    def finish(self) -> Iterator[Step]:
        self._session.close()
        return self._work()

    def _work(self) -> Iterator[Step]:
        moving = True
        while moving:
            began = time.perf_counter()
            moving = self.engine.round()
            steps = self._session.collect()
            self.computing += time.perf_counter() - began
            yield from steps
            moving = moving or bool(steps)


@contextmanager
def _show(args: argparse.Namespace, speaker: Speaker) -> Iterator[Show]:
    if args.watch:
        from bethink.cli.watch import watching

        with watching(speaker) as show:
            yield show
    else:
        yield Json() if args.json else Plain()


@contextmanager
def _source(name: str | None) -> Iterator[int]:
    """A file descriptor to read from."""
    if name is not None and name != "-":
        with Path(name).open("rb", buffering=0) as file:
            yield file.fileno()
        return
    if sys.stdin is None:
        raise DataError("there is no standard input to read from; name a file, as in: bethink translate speech.txt")
    if sys.stdin.isatty():
        print("bethink: type a text; Enter completes a sentence, Ctrl-D ends", file=sys.stderr)
    yield sys.stdin.fileno()


def _called(name: str | None) -> str:
    return "standard input" if name in (None, "-") else str(name)


def _parts(file: int, rate: float | None, name: str) -> Iterator[str]:
    """The text as it arrives, line ends apart and the last one added where it is missing; at `rate`, word by word."""
    due, part = 0.0, "\n"
    for text in _arriving(file, name):
        due = max(due, time.monotonic())
        for part in (SPOKEN if rate else PARTS).findall(text):
            if rate and not part.isspace():
                due += 60 / rate
                time.sleep(max(0.0, due - time.monotonic()))
            yield part
    if part != "\n":
        yield "\n"


def _arriving(file: int, name: str) -> Iterator[str]:
    """Text as soon as its bytes are there, even in the middle of a line."""
    decoder = Decoder(name)
    while data := os.read(file, CHUNK):
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True)


class Decoder:
    """UTF-8 as it arrives. A stream must not die of bytes that are something else, but the first of them are told of."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._line = 1
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()

    def decode(self, data: bytes, *, final: bool = False) -> str:
        state = self._decoder.getstate()
        try:
            text = self._decoder.decode(data, final)
        except UnicodeDecodeError as error:
            self._tell(error)
            self._decoder.setstate(state)
            self._decoder.errors = "replace"
            text = self._decoder.decode(data, final)
        self._line += data.count(b"\n")
        return text

    def _tell(self, error: UnicodeDecodeError) -> None:
        line, byte = self._line + error.object[: error.start].count(b"\n"), error.object[error.start]
        print(
            f"bethink: {self._name}, line {line} is not UTF-8 (it has a byte 0x{byte:02x}), so its translation cannot be trusted; "
            + conversion(byte),
            file=sys.stderr,
        )
