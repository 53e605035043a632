"""muP: nothing changes at the base, and at other widths initial values, rates, scores and logits follow the paper's table."""

from __future__ import annotations

import math

import pytest
import torch
from coordinates import LOGITS, coordinate_check, draw_coordinates, growth

import anyformer as af
from anyformer.describe import DescriptionError, change
from anyformer.model import Architecture, decoder_only
from anyformer.model.at_width import at_width
from anyformer.model.mup import based, computed
from anyformer.model.transformer import build
from anyformer.parts import (
    Attention,
    Embedding,
    Experts,
    FanIn,
    FeedForward,
    Head,
    Initialisation,
    LatentAttention,
    MaximalUpdate,
    Normal,
    RMSNorm,
    Rotary,
    pre_norm,
)
from anyformer.training.optimiser import build_optimiser
from anyformer.tuning import SGD, Adafactor, AdamW, AdamW8bit, Lion, Muon, Optimiser

BASE, WIDE, M = 32, 128, 4.0
WIDTHS, MORE = (32, 64, 128), (32, 64, 128, 256)
OPTIMISERS = (
    AdamW(learning_rate=5e-3),
    AdamW8bit(learning_rate=5e-3),
    Lion(learning_rate=2e-3),
    SGD(learning_rate=0.5, momentum=0.0),
    Adafactor(learning_rate=2e-2),
    Muon(learning_rate=5e-2, precision="fp32", others=AdamW(learning_rate=5e-3)),
    Muon(learning_rate=2e-2, precision="fp32", scale="match_rms_adamw", others=AdamW(learning_rate=5e-3)),
)
"""Muon's products in fp32: a processor without instructions for bf16 takes a hundred times as long for them."""


def model(width: int = BASE, *, mup: bool = True, tied: bool = False, experts: bool = False) -> Architecture:
    """A small decoder whose logits are 0 at first, so that all of them is what it learnt."""
    table = 0.1 if tied else 1.0
    starts = Initialisation(matrix=Normal(std=0.1), embedding=Normal(std=table), head=Normal(std=0.0))
    network = (
        Experts(experts=4, chosen=2, width=BASE) if experts else FeedForward(width=2 * BASE, activation="silu", gated=True)
    )
    block = pre_norm(RMSNorm(), Attention(heads=4, place=Rotary()), network)
    made = decoder_only(
        Embedding(vocab=64), BASE, [block] * 2, final_norm=RMSNorm(), head=Head(tied=tied), initialisation=starts
    )
    made = made.but(initialisation=starts.but(mup=MaximalUpdate(base_width=BASE))) if mup else made
    return at_width(made, width)


@pytest.mark.parametrize("widths", [WIDTHS, pytest.param(MORE, marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=lambda each: f"{each.kind} {getattr(each, 'scale', '')}")
def test_activations_change_as_much_at_every_width_with_mup_and_more_without(optimiser: Optimiser, widths: tuple[int, ...]):
    flat, grows = (growth(coordinate_check(model(mup=mup), optimiser, widths, seeds=(0, 1))) for mup in (True, False))
    assert all(abs(flat[name]) < 0.2 for name in ("layer 0", "layer 1")), flat
    assert abs(flat[LOGITS]) < 0.35, flat
    assert grows["layer 1"] > 1, grows


def test_of_experts_and_of_a_tied_table_they_do_too():
    for architecture in (model(experts=True), model(tied=True)):
        flat = growth(coordinate_check(architecture, AdamW(learning_rate=5e-3), WIDTHS, seeds=(0, 1)))
        assert abs(flat["layer 1"]) < 0.2, flat


def test_the_check_has_a_picture(tmp_path):
    found = coordinate_check(model(), AdamW(), (32, 64), updates=2)
    assert found[0].size == 32
    assert [len(each) for each in found[0].changes.values()] == [2, 2, 2]
    draw_coordinates({"muP": found, "as usual": found}, tmp_path / "check.svg", ("layer 1", LOGITS))
    assert "layer 1" in (tmp_path / "check.svg").read_text()


def test_at_the_base_nothing_changes():
    with_it, without = build(model(tied=True), seed=3), build(model(tied=True, mup=False), seed=3)
    assert all(torch.equal(one, with_it.get_parameter(name)) for name, one in without.named_parameters())
    tokens = torch.arange(12)[None]
    assert torch.equal(with_it(tokens), without(tokens))
    for optimiser in OPTIMISERS:
        assert optimiser.paces(with_it.declared) == optimiser.paces(without.declared)


def test_rates_initial_values_scores_and_logits_are_those_of_the_table():
    wide = model(WIDE)
    made = build(wide)
    paces = AdamW(learning_rate=0.01, weight_decay=0.1).paces(made.declared)
    head_width = WIDE // 4
    for name, weight in made.named_parameters():
        hidden = weight.dim() == 2 and name not in ("embedding.weight", "head.weight")
        assert paces[name].rate == pytest.approx(0.01 / (M if hidden else 1))
        decays = 0.1 * 0.01 if weight.dim() == 2 else 0
        assert paces[name].rate * paces[name].decay == pytest.approx(decays)
        if hidden:
            assert weight.std().item() == pytest.approx(0.1 / math.sqrt(M), rel=0.05)
    assert made.embedding.weight.std().item() == pytest.approx(1.0, rel=0.05)
    numbers = computed(wide)
    assert numbers.initialisation.mup is None
    assert numbers.head.scale == pytest.approx(1 / M)
    attention = numbers.decoder.variants["layer"].branches["attention"].sublayer
    assert attention.score.scale == pytest.approx((BASE // 4) ** 0.5 / head_width)


def test_each_optimiser_has_the_rates_of_its_steps():
    """Yang et al. 2022, table 8: of SGD 1 for a matrix, m for a table, vector or head; of Adam 1 / m, 1 and 1."""
    declared = build(model(WIDE), device="meta").declared
    names = ("decoder.layers.0.attention.sublayer.query.weight", "embedding.weight", "decoder.final_norm.weight", "head.weight")
    factors = {
        optimiser.kind: [round(optimiser.rate_of(declared[name]), 6) for name in names]
        for optimiser in (AdamW(), Lion(), SGD(), Adafactor())
    }
    assert factors == {
        "adamw": [1 / M, 1, 1, 1], "lion": [1 / M, 1, 1, 1], "sgd": [1, M, M, M], "adafactor": [M**-0.5, 1, 1, 1],
    }  # fmt: skip
    matrix = declared[names[0]]
    assert Muon().rate_of(matrix) == 1
    assert Muon(scale="match_rms_adamw").rate_of(matrix) == pytest.approx(M**-0.5)
    built = build_optimiser(AdamW(learning_rate=0.01), build(model(WIDE)))
    assert sorted({group["factor"] for group in built.param_groups}) == [1 / M, 1.0]


def test_ranks_and_routers_are_projections_to_and_from_a_fixed_number():
    latent = LatentAttention(heads=4, q_rank=8, kv_rank=8, nope_width=8, rope_width=4, value_width=8, rotary=Rotary())
    block = pre_norm(RMSNorm(), latent, Experts(experts=4, chosen=2, width=BASE))
    starts = Initialisation(matrix=Normal(std=0.1), mup=MaximalUpdate(base_width=BASE))
    narrow = decoder_only(Embedding(vocab=64), BASE, [block], initialisation=starts)
    wide = build(at_width(narrow, WIDE))
    paces = AdamW(learning_rate=1.0).paces(wide.declared)
    prefix = "decoder.layers.0.latent_attention.sublayer"
    down, up = f"{prefix}.query_down.weight", f"{prefix}.query_up.weight"
    assert paces[down].rate == 1 / M
    assert wide.get_parameter(down).std().item() == pytest.approx(0.1 / M, rel=0.1)
    assert paces[up].rate == 1
    assert wide.get_parameter(up).std().item() == pytest.approx(0.1, rel=0.1)
    router = next(name for name in wide.declared if "router" in name)
    assert paces[router].rate == 1 / M
    stacked = "decoder.layers.0.experts.sublayer.up"
    assert wide.declared[stacked].shape == (4, WIDE, WIDE)
    assert paces[stacked].rate == 1 / M
    assert wide.get_parameter(stacked).std().item() == pytest.approx(0.1 / math.sqrt(M), rel=0.1)


def test_latents_are_aligned_to_the_width_of_the_base():
    latent = LatentAttention(heads=4, kv_rank=8, nope_width=8, rope_width=4, value_width=8, aligned_to="width")
    starts = Initialisation(mup=MaximalUpdate(base_width=BASE))
    narrow = decoder_only(Embedding(vocab=64), BASE, [pre_norm(RMSNorm(), latent)], initialisation=starts)
    made = build(at_width(narrow, WIDE)).decoder.layers[0].latent_attention.sublayer
    assert made.kv_factor == (BASE / 8) ** 0.5


def test_a_rule_that_follows_the_inputs_by_itself_is_not_scaled_twice():
    by_inputs = model().but(initialisation=Initialisation(matrix=FanIn(gain=1.5), mup=MaximalUpdate(base_width=BASE)))
    query = build(at_width(by_inputs, WIDE)).get_parameter("decoder.layers.0.attention.sublayer.query.weight")
    assert query.std().item() == pytest.approx(1.5 * WIDE**-0.5, rel=0.05)


def test_the_plain_numbers_compute_the_same(tmp_path):
    wide = model(WIDE, tied=True)
    made = build(wide, seed=1).eval()
    made.get_parameter("embedding.weight").data.normal_()
    tokens = torch.arange(20)[None]
    plain = build(computed(wide), seed=2).eval()
    plain.load_state_dict(made.state_dict())
    assert torch.equal(made(tokens), plain(tokens))
    af.export(made, tmp_path / "exported")
    loaded, _ = af.load(tmp_path / "exported")
    assert torch.equal(loaded(tokens), made(tokens))
    usual = build(model(WIDE, tied=True, mup=False)).eval()
    usual.load_state_dict(made.state_dict())
    assert not torch.allclose(usual(tokens), made(tokens))


def test_a_base_that_does_not_fit_is_refused_before_any_work():
    with pytest.raises(DescriptionError, match=r"initialisation.mup.base_width = 30: .*heads must divide the width"):
        based(change(model(), "initialisation.mup.base_width", 30))


def test_it_is_set_by_path():
    set_by_path = change(model(mup=False), "initialisation.mup", {"base_width": BASE})
    assert set_by_path == model()
    assert change(set_by_path, "initialisation.mup.base_width", 64).initialisation.mup.base_width == 64
