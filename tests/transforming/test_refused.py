"""Every refusal comes from the two descriptions alone: no weights exist in these tests."""

from __future__ import annotations

import pytest

import anyformer as af
from anyformer.describe import UserError
from anyformer.transforming import TransformChoices, TransformError, parse_layers, planned
from transforming.changed import tiny

NETWORK = "decoder.layer.feedforward.sublayer"
ATTENTION = "decoder.layer.attention.sublayer"
EXPERTS = {"kind": "experts", "experts": 4, "chosen": 2, "width": 16, "router": {"over": "chosen"}}
LATENT = {
    "kind": "latent_attention", "heads": 4, "value_width": 4, "kv_rank": 8, "nope_width": 4, "rope_width": 4,
    "rotary": {"theta": 500_000.0},
}  # fmt: skip

CASES = {
    "width": ("llama-3-8b", {"width": 32}, "width: 16 -> 32"),
    "embeddings": (
        "llama-3-8b", {"embedding_width": 8, "decoder.input_projection": {}}, "embedding_width: 16 -> 8",
    ),
    "query heads": ("llama-3-8b", {"decoder.layer.attention.heads": 8, "decoder.layer.attention.head_width": 4}, "query heads"),
    "heads cut anew": (
        "llama-3-8b", {"decoder.layer.attention.heads": 2, "decoder.layer.attention.kv_heads": 2}, "heads 4 -> 2|query heads",
    ),
    "head width": ("llama-3-8b", {"decoder.layer.attention.head_width": 8}, "heads are not cut anew"),
    "key heads": (
        "llama-3-8b",
        {"decoder.layer.attention.heads": 4, "decoder.layer.attention.kv_heads": 4, "decoder.layer.feedforward.width": 8},
        "16 -> 8 features of the network",
    ),
    "experts": ("mixtral-8x7b", {"decoder.layer.experts.experts": 4}, "their number is not changed"),
    "expert width": ("llama-3-8b", {NETWORK: {**EXPERTS, "width": 8}}, "set width = 16"),
    "expert activation": ("llama-3-8b", {NETWORK: {**EXPERTS, "activation": "gelu"}}, "its own activation"),
    "expert weights": ("llama-3-8b", {NETWORK: {**EXPERTS, "router": {}}}, "renormalise"),
    "expert factor": ("llama-3-8b", {NETWORK: {**EXPERTS, "router": {"over": "chosen", "scale": 2.0}}}, "router.scale = 1"),
    "experts' input": ("llama-3-8b", {NETWORK: {**EXPERTS, "weigh": "input"}}, "weigh = 'output'"),
    "identity experts": ("llama-3-8b", {NETWORK: {**EXPERTS, "identity_experts": 1}}, "identity_experts = 0"),
    "shared experts' mean": (
        "llama-3-8b", {NETWORK: {**EXPERTS, "shared": {"feedforward": {"width": 16}, "join": "mean"}}}, "shared.join = 'sum'",
    ),
    "latent norm": ("llama-3-8b", {ATTENTION: {**LATENT, "norm": {"kind": "rms_norm"}}}, "norm changes the latent"),
    "latent heads": ("llama-3-8b", {ATTENTION: {**LATENT, "heads": 8}}, "set heads = 4"),
    "latent values": ("llama-3-8b", {ATTENTION: {**LATENT, "value_width": 8}}, "set value_width = 4"),
    "latent without positions": ("llama-3-8b", {ATTENTION: {**LATENT, "rotary": None}}, "set rotary"),
    "latent at other angles": ("llama-3-8b", {ATTENTION: {**LATENT, "rotary": {"theta": 10.0}}}, "keep rotary.theta"),
    "latent folded": ("llama-3-8b", {ATTENTION: {**LATENT, "rope_width": 6}}, "must divide them"),
    "latent partly rotated": (
        "llama-3-8b", {ATTENTION: {**LATENT, "rope_width": 8, "rotary": {"theta": 500_000.0, "fraction": 0.5}}}, "set it to 1",
    ),
    "latent of biases": ("qwen2.5-7b", {ATTENTION: {**LATENT, "rotary": {"theta": 1e6}}}, "no place for bias"),
    "heads of a latent": ("deepseek-v2-lite", {"decoder.routed.latent_attention.heads": 2}, "keep the heads"),
    "heads of a recurrence": ("qwen3-next-80b-a3b", {"decoder.linear.delta_attention.value_heads": 4}, "keep the heads"),
    "pairing": ("llama-3-8b", {"decoder.layer.attention.rotary.pairing": "adjacent"}, "turn together"),
    "rotated share": ("llama-3-8b", {"decoder.layer.attention.rotary.fraction": 0.5}, "turn together"),
    "stream's norm": ("bert-base-uncased", {"encoder.order": "layer*3"}, "cannot be silent"),
    "images": ("vit-base-16", {"encoder.position.length": 99}, "do not lie on a line"),
    "offset": ("opt-125m", {"decoder.position.offset": 3}, "keep the offset"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_change_that_no_weights_can_be_carried_over_is_refused_in_words(case):
    name, changes, words = CASES[case]
    old = tiny(name)
    with pytest.raises(TransformError, match=words) as refused:
        planned(old, af.architecture(old, changes=changes))
    assert isinstance(refused.value, UserError)


def test_key_heads_that_do_not_divide():
    old = tiny("llama-3-8b", decoder__layer__attention__heads=6, decoder__layer__attention__head_width=4)
    old = af.architecture(old, changes={"decoder.layer.attention.kv_heads": 2})
    with pytest.raises(TransformError, match=r"2 -> 3 heads.*neither divides"):
        planned(old, af.architecture(old, changes={"decoder.layer.attention.kv_heads": 3}))


@pytest.mark.parametrize(
    ("layers", "words"), [((0, 1), "has 3; choose as many"), ((0, 1, 2), "layer 2 is chosen, and the last of 2 is 1")]
)
def test_chosen_layers_must_be_there(layers, words):
    with pytest.raises(TransformError, match=words):
        planned(tiny("llama-3-8b"), tiny("llama-3-8b", decoder__order="layer*3"), TransformChoices(layers=layers))


def test_orders_of_which_neither_stands_in_the_other():
    old = tiny("gemma-3-4b", decoder__order="local*2 global")
    with pytest.raises(TransformError, match="does not stand within the longer"):
        planned(old, af.architecture(old, changes={"decoder.order": "global local global local"}))


def test_layer_numbers_as_typed():
    assert parse_layers("0-3, 2,8-5") == (0, 1, 2, 3, 2, 8, 7, 6, 5)
    for text in ("", "1-", "a", "0-99999999999"):
        with pytest.raises(TransformError, match="layers"):
            parse_layers(text)


def test_noise_is_not_negative():
    with pytest.raises(TransformError, match="noise = -1"):
        TransformChoices(noise=-1)
