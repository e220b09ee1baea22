"""The engine's shortcuts are exact: reuse, speculation and batching change how often the model is asked, never what comes out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bethink.backend import Backend, Row, Rows
from bethink.backend.per_lag import PerLag
from bethink.engine import FEW, Engine
from bethink.errors import ModelError, UsageError
from bethink.policy import Action, Policy, parse, reasons
from bethink.stream import Stream
from bethink.text import EOS
from bethink.trace import Step
from tests import naive
from tests.fake import FakeBackend

SPECS = [
    "offline",
    "wait-k:1",
    "wait-k:3",
    "wait-k:2,1.5",
    "adaptive:0.9,0.2,5",
    "weigh:k=2,r=3,rate=1.3,rho=0.9",
    "weigh:k=1,r=3,rate=1.3,rho=0.9,care=0.6",
    "pe:k=1,rho=0.7,r=2",
    "pe:k=3,rho=0.9,r=2",
    "pe:k=2,rho=0.5,r=0",
    "pe:k=2,rho=0.95,r=5",
    "pe-flip:k=3,tau=0.3",
    "pe-flip:k=1,tau=0.0",
]
words = st.lists(st.lists(st.integers(3, 9), min_size=1, max_size=3), min_size=1, max_size=9)


def alone(backend: Backend, policy: Policy, source: list[list[int]], *, speculate: bool = True) -> list[Step]:
    engine = Engine(backend, speculate=speculate)
    stream = engine.open(policy)
    for word in source:
        engine.feed(stream, word)
    engine.close(stream)
    engine.run()
    assert stream.done
    return stream.take()


def outcome(steps: list[Step]) -> tuple[list[int], list[int]]:
    writes = [step for step in steps if step.action is Action.WRITE]
    return [step.token for step in writes], [step.read for step in writes]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SPECS), words, st.integers(0, 10**6))
def test_streaming_is_naive_recomputation(spec: str, source: list[list[int]], seed: int) -> None:
    backend, policy = FakeBackend(seed), parse(spec)
    ids = [token for word in source for token in word] + [EOS]
    ends = {0, *accumulate(map(len, source))}
    expected = naive.translate(policy, ids, lambda x, y, g: backend.row(x[: g[-1]], list(zip(y, g, strict=True))), ends)
    steps = alone(backend, policy, source)
    assert outcome(steps) == expected
    assert alone(backend, policy, source, speculate=False) == steps, "guessing leaves no trace"
    assert not backend.sources, "every slot was given back"


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(SPECS), words), min_size=1, max_size=12),
    st.integers(0, 10**6),
    st.integers(1, 5),
)
def test_interleaved_is_alone(jobs: list[tuple[str, list[list[int]]]], seed: int, batch: int) -> None:
    """Streams of all policies, hearing words at random moments, each get the very steps they get alone."""
    backend, chance = FakeBackend(seed), random.Random(seed)
    expected = [alone(backend, parse(spec), source) for spec, source in jobs]
    engine = Engine(backend, batch=batch)
    streams = [engine.open(parse(spec)) for spec, _ in jobs]
    assert interleaved(engine, streams, [source for _, source in jobs], chance) == expected


def interleaved(
    engine: Engine, streams: Sequence[Stream], sources: Sequence[list[list[int]]], chance: random.Random
) -> list[list[Step]]:
    """The steps of each stream, when all hear their words at random moments."""
    pending = {stream: [*source] for stream, source in zip(streams, sources, strict=True)}
    while pending:
        stream = chance.choice(list(pending))
        if pending[stream]:
            engine.feed(stream, pending[stream].pop(0))
        else:
            engine.close(stream)
            del pending[stream]
        for _ in range(chance.randrange(3)):
            engine.round()
    engine.run()
    return [stream.take() for stream in streams]


def test_writes_cost_one_round_and_reads_at_most_two() -> None:
    """A WRITE reuses the row that judged it; a READ costs one call, and one more if the candidate changed."""
    for seed in range(20):
        backend = FakeBackend(seed, ending=0.0)
        engine = Engine(backend)
        stream = engine.open(parse("pe:k=2,rho=0.8,r=2"))
        for word in [[5], [6], [7], [8], [9]]:
            engine.feed(stream, word)
        engine.close(stream)
        engine.run()
        steps = stream.take()
        writes = sum(step.action is Action.WRITE for step in steps)
        reads = sum(step.action is Action.READ and step.read > 2 for step in steps)
        assert stream.rounds <= writes + 2 * reads + 1


def test_a_call_is_no_larger_than_the_batch() -> None:
    backend = FakeBackend(4)
    engine = Engine(backend, batch=3)
    for _ in range(8):
        stream = engine.open(parse("wait-k:1"))
        engine.feed(stream, [4])
        engine.close(stream)
    engine.run()
    assert max(backend.calls) == 3
    with pytest.raises(UsageError, match="at least 1"):
        Engine(backend, batch=0)


class Counting(FakeBackend):
    """Notes how many rows each request of a call asks for."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.asked: list[list[int]] = []

    def step(self, requests: Sequence[Rows]) -> list[list[Row]]:
        self.asked.append([len(request.tokens) for request in requests])
        return super().step(requests)


@pytest.mark.parametrize(("spec", "needed"), [("weigh:k=1,r=4,rate=1,rho=0.9", 1), ("pe:k=1,rho=0.9,r=3", 2)])
def test_in_a_crowd_nothing_is_computed_that_no_decision_needs(spec: str, needed: int) -> None:
    def most(streams: int) -> int:
        backend = Counting(3)
        engine = Engine(backend)
        opened = [engine.open(parse(spec)) for _ in range(streams)]
        for word in range(3, 12):
            for stream in opened:
                if not stream.done:
                    engine.feed(stream, [word])
            engine.run()
        full = [call for call in backend.asked[1:] if len(call) > FEW]  # before the first it is not known who comes
        return max(rows for call in full or backend.asked for rows in call)

    assert most(4 * FEW) == needed
    assert most(1) > needed


class Flipping(FakeBackend):
    """The first source token goes from untranslated to translated with every word, and back again."""

    def row(self, source: Sequence[int], history: Sequence[tuple[int, int]]) -> Row:
        degree = 0.9 if len(history) % 2 == 0 else 0.1
        return Row(
            5 if len(history) < 6 else EOS, 0.5, np.array([degree] + [0.5] * (len(source) - 1), dtype=np.float32)
        )


def test_a_token_flips_once() -> None:
    """pe-flip writes the first word on the flip of token 0 with one token read; later flips of it count for nothing."""
    steps = alone(Flipping(), parse("pe-flip:k=1,tau=0.2"), [[4], [5], [6], [7], [8], [9]])
    writes = [step for step in steps if step.action is Action.WRITE]
    assert [step.evidence for step in writes[:4]] == [(0,), (), (), ()]
    assert [step.read for step in writes[:4]] == [1, 2, 3, 4]  # otherwise it may go no faster than wait-1


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(SPECS), words, st.integers(0, 10**6))
def test_every_step_has_its_reason(spec: str, source: list[list[int]], seed: int) -> None:
    steps = alone(FakeBackend(seed), parse(spec), source)
    complete = False
    for step in steps:
        assert step.reason.code in reasons()
        assert (step.reason.code in {"source_complete", "length_limit"}) == complete
        assert bool(step.evidence) == (step.reason.code == "evidence")
        complete = complete or (step.action is Action.READ and step.token == EOS)


def test_a_waiting_stream_costs_nothing() -> None:
    backend = FakeBackend(3, ending=0.0)
    engine = Engine(backend)
    waiting = engine.open(parse("wait-k:3"))
    engine.feed(waiting, [4])
    engine.run()
    calls = len(backend.calls)
    assert not engine.round()
    assert len(backend.calls) == calls
    assert [step.action for step in waiting.take()] == [Action.READ]


def test_a_premature_end_reads_on() -> None:
    backend = FakeBackend(1, ending=1.0)
    for spec in SPECS:
        steps = alone(backend, parse(spec), [[4], [5], [6, 7]])
        assert outcome(steps) == ([EOS], [5]), spec


def test_endless_models_are_bounded() -> None:
    steps = alone(FakeBackend(1, ending=0.0), parse("wait-k:3"), [[4], [5]])
    assert outcome(steps)[0][-1] == EOS
    assert len(outcome(steps)[0]) == 2 * 3 + 51


def test_an_abandoned_stream_gives_its_slot_back() -> None:
    backend = FakeBackend()
    engine = Engine(backend)
    stream: Stream = engine.open(parse("wait-k:1"))
    engine.feed(stream, [4])
    engine.round()
    engine.abandon(stream)
    engine.run()
    assert not backend.sources


def test_models_that_cannot_serve_a_policy_say_so() -> None:
    backend = FakeBackend()
    backend.capsules = False
    with pytest.raises(ModelError, match="no capsules"):
        Engine(backend).open(parse("pe"))
    backend.causal = False
    with pytest.raises(ModelError, match="bidirectional"):
        Engine(backend).open(parse("wait-k:3"))
    assert Engine(backend).open(parse("offline"))


def rounds(policy: str, source: list[list[int]], backend: FakeBackend, *, speculate: bool) -> int:
    engine = Engine(backend, speculate=speculate)
    stream = engine.open(parse(policy))
    for word in source:
        engine.feed(stream, word)
    engine.close(stream)
    engine.run()
    return engine.rounds


class Steady(FakeBackend):
    """Writes the same words whatever it has read, as a model does that is sure of what it will say."""

    def row(self, source: Sequence[int], history: Sequence[tuple[int, int]]) -> Row:
        token = EOS if len(history) > 9 else 3 + len(history)
        return Row(token, 0.5, np.full(len(source), 0.1, dtype=np.float32))


def test_guesses_that_come_true_save_rounds() -> None:
    """Every word is put off once. Without guessing that costs three rounds a word, with it hardly more than one."""
    source = [[n] for n in range(3, 12)]
    assert rounds("pe:k=1,rho=0.5,r=1", source, Steady(), speculate=False) >= 24
    assert rounds("pe:k=1,rho=0.5,r=1", source, Steady(), speculate=True) <= 12


class Saturated(FakeBackend):
    """All that was read counts as translated, so no word can raise any degree by much."""

    def row(self, source: Sequence[int], history: Sequence[tuple[int, int]]) -> Row:
        row = super().row(source, history)
        return Row(row.candidate, row.confidence, 0.8 + row.degrees / 5)


@pytest.mark.parametrize("spec", ["pe:k=2,rho=0.3,r=3", "pe-flip:k=3,tau=0.5"])
def test_a_word_that_cannot_pass_is_put_off_without_looking_ahead(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = parse(spec)
    source = [[n] for n in range(3, 12)]
    asked = rounds(spec, source, Saturated(2), speculate=False)
    expected = alone(Saturated(2), policy, source, speculate=False)
    monkeypatch.setattr(type(policy), "cannot_pass", lambda *_: False)
    assert alone(Saturated(2), policy, source, speculate=False) == expected
    assert rounds(spec, source, Saturated(2), speculate=False) > asked


@settings(max_examples=40, deadline=None)
@given(words, st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([0.0, 0.3, 0.6, 0.8]))
def test_degrees_of_any_height_give_what_naive_recomputation_gives(
    source: list[list[int]], seed: int, k: int, floor: float
) -> None:
    """Where degrees start decides whether words can pass; it must not decide anything else."""

    class Raised(FakeBackend):
        def row(self, source: Sequence[int], history: Sequence[tuple[int, int]]) -> Row:
            row = super().row(source, history)
            return Row(row.candidate, row.confidence, np.float32(floor) + row.degrees * np.float32(1 - floor))

    ids = [token for word in source for token in word] + [EOS]
    for spec in (f"pe:k={k},rho=0.25,r=2", f"pe:k={k},rho=0.6,r=1", f"pe-flip:k={k},tau=0.2"):
        backend, policy = Raised(seed), parse(spec)
        expected = naive.translate(
            policy, ids, lambda x, y, g, b=backend: b.row(x[: g[-1]], list(zip(y, g, strict=True)))
        )  # type: ignore[misc]
        assert outcome(alone(backend, policy, source)) == expected
        assert outcome(alone(backend, policy, source, speculate=False)) == expected


@settings(max_examples=40, deadline=None)
@given(words, st.integers(0, 10**6))
def test_a_bank_of_different_models_is_not_mixed_up_by_guessing(source: list[list[int]], seed: int) -> None:
    """A row ahead belongs to another lag, hence to another model; it must not be taken from this one."""
    policy = parse("adaptive:0.9,0.2,4")
    per_lag = PerLag([FakeBackend(seed + n, ending=0.05) for n in range(4)])
    assert alone(per_lag, policy, source) == alone(per_lag, policy, source, speculate=False)


@settings(max_examples=40, deadline=None)
@given(words, st.integers(0, 10**6))
def test_a_model_that_serves_several_lags_says_what_copies_of_it_would(source: list[list[int]], seed: int) -> None:
    policy = parse("adaptive:0.9,0.2,5")
    shared = [FakeBackend(seed + n, ending=0.05) for n in range(3)]
    served = (0, 0, 1, 2, 2)  # lag 1, lag 2, …
    copies = PerLag([FakeBackend(seed + n, ending=0.05) for n in served])
    assert alone(PerLag([shared[n] for n in served]), policy, source) == alone(copies, policy, source)


def test_a_model_that_serves_several_lags_holds_a_stream_once() -> None:
    shared = FakeBackend(1)
    per_lag = PerLag([shared] * 4)
    per_lag.open()
    per_lag.open()
    assert shared.most == 2


def test_everyone_gets_a_turn_before_anyone_gets_two() -> None:
    engine = Engine(FakeBackend(2, ending=0.0), batch=3)
    streams = [engine.open(parse("wait-k:1")) for _ in range(10)]
    for stream in streams:
        for word in range(3, 9):
            engine.feed(stream, [word])
        engine.close(stream)
    written = [0] * len(streams)
    for _ in range(20):
        assert engine.round()
        for n, stream in enumerate(streams):
            written[n] += sum(step.action is Action.WRITE for step in stream.take())
        assert max(written) - min(written) <= 1
