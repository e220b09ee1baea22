"""`bethink listen`: the output of a speech recogniser in, its stable words out."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from bethink.cli.common import Verbs, above_zero, count, verb
from bethink.errors import DataError
from bethink.recognisers import RECOGNISERS, Record, Records

if TYPE_CHECKING:
    from bethink.listen import Delays, StableWord

HINT = "paste the output of a speech recogniser; Ctrl-D ends"


def add(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "listen",
        "pass on the stable words of a speech recogniser",
        "Reads what a speech recogniser prints while somebody speaks, including guesses that it changes later, and prints each word once "
        "it is stable: when several guesses in a row agree on it and on all words before it, or when the recogniser says that it is final. "
        "No word is ever taken back, so the output can be piped into 'bethink translate'. Each sentence is a line: it ends at a full stop "
        "or, if the recogniser writes none, at final results, at pauses, or when it gets long. At the end, standard error says how long "
        "words waited.",
        (
            "talk.jsonl",
            "--json talk.jsonl                               # each word with its times",
            "--agree 3 --hold 2 talk.jsonl                   # surer, but later",
            "< talk.jsonl | bethink translate --watch",
        ),
        run,
    )
    made.epilog = f"{made.epilog}\n\n{FORMATS}"
    made.add_argument("file", nargs="?", metavar="FILE", help="what the recogniser printed (default: standard input)")
    made.add_argument(
        "--format", choices=tuple(RECOGNISERS), help="the recogniser (default: as the first record shows)"
    )
    made.add_argument(
        "--agree", type=count, default=2, metavar="N", help="guesses in a row that must agree on a word (default: 2)"
    )
    made.add_argument(
        "--hold",
        type=int,
        default=1,
        metavar="N",
        help="keep back the last N words of a guess, which are often cut off (default: 1)",
    )
    made.add_argument(
        "--pause", type=above_zero, default=0.7, metavar="SECONDS", help="silence that ends a sentence (default: 0.7)"
    )
    made.add_argument(
        "--longest", type=count, default=40, metavar="N", help="words after which a sentence is cut (default: 40)"
    )
    made.add_argument("--json", action="store_true", help="print each word as a JSON object; its fields are below")


FORMATS = """formats (--format):
  vosk             {"partial": …} and {"text": …}, with or without word times; one line or several for each
  whisper.cpp      the terminal output of whisper-stream
  whisperlivekit   the messages of its /asr socket, mode full or diff
  browser          events of the Web Speech API: {"resultIndex": …, "results": [{"isFinal": …, "transcript": …}]}
A record may carry "at", the milliseconds at which it arrived; otherwise it arrives when it is read.

fields of --json (a sentence end is {"end": true, "at": …}):
  word             the word, punctuation included
  at               when it became stable, in milliseconds since the start
  waited           milliseconds since it had first been guessed
  behind           words that had been guessed after it by then
  start, end       when it was spoken, in seconds of the audio, if the recogniser says so"""


def run(args: argparse.Namespace) -> int:
    from bethink.cli.translate import Decoder, arriving, source
    from bethink.listen import Listener

    listener = Listener(args.format, agree=args.agree, hold=args.hold, pause=args.pause, longest=args.longest)
    show = _print_json if args.json else _print_text
    name = "standard input" if args.file in (None, "-") else args.file
    decoder, damaged, at = Decoder(name), False, 0.0
    with source(args.file, HINT) as file:
        for number, record, at in _records(arriving(file, decoder)):
            try:
                if isinstance(record, DataError):
                    raise record
                words = listener.feed(record, at)
            except DataError as error:
                if listener.format is None:
                    raise DataError(f"record {number} of {name}: {error}") from error
                if not damaged:  # a live talk goes on; the exit code tells
                    print(f"bethink: record {number} of {name} is left out: {error}", file=sys.stderr)
                damaged = True
                continue
            for word in words:
                show(word)
    for word in listener.finish(at):
        show(word)
    print(f"bethink: {report(listener.delays)}", file=sys.stderr)
    return 1 if damaged or decoder.damaged else 0


def _records(texts: Iterator[str]) -> Iterator[tuple[int, Record | DataError, float]]:
    """Each record, its number from 1, and when it arrived, in milliseconds since the start."""
    began, number, records = time.monotonic(), 0, Records()
    for found in itertools.chain(map(records.feed, texts), (records.finish() for _ in range(1))):
        for record in found:
            number += 1
            given = record.get("at") if isinstance(record, dict) else None
            yield number, record, float(given) if isinstance(given, int | float) else 1000 * (time.monotonic() - began)


def _print_text(word: StableWord) -> None:
    print(word.text, end="" if word.text == "\n" else " ", flush=True)


def _print_json(word: StableWord) -> None:
    print(json.dumps(word.to_dict(), ensure_ascii=False), flush=True)


def report(delays: Delays) -> str:
    """One sentence on what the waiting cost."""
    if not delays.words:
        return "there were no words"
    return (
        f"{delays.words} words; waiting until they were stable cost {delays.milliseconds(0.5)} ms and {delays.behind_at_most(0.5)} "
        f"words (median), {delays.milliseconds(0.95)} ms and {delays.behind_at_most(0.95)} words (95 %); the recogniser later "
        f"changed {delays.changed} of them ({delays.changed / delays.words:.1%})"
    )
