"""Moses tokenisation, in a module of its own so that worker processes start quickly."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

from bethink.errors import needs_extra

_LAST_STOP = re.compile(r"(?<=[^\s.])\.$")


@dataclass(frozen=True)
class Moses:
    """Tokenises one line at a time; `aggressive` also splits at hyphens."""

    language: str
    aggressive: bool = False
    lower: bool = False

    def __post_init__(self) -> None:
        _tokeniser(self.language)  # raises at once if the package is missing

    def __call__(self, line: str) -> str:
        settings = {"aggressive_dash_splits": self.aggressive, "escape": False, "return_str": True}
        tokens: str = _tokeniser(self.language).tokenize(line, **settings)
        # The original Moses splits off the last full stop also after an abbreviation or number; sacremoses does not.
        tokens = _LAST_STOP.sub(" .", tokens)
        return tokens.lower() if self.lower else tokens


@functools.cache
def _tokeniser(language: str) -> Any:
    with needs_extra("text.tokenise=moses", "train"):
        from sacremoses import MosesTokenizer
    return MosesTokenizer(lang=language)
