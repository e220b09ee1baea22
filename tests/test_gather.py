"""The script that gathers free text, on small copies of what it reads."""

from __future__ import annotations

import importlib
import io
import json
import struct
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def gather(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "runs"))
    return importlib.import_module("gather")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def catalogue(messages: dict[str, str]) -> bytes:
    """The bytes of a .mo file."""
    messages = {"": "Content-Type: text/plain; charset=UTF-8\n", **messages}
    texts = [text.encode() for text in (*messages, *messages.values())]
    start, table, data = 28 + 8 * len(texts), b"", b""
    for text in texts:
        table += struct.pack("<II", len(text), start + len(data))
        data += text + b"\0"
    return struct.pack("<7I", 0x950412DE, 0, len(messages), 28, 28 + 4 * len(texts), 0, start) + table + data


def test_every_kind_of_source(
    gather: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copies, corpora = tmp_path / "copies", tmp_path / "corpora"
    turns = [("customer", "Ich habe Hunger.", "I am hungry."), ("agent", "We have a table.", "Wir haben einen Tisch.")]
    chats = {"one": [{"speaker": who, "source": source, "target": target} for who, source, target in turns]}
    for name in ("train.json", "dev.json", "test1_corpus-with_gold_references.json"):
        write(copies / "BConTrasT" / name, json.dumps(chats))
    write(
        copies / "NTREX/NTREX-128/newstest2019-ref.deu.txt",
        "Das ist neu. Es ist gut.\nDas steht leider im Test heute.\n",
    )
    write(
        copies / "NTREX/NTREX-128/newstest2019-src.eng.txt", "This is new. It is good.\nAlas this stands in the test.\n"
    )
    edited = copies / "mlqe-pe/data/post-editing/train/en-de-train.tar.gz"
    edited.parent.mkdir(parents=True)
    with tarfile.open(edited, "w:gz") as archive:
        for name, text in (("train.pe", "Er kam , sah und siegte .\n"), ("train.src", "He came , saw and won .\n")):
            member = tarfile.TarInfo(f"en-de-train/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    page = "<html><h1>{}</h1><p>{} <em>{}</em></p></html>"
    write(copies / "fsfe-website/news/a.de.xhtml", page.format("Die Freiheit", "Sie ist seit\n2001", "wichtig."))
    write(copies / "fsfe-website/news/a.en.xhtml", page.format("The freedom", "It is, since\n2001,", "important."))
    write(copies / "fsfe-website/news/b.de.xhtml", "<p>Das ist nicht da.</p>")
    write(copies / "fsfe-website/news/b.en.xhtml", "<p>This is</p><p>longer.</p>")
    write(
        copies / "i18n/i18n/de/a.md",
        "---\ntitle: A\n---\n\n# Das [Haus](a.md)\n\n```\nx = 1\n```\n\n1. Es ist **groß**.\n2. Es ist alt.\n",
    )
    write(
        copies / "privacyguides.org/docs/a.md",
        "---\ntitle: A\n---\n\n# The [house](a.md)\n\n1. It is **big**.\n2. It is old.\n",
    )
    entries = "# ding\nHaus {n} | Häuser :: house | houses\nDas ist {n} alles. | Geh du nach Hause! :: That is all. | Go home you! [fam.]\n"
    write(copies / "trans-de-en/usr/share/trans/de-en", entries)
    messages = {
        "hero^You are the hero.": "Du bist der Held.",
        "Say $word to the man": "Sag $word zu dem Mann",
        "OK": "OK",
        "There is a text\nthat has three lines.\nIt ends here.": "Das ist ein Text,\nder zwei Zeilen hat.",
    }
    compiled = copies / "widelands-data/usr/locale/de/LC_MESSAGES/a.mo"
    compiled.parent.mkdir(parents=True)
    compiled.write_bytes(catalogue(messages))
    write(copies / "common-voice/server/data/de/read.txt", "Es regnet.\nEs regnet.\nDas steht leider im Test heute.\n")
    write(copies / "common-voice/server/data/de/europarl-v7-de.txt", "Herr Präsident!\n")
    write(tmp_path / "test.de", "Das steht leider im Test heute.\n")

    monkeypatch.setattr(
        "sys.argv", ["gather", str(copies), "--to", str(corpora), "--without", str(tmp_path / "test.de")]
    )
    gather.main()
    assert "ntrex: 2 of 3 pairs" in capsys.readouterr().out
    found = {path.name: path.read_text("utf-8").splitlines() for path in corpora.iterdir()}
    assert found == {
        "bcontrast.de": ["Ich habe Hunger.", "Wir haben einen Tisch."],
        "bcontrast.en": ["I am hungry.", "We have a table."],
        "ntrex.de": ["Das ist neu.", "Es ist gut."],
        "ntrex.en": ["This is new.", "It is good."],
        "mlqe-pe.de": ["Er kam, sah und siegte."],
        "mlqe-pe.en": ["He came, saw and won."],
        "fsfe.de": ["Die Freiheit", "Sie ist seit 2001 wichtig."],
        "fsfe.en": ["The freedom", "It is, since 2001, important."],
        "privacyguides.de": ["Das Haus", "Es ist groß.", "Es ist alt."],
        "privacyguides.en": ["The house", "It is big.", "It is old."],
        "ding-sentences.de": ["Das ist alles.", "Geh du nach Hause!"],
        "ding-sentences.en": ["That is all.", "Go home you!"],
        "game-widelands.de": ["Du bist der Held."],
        "game-widelands.en": ["You are the hero."],
        "mono.de": ["Es regnet."],
    }


def test_an_empty_folder_is_named(
    gather: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["gather", str(tmp_path), "--to", str(tmp_path / "out")])
    with pytest.raises(SystemExit):
        gather.main()
    assert "holds none of the folders BConTrasT, " in capsys.readouterr().err
