"""Vocabularies, between words and ids: sentencepiece models, and plain lists of words.

Ids 0, 1 and 2 are padding, end of sentence and unknown in each of them. No typed text reaches padding or end of sentence. An
unknown piece of a translation is shown as ⁇.
"""

from __future__ import annotations

import io
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import sentencepiece

from bethink.errors import DataError, ModelError, unknown
from bethink.files import write_atomically
from bethink.text.clean import normalise

PAD, EOS, UNK = 0, 1, 2

_SPECIAL = {PAD: "<pad>", EOS: "</s>", UNK: "⁇"}
_SPACE = "▁"  # sentencepiece's mark for white space: at the beginning of a word, or, if word-final, at its end
_GLUE = "￭"  # word-final vocabularies: a sign that follows a word without a space


class Vocabulary(Protocol):
    @property
    def kind(self) -> str:
        """`word-final`, `sentencepiece` or `words`: what load_vocabulary needs to know."""

    def __len__(self) -> int: ...

    def encode(self, word: str) -> tuple[int, ...]:
        """The ids of one whitespace-delimited word: at least one."""

    def decode(self, ids: Sequence[int], *, tidy: bool = False) -> str:
        """The text of whole words; more ids may add to its last word and after it, never change what stands before.

        Tokenised text stays tokenised, as scores want it, unless it is to be tidy, as people do.
        """

    def settled(self, ids: Sequence[int], *, tidy: bool = False) -> str:
        """The beginning of the text that no further id can change: what may be shown to people."""

    def opens_word(self, token: int) -> bool:
        """Whether a word can begin with this id."""

    def closes_word(self, token: int) -> bool:
        """Whether a word can be complete with this id; a new word begins where the id before closes and the next one opens."""

    def attaches(self, token: int) -> bool:
        """Whether this id adds a sign to a word that is already complete, as a comma does."""

    def piece(self, token: int) -> str:
        """An id as a person would like to see it on an axis; `·` marks what continues a word."""

    def save(self, path: str | os.PathLike[str]) -> None: ...


class SentencePieces:
    """A sentencepiece model whose special ids are ours."""

    kind = "sentencepiece"
    TRAINING: ClassVar[dict[str, Any]] = {}

    def __init__(self, model: bytes, name: str = "the sentencepiece model") -> None:
        self._model = model
        self._processor = _processor(model, name)
        self._texts = [self._text(token) for token in range(len(self))]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        return cls(_read(path), str(path))

    @classmethod
    def train(
        cls, lines: Iterable[str], path: str | os.PathLike[str], size: int, *, coverage: float = 0.9999, **settings: Any
    ) -> Self:
        """Learn `size` byte-pair pieces from lines of text and write the model; the same lines give the same model.

        `settings` are sentencepiece's own and change those of the kind.
        """
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=filter(None, (cls._training_line(_unmarked(normalise(line))) for line in lines)),
                model_writer=model,
                model_type="bpe",
                vocab_size=size,
                character_coverage=coverage,
                normalization_rule_name="identity",  # normalise() has done it, and on the live text does the same
                pad_id=PAD,
                eos_id=EOS,
                unk_id=UNK,
                bos_id=-1,
                max_sentence_length=1 << 20,
                num_threads=1,
                minloglevel=2,
                **(cls.TRAINING | settings),
            )
        except (RuntimeError, OSError) as error:
            reason = str(error).rpartition("]")[2].strip() or "there is nothing in it"
            raise DataError(f"cannot learn {size} pieces for '{path}' from this text: {reason}") from error
        vocabulary = cls(model.getvalue(), str(path))
        vocabulary.save(path)
        return vocabulary

    @staticmethod
    def _training_line(line: str) -> str:
        return line

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    def encode(self, word: str) -> tuple[int, ...]:
        word = _unmarked(word)
        ids = self._pieces(word)
        return (ids if UNK not in ids else self._pieces(_plain(word))) or (UNK,)

    def _pieces(self, word: str) -> tuple[int, ...]:
        return tuple(self._processor.encode(word, out_type=int))

    def decode(self, ids: Sequence[int], *, tidy: bool = False) -> str:
        return " ".join(_whole_bytes(self._joined(ids)).split())

    def settled(self, ids: Sequence[int], *, tidy: bool = False) -> str:
        text = self.decode(ids)
        return text[: max(text.rfind(" "), 0)]

    def _joined(self, ids: Sequence[int]) -> str:
        texts = self._texts
        return "".join([texts[token] for token in ids])

    def opens_word(self, token: int) -> bool:
        return token in (PAD, EOS) or self._texts[token].startswith(" ")

    def closes_word(self, token: int) -> bool:
        return True

    def attaches(self, token: int) -> bool:
        return False

    def piece(self, token: int) -> str:
        if token in _SPECIAL:
            return _SPECIAL[token]
        text = self._processor.id_to_piece(token)
        return text.removeprefix(_SPACE) or _SPACE if text.startswith(_SPACE) else f"·{text}"

    def save(self, path: str | os.PathLike[str]) -> None:
        write_atomically(Path(path), self._model)

    def _text(self, token: int) -> str:
        """What an id adds to the text; a byte stands as a lone surrogate until its character is whole."""
        if token in (PAD, EOS):
            return ""
        if token == UNK:
            return _SPECIAL[UNK]
        piece: str = self._processor.id_to_piece(token)
        if self._processor.is_byte(token):
            return bytes([int(piece[1:-1], 16)]).decode("utf-8", "surrogateescape")
        return piece.replace(_SPACE, " ")


class WordFinalPieces(SentencePieces):
    """Pieces that carry the space at the end of a word, so that a word's last piece says that the word is complete.

    Punctuation after a word is a piece of its own that says "no space before me" (￭). So a word never waits for its comma, and
    the comma changes nothing that stands. Digits are single pieces, and a character that is not in the vocabulary is its bytes, so
    that both can be copied.
    """

    kind = "word-final"
    TRAINING: ClassVar[dict[str, Any]] = {
        "treat_whitespace_as_suffix": True,
        "split_digits": True,
        "byte_fallback": True,
    }

    def _pieces(self, word: str) -> tuple[int, ...]:
        return tuple(token for part in _detached(word) for token in self._processor.encode(part, out_type=int))

    @staticmethod
    def _training_line(line: str) -> str:
        return " ".join(part for word in line.split() for part in _detached(word))

    def settled(self, ids: Sequence[int], *, tidy: bool = False) -> str:
        end = next((end for end in range(len(ids), 0, -1) if self.closes_word(ids[end - 1])), 0)
        return self.decode(ids[:end])

    def _joined(self, ids: Sequence[int]) -> str:
        return super()._joined(ids).replace(f" {_GLUE}", "").replace(_GLUE, "")

    def opens_word(self, token: int) -> bool:
        return not self.attaches(token)

    def closes_word(self, token: int) -> bool:
        return token in (PAD, EOS) or self._texts[token].endswith(" ")

    def attaches(self, token: int) -> bool:
        return self._texts[token].startswith(_GLUE)

    def piece(self, token: int) -> str:
        if token in _SPECIAL:
            return _SPECIAL[token]
        text = self._processor.id_to_piece(token).removeprefix(_GLUE)
        return text.removesuffix(_SPACE) or _SPACE if text.endswith(_SPACE) else f"{text}·"


class Words:
    """A list of words, for text in which white space separates all tokens, punctuation too; the first word has id 3.

    So that ordinary text can be read as well, a word that is not in the list but whose parts all are ("it's.") is those parts.
    """

    kind = "words"

    def __init__(self, words: Sequence[str], name: str = "the word list") -> None:
        self._words = [*_SPECIAL.values(), *words]
        self._ids = {word: token for token, word in enumerate(words, start=len(_SPECIAL))}
        if len(self._ids) != len(words):
            twice = next(word for word, count in Counter(words).items() if count > 1)
            raise ModelError(f"{name} holds '{twice}' more than once; expected each word on one line of its own")
        if (broken := next((word for word in words if word.split() != [word]), None)) is not None:
            raise ModelError(f"{name} holds {broken!r}; expected one word on every line, without white space")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Words:
        try:
            text = _read(path).decode("utf-8")
        except UnicodeDecodeError:
            raise ModelError(f"'{path}' is not UTF-8 text; expected a list of words, one on every line") from None
        return cls(text.removesuffix("\n").split("\n") if text else [], f"'{path}'")

    @classmethod
    def build(cls, lines: Iterable[str], minimum: int = 5) -> Words:
        """The words that occur at least `minimum` times, the most frequent first; all others will be unknown."""
        counts = Counter(word for line in lines for word in normalise(line).split())
        kept = [word for word, count in counts.items() if count >= minimum]
        return cls(sorted(kept, key=lambda word: (-counts[word], word)))

    def __len__(self) -> int:
        return len(self._words)

    def encode(self, word: str) -> tuple[int, ...]:
        if word in self._ids:
            return (self._ids[word],)
        parts = [self._ids.get(part, UNK) for part in _PARTS.findall(word)]
        return tuple(parts) if parts and UNK not in parts else (UNK,)

    def decode(self, ids: Sequence[int], *, tidy: bool = False) -> str:
        words = (self._words[token] for token in ids if token not in (PAD, EOS))
        return "".join(_spaced(words)) if tidy else " ".join(words)

    def settled(self, ids: Sequence[int], *, tidy: bool = False) -> str:
        return self.decode(ids, tidy=tidy)

    def opens_word(self, token: int) -> bool:
        return not self.attaches(token)

    def closes_word(self, token: int) -> bool:
        return True

    def attaches(self, token: int) -> bool:
        return token not in _SPECIAL and bool(_ATTACHED.fullmatch(self._words[token]))

    def piece(self, token: int) -> str:
        return self._words[token]

    def save(self, path: str | os.PathLike[str]) -> None:
        write_atomically(Path(path), "".join(f"{word}\n" for word in self._words[len(_SPECIAL) :]).encode())


_KINDS: dict[str, type[SentencePieces | Words]] = {kind.kind: kind for kind in (WordFinalPieces, SentencePieces, Words)}


def starts_word(vocabulary: Vocabulary, token: int, before: int | None) -> bool:
    """Whether a new word begins with this id, after the one before it (None at the start of a sentence)."""
    return before is None or (vocabulary.closes_word(before) and vocabulary.opens_word(token))


def load_vocabulary(path: str | os.PathLike[str], kind: str) -> Vocabulary:
    """The vocabulary in a file, of the kind its owner says it has."""
    if kind not in _KINDS:
        raise unknown("kind of vocabulary", kind, _KINDS)
    return _KINDS[kind].load(path)


def alike(one: Vocabulary, other: Vocabulary) -> bool:
    """Whether ids mean the same in both."""
    return len(one) == len(other) and all(one.piece(token) == other.piece(token) for token in range(len(one)))


_ATTACHED = re.compile(r"[.,!?;:%…)\]}»”]+|n['’]t|['’](?:s|S|t|re|ve|ll|d|m)")
_PARTS = re.compile(r"['’]\w+|\w+(?:[-.]\w+)*|[^\w\s]")
_OPENING = re.compile(r"[(\[{«“„¿¡$£]+")


def _spaced(words: Iterable[str]) -> Iterator[str]:
    """Tokenised words with the space each needs before it: none for what closes, none after what opens."""
    glue, quoted = True, False
    for word in words:
        opens = bool(_OPENING.fullmatch(word))
        closes = bool(_ATTACHED.fullmatch(word))
        if word == '"':
            opens, closes, quoted = not quoted, quoted, not quoted
        yield word if glue or closes else f" {word}"
        glue = opens


def _processor(model: bytes, name: str) -> sentencepiece.SentencePieceProcessor:
    processor = sentencepiece.SentencePieceProcessor()
    try:
        if not _is_whole(model):
            raise ValueError
        processor.LoadFromSerializedProto(model)
        found = processor.pad_id(), processor.eos_id(), processor.unk_id(), processor.bos_id()
    except (RuntimeError, OSError, ValueError, IndexError):
        raise ModelError(
            f"'{name}' is not a whole sentencepiece model; restore the file or export the model again"
        ) from None
    if found != (PAD, EOS, UNK, -1):
        raise ModelError(
            f"'{name}' has pad, eos, unk, bos = {found}; expected ({PAD}, {EOS}, {UNK}, -1), as 'bethink prepare' trains it"
        )
    return processor


def _is_whole(model: bytes) -> bool:
    """Whether pieces, trainer and normaliser are all there: sentencepiece would take a file cut between two pieces."""
    fields, position = set(), 0
    while position < len(model):
        fields.add(model[position] >> 3)
        size = shift = 0
        while (byte := model[(position := position + 1)]) > 127:
            size |= (byte & 127) << shift
            shift += 7
        position += 1 + (size | byte << shift)
    return {1, 2, 3} <= fields and position == len(model)


_RELATIVES = str.maketrans(
    dict.fromkeys("„“”«»", '"') | dict.fromkeys("‚‘’‹›", "'") | dict.fromkeys("–—−", "-") | {"⁄": "/", "€": "EUR"}
)


def _plain(word: str) -> str:
    """A word with signs that the vocabulary may lack in the plain form that it is likely to have."""
    return unicodedata.normalize("NFKC", word).translate(_RELATIVES)


def _unmarked(text: str) -> str:
    """Without the marks that stand for spacing."""
    return text.replace(_SPACE, "_").replace(_GLUE, "■")


_TRAILING = re.compile(r"(?<=.)[.,;:!?…)\]}»”“\"'’%]+$")


def _detached(word: str) -> list[str]:
    """A word and the signs right after it, each of them marked: Haus!" → Haus, ￭!, ￭"."""
    core = _TRAILING.sub("", word)
    return [core, *(_GLUE + sign for sign in word[len(core) :])]


def _whole_bytes(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _read(path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ModelError(f"cannot read the vocabulary '{path}': {reason}; expected a file of a model folder") from error
