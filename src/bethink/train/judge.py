"""Train the stability judge of a trained model: will this token still be right once the full source is known?

Only source text is needed. The model translates it live at several latencies. Then every token is proposed again with a few words of
source less or more than it was written with, and weighed with the whole source. A proposal is stable if the model, knowing the whole
source, finds it nearly as likely as its own first choice: another wording does no harm, another meaning does.
Only a small network above the decoder (model.judge) is trained, so the model's translations do not change.

Shapes: B sentence, T target, I source, N example, D width.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from bethink.analysis.statistics import calibration_error, separation
from bethink.errors import TrainingError, UsageError
from bethink.export import CARD, write_like
from bethink.export.restore import load_any
from bethink.files import write_atomically
from bethink.folder import WEIGHTS, Folder, find
from bethink.model import device as devices
from bethink.model.judge import Judge, untranslated
from bethink.model.layers import readable_mask
from bethink.model.transformer import Transformer, likeliest
from bethink.policy import Action, Weighing, parse
from bethink.text import EOS, PAD, alike, load_vocabulary
from bethink.train.corpora import read_lines
from bethink.train.data import Side, manifest
from bethink.train.units import Counter, Units, WordCounter
from bethink.translator import Translator

# the policies of the live translations, from fast to careful
POLICIES = (
    *("wait-k:1,unit=word", "wait-k:3,unit=word", "wait-k:5,unit=word"),
    *("weigh:k=1,r=4,rate=1.0,care=0.5,unit=word", "weigh:k=1,r=8,rate=1.0,rho=0.98,care=0.7,unit=word"),
    "weigh:k=1,r=8,rate=1.0,rho=0.99,care=0.95,unit=word",
)
ACCEPTED = 0.3  # a token is stable if with the whole source it is at least so many times as likely as the likeliest
PROPOSALS = 3  # per token, with different prefixes
NEARBY = 5  # the most source words by which a prefix differs from what was read when the token was written
ROWS = 2048  # decoder rows computed at a time
TOGETHER = 64  # lines translated at a time; eight times as many on a GPU
HELD_OUT = 10  # one sentence in so many is used for testing only
CONSTANT = 1e-4  # a feature with a smaller standard deviation is not scaled
RECOMMENDED = (
    "weigh:k=1,r=8,rate=1.0,rho=0.99,care=0.97,unit=word"  # chosen for German to English, not tuned for other languages
)
HIDDEN, BATCH, EPOCHS, RATE, DROPOUT = 64, 512, 8, 1e-3, 0.1
LEAST, MOST = 1_000, 20_000  # updates
SAMPLE = 50_000  # examples that mean and standard deviation are estimated from

JUDGED = b"\nA judge was added by `bethink judge`. What stands above of scores of the policy `weigh` was measured before that.\n"

Item = TypeVar("Item")
Progress = Callable[[str, int, int], None]  # reports progress: what is being done, how much is done, how much in all


def print_nothing(what: str, done: int, total: int) -> None:
    """Report no progress."""


def sample_lines(source: Path, count: int, seed: int, model: Path) -> list[str]:
    """So many random lines of a text file, or of a folder of prepared data with the model's vocabulary."""
    rng = random.Random(seed)
    if not source.is_dir():
        lines = list(read_lines(source))
        return rng.sample(lines, min(count, len(lines)))
    about, side = manifest(source)["source"], Side(source, "train.source")
    words = load_vocabulary(source / about["file"], about["kind"])
    if not alike(words, Folder.open(find(model)).source):
        raise UsageError(
            f"{source} was prepared with another source vocabulary than that of {model}; give text with --source"
        )
    chosen = rng.sample(range(len(side.lengths)), min(count, len(side.lengths)))
    return [words.decode(side.sentence(n).tolist()) for n in chosen]


@dataclass(frozen=True)
class Verdict:
    """How well the judge predicts on held-out sentences."""

    examples: int
    stability: float  # the share of stable proposals
    judged: float | None  # AUC of the judge; none if all proposals were stable, or none was
    confidence: float | None  # AUC of the model's confidence
    error: float  # mean distance between stability and the share of stable proposals (expected calibration error)

    @property
    def helps(self) -> bool:
        return self.judged is None or self.confidence is None or self.judged > self.confidence


@dataclass(frozen=True)
class LiveTranslation:
    """One live translation."""

    source: list[int]
    target: list[int]
    path: list[int]


@dataclass(frozen=True)
class Examples:
    # N (D 3): the decoder row, then the logarithms of confidence, of all that is untranslated, and of that at the end
    features: Tensor
    stable: Tensor  # N: whether the proposal was stable
    sentence: Tensor  # N: the number of its sentence


def judge(
    model: Path,
    lines: Sequence[str],
    to: Path,
    *,
    seed: int = 1,
    device: str | None = None,
    threads: int = 0,
    progress: Progress = print_nothing,
) -> Verdict:
    """Write the model with a judge, trained on its translations of these lines, to the new folder `to`.

    The new model has a name of its own, because results are kept by name, and recommends a policy that uses the judge.
    """
    folder = Folder.open(find(model))
    if to.exists():
        raise UsageError(f"{to} already exists; remove it or choose another folder")
    torch.manual_seed(seed)
    plain, place = load_any(folder).eval(), devices.choose(device)
    translator = Translator(folder.path, device=device if folder.has(WEIGHTS) else None, threads=threads)
    together = TOGETHER * 8 if folder.has(WEIGHTS) and place.type == "cuda" else TOGETHER
    translations = list(translate_live(translator, lines, random.Random(seed), progress, together))
    units = WordCounter(folder.source, folder.target)
    examples = gather(plain.to(place), translations, units, seed, progress)
    made = Transformer(dataclasses.replace(folder.model, judge=HIDDEN)).eval()
    known = {name: tensor for name, tensor in plain.cpu().state_dict().items() if not name.startswith("judge.")}
    made.load_state_dict({**made.state_dict(), **known})
    verdict = learn(made, examples, progress)
    asks = isinstance(parse(folder.policy), Weighing)
    changes = {
        "name": folder.name if folder.model.judge else f"{folder.name}-judged",
        "policy": folder.policy if asks else RECOMMENDED,
    }
    write_like(made, dataclasses.replace(folder, config={**folder.config, **changes}), to, weights=folder.has(WEIGHTS))
    if (folder.path / CARD).is_file():  # keep what its makers wrote, the licence above all
        write_atomically(to / CARD, (folder.path / CARD).read_bytes() + JUDGED)
    return verdict


def translate_live(
    translator: Translator, lines: Sequence[str], rng: random.Random, progress: Progress, together: int = TOGETHER
) -> Iterator[LiveTranslation]:
    """Translate the lines live, each with a random policy."""
    texts = list(dict.fromkeys(line for line in lines if line.strip()))  # distinct: no held-out line is trained on
    choices = [rng.randrange(len(POLICIES)) for _ in texts]
    done = 0
    for number, policy in enumerate(POLICIES):
        mine = [text for text, choice in zip(texts, choices, strict=True) if choice == number]
        for translation in translator.translate_many(mine, policy, batch=together):
            reads = [step.token for step in translation.steps if step.action is Action.READ]
            done += 1
            progress("translating", done, len(texts))
            if translation.writes:
                yield LiveTranslation(reads, [step.token for step in translation.writes], translation.path)


@torch.inference_mode()
def gather(
    model: Transformer, translations: Sequence[LiveTranslation], units: Counter, seed: int, progress: Progress
) -> Examples:
    """Propose every token with several prefixes and note whether the proposal is stable."""
    place = model.positions.device
    generator = torch.Generator().manual_seed(seed)
    found: list[Examples] = []
    ordered = sorted(enumerate(translations), key=lambda each: len(each[1].target))
    seen = 0
    for batch in batched(ordered, lambda each: max(len(each[1].source), len(each[1].target)), ROWS):
        numbers = torch.tensor([number for number, _ in batch])
        source, target, path = (
            pad_sequence([torch.tensor(getattr(one, name)) for _, one in batch], True, PAD)
            for name in ("source", "target", "path")
        )
        nearby = [_nearby(path, units(source, target), generator).to(place) for _ in range(PROPOSALS)]
        propose = _proposals if model.config.causal else _proposals_of_prefixes
        found += propose(model, source.to(place), target.to(place), nearby, numbers)
        seen += len(batch)
        progress("weighing its words", seen, len(translations))
    if not found:
        raise TrainingError("there is nothing to learn from: the model said nothing to these lines")
    names = [field.name for field in dataclasses.fields(Examples)]
    return Examples(*(torch.cat([getattr(example, name) for example in found]) for name in names))


def batched(items: Iterable[Item], length: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Neighbours together, which padded to the longest of them have at most so many positions."""
    batch: list[Item] = []
    longest = 0
    for item in items:
        longest = max(longest, length(item))
        if batch and (len(batch) + 1) * longest > most:
            yield batch
            batch, longest = [], length(item)
        batch.append(item)
    if batch:
        yield batch


def _proposals(
    model: Transformer, source: Tensor, target: Tensor, nearby: Sequence[Tensor], numbers: Tensor
) -> Iterator[Examples]:
    ids, inputs = model.prompted(source, target)
    first, tag = len(model.config.begin) - 1, len(model.config.tag)  # the row that proposes the first token
    held, embedded = model.source_memory(model.encode(model.embed_source(ids))), model.embed_target(inputs)
    places = torch.arange(inputs.shape[1], device=target.device).expand_as(inputs)
    lengths = (source != PAD).sum(dim=1)[:, None]

    def propose(path: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        readable = readable_mask(model.prompted_path(path), ids.shape[1])
        output, routing = model.read_out(model.decode(embedded, held.cross, readable), held.votes, readable)
        degrees = routing.degrees[:, first:, tag:].float() if routing else None
        return output[:, first:], model.scores(output, places)[:, first:], degrees

    whole = propose(lengths.expand_as(target))[1]
    for near in nearby:
        output, scores, degrees = propose(near)
        candidate, confidence = likeliest(scores)
        counts = (target != PAD) & (near < lengths) & (candidate != EOS)  # a premature end is never written
        left = untranslated(degrees, near) if degrees is not None else (torch.zeros_like(confidence),) * 2
        scalars = torch.stack([confidence.log(), *(amount.log1p() for amount in left)], dim=-1)
        yield Examples(
            torch.cat([output, scalars], dim=-1)[counts].half().cpu(),
            accepted(whole, candidate)[counts].cpu(),
            numbers[:, None].expand_as(target)[counts.cpu()],
        )


def _proposals_of_prefixes(
    model: Transformer, source: Tensor, target: Tensor, nearby: Sequence[Tensor], numbers: Tensor
) -> Iterator[Examples]:
    """The same with a bidirectional encoder: all rows of a pass see one prefix, so those count that are to see about as much."""
    ids, inputs = model.prompted(source, target)
    first, tag = len(model.config.begin) - 1, len(model.config.tag)  # the row that proposes the first token
    places = torch.arange(inputs.shape[1], device=source.device).expand_as(inputs)
    lengths, tokens = (source != PAD).sum(dim=1), (target != PAD).sum(dim=1)

    def propose(prefix: Tensor) -> tuple[Tensor, Tensor]:
        readable = readable_mask((prefix + tag)[:, None].expand_as(inputs), ids.shape[1])
        held = model.source_memory(model.encode(model.embed_source(ids), readable[:, None, :1]))
        output, _ = model.read_out(model.decode(model.embed_target(inputs), held.cross, readable), None, readable)
        return output[:, first:], model.scores(output, places)[:, first:]

    whole = propose(lengths)[1]
    for number, near in enumerate(nearby):
        middle = (tokens * (2 * number + 1) // (2 * len(nearby)))[:, None]  # of each part of the translation
        prefix = near.gather(1, middle).squeeze(1)
        output, scores = propose(prefix)
        candidate, confidence = likeliest(scores)
        close = (near - prefix[:, None]).abs() < NEARBY
        counts = (target != PAD) & close & (prefix < lengths)[:, None] & (candidate != EOS)
        scalars = torch.stack([confidence.log(), *[torch.zeros_like(confidence)] * 2], dim=-1)
        yield Examples(
            torch.cat([output, scalars], dim=-1)[counts].half().cpu(),
            accepted(whole, candidate)[counts].cpu(),
            numbers[:, None].expand_as(target)[counts.cpu()],
        )


def accepted(scores: Tensor, tokens: Tensor) -> Tensor:
    """Whether these tokens, B T, are nearly as likely as the likeliest by these scores, B T V."""
    mine = scores.gather(-1, tokens[..., None]).squeeze(-1)
    return mine >= scores.max(dim=-1).values + math.log(ACCEPTED)


def _nearby(path: Tensor, units: Units, generator: torch.Generator) -> Tensor:
    """A path near the one taken: shifted as a whole, and by up to one source word at each target word."""
    words = units.source.gather(1, path.clamp(min=1) - 1) + 1  # read when each token was written
    aside = torch.randint(-NEARBY + 1, NEARBY, (len(path), 1), generator=generator)
    jitter = torch.randint(-1, 2, (len(path), int(units.target.max()) + 1), generator=generator).gather(1, units.target)
    return units.tokens((words + aside + jitter).clamp(min=1).cummax(dim=1).values)


def learn(model: Transformer, examples: Examples, progress: Progress) -> Verdict:
    """Train the model's judge and test it on held-out sentences."""
    assert model.judge is not None
    held_out = examples.sentence % HELD_OUT == 0
    learned = torch.nonzero(~held_out).squeeze(1)
    if not len(learned) or held_out.sum() < 1:
        raise TrainingError(f"there is too little to learn from; give at least {HELD_OUT} lines, better thousands")
    some = examples.features[learned[torch.randint(len(learned), (SAMPLE,))]].float()
    mean, spread = some.mean(dim=0), some.std(dim=0)
    spread = spread.where(spread > CONSTANT, 1.0)
    network = _fit(examples, learned, mean, spread, model.config.judge, progress)
    _fill(model.judge, network, mean, spread)
    with torch.no_grad():
        found = network((examples.features[held_out].float() - mean) / spread).squeeze(-1).sigmoid()
    stable = examples.stable[held_out].numpy()
    confidence = examples.features[held_out, model.config.width].float()
    return Verdict(
        examples=int(held_out.sum()),
        stability=float(stable.mean()),
        judged=separation(found.double().numpy(), stable),
        confidence=separation(confidence.double().numpy(), stable),
        error=calibration_error(found.double().numpy(), stable),
    )


def _fit(
    examples: Examples, learned: Tensor, mean: Tensor, spread: Tensor, hidden: int, progress: Progress
) -> nn.Sequential:
    network = nn.Sequential(nn.Linear(len(mean), hidden), nn.ReLU(), nn.Dropout(DROPOUT), nn.Linear(hidden, 1))
    steps = min(MOST, max(LEAST, EPOCHS * len(learned) // BATCH))
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    for step in range(steps):
        chosen = learned[torch.randint(len(learned), (BATCH,))]
        found = network((examples.features[chosen].float() - mean) / spread).squeeze(-1)
        loss = F.binary_cross_entropy_with_logits(found, examples.stable[chosen].float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        progress("learning", step + 1, steps)
    return network.eval()


@torch.no_grad()
def _fill(judge: Judge, network: nn.Sequential, mean: Tensor, spread: Tensor) -> None:
    """Copy the network into the judge, with the standardisation of the features folded into its weights."""
    first, last = network[0], network[3]
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    weight = first.weight / spread
    width = judge.into.in_features
    judge.into.weight.copy_(weight[:, :width])
    judge.into.bias.copy_(first.bias - weight @ mean)
    for number, vector in enumerate((judge.sure, judge.left, judge.near)):
        if vector is not None:
            vector.copy_(weight[:, width + number])
    judge.out.weight.copy_(last.weight)
    judge.out.bias.copy_(last.bias)
