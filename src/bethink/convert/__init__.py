"""Models of other tools as model folders: an offline model becomes one that translates word by word.

The model stays what it is: the same weights, the same vocabulary, the same translation of a whole sentence. Its encoder is
bidirectional, so it reads through `backend.reencode`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from bethink.convert import hub, marian
from bethink.convert.hub import Foreign
from bethink.convert.pieces import Inventory, vocabulary
from bethink.errors import ModelError, UsageError, unknown
from bethink.export import PRECISIONS, write
from bethink.model.config import ModelConfig
from bethink.model.transformer import Transformer
from bethink.model.weights import fill, unique_tensors
from bethink.policy import parse
from bethink.text import Vocabulary

README = "README.md"
POLICY = "wait-k:k=5,rate=1"  # until `bethink judge` has trained a judge
TWO_GIGABYTES = 2**31  # the most that an ONNX file can hold


def convert(
    folder: Path,
    to: Path,
    *,
    source: str | None = None,
    target: str | None = None,
    precision: str = "int8",
    policy: str = POLICY,
    name: str | None = None,
    weights: bool = False,
) -> Path:
    """Write the model of another tool's folder to the new model folder `to`, completely or not at all.

    `source` and `target` choose the languages of a multilingual model, by its own names for them. `weights` also writes the
    weights themselves, to train it further without the loss of int8.
    """
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    if to.exists():
        raise UsageError(f"{to} already exists; remove it or convert to another folder")
    chosen = str(parse(policy))
    found = _read(folder, source, target)
    about = _about(folder, found, source, target) | {"precision": precision}
    model, vocabularies = _fitted(found)
    del found  # its weights need as much memory as the model
    _require_size(model, precision)
    called = name or to.absolute().name
    return write(model, vocabularies, to, name=called, policy=chosen, about=about, weights=weights)


def _read(folder: Path, source: str | None, target: str | None) -> Foreign:
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}; give the folder of a downloaded model")
    if (folder / hub.CONFIG).is_file():
        return hub.read(folder, source, target)
    if any(folder.glob("*.npz")):
        return marian.read(folder, source, target)
    raise ModelError(f"{folder} has no {hub.CONFIG} and no .npz; expected a model as the hub or Marian lays it out")


def _fitted(found: Foreign) -> tuple[Transformer, dict[str, Vocabulary]]:
    """The model and its vocabularies in bethink's order of pieces."""
    models = {"source": found.source_model, "target": found.target_model}
    inventories = {"source": found.source, "target": found.target, "output": found.target}
    shared = found.source is found.target  # then both sides have the pieces of both sentencepiece models
    orders = {side: inventories[side].order(*(models.values() if shared else [models[side]])) for side in models}
    vocabularies: dict[str, Vocabulary] = {
        side: vocabulary(model, orders[side], inventories[side].silent, f"the {side} vocabulary")
        for side, model in models.items()
    }
    source, target, output = (found.weights[f"{side}_embedding.weight"] for side in inventories)
    config = ModelConfig(
        len(orders["source"]),
        len(orders["target"]),
        **found.sizes,
        share="none" if output is not target else "all" if source is target else "target",
        causal=False,
        output_bias=True,
        begin=tuple(found.target.number(piece) for piece in found.begin),
        tag=tuple(found.source.number(piece) for piece in found.tag),
    )
    model = Transformer(config).eval()
    unique = unique_tensors(model)
    sizes = dict(zip(inventories, (config.source_vocabulary, *[config.target_vocabulary] * 2), strict=True))
    weights = found.weights | {
        name: _rows(found.weights[name], inventory, sizes[side])
        for side, inventory in inventories.items()
        if (name := f"{side}_embedding.weight") in unique
    }
    bias = found.weights["output_bias"][found.target.rows()]
    never = torch.full((config.target_vocabulary - len(bias),), -torch.inf)  # not pieces of the model: never written
    weights["output_bias"] = torch.cat([bias, never])
    fill(model, {key: weights[key] for key in unique if key in weights}, "this folder")
    return model, vocabularies


def _rows(table: Tensor, inventory: Inventory, size: int) -> Tensor:
    """An embedding in bethink's order; what the model has no row for is unknown to it."""
    rows = inventory.rows()
    if len(table) < len(rows):
        raise ModelError(
            f"an embedding has {len(table)} rows, but its vocabulary {len(rows)} pieces; the files do not belong together"
        )
    return table[rows + [inventory.special[2]] * (size - len(rows))]


def _require_size(model: Transformer, precision: str) -> None:
    size = sum(parameter.numel() for parameter in model.parameters())
    if precision == "float32" and 4 * size >= TWO_GIGABYTES:
        raise UsageError(
            f"a model of {size:,} parameters does not fit into ONNX files as float32; use --precision int8"
        )


def _about(folder: Path, found: Foreign, source: str | None, target: str | None) -> dict[str, Any]:
    """What the card says: where the model comes from, its licence and languages, as far as the folder tells."""
    card = _front_matter(folder / README)
    languages = card.get("language")
    listed = ", ".join(map(str, languages)) if isinstance(languages, list) else languages
    about = {
        "description": f"converted from {folder.absolute().name} ({found.kind})",
        "origin": folder.absolute().name,
        "architecture": found.kind,
        "licence": card.get("license") or "not stated in the folder; see where the model comes from",
        "languages": listed,
        "source": source,
        "target": target,
    }
    return {key: value for key, value in about.items() if value}


def _front_matter(path: Path) -> dict[str, Any]:
    """The metadata at the head of a model card, or none."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    head = re.match(r"---\n(.*?)\n---", text, re.DOTALL)
    try:
        found = yaml.safe_load(head.group(1)) if head else {}
    except yaml.YAMLError:
        return {}
    return found if isinstance(found, dict) else {}
