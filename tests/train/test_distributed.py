from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from bethink import folder
from bethink.train import checkpoint, log, loop
from bethink.train.distributed import ALIGN, Flat
from bethink.train.recipe import Recipe
from tests.ports import free_port

SOURCE = str(Path(loop.__file__).parents[2])  # where a child process finds bethink
PROGRAM = (
    "import sys, torch; from pathlib import Path; from bethink.train import loop; from bethink.train.recipe import Recipe;"
    "torch.set_num_threads(1); loop.train(Recipe.read(Path(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[3]), device='cpu')"
)


def train_with_processes(count: int, recipe: Recipe, data: Path, run: Path) -> None:
    """As torchrun would start them."""
    described = run.with_suffix(".json")
    described.write_text(json.dumps(recipe.to_dict()))
    shared = {
        **os.environ,
        "PYTHONPATH": SOURCE,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(count),
    }
    children = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(described), str(data), str(run)],
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    for child in children:
        _, errors = child.communicate(timeout=300)
        assert child.returncode == 0, errors


def test_two_processes_equal_one(tmp_path: Path, toy_data: Path, small: Callable[..., Recipe]) -> None:
    recipe = small("model.dropout=0.0", "train.buckets=3", "train.updates=4", "train.validate=4")
    loop.train(recipe, toy_data, tmp_path / "one")
    train_with_processes(2, recipe, toy_data, tmp_path / "two")
    ends = [checkpoint.checkpoints(tmp_path / name)[-1] for name in ("one", "two")]
    one, two = (checkpoint.read_tensors(end / checkpoint.OPTIMIZER) for end in ends)
    # the averaged gradients: Adam's steps blow up the noise where there is no gradient
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-3, atol=1e-6)
    for left, right in zip(log.read(tmp_path / "one"), log.read(tmp_path / "two"), strict=True):
        for key in left.keys() & {"loss", "nll", "wait-1", "full", "gradient"}:
            assert abs(left[key] - right[key]) < 1e-3, key
    assert folder.Folder.open(tmp_path / "two" / "model")


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 3)
        self.output = nn.Linear(3, 5)
        self.output.weight = self.table.weight


def test_flat_parameters_behave_like_the_originals() -> None:
    torch.manual_seed(1)
    plain, flat_module = Tied(), Tied()
    flat_module.load_state_dict(plain.state_dict())
    flat = Flat(flat_module)
    assert list(flat.places) == ["table.weight", "output.bias"]
    assert all(start % ALIGN == 0 for start, _ in flat.places.values())
    ids = torch.tensor([0, 3, 3])
    plain.output(plain.table(ids)).square().sum().backward()
    for _ in range(2):  # gradients add up
        flat.backward(flat_module.output(flat_module.table(ids)).square().sum())
    found = flat.slices(flat.gradient)
    for name, parameter in plain.named_parameters():
        torch.testing.assert_close(found[name], 2 * parameter.grad)
    optimizer = torch.optim.SGD([flat.values], lr=0.1)
    optimizer.step()
    for name, parameter in plain.named_parameters():
        torch.testing.assert_close(dict(flat_module.named_parameters())[name], parameter - 0.2 * parameter.grad)
