"""A model's sizes are checked once, wherever they come from."""

from __future__ import annotations

from typing import Any

import pytest

from bethink.errors import UsageError
from bethink.model.config import CapsuleConfig, ModelConfig


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"width": 2}, "model.width is 2, but must be a number of at least 4"),
        ({"width": 7, "heads": 1}, "model.width is 7, but must be even"),
        ({"width": 8, "heads": 3}, "a multiple of heads = 3"),
        ({"heads": 0}, "model.heads is 0"),
        ({"heads": -2}, "model.heads is -2"),
        ({"hidden": -1}, "model.hidden is -1"),
        ({"decoder_layers": 0}, "model.decoder_layers is 0"),
        ({"encoder_layers": True}, "model.encoder_layers is True"),
        ({"dropout": 1}, "model.dropout is 1"),
        ({"dropout": "x"}, "model.dropout is 'x'"),
        ({"source_vocabulary": -1}, "model.source_vocabulary is -1"),
        ({"source_vocabulary": 9, "share": "all"}, "one vocabulary for both"),
        ({"share": "some"}, "no model.share named 'some'"),
    ],
)
def test_sizes_that_make_no_model(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        ModelConfig.from_dict({"source_vocabulary": 0, "target_vocabulary": 0, **settings})


@pytest.mark.parametrize("name", ["translated", "untranslated", "width", "iterations", "hidden"])
def test_there_is_at_least_one_of_everything_in_capsules(name: str) -> None:
    with pytest.raises(UsageError, match=f"model.capsules.{name} is 0, but must be a number of at least 1"):
        CapsuleConfig(**{name: 0})


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_routing_is_scaled_by_something(scale: float) -> None:
    with pytest.raises(UsageError, match="model.capsules.scale is"):
        CapsuleConfig(scale=scale)


@pytest.mark.parametrize("capsules", [None, CapsuleConfig(width=4)])
def test_what_is_written_is_read_back(capsules: CapsuleConfig | None) -> None:
    config = ModelConfig(9, 9, width=8, heads=2, capsules=capsules)
    assert ModelConfig.from_dict(config.to_dict()) == config
