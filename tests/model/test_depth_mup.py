"""muP of the depth: what branches add, and what they learn to add, is as much at every number of layers."""

from __future__ import annotations

import json

import pytest
import torch
from coordinates import LOGITS, depth_check, draw_coordinates, growth

import anyformer as af
from anyformer.describe import DescriptionError, change, change_all
from anyformer.model import Architecture, decoder_only
from anyformer.model.mup import computed
from anyformer.model.transformer import build
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    Initialisation,
    MaximalUpdate,
    Normal,
    RMSNorm,
    Rotary,
    post_norm,
    pre_norm,
)
from anyformer.training.optimiser import build_optimiser
from anyformer.tuning import SGD, Adafactor, AdamW, Lion, Muon, Optimiser

WIDTH, BASE, DEPTHS = 32, 2, (2, 4, 8)
MORE = (*DEPTHS, 16)
EXPONENTS = (0.5, 1.0)
SCALED = MaximalUpdate(base_width=WIDTH, base_depth=BASE)
OPTIMISERS = (
    AdamW(learning_rate=5e-3),
    Lion(learning_rate=2e-3),
    SGD(learning_rate=0.5, momentum=0.0),
    Adafactor(learning_rate=2e-2),
    Muon(learning_rate=5e-2, precision="fp32", others=AdamW(learning_rate=5e-3)),
)
BLOCK = pre_norm(RMSNorm(), Attention(heads=4, place=Rotary()), FeedForward(width=2 * WIDTH, bias=("down",)))


def model(mup: MaximalUpdate | None, depth: int = BASE, width: int = WIDTH, **starts) -> Architecture:
    """A decoder whose logits are 0 at first."""
    initialisation = Initialisation(matrix=Normal(std=0.1), embedding=Normal(std=1.0), head=Normal(std=0.0), mup=mup, **starts)
    return decoder_only(Embedding(vocab=64), width, [BLOCK] * depth, final_norm=RMSNorm(), initialisation=initialisation)


@pytest.mark.parametrize("depths", [DEPTHS, pytest.param(MORE, marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize(
    "optimiser",
    [each if isinstance(each, AdamW | Muon) else pytest.param(each, marks=pytest.mark.slow) for each in OPTIMISERS],
    ids=lambda each: each.kind,
)
def test_the_stream_changes_as_much_at_every_depth_and_more_without(optimiser: Optimiser, depths: tuple[int, ...]):
    grows = growth(depth_check(model(None), optimiser, depths, seeds=(0, 1)))
    assert grows["last layer"] > 0.4, grows
    for exponent in EXPONENTS:
        flat = growth(depth_check(model(SCALED.but(depth_exponent=exponent)), optimiser, depths, seeds=(0, 1)))
        assert all(abs(flat[name]) < 0.2 for name in ("middle layer", "last layer", LOGITS)), (exponent, flat)


def test_mup_of_the_width_alone_does_not_keep_it():
    grows = growth(depth_check(model(MaximalUpdate(base_width=WIDTH)), OPTIMISERS[0], DEPTHS))
    assert grows["last layer"] > 0.4, grows


def test_at_the_base_nothing_changes():
    tokens = torch.arange(12)[None]
    for exponent in EXPONENTS:
        with_it, without = build(model(SCALED.but(depth_exponent=exponent)), seed=3), build(model(None), seed=3)
        assert torch.equal(with_it(tokens), without(tokens))
        for optimiser in OPTIMISERS:
            assert optimiser.paces(with_it.declared) == optimiser.paces(without.declared)


@pytest.mark.parametrize(
    ("exponent", "branch", "adam", "sgd"), [(0.5, 1 / 2, 1 / 2, 1.0), (1.0, 1 / 4, 1.0, 4.0), (0.75, 4**-0.75, 4**-0.25, 2.0)]
)
def test_branches_and_rates_are_those_of_the_papers(exponent, branch, adam, sgd):
    """At l = 4 times the layers: branches l^-a; rates of their weights l^(a - 1), by SGD l^(2a - 1); others as ever."""
    deep = model(SCALED.but(depth_exponent=exponent), 4 * BASE)
    for each in computed(deep).decoder.variants["layer"].branches.values():
        assert each.multiplier == pytest.approx(branch)
    declared = build(deep, device="meta").declared
    alike = [kind(learning_rate=1.0) for kind in (AdamW, Lion, Adafactor)]
    muon = Muon(learning_rate=1.0, others=alike[0])
    for optimiser, expected in [(SGD(learning_rate=1.0), sgd), *((each, adam) for each in (*alike, muon))]:
        for name, pace in optimiser.paces(declared).items():
            outside = name in ("embedding.weight", "head.weight", "decoder.final_norm.weight")
            assert pace.rate == pytest.approx(1.0 if outside else expected), (optimiser.kind, name)
            assert pace.rate * pace.decay == pytest.approx(optimiser.weight_decay if declared[name].decays else 0), name
    assert "decoder.layers.7.feedforward.sublayer.down.bias" in declared
    groups = build_optimiser(AdamW(learning_rate=0.01), build(deep)).param_groups
    assert {round(group["factor"], 6) for group in groups} == {round(adam, 6), 1.0}


def test_width_and_depth_are_scaled_together():
    wide = build(model(SCALED.but(depth_exponent=0.5), 4 * BASE, 4 * WIDTH), device="meta")
    query = AdamW(learning_rate=1.0).paces(wide.declared)["decoder.layers.3.attention.sublayer.query.weight"]
    assert query.rate == pytest.approx(1 / 4 / 2)


def test_what_starts_smaller_in_deep_models_starts_as_at_the_base():
    """GPT-2's 1 / sqrt(2 L) of initial values is that of the base, since branches have their factor."""
    name = "decoder.layers.0.feedforward.sublayer.down.weight"
    made = {
        depth: build(model(SCALED, depth, residual_scale="inverse_sqrt_2_depth"), seed=1).get_parameter(name)
        for depth in (BASE, 4 * BASE)
    }
    assert torch.equal(made[BASE], made[4 * BASE])


def test_the_plain_numbers_compute_the_same():
    deep = model(SCALED, 4 * BASE)
    made, plain = build(deep, seed=1).eval(), build(computed(deep), seed=2).eval()
    made.get_parameter("head.weight").data.normal_()
    plain.load_state_dict(made.state_dict())
    tokens = torch.arange(20)[None]
    assert torch.equal(made(tokens), plain(tokens))
    usual = build(model(None, 4 * BASE)).eval()
    usual.load_state_dict(made.state_dict())
    assert not torch.allclose(usual(tokens), made(tokens))


def test_a_llama_is_exported_as_a_granite(tmp_path):
    deep = change_all(
        af.architecture("llama-12m"),
        {"initialisation": {"mup": SCALED.but(base_width=96).plain()}, "decoder.order": "layer*4", "width": 192},
    )
    made = build(deep).eval()
    af.export(made, tmp_path / "exported")
    written = json.loads((tmp_path / "exported" / "config.json").read_text())
    assert (written["model_type"], written["residual_multiplier"], written["logits_scaling"]) == ("granite", 0.5, 2.0)
    loaded, _ = af.load(tmp_path / "exported")
    tokens = torch.arange(20)[None]
    assert torch.equal(loaded(tokens), made(tokens))


@pytest.mark.parametrize(
    ("blocks", "told"),
    [
        ([post_norm(RMSNorm(), Attention(heads=4), FeedForward(width=8))] * 4, "decoder.layer: a norm behind the sum"),
        (
            [BLOCK.but(steps=tuple(step.but(residual_scale="by_layer") for step in BLOCK.steps))] * 4,
            "decoder.layer: residual_scale = 'by_layer' scales",
        ),
        ([BLOCK, BLOCK.but(steps=(BLOCK.steps[0].but(residual="none"),))], "residual = 'none' adds branches to no stream"),
    ],
)
def test_blocks_that_do_not_add_to_the_stream_are_refused(blocks, told):
    made = decoder_only(Embedding(vocab=64), WIDTH, blocks, initialisation=Initialisation(mup=SCALED))
    with pytest.raises(DescriptionError, match=told):
        computed(made)


def test_an_exponent_without_a_depth_is_refused():
    with pytest.raises(DescriptionError, match=r"depth_exponent = 0.5 .* set base_depth"):
        MaximalUpdate(base_width=8, depth_exponent=0.5)


def test_it_is_set_by_path_and_written_as_it_is_read():
    made = change(model(MaximalUpdate(base_width=WIDTH)), "initialisation.mup.base_depth", BASE)
    assert made == model(SCALED)
    assert Architecture.parse(made.plain()) == made
    assert change(model(None), "initialisation.mup", {"base_width": WIDTH, "base_depth": BASE}) == made


def test_the_check_has_a_picture(tmp_path):
    found = depth_check(model(SCALED), AdamW(), (2, 4), updates=1)
    assert [each.size for each in found] == [2, 4]
    draw_coordinates({"CompleteP": found}, tmp_path / "check.svg", ("last layer", LOGITS), "layers")
    assert "layers" in (tmp_path / "check.svg").read_text()
