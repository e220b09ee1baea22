"""Words that are carried over: which they are, that they come out unchanged, and that no promise of streaming suffers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bethink import AsyncTranslator
from bethink.client.resume import cut
from bethink.engine import Engine
from bethink.policy import Action, parse
from bethink.text import Boundary, Copier, Joiner, Segmenter, SentencePieces, Word, WordFinalPieces
from bethink.text.copying import MOST_HELD
from bethink.trace import Step, Translation, shown
from bethink.translator import Translator
from tests.fake import FakeBackend

PIECES = SentencePieces.load(Path(__file__).parent / "vocabularies" / "word-initial.spm")
COPIER = Copier(PIECES, PIECES, ("de", "en"))
FINAL = WordFinalPieces.load(Path(__file__).parents[1] / "models" / "de-en" / "source.spm")
COPIERS = (COPIER, Copier(FINAL, FINAL, ("de", "en")))

COPIED = """https://www.example.org/a?b=1 www.example.org bund.de/impfung anna.meier@uni-koeln.de @tagesschau #klima /usr/local/bin
setup.exe get_user_name() bericht_v2.docx DE89370400440532013000 XR-450B LH4711 H5N1 9F3K-22QX 0x80070005 2.14.3 12.03.2021 2021-03-12
80331 4500018273 089/1234567 +49-30-901820 -12 Москва 北京 Dvořák °C 😀 512GB E=mc²""".split()
TRANSLATED = """Haus Haus, „Haus“ und/oder z.B. d.h. usw. 20-jährige 1990er 50-prozentige G8-Gipfel Bürger*innen Bürger_innen Ende. 3. 2021
17:45 3:2 (siehe EU NATO – ! ... Donaudampfschifffahrt""".split()

WORDS = [
    *COPIED[:3],
    *COPIED[-5:],
    "80331.",
    "(80331)",
    "asdkjh",
    "qwoieu",
    "zxmcnb.",
    "WIR",
    "MÜSSEN",
    "der",
    "Haus.",
    "Haus",
    "EU",
    "x" * 300,
]
texts = st.lists(st.sampled_from([*WORDS, *[" "] * len(WORDS), "\n"]), max_size=50).map("".join)


def events(text: str, size: int | None = None) -> list[Word | Boundary]:
    segmenter = Segmenter(PIECES, copier=COPIER)
    size = size or len(text) or 1
    found = [event for begin in range(0, len(text), size) for event in segmenter.feed(text[begin : begin + size])]
    return found + segmenter.finish()


def translator(backend: FakeBackend | None = None) -> Translator:
    return Translator.of(backend or FakeBackend(3, ending=0.5), PIECES, PIECES, name="fake", policy=parse("wait-k:1"))


@pytest.mark.parametrize("copier", COPIERS, ids=["word-initial", "word-final"])
@pytest.mark.parametrize("word", COPIED)
def test_what_cannot_be_translated_is_carried_over(word: str, copier: Copier) -> None:
    for text in (word, f"({word}),"):
        parts = copier.parts(text)
        assert parts is not None
        assert f"{parts.before}{parts.copy}{parts.after}" == text


@pytest.mark.parametrize("copier", COPIERS, ids=["word-initial", "word-final"])
@pytest.mark.parametrize("word", TRANSLATED)
def test_other_words_are_left_to_the_model(word: str, copier: Copier) -> None:
    assert copier.parts(word) is None


@pytest.mark.parametrize(
    ("number", "written"),
    [
        ("1.250,50", "1,250.50"),
        ("12,75%", "12.75%"),
        ("-273,15", "-273.15"),
        ("2,4GHz", "2.4GHz"),
        ("12.03.2021", "12.03.2021"),
    ],
)
def test_numbers_are_written_as_the_target_language_does(number: str, written: str) -> None:
    assert COPIER.copy(number) == written
    assert Copier(PIECES, PIECES).copy(number) == number  # where the languages are not known


def test_the_model_reads_stand_ins_that_differ() -> None:
    words = [word for word in events("Das Haus 80331 und 50667 bei www.a.de.") if isinstance(word, Word)]
    assert [word.text for word in words] == "Das Haus 80331 und 50667 bei www.a.de.".split()
    stand_ins = [word.read_as for word in words if word.copied]
    assert len(set(stand_ins)) == 3
    assert all(word.ids == PIECES.encode(word.text) for word in words if not word.copied)


def test_a_word_of_the_text_is_not_taken_for_a_stand_in() -> None:
    text = "Das Haus Kyoto 650 und www.a.de 80331 und Europol 450 ist es."
    words = [word for word in events(text) if isinstance(word, Word)]
    read = {word.text: word.read_as for word in words}
    assert read["Kyoto"] is None
    assert read["650"] is None  # the model translates them, and the words after them get other stand-ins
    assert len({read[word] for word in ("www.a.de", "80331", "Europol", "450")} - {None, "Kyoto", "650"}) == 4


def test_a_stand_in_that_comes_out_is_replaced_and_one_that_does_not_is_added() -> None:
    joiner = Joiner(PIECES)
    joiner.expect("450", "80331")
    joiner.expect("Eurojust", "www.a.de")
    text = "".join(joiner.push(token) for word in "in (450), then 1450".split() for token in PIECES.encode(word))
    assert text + joiner.finish() == "in (80331), then 1450 (www.a.de)"
    assert joiner.copied == "www.a.de"
    assert joiner.finish() == ""  # nothing is left for the next sentence


@pytest.mark.parametrize("copier", COPIERS, ids=("word-initial", "word-final"))
@pytest.mark.parametrize(
    ("word", "number"),
    [("1994", "1994"), ("(217),", "217"), ("200", None), ("12", None), ("1990er", None), ("3:2", None)],
)
def test_numbers_that_the_model_translates_must_come_out(word: str, number: str | None, copier: Copier) -> None:
    assert copier.number(word) == number


@pytest.mark.parametrize("said", ["It was 1994 in Bonn.", "It was 1,994.", "It was 1 994 then.", "(1994)", "8 1994"])
def test_a_number_that_came_out_is_not_added(said: str) -> None:
    joiner = Joiner(PIECES)
    joiner.expect_number("1994")
    assert "".join(map(joiner.push, PIECES.encode(said))) + joiner.finish() == said


@pytest.mark.parametrize("said", ["It was in Bonn.", "It was 199.", "It was 19945.", "It was 2 1994000."])
def test_a_number_that_did_not_come_out_follows_once(said: str) -> None:
    joiner = Joiner(PIECES)
    for number in ("1994", "217", "1994"):
        joiner.expect_number(number)
    assert "".join(map(joiner.push, PIECES.encode(said))) + joiner.finish() == f"{said} (1994, 217)"
    assert joiner.copied == "1994, 217"
    assert joiner.finish() == ""


@pytest.mark.parametrize(
    "text", ["https://a.de", "asdkjh qwoieu zxmcnb", "😀 😀", "80331", "q w x z q w x", "Москва 北京!", "!!! ## --"]
)
def test_a_line_without_anything_to_translate_is_copied_without_the_model(text: str) -> None:
    backend = FakeBackend()
    model = translator(backend)
    steps = list(model.stream([text]))
    assert shown(steps) == text == next(model.translate_many([text])).text
    assert not backend.calls
    assert {step.reason.code for step in steps} == {"copied"}
    assert Translation.of(steps).source == tuple(text.split())


def test_a_sentence_is_translated_that_only_begins_with_such_words() -> None:
    found = events("https://a.de ist es. 80331 80331\nHaus")
    assert [len(word.ids) > 0 for word in found if isinstance(word, Word)] == [True, True, True, False, False, True]


def test_capitals_are_read_in_the_spelling_that_the_vocabulary_knows() -> None:
    read = {
        word.text: word.read_as
        for word in events("WIR MÜSSEN DER EU HELFEN. Die WTO ist WICHTIG!")
        if isinstance(word, Word)
    }
    assert [read[word] for word in ("WIR", "MÜSSEN", "WICHTIG!")] == ["wir", "müssen", "wichtig!"]
    assert {read[word] for word in ("EU", "WTO", "Die")} == {None}


@given(texts, st.integers(1, 40))
def test_words_are_found_however_the_text_is_cut(text: str, size: int) -> None:
    assert events(text, size) == events(text)


@given(texts, st.integers(1, 40))
def test_a_text_can_be_resumed_and_lines_lose_no_word(text: str, size: int) -> None:
    model = translator()
    found = list(model.stream([text[begin : begin + size] for begin in range(0, len(text), size)]))
    for step in found:
        if step.resume is not None:
            again = model.session(step.resume.policy, begin=step.resume)
            rest = again.feed(cut(text, step.resume.offset)) + again.finish()
            assert rest == found[step.resume.step :]
    line = text.replace("\n", " ")
    heard = [word.text for word in model.words(line)]
    assert heard == [event.text for event in events(line) if isinstance(event, Word)]


def test_speakers_on_one_engine_get_what_they_get_alone() -> None:
    spoken = [
        "80331\nasdkjh qwoieu zxmcnb\nDas Haus 50667 ist es.",
        "😀\n\n😀\nHaus.",
        "https://a.de ist es. www.b.de\n",
    ]
    model = translator()
    engine = Engine(model.backend)
    sessions = [model.session(engine=engine) for _ in spoken]
    found: list[list[Step]] = [[] for _ in spoken]
    for place in range(max(map(len, spoken)) + 1):
        for text, session, steps in zip(spoken, sessions, found, strict=True):
            session.feed(text[place]) if place < len(text) else session.finish() if place == len(text) else None
            engine.round()
            steps.extend(session.collect())
    while any(new := [session.collect() for session in sessions]) or engine.round():
        for steps, more in zip(found, new, strict=True):
            steps.extend(more)
    assert found == [list(model.stream([text])) for text in spoken]

    async def live() -> None:
        async with AsyncTranslator(model) as speakers:
            for text, steps in zip(spoken, found, strict=True):
                assert [step async for step in speakers.stream([text])] == steps

    asyncio.run(asyncio.wait_for(live(), 60))


class Counting(SentencePieces):
    """Counts the characters that it encodes."""

    characters = 0

    def encode(self, word: str) -> tuple[int, ...]:
        type(self).characters += len(word)
        return super().encode(word)


@pytest.mark.parametrize("kind", ["x", "5", "!", "ж", "😀", "qx5", "aB", "http://a/", "Haus 5"])
@pytest.mark.parametrize("before", ["", "Das Haus "])
def test_the_cost_of_a_long_word_grows_with_its_length_and_no_faster(kind: str, before: str) -> None:
    costs = []
    for length in (3_000, 30_000):
        vocabulary = Counting.load(Path(__file__).parent / "vocabularies" / "word-initial.spm")
        backend = FakeBackend(vocabulary=12, ending=0.5)
        model = Translator.of(backend, vocabulary, vocabulary, name="fake", policy=parse("wait-k:1"))
        Counting.characters = 0
        engine = Engine(backend)
        session = model.session(engine=engine)
        session.feed(before + (kind * length)[:length])
        session.finish()
        while session.collect() or engine.round():
            pass
        costs.append((Counting.characters, engine.rows))
        assert "Haus " in kind or engine.rows <= 100  # the model reads nothing of a word without end
    (few_characters, few_rows), (characters, rows) = costs
    assert characters <= 12 * few_characters + 1000
    assert rows <= 12 * few_rows + 100


def test_what_is_held_back_is_bounded() -> None:
    segmenter = Segmenter(PIECES, copier=COPIER)
    assert not segmenter.feed("80331 " * (MOST_HELD - 1))
    assert segmenter.feed("80331 ")[-1] == Boundary()
    assert segmenter.settled


def test_it_can_be_switched_off() -> None:
    model = Translator(Path(__file__).parents[1] / "models" / "toy", copy=False)
    assert model.copier is None
    assert [word.copied for word in model.words("https://a.de")] == [None]


def test_the_record_says_what_was_copied() -> None:
    steps = list(translator().stream(["Das Haus 80331."]))
    read = next(step for step in steps if step.text == "80331.")
    assert (read.action, read.copied, read.read_as) == (Action.READ, "80331", "650")
    again = Step.from_dict(read.to_dict())
    assert (again.copied, again.read_as) == ("80331", "650")
    assert "copied" not in steps[0].to_dict()
    assert any(step.copied == "80331" for step in steps if step.action is Action.WRITE)  # come out or not, it is shown


def test_text_without_spaces_is_translated_although_it_has_digits_or_an_unknown_letter(tmp_path: Path) -> None:
    pieces = SentencePieces.train(
        ["今天很好，我们去公园吧。 450 Eurojust 2"] * 50, tmp_path / "zh.spm", size=48, coverage=1.0
    )
    copier = Copier(pieces, pieces)
    assert copier.useful
    for sentence in ("今天很好，我们去2020公园。", "今天很好，我们去鼎公园。", "今天很好，" * 12):
        assert copier.parts(sentence) is None
    assert copier.parts("北京，上海。") is not None, "a script that the vocabulary does not know"
