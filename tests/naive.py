"""The policies as the paper states them: every row recomputed from scratch, nothing reused. The engine must agree with this."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace

from bethink.backend import Row
from bethink.policy import READ, Action, Need, Policy
from bethink.text import EOS, Vocabulary

Pass = Callable[[Sequence[int], Sequence[int], Sequence[int]], Row]  # source, decoder inputs, path → the last row


def translate(policy: Policy, source: Sequence[int], run: Pass) -> tuple[list[int], list[int]]:
    """Tokens and path. `source` ends with EOS; `run` is the pass of the last position along the whole path."""
    read = deferred = 0
    target: list[int] = []
    path: list[int] = []
    explained: set[int] = set()
    while not target or target[-1] != EOS:
        progress = SimpleNamespace(read=read, written=len(target), deferred=deferred, explained=explained)
        ended = read == len(source)
        if len(target) >= 2 * read + 50:
            if ended:
                return [*target, EOS], [*path, read]
            read += 1
            continue
        inputs = [EOS, *target]
        need = Need.CANDIDATE if ended else policy.needs(progress)
        now = run(source, inputs, [*path, read]) if read else None
        if need and now:
            progress.candidate, progress.confidence, progress.degrees = now.candidate, now.confidence, now.degrees
            progress.stability = now.confidence if now.stability is None else now.stability
            if need is Need.LOOKAHEAD and now.candidate != EOS:
                after = run(source, [*inputs, now.candidate], [*path, read, read])
                progress.gain = after.degrees - now.degrees
        weighed = ended or need is not Need.NOTHING
        premature = weighed and not ended and now is not None and now.candidate == EOS
        decision = READ if premature else None
        if decision is None and not ended:
            decision = policy.decide(progress)
            if decision.action is Action.WRITE and now is not None and now.candidate == EOS:
                decision, weighed = READ, True
        if ended or (decision is not None and decision.action is Action.WRITE):
            assert now is not None
            target.append(now.candidate)
            path.append(read)
            explained.update(decision.evidence if decision else ())
            deferred = 0
        else:
            deferred += weighed
            read += 1
    return target, path


def translate_by_word(
    policy: Policy, words: Sequence[Sequence[int]], run: Pass, vocabulary: Vocabulary, longest: int
) -> tuple[list[int], list[int]]:
    """The same where the policy counts words: it reads a word at a time, and a word is proposed, decided on and written as a whole."""
    source = [*(token for word in words for token in word), EOS]
    ends = [sum(map(len, words[: n + 1])) for n in range(len(words))] + [len(source)]
    heard = complete = deferred = 0
    target: list[int] = []
    path: list[int] = []
    explained: set[int] = set()

    def propose(read: int) -> list[Row]:
        """The rows of the next word, to its end or to that of the translation."""
        rows: list[Row] = []
        while not rows or (len(rows) < longest and not vocabulary.closes_word(rows[-1].candidate)):
            inputs = [EOS, *target, *(row.candidate for row in rows)]
            rows.append(run(source, inputs, [*path, *[read] * (len(rows) + 1)]))
        return rows

    def write(token: int, read: int) -> None:
        nonlocal complete
        target.append(token)
        path.append(read)
        start = len(target) - 1
        while start and not vocabulary.closes_word(target[start - 1]):
            start -= 1
        complete += vocabulary.closes_word(token) and not vocabulary.attaches(target[start])

    while not target or target[-1] != EOS:
        read = ends[heard - 1] if heard else 0
        ended = heard == len(ends)
        if len(target) >= 2 * read + 50:
            if ended:
                return [*target, EOS], [*path, read]
            heard += 1
            continue
        begun = bool(target) and not vocabulary.closes_word(target[-1])
        now = run(source, [EOS, *target], [*path, read]) if read else None
        if now and (ended or begun) and (ended or now.candidate != EOS):
            write(now.candidate, read)
            deferred = 0
            continue
        progress = SimpleNamespace(read=heard, written=complete, deferred=deferred, explained=explained)
        need = Need.CANDIDATE if begun else policy.needs(progress)
        premature = now is not None and now.candidate == EOS
        if need and now and not premature:
            rows = propose(read)
            judged = [row.stability for row in rows if row.stability is not None]
            progress.candidate, progress.degrees = now.candidate, now.degrees
            progress.confidence = math.prod(row.confidence for row in rows)
            progress.stability = min(judged) if judged else progress.confidence
            if need is Need.LOOKAHEAD:
                inputs = [EOS, *target, *(row.candidate for row in rows)]
                progress.gain = run(source, inputs, [*path, *[read] * (len(rows) + 1)]).degrees - now.degrees
        decision = READ if not read or (need and premature) else policy.decide(progress)
        if decision.action is Action.WRITE and not premature:
            assert now is not None
            write(now.candidate, read)
            explained.update(decision.evidence)
            deferred = 0
        else:
            deferred += bool(need) or (decision.action is Action.WRITE)
            heard += 1
    return target, path
