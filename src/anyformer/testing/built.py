"""Contracts of the built module: its weights, text, copies, kernels and number formats."""

from __future__ import annotations

import pickle
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from anyformer.describe import from_json, from_toml, to_json, to_toml
from anyformer.model import Architecture
from anyformer.model.initialise import materialise
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.testing.comparisons import equal
from anyformer.testing.inputs import inputs
from anyformer.testing.models import looked_at, without_values


def declared_weights_are_the_parameters(architecture: Architecture) -> None:
    """The declared weights are the module's parameters, by name and shape, and those that no gradient moves have none."""
    model = without_values(architecture)
    declared = {name: (weight.shape, weight.learnt) for name, weight in architecture.trained_cost(Shape()).weights.items()}
    built = {name: (tuple(parameter.shape), parameter.requires_grad) for name, parameter in model.named_parameters()}
    assert declared == built, f"declared beside built: {declared.items() ^ built.items()}"


def forward_pass_is_computed(architecture: Architecture) -> None:
    """A call gives finite outputs for each row."""
    given = inputs(architecture)
    outputs = looked_at(architecture)(*given)
    assert len(outputs) == len(given[0]), f"{len(given[0])} rows give outputs of shape {tuple(outputs.shape)}"
    assert outputs.isfinite().all(), "outputs are not finite"


def no_matrix_of_products_is_looked_up(architecture: Architecture) -> None:
    """No row is looked up in a weight that is declared as a matrix of products alone: it may lie in their kernel's order."""
    model = looked_at(architecture)
    paths = {id(parameter): name for name, parameter in model.named_parameters()}
    with torch.no_grad(), _LookedUp() as watching:
        model(*inputs(architecture))
    looked_up = {paths[table] for table in watching.tables if table in paths}
    declared = {name for name, weight in architecture.trained_cost(Shape()).weights.items() if weight.multiplied}
    assert not looked_up & declared, f"looked up, and not declared with linear=False: {sorted(looked_up & declared)}"


class _LookedUp(TorchFunctionMode):
    """Inside, the identity of every table in which rows are looked up is put down."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = set[int]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.embedding:
            self.tables.add(id(args[1] if len(args) > 1 else kwargs["weight"]))
        return func(*args, **(kwargs or {}))


def description_survives_text(architecture: Architecture) -> None:
    """The description written as TOML and JSON and read again is equal, and is written as the same bytes."""
    for write, read in ((to_toml, from_toml), (to_json, from_json)):
        text = write(architecture)
        again = read(Architecture, text)
        assert again == architecture
        assert hash(again) == hash(architecture)
        assert write(again) == text


def model_survives_pickle(architecture: Architecture) -> None:
    """The model can be pickled, which copies and spawned processes need."""
    model = without_values(architecture)
    again = pickle.loads(pickle.dumps(model))
    assert again.architecture == model.architecture
    assert again.state_dict().keys() == model.state_dict().keys()


def materialised_equals_built(architecture: Architecture) -> None:
    """A model built without values and then filled has the same bits as one built at once, and no buffer."""
    direct = build(architecture, seed=5)
    late = materialise(build(architecture, device="meta"), "cpu", seed=5)
    assert not list(direct.buffers()), "a buffer has no value after a build without values: use a weight, or make it in forward"
    built, filled = (dict(model.named_parameters()) for model in (direct, late))
    assert built.keys() == filled.keys()
    for name, parameter in built.items():
        assert torch.equal(parameter, filled[name]), name


def kernels_agree(architecture: Architecture) -> None:
    """Attention written out equals torch's fused kernel."""
    given = inputs(architecture)
    plain, fused = (looked_at(architecture, Plan(attention=kernel))(*given) for kernel in ("plain", "sdpa"))
    equal(plain, fused)


def bf16_stays_near_fp32(architecture: Architecture) -> None:
    """Logits in bf16 are within 5 % of fp32: a relative step is 2^-8, and errors add up over two or three layers."""
    given, model = inputs(architecture), build(architecture).eval()
    with torch.no_grad():
        exact = model(*given)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rough = model(*given).float()
    error = float((rough - exact).norm() / exact.norm())
    assert error < 0.05, f"off by {error:.1%}"
