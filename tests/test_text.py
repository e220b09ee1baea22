"""The promises of bethink.text: any chunking gives the same events, only whole words go out, nothing typed is special."""

from __future__ import annotations

import io
import itertools
import tracemalloc
import unicodedata
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from bethink.errors import BethinkError, DataError, ModelError, UsageError
from bethink.text import (
    EOS,
    PAD,
    UNK,
    Boundary,
    Joiner,
    Segmenter,
    SentencePieces,
    Vocabulary,
    Word,
    WordFinalPieces,
    Words,
    alike,
    load_vocabulary,
    normalise,
    starts_word,
)
from bethink.text.clean import LINE_END, LONGEST_WORD, Cleaner
from bethink.text.sentences import ends_sentence

Events = list[Word | Boundary]

WORDS = Words(["it", "is", "'s", ".", ",", "(", ")", '"', "3.5", "<unk>", "nice"])

# Text made of what can go wrong at a cut: marks, tags, entities, halves of characters, white space of all kinds.
marks = " \n\t\u00a0\u3000\r<>&;/='\".?!…,。！」“0ae\u0301\u200b\u200d\ufeff🙂ế\ud83d\ude42"
markup = ["<b>", "</i>", "<br/>", '<a href="x y">', "<font color=red", "&amp;", "&quot;", "&#39;", "&nbsp;"]
fragments = st.sampled_from([*marks, *markup, "z.B.", "der", "x" * 90])
messy_text = st.one_of(st.lists(fragments, max_size=40).map("".join), st.text(max_size=60))


def segment(vocabulary: Vocabulary, *chunks: str, longest: int = 120) -> Events:
    segmenter = Segmenter(vocabulary, longest)
    events = [event for chunk in chunks for event in segmenter.feed(chunk)]
    return events + segmenter.finish()


def sentences_of(events: Events) -> list[str]:
    sentences: list[list[str]] = [[]]
    for event in events:
        if isinstance(event, Boundary):
            sentences.append([])
        else:
            sentences[-1].append(event.text)
    assert not sentences.pop()  # whatever was opened was closed
    return [" ".join(words) for words in sentences]


def cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(edges)]


class TestChunking:
    @given(text=messy_text, places=st.lists(st.integers(0, 10_000), max_size=12))
    def test_any_chunking_gives_the_same_events(self, pieces: SentencePieces, text: str, places: list[int]) -> None:
        whole = segment(pieces, text, longest=20)
        assert segment(pieces, *cut(text, places), longest=20) == whole
        assert segment(pieces, *text, longest=20) == whole

    @given(messy_text)
    def test_words_are_those_of_the_normalised_text(self, text: str) -> None:
        words = [event.text for event in segment(WORDS, text) if isinstance(event, Word)]
        assert "".join(words) == normalise(text).replace(" ", "")
        if not any(mark in text for mark in "。！？｡။។"):  # no space need follow these
            assert " ".join(words) == normalise(text)

    @given(messy_text)
    def test_boundaries_never_open_and_never_double(self, text: str) -> None:
        events = segment(WORDS, text, longest=8)
        assert not events or isinstance(events[0], Word)
        assert not any(isinstance(a, Boundary) and isinstance(b, Boundary) for a, b in itertools.pairwise(events))
        assert not events or isinstance(events[-1], Boundary)

    def test_a_word_comes_out_with_the_white_space_after_it(self) -> None:
        segmenter = Segmenter(WORDS)
        assert segmenter.feed("it i") == [Word("it", (3,))]
        assert segmenter.feed("s") == []
        assert segmenter.feed(" ") == [Word("is", (4,))]
        assert segmenter.finish() == [Boundary()]

    def test_finish_makes_it_as_new(self) -> None:
        segmenter = Segmenter(WORDS)
        first = segmenter.feed('it <a href="') + segmenter.finish()
        assert segmenter.finish() == []
        assert segmenter.feed('it <a href="') + segmenter.finish() == first


class TestSentences:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("Das ist gut. Wir gehen.", ["Das ist gut.", "Wir gehen."]),
            ("Das kostet 3.5 Mio. Euro. Gut!", ["Das kostet 3.5 Mio. Euro.", "Gut!"]),
            ("Am 3. Mai kam Dr. Weiß. Er blieb.", ["Am 3. Mai kam Dr. Weiß.", "Er blieb."]),
            ("Es war 2015. Dann nicht.", ["Es war 2015.", "Dann nicht."]),
            ("Obst, z. B. Äpfel, bzw. Birnen.", ["Obst, z. B. Äpfel, bzw. Birnen."]),
            ("Obst, z.B. Äpfel. Vgl. Kap. 3 dort.", ["Obst, z.B. Äpfel.", "Vgl. Kap. 3 dort."]),
            ("Äpfel, Birnen usw. Das reicht.", ["Äpfel, Birnen usw.", "Das reicht."]),
            ("Obst (Äpfel usw.) ist gesund.", ["Obst (Äpfel usw.) ist gesund."]),
            ("Ludwig XIV. war König.", ["Ludwig XIV. war König."]),
            ("Unser Dipl.-Ing. Maier kommt.", ["Unser Dipl.-Ing. Maier kommt."]),
            ("»Komm!« Er ging. „Nein.“ Ja.", ["»Komm!«", "Er ging.", "„Nein.“", "Ja."]),
            ("Auf diese Art. Ich danke Dir. Ja.", ["Auf diese Art.", "Ich danke Dir.", "Ja."]),
            ("Mr. and Mrs. Smith met J. R. Hill. Fine.", ["Mr. and Mrs. Smith met J. R. Hill.", "Fine."]),
            ("Fruit, e.g. apples, i.e. this. OK?", ["Fruit, e.g. apples, i.e. this.", "OK?"]),
            ("See No. 5 there. No. I will not.", ["See No. 5 there.", "No.", "I will not."]),
            ("The U.S. army vs. the rest.", ["The U.S. army vs. the rest."]),
            ('He said "stop." (He did.) Then left.', ['He said "stop."', "(He did.)", "Then left."]),
            ("Well... yes… What?! Go", ["Well...", "yes…", "What?!", "Go"]),
            ("I changed my mind. It is art. Good.", ["I changed my mind.", "It is art.", "Good."]),
            ("it is nice . is it ?", ["it is nice .", "is it ?"]),
            ("A (?) word, a [sic!] mark (so).", ["A (?) word, a [sic!] mark (so)."]),
            ("<i>Ende.</i> Neu.", ["Ende.", "Neu."]),
            ("good。 好！ 吗？ x", ["good。", "好！", "吗？", "x"]),
            ("今天很好。我们去公园吧！好吗？", ["今天很好。", "我们去公园吧！", "好吗？"]),
            (
                "他说：“你好。”然后走了。「はい。」と言った！？え",
                ["他说：“你好。”", "然后走了。", "「はい。」", "と言った！？", "え"],
            ),
            ("第一句。“第二句。”第三句", ["第一句。", "“第二句。”", "第三句"]),
            ("ကောင်းတယ်။ဟုတ်ကဲ့", ["ကောင်းတယ်။", "ဟုတ်ကဲ့"]),
            ("یہ اچھا ہے۔ ہاں", ["یہ اچھا ہے۔", "ہاں"]),
            ("one line\nanother\r\n\r\n third", ["one line", "another", "third"]),
            ("Tôi đi. Bạn ở lại.", ["Tôi đi.", "Bạn ở lại."]),
            ("\n\n . \n", ["."]),
            # an address is not a sentence: what follows belongs to it
            ("Herr Präsident! Ich danke Ihnen. Gut.", ["Herr Präsident! Ich danke Ihnen.", "Gut."]),
            (
                "Frau Vorsitzende, meine sehr geehrten Damen und Herren! Ja!",
                ["Frau Vorsitzende, meine sehr geehrten Damen und Herren! Ja!"],
            ),
            ("Ladies and gentlemen! Welcome! Sit down.", ["Ladies and gentlemen! Welcome!", "Sit down."]),
            ("Liebe Anna!\nDanke.", ["Liebe Anna!", "Danke."]),
            (
                "Sehr geehrter Herr Dr. Müller!! Herr Kommissar! Meine Damen und Herren! Es ist spät. Ja.",
                ["Sehr geehrter Herr Dr. Müller!! Herr Kommissar! Meine Damen und Herren! Es ist spät.", "Ja."],
            ),
            # these are none
            ("Meine Güte! Oh.", ["Meine Güte!", "Oh."]),
            (
                "Liebe macht blind! Herr Ober bringt Bier! Herr!",
                ["Liebe macht blind!", "Herr Ober bringt Bier!", "Herr!"],
            ),
            ("Sehr gut! Weiter.", ["Sehr gut!", "Weiter."]),
            ("HERR MINISTER TRITT ZURÜCK! Neu.", ["HERR MINISTER TRITT ZURÜCK!", "Neu."]),
            ("", []),
        ],
    )
    def test_boundaries(self, text: str, expected: list[str]) -> None:
        assert sentences_of(segment(WORDS, text)) == expected

    def test_the_model_reads_an_address_with_a_comma(self) -> None:
        words = [event for event in Segmenter(WORDS).feed("Liebe Gäste!! Willkommen. ") if isinstance(event, Word)]
        assert [(word.text, word.read_as) for word in words] == [
            ("Liebe", None),
            ("Gäste!!", "Gäste,"),
            ("Willkommen.", None),
        ]
        assert words[1].ids == WORDS.encode("Gäste,")
        [line] = [event for event in Segmenter(WORDS, by_line=True).feed("Gäste! ") if isinstance(event, Word)]
        assert line.read_as is None, "lines of a test set are read as they are"

    def test_without_spaces_the_next_character_completes_a_sentence(self) -> None:
        segmenter = Segmenter(WORDS)
        assert segmenter.feed("你好") == segmenter.feed("。") == segmenter.feed("」") == []
        assert segmenter.feed("我")[-1] == Boundary()
        assert not segmenter.settled

    def test_lines_that_are_sentences_stay_whole(self) -> None:
        assert [
            event.text for event in Segmenter(WORDS, by_line=True).feed("你好。我们走。\n") if isinstance(event, Word)
        ] == ["你好。我们走。"]

    def test_a_boundary_waits_for_no_further_word(self) -> None:
        assert Segmenter(WORDS).feed("nice. ")[-1] == Boundary()

    @given(st.text(max_size=12))
    def test_any_word_can_be_asked(self, word: str) -> None:
        assert isinstance(ends_sentence(word), bool)


class TestLength:
    @given(count=st.integers(1, 200), longest=st.integers(8, 40))
    def test_no_sentence_is_longer_than_the_longest(self, count: int, longest: int) -> None:
        sentences = sentences_of(segment(WORDS, "so " * count, longest=longest))
        assert [len(sentence.split()) for sentence in sentences[:-1]] == [longest] * (len(sentences) - 1)
        assert sum(len(sentence.split()) for sentence in sentences) == count

    @given(messy_text, st.integers(8, 30))
    def test_the_longest_counts_tokens(self, pieces: SentencePieces, text: str, longest: int) -> None:
        length = 0
        for event in segment(pieces, text, longest=longest):
            length = 0 if isinstance(event, Boundary) else length + len(event.ids)
            assert length <= longest

    def test_a_late_comma_is_a_good_place_to_cut(self) -> None:
        sentences = sentences_of(segment(WORDS, "so, " + "so " * 7 + "so, " + "so " * 5, longest=12))
        assert sentences == ["so, " + "so " * 7 + "so,", "so so so so so"]

    def test_a_megabyte_without_white_space(self, pieces: SentencePieces) -> None:
        text = "läuft" * 200_000
        segmenter = Segmenter(pieces)
        tracemalloc.start()
        words = 0
        for start in range(0, len(text), 50_000):
            words += sum(isinstance(event, Word) for event in segmenter.feed(text[start : start + 50_000]))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert words >= len(text) // LONGEST_WORD - 1
        assert peak < 4_000_000

    def test_a_long_word_is_cut_alike_however_it_comes(self, pieces: SentencePieces) -> None:
        text = "la\u0308uft" * 500 + " haus"
        events = segment(pieces, text)
        assert events == segment(pieces, *text)
        assert max(len(event.text) for event in events if isinstance(event, Word)) <= LONGEST_WORD

    def test_a_word_of_more_tokens_than_a_sentence_may_have_is_cut(self, pieces: SentencePieces) -> None:
        words = [event for event in segment(pieces, "läuft" * 20, longest=8) if isinstance(event, Word)]
        assert "".join(word.text for word in words) == "läuft" * 20
        assert max(len(word.ids) for word in words) <= 8

    def test_a_full_sentence_ends_without_waiting(self) -> None:
        assert Segmenter(WORDS, longest=8).feed("so " * 8)[-1] == Boundary()

    def test_a_tag_that_never_closes_holds_nothing_up_for_long(self) -> None:
        words = [event for event in Segmenter(WORDS).feed('<a title="' + "so " * 500) if isinstance(event, Word)]
        assert len(words) > 500 - LONGEST_WORD

    def test_a_limit_too_small_is_refused(self) -> None:
        with pytest.raises(UsageError, match="at least 8"):
            Segmenter(WORDS, longest=0)


class TestNormalise:
    @pytest.mark.parametrize(
        ("raw", "clean"),
        [
            ("e\u0301te\u0301", "été"),
            ("vie\u0302\u0323t", "việt"),
            ("\ufeffHallo\u200b Welt\u00ad\u202e", "Hallo Welt"),
            ("a\x00b\x07c\x7f", "abc"),
            ("a\u00a0b\u202fc\u3000d", "a b c d"),
            ("<b>fett</b> und <i>schräg</i>", "fett und schräg"),
            ("eins<br/>zwei<br />drei<BR>vier", "eins zwei drei vier"),
            ('<font color="#ff0000">rot</font> ist', "rot ist"),
            ("<a href='x' title=\"zwei Wörter\">Text</a>.", "Text."),
            ("a < b und b > c, a<b & c>d", "a < b und b > c, a<b & c>d"),
            ("ein <a ohne Ende", "ein <a ohne Ende"),
            ("mail <me@example.org> <3 <- <=>", "mail <me@example.org> <3 <- <=>"),
            ("Tom &amp; Jerry &quot;x&quot; it&#39;s &#x41;", 'Tom & Jerry "x" it\'s A'),
            ("AT&T R&D &copy &unknown; &", "AT&T R&D &copy &unknown; &"),
            ("&lt;b&gt; a&nbsp;b", "<b> a b"),
            ("<unk> <s> </s> <pad> x", "x"),
            ("👨‍👩‍👧 🇩🇪 👍🏽", "👨‍👩‍👧 🇩🇪 👍🏽"),
            ("می‌خواهم שלום a\u200db", "می‌خواهم שלום ab"),
            ("\ud83d\ude42 \ud83d", "🙂 \ufffd"),
            (" \n ", ""),
        ],
    )
    def test_cases(self, raw: str, clean: str) -> None:
        assert normalise(raw) == clean

    def test_a_mark_that_comes_later_joins_its_letter(self) -> None:
        assert segment(WORDS, "caf", "e", "\u0301", " ") == segment(WORDS, "café")

    @given(messy_text)
    def test_the_result_is_clean(self, text: str) -> None:
        clean = normalise(text)
        clean.encode()
        assert clean == " ".join(clean.split())
        assert unicodedata.is_normalized("NFC", clean)
        assert not any(unicodedata.category(character) == "Cc" for character in clean)


class TestSentencePieces:
    def test_special_ids(self, pieces: SentencePieces) -> None:
        assert [pieces.piece(token) for token in (PAD, EOS, UNK)] == ["<pad>", "</s>", "⁇"]
        assert len(pieces) == 160

    @given(st.data())
    def test_word_by_word_is_the_whole_sentence(
        self, pieces: SentencePieces, lines: list[str], data: st.DataObject
    ) -> None:
        sentence = normalise(data.draw(st.one_of(st.sampled_from(lines), messy_text)))
        together = pieces.encode(sentence) if sentence else ()
        assert tuple(token for word in sentence.split() for token in pieces.encode(word)) == together

    @given(st.data())
    def test_a_known_sentence_comes_back(self, pieces: SentencePieces, lines: list[str], data: st.DataObject) -> None:
        words = data.draw(
            st.lists(st.sampled_from([word for line in lines[:30] for word in line.split()]), max_size=12)
        )
        ids = [token for word in words for token in pieces.encode(word)]
        joiner = Joiner(pieces)
        shown = [joiner.push(token) for token in ids] + [joiner.finish()]
        assert "".join(shown) == pieces.decode(ids) == " ".join(words)

    @pytest.mark.parametrize("word", ["<unk>", "<s>", "</s>", "<pad>", "▁", "▁▁haus", "haus</s>", "\ufffd", "🙂"])
    def test_nothing_typed_is_special(self, pieces: SentencePieces, word: str) -> None:
        ids = pieces.encode(word)
        assert ids
        assert not {PAD, EOS} & set(ids)
        assert sum(map(pieces.opens_word, ids)) == 1

    def test_pieces_on_an_axis(self, pieces: SentencePieces) -> None:
        ids = pieces.encode("xxhaus") + pieces.encode("straßeer")
        shown = [pieces.piece(token) for token in ids]
        assert [text.startswith("·") or text == "⁇" for text in shown] == [
            not pieces.opens_word(token) for token in ids
        ]

    def test_training_twice_gives_the_same_file(self, lines: list[str], tmp_path: Path) -> None:
        for name in ("one", "two"):
            SentencePieces.train(lines, tmp_path / name, size=100)
        assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]

    def test_saved_and_loaded_it_is_the_same(self, pieces: SentencePieces, tmp_path: Path) -> None:
        pieces.save(tmp_path / "copy.spm")
        again = load_vocabulary(tmp_path / "copy.spm", "sentencepiece")
        assert again.encode("grünes") == pieces.encode("grünes")
        assert (again.kind, len(again)) == (pieces.kind, len(pieces))

    def test_byte_fallback_spells_the_unseen(self, lines: list[str], tmp_path: Path) -> None:
        vocabulary = SentencePieces.train(lines, tmp_path / "bytes.spm", size=400, byte_fallback=True)
        ids = [token for word in ("haus", "🙂ש", "haus") for token in vocabulary.encode(word)]
        joiner = Joiner(vocabulary)
        assert UNK not in ids
        assert "".join([*map(joiner.push, ids), joiner.finish()]) == "haus 🙂ש haus"

    def test_a_damaged_file_is_one_sentence(self, pieces: SentencePieces, tmp_path: Path) -> None:
        pieces.save(tmp_path / "whole.spm")
        content = (tmp_path / "whole.spm").read_bytes()
        for size in [0, 1, 2, *range(3, len(content), 7), len(content) - 1]:
            with pytest.raises(ModelError, match=r"cut\.spm' is not a whole sentencepiece model"):
                SentencePieces(content[:size], "cut.spm")

    def test_other_special_ids_are_refused(self, lines: list[str]) -> None:
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=model, vocab_size=100, model_type="bpe", minloglevel=2
        )
        with pytest.raises(ModelError, match="has pad, eos, unk, bos"):
            SentencePieces(model.getvalue())

    @pytest.mark.parametrize(
        ("text", "size", "found"), [([], 100, "nothing in it"), (["ab ba"], 9999, "too high"), (["ab"], 3, "3")]
    )
    def test_training_that_cannot_work_says_why(self, text: list[str], size: int, found: str, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=found):
            SentencePieces.train(text, tmp_path / "no.spm", size)
        assert not list(tmp_path.iterdir())


class TestWordFinalPieces:
    @pytest.fixture(scope="class")
    @staticmethod
    def final(lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> WordFinalPieces:
        texts = [f"{line}, (12) {line}!" for line in lines]
        return WordFinalPieces.train(texts, tmp_path_factory.mktemp("final") / "pieces.spm", 420)

    @given(messy_text)
    def test_any_text_comes_back(self, final: WordFinalPieces, text: str) -> None:
        words = normalise(text).replace("▁", "_").replace("￭", "■").split()
        ids = [token for word in words for token in final.encode(word)]
        assert UNK not in ids
        assert final.decode(ids) == " ".join(words)
        joiner = Joiner(final)
        assert "".join([*map(joiner.push, ids), joiner.finish()]) == " ".join(words)

    def test_a_word_is_shown_with_its_last_piece_and_a_comma_changes_nothing(self, final: WordFinalPieces) -> None:
        joiner = Joiner(final)
        for word, parts in (("haus,", ["haus", ","]), ("straße!)", [" straße", "!", ")"]), ("12", [" 12"])):
            assert [text for text in map(joiner.push, final.encode(word)) if text] == parts
        assert joiner.finish() == ""

    @given(messy_text)
    def test_words_begin_where_they_do_in_the_text(self, final: WordFinalPieces, text: str) -> None:
        words = normalise(text).split()
        ids = [final.encode(word) for word in words]
        flat = [token for word in ids for token in word]
        found = [starts_word(final, token, before) for before, token in zip([None, *flat], flat, strict=False)]
        assert found == [n == 0 for word in ids for n in range(len(word))]

    def test_a_file_says_nothing_of_its_kind_so_the_owner_does(self, final: WordFinalPieces, tmp_path: Path) -> None:
        final.save(tmp_path / "pieces.spm")
        again = load_vocabulary(tmp_path / "pieces.spm", "word-final")
        assert alike(again, final)
        assert [again.piece(token) for token in again.encode("straße,")][-1] == ","


class TestWords:
    def test_rare_words_are_unknown(self) -> None:
        vocabulary = Words.build(["b a a c"] * 4 + ["a b"], minimum=5)
        assert [vocabulary.piece(token) for token in range(len(vocabulary))] == ["<pad>", "</s>", "⁇", "a", "b"]
        assert [vocabulary.encode(word) for word in ("a", "b", "c")] == [(3,), (4,), (UNK,)]

    @pytest.mark.parametrize("word", ["<pad>", "</s>", "<s>", "⁇", "unheard"])
    def test_nothing_typed_is_special(self, word: str) -> None:
        assert WORDS.encode(word) == (UNK,)

    def test_ordinary_text_is_read_by_its_parts(self) -> None:
        assert [WORDS.piece(token) for token in WORDS.encode("(it's")] == ["(", "it", "'s"]
        assert [WORDS.piece(token) for token in WORDS.encode("3.5.")] == ["3.5", "."]
        assert WORDS.encode("odd.") == (UNK,)

    @pytest.mark.parametrize(
        ("tokens", "text"),
        [
            ("it is nice .", "it is nice."),
            ("it 's nice , is it", "it's nice, is it"),
            ("is ( it ) nice", "is (it) nice"),
            ('it is " nice , it " .', 'it is "nice, it".'),
            ("it unheard .", "it ⁇."),
            ("", ""),
        ],
    )
    def test_spacing(self, tokens: str, text: str) -> None:
        ids = [token for word in tokens.split() for token in WORDS.encode(word)]
        joiner = Joiner(WORDS, tidy=True)
        assert "".join([*map(joiner.push, ids), joiner.push(EOS)]) == text == WORDS.decode(ids, tidy=True)

    def test_tokenised_text_stays_tokenised_and_comes_at_once(self) -> None:
        joiner = Joiner(WORDS)
        ids = [token for word in "it is nice .".split() for token in WORDS.encode(word)]
        assert [*map(joiner.push, ids), joiner.push(EOS)] == ["it", " is", " nice", " .", ""]
        assert WORDS.decode(ids) == "it is nice ."

    def test_saved_and_loaded_it_is_the_same(self, tmp_path: Path) -> None:
        WORDS.save(tmp_path / "words.txt")
        again = load_vocabulary(tmp_path / "words.txt", "words")
        assert [again.piece(token) for token in range(len(again))] == [
            WORDS.piece(token) for token in range(len(WORDS))
        ]

    @pytest.mark.parametrize(
        ("content", "found"),
        [(b"a\nb\na\n", "'a' more than once"), (b"a b\n", "'a b'"), (b"a\n\nb\n", "''"), (b"\xff", "UTF-8")],
    )
    def test_a_damaged_file_is_one_sentence(self, content: bytes, found: str, tmp_path: Path) -> None:
        (tmp_path / "words.txt").write_bytes(content)
        with pytest.raises(ModelError, match=found):
            Words.load(tmp_path / "words.txt")


class TestJoiner:
    @pytest.mark.parametrize("tidy", [False, True])
    @pytest.mark.parametrize("kind", ["sentencepiece", "words"])
    @given(data=st.data())
    def test_any_ids_only_grow_and_only_by_whole_words(
        self, pieces: SentencePieces, kind: str, tidy: bool, data: st.DataObject
    ) -> None:
        vocabulary: Vocabulary = pieces if kind == "sentencepiece" else WORDS
        ids = data.draw(st.lists(st.integers(0, len(vocabulary) - 1).filter(lambda token: token != EOS), max_size=25))
        joiner, final = Joiner(vocabulary, tidy=tidy), vocabulary.decode(ids, tidy=tidy).split(" ")
        shown = ""
        for token in ids:
            shown += joiner.push(token)
            assert " ".join(final).startswith(shown)
            if kind == "sentencepiece":  # there a token may be half a word
                assert shown.split(" ") == final[: len(shown.split(" "))] or not shown
        assert shown + joiner.finish() == " ".join(final)

    def test_words_come_with_the_space_before_them(self, pieces: SentencePieces) -> None:
        joiner = Joiner(pieces)
        ids = [token for word in ("haus", "nicht", "haus") for token in pieces.encode(word)]
        assert [text for text in map(joiner.push, ids) if text] == ["haus", " nicht"]
        assert [joiner.push(EOS), joiner.finish()] == [" haus", ""]
        assert joiner.push(ids[0]) + joiner.finish() == pieces.decode(ids[:1])


def test_a_kind_that_does_not_exist_is_named() -> None:
    with pytest.raises(UsageError, match="Did you mean 'words'"):
        load_vocabulary("x", "word")


def test_a_missing_file_is_one_sentence() -> None:
    for kind in ("sentencepiece", "words"):
        with pytest.raises(BethinkError, match="cannot read the vocabulary 'no/such/file': No such file"):
            load_vocabulary("no/such/file", kind)


@given(messy_text)
def test_clean_text_takes_no_other_way(text: str) -> None:
    cleaner = Cleaner()
    words = [word for word in [*cleaner.feed(text), *cleaner.finish()] if word != LINE_END]
    assert normalise(text) == " ".join(words)


def test_signs_that_a_vocabulary_lacks_are_read_as_their_plain_relatives(tmp_path: Path) -> None:
    lines = ["he said \"yes\" - and 'no' ... 1/2 EUR"] * 50
    pieces = SentencePieces.train(lines, tmp_path / "spm", 40, coverage=1.0)
    assert UNK not in pieces.encode("„yes“")
    assert pieces.encode("„yes“") == pieces.encode('"yes"')
    assert [pieces.encode(sign) for sign in "–…½€"] == [pieces.encode(plain) for plain in ("-", "...", "1/2", "EUR")]
    assert UNK in pieces.encode("漢")
