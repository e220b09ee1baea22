"""The log of a room on disk: one JSON object per line, only ever appended to.

A line is written before listeners see what it says, so a room survives when the process is killed. It is forced to the disk
(fsync) when a sentence ends, before the speaker is told so; what a power failure can take is the open sentence, which the speaker
sends again anyway.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from bethink.errors import DataError, UsageError
from bethink.serve.protocol import dumps

LOG = logging.getLogger("bethink.serve")
SUFFIX = ".room.jsonl"


class RoomLog:
    """An open log. `size` counts its bytes."""

    def __init__(self, path: Path, *, new: bool = False) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | (os.O_CREAT | os.O_EXCL if new else 0), 0o600)
        self.size = os.fstat(self._file).st_size

    def append(self, line: bytes) -> None:
        os.write(self._file, line)
        self.size += len(line)

    def entries(self) -> Iterator[Any]:
        """What the log holds. A damaged end, as a power failure can leave, is cut off."""
        raw = self.path.read_bytes()
        good = 0
        for line in raw.splitlines(keepends=True):
            try:
                if not line.endswith(b"\n"):
                    raise ValueError("the line has no end")
                entry = json.loads(line)
                if not isinstance(entry, dict):
                    raise ValueError("the line is no object")
                yield entry
            except (ValueError, RecursionError):
                LOG.warning("%s: cut off after %d of %d bytes, which are damaged", self.path, good, len(raw))
                break
            good += len(line)
        os.ftruncate(self._file, good)
        self.size = good

    async def force(self) -> None:
        """Return when everything is on the disk; the event loop goes on meanwhile."""
        await asyncio.to_thread(os.fsync, self._file)

    def close(self) -> None:
        os.close(self._file)

    def delete(self) -> None:
        self.close()
        self.path.unlink(missing_ok=True)


def lock(folder: Path) -> IO[str]:
    """Make the folder if need be, and keep other processes out of it until the file is closed."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        raise UsageError("rooms cannot be kept on disk on this system; leave out --rooms") from None
    file = (folder / ".lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise DataError(f"another server keeps its rooms in {folder}; give each a folder of its own") from None
    return file


def line_of(entry: dict[str, Any]) -> bytes:
    return dumps(entry).encode() + b"\n"
