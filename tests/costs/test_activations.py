"""Declared activations are those that autograd keeps: to the byte, for every architecture of the zoo."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import Tensor
from zoo import DECODERS, RECURRENT, ZOO

import effort
from anyformer.catalogue import architecture as catalogue
from anyformer.catalogue.llama import llama
from anyformer.costs.activations import activations
from anyformer.costs.saved.measured import saved_bytes
from anyformer.describe import change_all
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer, build
from anyformer.operations import Shape
from anyformer.parts import Causal, Chunk, Window
from anyformer.parts.attention.relative import TransformerXL
from anyformer.parts.attention.score_bias import ALiBi, RelativeBuckets
from anyformer.plan import Plan
from anyformer.training.precision import autocast
from covering import cover, covering, kinds, remembering, rest_slow

CPU = torch.device("cpu")
B, T, S = 2, 11, 7


def plan_of(precision: str, kernel: str = "sdpa") -> Plan:
    return Plan(precision=precision, attention=kernel)


def shape_of(architecture: Architecture, batch: int = B, length: int = T) -> Shape:
    return Shape(batch=batch, length=length, source=S if architecture.two_inputs else 0)


def run(model: Transformer, shape: Shape) -> Tensor:
    architecture = model.architecture
    given = [architecture.embedding.example(shape.batch, shape.source or shape.length)]
    if architecture.two_inputs:
        given.append(architecture.output_embedding.example(shape.batch, shape.length, seed=1))
    with autocast(model.plan, CPU):
        first, *later = model.predictions(*given)
    # A sum saves nothing.
    return sum((y.sum() for y in later), first.sum())


def assert_exact(architecture: Architecture, plan: Plan, shape: Shape) -> None:
    declared = activations(architecture, shape, plan, loss=False)
    model = build(architecture, plan).train()
    measured = saved_bytes(model, lambda: run(model, shape))
    assert declared.saved + declared.loss + declared.casts == measured


EVERY = [(name, *way) for name in ZOO for way in (("fp32", "sdpa"), ("fp32", "plain"), ("bf16", "sdpa"), ("bf16", "plain"))]
KINDS, STATES = cover(ZOO, kinds), cover(ZOO, remembering)
FAST = (
    {(name, "bf16", "plain") for name in KINDS - STATES}
    | {(name, "fp32", "sdpa") for name in STATES}
    | {(name, "bf16", "plain") for name in sorted(STATES)[::2]}
)


@pytest.mark.parametrize(("name", "precision", "kernel"), rest_slow(EVERY, FAST))
def test_declared_bytes_are_those_that_autograd_keeps(name, precision, kernel):
    assert_exact(ZOO[name], plan_of(precision, kernel), shape_of(ZOO[name]))


BANDS = {"window": Window(size=40), "chunk": Causal() & Chunk(size=70)}


EVERY_BAND = (BANDS, (1, 2), (256, 300), ("fp32", "bf16"), ("sdpa", "plain"))


@pytest.mark.parametrize(
    ("mask", "batch", "length", "precision", "kernel"), rest_slow(product(*EVERY_BAND), covering(*EVERY_BAND))
)
def test_masks_computed_as_bands(mask, batch, length, precision, kernel):
    architecture = change_all(
        DECODERS["llama"], {"decoder.layer.attention.mask": BANDS[mask], "decoder.layer.attention.kv_heads": 2}
    )
    assert_exact(architecture, plan_of(precision, kernel), shape_of(architecture, batch, length))


@pytest.mark.parametrize("kernel", ["sdpa", "plain"])
@pytest.mark.parametrize("name", ["llama", "grouped", "latent", "buckets", "alibi", "softcap_scale_qk_norm"])
def test_one_row(name, kernel):
    assert_exact(ZOO[name], plan_of("bf16", kernel), shape_of(ZOO[name], batch=1))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("batch", [1, 2])
def test_latent_attention_whose_keys_are_as_wide_as_its_values(batch, precision):
    """Then the fused kernel computes it, and what it gives stands head by head."""
    architecture = catalogue("deepseek-v3", tiny=True)
    latent = architecture.decoder.variants["dense"].branches["latent_attention"].sublayer
    assert latent.nope_width + latent.rope_width == latent.value_width
    assert_exact(architecture, plan_of(precision), shape_of(architecture, batch))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_dropout_keeps_what_it_drops(precision):
    changes = {
        "decoder.dropout": 0.1,
        **{f"decoder.layer.{branch}.dropout": 0.1 for branch in ("attention", "feedforward")},
        "decoder.layer.attention.drop_path": 0.2,
        "decoder.layer.attention.sublayer.dropout": 0.1,
        "decoder.layer.feedforward.sublayer.dropout": 0.1,
    }
    assert_exact(change_all(DECODERS["llama"], changes), plan_of(precision), Shape(batch=B, length=T))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ["llama", "gpt2", "head_options"])
def test_the_loss(name, precision):
    """The cross-entropy of `objectives.causal`."""
    from anyformer.model.loss import token_losses

    shape, plan = Shape(batch=B, length=T), plan_of(precision)
    model = build(ZOO[name], plan).train()
    targets = ZOO[name].embedding.example(B, T, seed=2)

    def loss() -> Tensor:
        with autocast(plan, CPU):
            logits = model(ZOO[name].embedding.example(B, T))
            return token_losses(logits, targets)[0].sum() / targets.numel()

    declared = activations(ZOO[name], shape, plan)
    measured = saved_bytes(model, loss)
    assert declared.saved + declared.loss + declared.casts == measured


@pytest.mark.parametrize("case", range(4))
def test_a_layer_beside_the_measured_ones(case):
    """One layer of Llama as others measured it: what ours keeps differently is named here, in bytes."""
    found = Path(__file__).parents[3] / "shared" / "reference" / "activation_cases.json"
    if not found.exists():
        pytest.skip("the measured cases are not here")
    cases = json.loads(found.read_text())
    sizes, measured = cases["shape"], cases["cases"][case]
    d, H, K, E, rows = *(sizes[k] for k in ("d_model", "n_heads", "n_kv_heads", "head_dim")), sizes["batch"] * sizes["seq"]
    plan = plan_of(measured["dtype"], "plain" if measured["attention"] == "eager" else "sdpa")
    shape = Shape(batch=sizes["batch"], length=sizes["seq"])

    def kept(depth: int) -> int:
        model = llama(width=d, depth=depth, heads=H, kv_heads=K, ffn=sizes["d_ff"], vocab=64)
        return activations(model, shape, plan).saved

    expected = measured["bytes"]
    if measured["attention"] == "eager":
        # Keys and values are not written out for every head; the mask is kept as bool.
        expected += sizes["seq"] ** 2 - plan.activation_bytes * rows * 2 * (H - K) * E
    if measured["dtype"] == "bf16":
        # The weights there are bf16; here the two gains are copied.
        expected += 2 * 2 * d
        if measured["attention"] == "eager":
            # A softmax reads and leaves 16 bits: there it leaves fp32, and a copy in bf16.
            expected -= 4 * sizes["batch"] * H * sizes["seq"] ** 2
    assert kept(2) - kept(1) == expected


DEEP = [
    "llama", "gpt2", "post_norm", "sandwich", "streams", "shared_keys", "shared_variant", "local_global", "buckets_shared",
    "alibi", "transformer_xl", "encoder_relative", "layer_embedding", "hashed_ngrams", "engram", "depth_mup", "experts",
    "experts_hashed", "latent", "linear_elu", "delta_channels", "original", "pair_window", "pair_prefix",
    "perceiver", "narrow_last",
]  # fmt: skip


def deep(architecture: Architecture) -> Architecture:
    """The same with every layer three times."""
    return change_all(architecture, {f"{name}.order": f"({stack.order})*3" for name, stack in architecture.stacks.items()})


@pytest.mark.parametrize(
    ("name", "precision"), rest_slow(product(DEEP, ("bf16", "fp32")), covering(DEEP, ("bf16", "fp32"), together=1))
)
def test_repeated_layers_stand_for_those_that_are_left_out(name, precision):
    """Of two kinds in a row the second pair stands for all that come later."""
    architecture = deep(ZOO[name])
    assert_exact(architecture, Plan(precision=precision, attention="sdpa"), shape_of(architecture))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_no_layer_stands_for_another_where_their_place_decides(precision):
    streams = ZOO["attention_residuals"].decoder.streams
    changes = {"decoder.order": "layer*6", "decoder.streams": streams.but(count=13).plain()}
    architecture = change_all(ZOO["llama"], changes)
    assert_exact(architecture, Plan(precision=precision, attention="sdpa"), shape_of(architecture))


CARRYING = sorted(cover({name: ZOO[name] for name in RECURRENT}, kinds))


@pytest.mark.parametrize(("name", "chunk"), rest_slow(product(RECURRENT, (2, 3)), covering(CARRYING, (2, 3), together=1)))
def test_a_recurrence_over_many_chunks(name, chunk):
    """Seen at two lengths, a recurrence is priced at a third."""
    architecture = ZOO[name]
    for length in (6 * chunk, 9 * chunk + 1)[0 if effort.slow_too else 1 :]:
        assert_exact(architecture, Plan(precision="bf16", attention="sdpa", chunk=chunk), shape_of(architecture, length=length))


BESIDE_DIFFERENTIAL = {
    "sink": {"sink": "head"},
    "alibi": {"score_bias": ALiBi()},
    "buckets": {"score_bias": RelativeBuckets()},
    "transformer_xl": {"score_bias": TransformerXL(), "sink": "head"},
}


EVERY_DIFFERENTIAL = (BESIDE_DIFFERENTIAL, ("fp32", "bf16"), ("sdpa", "plain"))


@pytest.mark.parametrize(
    ("what", "precision", "kernel"), rest_slow(product(*EVERY_DIFFERENTIAL), covering(*EVERY_DIFFERENTIAL))
)
def test_differential_attention_with_a_bias_or_a_sink(what, precision, kernel):
    stack = ZOO["differential"].decoder
    branch = next(iter(stack.variants[stack.layers[0]].branches))
    path = f"decoder.{stack.layers[0]}.{branch}.sublayer"
    architecture = change_all(ZOO["differential"], {f"{path}.{name}": part for name, part in BESIDE_DIFFERENTIAL[what].items()})
    assert_exact(architecture, plan_of(precision, kernel), shape_of(architecture))


def test_logits_are_priced_apart():
    """Cross-entropy keeps the logits as they are, log Z, the target and whether it counts."""
    declared = activations(ZOO["llama"], Shape(batch=B, length=T), plan_of("bf16"))
    assert declared.loss == B * T * (2 * ZOO["llama"].outputs + 4 + 8 + 1)
