"""IWSLT14 German-English in its usual preparation (fairseq's prepare-iwslt14.sh) up to, and not including, byte pairs.

    python runs/iwslt14.py de-en OUT       de-en is the folder in the official archive; OUT gets train, valid and test, each .de and .en

Tokenised and lower-cased. Every 23rd training pair is for validation; the test set is dev2010, dev2012 and tst2010 to tst2012.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from bethink.errors import BethinkError, DataError
from bethink.files import write_atomically
from bethink.text import normalise
from bethink.train.corpora import Pair, tokenised
from bethink.train.recipe import DataConfig, TextConfig

TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
ABOUT_A_TALK = ("<url>", "<talkid>", "<keywords>")  # lines that are no sentences
SEGMENT = re.compile(r'<seg id="[0-9]+">(.*)</seg>')
LONGEST, RATIO, VALID = 175, 1.5, 23


def main(argv: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("archive", type=Path, metavar="de-en")
    options.add_argument("out", type=Path, metavar="OUT")
    args = options.parse_args(argv)
    try:
        cleaned = list(filter(is_clean, pairs(args.archive, "train.tags.de-en.{}", sentences)))
        test = [pair for name in TESTS for pair in pairs(args.archive, f"IWSLT14.{name}.de-en.{{}}.xml", segments)]
    except BethinkError as error:
        print(f"iwslt14.py: {error}", file=sys.stderr)
        return 1
    write(args.out, "train", (pair for n, pair in enumerate(cleaned, start=1) if n % VALID))
    write(args.out, "valid", cleaned[VALID - 1 :: VALID])
    write(args.out, "test", test)
    return 0


def pairs(archive: Path, file: str, read: Callable[[str], list[str]]) -> Iterator[Pair]:
    """The sentences of two files, tokenised and lower-cased."""
    paths = [archive / file.format(language) for language in ("de", "en")]
    if missing := [path for path in paths if not path.is_file()]:
        raise DataError(f"{missing[0]} is missing; give the folder de-en of the official archive")
    german, english = (read(path.read_text(encoding="utf-8")) for path in paths)
    if len(german) != len(english):
        raise DataError(f"{paths[0]} has {len(german):,} sentences but {paths[1]} has {len(english):,}")
    return tokenised(
        iter(zip(german, english, strict=True)),
        DataConfig(source="de", target="en"),
        TextConfig(tokenise="moses", lower=True),
    )


def sentences(text: str) -> list[str]:
    """Of a training file, which tells of each talk where it comes from; titles and descriptions are sentences in tags."""
    return [
        normalise(line) for line in text.removesuffix("\n").split("\n") if not any(tag in line for tag in ABOUT_A_TALK)
    ]


def segments(text: str) -> list[str]:
    """Of a test file, in XML."""
    return [normalise(found.replace("’", "'")) for found in SEGMENT.findall(text)]


def is_clean(pair: Pair) -> bool:
    """As Moses' clean-corpus-n: neither side empty or too long, nor one much longer than the other."""
    short, long = sorted(len(side.split()) for side in pair)
    return short >= 1 and long <= LONGEST and long <= RATIO * short


def write(out: Path, name: str, lines: Iterable[Pair]) -> None:
    for language, side in zip(("de", "en"), zip(*lines, strict=True), strict=True):
        write_atomically(out / f"{name}.{language}", "".join(f"{line}\n" for line in side).encode())


if __name__ == "__main__":
    sys.exit(main())
