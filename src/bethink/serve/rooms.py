"""Rooms: one speaker, any number of listeners who see the same words at the same time.

A room has one track per model. A speaker's stream writes to a track; a listener is a number, the last step it has got, and costs
no model work. Rooms are in memory and, if a folder is given, in a log there, from which a restarted server goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

from bethink.serve.auth import network
from bethink.serve.limits import Limits
from bethink.serve.protocol import Refusal
from bethink.serve.room_log import SUFFIX, RoomLog, line_of, lock
from bethink.serve.track import Track

LOG = logging.getLogger("bethink.serve")
NAME = re.compile(r"[a-z0-9](?:-?[a-z0-9]){0,39}")
PER_ADDRESS = 10  # rooms that one address may have open
SWEEP = 60.0  # seconds between looks for rooms that have expired
VERSION = 1  # of the log


class Room:
    """A room's tracks, and the digests of its two tokens; nobody can read the tokens from the log."""

    def __init__(self, head: dict[str, Any], history: int, log: RoomLog | None, address: str = "") -> None:
        self.name: str = head["room"]
        self.tracks = {
            str(model): Track(str(model), functools.partial(self._record, at))
            for at, model in enumerate(head["models"])
        }
        self.address = address
        self.listeners = 0
        self.used = time.time()  # when something last happened
        self.opened = float(head["opened"])  # seconds since 1970
        self._digests = {who: bytes.fromhex(head[who]) for who in ("speaker", "listener")}
        self._history, self._size = history, 0
        self._log = log
        self._closed = False

    def allows(self, who: str, token: str) -> bool:
        """Whether this is the token of `speaker` or `listener`; compared in constant time."""
        return hmac.compare_digest(_digest(token), self._digests[who])

    def track(self, model: str) -> Track:
        if not model:
            return next(iter(self.tracks.values()))
        if model not in self.tracks:
            raise Refusal("model", f"this room has no model named {model[:80]!r}; it has {', '.join(self.tracks)}")
        return self.tracks[model]

    @property
    def now(self) -> int:
        """Milliseconds since the room was opened."""
        return max(0, round(1000 * (time.time() - self.opened)))

    async def force(self) -> None:
        if self._log is not None:
            await self._log.force()

    def close(self, *, delete: bool = False) -> None:
        self._closed = True
        for track in self.tracks.values():
            track.close()
        if self._log is not None:
            log, self._log = self._log, None
            log.delete() if delete else log.close()

    def restore(self, entries: Iterator[Any]) -> None:
        tracks = list(self.tracks.values())
        for entry in entries:
            tracks[entry["m"]].restore(entry)
        if self._log is not None:
            self._size = self._log.size
            self.used = self._log.path.stat().st_mtime

    def _record(self, track: int, entry: dict[str, Any]) -> None:
        if self._closed:  # nothing may be shown that the log has not
            raise Refusal("draining", "this server is stopping; connect again and resume")
        line = line_of({"m": track} | entry)
        if self._size + len(line) > self._history:
            raise Refusal("text", f"a room may have {self._history} bytes of history; open another one")
        if self._log is not None:
            self._log.append(line)
        self._size += len(line)
        self.used = time.time()


class Rooms:
    """All rooms of a server. `folder`: where their logs are kept, if anywhere; those that are there are read at once."""

    def __init__(self, limits: Limits | None = None, folder: Path | None = None) -> None:
        self.limits = limits or Limits()
        self._folder = folder
        self._rooms: dict[str, Room] = {}
        self._lock = lock(folder) if folder else None
        if folder is not None:
            self._load(folder)

    def __len__(self) -> int:
        return len(self._rooms)

    @property
    def listeners(self) -> int:
        return sum(room.listeners for room in self._rooms.values())

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Let rooms expire; at the end, close them."""
        sweeping = asyncio.create_task(self._sweep())
        try:
            yield
        finally:
            sweeping.cancel()
            self.close()

    def open(self, name: str, models: Sequence[str], address: str) -> tuple[Room, dict[str, str]]:
        """A new room and the keys of its speaker and its listeners."""
        self._expire()
        name = name or secrets.token_hex(4)
        if not NAME.fullmatch(name):
            told = "a room's name has up to 40 small letters, digits and single hyphens, as in spring-meeting"
            raise Refusal("invalid", told)
        if name in self._rooms:
            raise Refusal("taken", f"a room named {name} is open; choose another name")
        if len(self._rooms) >= self.limits.rooms:
            raise Refusal("full", f"all {self.limits.rooms} rooms of this server are taken; try again later")
        address = network(address)
        if sum(room.address == address for room in self._rooms.values()) >= PER_ADDRESS:
            raise Refusal("full", f"this address has {PER_ADDRESS} rooms open; close one of them first")
        tokens = {who: secrets.token_urlsafe(12) for who in ("speaker", "listener")}
        head = {"version": VERSION, "room": name, "opened": round(time.time(), 3), "models": list(models)}
        head |= {who: _digest(token).hex() for who, token in tokens.items()}
        log = None
        if self._folder is not None:
            try:
                log = RoomLog(self._folder / f"{name}{SUFFIX}", new=True)
            except FileExistsError:  # the log of another version, or a damaged one
                raise Refusal("taken", f"this server keeps another log for {name}; choose another name") from None
            log.append(line_of(head))
        self._rooms[name] = Room(head, self.limits.history, log, address)
        return self._rooms[name], {who: f"{name}.{token}" for who, token in tokens.items()}

    def find(self, who: str, name: str, token: str) -> Room:
        """The room, for its speaker or its listeners."""
        self._expire()
        room = self._rooms.get(name)
        if room is None or not room.allows(who, token):
            kept = self.limits.expiry / 3600
            raise Refusal("room", f"no room has this name and key; a room ends {kept:g} hours after its last word")
        return room

    def find_key(self, who: str, key: str) -> Room:
        name, _, token = key.partition(".")
        return self.find(who, name, token)

    def remove(self, room: Room) -> None:
        del self._rooms[room.name]
        room.close(delete=True)

    def close(self) -> None:
        """End the connections of all listeners; the logs stay."""
        for room in self._rooms.values():
            room.close()
        if self._lock is not None:
            self._lock.close()

    def _load(self, folder: Path) -> None:
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            log = RoomLog(path)
            try:
                entries = log.entries()
                head = next(entries)
                if head["version"] != VERSION or f"{head['room']}{SUFFIX}" != path.name:
                    raise ValueError("another version or name")
                room = Room(head, self.limits.history, log)
                room.restore(entries)
            except (StopIteration, KeyError, IndexError, TypeError, ValueError) as error:
                LOG.warning("%s is not the log of a room (%r); it is left alone", path, error)
                log.close()
                continue
            self._rooms[room.name] = room
        self._expire()

    def _expire(self) -> None:
        limit = time.time() - self.limits.expiry
        for room in [room for room in self._rooms.values() if room.used < limit]:
            self.remove(room)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP)
            self._expire()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
