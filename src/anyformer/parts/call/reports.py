"""Reports of layers on a call: penalties on the routing of experts and on index scores, loads of experts, sparse codes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.describe import UserError


@dataclass(frozen=True)
class Load:
    """The load of a layer's experts, of tokens that count: choices of each expert, (X,); choices without a place, 0-d."""

    counts: Tensor
    dropped: Tensor

    def __add__(self, other: Load) -> Load:
        return Load(self.counts + other.counts, self.dropped + other.dropped)

    @property
    def shares(self) -> list[float]:
        """Each expert's share of the choices: 1 / X at perfect balance."""
        total = max(int(self.counts.sum()), 1)
        return [round(count / total, 4) for count in self.counts.tolist()]

    @property
    def dropped_share(self) -> float:
        """The share of choices without a place."""
        return round(int(self.dropped) / max(int(self.counts.sum()), 1), 4)


def add_loads(loads: Mapping[str, Load], more: Mapping[str, Load]) -> dict[str, Load]:
    """The summed loads of two calls, by path of the layer."""
    return {**loads, **{path: loads[path] + load if path in loads else load for path, load in more.items()}}


def plain(loads: Mapping[str, Load]) -> dict[str, tuple[Tensor, Tensor]]:
    """Loads without a class of ours: counts and choices without a place, by path."""
    return {path: (load.counts, load.dropped) for path, load in loads.items()}


@dataclass(frozen=True)
class Coded:
    """What a sparse dictionary made of a call: `active` (B, T, F), the activations of its features.

    `penalty` (B, T) fp32: what makes few of them active, if it is small; None where the code itself sees to it. `scale` (1,):
    the factor of its input, and of its output's error; None: 1. `revived`: what dead features leave of the vectors
    (B, T, D) that they are given, squared (B, T); None where nobody counts dead features. `guess`: gives (B, T, D), what a gate
    alone makes of the input with the decoder as it stands; None without a gate.
    """

    active: Tensor
    penalty: Tensor | None = None
    scale: Tensor | None = None
    revived: Callable[[Tensor], Tensor] | None = None
    guess: Callable[[], Tensor] | None = None


@dataclass(frozen=True)
class Report:
    """One layer's report of one call; the losses are None where the router has no scores, or the layer no router.

    `load`: None in a report of the losses of several layers, and of a layer without experts. `index`: the loss of the scores
    by which an attention chooses its keys. `coded`: of a sparse dictionary.
    """

    load: Load | None
    balance: Tensor | None = None
    sequence_balance: Tensor | None = None
    router_z: Tensor | None = None
    index: Tensor | None = None
    coded: Coded | None = field(default=None, kw_only=True)

    @property
    def losses(self) -> tuple[Tensor | None, ...]:
        """All losses, in the order of the fields."""
        return self.balance, self.sequence_balance, self.router_z, self.index

    def of_each(self, count: int) -> Report:
        """That of one of `count` processes that all compute it: the same losses, with gradients that add up to theirs."""
        losses = (loss if loss is None else _of_each(loss, count) for loss in self.losses)
        return Report(self.load, *losses, coded=self.coded)

    def to(self, device: torch.device | str) -> Report:
        """The report on another device, without gradients."""
        load = self.load and Load(self.load.counts.to(device), self.load.dropped.to(device))
        return Report(load, *(loss if loss is None else loss.detach().to(device) for loss in self.losses))


def _of_each(loss: Tensor, count: int) -> Tensor:
    own = loss / count
    return own + (loss - own).detach()


@dataclass
class Auxiliary:
    """Collects the reports of one call by the path of the layer, so that a recomputed layer overwrites and never adds.

    `counted` (B, T) bool: the tokens that count, of the stack that the head reads; padding never does.
    """

    counted: Tensor | None = None
    reports: dict[str, Report] = field(default_factory=dict)
    sums: dict[str, Tensor] = field(default_factory=dict)
    """What a loss tells of itself beside its value, by name: 0-d sums over the examples."""
    largest: dict[str, Tensor] = field(default_factory=dict)
    """The same of what is not added up: the largest number of all counts."""

    def of_source(self) -> Auxiliary:
        """The same collector for another sequence, all of whose tokens count but padding."""
        return Auxiliary(None, self.reports)

    def emptied(self) -> Auxiliary:
        """An empty collector for the same tokens."""
        return Auxiliary(self.counted)

    def after(self, length: int) -> Auxiliary:
        """The same collector for a sequence with a source of `length` positions in front, none of which counts."""
        counted = None if self.counted is None else F.pad(self.counted, (length, 0))
        return Auxiliary(counted, self.reports)

    def ordered(self, order_BT: Tensor) -> Auxiliary:
        """The same collector for positions in another order."""
        return Auxiliary(None if self.counted is None else self.counted.gather(1, order_BT), self.reports)

    def ahead(self, k: int, documents_BT: Tensor | None) -> Auxiliary:
        """The same collector for the first T - k positions: those count whose target k further on counts, in their document."""
        counted = None if self.counted is None else self.counted[:, k:]
        if documents_BT is not None:
            same = documents_BT[:, k:] == documents_BT[:, :-k]
            counted = same if counted is None else counted & same
        return Auxiliary(counted, self.reports)

    @property
    def balance(self) -> Tensor:
        """The balance loss, summed over layers."""
        return _sum("balance_loss", (report.balance for report in self.reports.values()))

    @property
    def sequence_balance(self) -> Tensor:
        """The balance loss within sequences, summed over layers."""
        return _sum("sequence_balance_loss", (report.sequence_balance for report in self.reports.values()))

    @property
    def router_z(self) -> Tensor:
        """The router z-loss, summed over layers."""
        return _sum("router_z_loss", (report.router_z for report in self.reports.values()))

    @property
    def index(self) -> Tensor | None:
        """The loss of index scores, summed over layers; None where no attention chooses its keys."""
        given = [report.index for report in self.reports.values() if report.index is not None]
        return torch.stack(given).sum() if given else None

    @property
    def coded(self) -> tuple[Coded, ...]:
        """What sparse dictionaries made of the call, in the order computed."""
        return tuple(report.coded for report in self.reports.values() if report.coded is not None)

    @property
    def loads(self) -> dict[str, Load]:
        """The load of each layer's experts, by path."""
        return {path: report.load for path, report in self.reports.items() if report.load is not None}


def _sum(name: str, losses: Iterable[Tensor | None]) -> Tensor:
    given = [loss for loss in losses if loss is not None]
    if not given:
        raise UserError(f"objective.{name} penalises routers, and no layer of this architecture has one; set it to 0")
    return torch.stack(given).sum()
