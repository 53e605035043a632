"""Routing: choices, penalties, load and its balance."""

from __future__ import annotations

import math

import pytest
import torch
from zoo import ZOO

from anyformer.data import IGNORED
from anyformer.describe import UserError
from anyformer.model import build
from anyformer.objectives import CausalObjective
from anyformer.parts import (
    Capacity,
    Correction,
    Hashed,
    Router,
    Sampled,
    TopK,
)
from anyformer.parts.balance import Auxiliary, Load, balance_loss, picked, router_z_loss
from anyformer.parts.noise import Noise
from anyformer.parts.router import corrected, rebalance
from parts.mixture import B, K, T, X, examples, experts_of, of, tokens


def test_a_correction_chooses_and_does_not_weigh():
    router = Router(score="sigmoid", choice=TopK(correction=Correction()))
    model, x = build(of(router=router)).eval(), tokens()
    correction = experts_of(model).router.correction
    free = Auxiliary()
    before = model(x, auxiliary=free)
    with torch.no_grad():
        correction.add_(0.3)
        assert torch.equal(model(x), before), "the same for all changes no order, and no weight"
        correction[4] += 5
    held = Auxiliary()
    model(x, auxiliary=held)
    path = "decoder.layers.0.experts.sublayer"
    assert held.loads[path].chosen[4] == B * T > free.loads[path].chosen[4]


def test_the_penalties_equal_their_formulas():
    torch.manual_seed(0)
    logits = torch.randn(10, X, dtype=torch.float64)
    counted = torch.tensor([True] * 7 + [False] * 3)
    probabilities, chosen = logits.softmax(-1), logits.topk(K).indices
    expected, z = 0.0, 0.0
    for e in range(X):
        f = sum(e in chosen[t].tolist() for t in range(7)) / 7
        expected += X * f * sum(probabilities[t, e].item() for t in range(7)) / 7
    for t in range(7):
        z += math.log(sum(math.exp(v) for v in logits[t].tolist())) ** 2 / 7
    assert balance_loss(probabilities, picked(chosen, X), counted).item() == pytest.approx(expected)
    assert router_z_loss(logits, counted).item() == pytest.approx(z)
    even = torch.full((X, X), 1 / X)
    in_turn = torch.stack([torch.arange(X), torch.arange(X).roll(1)], 1)
    assert balance_loss(even, picked(in_turn, X), torch.ones(X, dtype=torch.bool)).item() == pytest.approx(K)
    nothing = torch.zeros(10, dtype=torch.bool)
    assert balance_loss(probabilities, picked(chosen, X), nothing) == 0 == router_z_loss(logits, nothing)


def test_penalties_are_per_layer_and_ignore_padding_and_ignored_targets():
    model, x = build(of(layers=2)).eval(), tokens()
    valid = torch.ones(B, T, dtype=torch.bool)
    valid[:, 7:] = False
    found = Auxiliary(valid)
    model(x, auxiliary=found)
    assert list(found.reports) == [f"decoder.layers.{i}.experts.sublayer" for i in range(2)]
    first, second = found.reports.values()
    assert first.balance != second.balance
    assert found.balance == first.balance + second.balance
    # Tokens look back only, so those that do not count could as well not be there; nor does padding in front.
    for read, more in (
        (x[:, :7], {}),
        (torch.cat([x[:, :3], x[:, :7]], 1), {"padding": (torch.arange(10) < 3).expand(B, 10)}),
    ):
        alone = Auxiliary()
        model(read, auxiliary=alone, **more)
        for path, report in alone.reports.items():
            torch.testing.assert_close(report.balance, found.reports[path].balance)
            torch.testing.assert_close(report.router_z, found.reports[path].router_z)
            assert torch.equal(report.load.chosen, found.reports[path].load.chosen)
            assert report.load.chosen.sum() == K * B * 7


def test_the_objective_adds_means_weighed_by_tokens():
    model, x = build(of(layers=2)).train(), tokens()
    targets = x.roll(-1, 1)
    targets[:, -3:] = IGNORED
    given, found = examples(x, targets), Auxiliary(targets != IGNORED)
    plain = CausalObjective().loss(model, given, None, found)
    both = CausalObjective(balance_loss=0.1, router_z_loss=0.02)
    tokens_ = (targets != IGNORED).sum()
    torch.testing.assert_close(both.loss(model, given, None), plain + tokens_ * (0.1 * found.balance + 0.02 * found.router_z))
    assert both.without_penalties.loss(model, given, None) == plain


@pytest.mark.parametrize(
    "objective", [CausalObjective(), CausalObjective(balance_loss=1.0), CausalObjective(router_z_loss=1.0)]
)
def test_gradients_reach_the_router(objective):
    model, x = build(of()).train(), tokens()
    (objective.loss(model, examples(x), None) / x.numel()).backward()
    plain = build(of()).train()
    (CausalObjective().loss(plain, examples(x), None) / x.numel()).backward()
    gradient, without = experts_of(model).router.weight.grad, experts_of(plain).router.weight.grad
    assert gradient.isfinite().all()
    assert gradient.abs().max() > 0
    assert torch.equal(gradient, without) == (objective == CausalObjective())


def test_recomputation_doubles_neither_penalties_nor_counts():
    from torch.utils.checkpoint import checkpoint

    objective, x = CausalObjective(balance_loss=0.3, router_z_loss=0.1), tokens()
    found = []
    for recompute in (False, True):
        model = build(of(layers=2)).train()
        if recompute:
            for block in model.decoder.layers:
                inner = block.forward
                block.forward = lambda *given, f=inner: checkpoint(f, *given, use_reentrant=False)
        auxiliary, routed = Auxiliary(), []
        experts_of(model).router.register_forward_hook(lambda *given, count=routed: count.append(1))
        loss = objective.loss(model, examples(x), None, auxiliary)
        loss.backward()
        assert len(routed) == (2 if recompute else 1)
        found.append((loss, [load.chosen for load in auxiliary.loads.values()], [p.grad for p in model.parameters()]))
    (loss, choices, gradients), (again, choices_again, gradients_again) = found
    assert loss == again
    assert all(torch.equal(a, b) for a, b in zip(choices, choices_again, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(gradients, gradients_again, strict=True))


def test_penalties_without_routers_are_refused():
    dense = ZOO["llama"]
    with pytest.raises(UserError, match="balance_loss"):
        CausalObjective(balance_loss=0.1).loss(build(dense), examples(tokens()), None)


def test_the_correction_moves_the_load_to_balance():
    assert corrected(torch.zeros(3), torch.tensor([5, 1, 3]), 0.1).tolist() == pytest.approx([-0.1, 0.1, 0])
    skewed = torch.rand(400, X, generator=torch.Generator().manual_seed(0)) + torch.arange(X) * 0.15
    correction, shares = torch.zeros(X), []
    for _ in range(300):
        chosen = (skewed + correction).topk(K).indices
        counts = picked(chosen, X).sum(0)
        shares.append(counts.max().item() / counts.sum().item() * X)
        correction = corrected(correction, counts, 0.01)
    assert shares[0] > 2
    assert shares[-1] < 1.15


def test_rebalancing_moves_only_corrections():
    router = Router(score="sigmoid", choice=TopK(correction=Correction(rate=0.25)))
    model = build(of(layers=2, router=router))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    counts = {f"decoder.layers.{i}.experts.sublayer": torch.arange(X).roll(i) for i in range(2)}
    rebalance(model, counts)
    for name, parameter in model.named_parameters():
        if name.endswith("correction"):
            layer = int(name.split(".")[2])
            assert parameter.tolist() == torch.tensor([0.25] * 3 + [-0.25] * 3).roll(layer).tolist()
        else:
            assert torch.equal(parameter, before[name])


def test_a_load_sums_up():
    load = Load(torch.tensor([3, 1]), torch.tensor(1)) + Load(torch.tensor([1, 3]), torch.tensor(1))
    assert (load.shares, load.dropped_share) == ([0.5, 0.5], 0.25)
    model = build(of(capacity=Capacity(factor=0.4, when="always"))).eval()
    found = Auxiliary()
    model(tokens(), auxiliary=found)
    (report,) = found.reports.values()
    assert report.load.chosen.sum() == B * T * K
    assert report.load.dropped >= B * T * K - X * math.ceil(0.4 * K * B * T / X) > 0


def test_hashed_choices_depend_on_the_token_alone_and_are_even():
    choice = Hashed(seed=2)
    ids = torch.arange(3000)[None]
    chosen = choice.preference(None, X, None, None, ids).topk(K).indices
    counts = picked(chosen, X).sum(0)
    assert counts.sum() == 3000 * K, "distinct experts"
    assert (counts - 1000).abs().max() < 5 * (3000 * K / X) ** 0.5
    again = choice.preference(None, X, None, None, ids.flip(1)).topk(K).indices
    assert torch.equal(chosen, again.flip(0))
    assert not torch.equal(chosen, Hashed(seed=3).preference(None, X, None, None, ids).topk(K).indices)


def test_sampling_follows_the_scores():
    scores = torch.tensor([0.5, 0.3, 0.15, 0.05]).expand(40_000, 4)
    noise = torch.rand(40_000, 4, generator=torch.Generator().manual_seed(0)).clamp(min=1e-7)
    chosen = Sampled().preference(scores, 4, None, noise, None).argmax(-1)
    assert (chosen.bincount() / 40_000 - scores[0]).abs().max() < 0.01
    assert torch.equal(Sampled().preference(scores, 4, None, None, None), scores)


def test_a_sampled_router_draws_by_seed_step_and_global_row():
    model, x = build(of(router=Router(choice=Sampled(), jitter=0.1))).train(), tokens(rows=4)
    rows = torch.arange(4)
    whole = model(x, noise=Noise.at(0, 3, rows))
    assert torch.equal(model(x, noise=Noise.at(0, 3, rows)), whole)
    assert not torch.allclose(model(x, noise=Noise.at(0, 4, rows)), whole)
    halves = torch.cat([model(x[at], noise=Noise.at(0, 3, rows[at])) for at in (slice(0, 2), slice(2, 4))])
    torch.testing.assert_close(halves, whole)
    assert model(x).isfinite().all(), "noise of its own where the caller gives none"
    assert torch.equal(model.eval()(x), model(x))


def test_the_routers_logits_stay_fp32_in_bf16():
    model, x = build(of()).eval(), tokens()
    router, seen = experts_of(model).router, []
    router.register_forward_hook(lambda module, given, output: seen.append(output.logits))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model(x).dtype == torch.bfloat16
    assert seen[0].dtype == torch.float32
    assert not torch.equal(seen[0], seen[0].bfloat16().float())
