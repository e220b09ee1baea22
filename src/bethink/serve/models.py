"""The models that a server offers; each is loaded once and identified by name and fingerprint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bethink.aio import AsyncSession, AsyncTranslator
from bethink.engine import check
from bethink.errors import BethinkError, DataError, ModelError
from bethink.policy import RULES, Policy, reasons
from bethink.serve.protocol import Refusal
from bethink.text import Glossary
from bethink.trace import ResumePoint
from bethink.translator import Translator

ABOUT = ("description", "recipe", "source", "target", "toy")  # the parts of a model's description that are public


@dataclass(frozen=True)
class Model:
    """A model and the name by which clients ask for it."""

    name: str
    translator: Translator
    live: AsyncTranslator

    @classmethod
    def load(cls, name: str, *, batch: int = 64, **options: Any) -> Model:
        translator = Translator(name, **options)
        return cls(translator.name, translator, AsyncTranslator(translator, batch=batch))

    @property
    def identity(self) -> str:
        return f"{self.name}@{self.translator.fingerprint}"

    def session(
        self, policy: Policy, begin: ResumePoint, owner: str, terms: Mapping[str, str] | None, *, tails: bool = False
    ) -> AsyncSession:
        """A session for a client, with its own glossary if it sent one; refused if that cannot be used."""
        try:
            glossary = Glossary(terms) if terms else None
            return self.live.session(policy, begin=begin, owner=owner, glossary=glossary, tails=tails)
        except (DataError, ModelError) as error:
            raise Refusal("invalid", str(error)) from None

    def policy(self, text: str) -> Policy:
        """The policy that a client asks for; refused if this model cannot serve it."""
        try:
            return self.translator.served(text or None)
        except BethinkError as error:
            raise Refusal("policy", str(error)) from None

    def describe(self) -> dict[str, Any]:
        """The entry in /v1/models: everything a client needs to offer the policies and to show their reasons."""
        own = self.translator.policy
        without = () if self.translator.counts_words else ("unit",)
        return {
            "name": self.name,
            "policy": str(own),
            "recommended": own.name,
            "policies": [kind.describe(own, without) for kind in dict.fromkeys(RULES.values()) if self._serves(kind())],
            "reasons": reasons(),
            "explains": self.translator.backend.capsules,
            "fingerprint": self.translator.fingerprint,
            "about": {key: self.translator.about[key] for key in ABOUT if key in self.translator.about},
        }

    def _serves(self, policy: Policy) -> bool:
        try:
            check(self.translator.backend, policy)
        except BethinkError:
            return False
        return True
