"""Small random models of every build, sharp enough that their choices are not ties."""

from __future__ import annotations

import torch

from bethink.model.config import CapsuleConfig, ModelConfig
from bethink.model.transformer import Transformer
from bethink.text import EOS

SMALL = {"width": 16, "hidden": 32, "heads": 4, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}
CAPSULES = CapsuleConfig(width=8, hidden=24)
JOINT = CapsuleConfig(width=8, hidden=24, entry="joint")
BUILDS = {
    "post": ModelConfig(20, 20, **SMALL, capsules=CAPSULES),
    "pre": ModelConfig(20, 20, **SMALL, norm="pre", capsules=CAPSULES),
    "pre-joint": ModelConfig(20, 20, **SMALL, norm="pre", capsules=JOINT),
    "post-joint": ModelConfig(20, 20, **SMALL, capsules=JOINT),
    "separate": ModelConfig(20, 24, **SMALL, share="none", capsules=CAPSULES),
    "deep": ModelConfig(
        20, 24, **{**SMALL, "encoder_layers": 3, "decoder_layers": 1}, share="target", capsules=CAPSULES
    ),
    "plain": ModelConfig(20, 20, **SMALL),
    "judged": ModelConfig(20, 20, **SMALL, norm="pre", capsules=CAPSULES, judge=16),
    "plain-judged": ModelConfig(20, 20, **SMALL, judge=16),
    "one": ModelConfig(
        20, 20, **SMALL, capsules=CapsuleConfig(translated=1, untranslated=3, width=4, iterations=2, hidden=8)
    ),
}

FOREIGN = {  # what `convert` makes of other tools' models
    "norm": "pre",
    "activation": "swish",
    "positions": "marian",
    "output_bias": True,
    "begin": (EOS, 7),
    "tag": (9,),
}


def random_model(config: ModelConfig, seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    model = Transformer(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=2.0 / parameter.shape[-1] ** 0.5)
        for name, parameter in model.named_parameters():
            if name.startswith("judge.") and parameter.dim() == 1:
                parameter.normal_()
            if name == "output_bias":
                parameter.normal_(std=0.5)
    return model.eval()
