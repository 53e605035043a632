"""u-muP: the paper's own form, weights of unit variance under factors, is the same function after every step of Adam."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from coordinates import LOGITS, coordinate_check, depth_check, growth

from anyformer.describe import DescriptionError
from anyformer.model import Architecture, decoder_only
from anyformer.model.mup import computed
from anyformer.model.transformer import build
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    Initialisation,
    Normal,
    RMSNorm,
    Score,
    SubNorm,
    UnitScaledUpdate,
    pre_norm,
)
from anyformer.training.optimiser import build_optimiser
from anyformer.tuning import AdamW

RATE = AdamW(learning_rate=0.2)
UNIT = UnitScaledUpdate()
RULES = UnitScaledUpdate(residual=1.3, attention=0.6, scores=1.7, logits=2.0, length=16)
EXACT = AdamW(learning_rate=0.05, eps=1e-30, weight_decay=0.0)


def model(rules=UNIT, *, width=32, depth=2, eps=1e-6, head=1.0, std=1.0) -> Architecture:
    block = pre_norm(RMSNorm(eps=eps), Attention(heads=4), FeedForward(width=2 * width, activation="silu", gated=True))
    starts = Initialisation(matrix=Normal(std=std), embedding=Normal(std=1.0), head=Normal(std=head), mup=rules)
    return decoder_only(Embedding(vocab=64), width, [block] * depth, final_norm=RMSNorm(eps=eps), initialisation=starts)


def test_the_stream_changes_as_much_at_every_width_and_depth():
    unit, usual = model(head=0.0), model(None, head=0.0, std=32**-0.5)
    small = AdamW(learning_rate=5e-3)
    flat, grows = (
        growth(coordinate_check(unit, RATE, (32, 64, 128, 256))),
        growth(coordinate_check(usual, small, (32, 64, 128))),
    )
    assert all(abs(flat[name]) < 0.2 for name in ("layer 0", "layer 1")), flat
    assert abs(flat[LOGITS]) < 0.35, flat
    assert grows["layer 1"] > 1, grows
    flat, grows = (growth(depth_check(*each, (2, 4, 8, 16))) for each in ((unit, RATE), (usual, small)))
    assert all(abs(flat[name]) < 0.2 for name in ("middle layer", "last layer", LOGITS)), flat
    assert grows["last layer"] > 0.4, grows


def test_everything_starts_at_unit_scale():
    """Values, the activations of a network and the logits, whose head has the rest of its factor, have variance 1 or 1 / D."""
    made = build(model(UnitScaledUpdate(length=64), width=256, depth=4), seed=0)
    assert made.get_parameter("decoder.layers.0.attention.sublayer.query.weight").std().item() == pytest.approx(
        1 / 16, rel=0.02
    )
    assert made.get_parameter("decoder.layers.0.feedforward.sublayer.down.weight").std().item() == pytest.approx(
        512**-0.5, rel=0.02
    )
    assert made.embedding.weight.std().item() == pytest.approx(1, rel=0.02)
    assert made.get_parameter("head.weight").std().item() == pytest.approx(1, rel=0.02)
    seen = {}
    layer = made.decoder.layers[0]
    for name in ("attention", "feedforward"):
        getattr(layer, name).register_forward_hook(lambda _, given, output, name=name: seen.update({name: output}))
    features = made.features(torch.randint(64, (16, 64), generator=torch.Generator().manual_seed(0)))
    shares = {name: each.square().mean().item() * 4 for name, each in seen.items()}  # of 1 / L
    assert shares["feedforward"] == pytest.approx(1, rel=0.1)
    assert 0.5 < shares["attention"] < 2
    assert made.logits(features).std().item() == pytest.approx(256**-0.5, rel=0.1)


def test_rates_are_those_of_the_papers_table_in_its_symmetric_form():
    declared = build(model(width=64, depth=9), device="meta").declared
    rates = {name: pace.rate for name, pace in AdamW(learning_rate=1.0).paces(declared).items()}
    block, third = "decoder.layers.3", 1 / 3
    assert rates["embedding.weight"] == pytest.approx(1 / 8)
    assert rates["head.weight"] == 1
    assert rates["decoder.final_norm.weight"] == 1
    assert rates[f"{block}.attention.norm_before.weight"] == pytest.approx(third)
    for name in ("query", "key", "value", "output"):
        assert rates[f"{block}.attention.sublayer.{name}.weight"] == pytest.approx(third / 64)
    assert rates[f"{block}.feedforward.sublayer.gate.weight"] == pytest.approx(third / 64)
    assert rates[f"{block}.feedforward.sublayer.down.weight"] == pytest.approx(third / 128)
    assert len(rates) == 3 + 9 * 9
    numbers = computed(model(RULES, width=64, depth=9))
    branches = numbers.decoder.variants["layer"].branches
    other = 1.3 * math.sqrt(2 / (1 + 0.6**2)) / 3
    assert branches["feedforward"].multiplier == pytest.approx(other * 1.6765, rel=1e-4)
    share = 64 / (64 + 1.7**2)
    assert branches["attention"].multiplier == pytest.approx(other * 0.6 * (16 / math.log(16)) ** (share / 2))
    assert branches["attention"].sublayer.score.scale == pytest.approx(1.7 / 16)
    assert numbers.head.scale == pytest.approx(2 / 64)


def taus(rules, layers):
    """The paper's weight of each branch before the stream is divided by its growth, attention and network in turn."""
    network = rules.residual * (2 / (1 + rules.attention**2)) ** 0.5
    alphas = [rules.attention * network, network] * layers
    total = layers  # L / 2 of L branches, before the first
    for alpha in alphas:
        yield alpha / total**0.5
        total += alpha**2


def papers_form(rules, weights, tokens, depth):
    """Logits (B, T, V) of weights N(0, 1): every product by a factor, the stream divided by its growth at every branch."""

    def product(x, name):
        return F.linear(x, weights[name]) * weights[name].shape[1] ** -0.5

    def normed(x, name):
        return x * x.square().mean(-1, keepdim=True).rsqrt() * weights[name]

    x, tau = weights["embedding.weight"][tokens], taus(rules, depth)
    B, T, D = x.shape
    E = D // 4
    sigma = (math.log(rules.length) / rules.length) ** (0.5 * (1 - 1 / (1 + 4 * E / rules.scores**2)))
    for layer in range(depth):
        own = f"decoder.layers.{layer}.attention."
        h = normed(x, f"{own}norm_before.weight")
        q, k, v = (
            product(h, f"{own}sublayer.{name}.weight").view(B, T, 4, E).transpose(1, 2) for name in ("query", "key", "value")
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=rules.scores / E) / sigma
        y = product(mixed.transpose(1, 2).reshape(B, T, D), f"{own}sublayer.output.weight")
        t = next(tau)
        x = (x + t * y) / (1 + t * t) ** 0.5
        own = f"decoder.layers.{layer}.feedforward."
        h = normed(x, f"{own}norm_before.weight")
        gate, up = (product(h, f"{own}sublayer.{name}.weight") for name in ("gate", "up"))
        y = product(F.silu(gate) * up / 0.5964692111227134, f"{own}sublayer.down.weight")
        t = next(tau)
        x = (x + t * y) / (1 + t * t) ** 0.5
    return F.linear(normed(x, "decoder.final_norm.weight"), weights["head.weight"]) * rules.logits / D


def papers_rate(name, weight, depth):
    """Adam's rate of a weight in the paper's form, as a multiple of the rate."""
    inner = depth**-0.5 if "layers" in name else 1.0
    return inner * (1.0 if weight.dim() == 1 or name == "head.weight" else weight.shape[1] ** -0.5)


def test_the_papers_form_is_the_same_function_after_every_step():
    depth = 3
    made = build(model(RULES, depth=depth, eps=1e-30), dtype=torch.float64, seed=5).train()
    hidden = {name for name, each in made.named_parameters() if each.dim() == 2 and "layers" in name}
    weights = {
        name: (each.detach() * (each.shape[1] ** 0.5 if name in hidden else 1)).requires_grad_()
        for name, each in made.named_parameters()
    }
    assert all(weights[name].std().item() == pytest.approx(1, abs=0.1) for name in hidden)
    groups = [{"params": [each], "lr": 0.05 * papers_rate(name, each, depth)} for name, each in weights.items()]
    theirs, ours = torch.optim.Adam(groups, betas=EXACT.betas, eps=1e-30), build_optimiser(EXACT, made)
    for group in ours.param_groups:
        group["lr"] = 0.05 * group["factor"]
    tokens = torch.randint(64, (3, 16), generator=torch.Generator().manual_seed(0))
    for _ in range(5):
        both = made(tokens), papers_form(RULES, weights, tokens, depth)
        torch.testing.assert_close(*both, rtol=1e-5, atol=1e-5)  # norms are computed in fp32
        for logits, optimiser in zip(both, (ours, theirs), strict=True):
            F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
            optimiser.step()
            optimiser.zero_grad()
    assert not torch.allclose(both[0], build(model(RULES, depth=depth, eps=1e-30), dtype=torch.float64, seed=5)(tokens))


def test_a_norm_behind_a_nonlinearity_needs_no_factor():
    normed = pre_norm(RMSNorm(), Attention(heads=4, combine=SubNorm(norm=RMSNorm())), FeedForward(width=64, sub_norm=RMSNorm()))
    made = computed(
        model(UnitScaledUpdate(length=16), depth=4).but(decoder={"variants": {"layer": normed.plain()}, "order": "layer*4"})
    )
    assert {each.multiplier for each in made.decoder.variants["layer"].branches.values()} == {0.5}


def test_what_does_not_fit_is_refused():
    with pytest.raises(DescriptionError, match=r"matrix has a deviation of 0.02 at one input, .* set matrix"):
        Initialisation(mup=UnitScaledUpdate())
    with pytest.raises(DescriptionError, match=r"residual_scale = 0.5: .* leave it out"):
        Initialisation(matrix=Normal(std=1.0), embedding=Normal(std=1.0), residual_scale=0.5, mup=UnitScaledUpdate())
    scaled = pre_norm(RMSNorm(), Attention(heads=4, score=Score(scale=0.3)), FeedForward(width=64))
    with pytest.raises(DescriptionError, match=r"decoder.layer.attention.scale: is 0.3, .* leave it out"):
        computed(model().but(decoder={"variants": {"layer": scaled.plain()}, "order": "layer*4"}))


def test_it_is_written_as_it_is_read():
    made = model(RULES)
    assert made.plain()["initialisation"]["mup"]["kind"] == "unit_scaled"
    assert Architecture.parse(made.plain()) == made
