"""Models without capsules show their attention, and call it that; on the toy language, whose alignment is known, it is mostly right."""

from __future__ import annotations

from pathlib import Path

import pytest

from bethink import Translator
from bethink.cli import main
from bethink.cli.explain import attended
from bethink.cli.words import tell
from tests.convert.hub import sentences


def test_attention_points_at_the_words_translated(able: Path) -> None:
    """Counted over words that were translated rightly, with the whole source: chance would find one in seven."""
    translator = Translator(able, threads=1)
    pairs = [pair for pair in sentences(60, seed=41) if pair.alignment]
    right = found = 0
    for pair, translation in zip(
        pairs, translator.translate_many([pair.source for pair in pairs], "offline"), strict=True
    ):
        if translation.text != pair.target:
            continue
        for place, written in enumerate(tell(translator.target, translation.steps)):
            links = {pair.source.split()[source] for source, target in pair.alignment if target == place}
            best = max(attended(translation, written.steps), key=lambda named: named[1], default=("", 0.0))
            right, found = right + (best[0] in links), found + bool(links)
    assert found > 150
    assert right / found > 0.7


def test_every_step_has_a_share_for_each_token_read(able: Path) -> None:
    """The tag that the model reads first is left out, so the shares add up to at most 1."""
    translation = next(Translator(able, threads=1).translate_many([sentences(1, seed=3)[0].source], "wait-k:2"))
    for step in translation.writes:
        assert len(step.attention) == step.read
        assert 0 < sum(step.attention) <= 1 + 1e-5
        assert not step.degrees
    assert any("attention" in step.to_dict() for step in translation.writes)


def test_explain_names_it(able: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "attention.svg"
    assert main(["explain", sentences(1, seed=3)[0].source, "--model", str(able), "--out", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "attention" in printed
    assert "now translated" not in printed
    assert picture.stat().st_size > 1000
