"""A thousand speakers on one engine, all in the middle of a sentence at once: each gets exactly the steps it gets alone."""

from __future__ import annotations

import random
from itertools import pairwise

from bethink import Step, Translator, toy
from bethink.engine import Engine

STREAMS = 1000
POLICIES = ("wait-k:k=3", "pe:k=1,rho=0.2,r=8", "adaptive:rho_1=0.6", "weigh:k=2", "pe-flip:k=3", "offline")


def cut(text: str, draw: random.Random) -> list[str]:
    """A few chunks, last one first, as a stack has them."""
    places = sorted({0, len(text), *(draw.randrange(len(text)) for _ in range(4))})
    return [text[start:end] for start, end in pairwise(places)][::-1]


def interleaved(translator: Translator, texts: list[str], policies: list[str], draw: random.Random) -> list[list[Step]]:
    """The next chunk is anybody's; the engine makes a round now and then, so that its batches are ever new mixtures."""
    engine = Engine(translator.backend, batch=64)
    sessions = [translator.session(policy, engine=engine) for policy in policies]
    chunks = [cut(text, draw) for text in texts]
    speaking = list(range(len(texts)))
    while speaking:
        for who in draw.sample(speaking, min(80, len(speaking))):
            if chunks[who]:
                sessions[who].feed(chunks[who].pop())
            else:
                sessions[who].finish()
                speaking.remove(who)
        engine.round()
    engine.run()
    assert engine.rows > 16 * engine.rounds  # rows did share rounds
    steps = [session.collect() for session in sessions]
    assert all(session.resting for session in sessions)
    return steps


def test_a_thousand_interleaved_streams_are_each_alone() -> None:
    draw, translator = random.Random(7), Translator("toy", threads=1)
    texts = [pair.source for pair in toy.sentences(STREAMS, seed=104)]
    policies = [POLICIES[n % len(POLICIES)] for n in range(STREAMS)]
    together = interleaved(translator, texts, policies, draw)
    for text, policy, steps in zip(texts, policies, together, strict=True):
        assert steps == list(translator.stream([text], policy))
