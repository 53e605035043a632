"""The contract of element-wise work: the functions of single numbers that a part computes are declared."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from anyformer.model import Architecture
from anyformer.model.transformer import build
from anyformer.operations import Elementwise
from anyformer.parts.layers.branch_module import BranchModule
from anyformer.plan import Plan
from anyformer.testing.inputs import inputs, shape

FUNCTIONS = frozenset(
    {
        "sigmoid", "silu", "gelu", "tanh", "softplus", "log_sigmoid_forward", "relu", "elu", "mish", "leaky_relu", "hardtanh",
        "_softmax",
    }
)  # fmt: skip
"""Operators of torch that are an activation, or a softmax."""
LEAST = 1.4
"""Operations that are declared for one number at least: a softmax has three, and a cap of its scores none."""


def functions_are_declared_as_work(architecture: Architecture) -> None:
    """A sublayer declares element-wise work for every activation and every softmax that it computes."""
    plan = Plan(attention="plain")
    model = build(architecture, plan, device="meta").eval()
    branches = {path: module for path, module in model.named_modules() if isinstance(module, BranchModule)}
    with torch.no_grad(), FunctionCounter() as counted:
        for path, module in branches.items():
            module.sublayer.register_forward_pre_hook(partial(counted.enter, path))
            module.sublayer.register_forward_hook(counted.leave)
        model(*(x.to("meta") for x in inputs(architecture)))
    declared = Counter[str]()
    for node in architecture.cost(shape(architecture), plan).nodes():
        work = sum(each.dense for each in node.tally.own_work.values() if isinstance(each, Elementwise))
        declared.update({path: node.times * work for path in branches if f"{node.path}.".startswith(f"{path}.sublayer.")})
    for paths in _alike(architecture, branches):
        found = sum((counted.of[path] for path in paths), Counter[str]())
        work = sum(declared[path] for path in paths)
        assert work >= LEAST * found.total(), (
            f"{paths[0]}: computes {', '.join(f'{n:,} times {name}' for name, n in found.items())}, and declares {work:,} "
            "element-wise operations"
        )


def _alike(architecture: Architecture, paths: Collection[str]) -> Iterator[list[str]]:
    """The paths of branches, those of one variant together: layers that share weights are priced as copies of one."""
    left = set(paths)
    for place, stack in architecture.stacks.items():
        for variant, block in stack.variants.items():
            for branch in block.branches:
                found = [f"{place}.layers.{layer}.{branch}" for layer, own in enumerate(stack.layers) if own == variant]
                yield [path for path in found if path in left]
                left -= set(found)
    yield from ([path] for path in sorted(left))


class FunctionCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside, the numbers of which functions are computed are counted, by the sublayer that computes them and by function."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.of, self.path = defaultdict[str, Counter[str]](Counter), ""

    def enter(self, path: str, *call: object) -> None:
        """From here on it is the sublayer at a path that computes."""
        self.path = path

    def leave(self, *call: object) -> None:
        """From here on it is none."""
        self.path = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in FUNCTIONS and self.path:
            first = out[0] if isinstance(out, tuple) else out
            self.of[self.path][name] += first.numel()
        return out
