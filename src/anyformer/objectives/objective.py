"""`Objective`: the base of every training signal, as a value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Annotated, ClassVar, TypeVar

import torch
from torch import Tensor

from anyformer.costs.examples import examples as inputs_of
from anyformer.data import IGNORED, Corpus, Data
from anyformer.describe import NotNegative, Registry, Value
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits, Partner, SampleSizes, Usual
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.teacher_answers import AskedTeacher
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.text import Specials, Tokenizer

Inputs = Mapping[str, Tensor | None]
"""Arguments of `Transformer.forward` beside the tokens, by name."""
Totals = Mapping[str, Tensor]
"""Sums over examples, from which metrics are computed: 0-d or of any fixed shape, so that batches add up."""


@dataclass(frozen=True)
class Setting:
    """All that examples are made with besides the data: T, the run's seed, the tokenizer, the classes of the data, what
    reads the examples, where their sizes follow from it, and the samples of the longest sound of the data."""

    tokenizer: Tokenizer
    length: int
    seed: int = 0
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    architecture: Architecture | None = None
    samples: int = 0


def reader_of(setting: Setting) -> Architecture:
    """The architecture that examples are made for, of which their sizes follow."""
    assert setting.architecture is not None, "examples with images or sounds differ by what reads them"
    return setting.architecture


Partners = Mapping[str, Transformer]
"""The second models of a run, by name."""


PENALTY = object()
"""Marks a field with which a penalty is weighed: without it, at 0, the signal alone is left."""
Penalty = Annotated[NotNegative, PENALTY]
M = TypeVar("M", bound=Callable[..., object])
Own = TypeVar("Own", bound="Objective")
_OF_PARTS: set[object] = set()


def of_divided_logits(method: M) -> M:
    """Mark a method that computes with logits of which each of several processes has some tokens' or positions', by the
    functions of `model.loss` alone. A method that overrides it has no mark but its own."""
    _OF_PARTS.add(method)
    return method


def divides_logits(objective: Objective) -> bool:
    """Whether processes may divide the logits: `signal`, `statistics` and every method that a base marks are
    `of_divided_logits`. Otherwise each process has all logits as a plain tensor, with which anything can be computed."""
    own = type(objective)
    marked = {name for base in own.__mro__ for name, value in vars(base).items() if callable(value) and value in _OF_PARTS}
    return all(getattr(own, name) in _OF_PARTS for name in {"signal", "statistics", *marked})


class Objective(Value):
    """What a model is trained to do: examples from data, and their loss. The base of every objective.

    The loss is summed over targets; the caller divides it by the number of targets of the whole step (`Examples.count`), so
    that
    the result does not depend on how a batch is cut.
    """

    kinds: ClassVar[Registry] = Registry()
    reads: ClassVar[type[Data] | UnionType]
    """The kind of data that examples are made of, or several."""
    kind: str
    balance_loss: Penalty = 0.0
    """Factor of the experts' balance loss, summed over layers (`parts.experts.balance`); Switch: 0.01."""
    sequence_balance_loss: Penalty = 0.0
    """Factor of the balance loss within each sequence, summed over layers; DeepSeek-V2: 0.003, DeepSeek-V3: 0.0001."""
    router_z_loss: Penalty = 0.0
    """Factor of the routers' z-loss, summed over layers; ST-MoE: 0.001."""
    index_loss: Penalty = 1.0
    """Factor of the loss of index scores, summed over the layers whose attention chooses its keys; no other weights get a
    gradient from it. 0: the choice stays as it is."""

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that cannot be trained so, with the reason; before any work."""
        raise NotImplementedError

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        """Refuse data of another kind than the objective reads, and a length T that inputs made of it do not have."""
        if not isinstance(data, self.reads):
            wanted = [kind for kind, entry in Data.kinds.items() if issubclass(entry, self.reads)]
            raise ValueError(
                f"the {self.kind} objective is trained on data.kind = {' or '.join(map(repr, wanted))}, and data.kind is "
                f"{data.kind!r}"
            )

    @property
    def traits(self) -> LossTraits:
        """What the loss is of, and what its figures say."""
        return LossTraits()

    @property
    def sizes(self) -> SampleSizes:
        """What samples take, and which sizes of a run do not suit them."""
        return SampleSizes()

    @property
    def usual(self) -> Usual:
        """What suits an architecture where nobody says it."""
        assert isinstance(self.reads, type), "an objective that reads several kinds says which is usual"
        return Usual(self.reads.usual)

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        """Examples with the tensors that training on such data has, of the same sizes and types, and of any numbers: memory is
        foretold from them. `data`: of one kind, no mixture. By default a token to predict at every position, without padding.
        """
        tokens, *target = inputs_of(architecture, shape)
        targets = torch.zeros(shape.batch, shape.length, dtype=torch.int64)
        rows = torch.arange(shape.batch // self.sizes.rows)
        return Examples(tokens, targets, None, rows, decoder_tokens=target[0] if target else None)

    def special(self, length: int) -> Specials:
        """The special tokens that examples of `length` positions need."""
        return Specials()

    @property
    def partners(self) -> Mapping[str, Partner]:
        """The second models that the loss needs, by name."""
        return {}

    def feed(self, data: Data, corpus: Corpus, setting: Setting, batch: int, *, held_out: bool = False) -> Feed:
        """The training examples, or those `held_out`, in batches of `batch` samples."""
        raise NotImplementedError

    def counted(self, examples: Examples) -> Tensor | None:
        """(B, T) bool: the positions of the generating stack whose tokens count for the experts' penalties; None counts all.

        By default all but padding, whether they have a target or not.
        """
        return None if examples.padding is None else ~examples.padding

    def signal(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> Tensor:
        """The summed loss without the experts' penalties: a 0-d tensor in fp32."""
        raise NotImplementedError

    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        """Sums over the examples for `metrics`, the summed loss without penalties as `loss` among them; and numbers (B,) of
        `traits.each_row`."""
        return {"loss": without_penalties(self).signal(model, examples, None, auxiliary, partners)}

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        """Figures for people from the summed statistics, such as accuracy; the mean loss is not among them."""
        return {}

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        """(What it is, its loss) of a model that knows no more than the frequencies of the targets it was trained on.

        `steps`: the updates whose examples were seen; `windows`: the rows of the last evaluation; `outputs`: V, the number
        of logits.
        """
        return None


def loss_of(
    objective: Objective,
    model: Transformer,
    examples: Examples,
    noise: Noise | None = None,
    auxiliary: Auxiliary | None = None,
    partners: Partners | None = None,
) -> Tensor:
    """The summed loss, penalties included: a 0-d tensor in fp32. `auxiliary` receives the layers' reports."""
    auxiliary = auxiliary or Auxiliary(objective.counted(examples))
    return penalised(objective, objective.signal(model, examples, noise, auxiliary, partners or {}), examples, auxiliary)


def penalised(objective: Objective, total: Tensor, examples: Examples, auxiliary: Auxiliary) -> Tensor:
    """A summed loss and the penalties on what the layers reported, those of experts and of index scores: means over the
    micro-batch's tokens, times the micro-batch's count."""
    count = (examples.targets != IGNORED).sum() if examples.counts is None else examples.counts.sum().to(total.dtype)
    if objective.balance_loss:
        total = total + objective.balance_loss * auxiliary.balance * count
    if objective.sequence_balance_loss:
        total = total + objective.sequence_balance_loss * auxiliary.sequence_balance * count
    if objective.router_z_loss:
        total = total + objective.router_z_loss * auxiliary.router_z * count
    if objective.index_loss and (index := auxiliary.index) is not None:
        total = total + objective.index_loss * index * count
    return total


def without_penalties(objective: Own) -> Own:
    """The same signal alone, as it is evaluated; of an objective within it, too."""
    changes: dict[str, object] = {}
    for name, described in type(objective).model_fields.items():
        value = getattr(objective, name)
        if PENALTY in described.metadata:
            changes[name] = 0.0
        elif isinstance(value, Objective):
            changes[name] = without_penalties(value)
    return objective.but(**changes)


def beside(objective: Objective) -> dict[str, Partner]:
    """The partners that are there while the model learns: those that are not asked before."""
    return {name: partner for name, partner in objective.partners.items() if partner.asked is None}


def prepared(objective: Objective, examples: Examples, partners: Partners) -> Examples:
    """The examples as the loss reads them: with what partners make of them before it."""
    for name, partner in objective.partners.items():
        if partner.prepares is not None:
            examples = partner.prepares(partners[name], examples)
    return examples


def asked_of(objective: Objective) -> tuple[str, AskedTeacher] | None:
    """The partner that is asked before the first update, by name, and what it is asked; None without one."""
    found = ((name, partner.asked) for name, partner in objective.partners.items() if partner.asked is not None)
    return next(found, None)


def added(totals: Iterable[Mapping[str, Tensor]], each_row: Collection[str] = ()) -> dict[str, Tensor]:
    """The sums of the statistics of several batches, in float64 on the CPU; those named in `each_row` one after the other."""
    result: dict[str, Tensor] = {}
    for each in totals:
        for name, value in each.items():
            value = value.detach().to("cpu", torch.float64)
            if name in result:
                value = torch.cat([result[name], value]) if name in each_row else result[name] + value
            result[name] = value
    return result
