"""A model learns from its own translations whether its words will stand, and is otherwise the model it was."""

from __future__ import annotations

import dataclasses
import random
import re
from pathlib import Path

import pytest
import torch

from bethink import toy
from bethink.backend import Row, Rows
from bethink.backend.torch import TorchBackend
from bethink.cli import main
from bethink.errors import DataError, TrainingError, UsageError
from bethink.export import CARD, export
from bethink.folder import DECODER, WEIGHTS, Folder
from bethink.model.judge import NEAR, untranslated
from bethink.model.transformer import Transformer
from bethink.text import EOS
from bethink.train import judge as judging
from bethink.train.judge import ACCEPTED, Examples, LiveTranslation, gather, judge, learn, print_nothing, sample_lines
from bethink.train.loop import train
from bethink.train.prepare import TOY_SEEDS
from bethink.train.recipe import Recipe
from bethink.train.units import Units, count_tokens
from bethink.translator import Translator
from tests.models import BUILDS, random_model
from tests.test_export import trained
from tests.train.conftest import SMALL

TOY = Path("toy")
LINES = [" ".join(random.Random(seed).choices("abcdefgh", k=5 + seed % 7)) + " ." for seed in range(60)]


def test_what_is_untranslated_is_counted_in_all_and_at_the_end() -> None:
    degrees = torch.zeros(1, 2, 9)
    degrees[0, :, 0] = 1.0
    degrees[0, 1, 7] = 0.25
    left, near = untranslated(degrees, torch.tensor([[3, 8]]))
    assert left.tolist() == [[2.0, 6.75]]
    assert near.tolist() == [[2.0, NEAR - 0.25]]


@pytest.mark.parametrize("build", ["judged", "plain-judged"])
def test_what_was_learned_is_what_the_model_judges_by(build: str) -> None:
    model = random_model(BUILDS[build])
    width = model.config.width
    torch.manual_seed(1)
    scalars = torch.rand(4000, 3) * torch.tensor([-3.0, 2.0, 1.0])
    if model.capsules is None:
        scalars[:, 1:] = 0
    rows = torch.randn(4000, width) * 3 + 1
    stable = (rows[:, 0] - 1 + scalars[:, 0] + 1 > 0) ^ (torch.rand(4000) < 0.05)
    examples = Examples(torch.cat([rows, scalars], dim=1).half(), stable, torch.arange(4000) // 4)
    verdict = learn(model, examples, print_nothing)
    assert verdict.examples == 400
    assert verdict.judged is not None
    assert verdict.judged > 0.9
    assert verdict.confidence is not None
    assert verdict.confidence < 0.8
    assert verdict.error < 0.2
    assert model.judge is not None
    path = torch.full((1, 4000), 9)
    degrees = None
    if model.capsules is not None:  # such that what is left of the source is what the features say of it
        left, near = scalars[:, 1].expm1(), scalars[:, 2].expm1().minimum(scalars[:, 1].expm1())
        degrees = torch.zeros(1, 4000, 9)
        degrees[0, :, 8] = NEAR - near
        degrees[0, :, 0] = 9 - NEAR - (left - near)
    with torch.no_grad():
        judged = model.judge(rows[None], scalars[None, :, 0].exp(), degrees, path)[0]
    assert ((judged > 0.5) == stable).float().mean() > 0.85


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("kept", [True, False], ids=["weights", "graphs alone"])
def test_a_judge_is_added_and_nothing_else_changes(kept: bool, precision: str, tmp_path: Path) -> None:
    source = export(trained(tmp_path / "source", policy="weigh"), tmp_path / "model", weights=kept, precision=precision)
    verdict = judge(source, LINES, tmp_path / "judged", device="cpu", threads=1)
    assert 0 < verdict.stability < 1
    assert (tmp_path / "judged" / CARD).read_text("utf-8").startswith((source / CARD).read_text("utf-8"))
    folder = Folder.open(tmp_path / "judged")
    assert folder.model == dataclasses.replace(Folder.open(source).model, judge=judging.HIDDEN)
    assert folder.has(DECODER)
    assert folder.has(WEIGHTS) is kept
    before, after = Translator(source, threads=1), Translator(tmp_path / "judged", threads=1)
    same, other = (
        [t.translate(line, policy=policy) for line in LINES]
        for t, policy in ((before, "wait-k:2"), (after, "wait-k:2"))
    )
    assert same == other
    if kept and precision == "float32":
        torches = Translator(tmp_path / "judged", backend="torch", device="cpu", threads=1)
        for line in LINES[:10]:
            assert torches.translate(line, policy="weigh:k=1,rho=0.7") == after.translate(
                line, policy="weigh:k=1,rho=0.7"
            )


def distributions(model: Transformer, spoken: LiveTranslation) -> torch.Tensor:
    """T V: how likely each token is at each place, with the whole source and the tokens written."""
    ids = torch.tensor([[EOS, *spoken.target[:-1]]])
    with torch.no_grad():
        forward = model(torch.tensor([spoken.source]), ids, torch.full(ids.shape, len(spoken.source)))
        return model.scores(forward.output, torch.arange(ids.shape[1])[None])[0].softmax(dim=-1)


def test_other_prefixes_end_with_a_word() -> None:
    words = torch.tensor([[0, 0, 1, 2, 2, 2, 3]])  # of the source tokens; the last is its end
    units = Units(words, torch.tensor([4]), torch.tensor([[0, 0, 1, 2]]))
    path = torch.tensor([[2, 2, 3, 6]])
    generator = torch.Generator().manual_seed(1)
    made = [judging._nearby(path, units, generator)[0].tolist() for _ in range(200)]
    assert {end for path in made for end in path} == {2, 3, 6, 7}
    assert all(one[0] == one[1] and one == sorted(one) for one in made), "a word is written with one prefix"


def rows(model: Transformer, spoken: LiveTranslation, path: list[int]) -> list[Row]:
    backend = TorchBackend(model)
    slot = backend.open()
    backend.read([(slot, spoken.source)])
    return backend.step([Rows(slot, 0, (EOS, *spoken.target[:-1]), tuple(path))])[0]


def test_a_proposal_is_stable_if_it_is_likely_having_heard_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is learned from, against rows computed one sentence at a time; an end that comes early is not judged."""
    monkeypatch.setattr(judging, "PROPOSALS", 1)
    monkeypatch.setattr(judging, "_nearby", lambda path, *_: path)
    model, chance = random_model(BUILDS["pre"], seed=4), random.Random(3)
    spoken = []
    for length in (4, 9, 9, 13, 20):
        source, target = ([*chance.choices(range(3, 20), k=length), EOS] for _ in range(2))
        spoken.append(LiveTranslation(source, target, sorted(chance.choices(range(1, length + 2), k=length + 1))))
    examples = gather(model, spoken, count_tokens, 1, print_nothing)
    seen = synonyms = 0
    for number, one in enumerate(spoken):
        proposed, whole = rows(model, one, one.path), rows(model, one, [len(one.source)] * len(one.path))
        counted = [t for t, g in enumerate(one.path) if g < len(one.source) and proposed[t].candidate != EOS]
        mine = examples.sentence == number
        chances = distributions(model, one)
        ratios = [float(chances[t, proposed[t].candidate] / chances[t].max()) for t in counted]
        assert examples.stable[mine].tolist() == [ratio >= ACCEPTED for ratio in ratios]
        synonyms += sum(
            ratio >= ACCEPTED and proposed[t].candidate != whole[t].candidate
            for t, ratio in zip(counted, ratios, strict=True)
        )
        sure = examples.features[mine, model.config.width].float().exp().tolist()
        assert sure == pytest.approx([proposed[t].confidence for t in counted], rel=2e-3)
        seen += len(counted)
    assert seen == len(examples.stable) > 20
    assert synonyms > 0
    assert 0 < examples.stable.float().mean() < 1


def test_a_judge_takes_the_place_of_another(tmp_path: Path) -> None:
    source = trained(tmp_path / "source", BUILDS["judged"], policy="weigh")
    judge(source, LINES, tmp_path / "made", device="cpu", threads=1)
    assert Folder.open(tmp_path / "made").model.judge == judging.HIDDEN != BUILDS["judged"].judge


def test_mistakes_are_told(tmp_path: Path) -> None:
    source = trained(tmp_path / "source", policy="weigh")
    with pytest.raises(UsageError, match="already exists"):
        judge(source, LINES, source)
    with pytest.raises(TrainingError, match="nothing to learn"):
        judge(source, [" ", ""], tmp_path / "made", device="cpu")
    with pytest.raises(TrainingError, match="too little"):
        judge(source, LINES[:1], tmp_path / "made", device="cpu")
    assert not (tmp_path / "made").exists()


def test_lines_are_drawn_from_text_or_from_what_was_prepared(tmp_path: Path, toy_data: Path) -> None:
    text = tmp_path / "text"
    text.write_text("\n".join(LINES), "utf-8")
    assert sample_lines(text, 5, 1, TOY) == sample_lines(text, 5, 1, TOY) != sample_lines(text, 5, 2, TOY)
    assert set(sample_lines(text, 5, 1, TOY)) <= set(LINES)
    assert len(sample_lines(text, 1000, 1, TOY)) == len(LINES)
    run = train(Recipe.load("tiny", SMALL), toy_data, tmp_path / "run")
    taken = sample_lines(toy_data, 20, 1, run)
    assert len(taken) == 20
    assert set(taken) <= {pair.source for pair in toy.sentences(200, TOY_SEEDS["train"])}
    with pytest.raises(DataError, match="holds no prepared data"):
        sample_lines(tmp_path, 5, 1, run)
    with pytest.raises(UsageError, match="was prepared with another source vocabulary than that of de-en"):
        sample_lines(toy_data, 5, 1, Path("de-en"))


def test_who_has_a_judge_has_a_name_of_its_own_and_asks_it(tmp_path: Path) -> None:
    plain = trained(tmp_path / "plain", policy="wait-k:3")
    for source, made in ((plain, "made"), (tmp_path / "made", "again")):
        judge(source, LINES, tmp_path / made, device="cpu", threads=1)
        folder = Folder.open(tmp_path / made)
        assert (folder.name, folder.policy) == (f"{Folder.open(plain).name}-judged", judging.RECOMMENDED)
    asking = trained(tmp_path / "asking", policy="weigh:k=2")
    judge(asking, LINES, tmp_path / "kept", device="cpu", threads=1)
    assert Folder.open(tmp_path / "kept").policy == Folder.open(asking).policy


def helped(said: str) -> bool:
    """Whether the judge, as it was told, judged better than the model's confidence."""
    found = re.search(r"AUC of the judge (.*), of the model's confidence (.*); calibration error", said)
    assert found
    return float(found[1]) > float(found[2])


@pytest.mark.parametrize(("judged", "confidence", "helps"), [(0.9, 0.8, True), (0.7, 0.8, False), (None, None, True)])
def test_a_judge_helps_who_knows_more_than_confidence(judged: float, confidence: float, helps: bool) -> None:
    assert judging.Verdict(10, 0.5, judged, confidence, 0.1).helps is helps


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = trained(tmp_path / "source", policy="weigh")
    (tmp_path / "text").write_text("\n".join(LINES), "utf-8")
    code = main(
        ["judge", str(source), "--source", str(tmp_path / "text"), "--to", str(tmp_path / "made"), "--device", "cpu"]
    )
    told = capsys.readouterr()
    assert code == 0
    assert told.out.strip() == str(tmp_path / "made")
    assert "AUC of the judge" in told.err
    assert f"{len(LINES)} lines are few for a judge" in told.err
    assert ("no better than confidence" in told.err) is (not helped(told.err))
    assert Folder.open(tmp_path / "made").model.judge
