"""Routing: penalties, load and its balance."""

from __future__ import annotations

import math

import pytest
import torch
from zoo import ZOO

from anyformer.data import IGNORED
from anyformer.describe import UserError
from anyformer.model.transformer import build
from anyformer.objectives import CausalObjective, loss_of, without_penalties
from anyformer.parts import (
    Capacity,
    Router,
    ScoreCorrectionBias,
    TopK,
)
from anyformer.parts.call.reports import Auxiliary, Load
from anyformer.parts.experts.balance import balance_loss, picked, router_z_loss, sequence_balance_loss
from anyformer.parts.experts.router_module import corrected, rebalance
from parts.mixture import B, K, T, X, examples, experts_of, of, tokens


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


def sequence_loss_by_hand(scores, chosen, counted) -> float:
    """DeepSeek-V3's equations 17 to 20 for each sequence, and the mean over counted tokens."""
    total = 0.0
    for scores_TX, chosen_TJ, counted_T in zip(scores.tolist(), chosen.tolist(), counted.tolist(), strict=True):
        here = [t for t, counts in enumerate(counted_T) if counts]
        for e in range(X):
            f = X / (K * max(len(here), 1)) * sum(e in chosen_TJ[t] for t in here)
            total += len(here) * f * sum(scores_TX[t][e] / sum(scores_TX[t]) for t in here) / max(len(here), 1)
    return total / max(counted.sum().item(), 1)


def test_the_sequence_balance_loss_equals_its_formula():
    torch.manual_seed(0)
    scores = torch.rand(3, 8, X, dtype=torch.float64)
    chosen = scores.topk(K).indices
    counted = torch.arange(8) < torch.tensor([[8], [5], [0]])
    shares, wanted = scores / scores.sum(-1, keepdim=True), picked(chosen.flatten(0, 1), X).view(3, 8, X)
    ours = sequence_balance_loss(shares, wanted, counted, K)
    assert ours.item() == pytest.approx(sequence_loss_by_hand(scores, chosen, counted))
    assert sequence_balance_loss(shares, wanted, counted & False, K) == 0
    even = torch.full((2, X, X), 1 / X)
    in_turn = picked(torch.stack([torch.arange(X), torch.arange(X).roll(1)], 1), X).expand(2, X, X)
    assert sequence_balance_loss(even, in_turn, torch.ones(2, X, dtype=torch.bool), K).item() == pytest.approx(1)


def test_within_sequences_a_skew_counts_that_the_batch_evens_out():
    """Two sequences that each use half of the experts: even together, uneven each."""
    wanted = torch.zeros(2, 4, 4, dtype=torch.bool)
    wanted[0, :, :2] = wanted[1, :, 2:] = True
    shares, counted = wanted / 2, torch.ones(2, 4, dtype=torch.bool)
    assert balance_loss(shares.flatten(0, 1), wanted.flatten(0, 1), counted.flatten()).item() == 2, "k: perfect"
    assert sequence_balance_loss(shares, wanted, counted, 2).item() == 2, "twice as much as at balance"


def test_a_correction_does_not_hide_a_skew_within_sequences():
    """DeepSeek-V3 counts what the scores alone would choose, and the batch-wise loss what was chosen."""
    router = Router(score="sigmoid", choice=TopK(correction=ScoreCorrectionBias()))
    model, x, found = build(of(router=router)).eval(), tokens(), []
    for _ in range(2):
        auxiliary = Auxiliary()
        model(x, auxiliary=auxiliary)
        found.append(auxiliary)
        with torch.no_grad():
            experts_of(model).router.correction[3] += 9
    assert found[0].sequence_balance == found[1].sequence_balance
    assert found[0].balance != found[1].balance


def test_the_sequence_balance_loss_does_not_depend_on_how_a_batch_is_cut():
    model, x = build(of(layers=2)).train(), tokens(rows=4)
    targets = torch.where(torch.arange(T) < torch.tensor([[11], [4], [7], [9]]), x.roll(-1, 1), IGNORED)

    def summed(rows: int, **penalties) -> float:
        objective, cuts = CausalObjective(**penalties), zip(x.split(rows), targets.split(rows), strict=True)
        return sum(loss_of(objective, model, examples(*cut), None).item() for cut in cuts)

    assert summed(4, sequence_balance_loss=1.0) == pytest.approx(summed(1, sequence_balance_loss=1.0), rel=1e-5)
    assert summed(4, balance_loss=1.0) != pytest.approx(summed(1, balance_loss=1.0), rel=1e-5)


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
            torch.testing.assert_close(report.sequence_balance, found.reports[path].sequence_balance)
            torch.testing.assert_close(report.router_z, found.reports[path].router_z)
            assert torch.equal(report.load.counts, found.reports[path].load.counts)
            assert report.load.counts.sum() == K * B * 7


def test_the_objective_adds_means_weighed_by_tokens():
    model, x = build(of(layers=2)).train(), tokens()
    targets = x.roll(-1, 1)
    targets[:, -3:] = IGNORED
    given, found = examples(x, targets), Auxiliary(targets != IGNORED)
    plain = loss_of(CausalObjective(), model, given, None, found)
    all_three = CausalObjective(balance_loss=0.1, sequence_balance_loss=0.3, router_z_loss=0.02)
    penalties = 0.1 * found.balance + 0.3 * found.sequence_balance + 0.02 * found.router_z
    torch.testing.assert_close(loss_of(all_three, model, given, None), plain + (targets != IGNORED).sum() * penalties)
    assert loss_of(without_penalties(all_three), model, given, None) == plain


@pytest.mark.parametrize(
    "objective",
    [
        CausalObjective(),
        CausalObjective(balance_loss=1.0),
        CausalObjective(sequence_balance_loss=1.0),
        CausalObjective(router_z_loss=1.0),
    ],
)
def test_gradients_reach_the_router(objective):
    model, x = build(of()).train(), tokens()
    (loss_of(objective, model, examples(x), None) / x.numel()).backward()
    plain = build(of()).train()
    (loss_of(CausalObjective(), plain, examples(x), None) / x.numel()).backward()
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
        loss = loss_of(objective, model, examples(x), None, auxiliary)
        loss.backward()
        assert len(routed) == (2 if recompute else 1)
        found.append((loss, [load.counts for load in auxiliary.loads.values()], [p.grad for p in model.parameters()]))
    (loss, choices, gradients), (again, choices_again, gradients_again) = found
    assert loss == again
    assert all(torch.equal(a, b) for a, b in zip(choices, choices_again, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(gradients, gradients_again, strict=True))


def test_penalties_without_routers_are_refused():
    dense = ZOO["llama"]
    with pytest.raises(UserError, match="balance_loss"):
        loss_of(CausalObjective(balance_loss=0.1), build(dense), examples(tokens()), None)


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
    router = Router(score="sigmoid", choice=TopK(correction=ScoreCorrectionBias(rate=0.25)))
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
    assert report.load.counts.sum() == B * T * K
    assert report.load.dropped >= B * T * K - X * math.ceil(0.4 * K * B * T / X) > 0
