"""Translation quality: BLEU in two profiles, and chrF, always with the signature of how it was computed.

- `paper`: BLEU on the text as given, lower-cased, no tokenisation (`tok:none`), which on tokenised text is what
  `multi-bleu.perl -lc` prints.
- `standard`: BLEU with 13a tokenisation, cased, and chrF2, on detokenised text.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bethink.errors import DataError, needs_extra, unknown

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
    """A system compared with a baseline on the same references: bootstrap mean ± half the 95 % interval, and the p-value."""

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
    _require_pairs(predictions, references)
    found: dict[str, dict[str, Quality]] = {profile: {} for profile in PROFILES}
    for profile, names in PROFILES.items():
        for name in names:
            counting = metric(name, profile)
            result = counting.corpus_score(list(predictions), [list(references)])
            found[profile][name] = Quality(float(result.score), str(counting.get_signature()))
    return found


def compare(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[str],
    *,
    measure: str = "BLEU",
    profile: str = "standard",
    samples: int = 1000,
) -> list[Comparison]:
    """Paired bootstrap (Koehn 2004) of systems over the same references; the first system is the baseline.

    sacrebleu resamples with its own seed, SACREBLEU_SEED, so repeated calls give the same numbers.
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
    signature, baseline = str(signatures[measure]), named[0][1]
    judged: Any = results[measure]
    found: list[Comparison] = []
    for (name, predictions), result in zip(named, judged, strict=True):
        # sacrebleu finds equal outputs significantly different, because none of their resamples differs by more than 0
        p_value = 1.0 if found and predictions == baseline else result.p_value
        found.append(Comparison(name, float(result.score), float(result.mean), float(result.ci), p_value, signature))
    return found


def metric(name: str, profile: str) -> Metric:
    """The sacrebleu metric for a measure of a profile."""
    if profile not in PROFILES:
        raise unknown("quality profile", profile, PROFILES)
    if name not in PROFILES[profile]:
        raise unknown(f"measure in profile {profile}", name, PROFILES[profile])
    with needs_extra("scoring translation quality", "train"):
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    if name == "chrF":
        return CHRF()
    # `force` silences the warning that the text looks tokenised: in the profile `paper` it should be.
    if profile == "paper":
        return BLEU(tokenize="none", lowercase=True, force=True)
    return BLEU(tokenize="13a", force=True)


def _require_pairs(predictions: Sequence[str], references: Sequence[str]) -> None:
    if not references:
        raise DataError("there are no references to score against; expected one line per translated sentence")
    if len(predictions) != len(references):
        raise DataError(f"{len(predictions)} translations but {len(references)} references; expected as many of each")
