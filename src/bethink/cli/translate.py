"""`bethink translate`: text in, translation out, each word as soon as it is final."""

from __future__ import annotations

import argparse
import codecs
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bethink.cli.common import Verbs, above_zero, add_glossary, add_model, add_policy, add_repair, open_translator, verb
from bethink.errors import DataError
from bethink.files import not_utf8
from bethink.trace import shown

if TYPE_CHECKING:
    from bethink.policy import Policy
    from bethink.trace import Step
    from bethink.translator import Translator

CHUNK = 1 << 16
HINT = "type a text; Enter completes a sentence, Ctrl-D ends"  # for somebody at a terminal
PARTS = re.compile(r"\n|[^\n]+")  # lines and line ends
SPOKEN = re.compile(r"\n|\S+[^\S\n]*|[^\S\n]+")  # words and line ends


FIELDS = {  # of --json, for --help
    "action": "READ: a source token was taken in; WRITE: a target token was committed",
    "token": "its id in the model's vocabulary",
    "text": "READ: the source word whose first token this is; WRITE: what to append to the translation, spaces included",
    "sentence": "number of the sentence, from 0",
    "read": "source tokens of the sentence read so far, this step and the sentence's end included",
    "heard": "source words of the sentence read so far",
    "written": "target tokens of the sentence written so far, this step included",
    "deferred": "how often the token had been looked at and put off",
    "read_as": "READ: what the model reads in place of the word, if that is something else",
    "copied": "READ: what will be shown for a word that is carried over, not translated; WRITE: such words in its text",
    "reason": "why: a code and, where a number decided, its value and the threshold (docs/protocol.md has the codes)",
    "confidence": "WRITE: the model's probability of the token",
    "complete": "WRITE, counting words: the word of this token is complete, though the vocabulary marks only where words begin",
    "stability": "WRITE: how likely the token is still right once the whole source is known, if the model has a judge",
    "text_stability": "WRITE: the least stability of the words in `text`, if they were begun before the source was complete",
    "degrees": "WRITE: how far each source token read was translated before this token, 0 to 1, if the model has capsules",
    "gain": "WRITE: by how much this token raised each of them, if the policy looked for it",
    "attention": "WRITE: how much the decoder looked at each source token read, if the model has no capsules",
    "evidence": "WRITE: the source tokens, counted from 0, whose gain made the policy write",
    "term": "true if what is carried over is the translation of a glossary term, else left out",
    "notice": "READ: number or name, where the word looks like one",
    "correction": "WRITE, with --repair: what puts right a meaning that was written wrongly, at the end of its sentence",
    "end": "true where the source sentence ends (READ) or its translation (WRITE), else left out",
    "n": "number of the step, from 0",
    "offset": "READ: how far the text was read, in UTF-16 code units",
    "at": "milliseconds since the start",
    "lag": "milliseconds since the newest source word read had arrived",
}


def add(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "translate",
        "translate text as it comes in",
        "Translates a file or what comes in on standard input while it is coming in: each target word is printed as soon as it is "
        "final and is never taken back. A line end completes the sentence and the translation. "
        "Standard output carries the translation and nothing else, unless --json or --watch is given.",
        (
            "speech.txt",
            "--watch --rate 150 speech.txt        # shows every decision, at the speed of a speaker",
            "--policy wait-k:k=5 --json < speech.txt | jq .text",
        ),
        run,
    )
    width = max(map(len, FIELDS)) + 2
    made.epilog = f"{made.epilog}\n\nfields of --json (those without a value are left out; times in milliseconds; see docs/protocol.md):\n"
    made.epilog += "\n".join(f"  {name:{width}}{what}" for name, what in FIELDS.items())
    made.add_argument("file", nargs="?", metavar="FILE", help="the text to translate, UTF-8 (default: standard input)")
    add_model(made)
    add_glossary(made)
    add_policy(made)
    add_repair(made)
    form = made.add_mutually_exclusive_group()
    form.add_argument(
        "--json",
        action="store_true",
        help="print every READ and WRITE as one JSON object per line; its fields are listed below",
    )
    form.add_argument("--watch", action="store_true", help="for people: show what was heard, what was written, and why")
    made.add_argument(
        "--rate", type=above_zero, metavar="WPM", help="let the words arrive at this many words per minute"
    )


def run(args: argparse.Namespace) -> int:
    with source(args.file, HINT) as file:
        speaker = Speaker(open_translator(args), args.policy)
        decoder = Decoder("standard input" if args.file in (None, "-") else args.file)
        with _show(args, speaker) as show:
            for part in _parts(arriving(file, decoder), args.rate):
                for step in speaker.finish() if part == "\n" else speaker.feed(part):
                    show(step)
                if part == "\n" and not (args.json or args.watch):
                    print(flush=True)
    return 1 if decoder.damaged else 0


@contextmanager
def _show(args: argparse.Namespace, speaker: Speaker) -> Iterator[Callable[[Step], None]]:
    """The function that prints a step in the chosen form."""
    if args.watch:
        from bethink.cli.watch import watching

        with watching(speaker) as watch:
            yield watch.step
    elif args.json:
        yield _print_json
    else:
        yield _print_text


def _print_json(step: Step) -> None:
    print(json.dumps(step.to_dict(), ensure_ascii=False), flush=True)


def _print_text(step: Step) -> None:
    if text := shown([step], corrections=True):
        print(text, end="", flush=True)


class Speaker:
    """A session that yields its steps after every round of the engine, and measures the time spent computing."""

    def __init__(self, translator: Translator, policy: Policy | None) -> None:
        from bethink.engine import Engine

        self.translator = translator
        self.engine = Engine(translator.backend)
        self.computing = 0.0  # seconds
        self._session = translator.session(policy, engine=self.engine)

    @property
    def policy(self) -> Policy:
        return self._session.policy

    def feed(self, text: str) -> Iterator[Step]:
        self._session.feed(text)
        return self._work()

    def finish(self) -> Iterator[Step]:
        self._session.finish()
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
def source(name: str | None, hint: str) -> Iterator[int]:
    """A file descriptor to read from; somebody who is about to type gets the hint."""
    if name is not None and name != "-":
        with Path(name).open("rb", buffering=0) as file:
            yield file.fileno()
        return
    if sys.stdin is None:
        raise DataError("there is no standard input to read from; name a file after the command")
    if sys.stdin.isatty():
        print(f"bethink: {hint}", file=sys.stderr)
    yield sys.stdin.fileno()


def _parts(texts: Iterator[str], rate: float | None) -> Iterator[str]:
    """The text as it arrives, split at line ends, with a line end at the end; with `rate`, word by word at that speed."""
    due, part = 0.0, "\n"
    for text in texts:
        due = max(due, time.monotonic())
        for part in (SPOKEN if rate else PARTS).findall(text):
            if rate and not part.isspace():
                due += 60 / rate
                time.sleep(max(0.0, due - time.monotonic()))
            yield part
    if part != "\n":
        yield "\n"


def arriving(file: int, decoder: Decoder) -> Iterator[str]:
    """Text as soon as its bytes arrive, even in the middle of a line."""
    while data := os.read(file, CHUNK):
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True)


class Decoder:
    """Decodes UTF-8 as it arrives. Invalid bytes are replaced, so that a stream goes on; the first one is reported at once.

    What begins with zero bytes is no text at all and is refused.
    """

    def __init__(self, name: str) -> None:
        self.damaged = False  # whether there were invalid bytes
        self._begun = False
        self._name = name
        self._line = 1
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()

    def decode(self, data: bytes, *, final: bool = False) -> str:
        if not self._begun and b"\0" in data:
            raise DataError(
                f"{self._name} is not UTF-8 text: it has zero bytes, like a program, a picture or UTF-16; "
                "convert UTF-16 first: iconv -f UTF-16 -t UTF-8"
            )
        self._begun = True
        state = self._decoder.getstate()
        try:
            text = self._decoder.decode(data, final)
        except UnicodeDecodeError as error:
            print(f"bethink: {not_utf8(self._name, error, self._line)}", file=sys.stderr)
            self.damaged = True
            self._decoder.setstate(state)
            self._decoder.errors = "replace"
            text = self._decoder.decode(data, final)
        self._line += data.count(b"\n")
        return text
