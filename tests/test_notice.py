"""Numbers and names, noticed with the word that is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from bethink.text import WordFinalPieces, Words
from bethink.text.notice import Noticer, is_number

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    "word",
    [
        *("12", "3,5", "1990er", "A320", "50%", "zwölf", "siebzehn", "Hundert", "dreihundertfünfzig", "einundzwanzig"),
        *(
            "tausend",
            "zweiten",
            "zwanzigsten",
            "Millionen",
            "null",
            "anderthalb",
            "eins",
            "sechzehn",
            "fünfmal",
            "dritten",
        ),
        *("seven", "twenty-one", "forty", "nineteen", "hundred", "millions", "zero"),
    ],
)
def test_numbers(word: str) -> None:
    assert is_number(word)


@pytest.mark.parametrize(
    "word",
    ["ein", "eine", "einen", "und", "", "one", "sein", "einmal", "achten Sie", "Haus", "acht-", "einige", "undicht"],
)
def test_no_numbers(word: str) -> None:
    assert not is_number(word) or word == "acht-"


@pytest.fixture(scope="module")
def vocabulary() -> WordFinalPieces:
    return WordFinalPieces.load(HERE.parent / "models" / "de-en" / "source.spm")


def noticed(text: str, language: str, vocabulary: WordFinalPieces | None = None) -> dict[str, str]:
    noticer = Noticer(language, vocabulary)
    found = ((word, noticer.feed(word, first=place == 0)) for place, word in enumerate(text.split()))
    return {word: notice for word, notice in found if notice}


def test_german_names_have_no_article() -> None:
    text = "Gestern hat Angela Merkel in Kiew, so Kanzler Scholz, die große Fabrik mit dem neuen Dach für 12 Millionen Euro besucht."
    assert noticed(text, "de") == {
        "Angela": "name",
        "Merkel": "name",
        "Kiew,": "name",
        "Kanzler": "name",  # a title: the rule cannot know
        "Scholz,": "name",
        "12": "number",
        "Millionen": "number",
    }


def test_greetings_and_polite_pronouns_are_no_names() -> None:
    noticer = Noticer("de")
    words = "Guten Abend, meine Damen und Herren, ich danke Ihnen und Frau Merkel".split()
    assert [word for n, word in enumerate(words) if noticer.feed(word, first=n == 0)] == ["Merkel"]


def test_english_names_are_words_with_a_capital() -> None:
    text = "Yesterday I met Angela Merkel, and I'm sure that London paid seven pounds."
    assert noticed(text, "en") == {"Angela": "name", "Merkel,": "name", "London": "name", "seven": "number"}


def test_the_first_word_of_a_sentence_is_no_name_and_starts_afresh() -> None:
    noticer = Noticer("de")
    assert noticer.feed("die", first=True) is None
    assert noticer.feed("Berlin", first=True) is None
    assert noticer.feed("Paris", first=False) == "name"


def labelled() -> list[list[tuple[str, bool]]]:
    """Sentences of words, and whether each is a part of a name."""
    lines = (HERE / "names.de.txt").read_text("utf-8").splitlines()
    sentences = [line.split() for line in lines if not line.startswith("#")]
    return [[(word.removeprefix("_"), word.startswith("_")) for word in words] for words in sentences]


def scores(vocabulary: WordFinalPieces | None) -> tuple[float, float]:
    """The precision and recall of names."""
    found = named = right = 0
    for sentence in labelled():
        noticer = Noticer("de", vocabulary)
        for place, (word, is_name) in enumerate(sentence):
            told = noticer.feed(word, first=place == 0) == "name"
            found, named, right = found + told, named + is_name, right + (told and is_name)
    return right / found, right / named


def test_most_of_what_is_shown_as_a_name_is_one(vocabulary: WordFinalPieces) -> None:
    """Sixty sentences; names that begin a sentence count as missed."""
    assert len(labelled()) == 60
    precision, recall = scores(vocabulary)
    assert precision >= 0.78
    assert recall >= 0.84
    assert scores(None)[0] < 0.6  # the vocabulary makes the difference


def test_common_german_nouns_are_no_names(vocabulary: WordFinalPieces) -> None:
    text = "Wir reden über Steuern, Krankenhäuser und Freiheitsstrafen, über Waldbrände, Zusammenarbeit und Menschen."
    assert noticed(text, "de") != {}
    assert noticed(text, "de", vocabulary) == {}


def test_titles_and_capitals_inside_and_places_make_names(vocabulary: WordFinalPieces) -> None:
    text = "Gestern sprach Ministerin Wald in Deutschland mit der NATO über YouTube, Israels Grenzen und Herrn Stein, z. B. zu: Die Lage."
    assert list(noticed(text, "de", vocabulary)) == ["Wald", "Deutschland", "NATO", "YouTube,", "Israels", "Stein,"]


def test_what_follows_a_name_belongs_to_it(vocabulary: WordFinalPieces) -> None:
    assert list(noticed("Dann kam Tadeusz Minister nach Gdynia, Minister und Richter blieben.", "de", vocabulary)) == [
        "Tadeusz",
        "Gdynia,",
    ]
    assert list(noticed("Dann kam Tadeusz Europa nach Gdynia, Menschen blieben.", "de", vocabulary)) == [
        "Tadeusz",
        "Europa",
        "Gdynia,",
    ]


def test_a_number_ends_a_name(vocabulary: WordFinalPieces) -> None:
    text = "Dann hat Frau Merkel in Berlin 1.250 Wärmepumpen gekauft."
    assert noticed(text, "de", vocabulary) == {"Merkel": "name", "Berlin": "name", "1.250": "number"}


def test_a_list_of_words_says_nothing_about_names() -> None:
    text = "Wir reden über Menschen in Kiew."
    assert noticed(text, "de", Words(["Menschen", "Kiew"])) == noticed(text, "de")  # type: ignore[arg-type]
