"""Hand-made translations: wait-k over tokens, long words having two, and a target that is given."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from bethink.evaluate import Instance
from bethink.files import write
from bethink.policy import Action, Policy, WaitK
from bethink.text import Words
from bethink.trace import Step, Translation

GOLDEN = Path(__file__).parent / "golden"


def golden_lines(name: str) -> list[str]:
    return (GOLDEN / name).read_text("utf-8").removesuffix("\n").split("\n")


def pieces(word: str) -> int:
    return 1 + (len(word) > 5)


def translation(source: str, target: str, k: int = 3, *, degrees: bool = False) -> Translation:
    """g(t) = min(k + t - 1, |x|); as in a real stream, a word is shown with the first token of the next."""
    if not source.split():
        return Translation.of([])
    reads = [
        (n + 1, word if piece == 0 else "") for n, word in enumerate(source.split()) for piece in range(pieces(word))
    ]
    reads.append((len(source.split()), ""))
    shows = [show for word in target.split() for show in [word] + [""] * (pieces(word) - 1)]
    steps: list[Step] = []
    read = heard = 0
    held = ""
    for written, word in enumerate([*shows, "</s>"], start=1):
        while read < min(k + written - 1, len(reads)) or (word == "</s>" and read < len(reads)):
            heard, name = reads[read]
            read += 1
            steps.append(Step(Action.READ, 3, read, heard, written - 1, text=name))
        text, held = (held, (" " if written > 1 else "") + word) if word else ("", held)
        look = degrees and read < len(reads)
        before = tuple(0.9 if i < written - 1 else 0.1 for i in range(read)) if look else ()
        gain = tuple(0.8 if i == written - 1 else 0.0 for i in range(read)) if look else ()
        evidence = (written - 1,) if look and written % 3 and written <= read else ()
        steps.append(Step(Action.WRITE, 4, read, heard, written, written % 2, 0.5, evidence, before, gain, text=text))
    return Translation.of(steps)


class FakeTranslator:
    """Says the references, without every fifth word, at the pace of wait-k."""

    name = "fake"
    fingerprint = ""
    about: ClassVar[dict[str, str]] = {"source": "de", "target": "en"}
    languages = ("de", "en")
    target = Words([])  # every word is one unknown token

    def __init__(self, sources: Sequence[str], references: Sequence[str]) -> None:
        self.known = {
            source: " ".join(word for n, word in enumerate(reference.split()) if n % 5 != 4)
            for source, reference in zip(sources, references, strict=True)
        }

    def translate_many(self, sentences: Sequence[str], policy: Policy, *, batch: int = 64) -> Iterator[Translation]:
        yield from (
            said for _, said in sorted(self.as_completed(sentences, policy, batch=batch), key=lambda each: each[0])
        )

    def as_completed(
        self, sentences: Sequence[str], policy: Policy, *, batch: int = 64, tail: bool = False
    ) -> Iterator[tuple[int, Translation]]:
        """It looks at nothing, so it has no tails."""
        k = policy.k if isinstance(policy, WaitK) else 1000
        for n, sentence in reversed(list(enumerate(sentences))):  # in any order
            yield n, translation(sentence, "" if sentence == "Hm" else self.known[sentence], k, degrees=True)


def write_log(log: Path, instances: Iterable[Instance]) -> None:
    write(log, "".join(json.dumps(one.to_dict()) + "\n" for one in instances))
