"""Statistics against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bethink.analysis.statistics import auc, averages, calibration_error, crossed, logistic, separation

values = st.lists(st.integers(0, 5).map(float), min_size=1, max_size=20)


@given(values, values)
def test_auc_is_the_share_of_ordered_pairs(higher: list[float], lower: list[float]) -> None:
    expected = np.mean([(a > b) + (a == b) / 2 for a in higher for b in lower])
    assert auc(np.array(higher), np.array(lower)) == pytest.approx(float(expected))


def test_there_is_nothing_to_separate_in_one_kind() -> None:
    assert separation(np.array([1.0, 2.0]), np.array([True, True])) is None
    assert separation(np.array([1.0, 2.0]), np.array([False, True])) == 1.0


def test_a_regression_finds_the_mix_that_neither_number_shows_alone() -> None:
    chance = np.random.default_rng(1)
    x = chance.normal(size=(4000, 2))
    labels = chance.random(4000) < 1 / (1 + np.exp(-(2 * x[:, 0] - 3 * x[:, 1])))
    scores = logistic(x, labels)(x)
    true = 2 * x[:, 0] - 3 * x[:, 1]
    assert np.corrcoef(scores, true)[0, 1] > 0.999
    assert np.polyfit(true, scores, 1)[0] == pytest.approx(1, abs=0.15)


def test_a_regression_survives_what_separates_without_a_mistake_and_what_never_changes() -> None:
    x = np.column_stack([np.arange(10.0), np.ones(10)])
    assert np.isfinite(logistic(x, np.arange(10) > 4)(x)).all()


def test_a_row_is_scored_by_what_has_not_seen_its_sentence() -> None:
    """Labels that follow a number which says nothing outside its own half: seen, AUC would be 1; unseen, it is 0."""
    groups = np.repeat([0, 1], 50)
    labels = np.tile([True, False], 50)
    features = np.where(labels == (groups == 0), 1.0, -1.0)[:, None]
    scores = crossed(features, labels, groups)
    assert scores is not None
    assert separation(scores[groups == 0], labels[groups == 0]) == 0.0
    assert crossed(features, groups == 0, groups) is None  # each half has one kind only


def test_bins() -> None:
    found = averages(np.array([0.0, 0.4, 0.6, 1.0]), np.array([1.0, 3.0, 5.0, 7.0]), (0.0, 0.5, 1.0))
    assert found == [(2.0, 2), (6.0, 2)]


def test_who_is_right_as_often_as_said_is_calibrated() -> None:
    rng = np.random.default_rng(1)
    chances = rng.random(20_000)
    assert calibration_error(chances, rng.random(20_000) < chances) < 0.02
    assert calibration_error(np.full(100, 0.9), np.arange(100) < 50) == pytest.approx(0.4)
