"""The microscope's findings as tables."""

from __future__ import annotations

from collections.abc import Iterator

from bethink.evaluate.analyses.degree import Microscope, Path
from bethink.evaluate.analyses.sheet import Sheet, number, percent, sheet


def sheets(found: Microscope) -> list[Sheet]:
    return [one for one in _all(found) if one.rows]


def _all(found: Microscope) -> Iterator[Sheet]:
    yield _aucs(found, own=False)
    yield _aucs(found, own=True)
    yield _degrees(found)
    yield _rises(found)
    yield _reliability(found)
    yield _behaviour(found)


def _aucs(found: Microscope, *, own: bool) -> Sheet:
    tables = [(path, path.own_auc if own else path.auc) for path in found.paths]
    known = [(path, table) for path, table in tables if any(value is not None for value in table.values())]
    kinds = list(dict.fromkeys(kind for _, table in known for kind in table))
    rows = [(path.name, *(number(table.get(kind), 3) for kind in kinds), *_counts(path, own)) for path, table in known]
    title = "AUC of: the source of this target token has been read" + (", words the model would write" if own else "")
    note = f"{found.model}, {found.pairs} pairs; what has several numbers is a regression tested on sentences it has not seen."
    return sheet(title, ("path", *kinds, "read", "tokens"), rows, "" if own else note)


def _counts(path: Path, own: bool) -> tuple[str, str]:
    return (percent(path.own_read), str(path.own_tokens)) if own else (percent(path.read), str(path.tokens))


def _degrees(found: Microscope) -> Sheet:
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
    return sheet("Does d know what has been translated?", columns, rows)


def _rises(found: Microscope) -> Sheet:
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
    return sheet("Quantiles of max Δd, and the bar that separates best", columns, rows)


def _reliability(found: Microscope) -> Sheet:
    known = {path.name: path.knowledge for path in found.paths if path.knowledge}
    cells = {name: {(low, high): share for low, high, share, _ in one.table} for name, one in known.items()}
    bins = sorted({key for table in cells.values() for key in table})
    rows = [
        (f"{low:.1f} to {high:.1f}", *(percent(table.get((low, high))) for table in cells.values()))
        for low, high in bins
    ]
    return sheet("Share of source tokens that are translated, by d", ("d", *cells), rows)


def _behaviour(found: Microscope) -> Sheet:
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
    columns = (
        "policy",
        "AUC of its number",
        "verdicts right",
        "accepted",
        "accepted live",
        "forced",
        "premature ends per sentence",
        "put off per token",
        "written per read",
    )
    note = "The first three columns with the target given, judged by the alignment; the rest live."
    return sheet("What policies make of it", columns, rows, note)
