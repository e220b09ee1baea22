"""Ten sentences and how the bundled model goes through them: python runs/examples.py writes docs/examples.md."""

from __future__ import annotations

from pathlib import Path

from bethink import Action, Translator
from bethink.files import write_atomically
from bethink.text import EOS
from bethink.trace import Step

PAGE = Path(__file__).parent.parent / "docs" / "examples.md"
SENTENCES = {
    "A greeting": "Guten Morgen, meine Damen und Herren!",
    "A question": "Können Sie mir bitte sagen, wann der nächste Zug nach München fährt?",
    "A verb that comes last": (
        "Vor zehn Jahren haben wir beschlossen, den alten Bahnhof, der lange leer gestanden hatte, nicht abzureißen."
    ),
    "Clauses within clauses": (
        "Ich freue mich, dass heute so viele Menschen gekommen sind, um über die Zukunft unserer Stadt zu sprechen."
    ),
    "A verb in two pieces": "Der Ausschuss lehnt den Vorschlag der Kommission aus mehreren Gründen ab.",
    "Numbers": "Im Jahr 2019 wurden 1 250 Wohnungen gebaut, also rund 15 Prozent mehr als 2018.",
    "Names": "Angela Merkel und Emmanuel Macron haben sich gestern in Straßburg getroffen.",
    "An unknown word": "Der Quasselstrippenverein hat zum dritten Mal in Folge den Wanderpokal gewonnen.",
    "Everyday speech": "Kannst du mir helfen? Ich habe meinen Schlüssel verloren.",
    "An empty line": "",
}


def main() -> None:
    translator = Translator("de-en")
    sections = [_section(translator, title, text) for title, text in SENTENCES.items()]
    write_atomically(PAGE, "\n".join([_opening(translator), *sections]).encode())
    print(PAGE)


def _opening(translator: Translator) -> str:
    return (
        "# Ten sentences, word by word\n\n"
        f"What the bundled model makes of them with the policy it recommends, `{translator.policy}`. Each row is a stretch of "
        "listening and what was said at its end; nothing said is taken back. Shown as they came out, mistakes included. "
        "Made by `python runs/examples.py`.\n"
    )


def _section(translator: Translator, title: str, text: str) -> str:
    steps = list(translator.stream([text]))
    written = "".join(step.text for step in steps if step.action is Action.WRITE)
    told = [f"## {title}\n", f"> {text or '(nothing)'}\n>", f"> **{written or '(nothing)'}**\n"]
    rows = [f"| {heard} | {said} |" for heard, said in _stretches(steps)]
    return "\n".join([*told, "| heard | said |", "|---|---|", *rows, ""] if rows else told)


def _stretches(steps: list[Step]) -> list[tuple[str, str]]:
    """Words heard, and the words said before the next was heard."""
    rows: list[tuple[str, str]] = []
    for step in steps:
        heard, said = rows[-1] if rows else ("", "")
        if step.action is Action.WRITE:
            rows[-1:] = [(heard, said + step.text)]
        elif not (word := "*the end*" if step.token == EOS else step.text):
            continue  # the rest of a word that is several tokens long
        elif said.strip() or not rows:
            rows.append((word, ""))
        else:
            rows[-1] = (f"{heard} {word}".strip(), said)
    return [(heard, said.strip()) for heard, said in rows]


if __name__ == "__main__":
    main()
