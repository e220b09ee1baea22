"""The exported graphs say what the model itself says: same tokens, same paths, same degrees, alone and in a crowd."""

from __future__ import annotations

import dataclasses
import itertools
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from bethink.backend import Backend, Row, Rows, kv_cache, onnx
from bethink.backend.onnx import OnnxBackend
from bethink.backend.torch import TorchBackend
from bethink.engine import Engine
from bethink.errors import ModelError
from bethink.export import network
from bethink.export.graph import Graph
from bethink.export.precision import PRECISIONS
from bethink.folder import DECODER, ENCODER
from bethink.model.config import LONGEST, CapsuleConfig, ModelConfig
from bethink.model.transformer import Transformer
from bethink.policy import parse
from bethink.stream import Stream
from bethink.text import EOS, PAD, UNK
from bethink.trace import Step
from tests.models import BUILDS, CAPSULES, SMALL, random_model

MODELS = {
    **BUILDS,
    "once": dataclasses.replace(BUILDS["post"], capsules=dataclasses.replace(CAPSULES, iterations=1)),
    "scaled": dataclasses.replace(BUILDS["pre"], capsules=dataclasses.replace(CAPSULES, scale=0.25, translated=3)),
}
SPECS = [
    "offline",
    *(f"wait-k:{k}" for k in range(1, 6)),
    "adaptive:0.9,0.1,6",
    "weigh:k=1,r=3,rate=1.2,rho=0.3",
    "pe:k=1,rho=0.003,r=2",
    "pe:k=3,rho=0.02,r=1",
    "pe-flip:k=3,tau=0.0",
]
WIDE = CapsuleConfig(width=8, hidden=24, untranslated=1)


def load(model: Transformer, path: Path, precision: str = "float32") -> OnnxBackend:
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    weights["positions"] = model.positions.numpy()
    (path / ENCODER).write_bytes(network.encoder(model.config, weights, PRECISIONS[precision]).SerializeToString())
    (path / DECODER).write_bytes(network.decoder(model.config, weights, PRECISIONS[precision]).SerializeToString())
    return OnnxBackend.load(path, threads=1)


def sentence(seed: int, length: int = 9) -> list[list[int]]:
    chance = random.Random(seed)
    return [[chance.randrange(3, 20) for _ in range(chance.choice([1, 1, 2]))] for _ in range(length)]


def translate(backend: Backend, spec: str, source: list[list[int]], *, speculate: bool = True) -> list[Step]:
    engine = Engine(backend, speculate=speculate)
    one = engine.open(parse(spec))
    for word in source:
        engine.feed(one, word)
        engine.run()
    engine.close(one)
    engine.run()
    return one.take()


def together(backend: Backend, jobs: list[tuple[str, list[list[int]]]], batch: int) -> list[list[Step]]:
    """All at once, each heard a word at a time, some long done when others begin."""
    engine = Engine(backend, batch=batch)
    streams: list[Stream] = []
    for spec, source in jobs:
        streams.append(engine.open(parse(spec)))
        for word in source:
            engine.feed(streams[-1], word)
            engine.round()
        engine.close(streams[-1])
    engine.run()
    return [stream.take() for stream in streams]


def assert_same(found: list[Step], expected: list[Step]) -> None:
    assert [(step.action, step.token, step.read) for step in found] == [(s.action, s.token, s.read) for s in expected]
    for step, other in zip(found, expected, strict=True):
        assert step.evidence == other.evidence
        assert step.confidence == (None if other.confidence is None else pytest.approx(other.confidence, abs=1e-4))
        np.testing.assert_allclose(step.degrees, other.degrees, atol=1e-4)
        np.testing.assert_allclose(step.gain, other.gain, atol=1e-4)


@pytest.mark.parametrize("build", MODELS)
def test_every_policy_sees_the_same_model(build: str, tmp_path: Path) -> None:
    model = random_model(MODELS[build], seed=3)
    backend, reference = load(model, tmp_path), TorchBackend(model)
    assert (backend.causal, backend.capsules) == (reference.causal, reference.capsules)
    for n, spec in enumerate(SPECS):
        if backend.capsules or not spec.startswith("pe"):
            source = sentence(n, length=6)
            assert_same(translate(backend, spec, source), translate(reference, spec, source))


@pytest.mark.parametrize("build", MODELS)
def test_any_rows_over_any_prefixes(build: str, tmp_path: Path) -> None:
    """Several streams at random: words read, rows computed ahead and computed again, with any tokens and prefixes."""
    model, chance = random_model(MODELS[build], seed=8), random.Random(build)
    backend, reference = load(model, tmp_path), TorchBackend(model)
    slots = [(backend.open(), reference.open()) for _ in range(5)]
    heard, written = [0] * 5, [0] * 5
    for _ in range(12):
        some = chance.sample(range(5), chance.randint(1, 5))
        reads = {n: [chance.randrange(3, 20) for _ in range(chance.randint(1, 6))] for n in some}
        rows = {}
        for n in some:
            heard[n] += len(reads[n])
            start, count = chance.randint(0, written[n]), chance.randint(1, 3)
            tokens = tuple(chance.randrange(1, 20) for _ in range(count))
            rows[n] = (start, tokens, tuple(chance.randint(1, heard[n]) for _ in tokens))
            written[n] = start + count
        answers = []
        for which, each in enumerate((backend, reference)):
            each.read([(slots[n][which], ids) for n, ids in reads.items()])
            answers.append(each.step([Rows(slots[n][which], *row) for n, row in rows.items()]))
        assert_rows_same(*answers)


@pytest.mark.parametrize("batch", [3, 16])
def test_many_streams_are_each_alone(batch: int, tmp_path: Path) -> None:
    backend = load(random_model(BUILDS["post"], seed=5), tmp_path)
    jobs = [(SPECS[n % len(SPECS)], sentence(n, length=2 + n % 11)) for n in range(18)]
    for found, (spec, source) in zip(together(backend, jobs, batch), jobs, strict=True):
        assert_same(found, translate(backend, spec, source))


@pytest.mark.parametrize("build", ["post", "pre", "plain", "judged"])
@pytest.mark.parametrize("batch", [3, 16])
def test_bytes_are_each_alone_to_the_last_bit(build: str, batch: int, tmp_path: Path) -> None:
    """A difference in a last bit could round a value to another byte, and soon choose another token."""
    backend = load(random_model(BUILDS[build], seed=5), tmp_path, "int8")
    specs = [spec for spec in SPECS if backend.capsules or not spec.startswith("pe")]
    jobs = [(specs[n % len(specs)], sentence(n, length=2 + n % 17)) for n in range(24)]
    for found, (spec, source) in zip(together(backend, jobs, batch), jobs, strict=True):
        assert found == translate(backend, spec, source)


@pytest.mark.parametrize("build", ["pre", "wide", "judged"])
def test_bytes_are_the_same_however_they_come(build: str, tmp_path: Path) -> None:
    """Source tokens read at once or in pieces, decoder rows computed together or one by one."""
    config = dataclasses.replace(BUILDS["post"], width=128, heads=2) if build == "wide" else BUILDS[build]
    backend = load(random_model(config, seed=5), tmp_path, "int8")
    source, tokens, prefixes = [5 + n % 13 for n in range(90)], (EOS, *range(3, 20), 3, 4), tuple(range(71, 91))
    answers = []
    for piece, rows in ((90, 20), (7, 3), (1, 1)):
        slot = backend.open()
        for n in range(0, 90, piece):
            backend.read([(slot, source[n : n + piece])])
        cuts = [slice(n, n + rows) for n in range(0, 20, rows)]
        found = [backend.step([Rows(slot, cut.start, tokens[cut], prefixes[cut])])[0] for cut in cuts]
        answers.append(
            [(row.candidate, row.confidence, row.stability, *row.degrees) for row in itertools.chain(*found)]
        )
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("limit", ["chunk", "rows"])
def test_bytes_are_the_same_in_little_room(limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few source tokens encoded at a time, or streams that have to leave the cache again and again."""
    backend = load(random_model(BUILDS["post"], seed=5), tmp_path, "int8")
    jobs = [(SPECS[n % len(SPECS)], sentence(n, length=2 + n % 11)) for n in range(12)]
    expected = [translate(backend, *job) for job in jobs]
    if limit == "chunk":
        monkeypatch.setattr(onnx, "CHUNK", 3)
    else:
        monkeypatch.setattr(kv_cache, "ROWS", 3)
    backend = OnnxBackend.load(tmp_path, threads=1)
    assert together(backend, jobs, batch=5) == expected
    assert [translate(backend, *job) for job in jobs] == expected


def test_rows_stay_as_they_were(tmp_path: Path) -> None:
    """A backend may reuse its memory, but not what it has handed out."""
    backend = load(random_model(BUILDS["post"], seed=5), tmp_path)
    slot = backend.open()
    backend.read([(slot, [4, 5, 6])])
    (row,) = backend.step([Rows(slot, 0, (EOS,), (3,))])[0]
    before = row.degrees.copy()
    backend.step([Rows(slot, 1, (9,), (2,))])
    np.testing.assert_array_equal(row.degrees, before)


def test_bytes_are_the_same_with_a_guess_and_without(tmp_path: Path) -> None:
    backend = load(random_model(BUILDS["post"], seed=4), tmp_path, "int8")
    for seed in range(6):
        source = sentence(seed, length=12)
        guessed = translate(backend, "pe:k=3,rho=0.02,r=1", source)
        assert guessed == translate(backend, "pe:k=3,rho=0.02,r=1", source, speculate=False)


@pytest.mark.parametrize("build", MODELS)
def test_bytes_say_nearly_what_the_weights_say(build: str, tmp_path: Path) -> None:
    """Over rows with given tokens. Random models often hesitate; where they do not, rounding must not change their minds."""
    model, chance = random_model(dataclasses.replace(MODELS[build], width=64, hidden=128), seed=9), random.Random(1)
    rows: list[list[Row]] = []
    source = [chance.randrange(3, 20) for _ in range(60)]
    tokens = (EOS, *(chance.randrange(3, 20) for _ in range(199)))
    for precision in ("float32", "int8"):
        backend = load(model, tmp_path, precision)
        slot = backend.open()
        backend.read([(slot, source)])
        rows += backend.step([Rows(slot, 0, tokens, tuple(min(n + 3, 60) for n in range(200)))])
    pairs = list(zip(*rows, strict=True))
    assert all(a.candidate == b.candidate for a, b in pairs if a.confidence > 0.5)
    assert np.mean([a.candidate == b.candidate for a, b in pairs]) > 0.7
    assert 0 < np.mean([abs(a.confidence - b.confidence) for a, b in pairs]) < 0.08
    if backend.capsules:
        assert np.mean([np.abs(a.degrees - b.degrees).mean() for a, b in pairs]) < 0.06


def test_rows_of_zeros_stay_zeros_in_bytes(tmp_path: Path) -> None:
    """What feed-forward layers see after their rectifier may be nothing at all."""
    model = random_model(BUILDS["plain"], seed=2)
    for layer in (*model.encoder, *model.decoder):
        layer.feed.into.bias.data.fill_(-1e6)
    answers = []
    for backend in (load(model, tmp_path, "int8"), TorchBackend(model)):
        slot = backend.open()
        backend.read([(slot, [5, 6, 7])])
        answers.append(backend.step([Rows(slot, 0, (EOS, 5), (3, 3))])[0])
    for row, other in zip(*answers, strict=True):
        assert np.isfinite(row.confidence)
        assert row.confidence == pytest.approx(other.confidence, abs=0.1)


def test_several_threads_may_share_a_backend(tmp_path: Path) -> None:
    backend = load(random_model(BUILDS["post"], seed=5), tmp_path, "int8")
    jobs = [(SPECS[n % len(SPECS)], sentence(n, length=4 + n % 7)) for n in range(12)]
    expected = [translate(backend, *job) for job in jobs]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda job: translate(backend, *job), jobs)) == expected


def test_a_stream_is_closed_without_a_trace(tmp_path: Path) -> None:
    backend = load(random_model(BUILDS["pre"], seed=1), tmp_path)
    first = translate(backend, "wait-k:2", sentence(1))
    translate(backend, "wait-k:2", sentence(2, length=40))
    assert translate(backend, "wait-k:2", sentence(1)) == first


def test_little_is_held_for_streams_that_are_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_cache, "SPARE", 0)
    backend = load(random_model(BUILDS["pre"], seed=1), tmp_path)
    translate(backend, "wait-k:2", sentence(1, length=8))
    usual = backend.held
    together(backend, [("wait-k:2", sentence(n, length=2 + 4 * n)) for n in range(12)], batch=12)
    assert backend.held > 10 * usual
    for n in range(120):
        translate(backend, "wait-k:2", sentence(n, length=8))
    assert backend.held < 2 * usual


def test_the_encoder_forgets_a_sentence_that_is_complete(tmp_path: Path) -> None:
    backend = load(random_model(BUILDS["pre"], seed=1), tmp_path)
    slots = [backend.open(), backend.open()]
    backend.read([(slot, [5] * 40) for slot in slots])
    kept = [backend._slots[slot].heard for slot in slots]
    assert {caches.row for caches in kept} == {0, 1}
    backend.read([(slots[0], [6, EOS]), (slots[1], [7])])
    assert [caches.row >= 0 for caches in kept] == [False, True]


def test_sentences_beyond_the_last_known_position(tmp_path: Path) -> None:
    model = random_model(dataclasses.replace(BUILDS["plain"], encoder_layers=1), seed=6)
    answers = []
    for backend in (load(model, tmp_path), TorchBackend(model)):
        slot = backend.open()
        backend.read([(slot, [3 + n % 17 for n in range(LONGEST + 6)])])
        answers.append(backend.step([Rows(slot, 0, (EOS, 5), (LONGEST - 1, LONGEST + 6))]))
    assert_rows_same(*answers)


def assert_rows_same(found: list[list[Row]], expected: list[list[Row]]) -> None:
    for row, other in zip(itertools.chain(*found), itertools.chain(*expected), strict=True):
        assert row.candidate == other.candidate
        assert row.confidence == pytest.approx(other.confidence, abs=1e-5)
        assert row.stability == (None if other.stability is None else pytest.approx(other.stability, abs=1e-4))
        np.testing.assert_allclose(row.degrees, other.degrees, atol=1e-5)


def test_a_bidirectional_encoder_sees_the_whole_sentence(tmp_path: Path) -> None:
    model = random_model(ModelConfig(20, 20, **SMALL, causal=False, capsules=WIDE), seed=2)
    backend, reference = load(model, tmp_path), TorchBackend(model)
    assert not backend.causal
    answers = []
    for each in (backend, reference):
        slots = [each.open(), each.open()]
        each.read([(slots[0], [4, 5, EOS]), (slots[1], [6, 7, 8, 9, 10, EOS])])
        answers.append(each.step([Rows(slots[0], 0, (EOS,), (3,)), Rows(slots[1], 0, (EOS,), (6,))]))
    assert_rows_same(*answers)
    jobs = [("offline", sentence(seed, length=3 + 2 * seed)) for seed in range(4)]
    expected = [translate(reference, *job) for job in jobs]
    for steps, other in zip(together(backend, jobs, batch=4), expected, strict=True):
        assert_same(steps, other)


def test_nothing_without_a_text_and_no_end_at_the_beginning(tmp_path: Path) -> None:
    """A model that wants to write PAD most, then UNK, then EOS gets EOS, except as its first token."""
    model = random_model(BUILDS["separate"], seed=0)
    table = model.output_embedding.weight.data
    table.zero_()
    model.output_norm.weight.data.zero_()
    model.output_norm.bias.data.fill_(1.0)
    table[PAD], table[UNK], table[EOS], table[7] = 3.0, 2.5, 2.0, 1.0
    backend = load(model, tmp_path)
    slot = backend.open()
    backend.read([(slot, [4])])
    first, second = backend.step([Rows(slot, 0, (EOS, 7), (1, 1))])[0]
    assert (first.candidate, second.candidate) == (7, EOS)
    assert first.confidence == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("file", [ENCODER, DECODER])
@pytest.mark.parametrize("damage", ["truncated", "garbled", "empty", "missing"])
def test_damaged_graphs_are_one_sentence(file: str, damage: str, tmp_path: Path) -> None:
    load(random_model(BUILDS["plain"]), tmp_path)
    data = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(
        {"truncated": data[: len(data) // 2], "garbled": b"\xff" + data[::-1]}.get(damage, b"")
    )
    if damage == "missing":
        (tmp_path / file).unlink()
    with pytest.raises(ModelError, match=f"cannot read .*{file}; copy or export the model again"):
        OnnxBackend.load(tmp_path)


@pytest.mark.parametrize("file", [ENCODER, DECODER])
def test_a_graph_of_another_making_is_one_sentence(file: str, tmp_path: Path) -> None:
    load(random_model(BUILDS["plain"]), tmp_path)
    other = Graph("other")
    other.output("sum", other.input("ids", np.int64, "B", "N") + np.array(1), np.int64, "B", "N")
    (tmp_path / file).write_bytes(other.build().SerializeToString())
    with pytest.raises(ModelError, match=f"{file} was made by an older version of bethink; export the model again"):
        OnnxBackend.load(tmp_path)


def test_nothing_of_the_machine_is_written_down(tmp_path: Path) -> None:
    """ONNX Runtime keeps an identifier of it for its makers, unless it is told not to before it is imported."""
    home = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    home.pop("ORT_DISABLE_TELEMETRY", None)
    subprocess.run([sys.executable, "-c", "from bethink.backend import onnx"], env=home, check=True)
    assert not list(tmp_path.iterdir())
