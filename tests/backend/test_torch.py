"""Streaming through caches equals the parallel forward along the path taken, for every policy and every build of model."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from bethink.backend import Rows
from bethink.backend.per_lag import PerLag
from bethink.backend.torch import TorchBackend
from bethink.engine import Engine
from bethink.model.transformer import Transformer, likeliest
from bethink.policy import Action, parse
from bethink.text import EOS
from bethink.trace import Step
from tests.models import BUILDS, SMALL, random_model

SPECS = [
    "offline",
    "wait-k:1",
    "wait-k:3,1.5",
    "adaptive:0.9,0.1,6",
    "weigh:k=1,r=3,rate=1.2,rho=0.3",
    "pe:k=2,rho=0.05,r=2",
    "pe:k=1,rho=0.3,r=3",
    "pe-flip:k=3,tau=0.02",
]


def sentence(seed: int, length: int = 9) -> list[list[int]]:
    chance = random.Random(seed)
    return [[chance.randrange(3, 20) for _ in range(chance.choice([1, 1, 2]))] for _ in range(length)]


def stream(backend: TorchBackend | PerLag, spec: str, source: list[list[int]]) -> list[Step]:
    engine = Engine(backend)
    one = engine.open(parse(spec))
    for word in source:  # word by word, so that the encoder works incrementally too
        engine.feed(one, word)
        engine.run()
    engine.close(one)
    engine.run()
    return one.take()


def parallel(
    model: Transformer, source: list[list[int]], steps: list[Step]
) -> tuple[list[int], torch.Tensor, torch.Tensor | None]:
    writes = [step for step in steps if step.action is Action.WRITE]
    ids = torch.tensor([[token for word in source for token in word] + [EOS]])
    inputs = torch.tensor([[EOS] + [step.token for step in writes[:-1]]])
    path = torch.tensor([[step.read for step in writes]])
    with torch.no_grad():
        forward = model(ids, inputs, path)
        candidates, confidences = likeliest(model.scores(forward.output, torch.arange(path.shape[1])[None]))
    return candidates[0].tolist(), confidences[0], forward.routing.degrees[0] if forward.routing else None


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("spec", SPECS)
def test_streaming_is_parallel(build: str, spec: str) -> None:
    model = random_model(BUILDS[build], seed=3)
    if BUILDS[build].capsules is None and spec.startswith("pe"):
        pytest.skip("a model without capsules has no degrees")
    for seed in range(3):
        source = sentence(seed)
        steps = stream(TorchBackend(model), spec, source)
        writes = [step for step in steps if step.action is Action.WRITE]
        tokens, confidences, degrees = parallel(model, source, steps)
        written = [step.token for step in writes]
        if writes[-1].confidence is None:  # cut at the bound on what a model may write
            written, tokens = written[:-1], tokens[:-1]
        assert written == tokens
        for t, step in enumerate(writes):
            if step.confidence is not None:
                assert step.confidence == pytest.approx(float(confidences[t]), abs=1e-5)
            if step.degrees:
                assert degrees is not None
                np.testing.assert_allclose(step.degrees, degrees[t, : step.read], atol=1e-5)


def test_many_streams_are_each_alone() -> None:
    model = random_model(BUILDS["post"], seed=5)
    sources = [sentence(seed, length=3 + seed % 9) for seed in range(12)]
    expected = [stream(TorchBackend(model), SPECS[n % len(SPECS)], source) for n, source in enumerate(sources)]
    engine = Engine(TorchBackend(model), batch=5)
    streams = [engine.open(parse(SPECS[n % len(SPECS)])) for n in range(len(sources))]
    for n, source in enumerate(sources):
        for word in source:
            engine.feed(streams[n], word)
            engine.round()
        engine.close(streams[n])
    engine.run()
    for one, steps in zip(streams, expected, strict=True):
        assert [(step.action, step.token, step.read) for step in one.take()] == [
            (s.action, s.token, s.read) for s in steps
        ]


def test_slots_are_used_again_without_memory_of_the_past() -> None:
    backend = TorchBackend(random_model(BUILDS["pre"], seed=1))
    first = stream(backend, "wait-k:2", sentence(1))
    stream(backend, "wait-k:2", sentence(2, length=20))
    again = stream(backend, "wait-k:2", sentence(1))
    assert [step.token for step in again] == [step.token for step in first]


def test_a_bidirectional_encoder_sees_the_whole_sentence() -> None:
    from bethink.model.config import ModelConfig

    model = random_model(ModelConfig(20, 20, **SMALL, causal=False), seed=2)
    for seed in range(3):
        source = sentence(seed, length=4 + seed)
        steps = stream(TorchBackend(model), "offline", source)
        tokens, _, _ = parallel(model, source, steps)
        assert [step.token for step in steps if step.action is Action.WRITE][:-1] == tokens[:-1]


def test_per_lag_of_copies_is_the_model_itself() -> None:
    """With the same model at every lag, switching between models and catching up must not change anything."""
    model = random_model(BUILDS["plain"], seed=4)
    for seed in range(4):
        source = sentence(seed)
        expected = stream(TorchBackend(model), "adaptive:0.9,0.1,6", source)
        steps = stream(PerLag([TorchBackend(model) for _ in range(6)]), "adaptive:0.9,0.1,6", source)
        assert [(s.action, s.token, s.read) for s in steps] == [(s.action, s.token, s.read) for s in expected]


def test_a_bank_asks_the_model_of_the_lag() -> None:
    """Each model's row equals that model's own parallel forward along the path so far."""
    models = [random_model(BUILDS["plain"], seed=seed) for seed in range(3)]
    per_lag = PerLag([TorchBackend(model) for model in models])
    slot = per_lag.open()
    ids = [4, 5, 6, 7, 8, EOS]
    per_lag.read([(slot, ids)])
    path, inputs = [1, 3, 3, 6], [EOS, 9, 10, 11]
    for t, (token, prefix) in enumerate(zip(inputs, path, strict=True)):
        row = per_lag.step([Rows(slot, t, (token,), (prefix,))])[0][0]
        which = 2 if prefix == len(ids) else min(max(prefix - t, 1), 3) - 1
        with torch.no_grad():
            forward = models[which](torch.tensor([ids]), torch.tensor([inputs[: t + 1]]), torch.tensor([path[: t + 1]]))
            candidate, confidence = likeliest(models[which].scores(forward.output, torch.arange(t + 1)[None]))
        assert row.candidate == int(candidate[0, -1])
        assert row.confidence == pytest.approx(float(confidence[0, -1]), abs=1e-5)
