from __future__ import annotations

import errno
import gzip
import io
import json
import lzma
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from bethink import cli
from bethink.errors import BethinkError, DataError, UsageError
from bethink.model.config import LONGEST, LONGEST_PROMPT
from bethink.text import EOS, PAD, Segmenter, SentencePieces, Word, load_vocabulary
from bethink.train import corpora, prepare
from bethink.train.recipe import Recipe, available

SOURCE = ["das ist ein Haus .", "wir gehen nach Hause .", "", "er sieht das Haus ."]
TARGET = ["this is a house .", "we go home .", "nothing", "he sees the house ."]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    write(folder, "train", SOURCE, TARGET)
    write(folder, "dev", SOURCE[:2], TARGET[:2])
    return folder


def write(folder: Path, name: str, source: list[str], target: list[str]) -> None:
    (folder / f"{name}.de").write_text("\n".join(source) + "\n")
    (folder / f"{name}.en").write_text("\n".join(target) + "\n")


FILES = ("data.toy=0", "data.source=de", "data.target=en", "data.train=['train']", "data.dev=['dev']")


def recipe(*changes: str) -> Recipe:
    return Recipe.load("tiny", [*FILES, *changes])


def run(corpus: Path, *changes: str) -> Path:
    return prepare.prepare(recipe(*changes), corpus, corpus.parent / "out", Console(file=io.StringIO()))


def counts(folder: Path) -> dict[str, int]:
    return json.loads((folder / "manifest.json").read_text())["counts"]


def decoded(folder: Path, side: str) -> list[str]:
    about = json.loads((folder / "manifest.json").read_text())[side]
    vocabulary = load_vocabulary(folder / about["file"], about["kind"])
    ids, offsets = (np.load(folder / f"train.{side}.{name}.npy") for name in ("ids", "offsets"))
    assert ids.dtype == np.uint16
    sentences = [ids[start:end].tolist() for start, end in pairwise(offsets)]
    assert all(sentence[-1] == EOS and PAD not in sentence for sentence in sentences)
    return [" ".join(vocabulary.piece(token) for token in sentence[:-1]) for sentence in sentences]


def test_pairs_come_through_in_order_without_the_empty_ones(corpus: Path) -> None:
    folder = run(corpus)
    assert decoded(folder, "source") == [line for line in SOURCE if line]
    assert decoded(folder, "target") == [line for line in TARGET if line != "nothing"]
    assert counts(folder)["train pairs dropped: empty"] == 1
    assert (folder / "dev.source.txt").read_text().splitlines() == SOURCE[:2]


def test_compressed_files_give_the_same(corpus: Path) -> None:
    plain = decoded(run(corpus), "source")
    for name, pack in (("train.de", gzip.compress), ("train.en", lzma.compress)):
        path = corpus / name
        path.with_name(name + {gzip.compress: ".gz", lzma.compress: ".xz"}[pack]).write_bytes(pack(path.read_bytes()))
        path.unlink()
    other = prepare.prepare(recipe(), corpus, corpus.parent / "again", Console(file=io.StringIO()))
    assert decoded(other, "source") == plain


def test_sentencepieces_are_what_the_stream_will_see(tmp_path: Path, small: Callable[..., Recipe]) -> None:
    made = small("text.kind=sentencepiece", "text.size=100", "text.joint=true", "model.share=all")
    folder = prepare.prepare(made, tmp_path, tmp_path / "out", Console(file=io.StringIO()))
    about = json.loads((folder / "manifest.json").read_text())
    assert about["source"]["size"] == about["target"]["size"] == 100
    vocabulary = load_vocabulary(folder / about["source"]["file"], "sentencepiece")
    line = (folder / "dev.source.txt").read_text().splitlines()[0]
    end = int(np.load(folder / "dev.source.offsets.npy")[1])
    expected = [token for word in line.split() for token in vocabulary.encode(word)]
    assert np.load(folder / "dev.source.ids.npy")[:end].tolist() == [*expected, EOS]


def test_a_line_is_packed_as_the_stream_reads_it(pieces: SentencePieces, lines: list[str]) -> None:
    packer = prepare.Packer(pieces)
    for line in lines[:50]:
        segmenter = Segmenter(pieces)
        words = [*segmenter.feed(line), *segmenter.finish()]
        assert packer.encode(line) == [*(token for word in words if isinstance(word, Word) for token in word.ids), EOS]


def test_filters_drop_and_count(corpus: Path) -> None:
    write(corpus, "train", ["a b c d e f g", "a", "a b", "a b"], ["a b", "a b c d", "x y", "x y"])
    folder = run(corpus, "data.longest=6", "data.ratio=2", "data.unique=true")
    assert decoded(folder, "source") == ["a b"]
    found = counts(folder)
    assert found["train pairs dropped: too long"] == 1
    assert found["train pairs dropped: lengths too different"] == 1
    assert found["train pairs dropped: seen before"] == 1


def test_some_sources_are_made_as_speech_is_written_down(corpus: Path) -> None:
    many = [f"Das Haus Nummer {n}, ja!" for n in range(400)]
    write(corpus, "train", many, many)
    folder = run(corpus, "data.asr_like=0.25")
    source, target = decoded(folder, "source"), decoded(folder, "target")
    said, heard = (" ".join(lines).replace(",", "").replace("!", "").lower().split() for lines in (many, source))
    rest = iter(heard)
    assert all(word in rest for word in said), "every word is heard, in order"
    assert len(said) < len(heard) < 1.02 * len(said), "a few words are hesitations"
    assert set(heard) - set(said) <= {"äh", "ähm", "hm", "also"}
    assert " ".join(target) == " ".join(many), "what is said of it stays as it is, and in order"
    rough = [pair for pair in zip(source, target, strict=True) if pair[0] != pair[1]]
    assert 0.15 * len(source) < len(rough) < 0.35 * len(source)
    assert any(line.islower() and "," in line for line, _ in rough)
    assert any("," not in line and not line.islower() for line, _ in rough)
    assert {line.count("nummer") for line, _ in rough if line.islower()} == {1, 2, 3, 6}


def test_of_a_corpus_some_lines_can_be_drawn(corpus: Path) -> None:
    many = [f"Haus {n}" for n in range(40)]
    write(corpus, "train", many, many)
    folder = run(corpus, "data.most=['train 10']")
    drawn = decoded(folder, "source")
    assert drawn == decoded(folder, "target")
    assert len(drawn) == len(set(drawn)) == 10
    assert drawn == sorted(drawn, key=many.index) != many[:10], "at random, in their order"


def test_what_is_made_rough_is_never_half_a_pair(corpus: Path) -> None:
    write(corpus, "train", ["...", "", "Ja!", "Nein."] * 50, ["...", "Well?", "Yes!", ""] * 50)
    folder = run(corpus, "data.asr_like=1")
    assert counts(folder)["train pairs dropped: empty"] == 100
    assert not any(
        "Well" in line or "nein" in line.lower() for side in ("source", "target") for line in decoded(folder, side)
    )


def test_without_it_every_source_stays_as_it_is(corpus: Path) -> None:
    assert decoded(run(corpus), "source") == [line for line in SOURCE if line]


def test_a_setting_that_came_later_had_its_default(corpus: Path) -> None:
    folder = run(corpus)
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["settings"]["text"]["sample"], manifest["settings"]["data"]["asr_like"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert run(corpus) == folder


def test_the_last_stop_of_a_line_is_a_token(corpus: Path) -> None:
    lines = {
        "es ist usw.": "es ist usw .",
        "am 10.": "am 10 .",
        "z.B. Dr. Meier": "z.B. Dr. Meier",
        "und so ...": "und so ...",
        "er kam .": "er kam .",
    }
    write(corpus, "train", list(lines), list(lines))
    assert decoded(run(corpus, "text.tokenise=moses"), "source") == list(lines.values())


def test_lower_case_and_moses(corpus: Path) -> None:
    write(corpus, "train", ["Das Haus, ja."], ["The house, yes."])
    assert decoded(run(corpus, "text.tokenise=moses", "text.lower=true"), "target") == ["the house , yes ."]


def test_text_that_is_tokenised_already_stays_as_it_is(corpus: Path) -> None:
    tokenised = ["i 'm sure it 's late , isn 't it ?", "they &apos;ve said : &quot; no &quot; -- we 'll see"]
    raw = ["I'm sure it's late, isn't it?", 'They’ve said: "no" -- we\'ll see']
    write(corpus, "train", [*tokenised, *raw], [*tokenised, *raw])
    lines = decoded(run(corpus, "data.source=en", "text.tokenise=moses", "text.lower=true"), "target")
    assert lines[:2] == [tokenised[0], "they 've said : \" no \" -- we 'll see"]
    assert lines[2:] == lines[:2]


def test_vocabularies_are_taken_over_from_data_and_from_models(corpus: Path) -> None:
    first, console = run(corpus), Console(file=io.StringIO())
    write(corpus, "train", ["das Haus und mehr"], ["the house and more"])
    out = corpus.parent / "more"
    prepare.prepare(recipe(), corpus, out, console, like=first)
    assert (out / "source.txt").read_bytes() == (first / "source.txt").read_bytes()
    assert decoded(out, "source") == ["das Haus ⁇ ⁇"]
    prepare.prepare(recipe(), corpus, out, console, like=first)  # is prepared already
    with pytest.raises(DataError, match=r"vocabularies\.source"):
        prepare.prepare(recipe(), corpus, out, console, like=Path("toy"))
    other = prepare.prepare(recipe(), corpus, corpus.parent / "toy", console, like=Path("toy"))
    assert json.loads((other / "manifest.json").read_text())["source"]["size"] > 100


def test_many_lines_are_tokenised_in_processes(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "FEW", 1)
    assert decoded(run(corpus, "text.tokenise=moses"), "source") == [line for line in SOURCE if line]


def test_a_second_time_says_so_and_other_settings_are_refused(corpus: Path) -> None:
    folder = run(corpus)
    before = (folder / "manifest.json").stat().st_mtime_ns
    said = io.StringIO()
    prepare.prepare(recipe(), corpus, folder, Console(file=said, width=500))
    assert "prepared already" in said.getvalue()
    assert (folder / "manifest.json").stat().st_mtime_ns == before
    with pytest.raises(DataError, match=r"text.least: 1 → 2"):
        run(corpus, "text.least=2")
    write(corpus, "dev", SOURCE[1:2], TARGET[1:2])
    with pytest.raises(DataError, match=r"dev\.de"):
        run(corpus)


def refused(corpus: Path, message: str, *changes: str) -> None:
    before = sorted(corpus.parent.iterdir())
    with pytest.raises(BethinkError, match=message):
        run(corpus, *changes)
    assert sorted(corpus.parent.iterdir()) == before, "something was left behind"


def test_missing_files_are_all_named_with_their_origin(corpus: Path) -> None:
    (corpus / "train.de").unlink()
    (corpus / "dev.en").unlink()
    refused(corpus, r"train\.de, dev\.en .*they come from: the library", "data.origin=the library")


def test_unequal_files_are_refused(corpus: Path) -> None:
    (corpus / "train.en").write_text("one\ntwo\n")
    refused(corpus, r"train\.de has 4 lines but .*train\.en has 2")


def test_a_corpus_that_is_not_the_published_one_is_refused(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong, right = "data.published=['train 4', 'dev 3']", "data.published=['train 4', 'dev 2']"
    refused(corpus, "dev.de and dev.en have 2 lines, but the published ones have 3", wrong)
    refused(corpus, "train.de and train.en have 4 lines, but .* have 1,000", "data.published=['train 1000']")
    command = ["prepare", "tiny", *FILES, "--data", str(corpus), "--out", str(corpus.parent / "out")]
    assert cli.main([*command, wrong]) == 1
    [said] = capsys.readouterr().err.splitlines()
    assert said.endswith("fetch those, or use these all the same with data.published=[]")
    assert cli.main([*command, right]) == 0, "empty lines count"


def test_what_is_known_of_the_published_corpora_changes_nothing_in_the_folder(corpus: Path) -> None:
    folder = run(corpus, "data.published=['train 4']")
    assert run(corpus) == run(corpus, "data.published=['dev 2']") == folder
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["settings"]["data"]["published"]  # as in a folder from before there was such a setting
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert run(corpus, "data.published=['train 4']") == folder


@pytest.mark.parametrize(
    "entry", ["train", "train 4.5", "train four", "train -4", " 4", "4", "", "train 4\\n", "train " + "4" * 5000]
)
def test_a_published_corpus_is_a_name_and_a_number(entry: str) -> None:
    with pytest.raises(UsageError, match="data.published has .* but must have names with numbers, as in 'train 1000'"):
        recipe(f'data.published=["{entry}"]')


@pytest.mark.parametrize("name", available())
def test_what_is_published_are_corpora_of_the_recipe(name: str) -> None:
    data = Recipe.load(name).data
    assert data.lines("published").keys() <= {*data.train, *data.dev, *data.test}


def test_other_corpora_than_the_published_ones_are_not_counted(corpus: Path) -> None:
    assert counts(run(corpus, "data.published=['europarl 1920209', 'dev 2']"))["train pairs"] == 3


def test_bad_utf8_is_named_by_file_and_line(corpus: Path) -> None:
    (corpus / "train.en").write_bytes(b"one\ntwo\nthr\xe9e\nfour\n")
    refused(corpus, r"train\.en, line 3 is not UTF-8")


def test_a_damaged_archive_is_named(corpus: Path) -> None:
    (corpus / "train.en.xz").write_bytes(lzma.compress((corpus / "train.en").read_bytes())[:-20])
    (corpus / "train.en").unlink()
    refused(corpus, r"train\.en\.xz is damaged")


def test_nothing_left_after_the_filters(corpus: Path) -> None:
    refused(corpus, "no pair is left .*too long: 3", "data.longest=1")
    write(corpus, "dev", [""], [""])
    refused(corpus, "no text is left .*dev pairs dropped: empty: 1")


def test_dev_pairs_that_no_model_can_take_are_dropped(corpus: Path) -> None:
    most = LONGEST - LONGEST_PROMPT
    write(corpus, "dev", ["a " * (most - 1), "a " * most, SOURCE[0]], [TARGET[0]] * 3)
    folder = run(corpus, "data.longest=9")
    found = counts(folder)
    assert (found["dev pairs"], found["dev pairs dropped: too long"]) == (2, 1)
    assert int(np.diff(np.load(folder / "dev.source.offsets.npy")).max()) == most


def test_no_dev_pair_left(corpus: Path) -> None:
    write(corpus, "dev", ["a " * LONGEST], ["a"])
    refused(corpus, "no pair is left .*dev pairs dropped: too long: 1")


@pytest.mark.parametrize("content", ["[]", "{}", '{"settings": 3, "inputs": {}}'])
def test_a_manifest_that_is_none_is_left_alone(corpus: Path, content: str) -> None:
    out = corpus.parent / "out"
    out.mkdir()
    (out / "manifest.json").write_text(content)
    with pytest.raises(DataError, match="holds no prepared data"):
        run(corpus)
    assert (out / "manifest.json").read_text() == content


def test_a_full_disk_leaves_nothing_behind(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    refused(corpus, "No space left on device")


def test_a_folder_that_is_something_else_is_left_alone(corpus: Path) -> None:
    out = corpus.parent / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("all my work")
    with pytest.raises(DataError, match="holds no prepared data"):
        run(corpus)
    assert (out / "thesis.txt").exists()
