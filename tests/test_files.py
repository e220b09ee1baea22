"""Files and folders appear whole or not at all."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest

from bethink.errors import DataError
from bethink.files import new_folder, read_json, write_atomically


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bethink.files.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "folder"
    with new_folder(path) as temporary:
        (temporary / "file").write_text("1")
        assert not path.exists()
    assert (path / "file").read_text() == "1"
    with contextlib.suppress(ZeroDivisionError), new_folder(path) as temporary:
        (temporary / "file").write_text("2")
        raise ZeroDivisionError
    assert (path / "file").read_text() == "1"
    assert [each.name for each in path.parent.iterdir()] == ["folder"]


def test_what_cannot_be_written_is_told_by_its_own_name(tmp_path: Path) -> None:
    long = tmp_path / ("m" * 300)
    with pytest.raises(OSError, match="name too long") as caught:
        write_atomically(long, b"")
    assert caught.value.filename == str(long)
    with pytest.raises(OSError, match="name too long") as caught, new_folder(long):
        pass
    assert caught.value.filename == str(long)
    with pytest.raises(FileNotFoundError) as caught, new_folder(tmp_path / "m"):
        (tmp_path / "other").read_bytes()
    assert caught.value.filename == str(tmp_path / "other")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"\xff", b"[" * 100_000], ids=lambda data: repr(data[:4]))
def test_json_that_is_no_object_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "some.json"
    path.write_bytes(b'{"a": 1}')
    assert read_json(path, DataError) == {"a": 1}
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"{re.escape(str(path))} is damaged") as caught:
        read_json(path, DataError)
    assert "\n" not in str(caught.value)


def test_json_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(DataError, match=f"cannot read {re.escape(str(path))}"):
            read_json(path, DataError)
