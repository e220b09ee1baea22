"""Steps are told by source word, with what came before counted on, and late words counted in little memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bethink.policy import Action, WaitK
from bethink.serve.ledger import Ledger
from bethink.serve.protocol import LiveStep, Mark
from bethink.serve.teller import EDGES, Lags, Teller
from bethink.text import EOS, SentencePieces
from bethink.trace import Step

READ, WRITE = Action.READ, Action.WRITE


def told(pieces: SentencePieces, steps: list[Step], mark: Mark | None = None) -> tuple[Teller, list[LiveStep]]:
    """One sentence of two words, the first of two tokens, the second of one."""
    mark = mark or Mark("m@1", "wait-k:k=3,rate=1.0")
    ledger = Ledger(pieces, WaitK(), mark.offset)
    ledger.hear("hausbaum ", 1.0)
    ledger.hear("läuft", 2.0)
    ledger.finish(3.0)
    while ledger.take():
        pass
    teller = Teller(ledger, mark, began=0.5)
    return teller, [teller.tell(step, now=3.5) for step in steps]


STEPS = [
    Step(READ, 5, 1, 1, 0, text="hausbaum"),
    Step(READ, 6, 2, 1, 0),
    Step(WRITE, 7, 2, 1, 1, confidence=0.25, evidence=(0, 1), degrees=(0.1, 0.2), gain=(0.3, 0.4), text="treehouse"),
    Step(READ, 8, 3, 2, 1, text="läuft"),
    Step(READ, EOS, 4, 2, 1),
    Step(WRITE, 9, 4, 2, 2, confidence=0.5, degrees=(0.4, 0.5, 0.1, 0.0), text=" runs"),
    Step(WRITE, EOS, 4, 2, 3, confidence=0.9, degrees=(0.4, 0.505, 0.6, 0.2)),
]


def test_gain_and_evidence_are_told_by_word(pieces: SentencePieces) -> None:
    _, live = told(pieces, STEPS)
    assert live[2].gain == ((0, 0.4),)  # the larger of its two tokens
    assert live[2].evidence == (0,)
    assert live[6].settled == ((1, 0.5), (2, 0.2))  # the word before, and the end, which is one past the words
    assert not any(step.settled for step in live[:6])


def test_a_word_written_without_looking_ahead_is_explained_by_the_next_one(pieces: SentencePieces) -> None:
    """As with a policy that asks how sure the model is: what a word translated shows in the degrees before the word after it."""
    weighed = [
        *STEPS[:2],
        Step(WRITE, 7, 2, 1, 1, confidence=0.95, degrees=(0.1, 0.0), text="tree"),
        Step(WRITE, 8, 2, 1, 2, confidence=0.31, degrees=(0.4, 0.65), text="house"),
        *STEPS[3:5],
        Step(WRITE, 9, 4, 2, 3, confidence=0.5, degrees=(0.395, 0.7, 0.9, 0.8), text=" runs"),
        Step(WRITE, EOS, 4, 2, 4, confidence=0.9, degrees=(0.4, 0.705, 0.95, 0.8)),
    ]
    _, live = told(pieces, weighed)
    assert not any(step.gain or step.evidence for step in live)
    assert [step.settled for step in live] == [
        (),
        (),
        (),  # nothing was written before it
        ((0, 0.65),),  # of "tree": the larger rise of the two tokens of "hausbaum"
        (),
        (),
        ((0, 0.05),),  # of "house", though words were heard in between; their degrees are new, not risen
        ((1, 0.05),),  # of " runs"; a rise of half a hundredth says nothing
    ]


def test_steps_are_numbered_placed_and_timed(pieces: SentencePieces) -> None:
    _, live = told(pieces, STEPS, Mark("m@1", "offline", sentence=4, step=30, offset=100))
    assert [step.n for step in live] == list(range(30, 37))
    assert {step.sentence for step in live} == {4}
    assert [step.offset for step in live if step.action is READ] == [109, 109, 114, 114]
    assert [step.lag for step in live] == [
        2500,
        2500,
        2500,
        500,
        500,
        500,
        500,
    ]  # the last word is complete only with the end
    assert {step.at for step in live} == {3000}
    assert [step.end for step in live] == [False, False, False, False, True, False, True]
    assert len({step.check for step in live}) == len(live)


def test_a_sentence_is_summed_up(pieces: SentencePieces) -> None:
    teller, _ = told(pieces, STEPS)
    message = teller.close_sentence()
    assert (message["words"], message["written"]) == (2, 2)
    assert message["latency"]["AL"] == 1.0
    assert message["resume"] == {
        "model": "m@1",
        "policy": "wait-k:k=3,rate=1.0",
        "sentence": 1,
        "step": 7,
        "offset": 14,
        "spoken": True,
    }
    final = teller.final(now=4.5)
    assert (final["steps"], final["sentences"], final["words"], final["written"], final["seconds"]) == (7, 1, 2, 2, 4.0)
    assert final["latency"] == message["latency"]


def test_a_text_that_goes_on_begins_with_a_space_once(pieces: SentencePieces) -> None:
    _, fresh = told(pieces, STEPS)
    _, again = told(pieces, STEPS, Mark("m@1", "offline", 1, 9, 20, spoken=True))
    assert [step.text for step in fresh if step.action is WRITE] == ["treehouse", " runs", ""]
    assert [step.text for step in again if step.action is WRITE] == [" treehouse", " runs", ""]


@given(st.lists(st.integers(0, 70_000), min_size=1, max_size=200))
def test_lags(lags: list[int]) -> None:
    kept = Lags()
    for lag in lags:
        kept.add(lag)
    summary = kept.to_message()
    ordered = sorted(lags)
    assert summary["max"] == ordered[-1]
    assert abs(summary["mean"] - sum(lags) / len(lags)) < 0.1
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        exact = ordered[max(0, -(-int(share * 100) * len(lags) // 100) - 1)]
        edge = next((edge for edge in EDGES if edge >= exact), ordered[-1])
        assert exact <= summary[name] <= edge


def test_no_lags() -> None:
    assert Lags().to_message() == {}
