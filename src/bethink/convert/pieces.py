"""Vocabularies of other tools in bethink's order: padding, end of sentence and unknown first, then all other pieces.

The order is written into the sentencepiece model itself, so that a converted vocabulary is one file that cuts text exactly as before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sentencepiece import sentencepiece_model_pb2

from bethink.errors import ModelError
from bethink.text.vocabulary import ImportedPieces

ModelProto: Any = sentencepiece_model_pb2.ModelProto  # type: ignore[attr-defined]  # made at import
BLOCK = 256  # the size is a multiple of it, so that the decoder finds the likeliest token fast
NAMES = ("<pad>", "</s>", "<unk>")


@dataclass(frozen=True)
class Inventory:
    """The pieces of a model by its own ids, and the ids of its padding, end of sentence and unknown."""

    pieces: Sequence[str]
    special: tuple[int, int, int]
    silent: Collection[str]  # pieces without a text, such as language tags

    def order(self, *models: bytes) -> list[str]:
        """All pieces in bethink's order, with those that only the sentencepiece models have, and fillers, at the end."""
        ours = [*NAMES, *(piece for n, piece in enumerate(self.pieces) if n not in self.special)]
        known = set(ours)
        extra = dict.fromkeys(piece.piece for model in models for piece in _parsed(model).pieces if _is_text(piece))
        ours += [piece for piece in extra if piece not in known]
        return ours + [f"<filler {n}>" for n in range(-len(ours) % BLOCK)]

    def rows(self) -> list[int]:
        """The model's own ids in bethink's order."""
        return [*self.special, *(n for n in range(len(self.pieces)) if n not in self.special)]

    def number(self, piece: str) -> int:
        """bethink's id of a piece."""
        return self.rows().index(self.pieces.index(piece))


def vocabulary(model: bytes, order: Sequence[str], silent: Collection[str], name: str) -> ImportedPieces:
    """The sentencepiece model with its pieces, and those of the other language, in this order."""
    made = _parsed(model)
    known = {piece.piece: piece for piece in made.pieces if _is_text(piece)}
    pieces = []
    for number, text in enumerate(order):
        kind = ModelProto.SentencePiece
        if number < len(NAMES):
            made_up = kind(piece=text, type=kind.UNKNOWN if number == len(NAMES) - 1 else kind.CONTROL)
        else:
            without = text in silent or text == "<s>" or text.startswith("<filler ")
            made_up = known.get(text) or kind(piece=text, type=kind.UNUSED if without else kind.CONTROL)
        pieces.append(made_up)
    spec = made.trainer_spec
    spec.pad_id, spec.eos_id, spec.unk_id, spec.bos_id, spec.vocab_size = 0, 1, 2, -1, len(pieces)
    spec.pad_piece, spec.eos_piece, spec.unk_piece = NAMES
    copies = [ModelProto.SentencePiece.FromString(piece.SerializeToString()) for piece in pieces]
    del made.pieces[:]
    made.pieces.extend(copies)
    made.ClearField("self_test_data")
    return ImportedPieces(made.SerializeToString(), name)


def listed(model: bytes) -> list[str]:
    """The pieces of a sentencepiece model by its own ids."""
    return [piece.piece for piece in _parsed(model).pieces]


def _parsed(model: bytes) -> Any:
    made = ModelProto()
    try:
        made.ParseFromString(model)
    except Exception as error:  # protobuf's exception has another name in each of its implementations
        raise ModelError("the sentencepiece model is damaged; download it again") from error
    if made.trainer_spec.treat_whitespace_as_suffix:
        raise ModelError("the sentencepiece model marks the end of words; expected one that marks their beginning")
    return made


def _is_text(piece: Any) -> bool:
    return piece.type not in (piece.CONTROL, piece.UNKNOWN)
