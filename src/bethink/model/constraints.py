"""What the capsules must be able to tell: the words of the translated prefix, the words read, and their mean states.

These heads exist for training and analysis only; translating never needs them. Shapes: B stream, T target, I source, D width.
"""

from __future__ import annotations

from collections.abc import Sequence

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
        model = load_model(folder)
        heads = Constraints(model.config)
        fill(heads, load_tensors(folder.path / HEADS), folder.path / HEADS)
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
