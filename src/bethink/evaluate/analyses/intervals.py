"""How far chance moves a score: half of its 95 % interval, by bootstrap over the sentences of a log.

Resampling takes a second or two for each log, so what was found is remembered in a file beside it, under the hash of what it was
found from.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from bethink.evaluate import quality
from bethink.evaluate.instances import as_number, read_log, write

REMEMBERED = "intervals.json"
SAMPLES = 1000


def interval(log: Path, measure: str = "BLEU", profile: str = "standard", samples: int = SAMPLES) -> float:
    """Of one log; the same every time, since the resamples are."""
    beside = log.parent / REMEMBERED
    key = hashlib.sha256(f"{measure} {profile} {samples}\n".encode() + log.read_bytes()).hexdigest()
    known = _remembered(beside)
    if key not in known:
        known = {**known, key: _resampled(log, measure, profile, samples)}
        _remember(beside, known)
    return known[key]


def _resampled(log: Path, measure: str, profile: str, samples: int) -> float:
    instances = read_log(log)
    references, said = [one.reference for one in instances], [one.prediction for one in instances]
    beside_itself = quality.compare(
        {"it": said, "itself": said}, references, measure=measure, profile=profile, samples=samples
    )
    return beside_itself[0].interval


def _remembered(path: Path) -> dict[str, float]:
    """Nothing where the file is missing or not ours: it can be made again."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(key): as_number(value, key) for key, value in found.items()}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}


def _remember(path: Path, known: dict[str, float]) -> None:
    try:
        write(path, json.dumps(known, indent=1) + "\n")
    except OSError:
        return  # results in a folder that nobody may write to can be drawn all the same
