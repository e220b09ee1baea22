"""Does a converted model write, token by token, what `transformers` writes with the folder it was converted from?

    python benchmarks/vs_transformers.py opus-mt-fr-en --source text.fr --lines 2000
    python benchmarks/vs_transformers.py nllb-200-distilled-600M --languages fra_Latn eng_Latn --source text.fr
    python benchmarks/vs_transformers.py FOLDER --quick    20 lines of the toy language, to see that everything works

Both decode greedily, with the whole source, in float32, from the same source ids. `transformers` is told the three rules that bethink has
beside argmax: neither padding nor <unk> is written, a translation is not empty, and it is cut after 50 tokens and two for each of the
source. Where they differ, `transformers` computes that row once more by itself, without a batch: if its two best tokens are as good as
equal, rounding decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import shared
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForSeq2SeqLM

from bethink import Translator, toy
from bethink.convert import convert
from bethink.convert.hub import Foreign
from bethink.convert.hub import read as read_hub
from bethink.text import EOS
from bethink.train.corpora import read_lines

BATCH = 50  # sentences at a time
CLOSE = 1e-3  # a smaller distance between two logits is rounding


class Theirs:
    """The model of the folder, run by `transformers`."""

    def __init__(self, folder: Path, found: Foreign) -> None:
        self.model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
        self.source, self.target = found.source.rows(), found.target.rows()  # their ids in the order of ours
        self.pad, self.end, self.unknown = found.target.special
        self.begin = [found.target.pieces.index(piece) for piece in found.begin]
        self.tag = [found.source.pieces.index(piece) for piece in found.tag]

    def read(self, ids: Sequence[int]) -> list[int]:
        """A source in our ids; pieces that their vocabulary lacks are unknown to them."""
        known = [self.source[token] if token < len(self.source) else self.unknown for token in ids]
        return [*self.tag, *known, self.end]

    def translate(self, sources: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """The translations in their ids, without the end, each at most as long as bethink would let it become."""
        for begin in range(0, len(sources), BATCH):
            some = sources[begin : begin + BATCH]
            ids = pad_sequence([torch.tensor(self.read(one)) for one in some], True, self.pad)
            made = self.model.generate(
                input_ids=ids,
                attention_mask=(ids != self.pad).long(),
                decoder_input_ids=torch.tensor([self.begin] * len(some)),
                num_beams=1,
                do_sample=False,
                max_new_tokens=max(map(limit, some)),
                min_new_tokens=1,
                bad_words_ids=[[self.pad], [self.unknown]],
                forced_eos_token_id=None,
            )
            for row, source in zip(made.tolist(), some, strict=True):
                written = row[len(self.begin) :]
                end = written.index(self.end) if self.end in written else len(written)
                yield written[: min(end, limit(source))]

    @torch.inference_mode()
    def margin(self, source: Sequence[int], written: Sequence[int]) -> float:
        """By how much the best next token is better than the second, computed alone."""
        given = torch.tensor([[*self.begin, *written]])
        logits = self.model(input_ids=torch.tensor([self.read(source)]), decoder_input_ids=given).logits[0, -1]
        logits[[self.pad, self.unknown]] = -torch.inf
        best, second = logits.topk(2).values.tolist()
        return float(best - second)


def limit(source: Sequence[int]) -> int:
    """The most tokens of a translation, its end not counted; the end of the source counts."""
    return 2 * (len(source) + 1) + 50


def compared(theirs: Theirs, source: Sequence[int], expected: Sequence[int], found: Sequence[int]) -> str:
    if list(expected) == list(found):
        return "equal, cut at the limit" if len(found) == limit(source) else "equal"
    place = next(n for n, (one, other) in enumerate(zip_longest(expected, found)) if one != other)
    return "rounding decided" if theirs.margin(source, expected[:place]) < CLOSE else "different"


def main() -> None:
    options = arguments()
    languages = dict(zip(("target", "source"), reversed(options.languages), strict=False))
    lines = texts(options)
    folder = Path(options.folder)
    with shared.progress() as tell, shared.workshop() as place:
        tell("converting")
        ours = Translator(convert(folder, place / "model", precision="float32", **languages), threads=1, copy=False)
        theirs = Theirs(folder, read_hub(folder, languages.get("source"), languages.get("target")))
        sources = [[token for word in ours.words(line) for token in word.ids] for line in lines]
        tell(f"bethink: {len(lines):,} sentences")
        found = []
        for translation in ours.translate_many(lines, "offline"):
            tokens = [step.token for step in translation.writes if step.token != EOS]
            found.append([theirs.target[token] for token in tokens])
        tell(f"transformers: {len(lines):,} sentences")
        torch.manual_seed(0)
        expected = list(theirs.translate(sources))
        counts = Counter(compared(theirs, *each) for each in zip(sources, expected, found, strict=True))
    tokens = sum(map(len, found))
    rows: list[dict[str, Any]] = [{"what": what, "sentences": count} for what, count in counts.most_common()]
    shared.save(options.json, {"model": folder.name, "lines": len(lines), "tokens": tokens, "results": rows})
    shared.show(
        f"{folder.name}: {len(lines):,} sentences, {tokens:,} tokens",
        ("compared with transformers", "sentences"),
        [(row["what"], f"{row['sentences']:,}") for row in rows],
        f"{options.json} written",
    )


def texts(options: Any) -> list[str]:
    count = 20 if options.quick else options.lines
    if options.source:
        return [line for line in read_lines(Path(options.source)) if line.strip()][:count]
    return [pair.source for pair in toy.sentences(count, seed=options.seed)]


def arguments() -> Any:
    made = shared.parser(__doc__, "vs_transformers", picture=False)
    made.add_argument("folder", help="a folder as the hub lays it out")
    made.add_argument(
        "--languages",
        nargs="+",
        default=[],
        metavar="NAME",
        help="of a multilingual model: source and target, or the target",
    )
    made.add_argument("--source", help="source sentences, one per line (default: the toy language)")
    made.add_argument("--lines", type=int, default=2000, help="so many of them (default: 2000)")
    made.add_argument("--seed", type=int, default=9, help="seed of the toy sentences (default: 9)")
    return made.parse_args()


if __name__ == "__main__":
    main()
