"""A policy of your own: `cd examples && bethink translate --policy punctuation_policy:Punctuation talk.de.txt`."""

from dataclasses import dataclass
from typing import ClassVar

from bethink.policy import READ, WRITE, Decision, Policy, View, setting


@dataclass(frozen=True)
class Punctuation(Policy):
    """Writes after a punctuation mark, until it has written as many words as it has read."""

    marks: str = setting(".,;:!?", "Marks", "It writes once a word with one of these has been read.")
    reasons: ClassVar = {"mark": "a punctuation mark was read"}

    def decide(self, view: View) -> Decision:
        at_mark = bool(view.source_words) and view.source_words[-1][-1] in self.marks
        behind = len(view.target_text.split()) < len(view.source_words)
        return WRITE.because("mark") if at_mark and behind else READ
