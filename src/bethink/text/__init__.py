"""Text and ids: vocabularies, the Segmenter (text in any chunks → ids) and the Joiner (ids → whole words)."""

from __future__ import annotations

from bethink.text.clean import normalise, without_punctuation
from bethink.text.copying import Copier, restored
from bethink.text.glossary import Glossary
from bethink.text.join import Joiner
from bethink.text.segment import Boundary, Segmenter, Word
from bethink.text.vocabulary import (
    EOS,
    PAD,
    UNK,
    SentencePieces,
    Vocabulary,
    WordFinalPieces,
    Words,
    alike,
    leaves_word,
    leaving,
    load_vocabulary,
    starts_word,
)

__all__ = [
    "EOS",
    "PAD",
    "UNK",
    "Boundary",
    "Copier",
    "Glossary",
    "Joiner",
    "Segmenter",
    "SentencePieces",
    "Vocabulary",
    "Word",
    "WordFinalPieces",
    "Words",
    "alike",
    "leaves_word",
    "leaving",
    "load_vocabulary",
    "normalise",
    "restored",
    "starts_word",
    "without_punctuation",
]
