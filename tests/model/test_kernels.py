"""The fused kernels are the plain formulas, forward and backward.

This needs a GPU, or Triton's interpreter on a CPU: with Triton installed, TRITON_INTERPRET=1 runs all that is not only for GPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch.nn import functional as F

from bethink.model import kernels, layers
from bethink.model.capsules import agree
from bethink.model.config import CapsuleConfig, ModelConfig
from bethink.text import PAD
from bethink.train.data import Batch
from bethink.train.graphs import compile_parts
from bethink.train.losses import LossConfig, Objective, cross_entropy
from tests.models import random_model

if kernels.AVAILABLE:
    from bethink.model.kernels.attention import attend
    from bethink.model.kernels.embedding import embed
    from bethink.model.kernels.feed import linear_relu
    from bethink.model.kernels.residual import add_norm, norm
    from bethink.model.kernels.routing import agree as fused_agree

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.skipif(not kernels.AVAILABLE, reason="no GPU with Triton here, nor Triton's interpreter")
gpu = pytest.mark.skipif(DEVICE == "cpu", reason="no GPU here")


def precisions(wide: float, narrow: float) -> pytest.MarkDecorator:
    """Both, and the largest error in each; Triton's interpreter knows no bfloat16."""
    both = [(torch.float32, wide), pytest.param(torch.bfloat16, narrow, marks=gpu)]
    return pytest.mark.parametrize(("dtype", "most"), both)


PARTS = 6  # that are compiled: encoder layer, decoder layer, hold, route, feed_back, segment_loss
SIZES = {"width": 64, "hidden": 64, "heads": 4, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}
CAPSULES = CapsuleConfig(width=40, hidden=24)
BUILDS = {
    "post": ModelConfig(50, 50, **SIZES, capsules=CAPSULES),
    "pre": ModelConfig(50, 50, **SIZES, norm="pre", capsules=CAPSULES),
    "plain": ModelConfig(50, 61, **SIZES, share="target"),
    "bidirectional": ModelConfig(50, 50, **SIZES, causal=False),
    "odd": ModelConfig(50, 50, **SIZES | {"width": 40}, norm="pre", causal=False),  # no kernel is for heads of 10
    "one": ModelConfig(50, 50, **SIZES, capsules=CapsuleConfig(translated=1, untranslated=2, width=8, iterations=2)),
}


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> None:
    torch.manual_seed(0)


@pytest.fixture
def plainly(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], list[Tensor]]], list[Tensor]]:
    """Calls something with the fused kernels out of reach, in full float32."""

    def call(compute: Callable[[], list[Tensor]]) -> list[Tensor]:
        with monkeypatch.context() as patch:
            patch.setattr(kernels, "usable", lambda _: False)
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
    return [result, *torch.autograd.grad((result.float() * torch.randn(result.shape, device=DEVICE)).sum(), inputs)]


def plain_attention(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    heads = [x.transpose(1, 2) for x in (query, keys, values)]
    return F.scaled_dot_product_attention(*heads, mask, is_causal=mask is None).transpose(1, 2)


@precisions(1e-5, 1.5e-2)
@pytest.mark.parametrize(("written", "read"), [(5, 7), (33, 20), (20, 33), (128, 70), (140, 140)])
@pytest.mark.parametrize("width", [10, 32, 64, 128])
def test_cross_attention(dtype: torch.dtype, most: float, written: int, read: int, width: int) -> None:
    sizes = (3, written, 1, 4, width), (3, read, 2, 4, width)
    query, memory = (torch.randn(size, device=DEVICE, dtype=dtype) for size in sizes)
    biases = torch.randn(4 * width, device=DEVICE), torch.randn(8 * width, device=DEVICE)
    inputs = [x.requires_grad_() for x in (query, memory, *biases)]
    path = torch.randint(1, read + 1, (3, written), device=DEVICE)
    found = gradients(attend(*inputs, path.int()), inputs)
    exact = exactly(inputs)
    query, memory = exact[0] + exact[2].view(4, width), exact[1] + exact[3].view(2, 4, width)
    result = plain_attention(query[:, :, 0], *memory.unbind(2), layers.readable_mask(path, read)[:, None])
    expected = gradients(result, exact)
    assert error(found, expected) < most


@precisions(1e-5, 1e-2)
@pytest.mark.parametrize("length", [5, 32, 70, 140])
@pytest.mark.parametrize("causal", [True, False])
def test_self_attention(dtype: torch.dtype, most: float, length: int, causal: bool) -> None:
    packed = torch.randn(3, length, 3, 4, 32, device=DEVICE, dtype=dtype)
    biases = torch.randn(128, device=DEVICE), torch.randn(256, device=DEVICE)
    inputs = [x.requires_grad_() for x in (packed, *biases)]
    lengths = torch.randint(1, length + 1, (3, 1), device=DEVICE).expand(-1, length)
    found = gradients(attend(packed, None, *biases, None if causal else lengths.int()), inputs)
    exact = exactly(inputs)
    mask = None if causal else layers.readable_mask(lengths, length)[:, None]
    result = plain_attention(*(exact[0] + torch.cat(exact[1:]).view(3, 4, 32)).unbind(2), mask)
    expected = gradients(result, exact)
    assert error(found[:2], expected[:2]) < most
    # together, since the bias of the keys alone gets nothing but noise
    assert error([torch.cat(found[2:])], [torch.cat(expected[2:])]) < most


@precisions(1e-5, 1e-2)
@pytest.mark.parametrize(("rows", "width", "hidden"), [(7, 40, 24), (1, 64, 512), (1001, 64, 1100)])
def test_feed_forward(dtype: torch.dtype, most: float, rows: int, width: int, hidden: int) -> None:
    drawn = torch.randn(3, rows, width), torch.randn(hidden, width), torch.randn(hidden)
    inputs = [x.to(dtype).to(DEVICE, torch.float32).requires_grad_() for x in drawn]
    with torch.autocast(DEVICE, torch.bfloat16, enabled=dtype == torch.bfloat16):
        found = gradients(linear_relu(*inputs), inputs)
    assert found[0].dtype == dtype
    exact = exactly(inputs)
    expected = F.linear(*exact) * (found[0] > 0)  # at the edge rounding decides what is dropped
    assert error(found, gradients(expected, exact)) < most


@precisions(1e-5, 1e-2)
@pytest.mark.parametrize(("written", "read", "width"), [(5, 7, 8), (40, 33, 256), (20, 150, 256)])
def test_routing_score(dtype: torch.dtype, most: float, written: int, read: int, width: int) -> None:
    weight = (0.1 * torch.randn(width, device=DEVICE)).requires_grad_()
    keys, state = (torch.randn(3, n, 4, width, device=DEVICE, dtype=dtype).requires_grad_() for n in (read, written))
    inputs = [keys, state, weight]
    exact = exactly(inputs)
    assert error(gradients(fused_agree(*inputs), inputs), gradients(agree(*exact).double(), exact)) < most


@precisions(1e-6, 5e-3)
def test_embedding(dtype: torch.dtype, most: float) -> None:
    table = torch.randn(50, 40, device=DEVICE).requires_grad_()
    ids, places = torch.randint(0, 50, (3, 7), device=DEVICE), torch.randn(7, 40, device=DEVICE)
    ids[1, 4:] = PAD
    with torch.autocast(DEVICE, torch.bfloat16, enabled=dtype == torch.bfloat16):
        found = gradients(embed(table, ids, places, 6.0, PAD, 0.0), [table])
    assert (found[0].dtype, found[1].dtype) == (dtype, torch.float32)
    assert error(found, gradients(F.embedding(ids, table, PAD) * 6 + places, [table])) < most


@gpu
def test_common_words_keep_what_all_their_rows_get() -> None:
    table = torch.randn(50, 40, device=DEVICE).requires_grad_()
    ids, places = torch.full((64, 100), 7, device=DEVICE), torch.zeros(100, 40, device=DEVICE)
    with torch.autocast(DEVICE, torch.bfloat16):
        rows = embed(table, ids, places, 1.0, PAD, 0.0)
    to_rows = 1 + torch.randn(rows.shape, device=DEVICE, dtype=rows.dtype)
    found, exact = torch.autograd.grad(rows, table, to_rows)[0][7], to_rows.double().sum(dim=(0, 1))
    assert error([found], [exact]) < 1e-5


@precisions(1e-6, 5e-3)
def test_dropout_of_an_embedding_drops_the_same_backward(dtype: torch.dtype, most: float) -> None:
    table = (1 + torch.rand(50, 512, device=DEVICE)).requires_grad_()
    ids, places = torch.randint(3, 50, (8, 30), device=DEVICE), torch.rand(30, 512, device=DEVICE)
    with torch.autocast(DEVICE, torch.bfloat16, enabled=dtype == torch.bfloat16):
        out = embed(table, ids, places, 6.0, PAD, 0.3)
    kept = out.detach() != 0
    assert abs(float(kept.float().mean()) - 0.7) < 0.01
    expected = (F.embedding(ids, table, PAD) * 6 + places) * kept / 0.7
    assert error(gradients(out, [table]), gradients(expected, [table])) < most


def residual_inputs(rows: int, width: int, dtype: torch.dtype, stream: torch.dtype = torch.float32) -> list[Tensor]:
    """x, change, weight, bias."""
    drawn = [torch.randn(size, device=DEVICE) for size in ((3, rows, width), (3, rows, width), (width,), (width,))]
    made = (drawn[0] + 1).to(stream), drawn[1].to(dtype), 1 + 0.1 * drawn[2], 0.1 * drawn[3]
    return [x.requires_grad_() for x in made]


def exactly(inputs: list[Tensor]) -> list[Tensor]:
    return [x.detach().double().requires_grad_() for x in inputs]


@precisions(1e-5, 1e-2)
@pytest.mark.parametrize(("rows", "width"), [(7, 40), (1, 512), (1001, 512)])
class TestResidual:
    def test_norm(self, dtype: torch.dtype, most: float, rows: int, width: int) -> None:
        inputs = residual_inputs(rows, width, dtype)
        x, _, weight, bias = inputs
        with torch.autocast(DEVICE, torch.bfloat16, enabled=dtype == torch.bfloat16):
            out = norm(x, weight, bias, 1e-5)
        assert out.dtype == dtype
        exact, _, *affine = exactly(inputs)
        expected = gradients(F.layer_norm(exact, (width,), *affine), [exact, *affine])
        assert error(gradients(out, [x, weight, bias]), expected) < most

    def test_sum(self, dtype: torch.dtype, most: float, rows: int, width: int) -> None:
        """Where nothing depends on the norm."""
        x, change, *affine = residual_inputs(rows, width, dtype)
        total, _ = add_norm(x, change, *affine, 1e-5, 0.0)
        assert total.dtype == torch.float32
        assert error(gradients(total, [x, change]), gradients(x + change, [x, change])) < 1e-6

    def test_sum_and_norm(self, dtype: torch.dtype, most: float, rows: int, width: int) -> None:
        inputs = residual_inputs(rows, width, dtype)
        exact = exactly(inputs)
        found = torch.cat(add_norm(*inputs, 1e-5, 0.0, dtype), dim=-1)
        total = exact[0] + exact[1]
        expected = torch.cat([total, F.layer_norm(total, (width,), *exact[2:])], dim=-1)
        assert error(gradients(found, inputs), gradients(expected, exact)) < most

    def test_sum_and_norm_of_what_is_no_more_exact(
        self, dtype: torch.dtype, most: float, rows: int, width: int
    ) -> None:
        """As everywhere under autocast: sums, and what they get, have the precision of the matrix products."""
        inputs = residual_inputs(rows, width, dtype, dtype)
        exact = exactly(inputs)
        total, out = add_norm(*inputs, 1e-5, 0.0, dtype)
        assert total.dtype == dtype
        expected = exact[0] + exact[1]
        expected = torch.cat([expected, F.layer_norm(expected, (width,), *exact[2:])], dim=-1)
        assert error(gradients(torch.cat([total, out], dim=-1), inputs), gradients(expected, exact)) < most

    def test_sum_with_the_bias_of_the_change(self, dtype: torch.dtype, most: float, rows: int, width: int) -> None:
        inputs = [*residual_inputs(rows, width, dtype), torch.randn(width, device=DEVICE).requires_grad_()]
        exact = exactly(inputs)
        found = torch.cat(add_norm(*inputs[:4], 1e-5, 0.0, dtype, inputs[4]), dim=-1)
        total = exact[0] + (exact[1] + exact[4])
        expected = torch.cat([total, F.layer_norm(total, (width,), *exact[2:4])], dim=-1)
        assert error(gradients(found, inputs), gradients(expected, exact)) < most
        some = [inputs[n] for n in (0, 1, 4)]
        found = gradients(add_norm(*inputs[:4], 1e-5, 0.0, dtype, inputs[4])[0], some)
        assert error(found, gradients(total, [exact[n] for n in (0, 1, 4)])) < most

    def test_norm_of_the_sum_alone(self, dtype: torch.dtype, most: float, rows: int, width: int) -> None:
        """As after a sub-layer that is normalised behind it."""
        inputs = residual_inputs(rows, width, dtype)
        exact = exactly(inputs)
        found = gradients(add_norm(*inputs, 1e-5, 0.0, torch.float32)[1], inputs)
        expected = gradients(F.layer_norm(exact[0] + exact[1], (width,), *exact[2:]), exact)
        assert error(found, expected) < most


@precisions(1e-5, 1e-2)
def test_dropout_drops_its_share_and_backward_drops_the_same(dtype: torch.dtype, most: float) -> None:
    inputs = residual_inputs(1001, 512, dtype, dtype)
    inputs[0].data.zero_()
    total, out = add_norm(*inputs, 1e-5, 0.3, dtype)
    kept = total.detach() != 0
    assert abs(float(kept.float().mean()) - 0.7) < 0.002  # five deviations
    exact = exactly(inputs)
    expected = exact[0] + exact[1] * kept / 0.7
    expected = torch.cat([expected, F.layer_norm(expected, (512,), *exact[2:])], dim=-1)
    assert error(gradients(torch.cat([total, out], dim=-1), inputs), gradients(expected, exact)) < most


def dropped_ones(rows: int, width: int) -> Tensor:
    x, change = torch.zeros(rows, width, device=DEVICE), torch.ones(rows, width, device=DEVICE)
    return add_norm(x, change, x[0], x[0], 1e-5, 0.5)[0]


def test_dropout_of_neighbours_is_independent() -> None:
    kept = 2 * (dropped_ones(4096, 512) > 0).double() - 1
    for rows, columns in ((1, 0), (2, 0), (4, 0), (0, 1), (0, 8), (4, 8)):
        together = kept * kept.roll((rows, columns), (0, 1))
        assert abs(float(together.mean())) < 5 / kept.numel() ** 0.5


@gpu
def test_dropout_follows_the_seed_and_a_recorded_graph_draws_anew() -> None:
    def seeded(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return dropped_ones(8, 64)

    assert torch.equal(seeded(1), seeded(1))
    assert not torch.equal(seeded(1), seeded(2))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = dropped_ones(8, 64)
    graph.replay()
    once = total.clone()
    graph.replay()
    assert not torch.equal(once, total)


def some_batch(sentences: int, length: int) -> Batch:
    source, target = (torch.randint(3, 50, (sentences, n), device=DEVICE) for n in (length, length - 3))
    source[1, 9:], target[2, 11:] = PAD, PAD
    return Batch(source, target, torch.randint(1, 9, target.shape, device=DEVICE))


def in_bfloat16(compute: Callable[[], list[Tensor]]) -> list[Tensor]:
    with torch.autocast(DEVICE, torch.bfloat16):
        return compute()


def loss_and_gradients(learner: Objective, batch: Batch) -> list[Tensor]:
    learner.zero_grad()
    parts = learner(batch)
    parts["loss"].backward()
    every = torch.cat([parameter.grad.flatten() for parameter in learner.parameters()])
    return [*(parts[name].detach() for name in sorted(parts)), every]


@pytest.mark.filterwarnings("ignore")  # compilers of some versions warn of what they do themselves
@pytest.mark.parametrize("build", ["pre", "post"])
def test_compiled_layers(build: str, plainly: Callable[..., list[Tensor]]) -> None:
    """What is compiled once holds for every layer and length; in bfloat16 it comes about as near to the truth as plain layers do."""
    torch.compiler.reset()
    learner = Objective(random_model(BUILDS[build]), LossConfig()).to(DEVICE)
    compile_parts(learner)
    counters.clear()
    for sentences, length in ((3, 17), (4, 33)):
        compute = partial(loss_and_gradients, learner, some_batch(sentences, length))
        with torch.compiler.set_stance("force_eager"):
            truth, near = plainly(compute), plainly(partial(in_bfloat16, compute))
        assert error(compute(), truth) < 1e-4
        assert length > 17 or counters["stats"]["unique_graphs"] == PARTS
        if DEVICE == "cuda":
            assert error(in_bfloat16(compute), truth) < 2 * error(near, truth)


@pytest.mark.parametrize("first", [0, PAD + 1])
def test_cross_entropy(first: int, plainly: Callable[..., list[Tensor]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bethink.model.kernels.softmax.CHUNK", 9000 * 5)  # several slices
    features, table = (torch.randn(*shape, device=DEVICE).requires_grad_() for shape in ((3, 4, 16), (9000, 16)))
    words = torch.stack([torch.randperm(9000, device=DEVICE)[:6] for _ in range(12)]).view(3, 4, 6)
    words[1, :, 3:] = PAD
    shares = torch.rand(3, 4, 6, device=DEVICE) * (words != PAD)
    weights = torch.rand(3, 4, device=DEVICE)

    def compute() -> list[Tensor]:
        loss, scores = cross_entropy(features, table, words, shares, weights, 1e-5, first)
        return [scores.view(3, 4, 6), *gradients(loss, [features, table])]

    assert error(compute(), plainly(compute)) < 1e-5


@gpu
def test_common_words_keep_their_gradient(plainly: Callable[..., list[Tensor]]) -> None:
    """Thousands of rows add to the gradient of one word: in bfloat16 sums most of it would be lost."""
    features = torch.randn(1, 8192, 64, device=DEVICE) + 1.0
    table = (0.1 * torch.randn(1000, 64, device=DEVICE)).requires_grad_()
    words = torch.randint(3, 1000, (1, 8192, 1), device=DEVICE)
    words[:, :6000] = 7
    shares, weights = torch.full(words.shape, 0.9, device=DEVICE), torch.ones(1, 8192, device=DEVICE)

    def compute() -> list[Tensor]:
        loss, _ = cross_entropy(features, table, words, shares, weights, 1e-4)
        return [torch.autograd.grad(loss, table)[0][7]]

    with torch.autocast(DEVICE, torch.bfloat16):
        found = compute()
    assert error(found, plainly(compute)) < 5e-3


def test_only_training_takes_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []

    def noting(name: str) -> Callable[..., object]:
        function = getattr(kernels, name)
        return lambda *args: taken.append(name) or function(*args)

    for name in ("forward", "cross_entropy"):
        monkeypatch.setattr(kernels, name, noting(name))
    learner, batch = Objective(random_model(BUILDS["plain"]), LossConfig()).to(DEVICE), some_batch(3, 12)
    with torch.no_grad():
        learner(batch)
    learner.double()(batch)
    assert not taken
    learner.float()(batch)
    assert taken == ["forward", "cross_entropy"]


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("length", [20, 140])
def test_whole_objective(build: str, length: int, plainly: Callable[..., list[Tensor]]) -> None:
    learner = Objective(random_model(BUILDS[build]), LossConfig()).to(DEVICE)
    compute = partial(loss_and_gradients, learner, some_batch(4, length))
    truth = plainly(compute)
    assert error(compute(), truth) < (1e-4 if DEVICE == "cuda" else 1e-3)  # in these numbers one ReLU is at its edge
    if DEVICE == "cuda":
        assert error(in_bfloat16(compute), truth) < 2 * error(plainly(partial(in_bfloat16, compute)), truth)
