"""Memory of training: what stays from step to step against a real update, and how checkpointing trades."""

from __future__ import annotations

import pytest
import torch
from zoo import ZOO

from anyformer.costs.activations import activations
from anyformer.costs.memory import ADAM_BF16, training_memory
from anyformer.model import build
from anyformer.plan import Plan
from anyformer.tally import Shape
from anyformer.training.optimiser import AdamW

B, T = 2, 11


@pytest.mark.parametrize("name", ["llama", "gpt2", "encoder"])
def test_weights_gradients_and_moments_are_those_of_an_update(name):
    declared = training_memory(ZOO[name], batch=B, length=T)
    model = build(ZOO[name]).train()
    optimiser = AdamW().build(model)
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


def test_checkpointing_keeps_what_torch_s_own_keeps():
    """Outside the layers and their inputs: measured with every layer under `torch.utils.checkpoint`."""
    from torch.utils.checkpoint import checkpoint

    from anyformer.costs.saved import keeping

    architecture, shape = ZOO["gpt2"], Shape(batch=B, length=T)
    model = build(architecture).train()
    inputs: dict[int, torch.Tensor] = {}
    for block in model.get_submodule("decoder").layers:
        forward = block.forward

        def again(x, *more, forward=forward):
            inputs[x.untyped_storage().data_ptr()] = x
            return checkpoint(forward, x, *more, use_reentrant=False)

        block.forward = again
    with keeping(model) as kept:
        output = model(architecture.embedding.example(B, T))
    assert output.requires_grad
    declared = activations(architecture, shape, loss=False)
    measured = sum(x.untyped_storage().nbytes() for x in {**kept.storages, **inputs}.values())
    assert measured == declared.inputs + declared.outside + declared.loss
