"""Experts: dispatch, capacity and cost, each against plain loops."""

from __future__ import annotations

import math

import naive
import pytest
import torch
from naive.basics import linear
from naive.experts import SCORES, expert
from torch.utils.flop_counter import FlopCounterMode
from zoo import RMS, VOCAB, ZOO

from anyformer.describe import DescriptionError, InputError
from anyformer.model import decoder_only
from anyformer.model.transformer import build
from anyformer.operations import Shape, Tally
from anyformer.parts import (
    Attention,
    Capacity,
    Embedding,
    Experts,
    Groups,
    Hashed,
    Renormalise,
    Rotary,
    Router,
    RowCapacity,
    SharedExpert,
    TopK,
    pre_norm,
)
from anyformer.parts.experts import exchange, grouped
from anyformer.parts.experts.capacity_module import assign
from anyformer.parts.experts.dispatch import in_places, sorted_by_expert
from anyformer.parts.experts.grouped import grouped_product
from parts.mixture import B, D, K, T, X, experts_of, of, randomised, tokens


def same_gradients(model, weights) -> None:
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            torch.testing.assert_close(
                parameter.grad, weights[name].grad, rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
            )


@pytest.mark.parametrize("name", [name for name in ZOO if "experts" in name])
def test_biases_and_corrections_enter_as_in_the_twin(name):
    model, x = randomised(ZOO[name]), tokens(rows=1, length=7)
    weights = {n: p.detach().clone().requires_grad_(p.is_floating_point()) for n, p in model.named_parameters()}
    ours, theirs = model(x)[0], naive.forward(ZOO[name], weights, x[0].tolist())
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    for y in (ours, theirs):
        (y * torch.linspace(-1, 1, y.numel()).view_as(y)).sum().backward()
    same_gradients(model, weights)


@pytest.mark.parametrize("name", [name for name in ZOO if "experts" in name])
@pytest.mark.parametrize("length", [1, 5])
def test_a_few_rows_without_gradients_are_not_sorted_and_compute_the_same(name, length, monkeypatch):
    model, x = randomised(ZOO[name]).eval(), tokens(rows=2, length=length)
    wanted = model(x).detach()
    monkeypatch.setattr(exchange, "FEW", 10**6)
    with torch.no_grad():
        torch.testing.assert_close(model(x), wanted, rtol=1e-5, atol=1e-5)


def grouped_equals_singles(product, dtype, tolerance, inputs=5, outputs=7):
    torch.manual_seed(0)
    rows = torch.randn(13, inputs, dtype=dtype, requires_grad=True)
    weight = torch.randn(4, outputs, inputs, dtype=dtype, requires_grad=True)
    direction, ends = torch.randn(13, outputs, dtype=dtype), [3, 3, 12, 13]
    ours = product(rows, weight, torch.tensor(ends))
    theirs = torch.stack([weight[sum(end <= q for end in ends)] @ row for q, row in enumerate(rows)])
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
    gradients = [torch.autograd.grad((y * direction).sum(), (rows, weight)) for y in (ours, theirs)]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 0.05)])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_grouped_product_equals_one_product_per_expert(dtype, tolerance, compiled):
    product = torch.compile(grouped_product, fullgraph=True, backend="aot_eager") if compiled else grouped_product
    grouped_equals_singles(product, dtype, tolerance)


@pytest.mark.parametrize(("inputs", "outputs"), [(5, 7), (8, 16), (8, 3), (3, 8)])
def test_torchs_grouped_product_gives_the_same(inputs, outputs, monkeypatch):
    """What runs on a GPU, with rows filled up to what it wants."""
    monkeypatch.setattr(grouped, "_fits_torch", lambda rows: True)
    grouped_equals_singles(grouped_product, torch.bfloat16, 0.05, inputs, outputs)


def test_dispatch_and_combine_are_exact_and_differentiable():
    torch.manual_seed(1)
    chosen = torch.stack([torch.randperm(X)[:K] for _ in range(9)])
    x = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    placement = sorted_by_expert(chosen, X)
    assert (placement.expert.diff() >= 0).all()
    assert torch.equal(placement.combine(placement.dispatch(x)), x[:, None].expand(9, K, 4))
    assert torch.autograd.gradcheck(lambda x: placement.combine(placement.dispatch(x).square()), x)
    weights = torch.randn(9, K, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w: placement.combine(placement.spread(w) ** 2), weights)
    places = in_places(*assign(chosen, torch.ones(9, dtype=torch.bool), X, K, 2, reroute=False), X, 2)
    assert not places.taken.all()
    assert torch.equal(places.combine(places.dispatch(x)), x[:, None] * places.taken[..., None])
    assert torch.autograd.gradcheck(lambda x: places.combine(places.dispatch(x).square()), x)
    assert torch.autograd.gradcheck(lambda w: places.combine(places.spread(w) ** 2), weights)


def slowly(order, asking, chosen, places, reroute):
    """What `assign` does, one token at a time: [(expert, taken)] per token and slot."""
    free, got = [places] * X, [[] for _ in order]
    for r in range(len(order[0])):
        for t, wanted in enumerate(order):
            if not asking[t] or sum(took for _, took in got[t]) == chosen:
                continue
            took = free[wanted[r]] > 0
            free[wanted[r]] -= took
            if took or not reroute:
                got[t].append((wanted[r], took))
    return got


@pytest.mark.parametrize("reroute", [False, True])
@pytest.mark.parametrize("places", [1, 3, 5, 20])
def test_capacity_serves_first_choices_first_and_tokens_in_order(places, reroute):
    generator = torch.Generator().manual_seed(places)
    skewed = torch.rand(20, X, generator=generator) + torch.arange(X) * 0.3
    order = skewed.argsort(descending=True)[:, : X if reroute else K]
    asking = torch.rand(20, generator=generator) < 0.8
    chosen, taken, place = assign(order, asking, X, K, places, reroute=reroute)
    expected = slowly(order.tolist(), asking.tolist(), K, places, reroute)
    for t in range(20):
        ours = [(e, took) for e, took in zip(chosen[t].tolist(), taken[t].tolist(), strict=True) if took or not reroute]
        assert ours == (expected[t] or ours), t
        assert asking[t] or not taken[t].any()
        assert len({e for e, took in ours if took}) == sum(took for _, took in ours), "no expert twice"
    used = [(e, p) for e, p in zip(chosen[taken].tolist(), place[taken].tolist(), strict=True)]
    assert len(set(used)) == len(used), "no place twice"
    assert all(0 <= p < places for _, p in used)
    if not reroute and places < 20:
        assert not taken[asking].all(), "something should be dropped"


def capped_by_hand(model, x_MD, capacity):
    """The layer with a capacity in plain loops: (M, D)."""
    layer = experts_of(model)
    part = layer.description
    weights = dict(model.named_parameters())
    name = "decoder.layers.0.experts.sublayer"
    scores = [SCORES[part.router.score](list(linear(f"{name}.router", weights, v))) for v in x_MD]
    order = [sorted(range(X), key=lambda e, s=s: -s[e].item()) for s in scores]
    reroute = capacity.overflow == "reroute"
    places = math.ceil(capacity.factor * K * len(x_MD) / X)
    got = slowly([o if reroute else o[:K] for o in order], [True] * len(order), K, places, reroute)
    out = []
    for v, s, slots in zip(x_MD, scores, got, strict=True):
        among = sum(s[e] for e, _ in slots)
        out.append(sum(expert(part, name, weights, e, v) * (s[e] / among) for e, took in slots if took) + 0 * v)
    return torch.stack(out)


@pytest.mark.parametrize("overflow", ["drop", "reroute"])
@pytest.mark.parametrize("factor", [0.4, 1.0, 2.0])
def test_a_layer_with_capacity_equals_the_slow_loop(overflow, factor):
    capacity = Capacity(factor=factor, overflow=overflow, when="always")
    model = randomised(of(capacity=capacity, router=Router(renormalise=Renormalise())))
    layer, seen = experts_of(model), []
    layer.register_forward_hook(lambda module, given, output: seen.append((given[0], output)))
    model(tokens())
    read, wrote = seen[0]
    ours = torch.autograd.grad(wrote.square().sum(), list(layer.parameters()))
    by_hand = capped_by_hand(model, read.flatten(0, 1).detach(), capacity)
    torch.testing.assert_close(wrote.flatten(0, 1), by_hand)
    for a, b in zip(ours, torch.autograd.grad(by_hand.square().sum(), list(layer.parameters())), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("overflow", ["drop", "reroute"])
@pytest.mark.parametrize("when", ["training", "always"])
def test_flops_of_a_capacity_that_always_holds_count_the_padding(overflow, when):
    architecture = of(capacity=Capacity(factor=1.5, overflow=overflow, when=when))
    counted = []
    for training in (True, False):
        with FlopCounterMode(display=False) as counter:
            build(architecture, device="meta").train(training)(tokens().to("meta"))
        counted.append(counter.get_total_flops())
    flops = architecture.cost(Shape(batch=B, length=T)).total_flops
    in_training, in_evaluation = counted
    assert flops.dense == in_evaluation
    assert (in_training > in_evaluation) == (when == "training")
    routed = of().cost(Shape(batch=B, length=T)).total_flops
    assert (flops.dense == routed.dense) == (when == "training")


CAPPED = of(capacity=Capacity(factor=0.5, when="always"))


def test_a_capacity_breaks_what_it_declares():
    model, x = build(CAPPED).eval(), tokens()
    cost = CAPPED.cost(Shape())
    assert {limit.contract for limit in cost.limits} == {"causal", "chunked", "packed", "padded", "cached"}
    whole = model(x)

    def differs(a, b) -> bool:
        return bool((a - b).abs().max() > 1e-3)

    changed = x.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % VOCAB
    assert differs(model(changed)[:, :6], whole[:, :6]), "causal"
    for cut, name in (((5, 6), "chunked"), ((1,) * T, "cached")):
        state = model.state(B, T)
        assert differs(torch.cat([model(piece, state=state) for piece in x.split(cut, 1)], 1), whole), name
    padding = torch.zeros(B, T + 4, dtype=torch.bool)
    padding[:, :4] = True
    wide = torch.cat([x[:, :4], x], 1)
    assert differs(model(wide, padding=padding)[:, 4:], whole), "padded"
    with pytest.raises(InputError, match="capacity"):
        model(x, documents=torch.zeros_like(x))
    model._tally = Tally()
    packed = model(x, documents=(torch.arange(T) >= 5).long().expand(B, T))
    assert differs(packed[:, :5], model(x[:, :5])), "packed"


def test_a_row_capacity_breaks_what_it_declares_and_nothing_else():
    architecture = of(capacity=RowCapacity(tokens=3))
    model, x = build(architecture).eval(), tokens()
    assert {limit.contract for limit in architecture.cost(Shape()).limits} == {"chunked", "packed", "cached"}
    whole = model(x)
    assert not torch.allclose(whole, build(of()).eval()(x), atol=1e-3), "somebody found no place"
    for cut in ((5, 6), (1,) * T):
        state = model.state(B, T)
        assert not torch.allclose(torch.cat([model(piece, state=state) for piece in x.split(cut, 1)], 1), whole, atol=1e-3)
    torch.testing.assert_close(model(x[:1]), whole[:1], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model(x[:, :6]), whole[:, :6], rtol=1e-4, atol=1e-5)
    padding = torch.zeros(B, T + 4, dtype=torch.bool)
    padding[:, :4] = True
    wide = torch.cat([x[:, :4], x], 1)
    torch.testing.assert_close(model(wide, padding=padding)[:, 4:], whole, rtol=1e-4, atol=1e-5)
    with pytest.raises(InputError, match="each row"):
        model(x, documents=torch.zeros_like(x))


def test_a_capacity_in_training_only_leaves_evaluation_whole():
    free, capped = of(), of(capacity=Capacity(factor=0.5))
    assert not capped.cost(Shape()).limits
    x = tokens()
    assert torch.equal(build(capped).eval()(x), build(free).eval()(x))
    assert not torch.allclose(build(capped).train()(x), build(free).train()(x))


def test_rerouting_stays_in_the_groups_of_a_token():
    router = Router(choice=TopK(groups=Groups(count=3, keep=1)))
    model = build(of(router=router, capacity=Capacity(factor=0.6, overflow="reroute", when="always"))).eval()
    layer, placed = experts_of(model), []
    place = layer._place
    layer._place = lambda routing, wanted, real: placed.append((wanted, place(routing, wanted, real))) or placed[0][1]
    model(tokens())
    wanted, placement = placed[0]
    assert not placement.taken.all()
    assert torch.equal(placement.chosen // 2, wanted // 2)


def test_padding_takes_no_place():
    model, x = build(of(capacity=Capacity(factor=1.0, when="always"))).eval(), tokens()
    padding = torch.zeros(B, T, dtype=torch.bool)
    padding[:, :5] = True
    other = torch.where(padding, (x + 1) % VOCAB, x)
    torch.testing.assert_close(model(other, padding=padding)[:, 5:], model(x, padding=padding)[:, 5:])


def test_two_calls_give_the_same_bits():
    x, found = tokens(), []
    for _ in range(2):
        model = build(of(layers=2, bias=["gate", "up", "down"], capacity=Capacity())).train()
        model(x).square().sum().backward()
        found.append([p.grad for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_one_token_uses_the_experts_it_chose():
    tally = of().cost(Shape())
    assert tally.parameters - tally.active_parameters == (X - K) * 3 * 12 * D
    kinds = {name.split(".")[-1]: weight.role for name, weight in tally.weights.items() if ".experts." in name}
    assert {kinds[name] for name in ("gate", "up", "down")} == {"expert"}
    biased = of(bias=["up"]).cost(Shape()).weights["decoder.layers.0.experts.sublayer.up_bias"]
    assert not biased.decays


def test_mixtral_has_its_published_size():
    """8 x 7B has 46.7 B parameters, of which a token uses 12.9 B (Mixtral, arXiv 2401.04088, section 2)."""
    attention = Attention(heads=32, kv_heads=8, place=Rotary(theta=1e6))
    experts = Experts(experts=8, chosen=2, width=14_336, router=Router(renormalise=Renormalise()))
    mixtral = decoder_only(Embedding(vocab=32_000), 4096, [pre_norm(RMS, attention, experts)] * 32, final_norm=RMS)
    tally = mixtral.cost(Shape())
    assert tally.parameters == 46_702_792_704
    assert tally.active_parameters == 12_879_925_248


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: Experts(experts=2, chosen=3, width=4), ["chosen", "experts"]),
        (lambda: Experts(experts=2, chosen=1, width=4, gated=False, bias=["gate"]), ["gate", "gated"]),
        (lambda: Experts(experts=2, chosen=1, width=4, bias=["up", "up"]), ["bias", "twice"]),
        (lambda: Experts(experts=2, chosen=1, width=4, activation="sillu"), ["activation", "silu"]),
        (lambda: _grouped(6, 2, Groups(count=4, keep=2)), ["groups.count", "divide"]),
        (lambda: _grouped(6, 2, Groups(count=2, keep=3)), ["groups.keep", "groups.count"]),
        (lambda: _grouped(6, 3, Groups(count=3, keep=1)), ["groups.keep", "chosen"]),
        (lambda: _grouped(6, 1, Groups(count=6, keep=2, score="top_2")), ["groups.score", "top_2"]),
        (lambda: Router(score="sigmoid", over="chosen"), ["over", "sigmoid"]),
        (lambda: Router(over="chosen", renormalise=Renormalise()), ["renormalise"]),
        (lambda: Router(score="equal"), ["equal", "top_k"]),
        (lambda: Router(score="equal", choice=Hashed(), bias=True), ["bias"]),
        (lambda: Router(jitter=1.0), ["jitter"]),
        (lambda: Capacity(factor=0.0), ["factor"]),
        (lambda: SharedExpert(gate="sigmoid"), ["feedforward"]),
    ],
)
def test_senseless_descriptions_are_refused_by_name(make, names):
    with pytest.raises(DescriptionError) as refused:
        make()
    assert all(name in str(refused.value) for name in names), refused.value


def _grouped(experts: int, chosen: int, groups: Groups) -> Experts:
    return Experts(experts=experts, chosen=chosen, width=4, router=Router(choice=TopK(groups=groups)))
