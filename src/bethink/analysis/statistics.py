"""Statistics for the analyses: AUC, logistic regression, means per bin, calibration."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

STEPS = 50  # of Newton's method, which needs about eight
RIDGE = 1e-3  # keeps the weights finite where a feature separates the classes perfectly


def auc(higher: Floats, lower: Floats) -> float:
    """The probability that a value of the first class exceeds one of the second; ties count half."""
    both = np.concatenate([higher, lower])
    _, index, counts = np.unique(both, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[index]
    return float((ranks[: len(higher)].sum() - len(higher) * (len(higher) + 1) / 2) / (len(higher) * len(lower)))


def separation(values: Floats, labels: Flags) -> float | None:
    """AUC of the values for the labels; none if there is only one class."""
    return auc(values[labels], values[~labels]) if labels.any() and not labels.all() else None


def logistic(features: Floats, labels: Flags) -> Callable[[Floats], Floats]:
    """Logistic regression by Newton's method over standardised features; returns a function that scores new rows."""
    mean, scale = features.mean(axis=0), features.std(axis=0)
    scale[scale == 0] = 1.0

    def prepared(rows: Floats) -> Floats:
        return np.column_stack([np.ones(len(rows)), (rows - mean) / scale])

    x, y = prepared(features), labels.astype(np.float64)
    weights, ridge = np.zeros(x.shape[1]), RIDGE * len(x) * np.eye(x.shape[1])
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        gradient = x.T @ (y - p) - ridge @ weights
        step = np.linalg.solve((x * (p * (1 - p))[:, None]).T @ x + ridge, gradient)
        weights += step
        if np.abs(step).max() < 1e-8:
            break
    return lambda rows: prepared(rows) @ weights


def crossed(features: Floats, labels: Flags, groups: npt.NDArray[np.int64]) -> Floats | None:
    """Score every row by a regression trained on the other half of the groups; none if a half has only one class."""
    scores = np.zeros(len(labels))
    odd = groups % 2 == 1
    for seen in (odd, ~odd):
        if not labels[seen].any() or labels[seen].all():
            return None
        rows = logistic(features[seen], labels[seen])(features[~seen])
        scores[~seen] = np.argsort(np.argsort(rows)) / max(len(rows), 1)  # ranks, to compare both halves
    return scores


def averages(positions: Floats, values: Floats, edges: Sequence[float]) -> list[tuple[float, int]]:
    """The mean and the number of the values in each bin; the last bin includes its upper edge."""
    bins = np.clip(np.searchsorted(edges, positions, side="right") - 1, 0, len(edges) - 2)
    found = []
    for n in range(len(edges) - 1):
        inside = values[bins == n]
        found.append((float(inside.mean()) if len(inside) else float("nan"), len(inside)))
    return found


def calibration_error(chances: Floats, labels: Flags) -> float:
    """Expected calibration error: the mean distance between a probability and the share of labels that are true at it."""
    edges = np.linspace(0, 1, 21).tolist()
    said, true = (averages(chances, values, edges) for values in (chances, labels.astype(np.float64)))
    apart = [count * abs(mean - share) for (mean, count), (share, _) in zip(said, true, strict=True) if count]
    return sum(apart) / len(labels)
