"""Atomic writes (a file or folder appears only when it is complete and on disk); text and JSON, read with clear errors."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bethink.errors import BethinkError, DataError


def write_atomically(path: Path, data: bytes) -> None:
    """Write the whole file or nothing, even if the power fails."""
    with _with_name(path):
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.chmod(0o644)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def write(path: Path, content: str | bytes) -> None:
    """Write a file completely or not at all; missing folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content if isinstance(content, bytes) else content.encode())


def write_json(path: Path, values: dict[str, Any]) -> None:
    write_atomically(path, json.dumps(values, ensure_ascii=False, indent=2).encode() + b"\n")


def read_json(path: Path, error: type[BethinkError]) -> dict[str, Any]:
    """The JSON object in a file; raises `error` if the file is missing or holds something else."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as reason:
        raise error(f"cannot read {path}: {(reason.strerror or str(reason)).lower()}") from None
    except (ValueError, RecursionError) as reason:
        raise error(f"{path} is damaged: it is not JSON ({reason})") from None
    if not isinstance(values, dict):
        raise error(f"{path} is damaged: it holds a {type(values).__name__}, expected an object")
    return values


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    """The lines of a UTF-8 file, split at newlines only; empty lines are kept, so that line n is sentence n."""
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError as error:
        raise DataError(not_utf8(path, error)) from None
    if not text.strip():
        raise DataError(f"{path} is empty; expected one sentence per line")
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def not_utf8(name: str | os.PathLike[str], error: UnicodeDecodeError, line: int = 1) -> str:
    """The message for a text that is not UTF-8; the bytes of `error` begin in `line`. UTF-16 begins with 0xfe or 0xff."""
    line, byte = line + error.object[: error.start].count(b"\n"), error.object[error.start]
    return (
        f"{os.fspath(name)}, line {line} is not UTF-8 (it has a byte 0x{byte:02x}); "
        f"convert the text first, as in: iconv -f {'UTF-16' if byte >= 0xFE else 'LATIN1'} -t UTF-8"
    )


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder to fill: it is renamed to `path` when the block ends, or removed if the block fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _with_name(path):
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
        try:
            yield temporary
            temporary.chmod(0o755)
            _sync(temporary)
            old = temporary.with_suffix(".old")
            if path.exists():
                path.rename(old)
            temporary.rename(path)
            shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    _sync(path.parent)


@contextmanager
def _with_name(path: Path) -> Iterator[None]:
    """Replace the temporary name in an error by the name that the user gave."""
    try:
        yield
    except OSError as error:
        if f".{path.name}." not in str(error.filename):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
