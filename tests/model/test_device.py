"""Devices are named as torch names them, and what is not there is told in one sentence."""

from __future__ import annotations

import pytest
import torch

from bethink.errors import UsageError
from bethink.model import device
from bethink.train import distributed


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)


@pytest.mark.parametrize("name", ["foo", "", "meta", "mps", "cuda:", "cuda:-1", "cuda:x", "CPU", "cuda:99999999999"])
def test_a_name_of_nothing(name: str) -> None:
    with pytest.raises(UsageError, match=f"no device named '{name}'; give cpu, cuda or cuda:N"):
        device.choose(name)


@pytest.mark.parametrize("choose", [device.choose, distributed._device])
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_gpu_that_is_not_there(choose: object, name: str) -> None:
    assert callable(choose)
    with pytest.raises(UsageError, match=f"device {name} was asked for, but this PyTorch finds no GPU"):
        choose(name)


def test_the_best_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert device.choose() == device.choose("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert device.choose() == torch.device("cuda")
    assert device.choose("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(UsageError, match="only 2 GPU"):
        device.choose("cuda:2")


def test_under_torchrun_each_process_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", used.append)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert distributed._device(None) == distributed._device("cuda") == torch.device("cuda", 1)
    assert distributed._device("cuda:0") == torch.device("cuda", 0)
    assert used == [torch.device("cuda", n) for n in (1, 1, 0)]
