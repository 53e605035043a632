"""Stairs between two architectures: steps whose every value is one of either end, with labels that tell them apart."""

from __future__ import annotations

from functools import cache

import pytest

from anyformer.catalogue import architecture
from anyformer.catalogue.llama import llama
from anyformer.costs.change_labels import exchanged
from anyformer.costs.priced_stairs import step_figures
from anyformer.costs.pricing import cost
from anyformer.costs.staircase import Stairs
from anyformer.costs.staircase import stairs as steps_by_name
from anyformer.costs.transition import Transition
from anyformer.describe import DescriptionError, change_all, get
from anyformer.describe.path import differences, item_at

PAIRS = [
    ("llama-3-8b", "qwen3-8b"), ("llama-3-8b", "llama-3-70b"), ("gpt2", "gpt2-xl"), ("gemma-2-2b", "gemma-3-4b"),
    ("mistral-7b-v0.1", "llama-3-8b"), ("t5-small", "t5-base"), ("gpt2", "llama-3-8b"), ("gemma-3-1b", "kolibri-1"),
    ("bert-base-cased", "transformer-base"), ("gpt2", "mamba2-780m"), ("llama-3-8b", "gemma-3-4b"),
    ("gemma-3-4b", "llama-3-8b"), ("deepseek-v3", "llama-3-8b"), ("kimi-k2", "zamba2-2.7b"), ("trinity-nano", "qwen3.5-9b"),
]  # fmt: skip
"""Sizes, norms, positions, masks, experts, mixers, kinds of layers and stacks differ; sizes follow of others by the same rules
and by others."""
HEAD_WIDTH = "decoder.layer.attention.head_width"


@cache
def stairs(start, to):
    return Stairs.between(architecture(start), architecture(to))


def labels(found):
    return [step.label for step in found.steps]


@pytest.fixture(scope="module", params=PAIRS, ids=" to ".join)
def climbed(request):
    return stairs(*request.param)


def test_every_value_of_every_step_is_of_one_of_the_ends(climbed):
    """None is of neither: what follows of two values that change in two steps is written out in between."""
    here = climbed.start
    for step in climbed.steps:
        assert step.before == here
        before, here = here.resolved(), step.after
        to = (climbed.transition if step.changes else climbed).to.resolved()
        for keys, _, now in differences(before, here.resolved()):
            # What a step moves, it moves to where the end has it; a kind of layer that comes is one that was there.
            wanted = item_at(before, (*keys[:-1], step.copies[keys])) if keys in step.copies else item_at(to, keys)
            assert now == wanted, keys
    assert here == climbed.to


def test_what_a_step_moves_makes_the_next_architecture_of_the_one_before(climbed):
    here = climbed.start.resolved()
    for step in climbed.steps:
        here = change_all(here, {path: value for path, _, value in step.moved})
        assert not [*differences(here, step.after.resolved())], step.label


def test_every_step_moves_something_and_has_a_label_of_its_own(climbed):
    assert all(step.moved for step in climbed.steps)
    assert len({step.label for step in climbed.steps}) == len({step.word for step in climbed.steps}) == len(climbed.steps)


def kinds(made):
    return {name: {*stack.variants} for name, stack in made.stacks.items()}


def test_a_step_alone_is_what_it_sets(climbed):
    """Beside the kinds of layers that it needs, where it needs any."""
    end = climbed.transition.resolved[1]
    for step in climbed.steps:
        alone = climbed.alone(step)
        if alone is None:
            continue
        made = change_all(climbed.start, alone).resolved()
        assert made != climbed.start.resolved()
        base = climbed.start if kinds(made) == kinds(climbed.start) else climbed.transition.start
        if step.changes:
            assert all(now == item_at(end, keys) for keys, _, now in differences(base.resolved(), made))
        else:
            assert kinds(made)[step.stack] == kinds(step.after)[step.stack]


def test_a_size_that_both_ends_share_stays_while_what_it_follows_of_changes():
    """Heads are 128 wide in both; 8,192 over 32 heads would be 256."""
    steps = stairs("llama-3-8b", "llama-3-70b").steps
    assert [step.label for step in steps[:2]] == ["model width", "attention heads"]
    assert [get(step.after.resolved(), HEAD_WIDTH) for step in steps] == [128] * len(steps)
    assert get(steps[0].after, HEAD_WIDTH) == 128, "written out"
    assert get(steps[1].after, HEAD_WIDTH) is None, "and left to follow again"


def test_what_follows_in_both_changes_with_what_it_follows_of():
    steps = {step.label: step for step in stairs("gpt2", "gpt2-xl").steps}
    assert [path for path, *_ in steps["attention heads"].moved] == [
        "decoder.layer.attention.heads", "decoder.layer.attention.kv_heads",
    ]  # fmt: skip
    assert [path for path, *_ in steps["decoder order"].moved] == ["decoder.order", "initialisation.residual_scale"]


def test_what_can_follow_does_beside_a_size_that_is_written_out():
    """12 heads cannot be of 4,096 / 12, and stay 64 wide; the scale of initial values follows of the layers nevertheless."""
    steps = {step.label: step for step in stairs("gpt2", "llama-3-8b").steps}
    assert [path for path, *_ in steps["decoder order"].moved] == ["decoder.order", "initialisation.residual_scale"]
    assert [path for path, *_ in steps["attention heads and kv heads"].moved][2:] == [HEAD_WIDTH]


def test_the_same_size_written_and_not_is_no_step():
    found = architecture("llama-3-8b")
    assert not Stairs.between(found, change_all(found, {HEAD_WIDTH: 128})).steps


def test_labels_say_of_what():
    assert labels(stairs("llama-3-8b", "qwen3-8b")) == [
        "embedding vocab", "decoder eps", "attention qk norm", "rotary theta", "feedforward width", "decoder order",
        "initialisation residual scale",
    ]  # fmt: skip
    assert labels(stairs("t5-small", "t5-base")) == [
        "model width", "encoder and decoder heads", "feedforward width", "encoder and decoder order",
    ]  # fmt: skip
    assert "attention heads and kv heads" in labels(stairs("gpt2", "llama-3-8b"))
    found = labels(stairs("gemma-3-1b", "kolibri-1"))
    assert found[:3] == [
        "decoder full for global beside local and 50 layers", "local experts for feedforward", "full experts for feedforward",
    ]  # fmt: skip
    assert labels(stairs("llama-3-8b", "gemma-3-4b"))[0] == "decoder local and global for layer and 34 layers"
    assert labels(stairs("gemma-3-4b", "llama-3-8b"))[-1] == "decoder layer for local and global and 32 layers"


def test_of_many_names_that_come_a_label_says_two():
    assert exchanged(["layer"], ["a", "b", "c", "d", "layer"]) == "a, b and 2 more beside layer"


@pytest.fixture(scope="module")
def with_local_layers():
    """A plain architecture, and it with a window in most layers, no positions in the others, and fewer key heads in all."""
    start = llama(width=32, depth=4, heads=4, kv_heads=4, ffn=48, vocab=257)
    to = change_all(start, {
        "decoder.layer.attention.kv_heads": 2, "decoder.local": "layer",
        "decoder.local.attention.mask": {"kind": "window", "size": 8},
        "decoder.layer.attention.rotary": None, "decoder.order": "local*3 layer",
    })  # fmt: skip
    return start, to


def test_a_kind_of_layer_that_comes_is_a_copy_that_costs_nothing_until_its_values_change(with_local_layers):
    start, to = with_local_layers
    found = Stairs.between(start, to)
    assert labels(found) == ["decoder local beside layer", "attention kv heads", "attention rotary", "attention mask"]
    first, second, *_ = found.steps
    assert [(path, value) for path, _, value in first.moved] == [
        ("decoder.local", "layer"), ("decoder.order", "local*3 layer"),
    ]  # fmt: skip
    priced = [cost(made, batch=1, length=32, mode="prefill") for made in (start, first.after)]
    assert step_figures(priced[0]) == step_figures(priced[1])
    assert found.alone(second) == {
        "decoder.local": "layer", "decoder.order": "local*3 layer", "decoder.layer.attention.kv_heads": 2,
        "decoder.local.attention.kv_heads": 2,
    }  # fmt: skip
    assert "without_attention_rotary" in steps_by_name(start, to)


def test_a_kind_of_layer_that_goes_goes_last_and_costs_nothing(with_local_layers):
    to, start = with_local_layers
    found = Stairs.between(start, to)
    assert labels(found) == ["attention kv heads", "attention rotary", "attention mask", "decoder layer without local"]
    last = found.steps[-1]
    assert [(path, value) for path, _, value in last.moved] == [("decoder.local", None), ("decoder.order", "layer*4")]
    priced = [cost(made, batch=1, length=32, mode="prefill") for made in (last.before, to)]
    assert step_figures(priced[0]) == step_figures(priced[1])
    assert found.alone(found.steps[0]) == {"decoder.layer.attention.kv_heads": 4, "decoder.local.attention.kv_heads": 4}
    # The kind goes from every architecture that has all steps but one.
    assert set(kinds(steps_by_name(start, to)["without_attention_rotary"])["decoder"]) == {"layer"}


def test_labels_grow_until_they_differ():
    start = architecture("t5-small")
    to = change_all(start, {"encoder.layer.feedforward.width": 64, "decoder.layer.feedforward.width": 128})
    assert labels(Stairs.between(start, to)) == ["encoder layer feedforward width", "decoder layer feedforward width"]
    norms = [f"decoder.layer.{name}.norm_before.eps" for name in ("attention", "feedforward")]
    start = llama(width=32, depth=2, heads=4, kv_heads=4, ffn=48, vocab=257)
    to = change_all(start, {norms[0]: 1e-3, norms[1]: 1e-4, "decoder.final_norm.eps": 1e-3})
    assert labels(Stairs.between(start, to)) == ["decoder eps", "norm before eps"]


def test_a_change_that_cannot_stand_alone_is_refused():
    """12 key heads do not divide 16 heads; 8 do."""
    start = llama(width=96, depth=1, heads=12, kv_heads=12, ffn=48, vocab=257)
    to = change_all(start, {"decoder.layer.attention.heads": 16, "decoder.layer.attention.kv_heads": 8})
    transition = Transition(start, to)
    with pytest.raises(DescriptionError, match="kv_heads"):
        transition.taking([0], transition.resolved[0])
    assert labels(Stairs.between(start, to)) == ["attention heads and kv heads"]
