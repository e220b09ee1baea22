"""A bidirectional encoder read word by word: every row is what the model computes from the two prefixes alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from bethink.backend import Backend, Row, Rows
from bethink.backend.onnx import OnnxBackend
from bethink.backend.reencode import Reencode, word_by_word
from bethink.backend.torch import TorchBackend
from bethink.engine import Engine
from bethink.export import _write_graphs
from bethink.model.config import ModelConfig
from bethink.model.transformer import Transformer, likeliest
from bethink.policy import Action, parse
from bethink.text import EOS
from tests import models, naive
from tests.models import SMALL, random_model

PLAIN = ModelConfig(20, 20, **SMALL, causal=False)
FOREIGN = ModelConfig(20, 20, **SMALL, **models.FOREIGN, causal=False, judge=8)
CAUSAL = ModelConfig(20, 20, **SMALL, **models.FOREIGN, capsules=models.CAPSULES)  # as trained further
POLICIES = ("wait-k:1", "wait-k:k=2,rate=1.5", "adaptive:rho_1=0.6,rho_k=0,k_max=5", "weigh:k=1,r=3,rho=0.7", "offline")


def forward(model: Transformer, source: list[int], inputs: list[int]) -> Row:
    """The last row of the plain forward pass on the two prefixes."""
    config = model.config
    ids = torch.tensor([[*config.tag, *source]])
    given = torch.tensor([[*config.begin, *inputs[1:]]])
    path = torch.full_like(given, ids.shape[1])
    with torch.inference_mode():
        output = model(ids, given, path).output
        candidate, confidence = likeliest(model.scores(output, torch.arange(given.shape[1])))
        judged = model.judge(output, confidence, None, path)[0, -1].item() if model.judge else None
    return Row(int(candidate[0, -1]), float(confidence[0, -1]), torch.zeros(0).numpy(), judged)


def sentence(seed: int, length: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return [*torch.randint(3, 20, (length,), generator=generator).tolist(), EOS]


def model_of(config: ModelConfig) -> Transformer:
    return random_model(config, seed=4)


def backend_of(model: Transformer, kind: str, path: Path) -> Backend:
    if kind == "torch":
        return word_by_word(TorchBackend(model), model.config)
    _write_graphs(model, path, kind, None)
    return word_by_word(OnnxBackend.load(path, threads=1), model.config)


def run(engine: Engine, jobs: list[tuple[str, list[int]]], *, at_once: bool) -> list[list[tuple[int, ...]]]:
    """Target tokens, paths, confidences and attention. `at_once`: all words before the first round, else one word between rounds."""
    streams = [engine.open(parse(policy)) for policy, _ in jobs]
    for place in range(max(len(source) for _, source in jobs)):
        for stream, (_, source) in zip(streams, jobs, strict=True):
            if place < len(source) - 1:
                engine.feed(stream, [source[place]])
            elif place == len(source) - 1:
                engine.close(stream)
        if not at_once:
            engine.round()
    engine.run()
    steps = [[step for step in stream.take() if step.action is Action.WRITE] for stream in streams]
    return [
        [(step.token, step.read, step.confidence, step.stability, step.attention) for step in some] for some in steps
    ]


@pytest.mark.parametrize("kind", ["torch", "float32"])
@pytest.mark.parametrize("config", [PLAIN, FOREIGN], ids=["plain", "foreign"])
def test_streaming_equals_computing_everything_from_the_prefixes(
    config: ModelConfig, kind: str, tmp_path: Path
) -> None:
    model = model_of(config)
    backend = backend_of(model, kind, tmp_path)
    for seed, policy in enumerate(POLICIES):
        source = sentence(seed, 4 + seed)
        expected = naive.translate(
            parse(policy), source, lambda source, inputs, path: forward(model, list(source[: path[-1]]), list(inputs))
        )
        for at_once in (False, True):
            found = run(Engine(backend), [(policy, source)], at_once=at_once)[0]
            assert ([token for token, *_ in found], [read for _, read, *_ in found]) == expected


def test_attention_is_the_mean_over_the_heads_of_the_last_layer(tmp_path: Path) -> None:
    model = model_of(FOREIGN)
    backend = backend_of(model, "float32", tmp_path)
    slot, source = backend.open(), sentence(1, 5)
    backend.read([(slot, source)])
    row = backend.step([Rows(slot, 0, (EOS, 8), (4, 4))])[0][1]
    ids, given = torch.tensor([[*FOREIGN.tag, *source[:4]]]), torch.tensor([[*FOREIGN.begin, 8]])
    cross, entered = model.decoder[-1].cross, []
    cross.query.register_forward_pre_hook(lambda _, inputs: entered.append(inputs[0]))
    with torch.inference_mode():
        memory = model.forward(ids, given, torch.full_like(given, 5)).memory
        keys, _ = cross.remember(memory)
        queries = cross.query(entered[0]).unflatten(-1, (FOREIGN.heads, -1)).transpose(1, 2)
        weights = (queries @ keys.transpose(2, 3) / (FOREIGN.width // FOREIGN.heads) ** 0.5).softmax(-1)
    assert row.attention is not None
    np.testing.assert_allclose(row.attention, weights.mean(dim=1)[0, -1, 1:].numpy(), atol=1e-5)


@pytest.mark.parametrize("kind", ["torch", "float32"])
def test_a_causal_model_with_prompts_streams_what_it_computes_in_parallel(kind: str, tmp_path: Path) -> None:
    """Caches and degrees too: along the path taken, the parallel forward has the same argmax and the same degrees."""
    model = model_of(CAUSAL)
    engine = Engine(backend_of(model, kind, tmp_path))
    for seed, policy in enumerate((*POLICIES, "pe:k=2,rho=0.05,r=3")):
        source = sentence(seed, 4 + seed)
        stream = engine.open(parse(policy))
        engine.feed(stream, source[:-1])
        engine.close(stream)
        engine.run()
        steps = [step for step in stream.take() if step.action is Action.WRITE and step.confidence is not None]
        target, path = (torch.tensor([[getattr(step, name) for step in steps]]) for name in ("token", "read"))
        with torch.inference_mode():
            found = model.along(torch.tensor([source]), target, path)
            places = torch.arange(1, 1 + len(steps))  # the first token is predicted by the second row
            assert torch.equal(likeliest(model.scores(found.output, places))[0], target)
        assert found.routing is not None
        for step, degrees in zip(steps, found.routing.degrees[0], strict=True):
            if step.degrees is not None:
                np.testing.assert_allclose(step.degrees, degrees[: step.read], atol=1e-5)
        assert len(steps) > 2


@pytest.mark.parametrize("kind", ["float32", "int8"])
@pytest.mark.parametrize("config", [FOREIGN, CAUSAL], ids=["bidirectional", "causal"])
def test_interleaved_equals_alone_to_the_last_bit(config: ModelConfig, kind: str, tmp_path: Path) -> None:
    backend = backend_of(model_of(config), kind, tmp_path)
    jobs = [(POLICIES[seed % len(POLICIES)], sentence(seed, 3 + seed % 7)) for seed in range(12)]
    alone = [run(Engine(backend), [job], at_once=True)[0] for job in jobs]
    assert run(Engine(backend, batch=5), jobs, at_once=True) == alone
    assert run(Engine(backend, batch=64), jobs, at_once=False) == alone
    assert run(Engine(backend, speculate=False), jobs, at_once=False) == alone


def test_a_prefix_is_encoded_only_when_a_row_needs_it() -> None:
    backend = Reencode(TorchBackend(model_of(PLAIN)))
    slot = backend.open()
    for token in (4, 5, 6):
        backend.read([(slot, [token])])
    assert backend.encoded == 0
    backend.step([Rows(slot, 0, (EOS,), (2,))])
    backend.step([Rows(slot, 1, (8,), (2,))])
    assert (backend.encoded, backend.repeated) == (2, 0)
    backend.step([Rows(slot, 2, (9,), (3,))])
    assert (backend.encoded, backend.repeated) == (5, 2)
    backend.close(slot)


def test_rows_with_another_prefix_are_left_to_the_next_call() -> None:
    backend = backend_of(model_of(PLAIN), "torch", Path())
    slot = backend.open()
    backend.read([(slot, [4, 5, EOS])])
    assert len(backend.step([Rows(slot, 0, (EOS, 8, 9), (2, 2, 3))])[0]) == 2


def test_a_causal_model_is_left_as_it_is() -> None:
    model = random_model(ModelConfig(20, 20, **SMALL))
    backend = TorchBackend(model)
    assert word_by_word(backend, model.config) is backend
