"""The contract of element-wise work: the functions of single numbers that a part computes are declared."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import torch
from torch import Tensor
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
    counted = {path: Functions() for path, module in model.named_modules() if isinstance(module, BranchModule)}
    hooks = []
    for path, functions in counted.items():
        sublayer = model.get_submodule(f"{path}.sublayer")
        hooks.append(sublayer.register_forward_pre_hook(lambda *_, functions=functions: functions.__enter__() and None))
        hooks.append(sublayer.register_forward_hook(lambda *_, functions=functions: functions.__exit__(None, None, None)))
    with torch.no_grad():
        model(*(x.to("meta") for x in inputs(architecture)))
    declared = Counter[str]()
    for node in architecture.cost(shape(architecture), plan).nodes():
        work = sum(each.dense for each in node.tally.own_work.values() if isinstance(each, Elementwise))
        declared.update({path: node.times * work for path in counted if f"{node.path}.".startswith(f"{path}.sublayer.")})
    alike = defaultdict[tuple[str, ...], list[str]](list)  # layers that share weights are priced as copies of one
    for path in counted:
        alike[_variant_of(architecture, path)].append(path)
    for paths in alike.values():
        found = sum((counted[path].of for path in paths), Counter[str]())
        work = sum(declared[path] for path in paths)
        assert work >= LEAST * found.total(), (
            f"{paths[0]}: computes {', '.join(f'{n:,} times {name}' for name, n in found.items())}, and declares {work:,} "
            "element-wise operations"
        )


def _variant_of(architecture: Architecture, path: str) -> tuple[str, ...]:
    """The stack, the variant and the branch of a module `STACK.layers.I.BRANCH`; of any other, itself."""
    match path.split("."):
        case [place, "layers", layer, branch] if place in architecture.stacks:
            return place, architecture.stacks[place].layers[int(layer)], branch
    return (path,)


class Functions(TorchDispatchMode):
    """Inside, the numbers of which functions are computed are counted, by function."""

    def __init__(self) -> None:
        super().__init__()
        self.of = Counter[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in FUNCTIONS:
            first = out[0] if isinstance(out, tuple) else out
            assert isinstance(first, Tensor)
            self.of[name] += first.numel()
        return out
