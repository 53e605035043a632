"""Choosing experts: by score, by chance, by the token alone; ties and precision."""

from __future__ import annotations

import naive
import pytest
import torch
from transformers.models.phimoe.modeling_phimoe import PhimoeMultiplier
from zoo import ZOO

from anyformer.describe import DescriptionError
from anyformer.model.transformer import build
from anyformer.parts import (
    Capacity,
    Groups,
    Hashed,
    Renormalise,
    RMSNorm,
    Router,
    Sampled,
    ScoreCorrectionBias,
    SparseMixer,
    TokenTable,
    TopK,
)
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.parts.experts.balance import picked
from anyformer.parts.experts.selection import RouterInputs
from anyformer.parts.experts.selection_module import best
from parts.mixture import B, K, T, X, experts_of, of, tokens


def uniform(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0)).clamp(min=1e-7)


def test_a_correction_chooses_and_does_not_weigh():
    router = Router(score="sigmoid", choice=TopK(correction=ScoreCorrectionBias()))
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
    assert held.loads[path].counts[4] == B * T > free.loads[path].counts[4]


def test_a_correction_of_logits_orders_what_saturated_scores_cannot():
    """Above 17 every sigmoid is 1 in fp32, and a correction of scores would choose alone."""
    logits = torch.tensor([[30.0, 40.0, 20.0, -1.0]])
    inputs = RouterInputs(4, 2, logits, logits.sigmoid(), torch.tensor([0.0, -0.5, 11.0, 0.0]))
    assert best(TopK(by="logits").preference(inputs), 2).tolist() == [[1, 2]]
    assert best(TopK().preference(inputs), 2).tolist() == [[2, 0]]


def test_experts_of_other_groups_count_as_zero_where_a_description_says_so():
    scores, correction = torch.tensor([[0.5, 0.9, 0.3, 0.6]]), torch.tensor([-0.6, -0.1, 0.0, -0.2])
    inputs = RouterInputs(4, 2, scores=scores, correction=correction)
    strict, open_ = (TopK(groups=Groups(count=2, keep=1, score="max", others=others)) for others in ("never", "zero"))
    assert best(strict.preference(inputs), 2).tolist() == [[1, 0]]
    assert best(open_.preference(inputs), 2).tolist() == [[1, 2]], "corrected, expert 0 is worse than nothing"
    assert (strict.candidates(4), open_.candidates(4)) == (2, 4)


def test_ties_go_to_the_lower_number():
    """Many ties: `topk` would break them as it likes."""
    wanted = torch.randint(3, (400, 64), generator=torch.Generator().manual_seed(0)).float()
    by_hand = [sorted(range(64), key=lambda e, row=row: -row[e])[:8] for row in wanted.tolist()]
    assert best(wanted, 8).tolist() == by_hand
    groups = Groups(count=16, keep=5)
    kept = groups.masked(wanted).view(400, 16, 4).isfinite().all(-1)
    for row, mask in zip(wanted.view(400, 16, 4).amax(-1).tolist(), kept.tolist(), strict=True):
        assert [g for g in range(16) if mask[g]] == sorted(sorted(range(16), key=lambda g, row=row: -row[g])[:5])


@pytest.mark.parametrize("name", ["experts", "experts_sigmoid_groups", "experts_after_top_k", "experts_longcat", "experts_phi"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_logits_choose_as_the_twin_does(name, dtype):
    """Routers that read one feature, so that no rounding tells logits apart, and weigh it the same for all experts but one."""
    model, x = build(ZOO[name], dtype=dtype).eval(), tokens(rows=1, length=7)
    with torch.no_grad():
        for parameter in [p for n, p in model.named_parameters() if n.endswith("router.weight")]:
            parameter[:, 1:] = 0
            parameter[:, 0] = 1
            parameter[1] = 2
    weights = {n: p.detach().double() for n, p in model.named_parameters()}
    theirs = naive.forward(ZOO[name], weights, x[0].tolist())
    torch.testing.assert_close(model(x)[0].double(), theirs, rtol=1e-4, atol=1e-4)


def test_a_bf16_model_routes_by_fp32_logits():
    """256 and 257 are one number in bf16, whose tie the lower expert would win."""
    model, context = build(of(chosen=1), dtype=torch.bfloat16).eval(), Auxiliary()
    router = experts_of(model).router
    with torch.no_grad():
        router.weight.zero_()
        router.weight[:, 0] = 256.0
        router.weight[4, 1] = 1.0
    seen = []
    router.register_forward_pre_hook(lambda module, given: (torch.ones_like(given[0]), *given[1:]))
    router.register_forward_hook(lambda module, given, routing: seen.append(routing.inputs.logits))
    model(tokens(), auxiliary=context)
    (load,) = context.loads.values()
    assert load.counts[4] == B * T
    assert seen[0].dtype == torch.float32
    assert seen[0][0].tolist() == [256, 256, 256, 256, 257, 256]


def test_the_routers_logits_stay_fp32_in_bf16():
    model, x = build(of()).eval(), tokens()
    router, seen = experts_of(model).router, []
    router.register_forward_hook(lambda module, given, output: seen.append(output.inputs.logits))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model(x).dtype == torch.bfloat16
    assert seen[0].dtype == torch.float32
    assert not torch.equal(seen[0], seen[0].bfloat16().float())


def test_hashed_choices_depend_on_the_token_alone_and_are_even():
    choice = Hashed(seed=2)
    ids = torch.arange(3000)[None]
    chosen = best(choice.preference(RouterInputs(X, K, tokens=ids)), K)
    counts = picked(chosen, X).sum(0)
    assert counts.sum() == 3000 * K, "distinct experts"
    assert (counts - 1000).abs().max() < 5 * (3000 * K / X) ** 0.5
    again = best(choice.preference(RouterInputs(X, K, tokens=ids.flip(1))), K)
    assert torch.equal(chosen, again.flip(0))
    assert not torch.equal(chosen, best(Hashed(seed=3).preference(RouterInputs(X, K, tokens=ids)), K))


def test_a_table_names_the_experts_of_a_token_and_the_hash_those_of_others():
    table = torch.full((5, K), -1)
    table[3], table[1] = torch.arange(K).flip(0), torch.arange(K) + 2
    inputs = RouterInputs(X, K, tokens=torch.tensor([[3, 0], [1, 4]]), table=table)
    chosen = best(TokenTable(vocab=5, seed=2).preference(inputs), K)
    hashed = best(Hashed(seed=2).preference(inputs), K)
    assert torch.equal(chosen[[0, 2]], table[[3, 1]]), "in the order of the table"
    assert torch.equal(chosen[[1, 3]], hashed[[1, 3]])


def test_a_table_is_whole_numbers_that_nothing_trains_and_every_precision_keeps():
    model = build(of(router=Router(score="equal", choice=TokenTable(vocab=17))), dtype=torch.bfloat16)
    table = experts_of(model).router.table
    assert not table.requires_grad
    assert table.dtype == torch.int64
    assert (table == -1).all()


def test_sampling_follows_the_scores():
    scores = torch.tensor([0.5, 0.3, 0.15, 0.05]).expand(40_000, 4)
    chosen = Sampled().preference(RouterInputs(4, 1, scores=scores, noise=uniform(40_000, 1, 4))).argmax(-1)
    assert (chosen.bincount() / 40_000 - scores[0]).abs().max() < 0.01
    assert torch.equal(Sampled().preference(RouterInputs(4, 1, scores=scores)), scores)


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


def by_steps(logits: list[float], margin: float, picks: list[int]) -> list[list[float]]:
    """For each pick, softmax over the experts near the best that is left."""
    shares, left = [], set(range(len(logits)))
    for pick in picks:
        most = max(logits[e] for e in left)
        near = torch.tensor(
            [z if e in left and most - z <= margin * max(abs(z), most) else -torch.inf for e, z in enumerate(logits)]
        )
        shares.append(near.softmax(-1).tolist())
        left.remove(pick)
    return shares


def test_the_sparse_mixer_draws_one_after_the_other_among_the_near():
    logits, n, choice = torch.tensor([2.0, 1.6, 1.5, 1.1, -3.0]), 60_000, SparseMixer(margin=0.4)
    inputs = RouterInputs(5, 2, logits.expand(n, 5), logits.softmax(-1).expand(n, 5), noise=uniform(n, 3, 5))
    first, second = best(choice.preference(inputs), 2).unbind(-1)
    expected = by_steps(logits.tolist(), 0.4, [0, 1])
    assert expected[0][3] == 0 < expected[1][3], "near only once the best is gone, so that a draw may not reuse its noise"
    assert (first.bincount(minlength=5) / n - torch.tensor(expected[0])).abs().max() < 0.01
    for pick in range(3):
        share = second[first == pick].bincount(minlength=5) / (first == pick).sum()
        (_, after) = by_steps(logits.tolist(), 0.4, [pick, 1 if pick != 1 else 0])
        assert (share - torch.tensor(after)).abs().max() < 0.015, pick
    plain = RouterInputs(5, 2, inputs.logits, inputs.scores)
    assert (best(choice.preference(plain), 5) == torch.arange(5)).all(), "without noise the best, and all in order"


def test_the_sparse_mixers_weights_and_gradients_are_the_published_ones():
    """Values and gradients of the published autograd function, given the same draws and the same thirds."""
    n, choice = 500, SparseMixer(margin=0.6)
    logits = torch.randn(n, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    inputs = RouterInputs(5, 2, logits, logits.softmax(-1), noise=uniform(n, 3, 5).double())
    with torch.no_grad():
        chosen = best(choice.preference(inputs), 2)
    ours = choice.weights(inputs, chosen)
    shares = torch.tensor([by_steps(z, 0.6, picks) for z, picks in zip(logits.tolist(), chosen.tolist(), strict=True)])
    theirs, thirds = [], 0
    for j in range(2):
        gates, drawn = shares[:, j].double(), chosen[:, j : j + 1]
        whole = (drawn == gates.argmax(-1, keepdim=True)) | (inputs.noise[:, 2, j : j + 1] > 0.75)
        thirds += (~whole).sum()
        factor = torch.where(whole, 1.0, 1 / 3).double()
        theirs.append(PhimoeMultiplier.apply(logits, gates.gather(-1, drawn), drawn, gates, factor))
    theirs = torch.cat(theirs, -1)
    assert thirds > 50
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    direction = torch.randn(n, 2, dtype=torch.float64)
    one, two = (torch.autograd.grad((y * direction).sum(), logits, retain_graph=True)[0] for y in (ours, theirs))
    torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)


def test_a_sparse_mixer_trains_by_its_draws_and_evaluates_without():
    model, x = build(of(router=Router(choice=SparseMixer(margin=1.5)))).train(), tokens(rows=4)
    rows = torch.arange(4)
    whole = model(x, noise=Noise.at(0, 3, rows))
    assert torch.equal(model(x, noise=Noise.at(0, 3, rows)), whole)
    assert not torch.allclose(model(x, noise=Noise.at(0, 4, rows)), whole)
    whole.square().sum().backward()
    assert experts_of(model).router.weight.grad.abs().max() > 0
    assert torch.equal(model.eval()(x), model(x))


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: Router(score="sigmoid", choice=SparseMixer()), ["sparse_mixer", "score"]),
        (lambda: Router(choice=SparseMixer(), renormalise=Renormalise()), ["sparse_mixer", "renormalise"]),
        (lambda: Router(score="equal", choice=SparseMixer()), ["equal", "sparse_mixer"]),
        (lambda: Router(score="equal", choice=Hashed(), norm=RMSNorm(), expert_scale=True), ["norm, expert_scale"]),
        (lambda: Router(score="equal", choice=Hashed(), softcap=3.0, multiplier=0.5), ["multiplier, softcap"]),
        (lambda: Router(softcap=0.0), ["softcap"]),
        (lambda: of(identity_experts=2, capacity=Capacity()), ["identity_experts", "capacity"]),
        (lambda: of(identity_experts=2, chosen=X + 3), ["chosen", "experts = 8"]),
        (lambda: of(identity_experts=1, router=Router(choice=TopK(groups=Groups(count=3, keep=2)))), ["groups.count", "7"]),
        (lambda: of(clamp_at="after_activation"), ["clamp_at", "set clamp"]),
        (lambda: of(up_offset=1.0, gated=False), ["up_offset", "gated"]),
    ],
)
def test_senseless_routing_is_refused_by_name(make, names):
    with pytest.raises(DescriptionError) as refused:
        make()
    assert all(name in str(refused.value) for name in names), refused.value
