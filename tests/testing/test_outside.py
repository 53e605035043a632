"""A part defined outside the package is one like ours: known by its kind, priced, trained, saved, held to the contracts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
import torch
from pydantic import Field
from torch import Tensor, nn

from anyformer.costs import cost
from anyformer.describe import DescriptionError, from_toml, to_toml
from anyformer.model import Architecture
from anyformer.model.transformer import build
from anyformer.operations import Shape, StateBytes, Tally, matrix, total
from anyformer.parts import Attention, RMSNorm, Rotary
from anyformer.parts.call.context import Context
from anyformer.parts.sublayer import Sublayer, Traits
from anyformer.plan import Plan
from anyformer.testing import contracts, learning
from anyformer.testing.around import decoder_of
from anyformer.testing.comparisons import equal_unless, unequal


class LeakySum(Sublayer):
    """o_t = s_t W_o, s_t = keep * s_(t-1) + x_t W_v: a running sum that forgets; s: (B, D)."""

    kind: Literal["leaky_sum"] = "leaky_sum"
    keep: Annotated[float, Field(gt=0, lt=1)] = 0.9
    norm: RMSNorm | None = None

    @property
    def traits(self) -> Traits:
        return Traits(mixing="running sum")

    def build(self, width: int, plan: Plan, name: str) -> LeakySumModule:
        return LeakySumModule(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        rows = shape.batch * shape.length
        parts = matrix("value", width, width, rows, role="replicate")
        parts += matrix("output", width, width, rows, role="replicate", fill="residual")
        if self.norm is not None:
            parts += total({"norm": self.norm.cost(width, rows)})
        held = shape.batch * width * 4
        return parts + Tally(own_state=StateBytes.of(shape, held, held))

    def state(self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device) -> SumState:
        return SumState(torch.zeros(batch, width, device=device))


@dataclass
class SumState:
    """s."""

    sums: Tensor
    allows_padding = True

    @property
    def nbytes(self) -> int:
        return self.sums.nbytes

    def fork(self, rows: Tensor) -> SumState:
        return SumState(self.sums[rows].clone())

    def take(self, other: Any) -> None:
        self.sums.copy_(other.sums)

    def check_trim(self, written: int, count: int) -> None:
        raise NotImplementedError


class LeakySumModule(nn.Module):
    def __init__(self, part: LeakySum, width: int, plan: Plan) -> None:
        super().__init__()
        self.keep = part.keep
        self.value = nn.Linear(width, width, bias=False)
        self.norm = part.norm.build(width) if part.norm else nn.Identity()
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x_BTD: Tensor, context: Context, state: SumState | None = None) -> Tensor:
        value = self.value(x_BTD)
        total = torch.zeros_like(value[:, 0]) if state is None else state.sums.to(value.dtype)
        valid, segments = context.valid, context.segments
        sums = []
        for t in range(value.shape[1]):
            if segments is not None and t:
                total = total.masked_fill((segments[:, t] != segments[:, t - 1])[:, None], 0)
            after = self.keep * total + value[:, t]
            total = after if valid is None else torch.where(valid[:, t, None], after, total)
            sums.append(total)
        if state is not None:
            state.sums.copy_(total)
        return self.output(self.norm(torch.stack(sums, 1)))


def leaky_twin(part: LeakySum, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    rows, total = [], torch.zeros(x.shape[1], dtype=x.dtype)
    for features in x:
        total = part.keep * total + weights["value.weight"] @ features
        h = total
        if part.norm is not None:
            h = h / torch.sqrt((h * h).mean() + part.norm.eps) * weights["norm.weight"]
        rows.append(weights["output.weight"] @ h)
    return torch.stack(rows)


@pytest.fixture
def architecture() -> Architecture:
    return decoder_of(LeakySum(), Attention(heads=4, place=Rotary()), LeakySum(keep=0.7, norm=RMSNorm()))


def test_it_is_known_by_being_defined(architecture):
    assert Sublayer.kinds["leaky_sum"] is LeakySum
    text = to_toml(architecture)
    assert 'kind = "leaky_sum"' in text
    assert from_toml(Architecture, text) == architecture


def test_it_is_priced_and_learns(architecture):
    sheet = cost(architecture, batch=2, length=11)
    model = build(architecture)
    assert sheet.params.total == sum(weight.numel() for weight in model.parameters())
    tokens = architecture.embedding.example(2, 11)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(3):
        loss = torch.nn.functional.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_it_keeps_the_contracts(architecture):
    contracts.check(architecture, {"leaky_sum": leaky_twin})


def test_of_what_is_broken_the_first_is_told_and_the_rest_named(architecture, monkeypatch):
    """Other wrong parts, and exactly what each breaks, are in test_wrong.py."""
    right = LeakySumModule.forward

    def forgets_state(self, x_BTD, context, state=None):
        return right(self, x_BTD, context, state and state.fork(torch.arange(len(x_BTD))))

    monkeypatch.setattr(LeakySumModule, "forward", forgets_state)
    everything = contracts.broken(architecture)
    for name in ("cached_and_chunked", "left_padding", "right_padding", "forked_state", "any_chunk"):
        assert f"\n{name}" in "\n" + "\n".join(everything)
    with pytest.raises(contracts.BrokenContractError) as found:
        contracts.check(architecture)
    first, rest = str(found.value).split("\nnot asked, since they need cached_and_chunked_equal_the_whole: ")
    assert first.startswith("cached_and_chunked_equal_the_whole: ")
    assert set(rest.split(", ")) >= everything.keys() - {"cached_and_chunked_equal_the_whole"}


def test_numbers_differ_whichever_is_the_smaller():
    less, more = torch.zeros(2), torch.ones(2)
    for pair in ((less, more), (more, less)):
        unequal(*pair, "these")
        equal_unless(("a limit",), {"these": pair})
    with pytest.raises(AssertionError, match="these: the same numbers"):
        unequal(less, less, "these")
    with pytest.raises(AssertionError, match="a limit that it does not have: a limit"):
        equal_unless(("a limit",), {"these": (less, less)})


def test_outputs_of_a_twin_with_other_gradients_are_not_enough(architecture):
    model = build(architecture, dtype=torch.float64)

    def twin(_: Architecture, weights: dict[str, Tensor], tokens: list[int], prefix: int = 0) -> Tensor:
        y: Tensor = torch.func.functional_call(model, weights, (torch.tensor([tokens]),))[0]
        return y

    def doubled(*arguments: Any, **more: Any) -> Tensor:
        y = twin(*arguments, **more)
        return 2 * y - y.detach()

    learning.every_weight_learns(architecture, twin)
    with pytest.raises(AssertionError, match=r"the gradient of .* beside that of the naive twin"):
        learning.every_weight_learns(architecture, doubled)


def test_where_it_is_not_defined_the_remedy_is_named(architecture):
    text = to_toml(architecture).replace('"leaky_sum"', '"their_mixer"')
    with pytest.raises(DescriptionError, match=r"'their_mixer' is no kind.*import the module that defines it"):
        from_toml(Architecture, text)
