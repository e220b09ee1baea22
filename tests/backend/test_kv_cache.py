"""Whatever comes and goes, a stream finds in its cache what it has written."""

from __future__ import annotations

import mmap
import random
import sys
from pathlib import Path

import numpy as np
import pytest

from bethink.backend import kv_cache
from bethink.backend.kv_cache import Caches, KVCache

KINDS = {"one": (2, 3, 4), "two": (1, 2, 5)}


class Check:
    """A cache, and beside it what each stream has written, kept apart."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.cache = KVCache(KINDS)
        self.streams: list[tuple[Caches, dict[str, np.ndarray]]] = []
        self.stamp = 0.0

    def open(self) -> None:
        self.streams.append((self.cache.open(), {kind: np.zeros((0, k, h, e)) for kind, (k, h, e) in KINDS.items()}))

    def close(self) -> None:
        caches, _ = self.streams.pop(self.chance.randrange(len(self.streams)))
        self.cache.close(caches)

    def write(self) -> None:
        """Some streams get new positions, over some of their last ones."""
        kind, some = self.chance.choice(list(KINDS)), self.some()
        owners, places, values = [], [], []
        for n, (_, known) in enumerate(some):
            start = self.chance.randint(max(0, len(known[kind]) - 2), len(known[kind]))
            count = self.chance.randint(1, 9)
            known[kind] = np.concatenate([known[kind][:start], [self.fresh(kind) for _ in range(count)]])
            owners += [n] * count
            places += range(start, start + count)
            values += [each.reshape(-1) for each in known[kind][start:]]
        group = [caches for caches, _ in some]
        self.cache.write(kind, group, np.array(owners), np.array(places), np.array(values, dtype=np.float32))

    def show(self) -> None:
        some = self.some()
        group = [caches for caches, _ in some]
        first = self.cache.seat(group)
        assert sorted(caches.row for caches in group) == list(range(first, first + len(group)))
        for kind in KINDS:
            lengths = [len(known[kind]) for _, known in some]
            arrays = self.cache.show(kind, group, first, lengths)
            assert [array.shape[:3] for array in arrays.values()] == [(len(group), 1, KINDS[kind][1])] * KINDS[kind][0]
            assert all(array.flags.c_contiguous and np.isfinite(array).all() for array in arrays.values())
            for caches, known in some:
                for number in range(KINDS[kind][0]):
                    found = arrays[f"{kind}.{number}"][caches.row - first, 0, :, : len(known[kind])]
                    np.testing.assert_array_equal(found, known[kind][:, number].swapaxes(0, 1))

    def some(self) -> list[tuple[Caches, dict[str, np.ndarray]]]:
        return self.chance.sample(self.streams, self.chance.randint(1, len(self.streams)))

    def fresh(self, kind: str) -> np.ndarray:
        self.stamp += 1
        return np.full(KINDS[kind], self.stamp)


@pytest.mark.parametrize("rows", [2, 128])
@pytest.mark.parametrize("seed", range(5))
def test_streams_come_and_go(seed: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_cache, "ROWS", rows)
    check = Check(seed)
    for _ in range(300):
        if len(check.streams) < 2 or check.chance.random() < 0.1:
            check.open()
        elif check.chance.random() < 0.1:
            check.close()
        else:
            check.write()
            check.show()


def seated(count: int, length: int) -> tuple[KVCache, list[Caches]]:
    one = KVCache({"one": (1, 1, 1)})
    group = [one.open() for _ in range(count)]
    one.show("one", group, one.seat(group), [length] * count)
    return one, group


def test_who_stays_is_not_moved() -> None:
    one, group = seated(6, 10)
    rows = {caches: caches.row for caches in group}
    gone = next(caches for caches in group if caches.row == 2)
    one.close(gone)
    left = [caches for caches in group if caches is not gone]
    first = one.seat(left)
    assert sum(caches.row != rows[caches] for caches in left) == 1
    arrays = one.show("one", left, first, [10] * 5)
    again = one.show("one", left, one.seat(left[::-1]), [10] * 5)
    assert arrays["one.0"] is again["one.0"]


def test_two_groups_have_rows_of_their_own() -> None:
    one, group = seated(6, 10)
    others = [one.open() for _ in range(6)]
    one.seat(others)
    rows = [caches.row for caches in group]
    one.seat(group)
    assert [caches.row for caches in group] == rows
    assert not set(rows) & {caches.row for caches in others}


def test_a_window_is_no_longer_than_needed() -> None:
    one, group = seated(2, 90)
    for caches in group:
        one.close(caches)
    short = [one.open()]
    for length in (1, 2, 5, 9, 40):
        shown = one.show("one", short, one.seat(short), [length])["one.0"]
        assert length <= shown.shape[3] < length + 3 * kv_cache.STEP
        assert shown.shape[3] % kv_cache.STEP == 0


SIZES = {"one": (2, 2, 8)}
PER_POSITION = 2 * 2 * 8 * 4  # bytes


def grow(one: KVCache, group: list[Caches], lengths: dict[Caches, int]) -> None:
    first = one.seat(group)
    one.show("one", group, first, [lengths[caches] for caches in group])


@pytest.fixture
def no_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_cache, "SPARE", 0)


@pytest.mark.usefixtures("no_spare")
@pytest.mark.parametrize("seed", range(3))
def test_memory_follows_what_is_in_use(seed: int) -> None:
    """Sentences of 5 to 60 tokens come and go for a long time, sixteen at once, all of them growing by a token or two a round."""
    chance = random.Random(seed)
    one, running, wanted, factors = KVCache(SIZES), dict[Caches, int](), dict[Caches, int](), []
    for turn in range(1500):
        while len(running) < 16:
            caches = one.open()
            running[caches], wanted[caches] = 0, chance.randint(5, 60)
        for caches in running:
            running[caches] += chance.randint(1, 2)
        grow(one, list(running), running)
        if turn > 60:
            factors.append(one.held / (PER_POSITION * sum(running.values())))
        for caches in [caches for caches in running if running[caches] >= wanted[caches]]:
            one.close(caches)
            del running[caches]
    assert max(factors) < 12
    assert sum(factors) / len(factors) < 5


@pytest.mark.usefixtures("no_spare")
def test_a_crowd_keeps_for_some_sentences_what_a_long_one_needed() -> None:
    """However often its members come and go meanwhile: here that is eight sentences of each of forty speakers."""
    one = KVCache(SIZES)
    crowd = [one.open() for _ in range(40)]
    grow(one, crowd, dict.fromkeys(crowd, 80))
    for _ in range(8 * 40):
        one.close(crowd.pop(0))
        crowd.append(one.open())
        grow(one, crowd[::4], dict.fromkeys(crowd[::4], 8))
    assert one.held >= 40 * 80 * PER_POSITION


@pytest.mark.usefixtures("no_spare")
def test_memory_comes_back_after_a_crowd_and_a_long_sentence() -> None:
    """Not at once, but while a few go on with short sentences."""
    one = KVCache(SIZES)
    crowd = {one.open(): 10 for _ in range(100)} | {one.open(): 400}
    grow(one, list(crowd), crowd)
    assert one.held >= 101 * 400 * PER_POSITION
    for caches in crowd:
        one.close(caches)
    for _ in range(250):
        few = {one.open(): 4 for _ in range(3)}
        for length in (4, 12, 20):
            grow(one, list(few), dict.fromkeys(few, length))
        for caches in few:
            one.close(caches)
    assert one.held <= 3 * 3 * 24 * PER_POSITION


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is less room to grow")
def test_a_crowd_that_comes_in_finds_room_where_the_window_stands() -> None:
    one = KVCache(SIZES)
    crowd = {one.open(): 8 for _ in range(20)}
    grow(one, list(crowd), crowd)
    memory = one._memory["one"]
    crowd |= {one.open(): 8 for _ in range(20)}
    for length in range(8, 16):
        grow(one, list(crowd), dict.fromkeys(crowd, length))
    assert one._memory["one"] is memory
    assert 40 * 16 * PER_POSITION <= one.held < memory.nbytes


def resident() -> int:
    """Bytes of this process."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * mmap.PAGESIZE


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere pages are the system's affair")
def test_memory_is_real_where_it_is_written() -> None:
    memory, before = kv_cache._unused(2**22), resident()
    memory[:: 2**18] = 1.0  # once in every megabyte
    assert memory.nbytes >= 2**27
    assert resident() - before < 2**23


def test_without_addresses_to_spare_there_is_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_cache, "ADDRESSES", 2**50)
    memory = kv_cache._unused(100)
    assert 100 <= memory.size < 1000
    assert not memory.any()


def test_a_long_sentence_takes_its_length_with_it() -> None:
    one, (long, short) = seated(2, 4)
    one.show("one", [long, short], one.seat([long, short]), [400, 4])
    one.close(long)
    shown = one.show("one", [short], one.seat([short]), [8])["one.0"]
    assert shown.shape[3] < 8 + 3 * kv_cache.STEP


@pytest.mark.usefixtures("no_spare")
def test_rows_are_given_up_when_most_are_vacant() -> None:
    one = KVCache(SIZES)
    crowd = {one.open(): 10 for _ in range(100)}
    grow(one, list(crowd), crowd)
    *gone, last = sorted(crowd, key=lambda caches: caches.row)
    for caches in gone:
        one.close(caches)
    for _ in range(100):
        fresh = one.open()
        grow(one, [fresh, last], {fresh: 10, last: 10})
        one.close(fresh)
    assert last.row < 2
    assert one.held <= 4 * 4 * 20 * PER_POSITION


@pytest.mark.parametrize("seed", range(3))
def test_rows_do_not_come_and_go_while_streams_take_turns(seed: int) -> None:
    chance, one = random.Random(seed), KVCache(SIZES)
    crowd, sizes = [one.open() for _ in range(120)], []
    for _ in range(400):
        group = chance.sample(crowd, 50)
        grow(one, group, dict.fromkeys(group, 20))
        sizes.append(len(one._tenants))
        for caches in group[:5]:
            one.close(caches)
            crowd[crowd.index(caches)] = one.open()
    assert len(set(sizes[100:])) == 1


def test_rows_that_were_left_are_taken_first() -> None:
    one, group = seated(4, 10)
    for _ in range(300):
        one.close(next(caches for caches in group if caches.row == min(each.row for each in group)))
        group = [*(caches for caches in group if caches.row >= 0), one.open()]
        one.seat(group)
        assert sorted(caches.row for caches in group) == [0, 1, 2, 3]
