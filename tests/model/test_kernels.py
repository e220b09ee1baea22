"""The fused kernels are the plain formulas, forward and backward; this needs a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bethink.model import layers
from bethink.model.capsules import Capsules
from bethink.model.config import CapsuleConfig, ModelConfig
from bethink.text import PAD
from bethink.train.data import Batch
from bethink.train.losses import LossConfig, Objective, cross_entropy
from tests.models import random_model

if layers.FUSED:
    from bethink.model import kernels

pytestmark = pytest.mark.skipif(not layers.FUSED, reason="no GPU with Triton here")

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


def plain_attention(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    heads = [x.transpose(1, 2) for x in (query, keys, values)]
    return F.scaled_dot_product_attention(*heads, mask, is_causal=mask is None).transpose(1, 2)


@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-5), (torch.bfloat16, 1.5e-2)])
@pytest.mark.parametrize(("written", "read"), [(5, 7), (33, 20), (20, 33), (128, 70), (140, 140)])
@pytest.mark.parametrize("width", [10, 32, 64, 128])
def test_cross_attention(dtype: torch.dtype, most: float, written: int, read: int, width: int) -> None:
    sizes = (3, written, 1, 4, width), (3, read, 2, 4, width)
    query, memory = (torch.randn(size, device="cuda", dtype=dtype) for size in sizes)
    biases = torch.randn(4 * width, device="cuda"), torch.randn(8 * width, device="cuda")
    inputs = [x.requires_grad_() for x in (query, memory, *biases)]
    path = torch.randint(1, read + 1, (3, written), device="cuda")
    found = gradients(kernels.attend(*inputs, path.int()), inputs)
    exact = exactly(inputs)
    query, memory = exact[0] + exact[2].view(4, width), exact[1] + exact[3].view(2, 4, width)
    result = plain_attention(query[:, :, 0], *memory.unbind(2), layers.readable_mask(path, read)[:, None])
    expected = gradients(result, exact)
    assert error(found, expected) < most


@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize("length", [5, 32, 70, 140])
@pytest.mark.parametrize("causal", [True, False])
def test_self_attention(dtype: torch.dtype, most: float, length: int, causal: bool) -> None:
    packed = torch.randn(3, length, 3, 4, 32, device="cuda", dtype=dtype)
    biases = torch.randn(128, device="cuda"), torch.randn(256, device="cuda")
    inputs = [x.requires_grad_() for x in (packed, *biases)]
    lengths = torch.randint(1, length + 1, (3, 1), device="cuda").expand(-1, length)
    found = gradients(kernels.attend(packed, None, *biases, None if causal else lengths.int()), inputs)
    exact = exactly(inputs)
    mask = None if causal else layers.readable_mask(lengths, length)[:, None]
    result = plain_attention(*(exact[0] + torch.cat(exact[1:]).view(3, 4, 32)).unbind(2), mask)
    expected = gradients(result, exact)
    assert error(found[:2], expected[:2]) < most
    # together, since the bias of the keys alone gets nothing but noise
    assert error([torch.cat(found[2:])], [torch.cat(expected[2:])]) < most


@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize(("rows", "width", "hidden"), [(7, 40, 24), (1, 64, 512), (1001, 64, 1100)])
def test_feed_forward(dtype: torch.dtype, most: float, rows: int, width: int, hidden: int) -> None:
    drawn = torch.randn(3, rows, width), torch.randn(hidden, width), torch.randn(hidden)
    inputs = [x.to(dtype).to("cuda", torch.float32).requires_grad_() for x in drawn]
    with torch.autocast("cuda", torch.bfloat16, enabled=dtype == torch.bfloat16):
        found = gradients(kernels.linear_relu(*inputs), inputs)
    assert found[0].dtype == dtype
    exact = exactly(inputs)
    expected = F.linear(*exact) * (found[0] > 0)  # at the edge rounding decides what is dropped
    assert error(found, gradients(expected, exact)) < most


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


@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-6), (torch.bfloat16, 5e-3)])
def test_embedding(dtype: torch.dtype, most: float) -> None:
    table = torch.randn(50, 40, device="cuda").requires_grad_()
    ids, places = torch.randint(0, 50, (3, 7), device="cuda"), torch.randn(7, 40, device="cuda")
    ids[1, 4:] = PAD
    with torch.autocast("cuda", torch.bfloat16, enabled=dtype == torch.bfloat16):
        found = gradients(kernels.embed(table, ids, places, 6.0, PAD, 0.0), [table])
    assert (found[0].dtype, found[1].dtype) == (dtype, torch.float32)
    assert error(found, gradients(F.embedding(ids, table, PAD) * 6 + places, [table])) < most


def test_common_words_keep_what_all_their_rows_get() -> None:
    table = torch.randn(50, 40, device="cuda").requires_grad_()
    ids, places = torch.full((64, 100), 7, device="cuda"), torch.zeros(100, 40, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        rows = kernels.embed(table, ids, places, 1.0, PAD, 0.0)
    to_rows = 1 + torch.randn(rows.shape, device="cuda", dtype=rows.dtype)
    found, exact = torch.autograd.grad(rows, table, to_rows)[0][7], to_rows.double().sum(dim=(0, 1))
    assert error([found], [exact]) < 1e-5


@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-6), (torch.bfloat16, 5e-3)])
def test_dropout_of_an_embedding_drops_the_same_backward(dtype: torch.dtype, most: float) -> None:
    table = (1 + torch.rand(50, 512, device="cuda")).requires_grad_()
    ids, places = torch.randint(3, 50, (8, 30), device="cuda"), torch.rand(30, 512, device="cuda")
    with torch.autocast("cuda", torch.bfloat16, enabled=dtype == torch.bfloat16):
        out = kernels.embed(table, ids, places, 6.0, PAD, 0.3)
    kept = out.detach() != 0
    assert abs(float(kept.float().mean()) - 0.7) < 0.01
    expected = (F.embedding(ids, table, PAD) * 6 + places) * kept / 0.7
    assert error(gradients(out, [table]), gradients(expected, [table])) < most


def residual_inputs(rows: int, width: int, dtype: torch.dtype, stream: torch.dtype = torch.float32) -> list[Tensor]:
    """x, change, weight, bias."""
    drawn = [torch.randn(size, device="cuda") for size in ((3, rows, width), (3, rows, width), (width,), (width,))]
    made = (drawn[0] + 1).to(stream), drawn[1].to(dtype), 1 + 0.1 * drawn[2], 0.1 * drawn[3]
    return [x.requires_grad_() for x in made]


def exactly(inputs: list[Tensor]) -> list[Tensor]:
    return [x.detach().double().requires_grad_() for x in inputs]


@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize(("rows", "width"), [(7, 40), (1, 512), (1001, 512)])
class TestResidual:
    def test_norm(self, dtype: torch.dtype, most: float, rows: int, width: int) -> None:
        inputs = residual_inputs(rows, width, dtype)
        x, _, weight, bias = inputs
        with torch.autocast("cuda", torch.bfloat16, enabled=dtype == torch.bfloat16):
            out = kernels.norm(x, weight, bias, 1e-5)
        assert out.dtype == dtype
        exact, _, *affine = exactly(inputs)
        expected = gradients(F.layer_norm(exact, (width,), *affine), [exact, *affine])
        assert error(gradients(out, [x, weight, bias]), expected) < most

    def test_sum(self, dtype: torch.dtype, most: float, rows: int, width: int) -> None:
        x, change, *_ = residual_inputs(rows, width, dtype)
        total = kernels.add(x, change, 0.0)
        assert total.dtype == torch.float32
        assert error(gradients(total, [x, change]), gradients(x + change, [x, change])) < 1e-6

    def test_sum_and_norm(self, dtype: torch.dtype, most: float, rows: int, width: int) -> None:
        inputs = residual_inputs(rows, width, dtype)
        exact = exactly(inputs)
        found = torch.cat(kernels.add_norm(*inputs, 1e-5, 0.0, dtype), dim=-1)
        total = exact[0] + exact[1]
        expected = torch.cat([total, F.layer_norm(total, (width,), *exact[2:])], dim=-1)
        assert error(gradients(found, inputs), gradients(expected, exact)) < most

    def test_sum_and_norm_of_what_is_no_more_exact(
        self, dtype: torch.dtype, most: float, rows: int, width: int
    ) -> None:
        """As everywhere under autocast: sums, and what they get, have the precision of the matrix products."""
        inputs = residual_inputs(rows, width, dtype, dtype)
        exact = exactly(inputs)
        total, out = kernels.add_norm(*inputs, 1e-5, 0.0, dtype)
        assert total.dtype == dtype
        expected = exact[0] + exact[1]
        expected = torch.cat([expected, F.layer_norm(expected, (width,), *exact[2:])], dim=-1)
        assert error(gradients(torch.cat([total, out], dim=-1), inputs), gradients(expected, exact)) < most

    def test_sum_with_the_bias_of_the_change(self, dtype: torch.dtype, most: float, rows: int, width: int) -> None:
        inputs = [*residual_inputs(rows, width, dtype), torch.randn(width, device="cuda").requires_grad_()]
        exact = exactly(inputs)
        found = torch.cat(kernels.add_norm(*inputs[:4], 1e-5, 0.0, dtype, inputs[4]), dim=-1)
        total = exact[0] + (exact[1] + exact[4])
        expected = torch.cat([total, F.layer_norm(total, (width,), *exact[2:4])], dim=-1)
        assert error(gradients(found, inputs), gradients(expected, exact)) < most
        some = [inputs[n] for n in (0, 1, 4)]
        found = gradients(kernels.add(some[0], some[1], 0.0, some[2]), some)
        assert error(found, gradients(total, [exact[n] for n in (0, 1, 4)])) < most

    def test_norm_of_the_sum_alone(self, dtype: torch.dtype, most: float, rows: int, width: int) -> None:
        """As after a sub-layer that is normalised behind it."""
        inputs = residual_inputs(rows, width, dtype)
        exact = exactly(inputs)
        found = gradients(kernels.add_norm(*inputs, 1e-5, 0.0, torch.float32)[1], inputs)
        expected = gradients(F.layer_norm(exact[0] + exact[1], (width,), *exact[2:]), exact)
        assert error(found, expected) < most


@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
def test_dropout_drops_its_share_and_backward_drops_the_same(dtype: torch.dtype, most: float) -> None:
    inputs = residual_inputs(1001, 512, dtype, dtype)
    inputs[0].data.zero_()
    total, out = kernels.add_norm(*inputs, 1e-5, 0.3, dtype)
    kept = total.detach() != 0
    assert abs(float(kept.float().mean()) - 0.7) < 0.002  # five deviations
    exact = exactly(inputs)
    expected = exact[0] + exact[1] * kept / 0.7
    expected = torch.cat([expected, F.layer_norm(expected, (512,), *exact[2:])], dim=-1)
    assert error(gradients(torch.cat([total, out], dim=-1), inputs), gradients(expected, exact)) < most


def test_dropout_of_neighbours_is_independent() -> None:
    nothing, ones = torch.zeros(4096, 512, device="cuda"), torch.ones(4096, 512, device="cuda")
    kept = 2 * (kernels.add(nothing, ones, 0.5) > 0).double() - 1
    for rows, columns in ((1, 0), (2, 0), (4, 0), (0, 1), (0, 8), (4, 8)):
        together = kept * kept.roll((rows, columns), (0, 1))
        assert abs(float(together.mean())) < 5 / kept.numel() ** 0.5


def test_dropout_follows_the_seed_and_a_recorded_graph_draws_anew() -> None:
    x, change = torch.zeros(8, 64, device="cuda"), torch.ones(8, 64, device="cuda")

    def seeded(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return kernels.add(x, change, 0.5)

    assert torch.equal(seeded(1), seeded(1))
    assert not torch.equal(seeded(1), seeded(2))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = kernels.add(x, change, 0.5)
    graph.replay()
    once = total.clone()
    graph.replay()
    assert not torch.equal(once, total)


@pytest.mark.filterwarnings(
    "ignore:.*torch.jit:DeprecationWarning",  # what compilers of some versions say about themselves
    "ignore:TensorFloat32 tensor cores:UserWarning",
    "ignore:The .grad attribute of a Tensor:UserWarning",
)
@pytest.mark.parametrize("build", ["pre", "post"])
def test_compiled_layers(build: str, plainly: Callable[..., list[Tensor]]) -> None:
    """What is compiled once holds for every length; in bfloat16 it comes about as near to the truth as the plain layers do."""
    torch.compiler.reset()
    model = random_model(BUILDS[build]).cuda()
    plain = model.encoder[0], model.decoder[0]
    compiled = [torch.compile(layer, dynamic=True) for layer in plain]
    parameters = [parameter for layer in plain for parameter in layer.parameters()]

    def compute(layers: Sequence[nn.Module], x: Tensor, *, narrow: bool) -> list[Tensor]:
        readable = torch.ones(len(x), 1, x.shape[1], x.shape[1], dtype=torch.bool, device="cuda").tril()
        with torch.autocast("cuda", torch.bfloat16, enabled=narrow):
            _, memory = layers[0](x, plain[0].itself.residual.enter(x), None, None, model.encoder_norm)
            held, entered = plain[1].cross.hold(memory), plain[1].itself.residual.enter(x)
            made = layers[1](x, entered, held, readable, None, None, model.output_norm)
            result, to_x, *others = gradients(torch.cat(made, dim=-1), [x, *parameters])
        return [result, to_x, torch.cat([other.flatten() for other in others])]

    for streams, length in ((3, 17), (4, 33)):
        x = torch.randn(streams, length, 64, device="cuda").requires_grad_()
        truth, near = (plainly(partial(compute, plain, x, narrow=narrow)) for narrow in (False, True))
        assert error(compute(compiled, x, narrow=False), truth) < 1e-4
        assert error(compute(compiled, x, narrow=True), truth) < 2 * error(near, truth)


@pytest.mark.parametrize("first", [0, PAD + 1])
def test_cross_entropy(first: int, plainly: Callable[..., list[Tensor]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bethink.model.kernels.cross_entropy.CHUNK", 9000 * 5)  # several slices
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
    learner = Objective(random_model(BUILDS[build]), LossConfig()).cuda()
    source, target = (torch.randint(3, 50, (4, n), device="cuda") for n in (length, length - 3))
    source[1, 9:], target[2, 11:] = PAD, PAD
    path = torch.randint(1, 9, target.shape, device="cuda")

    def compute() -> list[Tensor]:
        learner.zero_grad()
        parts = learner(Batch(source, target, path))
        parts["loss"].backward()
        every = torch.cat([parameter.grad.flatten() for parameter in learner.parameters()])
        return [*(parts[name].detach() for name in sorted(parts)), every]

    truth = plainly(compute)
    assert error(compute(), truth) < 1e-4
    with torch.autocast("cuda", torch.bfloat16):
        found, near = compute(), plainly(compute)
    assert error(found, truth) < 2 * error(near, truth)
