"""When to speak: a policy looks at a stream and decides to READ one more source token or WRITE the candidate.

A policy is a frozen dataclass, a pure function of what it sees, with a one-line text form used everywhere:
`parse("pe:k=3,rho=0.24,r=2")` and `str(policy)` are inverse. It is asked only while the source is open; once the
source has been read to its end every system only writes.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from bethink.errors import UsageError, unknown
from bethink.policy.contract import READ, WRITE, Action, Decision, Degrees, Need, Policy, Progress, View
from bethink.policy.rules import (
    RULES,
    AdaptiveWaitK,
    Offline,
    PostEvaluation,
    PostEvaluationFlip,
    WaitK,
    Weighing,
)

__all__ = [
    "READ",
    "RULES",
    "WRITE",
    "Action",
    "AdaptiveWaitK",
    "Decision",
    "Degrees",
    "Need",
    "Offline",
    "Policy",
    "PostEvaluation",
    "PostEvaluationFlip",
    "Progress",
    "View",
    "WaitK",
    "Weighing",
    "parse",
]


def parse(text: str) -> Policy:
    """The policy a text names: `wait-k:k=5`, or in short `wait-k:5`; settings left out keep their defaults."""
    name, _, settings = text.strip().partition(":")
    if name not in RULES:
        raise unknown("policy", name, RULES)
    kind: Any = RULES[name]
    fields = {f.name: f for f in dataclasses.fields(kind)}
    values: dict[str, int | float] = {}
    for position, setting in enumerate(filter(None, settings.split(","))):
        key, equals, value = setting.partition("=")
        if not equals:
            key, value = (list(fields)[position] if position < len(fields) else setting), setting
        key = key.strip()
        if key not in fields:
            raise unknown(f"setting of policy {name}", key, fields or ["none"])
        if key in values:
            raise UsageError(f"policy {name} is given {key} twice in '{text.strip()}'")
        values[key] = _number(value, whole=fields[key].type == "int", where=f"{name}: {key}", like=kind())
    policy: Policy = kind(**values)
    return policy


def _number(text: str, *, whole: bool, where: str, like: Policy) -> int | float:
    shown = text.strip() if len(text) < 40 else f"{text.strip()[:40]}…"
    try:
        value = int(text) if whole else float(text)
        finite = math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        finite = False
    except ValueError:
        kind = "a whole number" if whole else "a number"
        raise UsageError(f"{where} is '{shown}', but must be {kind}, as in '{like}'") from None
    if not finite:
        raise UsageError(f"{where} is '{shown}', but must be finite")
    return value
