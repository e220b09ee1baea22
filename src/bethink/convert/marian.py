"""Marian's own files: one .npz with weights and options, and its vocabulary, as .yml beside two sentencepiece models or as .spm.

Weights are brought into the names of `transformers`, whose Marian is the same network. Marian stores matrices transposed, and begins a
translation with a zero vector, which becomes a piece of its own here.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import yaml
from torch import Tensor

from bethink.convert.hub import Foreign, by_id, file_bytes, marian_tag, refuse_source, sizes_of, tags_among, weights_of
from bethink.convert.pieces import Inventory, listed
from bethink.errors import ModelError

Arrays = dict[str, npt.NDArray[Any]]

OPTIONS = "special:model.yml"  # the name of the options among the weights
DECODER = "decoder.yml"  # names the files of a model
ZERO = "<zero vector>"
# What an option must be, if the model has it. Options that are not named here do not change the network, or add weights, which is noticed.
PLAIN: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "transformer-preprocess": ("",),
    "transformer-postprocess": ("dan",),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-postprocess-top": ("",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-no-projection": (False,),
    "transformer-train-position-embeddings": (False,),
    "transformer-tied-layers": ([], None),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-decoder-dim-ffn": (0,),
    "right-left": (False,),
    "ulr": (False,),
    "lemma-dim-emb": (0,),
    "input-types": ([], None, ["sequence"]),
}
SIZES = ("dim-emb", "transformer-dim-ffn", "transformer-heads", "transformer-ffn-activation", "enc-depth", "dec-depth")
ATTENTION = {
    **{f"W{part}": f"{part}_proj.weight" for part in "qkv"},
    **{f"b{part}": f"{part}_proj.bias" for part in "qkv"},
    "Wo": "out_proj.weight",
    "bo": "out_proj.bias",
}
FEED = {
    **{f"ffn_{kind}{n}": f"fc{n}.{name}" for kind, name in (("W", "weight"), ("b", "bias")) for n in (1, 2)},
    "ffn_ffn_ln_scale": "final_layer_norm.weight",
    "ffn_ffn_ln_bias": "final_layer_norm.bias",
}
TABLES = {"Wemb": "shared.weight", "encoder_Wemb": "encoder.embed_tokens.weight"}
TABLES |= {"decoder_Wemb": "decoder.embed_tokens.weight", "decoder_ff_logit_out_Wt": "lm_head.weight"}
BIAS = "decoder_ff_logit_out_b"


def read(folder: Path, source_language: str | None, target_language: str | None) -> Foreign:
    """The model of a folder with an .npz; the target language is for one that writes several."""
    refuse_source(source_language)
    named = _parsed(file_bytes(folder / DECODER), folder / DECODER) if (folder / DECODER).is_file() else {}
    path = _model_file(folder, named)
    arrays = _arrays(path)
    options = _options(arrays, path)
    vocabularies = _vocabulary_files(folder, named)
    source, other = (_inventory(vocabularies[n]) for n in (0, -1))
    shared = "Wemb" in arrays
    if shared and source.pieces != other.pieces:
        raise ModelError(f"{path} has one embedding for both languages, but {folder} has two different vocabularies")
    config = _config(options, arrays, shared)
    theirs = dict(_renamed(arrays, path, (len(source.pieces), len(other.pieces))))
    inventory = source if shared else other
    by_itself = all(file.suffix == ".spm" for file in vocabularies)
    models = (vocabularies[0], vocabularies[-1]) if by_itself else (folder / "source.spm", folder / "target.spm")
    return Foreign(
        kind="Marian",
        sizes=sizes_of(config, folder) | {"norm": "post", "positions": "marian"},
        weights=weights_of(theirs, config, folder, shared),
        source=source,
        target=inventory,
        source_model=file_bytes(models[0]),
        target_model=file_bytes(models[1]),
        begin=(ZERO,),
        tag=marian_tag(source, target_language, folder),
    )


# files


def _model_file(folder: Path, named: Mapping[str, Any]) -> Path:
    found = sorted(folder.glob("*.npz"))
    if models := named.get("models"):
        if len(models) > 1:
            raise ModelError(f"{folder / DECODER} names {len(models)} models, an ensemble; expected one")
        return folder / Path(str(models[0])).name
    if len(found) > 1:
        raise ModelError(
            f"{folder} has {len(found)} models ({', '.join(path.name for path in found)}) and no {DECODER} that names one; "
            "leave only one"
        )
    return found[0]


def _vocabulary_files(folder: Path, named: Mapping[str, Any]) -> list[Path]:
    """One file for both languages, or one for the source and one for the target."""
    if names := named.get("vocabs"):
        files = [folder / Path(str(name)).name for name in names]
    else:
        files = sorted({*folder.glob("*vocab*.yml"), *folder.glob("*vocab*.spm")})
    ordered = len(files) < 2 or bool(names) or ("src" in files[0].name and "trg" in files[1].name)
    if not 1 <= len(files) <= 2 or not ordered or len({file.suffix for file in files}) > 1:
        found = ", ".join(file.name for file in files) or "none"
        raise ModelError(
            f"{folder} has the vocabularies {found}; expected vocab.yml or vocab.spm, or one each for src and trg, "
            f"or a {DECODER} that names them"
        )
    return files


def _arrays(path: Path) -> Arrays:
    """All arrays of an .npz, never unpickled."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, TypeError) as error:
        raise ModelError(f"cannot read {path} as Marian's weights: {error}; download it again") from error


def _options(arrays: Arrays, path: Path) -> dict[str, Any]:
    if OPTIONS not in arrays:
        raise ModelError(f"{path} has no {OPTIONS}; expected a model written by Marian")
    options = _parsed(arrays.pop(OPTIONS).tobytes().rstrip(b"\0"), path)
    for name, plain in PLAIN.items():
        if options.get(name, plain[0]) not in plain:
            raise ModelError(f"{path} was trained with {name} = {options[name]!r}, which cannot be converted")
    if missing := [name for name in SIZES if name not in options]:
        raise ModelError(f"the options in {path} lack {', '.join(missing)}")
    return options


def _parsed(text: bytes, path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ModelError(f"the options in {path} are not YAML: {error}") from error
    if not isinstance(found, dict):
        raise ModelError(f"the options in {path} are {type(found).__name__}, expected names and values")
    return found


# vocabulary


def _inventory(path: Path) -> Inventory:
    pieces = listed(file_bytes(path)) if path.suffix == ".spm" else by_id(path, _ids(path))
    try:
        special = (len(pieces), pieces.index("</s>"), pieces.index("<unk>"))
    except ValueError as error:
        raise ModelError(f"the vocabulary {path} has no end of sentence or no <unk>: {error}") from error
    return Inventory([*pieces, ZERO], special, frozenset(tags_among(pieces)))


def _ids(path: Path) -> dict[str, int]:
    """The lines `piece: id` of a vocabulary; a reader of YAML takes some pieces for something else."""
    ids = {}
    for line in file_bytes(path).decode("utf-8", "replace").split("\n"):
        if not line.strip():
            continue
        text, _, number = line.rstrip("\r").rpartition(":")
        if not number.strip().isdigit():
            raise ModelError(f"{path} has the line {line[:60]!r}; expected a piece and its id, as in '\"▁the\": 5'")
        ids[_unquoted(text)] = int(number)
    return ids


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:  # YAML allows more escapes than JSON
            return re.sub(r"\\(.)", r"\1", text[1:-1])
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return text


# sizes and weights


def _config(options: Mapping[str, Any], arrays: Arrays, shared: bool) -> dict[str, Any]:
    """The options by the names of `transformers`."""
    sides = {
        f"{side}_{name}": options[option]
        for side in ("encoder", "decoder")
        for name, option in (("ffn_dim", "transformer-dim-ffn"), ("attention_heads", "transformer-heads"))
    }
    return sides | {
        "model_type": "marian",
        "d_model": options["dim-emb"],
        "encoder_layers": options["enc-depth"],
        "decoder_layers": options["dec-depth"],
        "activation_function": options["transformer-ffn-activation"],
        "dropout": options.get("transformer-dropout", 0.1),
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": shared,
        "tie_word_embeddings": not any(name.startswith("decoder_ff_logit_out_W") for name in arrays),
    }


def _renamed(arrays: Arrays, path: Path, sizes: tuple[int, int]) -> Iterator[tuple[str, Tensor]]:
    """All weights by the names of `transformers`; a weight with another name belongs to a network that bethink does not have."""
    for name, array in arrays.items():
        if array.dtype.kind != "f":
            raise ModelError(
                f"{name} in {path} holds {array.dtype}; expected numbers as Marian trains them, not packed"
            )
        weight = torch.from_numpy(array.astype(np.float32))
        if name in TABLES or name == "decoder_ff_logit_out_W":
            table = weight.T if name == "decoder_ff_logit_out_W" else weight
            size = sizes[0 if name == "encoder_Wemb" else 1] - 1
            yield TABLES.get(name, "lm_head.weight"), torch.cat([table[:size], torch.zeros(1, table.shape[1])])
        elif name == BIAS:
            yield "final_logits_bias", torch.cat([weight.flatten()[: sizes[1] - 1], torch.zeros(1)])
        elif theirs := _layer(name):
            matrix = theirs.endswith(("proj.weight", "fc1.weight", "fc2.weight"))
            yield theirs, weight.T.contiguous() if matrix else weight.flatten()
        else:
            raise ModelError(
                f"{path} has the weight {name}, which a plain Transformer does not have, and cannot be converted"
            )


def _layer(name: str) -> str | None:
    """`encoder_l1_self_Wq` → `encoder.layers.0.self_attn.q_proj.weight`."""
    found = re.fullmatch(r"(encoder|decoder)_l([1-9][0-9]*)_(.+)", name)
    if not found:
        return None
    layer, rest = f"{found[1]}.layers.{int(found[2]) - 1}", found[3]
    for ours, theirs in (("self", "self_attn"), ("context", "encoder_attn")):
        part = rest.removeprefix(f"{ours}_")
        if part != rest and part in ATTENTION:
            return f"{layer}.{theirs}.{ATTENTION[part]}"
        if rest in (f"{ours}_Wo_ln_scale", f"{ours}_Wo_ln_bias"):
            return f"{layer}.{theirs}_layer_norm.{'weight' if rest.endswith('scale') else 'bias'}"
    return f"{layer}.{FEED[rest]}" if rest in FEED else None
