"""What the capsules must be able to tell: the words of the translated prefix, the words read, and their mean states.

These heads exist for training and analysis only; translating never needs them. Shapes: B stream, T target, I source, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bethink.model.capsules import Routing
from bethink.model.config import ModelConfig
from bethink.model.layers import linear


class Constraints(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        capsules = config.capsules
        assert capsules is not None, "constraints belong to models with capsules"
        translated, untranslated = capsules.translated * capsules.width, capsules.untranslated * capsules.width
        self.target_bag = linear(translated, config.width)
        self.source_bag = linear(translated + untranslated, config.width)
        self.past = linear(config.width, translated, bias=False)  # Wᵀ
        self.unread = linear(config.width, untranslated, bias=False)  # Wᵁ of the encoder
        self.future = linear(config.width, untranslated, bias=False)  # Wᵁ of the decoder

    def target_words(self, routing: Routing) -> Tensor:
        """B T D: matched against the target embeddings, says which words have been written (Eq. 8)."""
        return self.target_bag(routing.translated).tanh()  # type: ignore[no-any-return]

    def source_words(self, routing: Routing) -> Tensor:
        """B T D: matched against the source embeddings, says which words have been read (Eq. 8)."""
        together = torch.cat([routing.translated, routing.untranslated], dim=-1)
        return self.source_bag(together).tanh()  # type: ignore[no-any-return]
