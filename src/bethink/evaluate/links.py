"""Which source words each target word translates: links from a file made by people, or from a statistical aligner.

An alignment file has one line per pair: `3-4` means that source word 3 and target word 4 surely translate each other, `3p4` that
they possibly do. Words are separated by white space and counted from 1. In Python words are counted from 0.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bethink.errors import DataError, needs_extra
from bethink.text import normalise

Links = tuple[tuple[int, int], ...]  # pairs of a source and a target word
_LINK = re.compile(r"(\d+)([-p])(\d+)")
_EDGES = re.compile(r"^\W+|\W+$")


def parse_links(line: str, source: int, target: int, where: str = "the alignment", *, sure: bool = False) -> Links:
    """The links of one line of a file, for sentences of so many words; `sure` drops the possible links."""
    links = []
    for text in line.split():
        found = _LINK.fullmatch(text)
        if not found:
            raise DataError(f"{where} has '{text}'; expected links such as 3-4 (sure) or 3p4 (possible)")
        i, j = int(found[1]), int(found[3])
        if not (1 <= i <= source and 1 <= j <= target):
            raise DataError(
                f"{where} links {i} to {j}, but the sentences have {source} and {target} words; words count from 1"
            )
        if not (sure and found[2] == "p"):
            links.append((i - 1, j - 1))
    return tuple(sorted(set(links)))


@contextmanager
def aligned(source: Iterable[str], target: Iterable[str]) -> Iterator[tuple[Path, Path]]:
    """Run the aligner over two texts; yields the files of its links, `3-4` counted from 0, in both directions.

    Forward, each target word has at most one link; backward, each source word. The aligner draws random samples, so two runs
    differ a little.
    """
    with needs_extra("aligning words", "align"):
        import eflomal
    with tempfile.TemporaryDirectory() as scratch:
        forward, backward = Path(scratch) / "forward", Path(scratch) / "backward"
        eflomal.Aligner().align(source, target, links_filename_fwd=str(forward), links_filename_rev=str(backward))
        yield forward, backward


def align(pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Links]:
    """The links of each pair of sentences, learned from all of them together: those that the aligner finds in either direction."""
    kept = [pair for pair in dict.fromkeys(pairs) if all(normalise(side).strip() for side in pair)]
    found: dict[tuple[str, str], Links] = {}
    if not kept:
        return found
    with aligned(*([" ".join(folded(pair[side])) + "\n" for pair in kept] for side in (0, 1))) as files:
        directions = [path.read_text("ascii").removesuffix("\n").split("\n") for path in files]
        for pair, *lines in zip(kept, *directions, strict=True):
            numbers = [link.split("-") for line in lines for link in line.split()]
            found[pair] = tuple(sorted({(int(i), int(j)) for i, j in numbers}))
    return found


def words(line: str) -> Sequence[str]:
    """The words of a line as a translation counts them."""
    return normalise(line).split()


def folded(line: str) -> list[str]:
    """The words of a line in lower case, without punctuation around them."""
    return [_EDGES.sub("", word).lower() or word for word in words(line)]
