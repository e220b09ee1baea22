"""Free German–English text, out of copies of public repositories and packages: python runs/gather.py COPIES --to CORPORA

COPIES holds, unpacked, whichever of these there are: clones, in folders of their own names, of Unbabel/BConTrasT,
MicrosoftTranslator/NTREX, sheffieldnlp/mlqe-pe, fsfe/fsfe-website, ethereum/ethereum-org-website, privacyguides/i18n beside
privacyguides.org, and common-voice/common-voice, all of https://github.com; and of Debian's packages trans-de-en, wesnoth-1.16-data,
widelands-data, freedroidrpg-data and cataclysm-dda-data (dpkg-deb --extract PACKAGE.deb COPIES/PACKAGE). Each becomes NAME.de and
NAME.en in CORPORA; Common Voice, which is German alone, becomes mono.de. `bethink prepare` does the rest of the cleaning.
"""

from __future__ import annotations

import argparse
import gettext
import html
import json
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from sacremoses import MosesDetokenizer

Pair = tuple[str, str]  # German, English
LONGEST = 700  # characters of a pair; a paragraph that is longer and cannot be cut into sentences is left out
LEAST = 5  # words of a line that must not stand in a test set
BLOCK = re.compile(r"<(p|li|h[1-6]|dt|dd|td|th|figcaption|blockquote)\b[^>]*>(.*?)</\1>", re.DOTALL)
NO_TEXT = re.compile(
    r"^---\n.*?\n---\n|^(?:```|~~~).*?^(?:```|~~~)|^import .*?$|\{#[^}]*\}|<!--.*?-->|:::.*?$", re.DOTALL | re.MULTILINE
)
LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
MARKS = re.compile(r"^[#>*+\-\s|]+|[*_`]+|<[^>]*>|\[\^\d+\]:?", re.MULTILINE)
NUMBERED = re.compile(
    r"\A\s*\d+[.)]\s"
)  # of a list in Markdown; elsewhere a number that begins a line belongs to the text
SENTENCE_END = re.compile(r"(?<=[a-zäöüß)“\"][.!?]) +(?=[A-ZÄÖÜ„“\"])")
UNFIT = re.compile(r"[{}<>|\\%@~^=_\[\]]|https?:|\w\.\w+\(|/\w+/|\$\w")
GERMAN = set(
    "der die das und ist nicht ein eine ich du sie es wir mit für auf den dem zu von wird werden kann sind hat im".split()
)
ENGLISH = set("the and is not a an i you they it we with for on to of will can are has in that this be".split())


def dialogues(folder: Path) -> Iterator[Pair]:
    """Customers write German, agents English; each turn has its translation."""
    for name in ("train.json", "dev.json", "test1_corpus-with_gold_references.json"):
        for turns in json.loads((folder / name).read_text(encoding="utf-8")).values():
            for turn in turns:
                pair = turn["source"], turn["target"]
                yield pair if turn["speaker"] == "customer" else pair[::-1]


def line_by_line(folder: Path) -> Iterator[Pair]:
    german, english = (folder / "NTREX-128" / f"newstest2019-{name}.txt" for name in ("ref.deu", "src.eng"))
    yield from zip(lines(german), lines(english), strict=True)


def post_edited(folder: Path) -> Iterator[Pair]:
    detokenise = MosesDetokenizer("de").detokenize, MosesDetokenizer("en").detokenize
    for path in sorted((folder / "data/post-editing").rglob("en-de-*.tar.gz")):
        with tarfile.open(path) as archive:
            sides = [
                archive.extractfile(member).read().decode().splitlines()  # type: ignore[union-attr]
                for end in (".pe", ".src")
                for member in archive.getmembers()
                if member.name.endswith(end)
            ]
        for lines in zip(*sides, strict=True):
            german, english = (join(line.split(" ")) for join, line in zip(detokenise, lines, strict=True))
            yield german, english


def catalogues(folder: Path) -> Iterator[Pair]:
    """Messages of a program, as gettext keeps them."""
    for path in sorted(folder.rglob("de/LC_MESSAGES/*.mo")):
        with path.open("rb") as file:
            messages = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]  # there is no other way to list them
        for english, german in messages.items():
            if isinstance(english, str) and english:
                left, right = german.split("\n"), english.split("^")[-1].split("\x04")[-1].split("\n")
                if len(left) == len(right):
                    yield from zip(left, right, strict=True)


def dictionary(folder: Path) -> Iterator[Pair]:
    """The whole sentences in a dictionary; entries have parts (|) and variants (;) in the same order on both sides."""
    for line in lines(folder / "usr/share/trans/de-en"):
        left, mark, right = line.partition(" :: ")
        if mark and not line.startswith("#"):
            for german, english in zip(left.split(" | "), right.split(" | "), strict=False):
                pair = tuple(
                    re.sub(r" *(\{.*?\}|\[.*?\]|/.*?/)", "", side.split(";")[0]).strip() for side in (german, english)
                )
                if all(side.endswith((".", "!", "?")) and side.count(" ") > 1 for side in pair):
                    yield pair[0], pair[1]


def pages(german: str, english: Callable[[str], str]) -> Callable[[Path], Iterator[Pair]]:
    """Two files of the same page, which must have the same number of paragraphs."""

    def read(folder: Path) -> Iterator[Pair]:
        for path in sorted(folder.glob(german)):
            other = folder / english(str(path.relative_to(folder)))
            if other.is_file():
                left, right = (list(paragraphs(file)) for file in (path, other))
                if len(left) == len(right):
                    yield from zip(left, right, strict=True)

    return read


def paragraphs(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8", errors="ignore")
    if path.suffix == ".md":
        parts = re.split(r"\n\s*\n|\n(?=[*+-] |\d+\. |#)", NO_TEXT.sub("", text))
        blocks = [NUMBERED.sub("", part) for part in parts]
    else:
        blocks = [found[2] for found in BLOCK.finditer(text)]
    for block in blocks:
        yield " ".join(html.unescape(MARKS.sub("", LINK.sub(r"\1", block))).split())


def sentences(pair: Pair) -> list[Pair]:
    """The pair, cut at the ends of sentences if both sides have as many."""
    left, right = (SENTENCE_END.split(side) for side in pair)
    return list(zip(left, right, strict=True)) if len(left) == len(right) else [pair]


def is_text(pair: Pair) -> bool:
    german, english = (side.split() for side in pair)
    return (
        max(map(len, pair)) <= LONGEST
        and min(len(german), len(english)) > 0
        and max(len(german), len(english)) <= 2 * min(len(german), len(english)) + 3
        and not any(UNFIT.search(side) for side in pair)
        and pair[0] != pair[1]
        and all(sum(map(str.isalpha, side)) > len(side) / 2 for side in pair)
        and likeness(german, GERMAN) >= likeness(german, ENGLISH)
        and likeness(english, ENGLISH) >= likeness(english, GERMAN)
    )


def likeness(words: list[str], common: set[str]) -> int:
    return sum(word.lower().strip(",.!?") in common for word in words)


CORPORA: dict[str, tuple[str, Callable[[Path], Iterator[Pair]]]] = {
    "bcontrast": ("BConTrasT", dialogues),
    "ntrex": ("NTREX", line_by_line),
    "mlqe-pe": ("mlqe-pe", post_edited),
    "fsfe": ("fsfe-website", pages("**/*.de.*html", lambda name: re.sub(r"\.de(\.x?html)$", r".en\1", name))),
    "ethereum": (
        "ethereum-org-website",
        pages("public/content/translations/de/**/*.md", lambda name: name.replace("translations/de/", "")),
    ),
    "privacyguides": (
        "i18n",
        pages("i18n/de/**/*.md", lambda name: name.replace("i18n/de/", "../privacyguides.org/docs/")),
    ),
    "ding-sentences": ("trans-de-en", dictionary),
    "game-wesnoth": ("wesnoth-1.16-data", catalogues),
    "game-widelands": ("widelands-data", catalogues),
    "game-freedroid": ("freedroidrpg-data", catalogues),
    "game-cataclysm": ("cataclysm-dda-data", catalogues),
}


GERMAN_ALONE = "common-voice/server/data/de/*.txt"


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def write(path: Path, text: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in text), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("copies", type=Path)
    parser.add_argument("--to", type=Path, required=True, metavar="CORPORA")
    parser.add_argument(
        "--without",
        type=Path,
        nargs="*",
        default=[],
        metavar="FILE",
        help="lines of five words and more in these are left out: test sets",
    )
    options = parser.parse_args()
    kept_back = {line for path in options.without for line in lines(path) if len(line.split()) >= LEAST}
    options.to.mkdir(parents=True, exist_ok=True)
    there = {name: found for name, found in CORPORA.items() if (options.copies / found[0]).is_dir()}
    if not there:
        parser.error(
            f"{options.copies} holds none of the folders {', '.join(folder for folder, _ in CORPORA.values())}"
        )
    for name, (folder, read) in there.items():
        found = dict.fromkeys(pair for whole in read(options.copies / folder) for pair in sentences(whole))
        pairs = [pair for pair in found if is_text(pair) and kept_back.isdisjoint(pair)]
        for side, end in enumerate(("de", "en")):
            write(options.to / f"{name}.{end}", [pair[side] for pair in pairs])
        print(f"{name}: {len(pairs)} of {len(found)} pairs")
    if alone := [
        line
        for path in sorted(options.copies.glob(GERMAN_ALONE))
        if "europarl" not in path.stem
        for line in lines(path)
    ]:
        write(options.to / "mono.de", [line for line in dict.fromkeys(alone) if line not in kept_back])


if __name__ == "__main__":
    main()
