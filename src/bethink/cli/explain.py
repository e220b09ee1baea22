"""`bethink explain`: one text, word by word: what had been heard, what spoke for the word, how sure the model was."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bethink.cli.common import Verbs, add_model, add_policy, console, describe, open_translator, verb
from bethink.errors import DataError

if TYPE_CHECKING:
    from rich.table import Table

    from bethink.policy import Policy
    from bethink.trace import Translation
    from bethink.translator import Translator


def add(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "explain",
        "show why each word was written when it was",
        "Translates one text and says for every word written what had been heard by then, which source words it was seen to "
        "translate and by how much their translation degree rose, how sure the model was, and how often it had put the word off. "
        "With --out it also draws the read/write path over the translation degree of every source token.",
        (
            "'te riki nakoru , ne ruru wa haturu .'",
            "'te riki nakoru , ne ruru wa haturu .' --out degree.svg",
            "'te riki nakoru , ne ruru wa haturu .' --policy wait-k:k=2",
        ),
        run,
    )
    made.add_argument(
        "text", metavar="TEXT", help="the text to translate, taken as one sentence; '-' reads standard input"
    )
    made.add_argument("--out", metavar="FILE", help="draw the picture into this file: .svg, .png or .pdf")
    add_model(made)
    add_policy(made)


def run(args: argparse.Namespace) -> int:
    data = sys.stdin.buffer.read() if args.text == "-" else args.text.encode(errors="replace")
    text = data.decode(errors="replace")
    _require_some(text.split())
    translator = open_translator(args)
    _require_some(translator.words(text))
    policy = args.policy or translator.policy
    translation = next(translator.translate_many([text], policy, batch=1))
    out = console()
    out.print(table(translator, translation, policy))
    if args.out:
        draw(translator, translation, args.out)
        out.print(f"drawn: {args.out}", markup=False)
    return 0


def _require_some(words: Sequence[object]) -> None:
    """Of what looks like a word, markup and invisible characters, nothing may be left to translate."""
    if not words:
        raise DataError(
            "there is no word in the text to explain; give a sentence, as in: bethink explain 'te riki nakoru .'"
        )


def draw(translator: Translator, translation: Translation, out: str) -> None:
    from bethink.evaluate import plots
    from bethink.policy import Action

    source = [translator.source.piece(step.token) for step in translation.steps if step.action is Action.READ]
    target = [translator.target.piece(step.token) for step in translation.writes]
    plots.degree(translation, source, target, out)


def table(translator: Translator, translation: Translation, policy: Policy) -> Table:
    """One row per target word."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from bethink.cli.words import tell

    caption = Text(f"{describe(translator)}, {policy}", "table.caption")
    made = Table(box=SIMPLE_HEAD, caption=caption, caption_justify="left")
    for heading in ("heard", "newly heard", "wrote", "because"):
        made.add_column(heading, justify="right" if heading == "heard" else "left")
    made.add_column("sure", justify="right")
    made.add_column("put off", justify="right")
    before = 0
    for written in tell(translator.target, translation.steps):
        heard = " ".join(translation.source[before : written.heard])
        before = written.heard
        sure = "" if written.confidence is None else f"{written.confidence:.0%}"
        made.add_row(
            str(written.heard),
            Text(heard),
            Text(written.text, "bold"),
            Text(written.because(policy)),
            sure,
            f"{written.deferred}×" if written.deferred else "",
        )
    return made
