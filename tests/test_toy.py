from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from bethink import toy

VERBS = set(toy.LEXICON.verbs)


@pytest.fixture(scope="module")
def pairs() -> list[toy.AlignedPair]:
    return list(toy.sentences(2000, seed=7))


def test_a_seed_chooses_the_sentences() -> None:
    once, again, other = (list(toy.sentences(50, seed)) for seed in (1, 1, 2))
    assert once == again
    assert once != other


def test_sentences_have_the_promised_length_and_end(pairs: list[toy.AlignedPair]) -> None:
    lengths = {len(pair.source.split()) for pair in pairs}
    assert min(lengths) >= toy.SHORTEST
    assert max(lengths) <= toy.LONGEST
    assert all(pair.source.endswith(" .") and pair.target.endswith(" .") for pair in pairs)


def test_word_classes_share_no_word() -> None:
    lexicon = toy.LEXICON
    classes = [
        lexicon.nouns,
        lexicon.adjectives,
        lexicon.verbs,
        lexicon.adverbs,
        toy.DETERMINERS,
        {"wa", "ka", "demu", ",", "."},
    ]
    words = [word for words in classes for word in words]
    assert len(words) == len(set(words))
    assert 150 <= len(words) <= 300


def test_every_target_word_is_aligned_once_and_only_particles_are_left_over(pairs: list[toy.AlignedPair]) -> None:
    for pair in pairs[:300]:
        source, target = pair.source.split(), pair.target.split()
        assert [t for _, t in pair.alignment] == list(range(len(target)))
        aligned = {s for s, _ in pair.alignment}
        assert {source[s] for s in range(len(source)) if s not in aligned} <= {"wa"}


def test_the_whole_source_decides_the_target(pairs: list[toy.AlignedPair]) -> None:
    """A word has at most two forms, for the two numbers; adverbs may be two words."""
    forms: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for pair in pairs:
        source, target = pair.source.split(), pair.target.split()
        by_word: dict[int, list[str]] = defaultdict(list)
        for s, t in pair.alignment:
            by_word[s].append(target[t])
        for s, words in by_word.items():
            forms[source[s]].add(tuple(words))
    assert all(len(found) <= 2 for found in forms.values())
    assert all(len(forms[word]) == 2 for word in toy.LEXICON.nouns)
    assert {len(words) for word in toy.LEXICON.adverbs for words in forms[word]} == {1, 2}


def test_only_verbs_move_and_not_all_of_them(pairs: list[toy.AlignedPair]) -> None:
    lags: Counter[int] = Counter()
    for pair in pairs:
        source = pair.source.split()
        lags.update(s - t for s, t in pair.alignment if source[s] in VERBS)
        others = [s for s, _ in pair.alignment if source[s] not in VERBS]
        assert others == sorted(others)
    assert sum(count for lag, count in lags.items() if lag <= 1) / lags.total() > 0.3
    assert sum(count for lag, count in lags.items() if lag >= 3) / lags.total() > 0.3


def test_nothing_before_a_verb_gives_it_away(pairs: list[toy.AlignedPair]) -> None:
    """The best guess of a verb from the subject's noun is hardly better than chance."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for pair in pairs:
        source = pair.source.split()
        for before, word in pairwise(source):
            if word in VERBS:
                seen[before][word] += 1
    all_verbs = sum((counts for counts in seen.values()), Counter())
    assert set(all_verbs) == VERBS
    assert max(all_verbs.values()) / all_verbs.total() < 2 / len(VERBS)
