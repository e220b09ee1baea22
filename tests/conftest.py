"""Fixtures that several tests share: small vocabularies, trained in a blink on a made-up text."""

from __future__ import annotations

import importlib.util
import os
import random
from pathlib import Path

import pytest

from bethink.text import SentencePieces
from tests.no_skips import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]  # hooks

os.environ.setdefault("OMP_NUM_THREADS", "1")

if importlib.util.find_spec("hypothesis"):  # a GPU machine may run only the tests of the kernels, which do without it
    from hypothesis import settings

    # The same examples on every run and every machine; a slow machine is not a failure.
    settings.register_profile("bethink", deadline=None, derandomize=True, max_examples=60)
    settings.load_profile("bethink")

STEMS = """haus baum straße grün über läuft der die das nicht sehr schön größe wörter sagen the house is not very green
we read and write words while they come người Việt nói tiếng""".split()
ENDINGS = ["", "", "", "er", "en", "ing", "s", ",", ".", "!", "?"]


def sentences(count: int, seed: int = 0) -> list[str]:
    """Lines of German-, English- and Vietnamese-looking words."""
    draw = random.Random(seed)
    return [
        " ".join(draw.choice(STEMS) + draw.choice(ENDINGS) for _ in range(draw.randint(3, 14))) for _ in range(count)
    ]


@pytest.fixture(scope="session")
def lines() -> list[str]:
    return sentences(300)


@pytest.fixture(scope="session")
def pieces(lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> SentencePieces:
    """A sentencepiece vocabulary that knows the made-up text's letters and no others."""
    path: Path = tmp_path_factory.mktemp("vocabulary") / "toy.spm"
    return SentencePieces.train(lines, path, size=160)
