"""The sizes and choices that make a model, as they stand in a model folder's config.json."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, get_args

from bethink.errors import UsageError, unknown

LONGEST = 1024  # positions a model knows; longer sentences are cut before they reach it

Norm = Literal["post", "pre"]
Share = Literal["all", "target", "none"]


@dataclass(frozen=True)
class CapsuleConfig:
    """Guided dynamic routing: J translated and N untranslated capsules fed by `iterations` rounds of routing."""

    translated: int = 2
    untranslated: int = 2
    width: int = 256
    iterations: int = 3
    scale: float = 1.0  # of each routing update; the authors' code has 1/sqrt(width), which keeps d within 0.44 … 0.56
    hidden: int = 1024  # of the layer that feeds the capsules back into the output

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

    def __post_init__(self) -> None:
        if self.width % self.heads or self.width % 2:
            raise UsageError(f"model width {self.width} must be even and a multiple of heads = {self.heads}")
        if self.norm not in get_args(Norm):
            raise unknown("norm", self.norm, get_args(Norm))
        if self.share not in get_args(Share):
            raise unknown("way to share embeddings", self.share, get_args(Share))
        if self.share == "all" and self.source_vocabulary != self.target_vocabulary:
            raise UsageError(
                "share = 'all' needs one vocabulary for both languages; use 'target' or 'none', or a joint vocabulary"
            )

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ModelConfig:
        fields = {f.name for f in dataclasses.fields(cls)}
        for name in values:
            if name not in fields:
                raise unknown("model setting", name, sorted(fields))
        capsules = values.get("capsules")
        return cls(**{**values, "capsules": CapsuleConfig(**capsules) if capsules else None})
