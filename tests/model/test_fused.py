"""The fused kernels are the plain formulas, forward and backward; this needs a GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bethink.model import layers
from bethink.model.capsules import Capsules
from bethink.model.config import CapsuleConfig, ModelConfig
from bethink.text import PAD
from bethink.train.losses import LossConfig, Objective, cross_entropy
from tests.models import random_model

pytestmark = pytest.mark.skipif(not layers.FUSED, reason="no GPU with Triton here")

SIZES = {"width": 64, "hidden": 64, "heads": 4, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}
CAPSULES = CapsuleConfig(width=40, hidden=24)
BUILDS = {
    "post": ModelConfig(50, 50, **SIZES, capsules=CAPSULES),
    "pre": ModelConfig(50, 50, **SIZES, norm="pre", capsules=CAPSULES),
    "plain": ModelConfig(50, 61, **SIZES, share="target"),
    "bidirectional": ModelConfig(50, 50, **SIZES, causal=False),
    "one": ModelConfig(50, 50, **SIZES, capsules=CapsuleConfig(translated=1, untranslated=2, width=8, iterations=2)),
}


@pytest.fixture
def plainly(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], list[Tensor]]], list[Tensor]]:
    """Calls something with the fused kernels out of reach, in full float32."""

    def call(compute: Callable[[], list[Tensor]]) -> list[Tensor]:
        with monkeypatch.context() as patch:
            patch.setattr(layers, "FUSED", False)
            return compute()

    return call


def error(found: list[Tensor], expected: list[Tensor]) -> float:
    """The largest relative distance between two lists of tensors."""
    pairs = [(a.detach(), b.detach()) for a, b in zip(found, expected, strict=True)]
    distances = [(float((a.double() - b.double()).norm()), float(b.double().norm())) for a, b in pairs]
    worst = max(distance / max(size, 1e-6) for distance, size in distances)
    print(f"relative error {worst:.1e}")
    return worst if all(a.isfinite().all() for a in found) else float("inf")


def gradients(result: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """The result and its gradients under a fixed random projection."""
    torch.manual_seed(9)
    return [result, *torch.autograd.grad((result.float() * torch.randn(result.shape, device="cuda")).sum(), inputs)]


@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize(
    ("written", "read", "causal"), [(5, 5, True), (33, 20, False), (128, 70, False), (140, 140, True)]
)
def test_attention(dtype: torch.dtype, most: float, written: int, read: int, causal: bool) -> None:
    query, keys, values = (torch.randn(3, 8, n, 32, device="cuda", dtype=dtype) for n in (written, read, read))
    inputs = [x.requires_grad_() for x in (query, keys, values)]
    path = torch.randint(1, read + 1, (3, written), device="cuda")
    mask = None if causal else layers.readable_mask(path, read)[:, None]
    found = gradients(layers.attend(query, keys, values, mask), inputs)
    exact = [x.detach().double().requires_grad_() for x in inputs]
    expected = gradients(F.scaled_dot_product_attention(*exact, mask, is_causal=causal), exact)
    assert error(found, expected) < most


@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize(("written", "read", "width"), [(5, 7, 8), (40, 33, 256), (20, 150, 256)])
def test_routing_score(dtype: torch.dtype, most: float, written: int, read: int, width: int) -> None:
    capsules = Capsules(64, CapsuleConfig(width=width), 0.0).cuda()
    nn.init.normal_(capsules.score.weight, std=0.1)
    keys, state = (torch.randn(3, n, 4, width, device="cuda", dtype=dtype).requires_grad_() for n in (read, written))
    found = gradients(capsules._score(keys, state), [keys, state, capsules.score.weight])
    capsules = capsules.double()
    exact = [x.detach().double().requires_grad_() for x in (keys, state)]
    agreed = torch.tanh(capsules.score(torch.tanh(exact[0][:, None] + exact[1][:, :, None])).squeeze(-1))
    assert error(found, gradients(agreed, [*exact, capsules.score.weight])) < most


@pytest.mark.parametrize("first", [0, PAD + 1])
def test_cross_entropy(first: int, plainly: Callable[..., list[Tensor]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bethink.model.fused.CHUNK", 9000 * 5)  # several slices
    features, table = (torch.randn(*shape, device="cuda").requires_grad_() for shape in ((3, 4, 16), (9000, 16)))
    words = torch.stack([torch.randperm(9000, device="cuda")[:6] for _ in range(12)]).view(3, 4, 6)
    words[1, :, 3:] = PAD
    shares = torch.rand(3, 4, 6, device="cuda") * (words != PAD)
    weights = torch.rand(3, 4, device="cuda")

    def compute() -> list[Tensor]:
        loss, scores = cross_entropy(features, table, words, shares, weights, 1e-5, first)
        return [scores.view(3, 4, 6), *gradients(loss, [features, table])]

    assert error(compute(), plainly(compute)) < 1e-5


def test_common_words_keep_their_gradient(plainly: Callable[..., list[Tensor]]) -> None:
    """Thousands of rows add to the gradient of one word: in bfloat16 sums most of it would be lost."""
    torch.manual_seed(0)
    features = torch.randn(1, 8192, 64, device="cuda") + 1.0
    table = (0.1 * torch.randn(1000, 64, device="cuda")).requires_grad_()
    words = torch.randint(3, 1000, (1, 8192, 1), device="cuda")
    words[:, :6000] = 7
    shares, weights = torch.full(words.shape, 0.9, device="cuda"), torch.ones(1, 8192, device="cuda")

    def compute() -> list[Tensor]:
        loss, _ = cross_entropy(features, table, words, shares, weights, 1e-4)
        return [torch.autograd.grad(loss, table)[0][7]]

    with torch.autocast("cuda", torch.bfloat16):
        found = compute()
    assert error(found, plainly(compute)) < 5e-3


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("length", [20, 140])
def test_whole_objective(build: str, length: int, plainly: Callable[..., list[Tensor]]) -> None:
    torch.manual_seed(0)
    learner = Objective(random_model(BUILDS[build]), LossConfig()).cuda()
    source, target = (torch.randint(3, 50, (4, n), device="cuda") for n in (length, length - 3))
    source[1, 9:], target[2, 11:] = PAD, PAD
    path = torch.randint(1, 9, target.shape, device="cuda")

    def compute() -> list[Tensor]:
        learner.zero_grad()
        parts = learner(source, target, path)
        parts["loss"].backward()
        every = torch.cat([parameter.grad.flatten() for parameter in learner.parameters()])
        return [parts["loss"].detach(), parts["nll"], parts["token"], every]

    assert error(compute(), plainly(compute)) < 1e-4
