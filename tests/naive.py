"""The policies as the paper states them: every row recomputed from scratch, nothing reused. The engine must agree with this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace

from bethink.backend import Row
from bethink.policy import READ, Action, Need, Policy
from bethink.text import EOS

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
