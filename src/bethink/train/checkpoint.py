"""What training writes to disk: checkpoints to resume from, and the averaged model folder; each completely or not at all."""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from bethink import folder
from bethink.errors import TrainingError, UsageError
from bethink.export.restore import load_any
from bethink.files import new_folder, read_json, write_atomically, write_json
from bethink.folder import CONFIG, DECODER, WEIGHTS
from bethink.model.config import CONVERTED, ModelConfig
from bethink.model.weights import unique_tensors
from bethink.text import load_vocabulary
from bethink.train.data import read_manifest
from bethink.train.recipe import Recipe

OPTIMIZER, CONSTRAINTS, STATE = "optimizer.safetensors", "constraints.safetensors", "state.json"
RECIPE, DATA = "recipe.json", "data.json"
MODEL = "model"  # the folder of the averaged model in a run; also the prefix of the model's weights in the objective
STEP = re.compile(r"step-\d{8,}")


def save(
    run: Path, update: int, weights: Mapping[str, Tensor], moments: Mapping[str, Tensor], state: dict[str, Any]
) -> Path:
    """The checkpoint after `update` updates."""
    path = run / "checkpoints" / f"step-{update:08d}"
    with disk_errors(f"the checkpoint of update {update}", run), new_folder(path) as temporary:
        write_atomically(temporary / WEIGHTS, safetensors.torch.save(_on_cpu(weights)))
        write_atomically(temporary / OPTIMIZER, safetensors.torch.save(_on_cpu(moments)))
        write_json(temporary / STATE, {"update": update, **state})
    return path


def checkpoints(run: Path) -> list[Path]:
    """The checkpoints of a run, oldest first; all are complete, because a folder gets its name last."""
    return sorted(path for path in (run / "checkpoints").glob("step-*") if STEP.fullmatch(path.name))


def prune(run: Path, keep: int) -> None:
    for path in checkpoints(run)[:-keep]:
        shutil.rmtree(path)


def read_state(checkpoint: Path) -> dict[str, Any]:
    state = read_json(checkpoint / STATE, TrainingError)
    if type(state.get("update")) is not int:
        raise TrainingError(f"{checkpoint / STATE} is damaged: it names no update; remove its folder and go on")
    return state


def read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise TrainingError(
            f"{path} cannot be read ({error}); remove its folder to go on from the one before"
        ) from None


def copy_into(targets: Mapping[str, Tensor], values: Mapping[str, Tensor], origin: Path) -> None:
    """Copy every value to the target of the same name; a name missing on either side is an error."""
    if missing := targets.keys() ^ values.keys():
        raise TrainingError(f"{origin} does not fit this recipe: only one of them has {', '.join(sorted(missing)[:3])}")
    for name, target in targets.items():
        target.copy_(_fitting(name, target, values[name], origin))


def require_same_words(run: Path, origin: Path) -> None:
    """Refuse weights that were trained with another vocabulary, even one of the same size."""
    data = read_manifest(run / DATA, TrainingError)
    for side in ("source", "target"):
        file = data[side]["file"]
        for place in {origin, _place(origin)}:
            if (place / file).is_file() and (place / file).read_bytes() != (run / file).read_bytes():
                raise TrainingError(
                    f"{place / file} is not the vocabulary of this data; prepare the data with --like {origin}, or train with --grow"
                )


def initialise(targets: Mapping[str, Tensor], learned: Mapping[str, Tensor], origin: Path) -> None:
    """Copy what another run or model folder has learned; weights that it lacks are not changed."""
    common = [name for name in targets if name in learned]
    if not common:
        raise TrainingError(
            f"{origin} shares no weights with this recipe; give a run or model folder of the same kind of model"
        )
    for name in common:
        targets[name].copy_(_fitting(name, targets[name], learned[name], origin))


def architecture(origin: Path) -> ModelConfig | None:
    """The architecture of a run or model folder, if it was converted from another tool's model: a recipe cannot describe it."""
    for file in (origin / MODEL / CONFIG, origin / CONFIG, origin / RECIPE):
        if file.is_file():
            found = ModelConfig.from_dict(read_json(file, TrainingError).get("model"))
            return found if found.converted else None
    return None


def require_same_architecture(recipe: Recipe, origin: Path) -> None:
    """Refuse to begin with a converted model unless the recipe was loaded with its architecture."""
    if (found := architecture(origin)) and any(
        getattr(found, name) != getattr(recipe.model, name) for name in CONVERTED
    ):
        raise TrainingError(
            f"{origin} was converted from another tool's model; load the recipe with its architecture: "
            "Recipe.load(…, architecture=…)"
        )


def origin_of(origin: Path) -> dict[str, str]:
    """What a run records about the weights it began with: the name of their run, their hash and licence, but not their path."""
    place, found = origin.resolve(), _place(origin)
    name = place.parent.name if place.name == MODEL else place.name
    about = read_json(found / CONFIG, TrainingError).get("about", {}) if (found / CONFIG).is_file() else {}
    licence = {"licence": str(about["licence"])} if "licence" in about else {}
    return {"from": name, "sha256": folder.sha256(_file(found)), **licence}


def _place(origin: Path) -> Path:
    """The folder with the weights of a run or a model: its averaged model, itself, or its newest checkpoint."""
    for place in (origin / MODEL, origin, *checkpoints(origin)[-1:]):
        if (place / WEIGHTS).is_file() or (place / DECODER).is_file():
            return place
    raise TrainingError(f"{origin} is neither a run with a checkpoint nor a model folder")


def _file(place: Path) -> Path:
    """The file with the weights; an exported model may have only graphs."""
    return place / (WEIGHTS if (place / WEIGHTS).is_file() else DECODER)


def learned(origin: Path) -> dict[str, Tensor]:
    """The weights, by their names in training."""
    place = _place(origin)
    if _file(place).name == DECODER:
        model = unique_tensors(load_any(folder.Folder.open(place)))
        return {f"{MODEL}.{name}": tensor for name, tensor in model.items()}
    tensors = read_tensors(place / WEIGHTS)
    if STEP.fullmatch(place.name):
        return tensors
    heads = read_tensors(place / CONSTRAINTS) if (place / CONSTRAINTS).is_file() else {}
    parts = {MODEL: tensors, "constraints": heads}
    return {f"{part}.{name}": tensor for part, named in parts.items() for name, tensor in named.items()}


def _fitting(name: str, target: Tensor, value: Tensor, origin: Path) -> Tensor:
    if target.shape != value.shape:
        found, expected = (" x ".join(map(str, shape)) for shape in (value.shape, target.shape))
        raise TrainingError(
            f"{name} in {origin} is {found}, but this recipe makes it {expected}; use the same sizes and data"
        )
    return value


def average(run: Path, last: int | None = None, other: Path | None = None, share: float = 0.5) -> Path:
    """Averages the newest checkpoints of a run, by default as many as its recipe says, into the model folder RUN/model.

    With `other`, the run or model that this run began with, the weights are a mean of both: the result keeps more of what the model
    knew before. `share` is the part of the run in it.
    """
    if not 0 < share < 1:
        raise UsageError(f"the share of the run is {share}, but must lie between 0 and 1")
    if last is None:
        last = Recipe.read(run / RECIPE).train.average if (run / RECIPE).is_file() else 1
    trained = [path for path in checkpoints(run) if int(path.name.rpartition("-")[2]) > 0]  # without initial weights
    chosen = trained[-last:]
    if last < 1 or not chosen:
        raise TrainingError(f"{run} has no checkpoint to average; train first with: bethink train RECIPE --run {run}")
    mean = {name: tensor.double() for name, tensor in read_tensors(chosen[0] / WEIGHTS).items()}
    for path in chosen[1:]:
        for name, tensor in read_tensors(path / WEIGHTS).items():
            mean[name] += tensor
    weights = {name: (tensor / len(chosen)).float() for name, tensor in mean.items()}
    about = {"checkpoints": [path.name for path in chosen], **read_state(chosen[-1])}
    about.pop("seconds", None)  # two trainings that end in the same model should describe it alike
    if other is not None:
        require_same_words(run, other)
        known = {name: tensor for name, tensor in learned(other).items() if name in weights}
        if not known:
            raise TrainingError(f"{other} shares no weights with {run}; give the run or model that it began with")
        old = {name: _fitting(name, weights[name], tensor, other) for name, tensor in known.items()}
        weights |= {name: share * weights[name] + (1 - share) * tensor for name, tensor in old.items()}
        about["averaged with"] = {**origin_of(other), "share": 1 - share}
    with disk_errors("the averaged model", run):
        return write_model(run, weights, about)


def write_model(run: Path, weights: Mapping[str, Tensor], about: dict[str, Any]) -> Path:
    """Write the model folder RUN/model; the heads that only training and analysis need are in a file of their own."""
    recipe = Recipe.read(run / RECIPE)
    languages = {} if recipe.data.toy else {"source": recipe.data.source, "target": recipe.data.target}
    data = read_manifest(run / DATA, TrainingError)
    vocabularies = {
        side: load_vocabulary(run / data[side]["file"], data[side]["kind"]) for side in ("source", "target")
    }
    parts = {WEIGHTS: _under(f"{MODEL}.", weights), CONSTRAINTS: _under("constraints.", weights)}
    with new_folder(run / MODEL) as temporary:
        files = [file for file, tensors in parts.items() if tensors]
        for file in files:
            write_atomically(temporary / file, safetensors.torch.save(parts[file]))
        folder.create(
            temporary,
            name=f"{recipe.name}-{recipe.system}",
            model=recipe.sized(data["source"]["size"], data["target"]["size"]),
            vocabularies=vocabularies,
            files=files,
            policy=recipe.policy,
            about={
                "system": recipe.system,
                "recipe": recipe.about,
                "toy": bool(recipe.data.toy),
                **languages,
                **about,
            },
        )
    return run / MODEL


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


@contextmanager
def disk_errors(what: str, place: Path) -> Iterator[None]:
    """Turn an error of the file system into a sentence for the user."""
    try:
        yield
    except OSError as error:
        reason, full = error.strerror or str(error), error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = (
            "what was saved before is untouched: make room and run the same command to go on"
            if full
            else "make this folder writable or choose another"
        )
        raise TrainingError(f"{what} could not be written to {place} ({reason}); {remedy}") from error


def _on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
