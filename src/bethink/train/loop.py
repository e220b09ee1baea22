"""The training loop: updates, learning rate, validation, checkpoints. After an interruption it continues with the same result."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bethink.errors import BethinkError, DataError, TrainingError
from bethink.files import new_folder, write_atomically, write_json
from bethink.folder import WEIGHTS
from bethink.model.transformer import Transformer
from bethink.text import load_vocabulary
from bethink.train import checkpoint
from bethink.train.bounds import TokenBounds, token_bounds
from bethink.train.data import Batch, Batches, Corpus, Update, in_order, manifest, mix, read_manifest
from bethink.train.distributed import Flat, Processes, processes
from bethink.train.graphs import Replay, compile_parts
from bethink.train.grow import grown
from bethink.train.log import Log, Totals
from bethink.train.losses import Objective
from bethink.train.paths import wait_k
from bethink.train.recipe import Recipe, TrainConfig, differences
from bethink.train.units import Counter, WordCounter, count_tokens

NEW = ("model.capsules.", "constraints.")  # parameters that fine-tuning to PED adds to a base model
FIRST = 3  # updates after which slowness is announced
PATIENCE = 60.0  # seconds to the first line of the log from which it is
CLOCK = 10  # updates between two looks at the clock
BOUNDED = 8  # the bounds of L_T are computed from so many updates
MOMENTS = ("exp_avg", "exp_avg_sq")  # Adam's names for its running means
SMALLEST_RATE = 1e-7  # where warm-up begins
VALIDATION_LAGS = (1, 3, 5, 9)  # the same for every system, so that their losses can be compared
# Settings that may change when a run is continued, because they change no update.
FREE = {
    f"train.{key}"
    for key in ("updates", "minutes", "split", "compile", "log", "validate", "save", "keep", "average", "tensorboard")
} | {"data.origin", "data.published"}


def train(
    recipe: Recipe, data: Path, run: Path, init: Path | None = None, device: str | None = None, *, grow: bool = False
) -> Path:
    """Start or continue the run in a folder; returns the model folder averaged from its last checkpoints.

    With `grow`, the model to begin with may have fewer layers, another vocabulary, or a causal encoder in place of a bidirectional one.
    """
    with processes(device) as group:
        about, new = manifest(data, recipe.name), False
        if group.main:
            if init is not None:
                checkpoint.origin_of(init)  # these raise before a folder is made for a run that cannot begin
                checkpoint.require_same_architecture(recipe, init)
            new = open_run(recipe, about, data, run)
        group.wait()
        try:
            trainer = Trainer(recipe, about, data, run, init, group, grow=grow)
        except BethinkError:  # a run that cannot begin leaves nothing behind
            if new:
                shutil.rmtree(run)
            raise
        trainer.train()
    return checkpoint.average(run) if group.main else run / checkpoint.MODEL


def open_run(recipe: Recipe, about: dict[str, Any], data: Path, run: Path) -> bool:
    """Make a run folder, or check that the existing one has this recipe and data; returns whether it is new."""
    if (run / checkpoint.RECIPE).exists():
        _require_same(recipe, about, run)
        write_json(run / checkpoint.RECIPE, recipe.to_dict())
        return False
    if run.exists() and any(run.iterdir()):
        raise TrainingError(f"{run} is in use and is not a run; give another folder with --run")
    with checkpoint.disk_errors("the run", run), new_folder(run) as folder:
        for file in (about["source"]["file"], about["target"]["file"]):
            write_atomically(folder / file, (data / file).read_bytes())
        write_json(folder / checkpoint.DATA, about)
        write_json(folder / checkpoint.RECIPE, recipe.to_dict())
    return True


def _require_same(recipe: Recipe, about: dict[str, Any], run: Path) -> None:
    old, data = Recipe.read(run / checkpoint.RECIPE).to_dict(), read_manifest(run / checkpoint.DATA, TrainingError)
    # other schedules depend on when the run ends
    free = FREE if recipe.train.schedule == "inverse-sqrt" else FREE - {"train.updates", "train.minutes"}
    changed = [line for line in differences(old, recipe.to_dict()) if line.split(":")[0] not in free]
    if data["fingerprint"] != about["fingerprint"]:
        changed.append("other data")
    if changed:
        raise TrainingError(f"{run} was started otherwise ({'; '.join(changed)}); give another folder with --run")


def learning_rate(config: TrainConfig, done: int, spent: float = 0.0) -> float:
    """For the update after `done` updates; `spent` is the share of `train.minutes` that is over."""
    if done < config.warmup:
        return SMALLEST_RATE + (config.rate - SMALLEST_RATE) * done / config.warmup
    if config.schedule == "inverse-sqrt":
        return config.rate * math.sqrt(max(config.warmup, 1) / max(done, 1))
    part = min(max((done - config.warmup) / max(config.updates - config.warmup, 1), spent), 1.0)
    return config.rate * (1 - part if config.schedule == "linear" else (1 + math.cos(math.pi * part)) / 2)


@contextmanager
def _tiny_numbers_as_zero() -> Iterator[None]:
    """Squared gradients begin so small that a CPU takes many times as long for each; the flag is the thread's, so it is put back."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


class Trainer:
    """One process's part in the training of one run."""

    def __init__(
        self,
        recipe: Recipe,
        about: dict[str, Any],
        data: Path,
        run: Path,
        init: Path | None,
        group: Processes,
        *,
        grow: bool = False,
    ) -> None:
        self.recipe, self.config, self.run, self.group = recipe, recipe.train, run, group
        self.fingerprint = about["fingerprint"]
        self.origin: dict[str, str] | None = None  # the run that the initial weights came from
        self.bounds: TokenBounds | None = None  # of L_T, computed when first logged
        torch.manual_seed(self.config.seed)
        model = Transformer(recipe.sized(about["source"]["size"], about["target"]["size"]))
        self.objective = Objective(model, recipe.losses).to(group.device)
        self.flat = Flat(self.objective, NEW)
        self.optimizer = self._optimizer()
        self.done = self._restore(init, data if grow else None)
        self.began = time.perf_counter() - self._seconds_before()
        self.spent = 0.0  # the share of train.minutes that is over
        self._look_at_clock()
        sides = [(data / about[side]["file"], about[side]["kind"]) for side in ("source", "target")]
        by_words = recipe.paths.unit == "word"
        self.units: Counter = WordCounter(*(load_vocabulary(*side) for side in sides)) if by_words else count_tokens
        self.batches = Batches(
            Corpus(data, "train"),
            recipe.paths,
            tokens=self.config.tokens,
            buckets=self.config.buckets,
            seed=self.config.seed,
            units=self.units,
        )
        if recipe.losses.degree and self.batches.corpus.source.links is None:
            raise DataError(
                f"losses.degree needs word-aligned data, which {data} is not; prepare it with data.align=true"
            )
        self.dev = Corpus(data, "dev")
        if self.config.compile:
            compile_parts(self.objective)
        graphs = self.config.compile and group.device.type == "cuda"
        self.replay = Replay(self._backward, group.device) if graphs else None

    def train(self) -> None:
        log = None
        if self.group.main:
            log = Log(self.run, self.done, self.config.updates, tensorboard=self.config.tensorboard, until=self._until)
        with log or nullcontext(), ThreadPoolExecutor(max_workers=1) as ahead:
            if log:
                log.say(self._opening())
            if self.origin and not checkpoint.checkpoints(self.run) and self.group.main:
                self._save()  # so that an interrupted run can continue without the folder of its initial weights
            try:
                with _tiny_numbers_as_zero():
                    self._updates(ahead, log)
            except KeyboardInterrupt:
                if log:
                    saved = checkpoint.checkpoints(self.run)
                    kept = checkpoint.read_state(saved[-1])["update"] if saved else 0
                    log.say(
                        f"stopped after update {self.done}; the same command goes on after update {kept}, the last one saved"
                    )
                raise

    def _updates(self, ahead: ThreadPoolExecutor, log: Log | None) -> None:
        totals = Totals(self.group.device)
        following = self._prepare(ahead, self.done)
        start, began = self.done, time.perf_counter()
        while not self._over:
            update = following.result()
            following = self._prepare(ahead, self.done + 1)
            self._update(update, totals)
            self.done += 1
            if self.done % CLOCK == 0:
                self._look_at_clock()
            if log:
                log.advance(self.done)
                if self.done - start == FIRST:
                    self._announce_slowness(log, (time.perf_counter() - began) / FIRST)
            totals = self._pause(totals, log)

    @property
    def _over(self) -> bool:
        return self.done >= self.config.updates or self.spent >= 1

    @property
    def _until(self) -> float:
        """When the time of train.minutes is over."""
        return self.began + 60 * self.config.minutes if self.config.minutes else math.inf

    def _look_at_clock(self) -> None:
        if self.config.minutes:
            seconds = torch.tensor(time.perf_counter() - self.began, device=self.group.device)
            self.group.share(seconds)  # so that all processes stop after the same update
            self.spent = float(seconds) / 60 / self.config.minutes

    def _seconds_before(self) -> float:
        """The time that this run took before it was interrupted."""
        saved = checkpoint.checkpoints(self.run) if self.group.main else []
        return float(checkpoint.read_state(saved[-1]).get("seconds", 0.0)) if saved else 0.0

    def _announce_slowness(self, log: Log, seconds: float) -> None:
        """So that nobody waits in vain for the first line of the log; on a GPU the first updates say little."""
        if self.group.device.type == "cpu" and seconds * self.config.log > PATIENCE:
            left = min(seconds * (self.config.updates - self.done), self._until - time.perf_counter()) / 60
            log.say(
                f"an update takes {seconds:.1f} s here, all of them about {left:,.0f} min; a line follows every {self.config.log} updates"
            )

    def _opening(self) -> str:
        size = sum(parameter.numel() for parameter in self.objective.parameters())
        origin = f"with the weights of {self.origin['from']}" if self.origin else "from the start"
        begun = f"going on after update {self.done} of {self.config.updates}" if self.done else origin
        return (
            f"training {self.recipe.name} ({self.recipe.system}) {begun}: {size:,} parameters, {len(self.batches.corpus):,} "
            f"sentence pairs, {self.batches.per_epoch:,} updates per epoch, {self.group.count} x {self.group.device.type}"
        )

    def _prepare(self, ahead: ThreadPoolExecutor, number: int) -> Future[Update]:
        return ahead.submit(self.batches.update, number, self.group.rank, self.group.count, self.config.split)

    def _update(self, update: Update, totals: Totals) -> None:
        # every update has its own seed, so no random state has to be saved
        torch.manual_seed(mix(self.config.seed, update.number, self.group.rank))
        self.objective.train()
        self.flat.gradient.zero_()
        for part in update.parts:
            totals.add(self.replay(part) if self.replay else self._backward(part.to(self.group.device)))
        norm = self.group.add(self.flat.gradient).norm() / update.tokens
        within = (self.config.clip / (norm + 1e-6)).clamp(max=1.0) if self.config.clip else 1.0
        self.flat.gradient.mul_(within / update.tokens)
        for settings in self.optimizer.param_groups:
            settings["lr"] = learning_rate(self.config, update.number, self.spent) * settings["factor"]
        self.optimizer.step()
        totals.close(update, norm)

    def _backward(self, part: Batch) -> dict[str, Tensor]:
        """Add the gradient of one part of an update."""
        with self._autocast():
            parts: dict[str, Tensor] = self.objective(part)
        self.flat.backward(parts["loss"])
        return {name: value.detach() for name, value in parts.items()}

    def _pause(self, totals: Totals, log: Log | None) -> Totals:
        """Log, validate and save when they are due; other updates do not wait for the device."""
        last = self._over
        telling, saving = self.done % self.config.log == 0 or last, self.done % self.config.save == 0 or last
        validating = self.done % self.config.validate == 0 or last
        if not (telling or saving or validating):
            return totals
        self._require_finite(totals)
        if telling:
            sums = self.group.add(totals.sums).tolist()
            if log:
                rate = {
                    "epoch": self.done / self.batches.per_epoch,
                    "rate": learning_rate(self.config, self.done - 1, self.spent),
                }
                log.record("train", self.done, self._with_learned_share(totals.values(sums)) | rate)
        if validating:
            with torch.compiler.set_stance("force_eager"):  # validation is too rare to be worth compiling
                losses = self.validate()
            if log:
                log.record("dev", self.done, losses)
        if saving and self.group.main:
            self._save()
        return Totals(self.group.device) if telling else totals

    def _with_learned_share(self, told: dict[str, float]) -> dict[str, float]:
        """The logged values and, if L_T is among them, its learned share."""
        if "token" not in told:
            return told
        if self.bounds is None:
            batches = (part for number in range(BOUNDED) for part in self.batches.update(number).parts)
            config = self.objective.model.config
            self.bounds = token_bounds(
                batches, config.source_vocabulary, config.target_vocabulary, self.recipe.losses.untranslated
            )
        return told | {"token learned": self.bounds.learned(told["token"])}

    def _require_finite(self, totals: Totals) -> None:
        bad = int(self.group.largest(totals.bad))
        if bad < 0:
            return
        saved = checkpoint.checkpoints(self.run)
        last = f"the last checkpoint is {saved[-1]}" if saved else "there is no checkpoint yet"
        raise TrainingError(
            f"the loss or its gradient stopped being finite at update {bad}; {last}, untouched; "
            "try a lower train.rate, a longer train.warmup, train.clip=1 or train.precision=float32"
        )

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Negative log-likelihood per dev token along fixed paths, and the perplexity with the whole source."""
        self.objective.eval()
        lags = {f"wait-{k}": k for k in VALIDATION_LAGS} if self.recipe.model.causal else {}
        paths = {**lags, "full": int(self.dev.source.lengths.max())}
        sums = torch.zeros(len(paths), dtype=torch.float64, device=self.group.device)
        for sentences in in_order(self.dev, self.config.tokens)[self.group.rank :: self.group.count]:
            source, target = (side.padded(sentences) for side in (self.dev.source, self.dev.target))
            units = self.units(source, target)
            for n, lag in enumerate(paths.values()):
                batch = Batch(source, target, wait_k(lag, units)).to(self.group.device)
                with self._autocast():
                    forward = self.objective.model.along(batch.source, batch.target, batch.path)
                    sums[n] += self.objective.likelihood(forward, batch.target)[0]
        losses = (self.group.add(sums) / int(self.dev.target.lengths.sum())).tolist()
        return dict(zip(paths, losses, strict=True)) | {"perplexity": math.exp(min(losses[-1], 700))}

    def _autocast(self) -> torch.autocast:
        wanted = self.config.precision
        enabled = wanted == "bfloat16" or (wanted == "auto" and self.group.device.type == "cuda")
        return torch.autocast(self.group.device.type, torch.bfloat16, enabled=enabled)

    def _optimizer(self) -> torch.optim.Optimizer:
        """AdamW with the authors' settings: betas 0.9 and 0.98, epsilon 1e-8."""
        new = self.config.new_rate / self.config.rate if self.config.new_rate and self.config.rate else 1.0
        parts = [(slice(0, self.flat.split), 1.0), (slice(self.flat.split, None), new)]
        groups = [(torch.nn.Parameter(self.flat.values.data[part]), part, factor) for part, factor in parts]
        for values, part, _ in groups:
            values.grad = self.flat.gradient[part]
        return torch.optim.AdamW(
            [{"params": [values], "factor": factor} for values, _, factor in groups if len(values)],
            lr=self.config.rate,
            betas=(0.9, 0.98),
            weight_decay=self.config.weight_decay,
            fused=self.group.device.type == "cuda",
        )

    def _restore(self, init: Path | None, data: Path | None) -> int:
        """Load weights and optimizer state; returns the number of updates done. Only process 0 reads, so no shared disk is needed."""
        moments = {name: torch.zeros_like(self.flat.values.data) for name in MOMENTS}
        done = torch.zeros((), device=self.group.device)
        if self.group.main:
            done.fill_(self._load(moments, init, data))
        for tensor in (self.flat.values.data, *moments.values(), done):
            self.group.share(tensor)
        self.moments, start = moments, 0
        for (values,) in (group["params"] for group in self.optimizer.param_groups):
            part = slice(start, start := start + len(values))
            self.optimizer.state[values] = {
                "step": done.clone(),
                **{name: all_[part] for name, all_ in moments.items()},
            }
        return int(done)

    def _load(self, moments: dict[str, Tensor], init: Path | None, data: Path | None) -> int:
        """Load the newest checkpoint, or the initial weights, which grow to fit `data` if it is given."""
        weights = self.flat.slices(self.flat.values.data)
        if saved := checkpoint.checkpoints(self.run):
            self.origin = checkpoint.read_state(saved[-1]).get("origin")
            if init is not None and (self.origin or {}).get("sha256") != checkpoint.origin_of(init)["sha256"]:
                raise TrainingError(
                    f"{self.run} did not begin with the weights of {init}; give another folder with --run"
                )
            checkpoint.copy_into(weights, checkpoint.read_tensors(saved[-1] / WEIGHTS), saved[-1])
            checkpoint.copy_into(
                self._named(moments), checkpoint.read_tensors(saved[-1] / checkpoint.OPTIMIZER), saved[-1]
            )
            return int(checkpoint.read_state(saved[-1])["update"])
        if init is not None:
            self.origin = checkpoint.origin_of(init)
            if data is not None:
                values = grown(self.recipe, init, data)
            else:
                checkpoint.require_same_words(self.run, init)
                values = checkpoint.learned(init)
            checkpoint.initialise(weights, values, init)
        return 0

    def _named(self, moments: dict[str, Tensor]) -> dict[str, Tensor]:
        """The optimizer state of each parameter."""
        return {f"{key}/{name}": part for key in MOMENTS for name, part in self.flat.slices(moments[key]).items()}

    def _save(self) -> None:
        weights = self.flat.slices(self.flat.values.data)
        moments = self._named(self.moments)
        state = {"data": self.fingerprint, "origin": self.origin, "seconds": time.perf_counter() - self.began}
        checkpoint.save(self.run, self.done, weights, moments, state)
        checkpoint.prune(self.run, self.config.keep)
