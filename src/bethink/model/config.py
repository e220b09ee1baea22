"""The sizes and choices that make a model, as they stand in a model folder's config.json."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

from bethink.checked import build, require_least, require_table
from bethink.errors import UsageError
from bethink.text import EOS

LONGEST = 1024  # positions a model knows; longer sentences are cut before they reach it
LONGEST_PROMPT = 4  # ids before a source or a translation
CONVERTED = ("activation", "positions", "output_bias", "begin", "tag")  # settings that only `convert` makes

Norm = Literal["post", "pre"]
Share = Literal["all", "target", "none"]
Entry = Literal["scaled", "joint"]
Activation = Literal["relu", "swish"]
Positions = Literal["fairseq", "fairseq-2", "marian"]


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
        sizes = ("translated", "untranslated", "width", "iterations", "hidden")
        require_least("model.capsules", self, dict.fromkeys(sizes, 1))
        if not 0 < self.scale < math.inf:
            raise UsageError(f"model.capsules.scale is {self.scale}, but must be a number above 0")

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
    causal: bool = True  # a causal encoder keeps what it computed; a bidirectional one encodes every prefix again
    capsules: CapsuleConfig | None = None
    judge: int = 0  # hidden units of the network that says whether a word will stand; 0: there is none
    # what only models of other tools have: see convert
    activation: Activation = "relu"  # of the feed-forward layers
    positions: Positions = "fairseq"  # how the sines are arranged, and whether they begin at 0 or at 2
    output_bias: bool = False  # added to the logits
    begin: tuple[int, ...] = (EOS,)  # what the decoder gets before the translation
    tag: tuple[int, ...] = ()  # what the encoder gets before the source

    def __post_init__(self) -> None:
        vocabularies = {"source_vocabulary": 0, "target_vocabulary": 0}  # 0 in a recipe, where they are not known yet
        sizes = {"hidden": 1, "heads": 1, "encoder_layers": 1, "decoder_layers": 1, "width": 4, "judge": 0}
        require_least("model", self, vocabularies | sizes)
        if self.width % self.heads or self.width % 2:
            raise UsageError(f"model.width is {self.width}, but must be even and a multiple of heads = {self.heads}")
        if not 0 <= self.dropout < 1:
            raise UsageError(f"model.dropout is {self.dropout}, but must be at least 0 and below 1")
        _require_ids("model.begin", self.begin, self.target_vocabulary, least=1)
        _require_ids("model.tag", self.tag, self.source_vocabulary, least=0)
        if self.share == "all" and self.source_vocabulary != self.target_vocabulary:
            raise UsageError(
                "share = 'all' needs one vocabulary for both languages; use 'target' or 'none', or a joint vocabulary"
            )

    @property
    def converted(self) -> bool:
        """Whether the model comes from another tool, so that no recipe can describe it."""
        return any(getattr(self, name) != getattr(ModelConfig, name) for name in CONVERTED)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Any) -> ModelConfig:
        """What `to_dict` gave, read back from a file that anybody may have changed."""
        capsules = require_table("model", values).get("capsules")
        if isinstance(capsules, dict):
            values = values | {"capsules": {"entry": "joint"} | capsules}  # what models without this setting have
        return build(cls, values, "model")


def _require_ids(name: str, ids: tuple[int, ...], vocabulary: int, least: int) -> None:
    """A few ids of a vocabulary, whose size may not be known yet: 0."""
    known = all(0 <= token < (vocabulary or math.inf) for token in ids)
    if not known or not least <= len(ids) <= LONGEST_PROMPT:
        raise UsageError(f"{name} is {ids!r}, but must be {least} to {LONGEST_PROMPT} ids of the vocabulary")
