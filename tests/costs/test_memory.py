"""Memory of training: what stays from step to step against a real update, and how checkpointing trades."""

from __future__ import annotations

import pytest
from zoo import ZOO

from anyformer.costs.activations import Activations, activations
from anyformer.costs.memory import States
from anyformer.costs.peak import peak_memory
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.training.optimiser import build_optimiser
from anyformer.tuning import AdamW

B, T = 2, 11


@pytest.mark.parametrize("name", ["llama", "gpt2", "encoder"])
def test_weights_gradients_and_moments_are_those_of_an_update(name):
    declared = peak_memory(ZOO[name], batch=B, length=T, plan=Plan(precision="fp32"), accumulation=2).at_loss
    model = build(ZOO[name]).train()
    optimiser = build_optimiser(AdamW(), model)
    model(ZOO[name].embedding.example(B, T)).square().sum().backward()
    gradients = sum(p.grad.nbytes for p in model.parameters())
    optimiser.step()
    moments = [x for state in optimiser.state.values() for key, x in state.items() if key != "step"]
    assert declared.weights == sum(p.nbytes for p in model.parameters())
    assert declared.gradients == gradients
    assert declared.optimiser == sum(x.nbytes for x in moments)
    assert declared.copies == 0


def test_all_is_held_at_the_loss():
    plan = Plan(precision="bf16")
    kept = activations(ZOO["llama"], Shape(batch=B, length=T), plan)
    held = peak_memory(ZOO["llama"], batch=B, length=T, plan=plan, accumulation=2).at_loss
    parameters = ZOO["llama"].cost(Shape()).parameters
    assert held.total - held.temporaries == 16 * parameters + kept.saved + kept.casts + kept.loss
    assert (held.activations, held.copies, held.logits) == (kept.saved, kept.casts, kept.loss)


def test_weights_in_bf16_need_a_master_and_no_copies():
    plan, states = Plan(precision="bf16"), States(weights=2, gradients=2, optimiser=8 + 4)
    held = peak_memory(ZOO["llama"], batch=B, length=T, plan=plan, states=states, accumulation=2).at_loss
    parameters = ZOO["llama"].cost(Shape()).parameters
    assert held.weights + held.gradients + held.optimiser == 16 * parameters
    assert held.optimiser == (8 + 4) * parameters
    assert held.copies == 0


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_checkpointed_layer_more_costs_its_input(precision):
    """Computed again, depth costs B T D elements per layer, and weights' copies of one layer at a time."""
    plan, size = Plan(precision=precision, checkpointing="full"), {"fp32": 4, "bf16": 2}[precision]
    deep = [ZOO["shared_layers"].but(decoder=ZOO["llama"].decoder.but(order=f"layer*{depth}")) for depth in (3, 4)]
    three, four = (activations(each, Shape(batch=B, length=T), plan) for each in deep)
    assert four.saved - three.saved == B * T * ZOO["llama"].width * size
    assert four.loss == three.loss
    largest, copies = largest_recomputed(four)
    assert (largest, copies) == largest_recomputed(three)
    whole = activations(deep[1], Shape(batch=B, length=T), plan.but(checkpointing="none"))
    assert whole.saved > four.saved + largest


def largest_recomputed(found: Activations) -> tuple[int, int]:
    """Bytes of the layer that saves most while it is recomputed, and the most bytes of copies of a layer's weights."""
    layers = found.recomputed.values()
    saved, copies = ([sum(x.bytes for x in layer if x.copies is copy) for layer in layers] for copy in (False, True))
    return max(saved), max(copies)
