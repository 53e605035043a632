"""Recipes of reinforcement learning equal their papers' formulas, forward and backward; parts of the loss equal plain loops."""

from __future__ import annotations

import math
import tomllib

import pytest
import torch
from torch import Tensor

from anyformer.describe import DescriptionError, to_toml
from anyformer.objectives.policy import (
    RECIPES,
    AboveSelection,
    Advantage,
    BatchMeanAdvantage,
    BatchStdAdvantage,
    BestSelection,
    Correction,
    DistantCorrection,
    DualClip,
    GroupMeanAdvantage,
    LeaveOneOutAdvantage,
    LossDivergence,
    MaskedCorrection,
    PolicyLoss,
    ProductRatio,
    ReturnsAdvantage,
    Rewarded,
    RowSelection,
    ScoredTokens,
    SequenceRatio,
    TokenNormaliser,
    TruncatedCorrection,
    ValuesAdvantage,
    VariedSelection,
    at_the_end,
    entropies,
    generalised_advantages,
    grpo,
    reverse_divergences,
    value_losses,
)
from objectives.policy_twins import TWINS, B, G, Sampled, T, advantages_of, clipped, drawn, grouped, places

POLICIES = {name: make(9) if name == "Dr. GRPO" else make() for name, make in RECIPES.items()}


def of_equal_rewards(x: Sampled) -> Sampled:
    """The first sample's members have one reward, so that dynamic sampling leaves it out."""
    return x._replace(rewards=torch.where(torch.arange(B * G) < G, 0.5, x.rewards))


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_its_papers_formula(name):
    x = of_equal_rewards(drawn())
    ours, theirs = x.loss(POLICIES[name]), TWINS[name](x)
    if name != "REINFORCE":  # of which the paper gives the gradient
        torch.testing.assert_close(ours, theirs.double(), rtol=1e-6, atol=1e-8)
    (one,), (other,) = (torch.autograd.grad(loss, x.logits) for loss in (ours, theirs))
    assert other.abs().max() > 1e-6
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_a_table_and_reads_what_it_says(name):
    policy = POLICIES[name]
    assert PolicyLoss.parse(tomllib.loads(to_toml(policy))) == policy
    x = drawn()
    unread = {"reference_RT": None, "values_RT": None, "sampled_RT": None}
    rewarded = x.rewarded._replace(**{field: None for field in unread if field not in policy.reads})
    scored = x.scored(policy.advantages(rewarded), x.mask)
    optional = {"reference_RT", "entropy_RT", "before_RT", "divergence_RT"}
    bare = scored._replace(**dict.fromkeys(optional - policy.reads))
    torch.testing.assert_close(policy.losses(bare), policy.losses(scored._replace(before_RT=bare.before_RT)))
    for field in sorted(policy.reads & optional & set(scored._fields) - {"reference_RT"}):
        with pytest.raises(ValueError, match=f"{field}, and ScoredTokens has None"):
            policy.losses(bare._replace(**{field: None}))
    for field in sorted(policy.reads & {"values_RT", "sampled_RT", "reference_RT"}):
        with pytest.raises(ValueError, match=rf"{field}.*Rewarded has None"):
            policy.advantages(rewarded._replace(**{field: None}))


def test_all_recipes_have_twins_and_all_kinds_are_tried():
    assert TWINS.keys() == RECIPES.keys()
    assert set(Advantage.kinds) == {
        "group_mean", "leave_one_out", "batch_std", "batch_mean", "returns", "values", "equal"
    }  # fmt: skip
    assert set(Correction.kinds) == {"truncated", "masked", "distant"}
    assert set(RowSelection.kinds) == {"best", "above", "varied"}


def rows_of(advantage: Advantage, rewards: Tensor, group: int = G) -> Tensor:
    mask = torch.ones(len(rewards), 2, dtype=torch.bool)
    return PolicyLoss(advantage=advantage).advantages(Rewarded(at_the_end(rewards, mask), mask, group))[:, 0]


def test_advantages_compare_what_they_say():
    rewards = drawn(1).rewards
    torch.testing.assert_close(rows_of(GroupMeanAdvantage(), rewards), grouped(rewards))
    torch.testing.assert_close(rows_of(GroupMeanAdvantage(over_std=False), rewards), grouped(rewards, over_std=False))
    centred = rewards - rewards.mean()
    torch.testing.assert_close(rows_of(BatchMeanAdvantage(), rewards), centred / (rewards.std() + 1e-4))
    torch.testing.assert_close(rows_of(BatchMeanAdvantage(over_std=False), rewards, 1), centred)
    torch.testing.assert_close(rows_of(BatchStdAdvantage(), rewards), grouped(rewards, over_std=False) / (rewards.std() + 1e-4))
    assert [kind for kind, entry in Advantage.kinds.items() if entry.across_samples] == ["batch_std", "batch_mean"]


@pytest.mark.parametrize("advantage", [GroupMeanAdvantage(), LeaveOneOutAdvantage(), BatchStdAdvantage(), BatchMeanAdvantage()])
def test_a_row_without_a_reward_is_as_if_it_were_not_there(advantage):
    rewards = drawn(2).rewards[:G]
    known = rows_of(advantage, rewards[:3], 3)
    ungraded = rows_of(advantage, torch.where(torch.arange(G) < 3, rewards, math.nan))
    torch.testing.assert_close(ungraded, torch.cat([known, torch.zeros(1)]))
    alone = rows_of(advantage, torch.tensor([1.0, math.nan, math.nan, math.nan]))
    assert alone.tolist() == [0, 0, 0, 0]
    # A model whose numbers are lost is not one whose answer has no grade.
    x = drawn()
    lost = POLICIES["PPO"].advantages(x.rewarded._replace(values_RT=x.values * math.nan))
    assert lost[x.mask].isnan().all()


@pytest.mark.parametrize(("discount", "trace"), [(1.0, 0.95), (0.9, 1.0), (0.7, 0.0), (0.0, 0.5)])
def test_generalised_advantages_pass_over_what_was_not_sampled(discount, trace):
    x = drawn(3)
    rewards = drawn(4).values
    found = generalised_advantages(rewards, x.values, x.mask, discount, trace)
    for i in range(B * G):
        where = places(x.mask, i)
        theirs = advantages_of(rewards[i, where].tolist(), x.values[i, where].tolist(), discount, trace)
        assert found[i, where].tolist() == pytest.approx(theirs)
        assert not found[i, ~x.mask[i]].any()
    ours = PolicyLoss(advantage=ValuesAdvantage(discount=discount, trace=trace)).advantages(
        Rewarded(rewards, x.mask, G, values_RT=x.values)
    )
    torch.testing.assert_close(ours, found)
    if trace == 1.0:  # what is still to come, less the value of where one is
        to_come = PolicyLoss(advantage=ReturnsAdvantage(discount=discount)).advantages(Rewarded(rewards, x.mask, G))
        torch.testing.assert_close(found, torch.where(x.mask, to_come - x.values, 0))


def test_values_learn_unless_they_are_clipped():
    x, within = drawn(5), 0.3
    values = (x.values + 0.5 * drawn(6).values).requires_grad_()
    returns = drawn(7).values
    ours, theirs = value_losses(values, x.values, returns, x.mask, within), torch.zeros(B * G, T, dtype=torch.float64)
    for i in range(B * G):
        for t in places(x.mask, i):
            near = torch.min(torch.max(values[i, t], x.values[i, t] - within), x.values[i, t] + within)
            theirs[i, t] = 0.5 * torch.max((values[i, t] - returns[i, t]) ** 2, (near - returns[i, t]) ** 2)
    torch.testing.assert_close(ours, theirs)
    one, other = (torch.autograd.grad(loss.sum(), values)[0] for loss in (ours, theirs))
    torch.testing.assert_close(one, other)
    assert (one[x.mask] == 0).any()
    free = value_losses(values, x.values, returns, x.mask)
    torch.testing.assert_close(free, torch.where(x.mask, 0.5 * (values - returns) ** 2, 0))


def test_a_bad_token_that_became_likely_has_a_bounded_loss():
    x = drawn(8, moved=1.5)
    policy = PolicyLoss(clip=DualClip(low=0.1, high=0.3, most=2.0), normaliser=TokenNormaliser())
    advantages = policy.advantages(x.rewarded)
    scored = x.scored(advantages, x.mask)._replace(before_RT=None)
    total, bounded = torch.zeros(()), 0
    for i in range(B * G):
        for t in places(x.mask, i):
            ratio, a = (x.log_p[i, t] - x.sampled[i, t]).exp(), advantages[i, t]
            inner = clipped(ratio, a, 0.1, 0.3)
            total = total - (torch.max(inner, 2.0 * a) if a < 0 else inner)
            bounded += int(a < 0 and ratio > 2) + int(a < 0 and ratio < 0.9) + int(a > 0 and ratio > 1.3)
    ours = policy.losses(scored).sum()
    torch.testing.assert_close(ours, total)
    one, other = (torch.autograd.grad(loss, x.logits)[0] for loss in (ours, total))
    torch.testing.assert_close(one, other)
    assert policy.figures(scored)["clipped"] == bounded > 0
    with pytest.raises(DescriptionError, match="above 1 \\+ high"):
        DualClip(high=1.0, most=1.5)


CORRECTIONS = {
    "a token's": (TruncatedCorrection(most=1.05), lambda logs, t: min(math.exp(logs[t]), 1.05)),
    "a row's": (TruncatedCorrection(ratio=ProductRatio()), lambda logs, t: min(math.exp(sum(logs.values())), 2.0)),
    "masked": (MaskedCorrection(least=0.95, most=1.08), lambda logs, t: w if 0.95 <= (w := math.exp(logs[t])) <= 1.08 else 0),
    "a mean's": (
        MaskedCorrection(ratio=SequenceRatio(), least=0.99, most=1.02),
        lambda logs, t: w if 0.99 <= (w := math.exp(sum(logs.values()) / len(logs))) <= 1.02 else 0,
    ),
}


@pytest.mark.parametrize("name", CORRECTIONS)
def test_a_correction_weighs_the_sampler_against_the_trainer(name):
    correction, weight = CORRECTIONS[name]
    x = drawn(9)
    plain = PolicyLoss(normaliser=TokenNormaliser())
    scored = x.scored(plain.advantages(x.rewarded), x.mask)
    policy = plain.but(correction=correction, divergence=LossDivergence())
    kept = plain.losses(scored)
    penalty = plain.but(divergence=LossDivergence()).losses(scored) - kept
    found, seen = policy.losses(scored), set()
    for i in range(B * G):
        logs = {t: float(scored.before_RT[i, t] - x.sampled[i, t]) for t in places(x.mask, i)}
        for t in logs:
            seen.add(weight(logs, t))
            torch.testing.assert_close(found[i, t], weight(logs, t) * kept[i, t] + penalty[i, t])
    assert len(seen) > 1


def test_a_distant_bad_row_teaches_nothing():
    x = drawn(10, moved=1.0)
    plain = PolicyLoss(normaliser=TokenNormaliser())
    scored = x.scored(plain.advantages(x.rewarded), x.mask)._replace(before_RT=None)
    found, all_of_it, left_out = plain.but(correction=DistantCorrection(most=0.1)).losses(scored), plain.losses(scored), 0
    for i in range(B * G):
        where = places(x.mask, i)
        apart = float((x.sampled[i, where] - x.log_p.detach()[i, where]).mean())
        kept = float(scored.advantages_RT[i, 0]) >= 0 or apart <= 0.1
        left_out += not kept
        torch.testing.assert_close(found[i], kept * all_of_it[i])
    assert 0 < left_out < B * G


def test_selections():
    mask = torch.ones(4, 3, dtype=torch.bool)
    mask[1, 2] = False

    def rows(selection: RowSelection, *rewards: float, group: int = 4) -> list[int]:
        policy = PolicyLoss(selection=selection)
        learnt = policy.learnt(Rewarded(at_the_end(torch.tensor(rewards), mask), mask, group))
        assert torch.equal(learnt, mask & learnt.any(1, keepdim=True))
        return learnt.any(1).nonzero()[:, 0].tolist()

    assert rows(BestSelection(), 0.0, 1.0, 1.0, -1.0) == [1]
    assert rows(BestSelection(count=3), math.nan, 1.0, 2.0, math.nan) == [1, 2]
    assert rows(BestSelection(least=1.5), 0.0, 1.0, 1.0, -1.0) == []
    assert rows(AboveSelection(), 0.0, 1.0, math.nan, 2.0) == [1, 3]
    assert rows(VariedSelection(), 1.0, 1.0, 1.0, math.nan) == []
    assert rows(VariedSelection(), 1.0, 1.0, 0.0, math.nan) == [0, 1, 2]
    assert rows(VariedSelection(), 1.0, 1.0, 0.0, 1.0, group=2) == [2, 3]
    for selection, group in ((BestSelection(count=4), 4), (VariedSelection(), 1)):
        with pytest.raises(ValueError, match=f"group = {group}"):
            PolicyLoss(selection=selection, advantage=ReturnsAdvantage()).check(group)


@pytest.mark.parametrize("advantage", [GroupMeanAdvantage(), LeaveOneOutAdvantage(), BatchStdAdvantage()])
def test_one_member_is_compared_with_nobody(advantage):
    with pytest.raises(ValueError, match="group = 1: set it to 2 or more"):
        PolicyLoss(advantage=advantage).check(1)


@pytest.mark.parametrize("name", RECIPES)
def test_what_was_not_sampled_is_never_read(name):
    """Neither NaN where nothing was sampled, nor a ratio that overflows, makes a gradient that is no number."""
    x, policy = drawn(11), POLICIES[name]
    bad = torch.where(x.mask, 0.0, math.nan)
    rewarded = x.rewarded
    rewarded = rewarded._replace(
        rewards_RT=rewarded.rewards_RT + bad,
        sampled_RT=x.sampled + bad,
        reference_RT=x.reference + bad,
        values_RT=x.values + bad,
    )
    advantages, learnt = policy.advantages(rewarded), policy.learnt(rewarded)
    torch.testing.assert_close(advantages, policy.advantages(x.rewarded))
    log_p = (x.log_p.detach() + bad).requires_grad_()
    scored = x.scored(advantages + bad, learnt)._replace(log_p_RT=log_p, sampled_RT=x.sampled + bad, before_RT=None)
    scored = scored._replace(reference_RT=x.reference + bad, entropy_RT=bad, divergence_RT=scored.divergence_RT.detach() + bad)
    torch.testing.assert_close(
        policy.losses(scored), policy.losses(x.scored(advantages, learnt)._replace(before_RT=None))
    )  # fmt: skip
    assert all(math.isfinite(value) for value in policy.figures(scored).values())
    for moved in (1000.0, -1000.0):
        far = scored._replace(sampled_RT=scored.sampled_RT + moved)
        (gradient,) = torch.autograd.grad(policy.losses(far).sum(), log_p, allow_unused=True)
        assert gradient is None or gradient.isfinite().all()


def test_figures_are_sums_over_tokens():
    x, policy = drawn(12), grpo().but(entropy=0.01, correction=TruncatedCorrection())
    scored = x.scored(policy.advantages(x.rewarded), x.mask)
    found, where = policy.figures(scored), x.mask
    ratio = (x.log_p.detach() - scored.before_RT)[where].exp()
    assert found["tokens"] == where.sum()
    assert float(found["ratio"]) == pytest.approx(float(ratio.sum()))
    assert float(found["moved"]) == pytest.approx(float((ratio - 1 - ratio.log()).sum()))
    assert float(found["kl"]) == pytest.approx(float((x.log_p.detach() - x.reference)[where].sum()))
    assert float(found["entropy"]) == pytest.approx(float(entropies(x.logits.detach())[where].sum()))
    assert float(found["correction"]) == pytest.approx(float((scored.before_RT - x.sampled)[where].exp().clamp(max=2).sum()))
    up = scored.advantages_RT[where] > 0
    assert found["clipped"] == ((ratio > 1.2) & up).sum() + ((ratio < 0.8) & ~up).sum()


def test_an_entropy_is_rewarded():
    x, policy = drawn(13), PolicyLoss(normaliser=TokenNormaliser())
    plain, more = x.loss(policy), x.loss(policy.but(entropy=0.3))
    p = x.logits.softmax(-1)
    entropy = -(p * p.log()).sum(-1)[x.mask].mean()
    torch.testing.assert_close(more, plain - 0.3 * entropy)
    one, other = (torch.autograd.grad(loss, x.logits, retain_graph=True)[0] for loss in (more, plain - 0.3 * entropy))
    torch.testing.assert_close(one, other)


def test_tokens_that_are_ruled_out_have_no_part_in_distributions():
    logits, teacher = (torch.randn(2, 6, dtype=torch.float64, requires_grad=True) for _ in range(2))
    out = torch.tensor([False, True, False, False, True, False])
    for function, count in ((lambda p, q: entropies(p), 1), (reverse_divergences, 2)):
        pairs = [(z.masked_fill(out, -math.inf), z[:, ~out]) for z in (logits, teacher)]
        one, other = function(*(pair[0] for pair in pairs)), function(*(pair[1] for pair in pairs))
        torch.testing.assert_close(one, other)
        found = [torch.autograd.grad(loss.sum(), (logits, teacher)[:count]) for loss in (one, other)]
        for own, others in zip(*found, strict=True):
            torch.testing.assert_close(own, others)
    assert reverse_divergences(torch.zeros(1, 2), torch.tensor([[0.0, -math.inf]])).isinf().all()


def test_a_loss_is_one_graph():
    x, policy = drawn(14), grpo().but(entropy=0.01, correction=TruncatedCorrection(), clip=DualClip())
    scored = x.scored(policy.advantages(x.rewarded), x.mask)
    compiled = torch.compile(policy.losses, fullgraph=True, backend="eager")
    assert torch.equal(compiled(scored), policy.losses(ScoredTokens(*scored)))
