"""The sizes and choices that make a model, as they stand in a model folder's config.json."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from bethink.errors import UsageError, unknown

LONGEST = 1024  # positions a model knows; longer sentences are cut before they reach it

Norm = Literal["post", "pre"]
Share = Literal["all", "target", "none"]
Entry = Literal["scaled", "joint"]


@dataclass(frozen=True)
class CapsuleConfig:
    """Guided dynamic routing: J translated and N untranslated capsules fed by `iterations` rounds of routing."""

    translated: int = 2
    untranslated: int = 2
    width: int = 256
    iterations: int = 3
    scale: float = 1.0  # of each routing update; the authors' code has 1/sqrt(width), which keeps d within 0.44 … 0.56
    hidden: int = 1024  # of the layer that feeds the capsules back into the output
    # How the capsules meet the decoder state on their way back to it. joint: one LayerNorm over both, as released, where the long state
    # leaves the capsules almost no weight (0.02 % in pre-norm models). scaled: the normalised state beside capsules scaled to its size.
    entry: Entry = "scaled"

    def __post_init__(self) -> None:
        for name in ("translated", "untranslated", "width", "iterations", "hidden"):
            _require_whole(f"model.capsules.{name}", getattr(self, name), least=1)
        _require_number("model.capsules.scale", self.scale)
        if self.scale <= 0:
            raise UsageError(f"model.capsules.scale is {self.scale}, but must be above 0")
        if self.entry not in get_args(Entry):
            raise unknown("way in for capsules", str(self.entry), get_args(Entry))

    @property
    def count(self) -> int:
        return self.translated + self.untranslated


@dataclass(frozen=True)
class ModelConfig:
    source_vocabulary: int
    target_vocabulary: int
    width: int = 512
    hidden: int = 2048
    heads: int = 8
    encoder_layers: int = 6
    decoder_layers: int = 6
    dropout: float = 0.3
    norm: Norm = "post"
    share: Share = "all"  # embeddings: source = target = output, only target = output, or all separate
    causal: bool = True  # a causal encoder reads word by word; a bidirectional one only whole sentences
    capsules: CapsuleConfig | None = None
    judge: int = 0  # hidden units of the network that says whether a word will stand; 0: there is none

    def __post_init__(self) -> None:
        self._check_sizes()
        if self.norm not in get_args(Norm):
            raise unknown("norm", str(self.norm), get_args(Norm))
        if self.share not in get_args(Share):
            raise unknown("way to share embeddings", str(self.share), get_args(Share))
        if not isinstance(self.causal, bool):
            raise UsageError(f"model.causal is {self.causal!r}, but must be true or false")
        if self.share == "all" and self.source_vocabulary != self.target_vocabulary:
            raise UsageError(
                "share = 'all' needs one vocabulary for both languages; use 'target' or 'none', or a joint vocabulary"
            )

    def _check_sizes(self) -> None:
        """Vocabularies may be 0: in a recipe they are not known yet."""
        least = {"source_vocabulary": 0, "target_vocabulary": 0, "width": 4, "judge": 0}
        for name in (*least, "hidden", "heads", "encoder_layers", "decoder_layers"):
            _require_whole(f"model.{name}", getattr(self, name), least.get(name, 1))
        if self.width % self.heads or self.width % 2:
            raise UsageError(f"model.width is {self.width}, but must be even and a multiple of heads = {self.heads}")
        _require_number("model.dropout", self.dropout)
        if not 0 <= self.dropout < 1:
            raise UsageError(f"model.dropout is {self.dropout}, but must be at least 0 and below 1")

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ModelConfig:
        """What `to_dict` gave, read back from a file that anybody may have changed."""
        settings = _settings(cls, values, "model setting")
        if missing := {"source_vocabulary", "target_vocabulary"} - settings.keys():
            raise UsageError(f"the model lacks {', '.join(sorted(missing))}")
        capsules = settings.get("capsules")
        if capsules is not None:
            known = {"entry": "joint"} | _settings(CapsuleConfig, capsules, "capsule setting")  # what older models have
            settings = settings | {"capsules": CapsuleConfig(**known)}
        return cls(**settings)


def _settings(cls: type[Any], values: Any, kind: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise UsageError(f"expected an object with each {kind}, found {values!r}")
    fields = sorted(field.name for field in dataclasses.fields(cls))
    for name in values:
        if name not in fields:
            raise unknown(kind, name, fields)
    return values


def _require_whole(name: str, value: Any, least: int) -> None:
    if type(value) is not int or value < least:
        raise UsageError(f"{name} is {value!r}, but must be a whole number of at least {least}")


def _require_number(name: str, value: Any) -> None:
    if type(value) not in (int, float) or not -math.inf < value < math.inf:
        raise UsageError(f"{name} is {value!r}, but must be a number")
