"""Memory of training: what stays from step to step against a real update, and how checkpointing trades."""

from __future__ import annotations

import pytest
from zoo import ZOO

from anyformer.costs.activations import activations
from anyformer.costs.memory import ADAM_BF16, training_memory
from anyformer.model import build
from anyformer.plan import Plan
from anyformer.tally import Shape
from anyformer.training.optimiser import build_optimiser
from anyformer.tuning import AdamW

B, T = 2, 11


@pytest.mark.parametrize("name", ["llama", "gpt2", "encoder"])
def test_weights_gradients_and_moments_are_those_of_an_update(name):
    declared = training_memory(ZOO[name], batch=B, length=T, plan=Plan(precision="fp32"))
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


def test_the_total_is_the_sum_of_all():
    kept = activations(ZOO["llama"], Shape(batch=B, length=T), Plan(precision="bf16"))
    memory = training_memory(ZOO["llama"], batch=B, length=T, plan=Plan(precision="bf16"))
    parameters = ZOO["llama"].cost(Shape()).parameters
    assert memory.total == 16 * parameters + kept.kept + kept.casts + kept.loss


def test_weights_in_bf16_need_a_master_and_no_copies():
    memory = training_memory(ZOO["llama"], batch=B, length=T, plan=Plan(precision="bf16"), states=ADAM_BF16)
    parameters = ZOO["llama"].cost(Shape()).parameters
    assert memory.weights + memory.gradients + memory.optimiser + memory.copies == 16 * parameters
    assert memory.copies == 4 * parameters


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_checkpointed_layer_more_costs_its_input(precision):
    """Computed again, depth costs B T D elements per layer, and weights' copies of one layer at a time."""
    plan, size = Plan(precision=precision), {"fp32": 4, "bf16": 2}[precision]
    deep = [ZOO["shared_layers"].but(decoder=ZOO["llama"].decoder.but(order=f"layer*{depth}")) for depth in (3, 4)]
    three, four = (training_memory(a, batch=B, length=T, plan=plan, checkpointing="full") for a in deep)
    assert four.activations - three.activations == B * T * ZOO["llama"].width * size
    assert four.copies == three.copies
    assert four.logits == three.logits
    assert training_memory(deep[1], batch=B, length=T, plan=plan).activations > four.activations


@pytest.mark.parametrize("how", ["none", "selective", "full"])
def test_checkpointing_is_the_plan_s_unless_given(how):
    planned = training_memory(ZOO["gpt2"], batch=B, length=T, plan=Plan(checkpointing=how))
    assert planned == training_memory(ZOO["gpt2"], batch=B, length=T, checkpointing=how)
    kept = activations(ZOO["gpt2"], Shape(batch=B, length=T), Plan(checkpointing=how))
    assert planned.activations == kept.kept + kept.again
    assert kept.again == max(kept.layers, default=0)
