"""M2M-100 and NLLB: the same tokens as `transformers`, in the languages chosen."""

from __future__ import annotations

from pathlib import Path

import pytest
import sentencepiece
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import M2M100ForConditionalGeneration, M2M100Tokenizer, NllbTokenizer

from bethink import Translator
from bethink.convert import convert
from bethink.errors import UsageError
from bethink.text import EOS
from tests.conftest import sentences as made_up
from tests.convert.hub import sentences, write_m2m

LONGEST = 40  # tokens compared
PAD, END, UNK = 1, 2, 3


def theirs(folder: Path, lines: list[str], tag: int, language: int, known: dict[str, int]) -> list[list[int]]:
    """What `transformers` writes, without the end; like bethink, it may not write padding, <unk> or nothing."""
    model = M2M100ForConditionalGeneration.from_pretrained(folder).eval()
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
    rows = [[tag, *(known.get(piece, UNK) for piece in pieces.encode(line, out_type=str)), END] for line in lines]
    source = pad_sequence([torch.tensor(row) for row in rows], True, PAD)
    found = model.generate(
        input_ids=source,
        attention_mask=(source != PAD).long(),
        forced_bos_token_id=language,
        num_beams=1,
        do_sample=False,
        max_new_tokens=LONGEST + 1,
        min_new_tokens=2,
        bad_words_ids=[[PAD], [UNK]],
    )
    return [[token for token in row if token not in (PAD, END)][1:] for row in found.tolist()]


@pytest.mark.parametrize("kind", ["m2m", "nllb"])
def test_the_whole_sentence_gives_the_tokens_of_transformers(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if kind == "m2m":
        hub, languages = request.getfixturevalue("m2m"), {"source": "af", "target": "am"}
    else:
        hub = write_m2m(tmp_path / "hub", listed=False, steps=60)
        languages = {"source": "deu_Latn", "target": "eng_Latn"}
    ours = Translator(convert(hub, tmp_path / "made", precision="float32", **languages), threads=1)
    assert ours.languages == {"m2m": ("af", "am"), "nllb": ("de", "en")}[kind]
    processor = sentencepiece.SentencePieceProcessor(model_file=str(hub / "sentencepiece.bpe.model"))
    names = ["<s>", "<pad>", "</s>", "<unk>", *(processor.id_to_piece(n) for n in range(3, processor.get_piece_size()))]
    known = {name: n for n, name in enumerate(names)}
    lines = [pair.source for pair in sentences(100, seed=9)]
    expected = theirs(hub, lines, len(names), len(names) + 1, known)
    found = []
    for translation in ours.translate_many(lines, "offline"):
        tokens = [step.token for step in translation.writes if step.token != EOS]
        found.append([known[ours.target._processor.id_to_piece(token)] for token in tokens][:LONGEST])
    assert found == expected
    live = list(ours.translate_many(lines[:3], "wait-k:3"))
    assert all(one.writes and one.path[0] < len(one.path) for one in live)


def test_text_is_cut_as_transformers_cuts_it(m2m: Path, tmp_path: Path) -> None:
    ours = Translator(convert(m2m, tmp_path / "made", source="af", target="am"), threads=1)
    listed = M2M100Tokenizer(str(m2m / "vocab.json"), str(m2m / "sentencepiece.bpe.model"), src_lang="af")
    numbered = NllbTokenizer.from_pretrained(m2m)
    for line in [*(pair.source for pair in sentences(100, seed=3)), *made_up(100)]:
        found = [token for word in line.split() for token in ours.source.encode(word)]
        mine = [listed.encoder.get(ours.source._processor.id_to_piece(token), UNK) for token in found]
        assert listed(line)["input_ids"] == [listed.get_lang_id("af"), *mine, END]
        assert numbered(line, add_special_tokens=False)["input_ids"] == mine


@pytest.mark.parametrize(
    ("languages", "said"),
    [
        ({}, "choose its languages with --source and --target, of: af, am"),
        ({"source": "af"}, "choose its languages"),
        ({"source": "ag", "target": "am"}, "no source language of this model named 'ag'"),
    ],
)
def test_languages_must_be_chosen(languages: dict[str, str], said: str, m2m: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        convert(m2m, tmp_path / "made", **languages)
