"""Files and folders appear whole or not at all."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from bethink.files import new_folder, write_atomically


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
