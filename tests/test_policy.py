"""Policies are pure functions with a text form, and the one place that knows their names, settings and reasons."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bethink.errors import UsageError
from bethink.policy import (
    RULES,
    WRITE,
    Action,
    AdaptiveWaitK,
    Decision,
    Need,
    Offline,
    Policy,
    PostEvaluation,
    PostEvaluationFlip,
    Reason,
    View,
    WaitK,
    Weighing,
    curve,
    explain,
    listed,
    load,
    parse,
    reasons,
    setting,
)


@dataclass(frozen=True)
class Wordy(Policy):
    """Has settings of every type."""

    marks: str = setting(".,", "Marks")
    unit: str = setting("token", "Unit", choices=("token", "word"))
    share: float = 0.5
    count: int = 2
    name: ClassVar[str] = "wordy"
    reasons: ClassVar[dict[str, str]] = {"whim": "felt like it, by {value}"}

    def decide(self, view: View) -> Decision:
        return WRITE.because("whim", self.share)


@pytest.fixture
def wordy(monkeypatch: pytest.MonkeyPatch) -> type[Wordy]:
    monkeypatch.setitem(RULES, "wordy", Wordy)
    return Wordy


fractions = st.floats(0, 1, allow_nan=False)
policies = st.one_of(
    st.just(Offline()),
    st.builds(WaitK, st.integers(1, 50), st.floats(0.1, 4)),
    st.builds(AdaptiveWaitK, fractions, fractions, st.integers(2, 20)),
    st.builds(PostEvaluation, st.integers(1, 50), fractions, st.integers(0, 9)),
    st.builds(PostEvaluationFlip, st.integers(1, 50), fractions),
    st.builds(Weighing, st.integers(1, 50), st.integers(1, 9), st.floats(0.5, 3.0), fractions, fractions),
)


def view(**fields: object) -> SimpleNamespace:
    blank = {"read": 0, "written": 0, "deferred": 0, "explained": set(), "word_complete": True}
    return SimpleNamespace(**{**blank, **fields})


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


@given(policies)
def test_text_form_is_inverse_to_parse(policy: object) -> None:
    assert parse(str(policy)) == policy


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.builds(Wordy, st.text(), st.sampled_from(["token", "word"]), fractions, st.integers(-9, 9)))
def test_texts_are_settings_too(wordy: type[Wordy], policy: Wordy) -> None:
    assert parse(str(policy)) == policy
    assert parse(f" {policy}\n") == policy


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
        ("wait-k:1,2,word,4", "no setting"),
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


def test_with_care_nothing_doubtful_is_written_before_the_sentence_ends() -> None:
    policy, careless = Weighing(k=2, r=3, rate=1.5, rho=0.9, care=0.6), Weighing(k=2, r=3, rate=1.5, rho=0.9)
    for read in (8, 80):  # beyond r: without care any candidate is written, and the model is not even asked
        assert careless.needs(view(read=read, written=2)) is Need.NOTHING
        assert policy.needs(view(read=read, written=2, word_complete=True)) is Need.CANDIDATE
        unsure = policy.decide(view(read=read, written=2, word_complete=True, stability=0.59))
        assert (unsure.action, unsure.reason) == (Action.READ, Reason("unstable", 0.59, 0.6))
        assert policy.decide(view(read=read, written=2, word_complete=True, stability=0.6)).action is Action.WRITE
    late = view(read=7, written=2, word_complete=True, stability=0.55)  # the threshold has fallen to 0.5 without care
    assert (careless.decide(late).action, policy.decide(late).action) == (Action.WRITE, Action.READ)
    early = view(read=5, written=2, word_complete=True, stability=0.89)  # where it is above the care, nothing changes
    assert careless.decide(early) == policy.decide(early)


def test_with_care_a_source_word_is_read_to_its_end() -> None:
    half = view(read=8, written=2, word_complete=False, stability=1.0)
    assert Weighing(care=0.01).needs(half) is Need.NOTHING
    assert Weighing(care=0.01).decide(half).reason == Reason("half_word")


def test_care_is_left_out_of_the_text_form_where_it_is_0() -> None:
    assert str(Weighing(care=0.0)) == "weigh:k=2,r=4,rate=1.2,rho=0.9"
    assert str(Weighing(care=0.7)) == "weigh:k=2,r=4,rate=1.2,rho=0.9,care=0.7"


def test_a_number_too_large_for_the_machine_is_a_mistake_like_others() -> None:
    with pytest.raises(UsageError, match="must be finite"):
        parse("weigh:k=1,r=1" + "0" * 400)


def test_settings_are_checked_wherever_they_come_from() -> None:
    for made in (lambda: WaitK(0), lambda: WaitK(k="3"), lambda: Weighing(rho=1.5), lambda: Wordy(unit="letter")):  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="must"):
            made()


def test_every_decision_has_a_reason_that_can_be_said() -> None:
    decided = [
        Offline().decide(view()),
        *[WaitK(2).decide(view(read=n)) for n in (1, 2)],
        *[AdaptiveWaitK(0.6, 0.0, 4).decide(view(read=n, confidence=0.5)) for n in range(6)],
        *[Weighing(2, 2, 1.0, 0.9).decide(view(read=n, stability=0.7)) for n in range(6)],
        Weighing(care=0.5).decide(view(read=4, word_complete=False)),
        *[PostEvaluation(2, 0.3, n).decide(view(read=2, deferred=1, gain=array(0.1, 0.2))) for n in (0, 3)],
        PostEvaluation(2, 0.0).decide(view(read=2, gain=array(-0.1))),
        PostEvaluation(2, 0.1).decide(view(read=2, gain=array(0.2))),
        PostEvaluationFlip(2).decide(view(read=2, degrees=array(0.1), gain=array(0.8))),
        *[PostEvaluationFlip(2).decide(view(read=2, written=n, degrees=array(0.1), gain=array(0.0))) for n in (0, 1)],
    ]
    codes = {decision.reason.code for decision in decided}
    others = set("policy source_complete word_begun length_limit early_end copied term".split())  # not a policy's own
    assert codes == set(reasons()) - others
    for decision in decided:
        said = explain(decision.reason, "Haus")
        assert said != decision.reason.code
        assert not set("{}") & set(said), "every number that the text promises is given"


def test_the_protocol_lists_every_code() -> None:
    page = (Path(__file__).parents[1] / "docs" / "protocol.md").read_text(encoding="utf-8")
    assert not [code for code in reasons() if f"`{code}`" not in page]


def test_a_reason_names_its_number_and_its_threshold() -> None:
    assert Weighing(2, 4, 1.0, 0.9).decide(view(read=2, stability=0.95)).reason == Reason("stable", 0.95, 0.9)
    assert WaitK(3).decide(view(read=4, written=1)).reason.to_dict() == {
        "code": "scheduled",
        "value": 4,
        "threshold": 4,
    }
    assert PostEvaluation(1, 0.25).decide(view(read=1, gain=array(0.5))).reason == Reason("evidence", 0.5, 0.25)


def test_the_unit_offered_is_the_recommended_one() -> None:
    recommended = parse("weigh:k=1,unit=word")
    units = {
        kind.name: settings["unit"] for kind in RULES.values() if "unit" in (settings := defaults(kind, recommended))
    }
    assert set(units.values()) == {"word"}
    assert len(units) >= 4
    assert defaults(WaitK, recommended)["k"] == WaitK().k


def defaults(kind: type[Policy], like: Policy) -> dict[str, object]:
    return {each["name"]: each["default"] for each in kind.describe(like)["settings"]}


def test_a_new_policy_is_described_as_the_others_are(wordy: type[Wordy]) -> None:
    assert ("wordy:marks=.%2C,unit=token,share=0.5,count=2", "Has settings of every type.") in listed()
    assert explain(Reason("whim", 3)) == "felt like it, by 3"
    told = wordy.describe(Wordy(marks="!"))
    assert told["spec"] == "wordy:marks={marks},unit={unit},share={share},count={count}"
    marks, unit, share, count = told["settings"]
    assert (marks["default"], unit["choices"], share["type"], count["default"]) == ("!", ("token", "word"), "float", 2)


def test_a_policy_is_a_point_of_a_curve(wordy: type[Wordy]) -> None:
    assert curve("weigh:k=1,r=4,rate=1.2,rho=0.98") == curve("weigh:k=5,r=12,rate=1.2,rho=0.98")
    assert curve("pe:k=1,rho=0.3,r=2") == ("pe", ("rho=0.3", "r=2"))
    assert curve("never-heard-of:k=1,q=2") == ("never-heard-of", ("q=2",))
    assert curve("offline") == ("offline", ())


OWN = """
from dataclasses import dataclass
from bethink.policy import READ, Policy

@dataclass(frozen=True)
class Late(Policy):
    k: int = 3
    def decide(self, view):
        return READ

class Loose(Policy):
    pass

@dataclass(frozen=True)
class Impostor(Late):
    name = "wait-k"
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = dict(RULES)
    (tmp_path / "own_policies.py").write_text(OWN)
    (tmp_path / "broken_policies.py").write_text("1 / 0")
    yield
    RULES.clear()
    RULES.update(before)
    sys.modules.pop("own_policies", None)


@pytest.mark.usefixtures("own")
def test_a_policy_in_a_file_of_ones_own_is_loaded_by_name() -> None:
    policy = load("own_policies:Late,k=5")
    assert str(policy) == "own_policies:Late,k=5"
    assert parse(str(policy)) == policy == load("own_policies:Late,5")
    assert load("wait-k:5") == WaitK(5)


@pytest.mark.usefixtures("own")
def test_parsing_imports_nothing() -> None:
    with pytest.raises(UsageError, match="no policy named 'own_policies:Late'.*given as an object in Python"):
        parse("own_policies:Late,k=5")
    assert "own_policies" not in sys.modules


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("own_policies:Nobody", "no class in own_policies named 'Nobody'"),
        ("own_policies:Loose", "frozen dataclass that extends"),
        ("own_policies:Late,l=3", "there are k"),
        ("own_policies:Impostor", "another policy of that name"),
        ("no_such_module:Late", "no module named 'no_such_module'"),
        ("broken_policies:Late", "raises ZeroDivisionError"),
        ("waitk:k=3", "Did you mean 'wait-k'"),
    ],
)
def test_what_cannot_be_loaded_says_why(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        load(text)
