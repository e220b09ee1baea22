"""A policy of your own: `cd examples && bethink translate --policy punctuation_policy:Punctuation talk.de.txt`."""

from dataclasses import dataclass
from typing import ClassVar

from bethink.policy import READ, WRITE, Decision, Need, Policy, View, setting


@dataclass(frozen=True)
class Punctuation(Policy):
    """Writes after a punctuation mark, as long as the model is sure and fewer words are written than read."""

    marks: str = setting(".,;:!?", "Marks", "It writes once a word with one of these has been read.")
    sure: float = setting(0.4, "Sureness", "How probable a token must be.", least=0, most=1)
    # it looks at the token that would be written; LOOKAHEAD adds the degrees after it
    ceiling: ClassVar = Need.CANDIDATE
    reasons: ClassVar = {"mark": "a punctuation mark was read"}

    def decide(self, view: View) -> Decision:
        at_mark = bool(view.source_words) and view.source_words[-1][-1] in self.marks
        behind = len(view.target_text.split()) < len(view.source_words)
        return WRITE.because("mark") if at_mark and behind and view.confidence >= self.sure else READ
