"""Layers computed again: what the forward pass leaves, and what each layer keeps the second time, to the byte."""

from __future__ import annotations

import gc
from dataclasses import is_dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from zoo import ZOO

from anyformer.costs.activations import activations
from anyformer.costs.saved.measured import SavedStorages, watching_saved
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer, build
from anyformer.operations import Shape
from anyformer.parts.attention.block_choice import BlockChoice
from anyformer.parts.attention.indexer import KeyChoice
from anyformer.parts.attention.slots import Adjustment, Remembered, Term
from anyformer.parts.call.context import Context
from anyformer.parts.layers.recompute import PRODUCTS
from anyformer.parts.layers.streams import Streams
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan
from anyformer.training.precision import autocast
from covering import Of, cover, covering, kinds_of, rest_slow

CPU = torch.device("cpu")
B, T, S = 2, 11, 7
KERNELS = (("fp32", "sdpa"), ("fp32", "plain"), ("bf16", "sdpa"), ("bf16", "plain"))


LEAVING = kinds_of(Sublayer, Streams, Adjustment, Term, Remembered, KeyChoice, BlockChoice)
"""What is carried from layer to layer beside the stream, or as several of them."""


def by_turns(of: Of, *hows: str) -> list[Any]:
    """Every architecture with each way and kernel, of which each run asks a cover, with one way each."""
    asked = {(name, how, *KERNELS[0]) for name, how in covering(sorted(cover(ZOO, of)), hows, together=1)}
    return rest_slow([(name, how, *kernel) for name in ZOO for how in hows for kernel in KERNELS], asked)


class Alive(TorchDispatchMode):
    """Every storage that operations within saw, but those of the model; `bytes` of those that something still holds."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        constants = [x for module in model.modules() for x in vars(module).values() if isinstance(x, Tensor)]
        self._known = {address(x) for x in (*model.parameters(), *constants)}
        self._found: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        given = operator(*args, **(kwargs or {}))
        for x in tree_leaves((args, kwargs, given)):
            if isinstance(x, Tensor) and address(x) not in self._known:
                storage = x.untyped_storage()
                self._found[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        return given

    @property
    def bytes(self) -> int:
        return sum(size for reference, size in self._found.values() if not reference.expired())


class Products(TorchDispatchMode):
    """The storages that products give."""

    def __init__(self) -> None:
        super().__init__()
        self.given: dict[int, Tensor] = {}

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        given = operator(*args, **(kwargs or {}))
        if operator in PRODUCTS:
            self.given.update({address(x): x.detach() for x in tree_leaves(given) if isinstance(x, Tensor)})
        return given


def address(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


def shape_of(architecture: Architecture) -> Shape:
    return Shape(batch=B, length=T, source=S if architecture.two_inputs else 0)


def run(model: Transformer, given: list[Tensor]) -> tuple[Tensor, ...]:
    with autocast(model.plan, CPU):
        return model.predictions(*given)


def given_to(architecture: Architecture) -> list[Tensor]:
    if not architecture.two_inputs:
        return [architecture.embedding.example(B, T)]
    return [architecture.embedding.example(B, S), architecture.output_embedding.example(B, T, seed=1)]


@pytest.mark.parametrize(("name", "how", "precision", "kernel"), by_turns(LEAVING, "selective", "full"))
def test_what_the_forward_pass_leaves(name, how, precision, kernel):
    """All memory that a call takes and somebody still holds, whether autograd, torch's checkpoint or a context."""
    architecture, plan = ZOO[name], Plan(precision=precision, attention=kernel, checkpointing=how)
    model = build(architecture, plan).train()
    with Alive(model) as alive:
        graphs = [output.grad_fn for output in run(model, given_to(architecture))]
    declared = activations(architecture, shape_of(architecture), plan, loss=False)
    assert None not in graphs
    expected = declared.saved + declared.loss + declared.casts
    if alive.bytes != expected:
        gc.collect()
    assert expected == alive.bytes


@pytest.mark.parametrize(("name", "how", "precision", "kernel"), by_turns(LEAVING, "full", "selective"))
def test_what_a_layer_keeps_when_it_is_computed_again(name, how, precision, kernel, monkeypatch):
    """A layer's own hooks take what it keeps from torch's checkpoint; what it was given is not made again."""
    architecture, plan = ZOO[name], Plan(precision=precision, attention=kernel, checkpointing=how)
    model = build(architecture, plan).train()
    layers: list[tuple[SavedStorages, set[int]]] = []

    def watched(forward):
        def layer(x: Tensor, context: Context, states: None = None) -> Tensor:
            left = [x for value in context.shared.values() for x in (vars(value).values() if is_dataclass(value) else [value])]
            reads = (x, context.positions, context.tokens, context.source, *(y for y in left if isinstance(y, Tensor)))
            with watching_saved(model) as kept, Products() as products:
                y = forward(x, context, states)
            there = {address(x) for x in reads if x is not None} | (set(products.given) if how == "selective" else set())
            layers.append((kept, there))
            alive.append(products)
            return y

        return layer

    alive: list[Products] = []
    for stack in architecture.layered:
        for block in dict.fromkeys(model.get_submodule(stack).layers):
            monkeypatch.setattr(block, "forward", watched(block.forward))
    outputs = run(model, given_to(architecture))
    measured = [
        sum(x.untyped_storage().nbytes() for at, x in kept.storages.items() if at not in there) for kept, there in layers
    ]
    declared = activations(architecture, shape_of(architecture), plan, loss=False)
    assert all(output.requires_grad for output in outputs)
    assert [sum(tensor.bytes for tensor in layer) for layer in declared.recomputed.values()] == measured
