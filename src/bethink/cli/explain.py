"""`bethink explain`: for every word written, what had been heard, why it was written, how sure the model was."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bethink.cli.common import Verbs, add_glossary, add_model, add_policy, console, describe, open_translator, verb
from bethink.errors import DataError
from bethink.files import not_utf8

if TYPE_CHECKING:
    from rich.table import Table

    from bethink.policy import Policy
    from bethink.trace import Step, Translation
    from bethink.translator import Translator

LEAST = 0.05  # smaller rises of the degree, and less attention, are not shown


def add(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "explain",
        "show why each word was written when it was",
        "Translates one text and shows for every word written what had been heard by then, the policy's reason, which source words "
        "the word translates (how much their translation degree rose; of a model without capsules, which of them got its attention), "
        "how sure the model was, how likely the word is still right once the whole source is known (if the model has a judge), and how "
        "often it had been put off. "
        "With --out it also draws the read/write path over the translation degree of every source token.",
        (
            "'Der Ausschuss lehnt den Vorschlag ab.'",
            "'Der Ausschuss lehnt den Vorschlag ab.' --out degree.svg",
            "'Der Ausschuss lehnt den Vorschlag ab.' --policy wait-k:k=2",
        ),
        run,
    )
    made.add_argument(
        "text", metavar="TEXT", help="the text to translate, taken as one sentence; '-' reads standard input"
    )
    made.add_argument("--out", metavar="FILE", help="draw the picture into this file: .svg, .png or .pdf")
    add_model(made)
    add_glossary(made)
    add_policy(made)


def run(args: argparse.Namespace) -> int:
    text = _heard() if args.text == "-" else args.text.encode(errors="replace").decode()
    _require_some(text.split())
    if args.out:  # a missing library is reported before anything is printed
        from bethink.evaluate import drawing

        drawing.require(args.out)
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


def _heard() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(not_utf8("standard input", error)) from None


def _require_some(words: Sequence[object]) -> None:
    """Markup and invisible characters alone are not words."""
    if not words:
        raise DataError(
            "there is no word in the text to explain; give a sentence, as in: bethink explain 'Guten Morgen!'"
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
    degrees = any(step.degrees for step in translation.writes)
    attention = not degrees and any(step.attention for step in translation.writes)
    origin = ["now translated"] if degrees else ["attention"] if attention else []
    for heading in ("heard", "newly heard", "wrote", "because", *origin):
        made.add_column(heading, justify="right" if heading == "heard" else "left")
    judged = any(step.stability is not None for step in translation.writes)
    for heading in ("sure", *(["stays right"] if judged else []), "put off"):
        made.add_column(heading, justify="right")
    before = 0
    for written in tell(translator.target, translation.steps):
        risen = [f"{word} {rise:+.2f}" for word, rise in translated(translation, written.steps)]
        looked = [f"{word} {share:.0%}" for word, share in attended(translation, written.steps)]
        heard = " ".join(translation.source[before : written.heard])
        before = written.heard
        made.add_row(
            str(written.heard),
            Text(heard),
            Text(written.text, "bold"),
            Text(written.because),
            *([Text(" · ".join(risen if degrees else looked))] if origin else []),
            _percent(written.confidence),
            *([_percent(written.stability)] if judged else []),
            f"{written.deferred}×" if written.deferred else "",
        )
    return made


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def translated(translation: Translation, steps: Sequence[Step]) -> list[tuple[str, float]]:
    """The source words whose degree rose most when a word was written, in the order of the sentence.

    If the policy did not look ahead, the rise is computed from the degrees before the next token.
    """
    word_of = _words(translation)
    found: dict[int, float] = {}
    for step in steps:
        following = translation.writes[step.written]
        after = [d + gain for d, gain in zip(step.degrees, step.gain, strict=True)] if step.gain else following.degrees
        for word, before, now in zip(word_of, step.degrees, after, strict=False):
            found[word] = max(found.get(word, 0.0), now - before)
    return _strongest(translation, found)


def attended(translation: Translation, steps: Sequence[Step]) -> list[tuple[str, float]]:
    """The source words that the decoder looked at most while it wrote a word, in the order of the sentence."""
    found: dict[int, float] = {}
    for step in steps:
        for word, share in zip(_words(translation), step.attention, strict=False):
            found[word] = found.get(word, 0.0) + share / len(steps)
    return _strongest(translation, found)


def _words(translation: Translation) -> list[int]:
    """The source word of each token."""
    return [word for word, count in enumerate(translation.pieces) for _ in range(count)]


def _strongest(translation: Translation, found: dict[int, float]) -> list[tuple[str, float]]:
    bar = max(LEAST, max(found.values(), default=0.0) / 2)
    return [(translation.source[word], amount) for word, amount in sorted(found.items()) if amount >= bar]
