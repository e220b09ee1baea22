"""One model and one generous server for all tests that need nothing special."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from bethink import toy
from bethink.serve.models import Model
from bethink.translator import Translator
from tests.serve.servers import CLONE, Running, running


@pytest.fixture(scope="session")
def model() -> Model:
    return Model.load(str(CLONE / "models" / "toy"), threads=1)


@pytest.fixture(scope="session")
def translator(model: Model) -> Translator:
    return model.translator


@pytest.fixture(scope="session")
def server(model: Model) -> Iterator[Running]:
    with running(model) as made:
        yield made


@pytest.fixture
def empty_rooms(server: Running) -> None:
    """Closes the rooms of other tests: one address may have few."""
    close_rooms(server)


def close_rooms(server: Running) -> None:
    rooms, done = server.service.open_rooms, threading.Event()

    def close() -> None:
        for room in list(rooms._rooms.values()):
            rooms.remove(room)
        done.set()

    server.server._loop.call_soon_threadsafe(close)
    assert done.wait(60)


@pytest.fixture(scope="session")
def speech() -> str:
    """A short talk in the toy language."""
    return " ".join(pair.source for pair in toy.sentences(6, seed=7))
