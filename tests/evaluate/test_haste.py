"""Words shown before the source words they translate, by hand-made links and by the aligner."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bethink.cli import main
from bethink.errors import DataError
from bethink.evaluate import Instance, haste, load_results, write_results
from bethink.evaluate.links import align, parse_links
from bethink.evaluate.run import Result
from tests.evaluate.made import write_log


def said(prediction: str, delays: tuple[float, ...], reference: str = "x y z", index: int = 0) -> Instance:
    return Instance(index, "a b c d", reference, prediction, 4, delays)


def test_a_word_shown_before_its_source_is_a_hallucination_and_anticipated() -> None:
    """Word 1 translates a, which was read; word 2 translates d, which was not; word 3 b and d; word 4 nothing."""
    found = haste.measure([said("k l m n", (1, 2, 3, 3))], [((0, 0), (3, 1), (1, 2), (3, 2))])
    assert found.pop("invented") == 50.0
    assert found == {"hallucination": 50.0, "unaligned": 25.0, "anticipated": 50.0, "anticipation": (2 + 1) / 4}


def test_what_has_read_everything_is_never_hasty() -> None:
    found = haste.measure([said("k l", (4, 4)), said("", ())], [((3, 0),), ()])
    assert found.pop("invented") == 50.0
    assert found == {"hallucination": 50.0, "unaligned": 50.0, "anticipated": 0.0, "anticipation": 0.0}
    assert haste.measure([said("", ())], [()]) == {}


def test_content_words_are_counted_apart() -> None:
    """Of k, l, m and a comma, l is frequent, and a comma is no word; k translates what was read, m nothing."""
    found = haste.measure([said("k, l m ,", (1, 1, 1, 1))], [((0, 0),)], {"l"})
    assert found["invented"] == 50.0
    assert "invented" not in haste.measure([said("k", (1,))], [((0, 0),)], {"k"})


def test_content_words_are_lost_that_reference_and_whole_sentence_translate() -> None:
    """a and b stand in both, c only in the reference, d in neither; b is frequent in the second count."""
    log = [said("k", (1,))]
    asked, whole = [((0, 0), (1, 1), (2, 2))], [((0, 0), (1, 0))]
    assert haste.lost(log, [((0, 0),)], asked, whole, set()) == {"content_lost": 50.0, "of_content_lost": 2.0}
    assert haste.lost(log, [((0, 0),)], asked, whole, {"b"}) == {"content_lost": 0.0, "of_content_lost": 1.0}
    assert haste.lost(log, [()], asked, whole, {"a", "b"}) == {}


def test_frequent_words_are_no_content_words() -> None:
    lines = [f"The w{n}, the" for n in range(150)]
    assert len(haste.most_frequent(lines)) == haste.FREQUENT
    assert "the" in haste.most_frequent(lines)


def test_under_wait_k_anticipated_is_the_k_anticipation_rate() -> None:
    """d_j = j + k - 1, so a link to a word that was not read is one with i >= j + k."""
    links = parse_links("4-1 3-2 3-3", 4, 3)
    for k in (1, 3):
        delays = tuple(float(j + k - 1) for j in (1, 2, 3))
        log = [said("x y z", delays)]
        assert (
            haste.measure(log, [links])["anticipated"]
            == haste.reference_anticipation(log, [links])[f"reference, k={k}"]
        )


def test_links_of_more_words_than_delays_are_refused() -> None:
    with pytest.raises(DataError, match="sentence 7 has 1 delays for more words"):
        haste.measure([said("k l", (1,), index=7)], [((0, 1),)])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Sixty sentences of a language with one word for each word, the last word first; two words read before the first is shown."""
    names = "eins zwei drei vier fünf sechs sieben acht".split()
    sources = [[names[(n * step + step) % 8] for n in range(4)] for step in (1, 3, 5, 7)] * 15
    targets = [[word.upper() for word in reversed(source)] for source in sources]
    path = tmp_path / "logs" / "wait" / "instances.log"
    write_log(
        path,
        [
            Instance(n, " ".join(source), " ".join(target), " ".join(target) + ".", 4, (2, 3, 4, 4))
            for n, (source, target) in enumerate(zip(sources, targets, strict=True))
        ],
    )
    return path


def test_the_aligner_learns_from_all_pairs() -> None:
    pytest.importorskip("eflomal")
    pairs = [(f"{a} {b}", f"{b.upper()}, {a.upper()}!") for a in "pqrstuvw" for b in "pqrstuvw" if a != b]
    found = align([*pairs, ("", "X"), ("p", " ")])
    assert set(found) == set(pairs), "empty sentences have no links"
    right = sum({(0, 1), (1, 0)} <= set(found[pair]) for pair in pairs)
    assert right > 0.8 * len(pairs)


def test_haste_of_a_log(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("eflomal")
    gold = tmp_path / "gold"
    gold.write_text("1-4 2-3 3-2 4p1\n" * 60)
    argv = ["evaluate", "--rescore", str(log), "--haste", "--alignments", str(gold), "--out", str(tmp_path / "out")]
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert "k-anticipation of the reference: k=1: 50.0 %, k=3: 25.0 %, k=5: 0.0 %" in " ".join(out.split())
    [result] = load_results(tmp_path / "out")
    # the first word, which comes from the last; the aligner draws at random
    assert 5 < result.scores.haste["hallucination"] < 40
    assert result.scores.haste["reference, k=3"] == 25
    assert load_results(tmp_path / "out") == [result]


def test_results_from_before_haste_was_measured_can_be_read(log: Path, tmp_path: Path) -> None:
    from bethink.evaluate import rescore

    write_results(tmp_path / "results.json", [Result("m", "p", rescore(log), "x")])
    record = json.loads((tmp_path / "results.json").read_text())
    del record["results"][0]["haste"], record["results"][0]["longform"]
    (tmp_path / "results.json").write_text(json.dumps(record))
    assert load_results(tmp_path)[0].scores.haste == {}


def test_mistakes_are_named(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gold").write_text("1-1\n")
    for argv, code, message in (
        (["--alignments", "f"], 2, "--alignments belongs to --haste; add that"),
        (["--align-text", "f", "g"], 2, "--align-text belongs to --haste; add that"),
        (["--haste", "--longform"], 2, "leave out --longform"),
        (["--haste", "--alignments", str(tmp_path / "gold")], 1, "has 1 lines but the log has 60 sentences"),
    ):
        assert main(["evaluate", "--rescore", str(log), *argv]) == code
        assert message in capsys.readouterr().err
