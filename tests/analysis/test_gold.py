"""Alignment files, and which tokens a word of the alignment has."""

from __future__ import annotations

from pathlib import Path

import pytest

from bethink.analysis.gold import golden, read_pairs, side
from bethink.errors import DataError
from bethink.evaluate.links import parse_links
from bethink.policy import parse
from bethink.text import SentencePieces, Vocabulary, Words
from bethink.toy import AlignedPair
from bethink.translator import Translator
from tests.fake import FakeBackend


def translator(source: Vocabulary, target: Vocabulary | None = None) -> Translator:
    return Translator.of(FakeBackend(), source, target or source, name="fake", policy=parse("offline"))


def test_links_count_from_one_and_possible_ones_can_be_left_out() -> None:
    assert parse_links("2-1 1p3 2-1", 2, 3) == ((0, 2), (1, 0))
    assert parse_links("2-1 1p3", 2, 3, sure=True) == ((1, 0),)
    assert parse_links("", 2, 3) == ()


@pytest.mark.parametrize("line", ["0-1", "3-1", "1-4"])
def test_a_link_to_no_word_is_an_error(line: str) -> None:
    with pytest.raises(DataError, match=r"f, line 1 links \d to \d, but the sentences have 2 and 3 words"):
        parse_links(line, 2, 3, "f, line 1")


def test_what_is_no_link_is_an_error() -> None:
    with pytest.raises(DataError, match="'1:2'; expected links such as 3-4"):
        parse_links("1:2", 2, 3)


def test_pairs_from_files_utf8_or_latin1(tmp_path: Path) -> None:
    (tmp_path / "de").write_bytes("daß es\n\nnein\n".encode("latin-1"))
    (tmp_path / "en").write_text("that it\nnothing\nno\n", "utf-8")
    (tmp_path / "talp").write_text("1-1 2p2\n\n1-1\n", "utf-8")
    found = read_pairs(tmp_path / "de", tmp_path / "en", tmp_path / "talp")
    assert found == [AlignedPair("daß es", "that it", ((0, 0), (1, 1))), AlignedPair("nein", "no", ((0, 0),))]
    assert len(read_pairs(tmp_path / "de", tmp_path / "en", limit=1)) == 1
    (tmp_path / "talp").write_text("1-1\n", "utf-8")
    with pytest.raises(DataError, match="3 lines but .*talp has 1"):
        read_pairs(tmp_path / "de", tmp_path / "en", tmp_path / "talp")
    with pytest.raises(DataError, match="cannot read"):
        read_pairs(tmp_path / "de", tmp_path / "none")


def test_words_keep_their_own_tokens_where_punctuation_moves(pieces: SentencePieces) -> None:
    pair = AlignedPair("haus ( baum ) , straße .", '" grün " nicht', ())
    gold = golden(translator(pieces), pair)
    assert gold.text == "haus (baum), straße."
    for words, one in ((pair.source.split(), gold.source), (pair.target.split(), gold.target)):
        assert len(one.spans) == len(words)
        for word, (first, last) in zip(words, one.spans, strict=True):
            assert word in pieces.decode(one.ids[first:last]) or "⁇" in pieces.decode(one.ids[first:last])
    assert golden(translator(pieces), pair, tidy=False).text == pair.source


def test_parts_of_a_word_share_it_in_order(pieces: SentencePieces) -> None:
    one = side(pieces, [["straße", "."], ["der"]])
    (first, last), (dot, after), (begin, end) = one.spans
    assert first == 0 < last
    assert last - 1 <= dot < after == len(one.words[0]) == begin < end == len(one.ids)


def test_a_word_model_reads_tokenised_text_as_it_is() -> None:
    words = Words(["a", "b", ","])
    gold = golden(translator(words), AlignedPair("a , b", "b , a", ((0, 2), (2, 0), (1, 0))))
    assert gold.text == "a , b"
    assert gold.furthest == {0: 3, 2: 1}
    assert gold.translations == {0: [2], 1: [0], 2: [0]}
