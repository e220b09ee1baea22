"""Live translations weighed with the whole source, in batches, against rows computed one sentence at a time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from bethink.cli import main
from bethink.model.config import ModelConfig
from bethink.policy import Action, Reason
from bethink.text import EOS, UNK
from bethink.trace import Step, Translation
from bethink.train import hindsight
from bethink.train.hindsight import ForcedDecoder
from bethink.train.judge import ACCEPTED
from tests.models import BUILDS, FOREIGN, SMALL, random_model
from tests.test_export import trained

FAMILY = {
    **{name: BUILDS[name] for name in ("pre", "plain")},
    "foreign": ModelConfig(20, 20, **SMALL, **FOREIGN, causal=False),
}


def said(source: list[int], target: list[int], reason: str = "sure") -> Translation:
    reads = [Step(Action.READ, token, n + 1, n + 1, 0) for n, token in enumerate(source)]
    writes = [Step(Action.WRITE, token, 1, 1, n + 1, reason=Reason(reason)) for n, token in enumerate(target)]
    return Translation.of([*reads[:1], *writes[:1], *reads[1:], *writes[1:]])


@pytest.mark.parametrize("build", FAMILY)
def test_every_token_is_compared_with_the_likeliest_one(build: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hindsight, "ROWS", 60)  # several batches
    model, chance = random_model(FAMILY[build], seed=4), random.Random(3)
    texts = [[[*chance.choices(range(3, 20), k=length), EOS] for _ in range(2)] for length in (9, 4, 13, 9, 20)]
    found = ForcedDecoder(model)([said(*text) for text in texts])
    begin, tag = model.config.begin, model.config.tag
    others = 0
    for (source, target), flags in zip(texts, found, strict=True):
        for n, token in enumerate(target):  # the naive way: one prefix at a time
            ids, inputs = torch.tensor([[*tag, *source]]), torch.tensor([[*begin, *target[:n]]])
            with torch.no_grad():
                output = model(ids, inputs, torch.full(inputs.shape, ids.shape[1])).output
                scores = model.scores(output, torch.arange(inputs.shape[1])[None])[0, -1]
            chances = scores.softmax(dim=-1)
            assert flags[n].right is bool(chances[token] >= ACCEPTED * chances.max())
            assert flags[n].kept is (int(scores.argmax()) == token)
            others += flags[n].right and not flags[n].kept
    assert others > 0
    assert any(not one.right for flags in found for one in flags)


def test_what_was_copied_without_the_model_is_right() -> None:
    [flags] = ForcedDecoder(random_model(BUILDS["plain"]))([said([UNK, EOS], [UNK, EOS], "copied")])
    assert [(one.right, one.kept) for one in flags] == [(True, True)] * 2


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = trained(tmp_path / "model", BUILDS["judged"], policy="wait-k:1")
    (tmp_path / "lines.de").write_text("a b c d .\nh g f e d c .\n", "utf-8")
    code = main(["analyze", "calibration", "--model", str(model), "--source", str(tmp_path / "lines.de")])
    told = capsys.readouterr()
    assert (code, told.err) == (0, "")
    assert "2 sentences of lines" in " ".join(told.out.split())
