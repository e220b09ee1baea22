"""Simultaneous translation that thinks before it speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bethink.errors import BethinkError
from bethink.policy import Action, parse
from bethink.trace import Step, Translation

if TYPE_CHECKING:
    from bethink.aio import AsyncSession, AsyncTranslator
    from bethink.session import Session
    from bethink.text.glossary import Glossary
    from bethink.translator import Translator

__version__ = "0.1.0"
__all__ = [
    "Action",
    "AsyncSession",
    "AsyncTranslator",
    "BethinkError",
    "Glossary",
    "Session",
    "Step",
    "Translation",
    "Translator",
    "parse",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})  # also the names that __getattr__ loads on demand


def __getattr__(name: str) -> object:
    if name in ("Session", "Translator"):
        from bethink import translator

        return getattr(translator, name)
    if name in ("AsyncSession", "AsyncTranslator"):
        from bethink import aio

        return getattr(aio, name)
    if name == "Glossary":
        from bethink.text.glossary import Glossary

        return Glossary
    raise AttributeError(f"module 'bethink' has no attribute '{name}'")
