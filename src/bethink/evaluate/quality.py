"""How good a translation is: BLEU in two named profiles and chrF, always with the signature that says how it was counted.

- `paper`: BLEU on the text as given, lower-cased, no tokenisation (`tok:none`), which on tokenised text is what
  `multi-bleu.perl -lc` prints.
- `standard`: BLEU with 13a tokenisation, cased, and chrF2, on detokenised text.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bethink.errors import DataError, MissingExtra, unknown

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

PROFILES: dict[str, tuple[str, ...]] = {"paper": ("BLEU",), "standard": ("BLEU", "chrF")}


@dataclass(frozen=True)
class Quality:
    """A score from 0 to 100 and its signature."""

    score: float
    signature: str


@dataclass(frozen=True)
class Comparison:
    """A system beside a baseline on the same references: bootstrap mean ± half the 95 % interval, and the p-value."""

    system: str
    score: float
    mean: float
    interval: float
    p_value: float | None  # none for the baseline itself
    signature: str


def available() -> bool:
    """Whether quality can be scored in this installation."""
    return importlib.util.find_spec("sacrebleu") is not None


def score(predictions: Sequence[str], references: Sequence[str]) -> dict[str, dict[str, Quality]]:
    """Every measure of every profile: score(...)["paper"]["BLEU"]."""
    return {
        profile: {name: _score(name, predictions, references, profile) for name in names}
        for profile, names in PROFILES.items()
    }


def compare(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[str],
    *,
    measure: str = "BLEU",
    profile: str = "standard",
    samples: int = 1000,
) -> list[Comparison]:
    """Paired bootstrap (Koehn 2004) of systems over the same references; the first system is the baseline.

    Resampling is sacrebleu's, seeded by its own SACREBLEU_SEED, so repeated calls give the same numbers.
    """
    if len(systems) < 2:
        raise DataError(f"comparing needs a baseline and at least one more system; got {len(systems)}")
    for predictions in systems.values():
        _require_pairs(predictions, references)
    counting = metric(measure, profile)
    from sacrebleu.significance import PairedTest

    named: list[tuple[str, Sequence[str]]] = [(name, list(predictions)) for name, predictions in systems.items()]
    signatures, results = PairedTest(
        named, {measure: counting}, [list(references)], test_type="bs", n_samples=samples
    )()
    baseline = named[0][1]
    return [
        _comparison(name, result, str(signatures[measure]), same=number > 0 and predictions == baseline)
        for number, ((name, predictions), result) in enumerate(zip(named, results[measure], strict=True))
    ]


def _comparison(system: str, result: Any, signature: str, *, same: bool) -> Comparison:
    """sacrebleu calls a system significantly different from itself, since none of its resamples differs more than by 0."""
    p_value = 1.0 if same else result.p_value
    return Comparison(system, float(result.score), float(result.mean), float(result.ci), p_value, signature)


def _score(name: str, predictions: Sequence[str], references: Sequence[str], profile: str) -> Quality:
    _require_pairs(predictions, references)
    counting = metric(name, profile)
    result = counting.corpus_score(list(predictions), [list(references)])
    return Quality(float(result.score), str(counting.get_signature()))


def metric(name: str, profile: str) -> Metric:
    """What sacrebleu counts a measure of a profile with."""
    if profile not in PROFILES:
        raise unknown("quality profile", profile, PROFILES)
    if name not in PROFILES[profile]:
        raise unknown(f"measure in profile {profile}", name, PROFILES[profile])
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        raise MissingExtra("scoring translation quality", "train") from None
    if name == "chrF":
        return CHRF()
    # `force` silences the warning that the text looks tokenised: in one profile it is meant to be, the other is named beside it.
    if profile == "paper":
        return BLEU(tokenize="none", lowercase=True, force=True)
    return BLEU(tokenize="13a", force=True)


def _require_pairs(predictions: Sequence[str], references: Sequence[str]) -> None:
    if not references:
        raise DataError("there are no references to score against; expected one line per translated sentence")
    if len(predictions) != len(references):
        raise DataError(f"{len(predictions)} translations but {len(references)} references; expected as many of each")
