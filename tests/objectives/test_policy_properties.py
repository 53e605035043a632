"""What holds of every policy loss: cuts into micro-batches, the ratio 1, advantages of 0, clips; and of estimated
divergences."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from anyformer.objectives.policy import (
    ESTIMATORS,
    DetachedClip,
    DualClip,
    GroupMeanAdvantage,
    LeaveOneOutAdvantage,
    LossDivergence,
    NoRatio,
    Normaliser,
    PolicyLoss,
    ProductRatio,
    Ratio,
    RatioClip,
    ReturnsAdvantage,
    RewardDivergence,
    Rewarded,
    ScoredTokens,
    SequenceNormaliser,
    SequenceRatio,
    SoftClip,
    TokenNormaliser,
    ValuesAdvantage,
    at_the_end,
)
from objectives.policy_twins import drawn

NORMALISERS = {kind: entry(length=7) if kind == "constant" else entry() for kind, entry in Normaliser.kinds.items()}
CLIPS = {kind: entry() for kind, entry in RatioClip.kinds.items()} | {"bounded": DetachedClip(low=0.1, high=0.3)}
G, T = 3, 5
quick = settings(max_examples=12, deadline=None)
seeds = st.integers(0, 2**20)


def scored(seed: int, samples: int = 4, moved: float = 0.5, advantage: float = 1.0) -> ScoredTokens:
    """Random tokens; rows may have none that learns."""
    generator = torch.Generator().manual_seed(seed)

    def normal() -> Tensor:
        return torch.randn(samples * G, T, generator=generator, dtype=torch.float64)

    log_p, mask = (-normal().abs()).requires_grad_(), torch.rand(samples * G, T, generator=generator) < 0.6
    advantages = advantage * normal()[:, :1].expand(-1, T)
    return ScoredTokens(log_p, log_p.detach() + moved * normal(), log_p.detach() + normal(), advantages, mask)


@pytest.mark.parametrize("normaliser", NORMALISERS)
@quick
@given(seed=seeds, cuts=st.sets(st.integers(1, 3)))
def test_micro_batches_add_up_to_the_batch(normaliser, seed, cuts):
    policy = PolicyLoss(normaliser=NORMALISERS[normaliser], divergence=LossDivergence())
    x = scored(seed)
    count = policy.counts(x.mask_RT, G).sum()
    whole, parts = policy.losses(x).sum(), list[Tensor]()
    counts = 0.0
    for start, stop in pairwise([0, *sorted(cuts), 4]):
        piece = ScoredTokens(*(None if field is None else field[start * G : stop * G] for field in x))
        parts.append(policy.losses(piece).sum())
        counts += float(policy.counts(piece.mask_RT, G).sum())
    assert counts == count
    torch.testing.assert_close(sum(parts), whole)
    one, other = (torch.autograd.grad(loss, x.log_p_RT)[0] for loss in (sum(parts), whole))
    torch.testing.assert_close(one, other)


@quick
@given(seed=seeds)
def test_normalisers_are_means(seed):
    """Of a loss of 1 everywhere: over tokens, over rows, and over what rows are held to have."""
    mask = scored(seed).mask_RT
    ones = {kind: mask * each.weights(mask) for kind, each in NORMALISERS.items()}
    means = {kind: float(x.sum() / NORMALISERS[kind].counts(mask, G).sum()) for kind, x in ones.items()}
    rows = int(mask.any(1).sum())
    assert means == pytest.approx({"token": 1, "sequence": 1, "constant": int(mask.sum()) / (7 * rows)})
    torch.testing.assert_close(ones["sequence"].sum(1), mask.any(1).float())


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("kind", Ratio.kinds)
@settings(max_examples=3, deadline=None)
@given(seed=seeds)
def test_the_ratio_1_gives_the_policy_gradient(clip, kind, seed):
    """-A grad log pi(y_t) for a token, and of a row with one ratio -A grad of its mean or its sum, bit for bit."""
    policy = PolicyLoss(ratio=Ratio.kinds[kind](), clip=CLIPS[clip], normaliser=TokenNormaliser())
    x = scored(seed, moved=0.0)
    (gradient,) = torch.autograd.grad(policy.losses(x).sum(), x.log_p_RT)
    expected = torch.where(x.mask_RT, -x.advantages_RT, 0)
    if isinstance(policy.ratio, ProductRatio) and not isinstance(policy.clip, DetachedClip):
        expected = expected * x.mask_RT.sum(1, keepdim=True)  # The row's ratio stands at all of its tokens.
    row = isinstance(policy.ratio, SequenceRatio | ProductRatio) and not isinstance(policy.clip, DetachedClip)
    if row or isinstance(policy.clip, SoftClip):
        torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-14)
    else:
        assert torch.equal(gradient, expected)


@pytest.mark.parametrize("kind", Ratio.kinds)
@pytest.mark.parametrize("clip", CLIPS)
@settings(max_examples=3, deadline=None)
@given(seed=seeds)
def test_no_advantage_no_gradient(kind, clip, seed):
    x = scored(seed, advantage=0.0, moved=3.0)
    policy = PolicyLoss(ratio=Ratio.kinds[kind](), clip=CLIPS[clip])
    (gradient,) = torch.autograd.grad(policy.losses(x).sum(), x.log_p_RT)
    assert not gradient.any()
    if not isinstance(policy.clip, DetachedClip):  # which weighs tokens whatever their advantages
        assert not policy.figures(x)["clipped"]


@pytest.mark.parametrize("clip", CLIPS)
@quick
@given(seed=seeds, moved=st.floats(0, 4))
def test_a_clip_never_turns_a_gradient_round(clip, seed, moved):
    """A good token never becomes less likely by it, nor a bad one likelier; and what is clipped is told."""
    policy = PolicyLoss(clip=CLIPS[clip], normaliser=TokenNormaliser())
    x = scored(seed, moved=moved)
    (gradient,) = torch.autograd.grad(policy.losses(x).sum(), x.log_p_RT)
    assert (gradient * x.advantages_RT <= 0).all()
    stopped = x.mask_RT & (gradient == 0)
    clipped = policy.clip.clipped(policy.ratio.logs(x), x.advantages_RT) & x.mask_RT
    if isinstance(policy.clip, SoftClip):  # whose gradient fades
        assert not clipped.any()
        assert (gradient.abs() <= (x.advantages_RT * (x.log_p_RT - x.sampled_RT).exp()).abs() + 1e-12).all()
    elif not isinstance(policy.clip, DetachedClip):  # which stops none
        assert torch.equal(stopped, clipped)
    else:
        assert not stopped.any()
        free = -x.advantages_RT * (x.log_p_RT - x.sampled_RT).detach().exp()
        assert torch.equal(clipped, x.mask_RT & ~torch.isclose(gradient, free, rtol=1e-9))


@quick
@given(seed=seeds)
def test_a_dual_clip_bounds_the_loss_and_leaves_the_rest(seed):
    x = scored(seed, moved=2.0)
    dual = DualClip(low=0.2, high=0.2, most=3.0)
    ours, plain = (PolicyLoss(clip=clip, normaliser=TokenNormaliser()).losses(x) for clip in (dual, CLIPS["symmetric"]))
    bound = -3.0 * x.advantages_RT
    torch.testing.assert_close(ours, torch.where(x.mask_RT & (x.advantages_RT < 0), torch.minimum(plain, bound), plain))


@quick
@given(seed=seeds, count=st.integers(1, 6))
def test_a_reward_stands_at_the_last_token(seed, count):
    generator = torch.Generator().manual_seed(seed)
    mask, rewards = torch.rand(count, T, generator=generator) < 0.5, torch.randn(count, generator=generator)
    found = at_the_end(rewards, mask)
    for row in range(count):
        where = mask[row].nonzero()[:, 0].tolist()
        assert found[row].tolist() == [float(rewards[row]) if where and t == where[-1] else 0 for t in range(T)]


def expectation(p: Tensor, of: Tensor) -> Tensor:
    """E_(y ~ p) of numbers by token; p has no gradient, as it samples."""
    return (p.detach() * of).sum()


@quick
@given(seed=seeds)
def test_k1_and_k3_are_unbiased_and_k2_nearly(seed):
    """Schulman's note: E k1 = E k3 = KL(p || q), k3 is never negative, and E k2 = KL to second order."""
    x = drawn(seed)
    log_p, log_q = x.logits[0, 0].detach().log_softmax(-1), x.teacher[0, 0].log_softmax(-1)
    exact = (log_p.exp() * (log_p - log_q)).sum()
    means = {name: expectation(log_p.exp(), k(log_p - log_q)) for name, k in ESTIMATORS.items()}
    torch.testing.assert_close(means["k1"], exact)
    torch.testing.assert_close(means["k3"], exact)
    assert (ESTIMATORS["k3"](log_p - log_q) >= 0).all()
    near = (log_p + 1e-3 * (log_q - log_p)).log_softmax(-1)  # A reference at a thousandth of the way.
    exact = (log_p.exp() * (log_p - near)).sum()
    torch.testing.assert_close(expectation(log_p.exp(), ESTIMATORS["k2"](log_p - near)), exact, rtol=2e-2, atol=0)


def test_k2_is_biased_where_policies_differ():
    log_p, log_q = (torch.tensor(p, dtype=torch.float64).log() for p in ([0.9, 0.1], [0.1, 0.9]))
    exact = (log_p.exp() * (log_p - log_q)).sum()
    assert float(expectation(log_p.exp(), ESTIMATORS["k2"](log_p - log_q)) / exact) > 1.3


@quick
@given(seed=seeds)
def test_what_the_gradient_of_an_estimate_is(seed):
    """In the mean, on tokens of pi: of k1 none, of k2 that of KL(pi || ref), of k3 that of KL(ref || pi); of k3 with the ratio,
    and of a penalty k1 in the reward, that of KL(pi || ref)."""
    x = drawn(seed)
    logits, log_q = x.logits[0, 0].detach().requires_grad_(), x.teacher[0, 0].log_softmax(-1)
    log_p = logits.log_softmax(-1)

    def gradient(loss: Tensor) -> Tensor:
        return torch.autograd.grad(loss, logits, retain_graph=True)[0]

    reverse, forward = gradient((log_p.exp() * (log_p - log_q)).sum()), gradient((log_q.exp() * (log_q - log_p)).sum())
    one = torch.ones(1, len(log_p), dtype=torch.bool)
    tokens = ScoredTokens(log_p[None], log_p.detach()[None], log_q[None], torch.zeros(1, len(log_p)), one)

    def of(estimator: str, weighted: bool = False) -> Tensor:
        policy = PolicyLoss(
            normaliser=TokenNormaliser(), divergence=LossDivergence(beta=1.0, estimator=estimator, weighted=weighted)
        )
        return gradient(expectation(log_p.exp(), policy.losses(tokens)[0]))

    torch.testing.assert_close(of("k1"), torch.zeros_like(logits))
    torch.testing.assert_close(of("k2"), reverse)
    torch.testing.assert_close(of("k3"), forward)
    torch.testing.assert_close(of("k3", weighted=True), reverse)
    in_reward = PolicyLoss(ratio=NoRatio(), normaliser=SequenceNormaliser(), divergence=RewardDivergence(beta=1.0))
    assert in_reward.divergence is not None
    advantages = ESTIMATORS["k1"](tokens.sampled_RT - log_q)
    loss = in_reward.but(divergence=None).losses(tokens._replace(advantages_RT=-advantages)) * len(log_p)
    torch.testing.assert_close(gradient(expectation(log_p.exp(), loss[0])), reverse)


UNBIASED = {
    "returns": (ReturnsAdvantage(), 1.0),
    "leave one out": (LeaveOneOutAdvantage(), 1.0),
    "values": (ValuesAdvantage(trace=1.0), 1.0),
    "group mean": (GroupMeanAdvantage(over_std=False), 0.5),
}


@pytest.mark.parametrize("name", UNBIASED)
def test_the_gradient_in_the_mean_is_that_of_the_expected_reward(name):
    """Over all pairs of answers of two tokens, by their probabilities: -grad E[R], and with the mean of the group, to which an
    answer belongs itself, (G - 1) / G of it."""
    advantage, factor = UNBIASED[name]
    generator = torch.Generator().manual_seed(1)
    first, second = (torch.randn(*sizes, generator=generator, dtype=torch.float64).requires_grad_() for sizes in ((3,), (3, 3)))
    rewards, worth = (torch.randn(3, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    answers = torch.cartesian_prod(torch.arange(3), torch.arange(3))
    log_p = torch.stack([first.log_softmax(0)[answers[:, 0]], second.log_softmax(1)[answers[:, 0], answers[:, 1]]], 1)
    values = torch.stack([torch.full((9,), 0.3), worth[answers[:, 0], 0]], 1)
    pairs = torch.cartesian_prod(torch.arange(9), torch.arange(9))
    rows, chance = pairs.flatten(), log_p.sum(1).exp()
    mask, given = torch.ones(len(rows), 2, dtype=torch.bool), rewards[answers[:, 0], answers[:, 1]]
    policy = PolicyLoss(advantage=advantage, clip=CLIPS["none"], normaliser=NORMALISERS["constant"].but(length=1))
    rewarded = Rewarded(at_the_end(given[rows], mask), mask, 2, values_RT=values[rows])
    tokens = ScoredTokens(log_p[rows], log_p[rows].detach(), None, policy.advantages(rewarded), mask)
    losses = policy.losses(tokens).view(len(pairs), -1).sum(1) / policy.counts(mask, 2)
    mean = (chance.detach()[pairs].prod(1) * losses).sum()
    ours, exact = (torch.autograd.grad(x, (first, second), retain_graph=True) for x in (mean, (chance * given).sum()))
    for one, other in zip(ours, exact, strict=True):
        torch.testing.assert_close(one, -factor * other)
