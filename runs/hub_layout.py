"""Write a bethink model as the hub lays out NLLB: python runs/hub_layout.py MODEL FOLDER [--languages deu_Latn eng_Latn]

For experiments with `bethink convert` where no model can be downloaded. The model is pre-norm with ReLU and one vocabulary for both
languages, as the bundled one is. A model with capsules gets one more decoder layer in their place: their feed-forward layer, whose norm
hardly sees them, as a layer without attention. The encoder of the result is bidirectional and its positions begin elsewhere, so a model
that was neither trained with a bidirectional encoder nor converted before must be trained further before it translates again.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import torch
from torch import Tensor
from transformers import M2M100Config, M2M100ForConditionalGeneration

from bethink.convert.hub import SHARED_PIECES
from bethink.convert.pieces import ModelProto
from bethink.export.restore import load_any
from bethink.folder import Folder, find
from bethink.model.transformer import Transformer

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("model")
    made.add_argument("folder", type=Path)
    made.add_argument("--languages", nargs=2, default=["deu_Latn", "eng_Latn"], metavar="NAME")
    options = made.parse_args()
    write(Folder.open(find(options.model)), options.folder, options.languages)


@torch.no_grad()
def write(folder: Folder, to: Path, languages: list[str]) -> None:
    model = load_any(folder).eval()
    to.mkdir(parents=True)
    vocabulary = ModelProto.FromString((folder.path / folder.config["source"]["file"]).read_bytes())
    names = [piece.piece for piece in vocabulary.pieces]
    added = {"<s>", *languages}  # by the conversion of an earlier model
    own = [name for name in names[3:] if not name.startswith(("<filler ", "<madeup ")) and name not in added]
    theirs = [*SPECIAL, *own, *languages]
    rows = _rows(names, theirs)
    kept = [piece for piece in vocabulary.pieces if piece.piece in {*names[:3], *own}]
    del vocabulary.pieces[:]
    vocabulary.pieces.extend(kept)
    config = M2M100Config(
        vocab_size=len(theirs),
        d_model=model.config.width,
        encoder_layers=model.config.encoder_layers,
        decoder_layers=model.config.decoder_layers + (model.capsules is not None),
        encoder_attention_heads=model.config.heads,
        decoder_attention_heads=model.config.heads,
        encoder_ffn_dim=model.config.hidden,
        decoder_ffn_dim=model.config.hidden,
        dropout=model.config.dropout,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=1024,
    )
    made = M2M100ForConditionalGeneration(config)
    state = made.state_dict()
    renamed = _renamed(model) | {"model.shared.weight": model.source_embedding.weight[rows]}
    for name, tensor in renamed.items():
        state[name].copy_(tensor)
    made.tie_weights()
    made.save_pretrained(to)
    (to / SHARED_PIECES).write_bytes(vocabulary.SerializeToString())
    (to / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": languages}))


def _rows(names: list[str], theirs: list[str]) -> list[int]:
    """Our row of each of their pieces; a language that we have none for gets that of the end of a sentence."""
    ours = {name: n for n, name in enumerate(names)}
    return [ours.get(name, ours["</s>"]) for name in theirs]


def _renamed(model: Transformer) -> dict[str, Tensor]:
    """The weights by transformers' names, without the embedding."""
    ours = model.state_dict()
    found: dict[str, Tensor] = {}

    def put(theirs: str, name: str, part: slice = slice(None)) -> None:
        for kind in ("weight", "bias"):
            found[f"model.{theirs}.{kind}"] = ours[f"{name}.{kind}"][part]

    width = model.config.width
    for side in ("encoder", "decoder"):
        for n in range(getattr(model.config, f"{side}_layers")):
            layer, mine = f"{side}.layers.{n}", f"{side}.{n}"
            attentions = {"self_attn": f"{mine}.itself.attention"}
            norms = {"self_attn_layer_norm": f"{mine}.itself.residual", "final_layer_norm": f"{mine}.feed.residual"}
            if side == "decoder":
                attentions["encoder_attn"], norms["encoder_attn_layer_norm"] = f"{mine}.cross", f"{mine}.residual"
            for theirs, name in attentions.items():
                put(f"{layer}.{theirs}.q_proj", f"{name}.query")
                put(f"{layer}.{theirs}.k_proj", f"{name}.memory", slice(0, width))
                put(f"{layer}.{theirs}.v_proj", f"{name}.memory", slice(width, None))
                put(f"{layer}.{theirs}.out_proj", f"{name}.out")
            for theirs, name in norms.items():
                put(f"{layer}.{theirs}", f"{name}.norm")
            put(f"{layer}.fc1", f"{mine}.feed.into")
            put(f"{layer}.fc2", f"{mine}.feed.out")
    put("encoder.layer_norm", "encoder_norm")
    put("decoder.layer_norm", "output_norm")
    if model.capsules is not None:
        found |= _last_layer(model, f"model.decoder.layers.{model.config.decoder_layers}")
    return found


def _last_layer(model: Transformer, layer: str) -> dict[str, Tensor]:
    """The capsules' feed-forward layer on the decoder state alone: capsules are near 0 beside it, so its norm divides by less."""
    capsules, width, hidden = model.capsules, model.config.width, model.config.hidden
    assert capsules is not None
    weight, size = capsules.feed_in.weight, capsules.config.hidden
    into, out = torch.zeros(hidden, width), torch.zeros(width, hidden)
    bias = torch.zeros(hidden)
    into[:size], out[:, :size] = weight[:, :width], capsules.feed_out.weight
    scale, shift, beside = math.sqrt(weight.shape[1] / width), torch.zeros(width), torch.zeros(weight.shape[1] - width)
    gain = torch.ones(width)
    if capsules.config.entry == "joint":
        gain, shift, beside = (
            capsules.feed_norm.weight[:width] * scale,
            *capsules.feed_norm.bias.split([width, weight.shape[1] - width]),
        )
    bias[:size] = capsules.feed_in.bias + weight[:, width:] @ beside
    nothing = {
        f"{layer}.{name}.out_proj.{kind}": torch.tensor(0.0)
        for name in ("self_attn", "encoder_attn")
        for kind in ("weight", "bias")
    }
    return nothing | {
        f"{layer}.final_layer_norm.weight": gain,
        f"{layer}.final_layer_norm.bias": shift,
        f"{layer}.fc1.weight": into,
        f"{layer}.fc1.bias": bias,
        f"{layer}.fc2.weight": out,
        f"{layer}.fc2.bias": capsules.feed_out.bias,
    }


if __name__ == "__main__":
    main()
