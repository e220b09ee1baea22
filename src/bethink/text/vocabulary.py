"""Vocabularies, which map words to ids and back: sentencepiece models and plain lists of words.

In all of them, ids 0, 1 and 2 are padding, end of sentence and unknown. No input text can produce padding or end of sentence. An
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
        """`word-final`, `sentencepiece`, `imported` or `words`; load_vocabulary needs it."""

    def __len__(self) -> int: ...

    def __hash__(self) -> int: ...

    def encode(self, word: str) -> tuple[int, ...]:
        """The ids of one whitespace-delimited word: at least one."""

    def decode(self, ids: Sequence[int], *, tidy: bool = False) -> str:
        """The text of these ids. Further ids may extend the last word and add words, but never change the text before it.

        Tokenised text stays tokenised, as for scores; with `tidy`, punctuation is attached, as for people.
        """

    def settled(self, ids: Sequence[int], *, tidy: bool = False) -> str:
        """The part of the text that no further id can change; only this is shown to people."""

    @property
    def marks_ends(self) -> bool:
        """Whether the last id of a word shows that the word is complete; otherwise only the next id does."""

    def opens_word(self, token: int) -> bool:
        """Whether a word can begin with this id."""

    def closes_word(self, token: int) -> bool:
        """Whether a word can end with this id. A new word begins where one id closes a word and the next opens one."""

    def attaches(self, token: int) -> bool:
        """Whether this id attaches to a word that is already complete, as a comma does."""

    def spells(self, token: int) -> bool:
        """Whether this id is a byte of a character that the vocabulary does not know."""

    def piece(self, token: int) -> str:
        """The id as text for plots and tables; `·` marks where a word continues."""

    def save(self, path: str | os.PathLike[str]) -> None: ...


class SentencePieces:
    """A sentencepiece model whose special ids are ours."""

    kind = "sentencepiece"
    marks_ends = False
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

        `settings` are options of sentencepiece; they override those of TRAINING.
        """
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=filter(None, (cls._training_line(_unmarked(normalise(line))) for line in lines)),
                model_writer=model,
                model_type="bpe",
                vocab_size=size,
                character_coverage=coverage,
                normalization_rule_name="identity",  # normalise() has cleaned the text, and does so with live text too
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
        if UNK in ids:  # perhaps the vocabulary has plain signs in place of rare ones
            ids = self._pieces(unicodedata.normalize("NFKC", word).translate(_RELATIVES))
        return ids or (UNK,)

    def _pieces(self, word: str) -> tuple[int, ...]:
        return tuple(self._processor.encode(word, out_type=int))

    def decode(self, ids: Sequence[int], *, tidy: bool = False) -> str:
        text = self._joined(ids)
        if not text.isascii():  # bytes become characters
            text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return " ".join(text.split())

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
        return bool(_SIGNS.fullmatch(self._texts[token]))

    def spells(self, token: int) -> bool:
        return bool(self._processor.is_byte(token))

    def piece(self, token: int) -> str:
        if token in _SPECIAL:
            return _SPECIAL[token]
        text = self._processor.id_to_piece(token)
        return text.removeprefix(_SPACE) or _SPACE if text.startswith(_SPACE) else f"·{text}"

    def save(self, path: str | os.PathLike[str]) -> None:
        write_atomically(Path(path), self._model)

    def _text(self, token: int) -> str:
        """The text of an id; a byte is a lone surrogate until its character is complete."""
        if token in (PAD, EOS):
            return ""
        if token == UNK:
            return _SPECIAL[UNK]
        piece: str = self._processor.id_to_piece(token)
        if self._processor.is_byte(token):
            return bytes([int(piece[1:-1], 16)]).decode("utf-8", "surrogateescape")
        return piece.replace(_SPACE, " ")


class WordFinalPieces(SentencePieces):
    """Pieces that mark the end of a word, so that the last piece of a word shows that the word is complete.

    Punctuation after a word is a piece of its own with a mark (￭) for "no space before". So a word never waits for its comma, and
    the comma does not change the word. Digits are single pieces, and a character that is not in the vocabulary becomes its bytes,
    so that both can be copied.
    """

    kind = "word-final"
    marks_ends = True
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


class ImportedPieces(SentencePieces):
    """The pieces of another tool's model, renumbered by `convert`: text is cut exactly as that tool cuts it.

    Pieces that only the other language has are control pieces with a text; tags and fillers are unused ones without.
    """

    kind = "imported"

    def __init__(self, model: bytes, name: str = "the sentencepiece model") -> None:
        super().__init__(model, name)
        self._ids = {self._processor.id_to_piece(token): token for token in range(len(self))}

    def encode(self, word: str) -> tuple[int, ...]:
        """Pieces are looked up by their text, as those tools do: a letter that only the other language has is known."""
        pieces = self._processor.encode(word, out_type=str)
        return tuple(self._ids.get(piece, UNK) for piece in pieces) or (UNK,)

    def settled(self, ids: Sequence[int], *, tidy: bool = False) -> str:
        text = self.decode(ids)
        end = next((n for n in range(len(text), 0, -1) if _UNSPACED.match(text[n - 1])), 0)
        return text[: max(text.rfind(" "), end)]

    def _text(self, token: int) -> str:
        return "" if self._processor.is_unused(token) else super()._text(token)


class Words:
    """A list of words, for tokenised text, where white space separates punctuation too; the first word has id 3.

    Ordinary text can be read as well: a word that is not in the list is split if all its parts are ("it's.").
    """

    kind = "words"
    marks_ends = True

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

    def spells(self, token: int) -> bool:
        return False

    def piece(self, token: int) -> str:
        return self._words[token]

    def save(self, path: str | os.PathLike[str]) -> None:
        write_atomically(Path(path), "".join(f"{word}\n" for word in self._words[len(_SPECIAL) :]).encode())


_KINDS: dict[str, type[SentencePieces | Words]] = {
    kind.kind: kind for kind in (WordFinalPieces, SentencePieces, ImportedPieces, Words)
}


def leaves_word(vocabulary: Vocabulary, token: int) -> bool:
    """Whether this id leaves the word before it as it is: it begins another one, attaches to it as a comma does, or ends the sentence."""
    return token == EOS or vocabulary.opens_word(token) or vocabulary.attaches(token)


def leaving(vocabulary: Vocabulary) -> list[bool] | None:
    """For each id whether it leaves the word before it as it is; None if the vocabulary itself marks the end of words."""
    return None if vocabulary.marks_ends else [leaves_word(vocabulary, token) for token in range(len(vocabulary))]


def starts_word(vocabulary: Vocabulary, token: int, before: int | None) -> bool:
    """Whether a new word begins with `token` after `before` (None at the start of a sentence)."""
    return before is None or (vocabulary.closes_word(before) and vocabulary.opens_word(token))


def load_vocabulary(path: str | os.PathLike[str], kind: str) -> Vocabulary:
    """Load a vocabulary file of the given kind."""
    if kind not in _KINDS:
        raise unknown("kind of vocabulary", kind, _KINDS)
    return _KINDS[kind].load(path)


def alike(one: Vocabulary, other: Vocabulary) -> bool:
    """Whether ids mean the same in both vocabularies."""
    return len(one) == len(other) and all(one.piece(token) == other.piece(token) for token in range(len(one)))


_ATTACHED = re.compile(r"[.,!?;:%…)\]}»”]+|n['’]t|['’](?:s|S|t|re|ve|ll|d|m)")
_PARTS = re.compile(r"['’]\w+|\w+(?:[-.]\w+)*|[^\w\s]")
_SIGNS = re.compile(r"[.,!?;:%…)\]}»”]+")
# characters of scripts without spaces: text ending in one is settled
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff01-\uff60]")
_OPENING = re.compile(r"[(\[{«“„¿¡$£]+")


def _spaced(words: Iterable[str]) -> Iterator[str]:
    """Tokenised words, each with a space before it unless it is closing punctuation or follows opening punctuation."""
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
    """Whether pieces, trainer and normaliser are all there; sentencepiece would accept a file cut between two pieces."""
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


def _unmarked(text: str) -> str:
    """The text with the characters replaced that serve as marks inside the vocabulary."""
    return text.replace(_SPACE, "_").replace(_GLUE, "■")


_TRAILING = re.compile(r"(?<=.)[.,;:!?…)\]}»”“\"'’%]+$")


def _detached(word: str) -> list[str]:
    """A word and its trailing punctuation, each sign marked: Haus!" → Haus, ￭!, ￭"."""
    core = _TRAILING.sub("", word)
    return [core, *(_GLUE + sign for sign in word[len(core) :])]


def _read(path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ModelError(f"cannot read the vocabulary '{path}': {reason}; expected a file of a model folder") from error
