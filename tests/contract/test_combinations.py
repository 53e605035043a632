"""The contracts over random combinations of parts, and combinations that make no sense, refused when described."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import pytest
import torch
from combinations import VOCAB, draw

from anyformer.costs.activations import activations
from anyformer.costs.flop_counter import MetaFlops
from anyformer.costs.saved.measured import saved_bytes
from anyformer.describe import DescriptionError, Named, from_toml, to_toml
from anyformer.model import Architecture, decoder_only
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.parts import (
    RWKV7,
    ALiBi,
    Attention,
    CrossAttention,
    Disentangled,
    Embedding,
    FeedForward,
    Fixed,
    GroupedLayerNorm,
    HyperConnections,
    KeysFrom,
    LayerNorm,
    LongRoPE,
    MeanKeys,
    Projection,
    QKNorm,
    RMSNorm,
    Rotary,
    Score,
    SharedBias,
    ValueGate,
    ValueResidual,
    Window,
    post_norm,
    pre_norm,
    stack,
)
from anyformer.parts.call.shared import slot_bytes
from anyformer.plan import Plan
from covering import cover, kinds

B, T, S = 2, 9, 6
FP32 = Plan(precision="fp32")
FAST, SLOW, BLOCKS, HUNDRED = 50, 3050, 4, 100


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    """Equal up to fp32's rounding: some combinations let numbers grow, so the scale is the largest one."""
    torch.testing.assert_close(a, b, rtol=1e-3, atol=2e-4 * max(1.0, float(b.detach().abs().max())))


def check(architecture: Architecture) -> None:
    """Everything that a combination owes, at once."""
    assert from_toml(Architecture, to_toml(architecture)) == architecture
    two = architecture.two_inputs
    tokens = torch.randint(0, VOCAB, (B, T), generator=torch.Generator().manual_seed(0))
    source = torch.randint(0, VOCAB, (B, S), generator=torch.Generator().manual_seed(1))
    given = (source, tokens) if two else (tokens,)
    model = build(architecture)
    with torch.no_grad():
        model(*given)  # BatchNorm's first running statistics are no statistics: products of several layers may overflow
    shape = Shape(batch=B, length=T, source=S if two else 0)
    kept = activations(architecture, shape, FP32, loss=False)
    assert kept.saved + kept.loss == saved_bytes(model, lambda: model(*given))
    model.eval()
    tally = architecture.cost(shape, FP32)
    assert {n: tuple(p.shape) for n, p in model.named_parameters()} == {n: w.shape for n, w in tally.weights.items()}
    with MetaFlops() as counter:
        output = build(architecture, device="meta")(*(x.to("meta") for x in given))
        assert tally.total_flops.dense == counter.total
        output.float().sum().backward()
    assert tally.total_flops.dense + tally.total_flops.backward == counter.total
    assert tally.total_flops.exact <= tally.total_flops.dense
    whole = model(*given)
    whole.square().mean().backward()
    assert whole.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    with torch.no_grad():
        plain = build(architecture, Plan(attention="plain")).eval()
        plain.load_state_dict(model.state_dict())
        close(plain(*given), whole)
        if not two:
            wide, padding = torch.cat([torch.full((B, 3), 5), tokens], 1), torch.zeros(B, T + 3, dtype=torch.bool)
            padding[:, :3] = True
            close(model(wide, padding=padding)[:, 3:], whole)
        if architecture.decoder is None:
            return
        changed = tokens.clone()
        changed[:, -1] = (changed[:, -1] + 1) % VOCAB
        again = model(source, changed) if two else model(changed)
        close(again[:, :-1], whole[:, :-1])
        for cut in ([1] * T, [4, 3, 2]):
            state = model.state(B, T, source=S if two else 0)
            asked = Shape(batch=B, capacity=T, source=S if two else 0)
            sized = architecture.cost(asked, Plan(precision="fp32")).total_state_bytes
            assert state.nbytes == sized + slot_bytes(B, T)
            first, *rest = tokens.split(cut, 1)
            if two:
                pieces = [model(source, first, state=state), *(model(None, piece, state=state) for piece in rest)]
            else:
                pieces = [model(piece, state=state) for piece in (first, *rest)]
            close(torch.cat(pieces, 1), whole)


@functools.cache
def few() -> list[int]:
    """Of the first combinations those that together have every kind of part of them all."""
    return sorted(map(int, cover({str(seed): draw(seed) for seed in range(FAST)}, kinds)))


def check_all(seeds: Iterable[int]) -> None:
    """A failure tells which combination it was, and writes it out."""
    for seed in seeds:
        try:
            check(draw(seed))
        except Exception as error:
            raise AssertionError(f"combination {seed}: {error}\n{to_toml(draw(seed))}") from error


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_combinations_keep_their_contracts(block):
    check_all(few()[block::BLOCKS])


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SLOW, HUNDRED))
def test_thousands_of_random_combinations(first):
    """A hundred at a time, so that a machine that is busy, or another hundred, hides nothing."""
    check_all(seed for seed in range(first, min(first + HUNDRED, SLOW)) if seed not in few())


def reading(first: Attention, later: Attention) -> Architecture:
    """Two layers, of which the second one reads what the first one leaves."""
    blocks = {name: pre_norm(RMSNorm(), part) for name, part in (("first", first), ("later", later))}
    return decoder_only(Embedding(vocab=9), 24, list(blocks.values()), names=Named(blocks))


FEED = FeedForward(width=8)
LAYER_A = ValueResidual(variant="layer_a")
GATE_A = ValueGate(variant="layer_a", rank=2)
RWKV = RWKV7(heads=2, head_width=4, decay_rank=2, rate_rank=2, gate_rank=2)
SENSELESS = {
    "late norm without rotation": (
        lambda: CrossAttention(heads=2, project=Projection(adjust=QKNorm(norm=RMSNorm(), at="after_rotary"))),
        "reads a source, whose positions it does not know: leave qk_norm.at out",
    ),
    "keys of nobody": (
        lambda: stack([pre_norm(RMSNorm(), Attention(heads=2, memory=KeysFrom(variant="other")), FEED)]),
        "no layer of that variant",
    ),
    "values of what has none": (
        lambda: stack([pre_norm(RMSNorm(), FEED), pre_norm(RMSNorm(), Attention(heads=2, project=Projection(adjust=LAYER_A)))]),
        r"layer_b\.attention \(layer 1\) reads 'values' of variant 'layer_a', which leaves 'stream' only",
    ),
    "values of other heads": (
        lambda: stack(
            [pre_norm(RMSNorm(), part) for part in (Attention(heads=4), Attention(heads=2, project=Projection(adjust=LAYER_A)))]
        ),
        "reads 'values' of size 2 of variant 'layer_a', where its size is 4",
    ),
    "keys that are forgotten": (
        lambda: reading(Attention(heads=2, mask=Window(size=3)), Attention(heads=2, memory=KeysFrom(variant="first"))),
        "sees all keys of variant 'first', which keeps the latest 3: give it that window",
    ),
    "keys of another width": (
        lambda: reading(Attention(heads=2, kv_heads=1), Attention(heads=4, kv_heads=1, memory=KeysFrom(variant="first"))),
        "has value_width = 6 and reads 'keys and values' of variant 'first', where it is 12: set value_width = 12",
    ),
    "a bias for chosen blocks": (
        lambda: stack(
            [pre_norm(RMSNorm(), Attention(heads=2, score=Score(choice=MeanKeys())), FEED)], score_bias=SharedBias(heads=2)
        ),
        "chooses its keys by plain scores, and its stack leaves 'score_bias': leave it out",
    ),
    "values of other features": (
        lambda: stack([pre_norm(RMSNorm(), part) for part in (RWKV, RWKV.but(head_width=8, value_gate=GATE_A))]),
        "reads 'values of a state' of size 16 of variant 'layer_a', where its size is 8",
    ),
    "heads without the stack's bias": (
        lambda: stack([pre_norm(RMSNorm(), Attention(heads=2), FEED)], score_bias=SharedBias(heads=4)),
        "reads 'score_bias' of size 2 of its stack, where its size is 4",
    ),
    "value bias without values": (
        lambda: Attention(heads=2, project=Projection(values="keys", bias=("value",))),
        "the keys are the values",
    ),
    "a table that is not there": (
        lambda: stack([pre_norm(RMSNorm(), Attention(heads=2, score=Score(terms=Disentangled())))]),
        "relative",
    ),
    "streams and post-norm": (
        lambda: stack([post_norm(LayerNorm(), Attention(heads=2), FEED)], streams=HyperConnections()),
        "streams weigh the residual",
    ),
    "up offset without a gate": (lambda: FeedForward(width=8, gated=False, up_offset=1.0), "gated network"),
    "a summary as long as its chunk": (lambda: Fixed(size=4, summary=4), "smaller than size"),
    "shared variant unknown": (
        lambda: stack([pre_norm(RMSNorm(), Attention(heads=2), FEED)], shared_weights=("layers",)),
        "did you mean 'layer'",
    ),
    "rounding by another name": (lambda: ALiBi(rounded_to="half"), "bfloat16"),
    "norm over a projection, late": (
        lambda: Attention(heads=2, project=Projection(adjust=QKNorm(norm=RMSNorm(), over="projection", at="after_rotary"))),
        "head by head",
    ),
    "a norm by its former name": (
        lambda: FeedForward.parse({"width": 4, "sub_norm": {"kind": "group_norm", "groups": 2}}),
        "did you mean 'grouped_rms_norm'",
    ),
    "groups with a gain for each head": (
        lambda: Attention(heads=2, project=Projection(adjust=QKNorm(norm=GroupedLayerNorm(groups=2), over="each_head"))),
        "rms_norm or layer_norm",
    ),
}


@pytest.mark.parametrize("name", SENSELESS)
def test_what_makes_no_sense_is_refused_with_the_reason(name):
    describe, reason = SENSELESS[name]
    with pytest.raises(DescriptionError, match=reason):
        describe()


def test_what_only_the_width_reveals_is_refused_too():
    with pytest.raises(ValueError, match="must divide"):
        GroupedLayerNorm(groups=5).build(24)
    with pytest.raises(ValueError, match="needs 4 divisors, one per pair, got 3"):
        Rotary(scaling=LongRoPE(short=(1.0,) * 3, long=(2.0,) * 4, trained=8)).rotated(8)
