"""When to write: a policy looks at a stream and decides to READ one more source token or to WRITE the candidate.

This package is the one place that knows the names of policies, their settings and the reasons of their decisions. A policy is
a frozen dataclass, a pure function of what it sees, with a one-line text form used everywhere: `parse("pe:k=3,rho=0.24,r=2")` and
`str(policy)` are inverse. It is asked only while the source is open; once that has been read to its end every token is written.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

from bethink.errors import UsageError, unknown
from bethink.policy.contract import (
    NO_EVIDENCE,
    READ,
    WRITE,
    Action,
    Decision,
    Degrees,
    Need,
    Policy,
    Progress,
    Reason,
    View,
)
from bethink.policy.rules import (
    REASONS,
    RULES,
    AdaptiveWaitK,
    Offline,
    PostEvaluation,
    PostEvaluationFlip,
    WaitK,
    Weighing,
)
from bethink.policy.settings import setting

__all__ = [
    "NO_EVIDENCE",
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
    "Reason",
    "View",
    "WaitK",
    "Weighing",
    "curve",
    "explain",
    "listed",
    "load",
    "parse",
    "reasons",
    "setting",
]


def parse(text: str) -> Policy:
    """The policy that a text names: `wait-k:k=5`, or in short `wait-k:5`; settings left out keep their defaults.

    Imports nothing, so the text may come from anyone: a class in a file of your own must have been loaded by `load`.
    """
    name, settings = _split(text)
    if name not in RULES:
        own = (
            " A class of your own is given as an object in Python, and by name on the command line."
            if ":" in name
            else ""
        )
        raise UsageError(f"{unknown('policy', name, RULES)}{own}")
    return RULES[name].parse(settings)


def load(text: str) -> Policy:
    """Like `parse`, but imports code: `mymodule:MyPolicy,k=3` loads mymodule from this folder or the path. Not for text from others."""
    name, _ = _split(text)
    module, _, attribute = name.partition(":")
    if name not in RULES and module.replace(".", "").isidentifier() and attribute.isidentifier():
        found = _imported(module)
        if not hasattr(found, attribute):
            own = [name for name, each in vars(found).items() if isinstance(each, type) and each.__module__ == module]
            raise unknown(f"class in {module}", attribute, own)
        kind: Any = getattr(found, attribute)
        frozen = getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)
        if not (frozen and issubclass(kind, Policy)):
            raise UsageError(f"{name} is not a policy; expected a frozen dataclass that extends bethink.policy.Policy")
        if RULES.get(kind.name, kind) is not kind:
            raise UsageError(
                f"{name} calls itself '{kind.name}', but there is another policy of that name; choose another"
            )
        RULES[kind.name] = RULES[name] = kind
    return parse(text)


def _split(text: str) -> tuple[str, str]:
    """The name and the settings of wait-k:k=3 or module:Class,k=3."""
    name, _, rest = text.strip().partition(":")
    name = name.removesuffix(".py")
    attribute = re.split("[,:]", rest, maxsplit=1)[0]
    if name not in RULES and attribute.isidentifier():
        rest = rest[len(attribute) + 1 :]
        name = f"{name}:{attribute}"
    return name, rest


def _imported(module: str) -> object:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last, so that nothing there hides a module of the system
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise UsageError(f"the policy's module {module} needs {error.name}, which is not installed") from error
        raise UsageError(f"there is no policy and no module named '{module}', in {here} or on Python's path") from None
    except Exception as error:  # the user's own file may raise anything
        raise UsageError(f"the policy's module {module} raises {type(error).__name__}: {error}") from error


def listed() -> list[tuple[str, str]]:
    """Every policy with its default settings, as text, and what it does in one sentence: for help texts."""
    return [(str(kind()), kind.about()) for kind in dict.fromkeys(RULES.values())]


def reasons() -> dict[str, str]:
    """What the codes of reasons mean, with {value}, {threshold} and {evidence} where they belong."""
    return REASONS | {code: text for kind in RULES.values() for code, text in kind.reasons.items()}


def explain(reason: Reason, evidence: str = "") -> str:
    """A reason in words; `evidence` names the source words that the token translates."""
    text = reasons().get(reason.code, reason.code)
    try:
        return text.format(value=reason.value, threshold=reason.threshold, evidence=evidence)
    except (ValueError, TypeError, LookupError):  # a number that the policy promised and did not give
        return text


def curve(text: str) -> tuple[str, tuple[str, ...]]:
    """The curve that a policy is a point of: its name, and its settings but for those that move along the curve.

    Takes any text, since results may be of a policy that is not known here: of such a one, k moves along the curve.
    """
    name, settings = _split(text)
    moving = {each.name for each in RULES[name].settings() if each.latency} if name in RULES else set()
    parts = settings.split(",")
    others = tuple(part for part in parts if part.partition("=")[0] not in (moving or {"k"}))
    return name, others if len(others) < len(parts) else ()
