"""What the capsules must be able to tell: the words of the translated prefix, the words read or to come, and their mean states.

These heads exist for training and analysis only; translating never needs them. Shapes: B stream, T target, I source, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from bethink.errors import ModelError
from bethink.folder import Folder
from bethink.model.capsules import Routing
from bethink.model.config import ModelConfig
from bethink.model.layers import linear
from bethink.model.transformer import Transformer
from bethink.model.weights import fill, load_model, load_tensors
from bethink.text import PAD

HEADS = "constraints.safetensors"  # in the model folder of a run

Ids = npt.NDArray[np.int64]
Untranslated = Literal["read", "coming"]


class Constraints(nn.Module):
    """The heads. What the untranslated capsules must tell: with `read`, as in the paper, together with the translated ones the words
    read; with `coming`, alone, the target words still to be written, so that nothing is gained by keeping translated words in them.
    """

    def __init__(self, config: ModelConfig, untranslated: Untranslated = "read") -> None:
        super().__init__()
        self.untranslated = untranslated
        capsules = config.capsules
        assert capsules is not None, "constraints belong to models with capsules"
        done, left = capsules.translated * capsules.width, capsules.untranslated * capsules.width
        self.target_bag = linear(done, config.width)
        if untranslated == "read":
            self.source_bag = linear(done + left, config.width)
        else:
            self.coming_bag = linear(left, config.width)
        self.past = linear(config.width, done, bias=False)  # Wᵀ
        self.unread = linear(config.width, left, bias=False)  # Wᵁ of the encoder
        self.future = linear(config.width, left, bias=False)  # Wᵁ of the decoder

    def target_words(self, routing: Routing) -> Tensor:
        """B T D: matched against the target embeddings, says which words have been written (Eq. 8)."""
        return self.target_bag(routing.translated).tanh()  # type: ignore[no-any-return]

    def source_words(self, routing: Routing) -> Tensor:
        """B T D: matched against the source embeddings, says which words have been read (Eq. 8)."""
        together = torch.cat([routing.translated, routing.untranslated], dim=-1)
        return self.source_bag(together).tanh()  # type: ignore[no-any-return]

    def coming_words(self, routing: Routing) -> Tensor:
        """B T D: matched against the target embeddings, says which words are still to be written."""
        return self.coming_bag(routing.untranslated).tanh()  # type: ignore[no-any-return]


class ConstraintProbe:
    """The heads of a trained model, asked which words have been written and which have been read."""

    def __init__(self, model: Transformer, heads: Constraints) -> None:
        self._model, self._heads = model.eval(), heads.eval()

    @classmethod
    def load(cls, folder: Folder) -> ConstraintProbe:
        """From the averaged model of a run, where the heads lie beside the weights."""
        if not folder.has(HEADS):
            raise ModelError(
                f"the model in {folder.path} has no constraint heads, which only training leaves; give the folder of a PED run"
            )
        model, tensors = load_model(folder), load_tensors(folder.path / HEADS)
        if "source_bag.weight" not in tensors:
            raise ModelError(
                f"the model in {folder.path} was trained with losses.untranslated=coming: nothing in it names the words read"
            )
        heads = Constraints(model.config)
        fill(heads, tensors, folder.path / HEADS)
        return cls(model, heads)

    @torch.inference_mode()
    def likeliest(
        self, source: Sequence[int], target: Sequence[int], path: Sequence[int], written: int, read: int
    ) -> tuple[Ids, Ids]:
        """For each position the `written` likeliest words of the target so far and the `read` likeliest of the source."""
        found = self._model(torch.tensor([source]), torch.tensor([target]), torch.tensor([path]))
        assert found.routing is not None, "constraints belong to models with capsules"
        said = _top(self._heads.target_words(found.routing), self._model.target_embedding.weight, written)
        heard = _top(self._heads.source_words(found.routing), self._model.source_embedding.weight, read)
        return said, heard


def _top(states: Tensor, words: Tensor, count: int) -> Ids:
    logits = states[0] @ words.T
    logits[:, PAD] = -torch.inf
    return logits.topk(min(count, logits.shape[1] - 1), dim=-1).indices.numpy()
