"""Every measure against numbers worked out by hand, and the properties that hold for all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bethink.evaluate import latency


@st.composite
def delayed(draw: st.DrawFn) -> tuple[list[int], int]:
    """Delays that never fall, and the source they run over."""
    source = draw(st.integers(1, 30))
    delays = draw(st.lists(st.integers(1, source), min_size=1, max_size=40))
    return sorted(delays), source


def test_average_lagging_of_wait_1_with_equal_lengths_is_1() -> None:
    assert latency.average_lagging([1, 2, 3, 4], 4, 4) == 1


def test_average_lagging_stops_where_the_source_is_complete() -> None:
    # tau = 2: (2 - 0 + 4 - 4/5) / 2; what comes after the fourth word was read counts no more
    assert latency.average_lagging([2, 4, 4, 4, 4], 4, 5) == pytest.approx((2 + 4 - 0.8) / 2)


def test_average_lagging_of_an_unfinished_source_runs_over_all_delays() -> None:
    assert latency.average_lagging([1, 1, 2], 6, 3) == pytest.approx((1 + (1 - 2) + (2 - 4)) / 3)


def test_length_adaptive_divides_by_the_longer_target() -> None:
    # y = max(4, 2) = 4: 1, 2 - 1, 3 - 2, 4 - 3
    assert latency.length_adaptive([1, 2, 3, 4], 4, 2) == 1
    assert latency.average_lagging([1, 2, 3, 4], 4, 2) == pytest.approx(1 - 1.5)


def test_yaal_counts_the_words_before_the_end_of_the_source() -> None:
    # y = max(4, 2) = 4, x/y = 1: 1 - 0, 3 - 1; LAAL would count the third word, too
    assert latency.yet_another([1, 3, 4, 4], 4, 2) == pytest.approx((1 + 2) / 2)
    assert latency.yet_another([4, 4], 4, 2) is None
    assert "YAAL" not in latency.simuleval([4, 4], 4, "a b")


def test_yaal_within_a_talk_ends_with_the_talk() -> None:
    assert latency.yet_another([1, 2, 6], 3, 3, end=9) == pytest.approx((1 + 1 + 4) / 3)
    assert latency.yet_another([1, 2, 9], 3, 3, end=9) == pytest.approx((1 + 1) / 2)


def test_average_proportion() -> None:
    assert latency.average_proportion([1, 2, 3], 3, 3) == pytest.approx(6 / 9)


def test_differentiable_charges_for_every_late_word() -> None:
    # x/y = 1: d' = 3, 4, 5, 6, so each word lags by 3 although the source ended with the second
    assert latency.differentiable([3, 4, 4, 4], 4) == 3
    assert latency.differentiable([1, 1, 3], 3) == pytest.approx((1 + 1 + 1) / 3)


def test_consecutive_wait_counts_switches_from_reading_to_writing() -> None:
    assert latency.consecutive_wait([2, 2, 5, 6, 6], 6) == 2  # read 2, 3 and 1 in one go
    assert latency.consecutive_wait([6, 6], 6) == 6


def test_erasure_counts_words_taken_back() -> None:
    shown = ["a", "a b", "a c", "a c d"]
    assert latency.erased(shown) == 1
    assert latency.erased(["a b c", "a"]) == 2


def test_a_word_that_a_comma_follows_was_not_taken_back() -> None:
    assert latency.erased(["In this sense", "In this sense, these", "In this sense, these"]) == 0
    assert latency.erased(["In this sense, these", "In this senses, these"]) == 2  # not the last word
    assert latency.erased(["In this", "In"]) == 1


def test_the_paper_profile_clips_the_path_and_uses_the_hypothesis() -> None:
    scores = latency.paper([3, 4, 9, 9], 5)
    assert scores["AL"] == pytest.approx((3 + (4 - 1.25) + (5 - 2.5)) / 3)
    assert scores["AP"] == pytest.approx((3 + 4 + 5 + 5) / 20)


def test_simuleval_counts_reference_words_by_single_spaces() -> None:
    assert [latency.reference_length(text) for text in ("a b", "a  b", "", "a b\n")] == [2, 3, 1, 2]


def test_the_corpus_score_is_the_mean_over_sentences() -> None:
    assert latency.mean([{"AL": 1.0}, {"AL": 4.0}]) == {"AL": 2.5}
    assert latency.mean([]) == {}
    assert latency.mean([{}, {"YAAL": 3.0}, {"AL": 1.0}]) == {"YAAL": 3.0, "AL": 1.0}  # of the sentences that have it


def test_work_queues_behind_unfinished_work() -> None:
    assert latency.schedule([100, 200, 300], [10, 150, 20]) == [110, 350, 370]
    assert latency.schedule([100, 200, 200], [0, 0, 0]) == [100, 200, 200]


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40))
def test_offline_lags_by_the_whole_source(source: int, words: int, reference: int) -> None:
    delays = [source] * words
    assert latency.average_lagging(delays, source, reference) == source
    assert latency.length_adaptive(delays, source, reference) == source
    assert latency.differentiable(delays, source) == pytest.approx(source)
    assert latency.average_proportion(delays, source, words) == pytest.approx(1)
    assert latency.consecutive_wait(delays, source) == source


@given(delayed(), st.integers(1, 40))
def test_order_of_the_measures(case: tuple[list[int], int], reference: int) -> None:
    delays, source = case
    longer = max(len(delays), reference)
    assert (
        latency.length_adaptive(delays, source, reference) >= latency.average_lagging(delays, source, reference) - 1e-9
    )
    assert latency.differentiable(delays, source) >= delays[0] - 1e-9
    assert latency.differentiable(delays, source) >= latency.average_lagging(delays, source, len(delays)) - 1e-9
    assert 0 < latency.average_proportion(delays, source, longer) <= 1 + 1e-9
    assert 1 <= latency.consecutive_wait(delays, source) <= source


@given(delayed())
def test_reading_everything_later_lowers_no_measure(case: tuple[list[int], int]) -> None:
    delays, source = case
    later = [min(delay + 1, source) for delay in delays]
    assert latency.differentiable(later, source) >= latency.differentiable(delays, source) - 1e-9
    assert latency.average_proportion(later, source, 9) >= latency.average_proportion(delays, source, 9)


@given(st.lists(st.sampled_from(["a", "bc", "d"]), max_size=12))
def test_text_that_only_grows_erases_nothing(words: list[str]) -> None:
    assert latency.erased([" ".join(words[:n]) for n in range(len(words) + 1)]) == 0


@given(delayed(), st.integers(1, 30), st.floats(1, 1000))
def test_a_clock_that_costs_nothing_is_the_delay_in_other_units(
    case: tuple[list[int], int], words: int, pace: float
) -> None:
    delays, source = case
    reference = " ".join("w" * words)
    timed = latency.clock([delay * pace for delay in delays], source * pace, reference)
    counted = latency.simuleval(delays, source, reference)
    assert timed == pytest.approx({name: counted[name] * pace for name in timed}, rel=1e-6, abs=1e-6)
