"""Weights on disk: safetensors, where a tensor that has several names in the model is stored once."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from bethink.errors import ModelError
from bethink.folder import WEIGHTS, Folder
from bethink.model.transformer import Transformer


def unique_tensors(module: nn.Module) -> dict[str, Tensor]:
    """The state of a module, each shared tensor under its first name."""
    seen: set[int] = set()
    kept = {}
    for name, tensor in module.state_dict().items():
        if tensor.data_ptr() not in seen or tensor.numel() == 0:
            seen.add(tensor.data_ptr())
            kept[name] = tensor.detach().contiguous().cpu()
    return kept


def load_tensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ModelError(f"cannot read weights from {path}: {error}; copy or export the model again") from error


def fill(module: nn.Module, tensors: dict[str, Tensor], where: object) -> None:
    """Load what `unique_tensors` kept; a missing, extra or misshapen tensor is an error."""
    expected = unique_tensors(module)
    missing, extra = expected.keys() - tensors.keys(), tensors.keys() - expected.keys()
    wrong = {name for name in expected.keys() & tensors.keys() if expected[name].shape != tensors[name].shape}
    if missing or extra or wrong:
        example = min(missing | extra | wrong)
        raise ModelError(
            f"the weights in {where} do not fit the model: {len(missing)} missing, {len(extra)} unknown, "
            f"{len(wrong)} of another shape, for example {example}"
        )
    state = module.state_dict()
    with torch.no_grad():
        for name, tensor in tensors.items():
            state[name].copy_(tensor)


def load_model(folder: Folder) -> Transformer:
    """The model of a folder, ready to translate."""
    model = Transformer(folder.model)
    fill(model, load_tensors(folder.path / WEIGHTS), folder.path / WEIGHTS)
    return model
