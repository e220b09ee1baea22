"""A converted model learns to judge its tokens as any other model does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bethink import Translator
from bethink.export.restore import load_any
from bethink.folder import Folder
from bethink.policy import Action
from bethink.text import EOS
from bethink.train import judge as judging
from bethink.train.judge import LiveTranslation, gather, judge, print_nothing
from bethink.train.units import count_tokens
from tests.convert.hub import sentences


def test_a_judge_is_trained_and_asked(converted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "LEAST", 40)
    monkeypatch.setattr(judging, "MOST", 40)
    lines = [pair.source for pair in sentences(80, seed=31)]
    verdict = judge(converted, lines, tmp_path / "judged", device="cpu", threads=1)
    assert verdict.examples > 50
    judged = Translator(tmp_path / "judged", threads=1)
    plain = Translator(converted, threads=1)
    assert str(judged.policy).startswith("weigh:")
    steps = next(judged.translate_many(lines[:1]))
    assert all(step.stability is not None for step in steps.writes)
    assert [one.text for one in judged.translate_many(lines, "wait-k:3")] == [
        one.text for one in plain.translate_many(lines, "wait-k:3")
    ]


def test_what_it_learns_from_is_what_the_model_proposes(converted: Path) -> None:
    """With every prefix equal to the whole source there is nothing to learn; with shorter ones, the rows are the streaming rows."""
    translator = Translator(converted, threads=1)
    line = sentences(1, seed=33)[0].source
    steps = next(translator.translate_many([line], "wait-k:2")).steps
    reads = [step.token for step in steps if step.action is Action.READ]
    writes = [step for step in steps if step.action is Action.WRITE]
    live = LiveTranslation(reads, [step.token for step in writes], [step.read for step in writes])
    model = load_any(Folder.open(converted)).eval()
    found = gather(model, [live] * 20, count_tokens, 1, print_nothing)
    assert 0 < found.stable.float().mean() < 1
    sure = {round(float(step.confidence or 0), 2) for step in writes if step.token != EOS}
    seen = {round(float(value), 2) for value in found.features[:, model.config.width].float().exp()}
    assert sure & seen, "some rows have the very prefix they were written with"
    assert torch.isfinite(found.features).all()
