from __future__ import annotations

import errno
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from bethink import folder
from bethink.errors import DataError, MissingExtra, TrainingError, UsageError
from bethink.train import checkpoint, log, loop
from bethink.train.data import Batch
from bethink.train.losses import Objective
from bethink.train.recipe import Recipe

SOURCE = str(Path(loop.__file__).parents[2])  # where a child process finds bethink
Small = Callable[..., Recipe]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def same(run: Path, other: Path) -> bool:
    """Whether two runs ended in the same bits: weights and optimizer."""
    ends = [checkpoint.checkpoints(path)[-1] for path in (run, other)]
    return all(
        (ends[0] / file).read_bytes() == (ends[1] / file).read_bytes()
        for file in (folder.WEIGHTS, checkpoint.OPTIMIZER)
    )


def untimed(run: Path) -> list[dict[str, object]]:
    return [{key: value for key, value in record.items() if key != "tokens/s"} for record in log.read(run)]


@pytest.mark.parametrize("system", ["multi-path", "ped"])
def test_resumed_equals_uninterrupted_to_the_bit(tmp_path: Path, toy_data: Path, small: Small, system: str) -> None:
    loop.train(small(f"system={system}"), toy_data, tmp_path / "whole")
    loop.train(small(f"system={system}", "train.updates=2"), toy_data, tmp_path / "parts")
    loop.train(small(f"system={system}"), toy_data, tmp_path / "parts")
    assert same(tmp_path / "whole", tmp_path / "parts")
    whole = [record for record in untimed(tmp_path / "whole") if record["kind"] == "train"]
    assert whole == [record for record in untimed(tmp_path / "parts") if record["kind"] == "train"]
    assert [record["update"] for record in whole] == [2, 4, 6]


def test_killed_in_mid_training_it_goes_on_to_the_same_bits(tmp_path: Path, toy_data: Path, small: Small) -> None:
    long = ("train.updates=60", "train.validate=60")
    program = (  # which at half its way waits to be killed, in case that nobody came before
        "import signal, sys, torch; from pathlib import Path; from bethink.train import loop; from bethink.train.recipe import Recipe;"
        "rate = loop.learning_rate; loop.learning_rate = lambda config, done, spent: rate(config, done) if done < 30 else signal.pause();"
        "torch.set_num_threads(1); loop.train(Recipe.read(Path(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[3]))"
    )
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps(small(*long, "train.save=3").to_dict()))
    arguments = [sys.executable, "-c", program, str(recipe), str(toy_data), str(tmp_path / "killed")]
    child = subprocess.Popen(arguments, env={**os.environ, "PYTHONPATH": SOURCE}, stderr=subprocess.DEVNULL)
    while not checkpoint.checkpoints(tmp_path / "killed"):
        assert child.poll() is None, "the run ended before it could be killed"
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    done = checkpoint.read_state(checkpoint.checkpoints(tmp_path / "killed")[-1])["update"]
    assert done <= 30
    loop.train(small(*long, "train.save=50"), toy_data, tmp_path / "killed")
    loop.train(small(*long, "train.save=50"), toy_data, tmp_path / "whole")
    assert same(tmp_path / "killed", tmp_path / "whole")


def test_parts_add_up_to_the_whole(tmp_path: Path, toy_data: Path, small: Small) -> None:
    """Gradients accumulated over parts of a bucket give the update of the whole bucket."""
    gradients = {}
    for split in (1, 3):
        run = tmp_path / str(split)
        loop.train(small("model.dropout=0.0", f"train.split={split}", "system=ped"), toy_data, run)
        gradients[split] = checkpoint.read_tensors(checkpoint.checkpoints(run)[-1] / checkpoint.OPTIMIZER)
    for name, tensor in gradients[
        1
    ].items():  # of weights only after Adam, which blows up the noise where there is no gradient
        torch.testing.assert_close(gradients[3][name], tensor, rtol=1e-3, atol=1e-6)


def test_it_learns(tmp_path: Path, toy_data: Path, small: Small) -> None:
    run = tmp_path / "run"
    loop.train(small("train.updates=60", "train.rate=5e-3", "train.validate=30", "train.save=30"), toy_data, run)
    first, last = (record for record in log.read(run) if record["kind"] == "dev")
    assert set(first) == {"kind", "update", "wait-1", "wait-3", "wait-5", "wait-9", "full", "perplexity"}
    assert last["full"] < first["full"] < math.log(500)
    assert last["perplexity"] == pytest.approx(math.exp(last["full"]), rel=1e-4)


def test_half_precision_learns_about_the_same(tmp_path: Path, toy_data: Path, small: Small) -> None:
    losses = []
    for precision in ("float32", "bfloat16"):
        loop.train(small("system=ped", f"train.precision={precision}"), toy_data, tmp_path / precision)
        losses.append(log.read(tmp_path / precision)[-1]["full"])
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.01)


def test_a_bidirectional_encoder_is_validated_with_the_whole_source_only(
    tmp_path: Path, toy_data: Path, small: Small
) -> None:
    loop.train(small("system=offline-bidirectional"), toy_data, tmp_path / "run")
    assert set(log.read(tmp_path / "run")[-1]) == {"kind", "update", "full", "perplexity"}


def test_the_model_folder_is_whole_and_opens(tmp_path: Path, toy_data: Path, small: Small) -> None:
    made = folder.Folder.open(loop.train(small("system=ped", "train.average=2"), toy_data, tmp_path / "run"))
    assert made.model.capsules is not None
    assert made.model.source_vocabulary == len(made.source)
    assert made.policy.startswith("pe:")
    assert made.about["checkpoints"] == ["step-00000004", "step-00000006"]
    ends = [checkpoint.read_tensors(path / folder.WEIGHTS) for path in checkpoint.checkpoints(tmp_path / "run")[-2:]]
    mean = checkpoint.read_tensors(made.path / folder.WEIGHTS)
    assert {f"model.{name}" for name in mean} == {name for name in ends[0] if name.startswith("model.")}
    for name, tensor in mean.items():
        torch.testing.assert_close(tensor, (ends[0][f"model.{name}"] + ends[1][f"model.{name}"]) / 2)


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path, toy_data: Path, small: Small) -> None:
    loop.train(small("train.keep=2", "train.average=1"), toy_data, tmp_path / "run")
    assert [path.name for path in checkpoint.checkpoints(tmp_path / "run")] == ["step-00000004", "step-00000006"]


def test_a_finished_run_is_left_as_it_is(tmp_path: Path, toy_data: Path, small: Small) -> None:
    loop.train(small(), toy_data, tmp_path / "run")
    before = [path.stat().st_mtime_ns for path in checkpoint.checkpoints(tmp_path / "run")]
    loop.train(small(), toy_data, tmp_path / "run")
    assert [path.stat().st_mtime_ns for path in checkpoint.checkpoints(tmp_path / "run")] == before


def test_fine_tuning_begins_with_the_weights_of_another_run(tmp_path: Path, toy_data: Path, small: Small) -> None:
    loop.train(small(), toy_data, tmp_path / "first")
    still = ("train.rate=0", "train.warmup=0", "train.updates=1")
    ped = loop.train(small("system=ped", *still), toy_data, tmp_path / "second", init=tmp_path / "first")
    learned = checkpoint.read_tensors(tmp_path / "first" / "model" / folder.WEIGHTS)
    given = checkpoint.read_tensors(ped / folder.WEIGHTS)
    assert learned.keys() < given.keys()
    for name, tensor in learned.items():
        assert torch.equal(given[name], tensor), name


def test_fine_tuning_what_does_not_fit_is_refused(tmp_path: Path, toy_data: Path, small: Small) -> None:
    loop.train(small("train.updates=1"), toy_data, tmp_path / "first")
    with pytest.raises(TrainingError, match=r"is .* x 16, but this recipe makes it .* x 32"):
        loop.train(small("model.width=32"), toy_data, tmp_path / "second", init=tmp_path / "first")
    words = tmp_path / "first" / "source.txt"
    words.write_text("\n".join(reversed(words.read_text().split())) + "\n")
    with pytest.raises(TrainingError, match="not the vocabulary of this data"):
        loop.train(small(), toy_data, tmp_path / "other", init=tmp_path / "first")
    with pytest.raises(TrainingError, match="neither a run"):
        loop.train(small(), toy_data, tmp_path / "third", init=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["first"], "nothing is left of a run that could not begin"


def test_another_recipe_or_other_data_do_not_go_on_with_a_run(tmp_path: Path, toy_data: Path, small: Small) -> None:
    loop.train(small(), toy_data, tmp_path / "run")
    with pytest.raises(TrainingError, match=r"model.width: 16 → 32"):
        loop.train(small("model.width=32"), toy_data, tmp_path / "run")
    data = tmp_path / "data"
    shutil.copytree(toy_data, data)
    about = json.loads((data / "manifest.json").read_text())
    (data / "manifest.json").write_text(json.dumps({**about, "fingerprint": "another"}))
    with pytest.raises(TrainingError, match="other data"):
        loop.train(small(), data, tmp_path / "run")
    with pytest.raises(TrainingError, match="is not a run"):
        loop.train(small(), toy_data, tmp_path)


def test_a_run_from_before_a_setting_was_there_goes_on(tmp_path: Path, toy_data: Path, small: Small) -> None:
    loop.train(small(), toy_data, tmp_path / "run")
    path = tmp_path / "run" / "recipe.json"
    values = json.loads(path.read_text())
    del values["data"]["unique"], values["text"]["sample"]
    path.write_text(json.dumps(values))
    loop.train(small(), toy_data, tmp_path / "run")
    assert json.loads(path.read_text())["data"]["unique"] is False


class Broken(Objective):
    """An objective that goes wrong in the middle of training."""

    calls = 0

    def forward(self, batch: Batch) -> dict[str, torch.Tensor]:
        parts = super().forward(batch)
        if self.training:
            Broken.calls += 1
            if Broken.calls > 2 * 3:  # two buckets per update
                parts["loss"] = parts["loss"] * math.nan
        return parts


def test_a_loss_that_is_not_finite_stops_training(
    tmp_path: Path, toy_data: Path, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "Objective", Broken)
    monkeypatch.setattr(Broken, "calls", 0)
    with pytest.raises(TrainingError, match=r"at update 4; the last checkpoint is .*step-00000002.*train\.rate"):
        loop.train(small(), toy_data, tmp_path / "run")
    assert [path.name for path in checkpoint.checkpoints(tmp_path / "run")] == ["step-00000002"]


def test_a_full_disk_keeps_the_checkpoint_before(
    tmp_path: Path, toy_data: Path, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop.train(small("train.updates=2"), toy_data, tmp_path / "run")
    before = sorted(tmp_path.rglob("checkpoints/*"))

    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "write_atomically", full)
        with pytest.raises(TrainingError, match=r"No space left on device.*untouched: make room"):
            loop.train(small(), toy_data, tmp_path / "run")
    assert sorted(tmp_path.rglob("checkpoints/*")) == before
    loop.train(small(), toy_data, tmp_path / "run")
    loop.train(small(), toy_data, tmp_path / "whole")
    assert same(tmp_path / "run", tmp_path / "whole")


def test_room_is_asked_for_only_where_it_lacks(tmp_path: Path) -> None:
    run = tmp_path / ("r" * 300)
    with pytest.raises(TrainingError, match="could not be written to .*make this folder writable or choose another"):
        checkpoint.save(run, 1, {}, {}, {})


def test_tensorboard_is_written_when_asked_for(tmp_path: Path, toy_data: Path, small: Small) -> None:
    pytest.importorskip("tensorboard")
    loop.train(small("train.tensorboard=true", "train.updates=2"), toy_data, tmp_path / "run")
    assert list((tmp_path / "run" / "tensorboard").iterdir())


def test_tensorboard_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtra, match="needs the 'train' extra"):
        log.Log(tmp_path, 0, 1, tensorboard=True)


def test_an_unknown_device_is_told(tmp_path: Path, toy_data: Path, small: Small) -> None:
    with pytest.raises(UsageError, match="no device named"):
        loop.train(small(), toy_data, tmp_path / "run", device="gpu")


@pytest.mark.parametrize("schedule", ["inverse-sqrt", "linear", "cosine"])
def test_the_learning_rate_rises_then_falls(schedule: str) -> None:
    config = Recipe.load(
        "tiny", [f"train.schedule={schedule}", "train.warmup=10", "train.rate=1", "train.updates=100"]
    ).train
    rates = [loop.learning_rate(config, done) for done in range(101)]
    assert rates[0] == pytest.approx(1e-7)
    assert rates[:11] == sorted(rates[:11])
    assert max(rates) == rates[10] == pytest.approx(1)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[100] == pytest.approx(math.sqrt(0.1) if schedule == "inverse-sqrt" else 0, abs=1e-9)


def test_a_run_ends_when_its_time_is_over_with_its_rate_at_zero(
    tmp_path: Path, toy_data: Path, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(range(0, 10_000, 3))  # seconds
    monkeypatch.setattr(loop.time, "perf_counter", lambda: next(now))
    monkeypatch.setattr(loop, "CLOCK", 2)
    settings = (
        "train.minutes=1",
        "train.updates=500",
        "train.schedule=linear",
        "train.warmup=0",
        "train.log=2",
        "train.save=4",
    )
    recipe = small(*settings)
    model = loop.train(recipe, toy_data, tmp_path / "run")
    rates = [record["rate"] for record in log.read(tmp_path / "run") if record["kind"] == "train"]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == 0
    last = checkpoint.checkpoints(tmp_path / "run")[-1]
    state = checkpoint.read_state(last)
    assert state["update"] == 2 * len(rates) < 500
    assert state["seconds"] >= 60
    assert "seconds" not in folder.Folder.open(model).about
    before = (model / folder.WEIGHTS).read_bytes()
    loop.train(recipe, toy_data, tmp_path / "run")  # goes on where it stopped: at its end
    assert checkpoint.checkpoints(tmp_path / "run")[-1] == last
    assert (model / folder.WEIGHTS).read_bytes() == before


def test_clipping_bounds_the_step(tmp_path: Path, toy_data: Path, small: Small) -> None:
    runs = {}
    for clip in (0, 1e-9):
        loop.train(small(f"train.clip={clip}", "train.updates=1"), toy_data, tmp_path / str(clip))
        moments = checkpoint.read_tensors(checkpoint.checkpoints(tmp_path / str(clip))[-1] / checkpoint.OPTIMIZER)
        runs[clip] = math.sqrt(sum(float(tensor.square().sum()) for name, tensor in moments.items() if "avg/" in name))
    assert runs[0] > 1e-4
    assert runs[1e-9] <= 1.01e-10  # the first moment keeps a tenth of the gradient


@pytest.mark.parametrize("file", ["recipe.json", "data.json"])
def test_a_damaged_run_is_one_sentence(tmp_path: Path, toy_data: Path, small: Small, file: str) -> None:
    loop.train(small("train.updates=2"), toy_data, tmp_path / "run")
    (tmp_path / "run" / file).write_text("{")
    with pytest.raises(TrainingError, match=file):
        loop.train(small("train.updates=2"), toy_data, tmp_path / "run")


def test_a_run_remembers_where_it_began(tmp_path: Path, toy_data: Path, small: Small) -> None:
    first, second = (
        loop.train(small(f"train.seed={n}", "train.updates=2"), toy_data, tmp_path / str(n)) for n in (1, 2)
    )
    with pytest.raises(TrainingError, match="neither a run"):
        loop.train(small("system=ped"), toy_data, tmp_path / "ped", tmp_path / "nowhere")
    assert not (tmp_path / "ped").exists()
    loop.train(small("system=ped"), toy_data, tmp_path / "ped", first)
    assert checkpoint.read_state(checkpoint.checkpoints(tmp_path / "ped")[0])["origin"]["from"] == "1"
    with pytest.raises(TrainingError, match="did not begin with"):
        loop.train(small("system=ped"), toy_data, tmp_path / "ped", second)
    assert checkpoint.checkpoints(tmp_path / "ped"), "a run that was there before stays"
    heads = checkpoint.learned(tmp_path / "ped")
    assert any(name.startswith("constraints.") for name in heads)


def test_a_degree_taught_by_links_needs_links(toy_data: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.align=true"):
        loop.train(Recipe.load("tiny", ["system=ped", "losses.degree=1"]), toy_data, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_slow_beginning_is_announced(
    tmp_path: Path, toy_data: Path, small: Small, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loop.train(small(), toy_data, tmp_path / "fast")
    assert "an update takes" not in capsys.readouterr().err
    monkeypatch.setattr(loop, "PATIENCE", 0.0)
    loop.train(small(), toy_data, tmp_path / "slow")
    assert "s here, all of them about 0 min; a line follows every 2 updates" in capsys.readouterr().err
