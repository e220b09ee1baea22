"""The constraint heads of training, asked after it: which words do the capsules hold to be written, and which read?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bethink.errors import ModelError
from bethink.folder import Folder
from bethink.model.constraints import Constraints
from bethink.model.transformer import Transformer
from bethink.model.weights import fill, load_model, load_tensors
from bethink.text import PAD

HEADS = "constraints.safetensors"

Ids = npt.NDArray[np.int64]


class ConstraintProbe:
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
