"""MarianMT: a converted model does what `transformers` does with the same folder, token for token."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import MarianMTModel, MarianTokenizer

from bethink import Translator
from bethink.backend import Row
from bethink.cli import main
from bethink.convert import convert
from bethink.errors import BethinkError, ModelError, UsageError
from bethink.folder import Folder
from bethink.policy import parse
from bethink.text import EOS
from bethink.trace import Translation
from tests import naive
from tests.conftest import sentences as made_up
from tests.convert.hub import TAG, sentences

UNK = 1  # of the hub's model
BATCH, LONGEST = 50, 40  # sentences at a time, tokens compared


@pytest.fixture(scope="module")
def tokenizer(marian: Path) -> MarianTokenizer:
    return MarianTokenizer(
        str(marian / "source.spm"),
        str(marian / "target.spm"),
        str(marian / "vocab.json"),
        source_lang="en",
        target_lang="fr",
    )


@pytest.fixture(scope="module")
def theirs(marian: Path) -> MarianMTModel:
    return MarianMTModel.from_pretrained(marian).eval()


@pytest.fixture(scope="module")
def ours(converted: Path) -> Translator:
    return Translator(converted, threads=1)


def greedy(model: MarianMTModel, tokenizer: MarianTokenizer, lines: list[str]) -> Iterator[list[str]]:
    """The pieces that `transformers` writes; like bethink and Marian's own decoder, it may not write <unk> or nothing."""
    pad = model.config.pad_token_id
    for begin in range(0, len(lines), BATCH):
        inputs = tokenizer(
            [f"{TAG} {line}" for line in lines[begin : begin + BATCH]], return_tensors="pt", padding=True
        )
        barred = {"bad_words_ids": [[pad], [UNK]], "min_new_tokens": 1}
        for row in model.generate(**inputs, num_beams=1, do_sample=False, max_new_tokens=LONGEST, **barred).tolist():
            yield tokenizer.convert_ids_to_tokens([token for token in row if token not in (pad, 0)])


def pieces(translator: Translator, translation: Translation) -> list[str]:
    names = [translator.target.piece(step.token) for step in translation.writes if step.token != EOS]
    return [name[1:] if name.startswith("·") else f"▁{name}".replace("▁▁", "▁") for name in names]


def test_the_whole_sentence_gives_the_tokens_of_transformers(
    ours: Translator, theirs: MarianMTModel, tokenizer: MarianTokenizer
) -> None:
    lines = [pair.source for pair in sentences(200, seed=9)]
    expected = list(greedy(theirs, tokenizer, lines))
    found = [pieces(ours, one)[:LONGEST] for one in ours.translate_many(lines, "offline")]
    assert found == expected
    assert len({tuple(one) for one in found}) > 100, "a model that says the same to everything shows nothing"


def test_text_is_cut_as_transformers_cuts_it(ours: Translator, tokenizer: MarianTokenizer, marian: Path) -> None:
    """Unknown letters and pieces that the vocabulary lacks too."""
    ids = json.loads((marian / "vocab.json").read_text())
    names = {n: piece for piece, n in ids.items()}
    for line in [*(pair.source for pair in sentences(200, seed=3)), *made_up(200), "ne te, ½ ﬁn … „Zitat“ 12,5 %"]:
        found = [token for word in line.split() for token in ours.source.encode(word)]
        texts = [ours.source._processor.id_to_piece(token) for token in found]
        assert [ids.get(text, UNK) for text in texts] == tokenizer(line)["input_ids"][:-1], line
        assert all(names[ids[text]] == text for text in texts if text in ids)


def test_every_row_is_what_transformers_computes_from_the_prefixes(
    ours: Translator, theirs: MarianMTModel, marian: Path
) -> None:
    """Reading and writing word by word, with all that is kept between the steps, equals computing each step from nothing."""
    ids = json.loads((marian / "vocab.json").read_text())
    pad = ids["<pad>"]
    hub = [ids.get(ours.target._processor.id_to_piece(token), UNK) for token in range(len(ours.target))]
    back = {theirs_id: token for token, theirs_id in reversed(list(enumerate(hub))) if theirs_id != UNK}

    def run(source: Any, inputs: Any, path: Any) -> Row:
        heard = torch.tensor([[ids[TAG], *(hub[token] for token in source[: path[-1]])]])
        given = torch.tensor([[pad, *(hub[token] for token in inputs[1:])]])
        with torch.no_grad():
            logits = theirs(input_ids=heard, decoder_input_ids=given).logits[0, -1].double()
        logits[[pad, UNK]] = -torch.inf
        if len(inputs) == 1:
            logits[0] = -torch.inf
        chances = logits.softmax(-1)
        best = int(chances.argmax())
        return Row(back[best], float(chances[best]), np.zeros(0, np.float32))

    for policy in ("wait-k:2", "adaptive:rho_1=0.7,rho_k=0.1,k_max=6", "weigh:k=1,r=3,rho=0.6"):
        for pair in sentences(4, seed=17):
            words = ours.words(pair.source)
            source = [*(token for word in words for token in word.ids), EOS]
            steps = next(ours.translate_many([pair.source], policy)).writes
            tokens, path = naive.translate(parse(policy), source, run)
            assert ([step.token for step in steps], [step.read for step in steps]) == (tokens, path)


def test_text_may_be_cut_anywhere(ours: Translator) -> None:
    text = " ".join(pair.source for pair in sentences(3, seed=21))
    whole = [(step.token, step.read, step.text) for step in ours.stream([text])]
    assert [(step.token, step.read, step.text) for step in ours.stream(list(text))] == whole


def test_int8_is_close_and_streams_do_not_influence_each_other(marian: Path, ours: Translator, tmp_path: Path) -> None:
    small = Translator(convert(marian, tmp_path / "small", target="fra"), threads=1)
    lines = [pair.source for pair in sentences(60, seed=5)]
    exact, rounded = ([pieces(one, each) for each in one.translate_many(lines, "offline")] for one in (ours, small))
    assert sum(one == other for one, other in zip(exact, rounded, strict=True)) >= 40
    together = [pieces(small, one) for one in small.translate_many(lines[:12], "wait-k:3", batch=7)]
    assert together == [pieces(small, next(small.translate_many([line], "wait-k:3"))) for line in lines[:12]]


def test_the_folder_says_where_it_comes_from(converted: Path) -> None:
    folder = Folder.open(converted)
    assert not folder.model.causal
    assert (folder.about["licence"], folder.about["languages"]) == ("apache-2.0", "xx, yy")
    assert folder.about["origin"] == "toy-marian"
    assert "apache-2.0" in (converted / "MODEL_CARD.md").read_text(encoding="utf-8")


def test_post_evaluation_needs_capsules(ours: Translator) -> None:
    with pytest.raises(ModelError, match="no capsules"):
        ours.translate("ne", "pe:k=3")


def with_config(**changes: Any) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        config = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps(config | changes))

    return change


class Danger:
    """Would write a file when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize(
    ("spoil", "settings", "said"),
    [
        (with_config(model_type="bart"), {}, "type 'bart'; bethink converts 'marian'"),
        (with_config(model_type=None), {}, "holds a config.json without model_type"),
        (with_config(activation_function="gelu"), {}, "activation 'gelu'"),
        (with_config(normalize_before=True), {}, "normalize_before = True"),
        (with_config(decoder_ffn_dim=7), {}, "differ in ffn_dim"),
        (lambda path: (path / "source.spm").unlink(), {}, "there is no .*source.spm"),
        (lambda path: (path / "model.safetensors").unlink(), {}, "has no weights"),
        (lambda path: (path / "config.json").unlink(), {}, "has no config.json and no .npz"),
        (lambda _: None, {"target": None}, "choose one with --target: fra"),
        (lambda _: None, {"target": "fr"}, "Did you mean 'fra'"),
        (lambda _: None, {"source": "de"}, "--source is for M2M-100"),
        (lambda _: None, {"precision": "int4"}, "no precision named 'int4'"),
    ],
)
def test_what_cannot_be_converted_is_refused(
    spoil: Callable[[Path], Any], settings: dict[str, Any], said: str, marian: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(marian, folder)
    spoil(folder)
    with pytest.raises(BethinkError, match=said):
        convert(folder, tmp_path / "made", **{"target": "fra", **settings})
    assert not (tmp_path / "made").exists()


def test_an_existing_folder_is_not_overwritten(marian: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="already exists"):
        convert(marian, tmp_path, target="fra")


def test_a_pytorch_file_gives_the_same_model_and_is_never_run(marian: Path, converted: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(marian, folder)
    (folder / "model.safetensors").unlink()
    torch.save(MarianMTModel.from_pretrained(marian).state_dict(), folder / "pytorch_model.bin")
    made = convert(folder, tmp_path / "made", target="fra", precision="float32")
    assert Folder.open(made).fingerprint == Folder.open(converted).fingerprint
    torch.save({"lm_head.weight": Danger(tmp_path / "touched")}, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="as plain weights"):
        convert(folder, tmp_path / "again", target="fra")
    assert not (tmp_path / "touched").exists()


def test_the_command_converts_and_explains_its_mistakes(
    marian: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "made"
    assert main(["convert", str(marian), "--to", str(made), "--target", "fra"]) == 0
    assert capsys.readouterr().out == f"{made}\n"
    assert (
        main(["translate", "--model", str(made), "--policy", "wait-k:2", "--threads", "1", str(marian / "README.md")])
        == 0
    )
    assert main(["convert", str(tmp_path / "nowhere"), "--to", str(tmp_path / "other")]) == 2
    assert "give the folder of a downloaded model" in capsys.readouterr().err
