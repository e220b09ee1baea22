"""The bundled model with a glossary: the terms of tests/system/terms.tsv come out as they are given there."""

from __future__ import annotations

import re
from pathlib import Path

from bethink import Translator
from bethink.text import Glossary

LINES = (Path(__file__).parent / "terms.tsv").read_text("utf-8").splitlines()
TERMS = [line.split("\t") for line in LINES if not line.startswith("#")]


def right(glossary: Glossary | None) -> list[str]:
    """The terms that come out as they are given, before the end of the sentence."""
    done = Translator("de-en", threads=1, glossary=glossary).translate_many([sentence for _, _, sentence in TERMS])
    pairs = zip(TERMS, done, strict=True)
    return [
        term for (_, term, _), one in pairs if re.search(rf"(?<![\w(]){re.escape(term)}(?!\w)", one.text, re.IGNORECASE)
    ]


def test_most_terms_come_out_with_a_glossary_and_few_without() -> None:
    assert len(TERMS) >= 60
    assert len(right(None)) <= 30
    assert len(right(Glossary({term: translation for term, translation, _ in TERMS}))) >= 64
