"""Policies are pure functions with a text form."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bethink.errors import UsageError
from bethink.policy import (
    Action,
    AdaptiveWaitK,
    Need,
    Offline,
    PostEvaluation,
    PostEvaluationFlip,
    WaitK,
    Weighing,
    parse,
)

fractions = st.floats(0, 1, allow_nan=False)
policies = st.one_of(
    st.just(Offline()),
    st.builds(WaitK, st.integers(1, 50), st.floats(0.1, 4)),
    st.builds(AdaptiveWaitK, fractions, fractions, st.integers(2, 20)),
    st.builds(PostEvaluation, st.integers(1, 50), fractions, st.integers(0, 9)),
    st.builds(PostEvaluationFlip, st.integers(1, 50), fractions),
    st.builds(Weighing, st.integers(1, 50), st.integers(1, 9), st.floats(0.5, 3.0), fractions),
)


def view(**fields: object) -> SimpleNamespace:
    blank = {"read": 0, "written": 0, "deferred": 0, "explained": set()}
    return SimpleNamespace(**{**blank, **fields})


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


@given(policies)
def test_text_form_is_inverse_to_parse(policy: object) -> None:
    assert parse(str(policy)) == policy


def test_short_form_fills_settings_in_order() -> None:
    assert parse("wait-k:5") == WaitK(5)
    assert parse("wait-k:5,1.25") == WaitK(5, 1.25)
    assert parse("pe:3,rho=0.5") == PostEvaluation(3, 0.5)
    assert parse(" pe ") == PostEvaluation()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("waitk:3", "Did you mean 'wait-k'?"),
        ("wait-k:l=3", "there are k, rate"),
        ("wait-k:k=three", "must be a whole number, as in 'wait-k:k=3,rate=1.0'"),
        ("weigh:rho=x", "must be a number, as in 'weigh:k=2,r=4,rate=1.2,rho=0.9'"),
        ("wait-k:0", "at least 1"),
        ("pe:rho=2", "between 0 and 1"),
        ("pe:rho=nan", "finite"),
        ("wait-k:1,2,3", "no setting"),
        ("wait-k:k=1,k=2", "twice"),
        ("offline:3", "no setting"),
    ],
)
def test_mistakes_get_a_sentence(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says.replace("?", r"\?")):
        parse(text)


@given(st.integers(1, 12), st.integers(0, 30), st.integers(0, 60))
def test_wait_k_follows_its_schedule(k: int, written: int, read: int) -> None:
    action = WaitK(k).decide(view(read=read, written=written)).action
    assert action is (Action.READ if read < k + written else Action.WRITE)


def test_rate_reads_faster_than_it_writes() -> None:
    policy = WaitK(3, 4 / 3)
    path = [min(i for i in range(20) if policy.decide(view(read=i, written=t)).action == "WRITE") for t in range(4)]
    assert path == [3, 4, 5, 7]


def test_a_rate_is_not_lost_to_rounding() -> None:
    assert 0.29 * 100 < 29
    assert WaitK(1, 0.29).decide(view(read=29, written=100)).action is Action.READ


def test_rho_of_nothing_always_writes() -> None:
    assert PostEvaluation(k=1, rho=0.0).decide(view(read=3, gain=array(-0.1, -0.2))).action is Action.WRITE


def test_adaptive_bar_falls_with_the_lag() -> None:
    policy = AdaptiveWaitK(1.0, 0.1, 10)
    assert policy.threshold(1) == pytest.approx(1.0)
    assert policy.threshold(10) == pytest.approx(0.1)
    assert policy.decide(view(read=5, written=0, confidence=0.7)).action is Action.WRITE  # bar 0.6
    assert policy.decide(view(read=4, written=0, confidence=0.65)).action is Action.READ  # bar 0.7
    assert policy.decide(view(read=10, written=0)).action is Action.WRITE
    assert policy.decide(view(read=0, written=0)).action is Action.READ


def test_post_evaluation_writes_what_visibly_translates() -> None:
    policy = PostEvaluation(k=2, rho=0.24, r=2)
    assert policy.needs(view(read=1)) is Need.NOTHING
    assert policy.decide(view(read=1)).action is Action.READ
    decision = policy.decide(view(read=3, gain=array(0.1, 0.3, -0.9)))
    assert decision.action is Action.WRITE
    assert decision.evidence == (1,)
    assert policy.decide(view(read=3, gain=array(0.1, 0.2))).action is Action.READ
    forced = policy.decide(view(read=3, deferred=2, gain=array(0.1, 0.2)))
    assert forced.action is Action.WRITE
    assert forced.evidence == ()


def test_flip_needs_a_crossing_and_each_token_flips_once() -> None:
    policy = PostEvaluationFlip(k=2, tau=0.2)
    crossing = {"degrees": array(0.3, 0.5), "gain": array(0.4, 0.4)}
    assert policy.decide(view(read=2, written=1, **crossing)).evidence == (0,)
    again = policy.decide(view(read=2, written=1, explained={0}, **crossing))
    assert again.action is Action.READ
    assert policy.needs(view(read=2, written=2, deferred=1)) is Need.NOTHING  # reads on to the wait-k schedule
    assert policy.decide(view(read=4, written=2, deferred=2, explained={0}, **crossing)).action is Action.WRITE


@given(policies, st.integers(0, 20), st.integers(0, 20), st.integers(0, 4))
def test_a_policy_needs_at_most_its_ceiling(policy: PostEvaluation, read: int, written: int, deferred: int) -> None:
    assert policy.needs(view(read=read, written=written, deferred=deferred)) <= policy.ceiling


def test_weighing_keeps_its_pace_and_its_room() -> None:
    policy = Weighing(k=2, r=3, rate=1.5, rho=0.9)
    assert policy.decide(view(read=3, written=2)).action is Action.READ  # its pace asks for 2 + 3
    assert policy.needs(view(read=4, written=2)) is Need.NOTHING
    assert policy.decide(view(read=5, written=2, stability=0.91)).action is Action.WRITE
    assert policy.decide(view(read=5, written=2, stability=0.89)).action is Action.READ
    assert policy.decide(view(read=7, written=2, stability=0.51)).action is Action.WRITE  # 0.9 (1 - 2/3 · 2/3) = 0.5
    assert policy.decide(view(read=7, written=2, stability=0.49)).action is Action.READ
    assert policy.needs(view(read=8, written=2)) is Need.NOTHING
    assert policy.decide(view(read=8, written=2)).action is Action.WRITE


def test_a_number_too_large_for_the_machine_is_a_mistake_like_others() -> None:
    with pytest.raises(UsageError, match="must be finite"):
        parse("weigh:k=1,r=1" + "0" * 400)
