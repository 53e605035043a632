"""Temperatures by the numbers of keys, as they are tried."""

from __future__ import annotations

from anyformer.describe import get
from anyformer.porting import Derivation
from anyformer.porting.explaining import explained
from anyformer.porting.hint import Hint
from anyformer.porting.some_layers import PutLayers
from anyformer.porting.temperatures import temperatures

KEYS = {"hidden_size": 24, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 40, "vocab_size": 53}
SAID = {**KEYS, "attn_scale": 0.5, "floor_scale": 3, "tables": {"scaling_beta": 0.25}}


def test_a_temperature_is_tried_with_the_strengths_and_spans_that_keys_say():
    fit = explained(Derivation("llama"), KEYS, {})
    found = list(temperatures(fit, SAID))
    made = [
        get(next(iter(hint.changes[0](fit.architecture).decoder.variants.values())), "attention.temperature") for hint in found
    ]
    assert {(each.strength, each.span, each.shift) for each in made} == {(s, 3, shift) for s in (0.5, 0.25) for shift in (0, 1)}
    assert not list(temperatures(fit, KEYS))


def test_layers_without_rotary_positions_may_have_it_alone():
    bare = Hint("", (PutLayers((1,), "attention.rotary", None),))
    fit = explained(bare.applied(Derivation("llama")), KEYS, {})
    alone = [hint.changes[0] for hint in temperatures(fit, SAID) if isinstance(hint.changes[0], PutLayers)]
    assert {each.layers for each in alone} == {(1,)}
    assert len(alone) == 4
