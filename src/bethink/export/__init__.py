"""Export trained weights to a model folder that translates without PyTorch: ONNX graphs, vocabularies, hashes, a model card."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bethink import __version__
from bethink.backend.onnx import OnnxBackend
from bethink.backend.reencode import word_by_word
from bethink.engine import check
from bethink.errors import ModelError, UsageError, needs_extra, unknown
from bethink.files import new_folder, write_atomically
from bethink.folder import CONFIG, DECODER, ENCODER, WEIGHTS, Folder, create
from bethink.model.config import ModelConfig
from bethink.policy import parse
from bethink.text import Vocabulary, leaving

if TYPE_CHECKING:
    from bethink.model.transformer import Transformer

CARD = "MODEL_CARD.md"
PRECISIONS = ("float32", "int8")


def export(
    source: Path,
    to: Path,
    *,
    precision: str = "float32",
    policy: str | None = None,
    name: str | None = None,
    about: dict[str, Any] | None = None,
    weights: bool = False,
) -> Path:
    """Write the model of `source`, a model folder or a training run, to the new folder `to`, completely or not at all.

    Policy, name and about are those of the source unless given; `weights` also copies the weights themselves.
    """
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    if to.exists():
        raise UsageError(f"{to} already exists; remove it or export to another folder")
    chosen = parse(policy) if policy else None
    folder = _open(source)
    with needs_extra("exporting a model", "train"):
        from bethink.model.weights import load_model
    changes = {"name": name or folder.name, "policy": str(chosen or folder.policy)}
    about = {**folder.about, **(about or {}), "precision": precision}
    return write_like(
        load_model(folder),
        dataclasses.replace(folder, config={**folder.config, **changes, "about": about}),
        to,
        weights=weights,
    )


def write_like(model: Transformer, like: Folder, to: Path, *, weights: bool) -> Path:
    """Write a model to the new folder `to` with the precision and all settings of the folder `like`."""
    vocabularies = {"source": like.source, "target": like.target}
    return write(model, vocabularies, to, name=like.name, policy=like.policy, about=like.about, weights=weights)


def write(
    model: Transformer,
    vocabularies: dict[str, Vocabulary],
    to: Path,
    *,
    name: str,
    policy: str,
    about: dict[str, Any],
    weights: bool = False,
) -> Path:
    """Write a model to the new folder `to`, completely or not at all, with the precision that `about` names."""
    precision = about.get("precision")
    precision = precision if precision in PRECISIONS else PRECISIONS[0]
    with new_folder(to) as path:
        _write_graphs(model, path, precision, leaving(vocabularies["target"]))
        if weights:
            from safetensors.torch import save

            from bethink.model.weights import unique_tensors

            write_atomically(path / WEIGHTS, save(unique_tensors(model)))
        made = create(
            path,
            name=name,
            model=model.config,
            vocabularies=vocabularies,
            files=[ENCODER, DECODER, *([WEIGHTS] if weights else [])],
            policy=policy,
            about={**about, "precision": precision},
        )
        check(word_by_word(OnnxBackend.load(path, threads=1), made.model), parse(made.policy))
        write_atomically(path / CARD, _card(made).encode())
    return to


def _open(source: Path) -> Folder:
    run = source / "model"
    folder = Folder.open(run if (run / CONFIG).is_file() and not (source / CONFIG).is_file() else source)
    if not folder.has(WEIGHTS):
        raise ModelError(
            f"the model in {folder.path} has no {WEIGHTS}; export from the training run or the trained model"
        )
    return folder


def _write_graphs(model: Transformer, path: Path, precision: str, leaving: Sequence[bool] | None) -> None:
    with needs_extra("exporting a model", "train"):
        from bethink.export import network
        from bethink.export.precision import PRECISIONS as KINDS
    weights = {key: tensor.numpy() for key, tensor in model.state_dict().items()} | {
        "positions": model.positions.numpy()
    }
    parts = model.config, weights, KINDS[precision]
    for file, graph in ((ENCODER, network.encoder(*parts)), (DECODER, network.decoder(*parts, leaving))):
        write_atomically(path / file, graph.SerializeToString(deterministic=True))


def _card(folder: Folder) -> str:
    """The model card; people may edit it, so the folder has no hash of it."""
    facts = {
        "source vocabulary": f"{len(folder.source)} ({folder.source.kind})",
        "target vocabulary": f"{len(folder.target)} ({folder.target.kind})",
        "network": _network(folder.model),
        "policy": f"`{folder.policy}`",
        **{key: value if isinstance(value, str) else json.dumps(value) for key, value in folder.about.items()},
    }
    lines = "\n".join(f"- {key}: {value}" for key, value in facts.items())
    return (
        f"# {folder.name}\n\nA model for simultaneous translation, exported by bethink {__version__}.\n\n{lines}\n\n"
        f"The files in this folder are described, with their SHA-256 hashes, in `{CONFIG}`. To use it:\n\n"
        f"    bethink translate --model path/to/this/folder\n"
    )


def _network(model: ModelConfig) -> str:
    capsules = model.capsules
    return (
        f"Transformer, {model.encoder_layers} {'causal' if model.causal else 'bidirectional'} encoder layers and "
        f"{model.decoder_layers} decoder layers, width {model.width}, hidden {model.hidden}, {model.heads} heads"
        + (f", {capsules.translated} + {capsules.untranslated} capsules of {capsules.width}" if capsules else "")
    )
