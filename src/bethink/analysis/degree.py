"""What the translation degree d predicts, and how well a policy can decide by it.

The target of aligned pairs is given to the model and weighed token by token along wait-k paths. A policy has to know whether the
source of the token has been read; AUC measures how well a number predicts that. Also measured: whether d agrees with what has
been translated, how d grows, how large its rises are, and what a policy decides in live translation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bethink.analysis.behaviour import Behaviour, behaviour
from bethink.analysis.forced import Weighed, rise, weigh
from bethink.analysis.gold import Gold
from bethink.analysis.sheet import Sheet, number, percent
from bethink.analysis.statistics import Flags, Floats, auc, averages, crossed, separation
from bethink.policy import Policy

if TYPE_CHECKING:
    from bethink.translator import Translator

LAGS: tuple[int | None, ...] = (1, 3, 5, None)
QUANTILES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
DEGREES = tuple(np.linspace(0, 1, 11).tolist())  # edges of the bins of d
PROGRESS = tuple(np.linspace(0, 1, 11).tolist())
OFFSETS = tuple(np.linspace(-1, 1, 21).tolist())  # of a source token from the diagonal


@dataclass(frozen=True)
class Knowledge:
    """How well d tells translated source words from those still to come."""

    auc: float  # probability that a translated token has a higher d than an untranslated one
    after: float  # mean d of a source token once all its translation is written
    before: float  # mean d of a source token none of whose translation is written
    pairs: int  # observations
    table: tuple[tuple[float, float, float, int], ...] = ()  # d from, d to, share translated, observations


@dataclass(frozen=True)
class Path:
    """Everything measured along one path."""

    name: str
    tokens: int  # aligned target tokens weighed
    read: float  # share of them whose source had been read
    auc: dict[str, float | None]  # by the name of the predictor
    own_auc: dict[str, float | None]  # the same, only for tokens that the model would have written itself
    own_tokens: int
    own_read: float
    hits: float | None  # how often the largest rise is at a source token that the word translates
    chance: float | None  # how often a random source token is one
    rho: float | None  # the threshold for max Δd that separates best
    rho_accuracy: float | None  # balanced accuracy at that threshold
    quantiles: dict[str, float]  # of max Δd
    knowledge: Knowledge | None


@dataclass(frozen=True)
class DegreeFindings:
    model: str
    pairs: int
    paths: tuple[Path, ...]
    progress: tuple[float, ...] = ()  # mean d with the whole source, by how much of the target is written
    offset: tuple[float, ...] = ()  # and by how far the source token is ahead of the diagonal
    behaviour: tuple[Behaviour, ...] = ()


def look(
    translator: Translator,
    pairs: Sequence[Gold],
    policies: Sequence[Policy] = (),
    lags: Sequence[int | None] = LAGS,
) -> DegreeFindings:
    """Everything about the degree of one model on some pairs; without capsules, only what confidence predicts."""
    paths: list[Path] = []
    progress: tuple[float, ...] = ()
    offset: tuple[float, ...] = ()
    for k in lags:
        weighed = weigh(translator, pairs, k)
        paths.append(_path(pairs, weighed, "full source" if k is None else f"wait-{k}"))
        if k is None and translator.backend.capsules:
            progress, offset = _growth(pairs, weighed)
    behaved = tuple(behaviour(translator, pairs, policy) for policy in policies)
    return DegreeFindings(translator.name, len(pairs), tuple(paths), progress, offset, behaved)


@dataclass(frozen=True)
class _Evidence:
    """One weighed token of an aligned word, and the numbers that may predict whether its source has been read."""

    sentence: int
    read: bool  # whether its source has been read
    own: bool  # whether the model would have written it
    confidence: float
    stability: float | None  # none where the model has no judge
    degrees: tuple[float, ...]  # numbers computed from d and its change; empty without capsules
    hit: bool
    chance: float


def _evidence(pairs: Sequence[Gold], weighed: Sequence[Sequence[Weighed]]) -> Iterator[_Evidence]:
    for sentence, (pair, tokens) in enumerate(zip(pairs, weighed, strict=True)):
        ids, needed = pair.target.ids, pair.furthest
        sources: dict[int, set[int]] = {}
        for i, j in pair.alignment:
            sources.setdefault(j, set()).update(range(*pair.source.spans[i]))
        for j, needs in needed.items():
            for t in range(*pair.target.spans[j]):
                one = tokens[t]
                gain = one.gain
                yield _Evidence(
                    sentence,
                    needs <= one.read,
                    one.row.candidate == ids[t],
                    one.row.confidence,
                    one.row.stability,
                    _features(one) if len(gain) else (),
                    bool(len(gain)) and int(gain.argmax()) in sources[j],
                    sum(token < one.read for token in sources[j]) / one.read,
                )


def _features(one: Weighed) -> tuple[float, ...]:
    """The largest rise, the sum of rises, the sum of falls, the second largest rise, where the largest is, the last, and d."""
    gain, before = one.gain, one.row.degrees
    falls, second = np.minimum(gain, 0).sum(), np.partition(gain, -2)[-2] if len(gain) > 1 else 0.0
    spread = (before.mean(), before.min(), before.max(), before[-1])
    return (*rise(gain), *map(float, (falls, second, gain.argmax() / len(gain), gain[-1], *spread)))


def _path(pairs: Sequence[Gold], weighed: Sequence[Sequence[Weighed]], name: str) -> Path:
    seen = list(_evidence(pairs, weighed))
    rises = [rise(one.gain)[0] for tokens in weighed for one in tokens if len(one.gain)]
    capsules = bool(rises)
    labels = np.array([one.read for one in seen], dtype=bool)
    rho, accuracy = _best_bar(np.array([one.degrees[0] for one in seen]), labels) if capsules and seen else (None, None)
    read, own = [one for one in seen if one.read], [one for one in seen if one.own]
    return Path(
        name,
        len(seen),
        float(labels.mean()) if seen else 0.0,
        _aucs(seen),
        _aucs(own),
        len(own),
        float(np.mean([one.read for one in own])) if own else 0.0,
        float(np.mean([one.hit for one in read])) if capsules and read else None,
        float(np.mean([one.chance for one in read])) if capsules and read else None,
        rho,
        accuracy,
        {f"{q:g}": round(float(np.quantile(rises, q)), 4) for q in QUANTILES} if capsules else {},
        _known(pairs, weighed) if capsules else None,
    )


def _aucs(seen: Sequence[_Evidence]) -> dict[str, float | None]:
    """The AUC of each predictor; several numbers are combined by a regression trained on other sentences."""
    if not seen:
        return {}
    labels, groups = np.array([one.read for one in seen]), np.array([one.sentence for one in seen])
    sure = np.array([one.confidence for one in seen])
    found = {"confidence": separation(sure, labels)}
    # A backend returns the probability of the model's own choice only. Where that is another word, high confidence counts against.
    own = np.where([one.own for one in seen], sure, -sure)
    found["confidence in the given word"] = separation(own, labels)
    if seen[0].stability is not None:
        found["stability"] = separation(np.array([one.stability for one in seen]), labels)
    if seen[0].degrees:
        degrees = np.array([one.degrees for one in seen])
        clipped = np.clip(sure, 1e-6, 1 - 1e-6)
        both = np.column_stack([degrees, np.log(clipped / (1 - clipped))])
        found |= {"max Δd": separation(degrees[:, 0], labels), "sum of Δd⁺": separation(degrees[:, 1], labels)}
        for name, features in (("all of d", degrees), ("d and confidence", both)):
            scores = crossed(features, labels, groups)
            found[name] = None if scores is None else separation(scores, labels)
    return found


def _best_bar(values: Floats, labels: Flags) -> tuple[float | None, float | None]:
    """The threshold with the best balanced accuracy, and that accuracy."""
    if not labels.any() or labels.all():
        return None, None
    bars = np.unique(np.quantile(values, np.linspace(0.02, 0.98, 49)))
    right = [((values[labels] >= bar).mean() + (values[~labels] < bar).mean()) / 2 for bar in bars]
    best = int(np.argmax(right))
    return round(float(bars[best]), 4), float(right[best])


def _known(pairs: Sequence[Gold], weighed: Sequence[Sequence[Weighed]]) -> Knowledge | None:
    """Compares the degrees of source tokens that are completely translated with those that are not translated at all."""
    after: list[float] = []
    before: list[float] = []
    for pair, tokens in zip(pairs, weighed, strict=True):
        for token, positions in pair.translations.items():
            for t, one in enumerate(tokens):
                if token < len(one.row.degrees) and (t > max(positions) or t <= min(positions)):
                    (after if t > max(positions) else before).append(float(one.row.degrees[token]))
    if not after or not before:
        return None
    yes, no = np.array(after), np.array(before)
    shares = averages(np.concatenate([yes, no]), np.repeat([1.0, 0.0], [len(yes), len(no)]), DEGREES)
    edges = zip(DEGREES[:-1], DEGREES[1:], shares, strict=True)
    table = tuple((round(low, 2), round(high, 2), share, count) for low, high, (share, count) in edges if count)
    return Knowledge(auc(yes, no), float(yes.mean()), float(no.mean()), len(yes) + len(no), table)


def _growth(pairs: Sequence[Gold], weighed: Sequence[Sequence[Weighed]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean d by the share of the target written, and by how far a source token is ahead of the diagonal; all source is readable."""
    degrees, done, ahead = [], [], []
    for pair, tokens in zip(pairs, weighed, strict=True):
        places = (np.arange(len(pair.source.ids)) + 0.5) / len(pair.source.ids)
        for t, one in enumerate(tokens):
            degrees.append(one.row.degrees[: len(places)])
            done.append(np.full(len(places), t / len(tokens)))
            ahead.append(places - t / len(tokens))
    values, progress, offset = (np.concatenate(parts).astype(np.float64) for parts in (degrees, done, ahead))
    by_progress, by_offset = averages(progress, values, PROGRESS), averages(offset, values, OFFSETS)
    return tuple(mean for mean, _ in by_progress), tuple(mean for mean, _ in by_offset)


def sheets(found: DegreeFindings) -> list[Sheet]:
    made = [
        _auc_sheet(found, own=False),
        _auc_sheet(found, own=True),
        _degree_sheet(found),
        _rise_sheet(found),
        _reliability_sheet(found),
        _behaviour_sheet(found),
    ]
    return [sheet for sheet in made if sheet.rows]


def _auc_sheet(found: DegreeFindings, *, own: bool) -> Sheet:
    tables = [(path, path.own_auc if own else path.auc) for path in found.paths]
    known = [(path, table) for path, table in tables if any(value is not None for value in table.values())]
    kinds = list(dict.fromkeys(kind for _, table in known for kind in table))
    rows = [
        (
            path.name,
            *(number(table.get(kind), 3) for kind in kinds),
            percent(path.own_read if own else path.read),
            str(path.own_tokens if own else path.tokens),
        )
        for path, table in known
    ]
    title = "AUC of: the source of this target token has been read" + (", words the model would write" if own else "")
    note = f"{found.model}, {found.pairs} pairs; what has several numbers is a regression tested on sentences it has not seen."
    return Sheet(title, ("path", *kinds, "read", "tokens"), rows, "" if own else note)


def _degree_sheet(found: DegreeFindings) -> Sheet:
    rows = [
        (
            path.name,
            number(path.knowledge.auc, 3),
            number(path.knowledge.after, 3),
            number(path.knowledge.before, 3),
            percent(path.hits),
            percent(path.chance),
        )
        for path in found.paths
        if path.knowledge
    ]
    columns = ("path", "AUC of d", "d once translated", "d before", "largest Δd at the source", "by chance")
    return Sheet("Does d know what has been translated?", columns, rows)


def _rise_sheet(found: DegreeFindings) -> Sheet:
    paths = [path for path in found.paths if path.quantiles]
    names = tuple(paths[0].quantiles) if paths else ()
    rows = [
        (
            path.name,
            *(number(value, 3) for value in path.quantiles.values()),
            number(path.rho, 3),
            percent(path.rho_accuracy),
        )
        for path in paths
    ]
    columns = ("path", *(f"{float(name):.0%}" for name in names), "best ρ", "right at it")
    return Sheet("Quantiles of max Δd, and the bar that separates best", columns, rows)


def _reliability_sheet(found: DegreeFindings) -> Sheet:
    known = {path.name: path.knowledge for path in found.paths if path.knowledge}
    cells = {name: {(low, high): share for low, high, share, _ in one.table} for name, one in known.items()}
    bins = sorted({key for table in cells.values() for key in table})
    rows = [
        (f"{low:.1f} to {high:.1f}", *(percent(table.get((low, high))) for table in cells.values()))
        for low, high in bins
    ]
    return Sheet("Share of source tokens that are translated, by d", ("d", *cells), rows)


def _behaviour_sheet(found: DegreeFindings) -> Sheet:
    rows = [
        (
            one.policy,
            number(one.verdict_auc, 3),
            percent(one.right),
            percent(one.accepted),
            percent(one.live_accepted),
            percent(one.live_forced),
            number(one.live_premature),
            number(one.live_deferred),
            number(one.live_length),
        )
        for one in found.behaviour
    ]
    columns = ["policy", "AUC of its number", "verdicts right", "accepted", "accepted live", "forced"]
    columns += ("premature ends per sentence", "put off per token", "written per read")
    note = "The first three columns with the target given, judged by the alignment; the rest live."
    return Sheet("What policies make of it", columns, rows, note)
