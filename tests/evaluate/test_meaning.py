"""Losses of meaning are found: the detectors agree with sentences labelled by hand, and the measures count what they say."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from bethink.errors import DataError
from bethink.evaluate import Instance, meaning, read_log, rescore, score
from bethink.evaluate.meaning import comes_late, measure, names
from bethink.text.languages import Language, load, short

# Whether each sentence denies something, by hand. Some are hard on purpose: the detector is wrong in a few of them.
DENIES = {
    "de": (
        "Das Medikament darf von Schwangeren nicht eingenommen werden.",
        "Ich habe heute keine Zeit.",
        "Er war noch nie in Berlin.",
        "Niemand hat uns geantwortet.",
        "Sie ging, ohne sich zu verabschieden.",
        "Weder der Arzt noch die Schwester war da.",
        "Das ist keineswegs sicher.",
        "Davon weiß ich nichts.",
        "Er kommt nicht mehr.",
        "Das geht so nicht, oder?",
        "Nicht nur er, auch sie war dagegen, und keiner stimmte zu.",
        "Nirgends steht, wer es bezahlt.",
        "Nein, das war gestern.",
        "Sie hat keinerlei Erfahrung.",
        "Wir haben niemanden gesehen.",
        "Das Gerät funktioniert leider nicht.",
        "Der Fall ist nicht unwichtig.",
        "Er hat es niemals gesagt.",
        "Kein einziger Zug fuhr.",
        "Ohne Brille sieht er schlecht.",
        "Das kommt überhaupt nicht in Frage.",
        "Nee, so war das.",
    ),
    "en": (
        "Pregnant women must not take this medicine.",
        "I have no time today.",
        "He has never been to Berlin.",
        "Nobody answered us.",
        "She left without saying goodbye.",
        "Neither the doctor nor the nurse was there.",
        "It doesn't work.",
        "It doesn’t work.",
        "I cannot come.",
        "He no longer lives here.",
        "None of them agreed.",
        "There is nothing to see.",
        "He didn't only lie, he never apologised.",
        "Nowhere does it say who pays.",
        "No, that was yesterday.",
        "They won't come, will they?",
        "I can't see it.",
        "There is no one here.",
        "It is by no means certain.",
        "Don't you know him, and isn't he nice?",
        "She did not come until the meeting was over, and she did not speak.",
        "They ain't seen it.",
    ),
}
AFFIRMS = {
    "de": (
        "Er spricht nicht nur Deutsch, sondern auch Polnisch.",
        "Du kommst doch auch, nicht wahr?",
        "Nicht zuletzt danke ich meinen Eltern.",
        "Das ist ohne Zweifel richtig.",
        "Das lässt sich ohne weiteres machen.",
        "Er ist ohnehin müde.",
        "Nichtsdestotrotz kam er.",
        "Nichtraucher leben länger.",
        "Ob du kommst oder nicht, wir fangen an.",
        "Das ist nichts anderes als ein Trick.",
        "Er hat nicht weniger als drei Häuser.",
        "Die Vernichtung der Akten wurde bestätigt.",
        "Das Niemandsland beginnt hier.",
        "Die Keime wachsen im Nieselregen.",
        "Was du nicht sagst!",
        "Wer kommt mit nach Nienburg?",
        "Der Zug kommt um neun Uhr an.",
        "Wir haben den Vertrag unterschrieben.",
    ),
    "en": (
        "He speaks not only German but also Polish.",
        "You are coming too, aren't you?",
        "Last but not least, I thank my parents.",
        "Regulation No 1049/2001 applies.",
        "See page no. 5.",
        "It is no doubt right.",
        "No matter what happens, we will begin.",
        "Whether or not you come, we begin.",
        "It is nothing but a trick.",
        "He owns no fewer than three houses.",
        "Nonetheless he came.",
        "He was a notable notary in Nottingham.",
        "It was not until Monday that he came.",
        "The knot was tied in November.",
        "Without a doubt he was there.",
        "You saw him, did you not?",
        "How good is that, if not perfect!",
        "The train arrives at nine.",
        "We have signed the contract.",
    ),
}
DOUBTFUL = {
    "de": ("Er kam kaum voran.", "Das ist unmöglich.", "Er ist arbeitslos.", "Sie lehnt den Vorschlag ab."),
    "en": ("He hardly moved.", "It is impossible.", "He failed to come.", "Unless you pay, we go."),
}


def language(code: str) -> Language:
    found = load(code)
    assert found
    return found


@pytest.mark.parametrize("code", ["de", "en"])
def test_the_detector_of_negations_agrees_with_people(code: str) -> None:
    detector = language(code)
    right = sum(detector.negated(text) is True for text in DENIES[code])
    wrong = [text for text in AFFIRMS[code] if detector.negated(text) is True]
    recall, precision = right / len(DENIES[code]), right / (right + len(wrong))
    assert (round(recall, 3), round(precision, 3)) == {"de": (1.0, 0.957), "en": (1.0, 0.957)}[code], wrong


@pytest.mark.parametrize("code", ["de", "en"])
def test_a_word_that_denies_by_itself_is_neither(code: str) -> None:
    assert [language(code).negated(text) for text in DOUBTFUL[code]] == [None] * len(DOUBTFUL[code])


@pytest.mark.parametrize(
    ("german", "english", "numbers"),
    [
        ("Es kostet 1.250,50 Euro.", "It costs 1,250.50 euros.", {1250.5}),
        ("dreiundzwanzig Leute", "twenty-three people", {23}),
        ("zweihundertfünfzig Tonnen", "two hundred and fifty tonnes", {250}),
        ("3,5 Millionen Kinder", "3.5 million children", {3.5e6}),
        ("fünf Milliarden", "five billion", {5e9}),
        ("1 000 Seiten", "1 000 pages", {1000}),
        ("um 14.30 Uhr", "at 14:30", {14.3}),
        ("am 3. Oktober 1990", "on 3 October 1990", {3, 1990}),
        ("der zweite Versuch", "the second attempt", {2}),
        ("zweitausendfünfhundert", "two thousand five hundred", {2500}),
        ("zwölftausend und sechs", "twelve thousand, and then six", {12000, 6}),
        ("Verordnung 1049/2001", "Regulation No 1049/2001", {1049, 2001}),
        ("zwei Jahre, zweiundzwanzig Tage", "a two-year plan, twenty-two days", {2, 22}),
        ("eine Million", "a million", {1e6}),
        ("ein Haus", "one house", set()),
        ("hundertzwanzig", "one hundred and twenty", {120}),
        ("17 % in 2 Jahren", "17% in two years", {17, 2}),
    ],
)
def test_numbers_have_one_value_in_both_languages(german: str, english: str, numbers: set[float]) -> None:
    assert language("de").numbers(german) == language("en").numbers(english) == numbers


def test_a_decimal_comma_is_not_an_english_one() -> None:
    assert language("de").numbers("1,250") == {1.25}
    assert language("en").numbers("1,250") == {1250}


def test_names_are_capitalised_words_inside_a_sentence_and_addresses() -> None:
    assert names("Gestern traf Frau Merkel in Lyon die EU-Kommission.") == {
        "Frau",
        "Merkel",
        "Lyon",
        "EU",
        "Kommission",
    }
    assert names('Danke! "Gut", sagt er. Mail: info@example.org') == {"info@example.org"}
    assert names("CO2 ist ein Gas") == {"CO2", "Gas"}


def test_a_negation_is_late_when_much_of_its_clause_stands_before_it() -> None:
    german = language("de")
    assert comes_late("Dieses Medikament darf von Schwangeren nicht eingenommen werden.", german)
    assert not comes_late("Wir haben lange über den neuen Bahnhof geredet, aber nicht entschieden.", german)


def sentence(index: int, source: str, reference: str, prediction: str) -> Instance:
    delays = tuple(float(n) for n, _ in enumerate(prediction.split(), 1))
    return Instance(index, source, reference, prediction, len(source.split()), delays)


PAIRS = (  # source, reference, whole-sentence translation, simultaneous translation
    ("Er hat uns auf den Brief nicht geantwortet.", "He did not reply.", "He did not reply.", "He has replied."),
    ("Er kommt nicht.", "He is not coming.", "He isn't coming.", "He is not coming."),
    ("Er kommt nicht.", "He is not coming.", "He comes.", "He comes."),
    ("Er kommt nicht.", "He is not coming.", "He is not coming.", "He fails to come."),  # not sure: no mistake
    ("Er kommt.", "He comes.", "He comes.", "He does not come."),
    ("Er kommt.", "He comes.", "He comes.", "He comes."),
    ("Er kommt.", "He does not go.", "He comes.", "He never comes."),  # source and reference disagree
    ("Es sind 160 Leute in Lyon.", "160 people are in Lyon.", "There are 160 in Lyon.", "There are 1600 in Lion."),
    ("Es sind 160 Leute in Lyon.", "160 people are in Lyon.", "There are 16 in Lion.", "There are 16 in Lion."),
)
WHOLE = [sentence(n, source, reference, whole) for n, (source, reference, whole, _) in enumerate(PAIRS)]
LIVE = [sentence(n, source, reference, live) for n, (source, reference, _, live) in enumerate(PAIRS)]


def test_only_what_the_whole_sentence_had_right_is_the_policy_s_loss() -> None:
    found = measure(LIVE, WHOLE, "de-en")
    negation = found["negation"]
    assert (negation["lost"], negation["of_lost"]) == (pytest.approx(100 / 3), 3)
    assert (negation["lost_late"], negation["of_lost_late"]) == (100, 1)
    assert (negation["missing"], negation["of_missing"]) == (50, 4)
    assert (negation["invented"], negation["of_invented"]) == (25, 4)
    assert found["numbers"] == {"lost": 100, "of_lost": 1, "missing": 100, "of_missing": 2}
    assert found["names"] == {"lost": 100, "of_lost": 1, "missing": 100, "of_missing": 2}


def test_without_whole_sentences_model_and_policy_are_not_told_apart() -> None:
    assert set(measure(LIVE, (), "de-en")["negation"]) == {"missing", "of_missing", "added", "of_added"}


@pytest.mark.parametrize("code", ["deu", "deu_Latn", "de-AT", "DE"])
def test_a_language_is_known_by_the_codes_of_other_tools(code: str) -> None:
    german = load(code)
    assert german
    assert german.negated("Das geht nicht.")
    assert load("") is load("de.toml") is load("../de") is load("../languages/de") is None


def test_codes_of_other_tools_become_short() -> None:
    codes = ("deu_Latn", "ger", "zho_Hant", "de-AT", "FR", "xho_Latn", "")
    assert [short(code) for code in codes] == ["de", "de", "zh", "de", "fr", "xho", ""]


def test_of_unknown_languages_only_names_are_measured() -> None:
    for spoken in ("", "-", "xx-en", "de-../en"):
        assert set(measure(LIVE, WHOLE, spoken)) == {"names"}


def test_whole_sentences_must_be_the_same_sentences() -> None:
    with pytest.raises(DataError, match="other sentences"):
        measure(LIVE, WHOLE[1:], "de-en")


def test_scores_carry_the_measures_and_a_log_finds_its_whole_sentences(tmp_path: Path) -> None:
    for folder, instances in (("offline", WHOLE), ("wait-k", LIVE)):
        (tmp_path / folder).mkdir()
        lines = "".join(json.dumps(one.to_dict()) + "\n" for one in instances)
        (tmp_path / folder / "instances.log").write_text(lines, "utf-8")
    scores = rescore(tmp_path / "wait-k" / "instances.log", spoken="de-en")
    assert scores.meaning == measure(LIVE, WHOLE, "de-en") == score(LIVE, WHOLE, "de-en").meaning
    moved = (tmp_path / "wait-k").rename(tmp_path / "offline" / "moved") / "instances.log"
    assert "lost" not in rescore(moved, spoken="de-en").meaning["negation"]
    other = tmp_path / "offline" / "instances.log"
    assert rescore(moved, other, "de-en").meaning == scores.meaning
    assert [one.prediction for one in read_log(moved)] == [one.prediction for one in LIVE]


def test_an_empty_translation_loses_everything() -> None:
    silent = [dataclasses.replace(one, prediction="", delays=()) for one in LIVE]
    assert meaning.measure(silent, WHOLE, "de-en")["negation"]["lost"] == 100
