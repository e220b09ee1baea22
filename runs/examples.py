"""Shows how the bundled model translates a few sentences step by step: `python runs/examples.py` writes docs/examples.md."""

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
    'A late "nicht"': "Die Regierung hat beschlossen, die Steuern in diesem Jahr nicht zu erhöhen.",
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
VERDICTS = {  # what a person who knows both languages says of a translation; one that is not here has not been checked
    "Good morning, ladies and gentlemen!": "Right.",
    "Can you tell me when the next train will be going to Munich, please?": (
        'Right in meaning; "leaves for Munich" would be better English.'
    ),
    "Ten years ago, we decided to not dismantle the old station, which had been empty for a long time.": (
        'Right in meaning. "Decided to" was written before "nicht" was heard, so "to not"; "demolish" would be the better word.'
    ),
    "The government decided not to increase taxes this year.": "Right.",
    "I am pleased that so many people have come today to talk about the future of our city.": "Right.",
    "The committee rejects the Commission's proposal for several reasons.": 'Right: "lehnt … ab" is one verb, "rejects".',
    "In 2019, 1 250 flats were built, around 15 percent more than 2018.": 'Right in meaning; English says "than in 2018".',
    "Angela Merkel and Emmanuel Macron met in Strasbourg yesterday.": "Right.",
    "The quasselstrip club has won the hiking pocalm for the third time in a row.": (
        '**Wrong words.** "Quasselstrippenverein" (an invented club of chatterboxes) and "Wanderpokal" (challenge cup) are broken.'
    ),
    "Can you help me? I lost my key.": "Right.",
    "": "Right: there is nothing to translate.",
}


def main() -> None:
    translator = Translator("de-en")
    sections = [_section(translator, title, text) for title, text in SENTENCES.items()]
    write_atomically(PAGE, "\n".join([_opening(translator), *sections]).encode())
    print(PAGE)


def _opening(translator: Translator) -> str:
    return (
        "# Examples, step by step\n\n"
        f"What the bundled model writes with the policy that it recommends, `{translator.policy}`. Each row of a table has the words "
        "that were heard, and the words that appeared before the next word was heard. Punctuation may come later than its word. "
        "Nothing written is changed later.\n\n"
        "The sentences were chosen to show difficulties and are not a fair sample; [results](results.md) has the scores. All outputs are "
        "shown as they came out, and the line below each says what is wrong with it. The worst mistakes say the opposite of the "
        'source: German often puts "nicht" late, and the model may have committed itself before.\n\n'
        "Made by `python runs/examples.py`.\n"
    )


def _section(translator: Translator, title: str, text: str) -> str:
    steps = list(translator.stream([text]))
    written = "".join(step.text for step in steps if step.action is Action.WRITE)
    verdict = VERDICTS.get(written, "Not checked by a person yet.")
    told = [f"## {title}\n", f"> {text or '(nothing)'}\n>", f"> **{written or '(nothing)'}**\n", f"{verdict}\n"]
    rows = [f"| {heard} | {said} |" for heard, said in _stretches(steps)]
    return "\n".join([*told, "| heard | written |", "|---|---|", *rows, ""] if rows else told)


def _stretches(steps: list[Step]) -> list[tuple[str, str]]:
    """Rows of words heard and the words written before the next word was heard."""
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
