"""What a translation does to the meaning: negations lost and invented, numbers and names lost.

A sentence is judged only where source and reference agree. A simultaneous translation is compared with the same model's
translation of the whole sentence, so that the policy's mistakes are counted apart from the model's:

- `lost`: of the sentences whose source, reference and whole-sentence translation have a negation, the share whose translation has
  none (`lost_late`: of those where it comes late). `invented`: of the sentences where none of the three has one, the share whose
  translation has one. For numbers and names: of those that stand in all three, the share that the translation lacks.
- `missing` and `added` are the same without the whole-sentence translation: mistakes of model and policy together.

Shares are percentages, and `of_lost` is the number of cases that `lost` is a share of. A sentence where it is not sure whether
something is denied ("hardly", "fails to") is not counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from bethink.errors import DataError
from bethink.text.languages import Language, load

if TYPE_CHECKING:
    from bethink.evaluate.instances import Instance

Meaning = dict[str, dict[str, float]]
LATE = 5  # a negation comes late if so many words of its clause stand before it
CLAUSE = re.compile(r"[,;:.!?()–—]")
WORD = re.compile(r"\S+@\S+\w|https?://\S+\w|www\.\S+\w|\w+")
BEGIN = re.compile(r"(^|[.!?:…])[\"'“”„»«›‹(\s–-]*$")  # what stands before the first word of a sentence


def measure(instances: Sequence[Instance], whole: Sequence[Instance], spoken: str) -> Meaning:
    """All measures that can be taken; `whole` may be empty, and `spoken` names the languages, as in de-en."""
    if whole and [one.source for one in whole] != [one.source for one in instances]:
        raise DataError("the log of whole-sentence translations is of other sentences; give one of the same test set")
    wholes = [one.prediction for one in whole]
    source, target = (load(code) for code in (*spoken.split("-", 1), "", "")[:2])
    found = {"names": _kept(instances, wholes, names, names, words)}
    if source and target:
        found["negation"] = _negation(instances, wholes, source, target)
        found["numbers"] = _kept(instances, wholes, source.numbers, target.numbers, target.numbers)
    return {measure: values for measure, values in found.items() if values}


def words(text: str) -> set[str]:
    return set(WORD.findall(text))


def names(text: str) -> set[str]:
    """Words that may stay as they are: addresses, and words with a capital letter that does not just begin the sentence."""
    return {
        word
        for found in WORD.finditer(text)
        if len(word := found[0]) > 1
        and (word != word.lower() or not word.isalnum())
        and (not word.istitle() or not BEGIN.search(text[: found.start()]))
    }


def comes_late(text: str, language: Language) -> bool:
    """Whether the first negation of a text stands far behind the beginning of its clause."""
    before = text[: language.negators(text)[0]]
    return len(CLAUSE.split(before)[-1].split()) >= LATE


def _negation(
    instances: Sequence[Instance], wholes: Sequence[str], source: Language, target: Language
) -> dict[str, float]:
    cases: dict[str, list[bool]] = {}

    def count(name: str, mistake: bool) -> None:
        cases.setdefault(name, []).append(mistake)

    for number, one in enumerate(instances):
        denied, said = source.negated(one.source), target.negated(one.prediction)
        if denied is None or denied is not target.negated(one.reference):
            continue
        mistake = said is (not denied)
        count("missing" if denied else "added", mistake)
        if wholes and target.negated(wholes[number]) is denied:
            count("lost" if denied else "invented", mistake)
            if denied and comes_late(one.source, source):
                count("lost_late", mistake)
    return _shares(cases)


def _kept(
    instances: Sequence[Instance],
    wholes: Sequence[str],
    of_source: Callable[[str], AbstractSet[object]],
    of_reference: Callable[[str], AbstractSet[object]],
    of_translation: Callable[[str], AbstractSet[object]],
) -> dict[str, float]:
    cases: dict[str, list[bool]] = {}
    for number, one in enumerate(instances):
        if not (expected := of_source(one.source) & of_reference(one.reference)):
            continue
        said = of_translation(one.prediction)
        cases.setdefault("missing", []).extend(each not in said for each in expected)
        if wholes and (known := expected & of_translation(wholes[number])):
            cases.setdefault("lost", []).extend(each not in said for each in known)
    return _shares(cases)


def _shares(cases: dict[str, list[bool]]) -> dict[str, float]:
    """Each kind of mistake as a percentage, and the number of cases."""
    shares = {name: 100 * sum(mistakes) / len(mistakes) for name, mistakes in cases.items()}
    return shares | {f"of_{name}": float(len(mistakes)) for name, mistakes in cases.items()}
