"""Rotary scaling: the frequencies and wave factors of transformers, and limits that are real."""

from __future__ import annotations

import itertools

import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.parts import DynamicScaling, LinearScaling, Llama3Scaling, LongRoPE, Proportional, Rotary, YaRN
from anyformer.parts.positions.rotary_module import angles, table
from anyformer.parts.positions.rotary_scaling import RotaryScaling

E, TRAINED = 16, 64
SHORT, LONG = [1.0 + i / 10 for i in range(E // 2)], [2.0 + i for i in range(E // 2)]
CASES: dict[str, tuple[RotaryScaling, dict]] = {
    "linear": (LinearScaling(factor=4.0), {"rope_type": "linear", "factor": 4.0}),
    "yarn": (
        YaRN(factor=4.0, trained=TRAINED),
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": TRAINED},
    ),
    "yarn_options": (
        YaRN(factor=8.0, trained=TRAINED, beta_fast=16.0, beta_slow=2.0, truncate=False, attention_factor=1.3),
        {
            "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": TRAINED, "beta_fast": 16.0,
            "beta_slow": 2.0, "truncate": False, "attention_factor": 1.3,
        },
    ),
    "yarn_beyond": (  # the ramp ends beyond the last of the 8 pairs, at the ninth
        YaRN(factor=4.0, trained=100_000),
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 100_000},
    ),
    "llama3": (
        Llama3Scaling(trained=TRAINED),
        {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": TRAINED,
        },
    ),
    "proportional": (  # 2.4 of 8 pairs turn: two
        Proportional(fraction=0.3, factor=2.0),
        {"rope_type": "proportional", "factor": 2.0, "partial_rotary_factor": 0.3},
    ),
    "dynamic": (
        DynamicScaling(factor=2.0, trained=TRAINED),
        {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": TRAINED},
    ),
    "longrope": (
        LongRoPE(short=tuple(SHORT), long=tuple(LONG), trained=TRAINED, attention_factor=1.2),
        {
            "rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG, "attention_factor": 1.2,
            "original_max_position_embeddings": TRAINED,
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("length", [10, TRAINED, 3 * TRAINED])
@pytest.mark.parametrize("name", CASES)
def test_frequencies_are_those_of_transformers(name, length):
    scaling, parameters = CASES[name]
    config = LlamaConfig(
        hidden_size=2 * E, num_attention_heads=2, head_dim=E, max_position_embeddings=TRAINED,
        rope_parameters={"rope_theta": 10_000.0, **parameters},
    )  # fmt: skip
    theirs, factor = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, "cpu", seq_len=length)
    rotary = Rotary(scaling=scaling)
    positions = torch.arange(length)[None]
    torch.testing.assert_close(angles(rotary, positions, E)[0, 1], theirs, rtol=1e-6, atol=1e-9)
    cos, _ = table(rotary, positions, E, torch.float32)
    assert cos[0, 0, 0, 0].item() == pytest.approx(factor)


@pytest.mark.parametrize("name", ["dynamic", "longrope"])
def test_scaling_by_length_declares_what_it_breaks_and_does(name):
    from zoo import DECODERS

    from anyformer.describe import change

    scaling = CASES[name][0].but(trained=6)
    short = scaling.but(short=scaling.short[:3], long=scaling.long[:3]) if isinstance(scaling, LongRoPE) else scaling
    architecture = change(DECODERS["llama"], "decoder.layer.attention.rotary.scaling", short)
    assert architecture.cost(Shape()).breaks("cached")
    model = build(architecture).eval()
    tokens = torch.randint(0, 37, (1, 11))
    state = model.state(1, 11)
    pieces = torch.cat([model(piece, state=state) for piece in tokens.split(1, 1)], 1)
    assert (pieces - model(tokens)).abs().max() > 1e-3, "the declared limit should be real"
    within = torch.cat([model(piece, state=s) for s in [model.state(1, 6)] for piece in tokens[:, :6].split(1, 1)], 1)
    torch.testing.assert_close(within, model(tokens[:, :6]), rtol=1e-4, atol=1e-5)


ENDS = (1e-12, 1.0, 1e12)


def _scalings():
    for f in ENDS:
        yield lambda f=f: LinearScaling(factor=f)
        yield lambda f=f: Proportional(fraction=0.5, factor=f)
        yield lambda f=f: LongRoPE(short=(f, f), long=(1 / f, 1 / f), trained=4)
        for trained in (2, 2**40):
            yield lambda f=f, t=trained: DynamicScaling(factor=f, trained=t)
            for a, b in itertools.product(ENDS, ENDS):
                yield lambda f=f, t=trained, a=a, b=b: YaRN(factor=f, trained=t, beta_fast=a, beta_slow=b)
                yield lambda f=f, t=trained, a=a, b=b: Llama3Scaling(factor=f, trained=t, low=a, high=b)


def test_every_scaling_that_a_description_may_hold_has_finite_angles():
    """YaRN divided by ln theta, dynamic scaling by R - 2, and small factors left the range of fp32, all after `show`."""
    held = 0
    for theta, made, width in itertools.product((1e-12, 1.0, 1.0 + 1e-15, 2.0, 1e12), _scalings(), (2, 4)):
        try:
            rotary = Rotary(theta=theta, scaling=made())
            rotary.rotated(width)
        except ValueError:
            continue
        held += 1
        for waves in table(rotary, torch.tensor([[0, 1, 2**30]]), width, torch.float32):
            assert waves.isfinite().all(), (rotary, width)
    assert held > 300


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Rotary(theta=1.0, scaling=YaRN(factor=2.0, trained=8)), "theta must be 1.01 or more, got 1.0"),
        (lambda: Rotary(theta=1e-320), "theta"),
        (lambda: LinearScaling(factor=0.0), "factor"),
        (lambda: Llama3Scaling(factor=1e-40), "factor"),
        (lambda: LongRoPE(short=(1.0, 0.0), long=(1.0, 1.0), trained=4), "short"),
        (lambda: Rotary(scaling=DynamicScaling(factor=2.0, trained=8)).rotated(2), "at least 4 features"),
    ],
)
def test_a_pole_of_a_scaling_is_refused_with_its_field(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_angles_of_far_positions_are_those_of_fp64():
    """Beyond 256 a position in 16 bits is another one."""
    positions = torch.tensor([[0, 1, 257, 4_099, 131_071]])
    exact = positions.double()[..., None] * 500_000.0 ** (-torch.arange(0, E, 2, dtype=torch.float64) / E)
    torch.testing.assert_close(angles(Rotary(theta=500_000.0), positions, E).double(), exact, rtol=1e-6, atol=0)
