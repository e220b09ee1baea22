"""The losses are what METHOD and paper say, computed here the long way round."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bethink.model.config import ModelConfig
from bethink.model.constraints import Constraints
from bethink.text import EOS, PAD
from bethink.train import losses
from bethink.train.data import Batch
from bethink.train.losses import LossConfig, Objective, bag_loss
from tests.models import BUILDS, FOREIGN, SMALL, random_model

SOURCE = torch.tensor([[5, 6, 7, 5, 8, EOS], [9, 4, EOS, PAD, PAD, PAD]])
TARGET = torch.tensor([[10, 11, 10, 12, EOS], [13, 14, EOS, PAD, PAD]])
PATH = torch.tensor([[1, 2, 4, 6, 6], [1, 3, 3, 3, 3]])


def objective(**weights: Any) -> Objective:
    torch.manual_seed(0)
    return Objective(random_model(BUILDS["post"]), LossConfig(**weights))


def test_likelihood_is_smoothed_cross_entropy() -> None:
    learner = objective(segment=0.0, token=0.0)
    parts = learner(Batch(SOURCE, TARGET, PATH))
    logits = learner.model.logits(learner.model.along(SOURCE, TARGET, PATH).output)
    expected = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), TARGET.flatten(), ignore_index=PAD, reduction="sum", label_smoothing=0.1
    )
    torch.testing.assert_close(parts["loss"], expected)
    assert parts["tokens"] == 8


def test_a_converted_model_learns_only_what_it_can_write() -> None:
    """Its prompts stand before source and target; ids that it does not have are neither expected nor smoothed over."""
    model = random_model(ModelConfig(20, 20, **SMALL, **FOREIGN))
    with torch.no_grad():
        model.output_bias[[11, 18, 19]] = -torch.inf
    parts = Objective(model, LossConfig())(Batch(SOURCE, TARGET, PATH))
    ids, inputs = (torch.tensor([[9], [9]]), SOURCE), (torch.tensor([[EOS, 7], [EOS, 7]]), TARGET[:, :-1])
    path = torch.cat([PATH[:, :1], PATH], dim=1) + 1
    logits = model.logits(model(torch.cat(ids, dim=1), torch.cat(inputs, dim=1), path).output)[:, 1:]
    scores, real = logits.log_softmax(dim=-1), (TARGET != PAD) & (TARGET != 11)
    wanted = scores.gather(2, TARGET[..., None]).squeeze(2)[real].sum()
    every = scores[..., [word for word in range(20) if word not in (11, 18, 19)]].sum(dim=-1)[real].sum()
    torch.testing.assert_close(parts["nll"], -wanted)
    torch.testing.assert_close(parts["loss"], -(0.9 * wanted + 0.1 / 20 * every))
    parts["loss"].backward()
    assert all(weight.grad is None or weight.grad.isfinite().all() for weight in model.parameters())


def slow_bag(logits: torch.Tensor, bag: list[int], size: int) -> torch.Tensor:
    logits = logits.clone()
    logits[PAD] = -torch.inf
    scores = logits.log_softmax(dim=0)
    total = torch.zeros(())
    for word in range(size):
        if word == PAD:
            continue
        share = 0.9 * bag.count(word) / len(bag) if word in bag else 0.1 / (size - 2)
        total = total - share * scores[word]
    return total


def test_bag_loss_is_the_smoothed_bag() -> None:
    torch.manual_seed(1)
    features, table = torch.randn(2, 5, 6), torch.randn(20, 6)
    sizes = torch.arange(5).expand(2, 5)
    valid = (TARGET != PAD) & (sizes > 0)
    expected = torch.zeros(())
    for b, length in enumerate([5, 3]):
        steps = [slow_bag(table @ features[b, t], TARGET[b, :t].tolist(), 20) for t in range(1, length)]
        expected = expected + torch.stack(steps).mean()
    torch.testing.assert_close(bag_loss(features, table, TARGET, sizes, valid), expected)


def test_token_loss_by_hand() -> None:
    learner = objective()
    model, heads = learner.model, learner.constraints
    forward = model.along(SOURCE, TARGET, PATH)
    past, rest = forward.routing.translated, forward.routing.untranslated
    total = torch.zeros(())
    for b, length in enumerate([5, 3]):
        written = [
            slow_bag(model.target_embedding.weight @ heads.target_bag(past[b, t]).tanh(), TARGET[b, :t].tolist(), 20)
            for t in range(1, length)
        ]
        read = [
            slow_bag(
                model.source_embedding.weight @ heads.source_bag(torch.cat([past[b, t], rest[b, t]])).tanh(),
                SOURCE[b, : PATH[b, t]].tolist(),
                20,
            )
            for t in range(length)
        ]
        total = total + torch.stack(written).mean() + torch.stack(read).mean()
    torch.testing.assert_close(losses.token_loss(heads, model, forward, SOURCE, TARGET, PATH), total)


def test_the_untranslated_capsules_may_have_to_tell_the_words_to_come() -> None:
    learner = objective(untranslated="coming")
    model, heads = learner.model, learner.constraints
    forward = model.along(SOURCE, TARGET, PATH)
    table, total = model.target_embedding.weight, torch.zeros(())
    for b, length in enumerate([5, 3]):
        words = TARGET[b, :length].tolist()
        written = [
            slow_bag(table @ heads.target_bag(forward.routing.translated[b, t]).tanh(), words[:t], 20)
            for t in range(1, length)
        ]
        coming = [
            slow_bag(table @ heads.coming_bag(forward.routing.untranslated[b, t]).tanh(), words[t:], 20)
            for t in range(length)
        ]
        total = total + torch.stack(written).mean() + torch.stack(coming).mean()
    torch.testing.assert_close(losses.token_loss(heads, model, forward, SOURCE, TARGET, PATH), total)


def test_segment_loss_by_hand() -> None:
    learner = objective()
    forward = learner.model.along(SOURCE, TARGET, PATH)
    heads: Constraints = learner.constraints
    total = torch.zeros(())
    for b, (length, words) in enumerate([(5, 6), (3, 3)]):
        h, z = forward.states[b], forward.memory[b]
        steps = []
        for t in range(length):
            past = h[:t].mean(dim=0) if t else torch.zeros(16)
            future = h[t:length].mean(dim=0)
            unread = z[PATH[b, t] : words].mean(dim=0) if PATH[b, t] < words else torch.zeros(16)
            left = forward.routing.translated[b, t] - heads.past(past)
            right = forward.routing.untranslated[b, t] + heads.unread(unread) - heads.future(future)
            steps.append(left.square().sum() + right.square().sum())
        total = total + torch.stack(steps).mean()
    torch.testing.assert_close(losses.segment_loss(heads, forward, SOURCE, TARGET, PATH), total)


def test_segment_targets_are_detached() -> None:
    learner = objective()
    forward = learner.model.along(SOURCE, TARGET, PATH)
    frozen = losses.Forward(
        forward.output,
        forward.states,
        forward.memory,
        type(forward.routing)(*(x.detach() for x in vars(forward.routing).values())),
    )
    losses.segment_loss(learner.constraints, frozen, SOURCE, TARGET, PATH).backward()
    assert all(parameter.grad is None for parameter in learner.model.parameters())


def test_parts_add_up_over_any_split() -> None:
    learner = objective()
    whole = learner(Batch(SOURCE, TARGET, PATH))
    parts = [learner(Batch(SOURCE[b : b + 1], TARGET[b : b + 1], PATH[b : b + 1])) for b in range(2)]
    for name, value in whole.items():
        torch.testing.assert_close(sum(part[name] for part in parts), value)


def test_slices_have_the_same_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    gradients = []
    for chunk in (1 << 28, 1):
        monkeypatch.setattr(losses, "CHUNK", chunk)
        learner = objective()
        learner(Batch(SOURCE, TARGET, PATH))["loss"].backward()
        gradients.append(torch.cat([parameter.grad.flatten() for parameter in learner.parameters()]))
    torch.testing.assert_close(*gradients)


def test_a_target_of_one_token_is_no_division_by_zero() -> None:
    learner = objective()
    parts = learner(Batch(SOURCE[:1], torch.tensor([[EOS]]), torch.tensor([[6]])))
    assert all(torch.isfinite(value).all() for value in parts.values())


def test_degree_loss_by_hand() -> None:
    """A token that may be read and has a partner should have degree 1 once the partner is written, and 0 before."""
    learner = objective(degree=1.0)
    links = torch.tensor([[2, 0, 1, 4, 0, 5], [0, 1, 3, 0, 0, 0]])
    batch = Batch(SOURCE, TARGET, PATH, source_links=links)
    forward = learner.model.along(SOURCE, TARGET, PATH)
    assert forward.routing is not None
    expected = torch.zeros(())
    for b, length in enumerate([5, 3]):
        for t in range(length):
            for i in range(int(PATH[b, t])):
                if links[b, i]:
                    d = forward.routing.degrees[b, t, i]
                    expected = expected - (d if links[b, i] <= t else 1 - d).log()
    torch.testing.assert_close(learner(batch)["degree"], expected.detach())


def test_losses_without_weight_are_not_computed() -> None:
    assert set(objective(segment=0.0, token=0.0)(Batch(SOURCE, TARGET, PATH))) == {"loss", "nll", "tokens"}
