"""What a model thinks of its live translations once it knows the whole source: by forced decoding of what was written.

Shapes: B sentence, T target, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.utils.rnn import pad_sequence

from bethink.analysis.calibration import Hindsight
from bethink.export.restore import load_any
from bethink.folder import Folder
from bethink.model.transformer import Transformer
from bethink.policy import Action
from bethink.text import PAD
from bethink.trace import Translation
from bethink.train.judge import accepted, batched

ROWS = 512  # decoder rows computed at a time


class ForcedDecoder:
    """Weighs translations as the training of the judge does, with the same weights."""

    def __init__(self, model: Transformer) -> None:
        self._model = model.eval()

    @classmethod
    def load(cls, folder: Folder) -> ForcedDecoder:
        return cls(load_any(folder))

    def __call__(self, translations: Sequence[Translation]) -> list[list[Hindsight]]:
        """One for every WRITE of every translation; what was copied without the model is right."""
        found = [[Hindsight(right=True, kept=True)] * len(one.writes) for one in translations]
        read = [n for n, one in enumerate(translations) if one.writes and one.writes[0].reason.code != "copied"]
        length = lambda n: len(translations[n].steps)
        for batch in batched(sorted(read, key=length), length, ROWS):
            for n, weighed in zip(batch, self._weigh([translations[n] for n in batch]), strict=True):
                found[n] = weighed
        return found

    @torch.inference_mode()
    def _weigh(self, translations: Sequence[Translation]) -> list[list[Hindsight]]:
        source, target = (
            pad_sequence(
                [torch.tensor([step.token for step in one.steps if step.action is action]) for one in translations],
                batch_first=True,
                padding_value=PAD,
            )
            for action in (Action.READ, Action.WRITE)
        )
        lengths = (source != PAD).sum(dim=1, keepdim=True)
        output = self._model.along(source, target, lengths.expand_as(target)).output
        places = torch.arange(target.shape[1]) + len(self._model.config.begin) - 1
        scores = self._model.scores(output, places.expand_as(target))  # B T V
        right, kept = accepted(scores, target), scores.argmax(dim=-1) == target
        return [
            [
                Hindsight(*both)
                for both in zip(*(flags[n, : len(one.writes)].tolist() for flags in (right, kept)), strict=True)
            ]
            for n, one in enumerate(translations)
        ]
