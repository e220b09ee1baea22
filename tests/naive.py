"""The policies as the paper states them: every row recomputed from scratch, nothing reused. The engine must agree with this."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from types import SimpleNamespace

from bethink.backend import Row
from bethink.policy import READ, Action, Need, Policy
from bethink.text import EOS, Vocabulary, leaves_word

Pass = Callable[[Sequence[int], Sequence[int], Sequence[int]], Row]  # source, decoder inputs, path → the last row


def translate(
    policy: Policy, source: Sequence[int], run: Pass, ends: AbstractSet[int] = frozenset()
) -> tuple[list[int], list[int]]:
    """Tokens and path. `source` ends with EOS; `run` is the pass of the last position along the whole path; words end at `ends`."""
    read = deferred = 0
    target: list[int] = []
    path: list[int] = []
    explained: set[int] = set()
    while not target or target[-1] != EOS:
        progress = SimpleNamespace(read=read, written=len(target), deferred=deferred, explained=explained)
        progress.word_complete = read in ends
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
    places = [sum(map(len, words[: n + 1])) for n in range(len(words))] + [len(source)]
    heard = deferred = 0
    target: list[int] = []
    path: list[int] = []
    ends_after: list[bool] = []  # whether a word was known to be complete with each target token
    explained: set[int] = set()

    def row(read: int, ahead: Sequence[int] = ()) -> Row:
        """The row after what is written and `ahead`; a word that is complete stays as it is."""
        found = run(source, [EOS, *target, *ahead], [*path, *[read] * (len(ahead) + 1)])
        shut = not vocabulary.marks_ends and bool(target) and ends_after[-1] and not ahead
        return found.apart or found if shut else found

    def ends(tokens: Sequence[int], read: int) -> bool:
        """Whether a word is complete with the last of these tokens; if only the next token shows it, by what that would be."""
        if vocabulary.marks_ends:
            return vocabulary.closes_word(tokens[-1])
        return tokens[-1] != EOS and leaves_word(vocabulary, row(read, tokens).candidate)

    def propose(read: int) -> list[Row]:
        """The rows of the next word, to its end or to that of the translation."""
        rows = [row(read)]
        while len(rows) < longest and not ends([each.candidate for each in rows], read):
            rows.append(row(read, [each.candidate for each in rows]))
        return rows

    def write(token: int, read: int, *, last: bool) -> None:
        known = vocabulary.marks_ends or not last  # when all is read, nobody asks what the next token would be
        closed = known and ends([token], read)
        target.append(token)
        path.append(read)
        ends_after.append(closed)

    def counted() -> int:
        """Complete words, without signs that attach to one."""
        words, begun, attached = 0, False, False
        for place, token in enumerate(target):
            begins = not begun or (not vocabulary.marks_ends and leaves_word(vocabulary, token))
            if begins:
                words += begun and not attached
                attached = vocabulary.attaches(token)
            begun = not ends_after[place]
            words += not begun and not attached
        return words

    while not target or target[-1] != EOS:
        read = places[heard - 1] if heard else 0
        ended = heard == len(places)
        if len(target) >= 2 * read + 50:
            if ended:
                return [*target, EOS], [*path, read]
            heard += 1
            continue
        now = row(read) if read else None
        left = now is not None and not vocabulary.marks_ends and leaves_word(vocabulary, now.candidate)
        begun = bool(target) and not ends_after[-1] and not left
        if now and (ended or begun) and (ended or now.candidate != EOS):
            write(now.candidate, read, last=ended)
            deferred = 0
            continue
        progress = SimpleNamespace(read=heard, written=counted(), deferred=deferred, explained=explained)
        progress.word_complete = True
        need = Need.CANDIDATE if begun else policy.needs(progress)
        premature = now is not None and now.candidate == EOS
        if need and now and not premature:
            rows = propose(read)
            judged = [each.stability for each in rows if each.stability is not None]
            progress.candidate, progress.degrees = now.candidate, now.degrees
            progress.confidence = math.prod(each.confidence for each in rows)
            progress.stability = min(judged) if judged else progress.confidence
            if need is Need.LOOKAHEAD:
                progress.gain = row(read, [each.candidate for each in rows]).degrees - now.degrees
        decision = READ if not read or (need and premature) else policy.decide(progress)
        if decision.action is Action.WRITE and not premature:
            assert now is not None
            write(now.candidate, read, last=False)
            explained.update(decision.evidence)
            deferred = 0
        else:
            deferred += bool(need) or (decision.action is Action.WRITE)
            heard += 1
    return target, path
