"""The question that a traced forward pass answers: all that its saved tensors depend on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from anyformer.describe import Value
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.precision import Bf16, Fp32, Precision
from anyformer.tuning import Adapter, Lora
from anyformer.tuning.adapter import LowRankAdapter

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.model.transformer import Transformer


@dataclass(frozen=True)
class Learning:
    """Paths of the weights that learn, and ranks of low-rank adapters by the path of the weight beside them; `adapter`: which
    one, LoRA without."""

    weights: frozenset[str]
    ranks: Mapping[str, int]
    adapter: Adapter | None = None

    @property
    def beside(self) -> LowRankAdapter:
        """The adapter that stands beside each weight with a rank."""
        return self.adapter if isinstance(self.adapter, LowRankAdapter) else Lora(rank=max(self.ranks.values(), default=1))

    def within(self, prefix: str) -> tuple[frozenset[str], tuple[tuple[str, int], ...]]:
        """The weights and ranks below a prefix, by the rest of their path: equal for layers that learn alike."""
        names = frozenset(name.removeprefix(prefix) for name in self.weights if name.startswith(prefix))
        return names, tuple((name.removeprefix(prefix), rank) for name, rank in self.ranks.items() if name.startswith(prefix))

    def within_any(self, paths: Iterable[str]) -> bool:
        """Whether any of these weights learns, or has an adapter that does."""
        return any(path in self.weights or path in self.ranks for path in paths)


class TracedLoss(Protocol):
    """The loss of a training step, as a function of models and sizes: what it is given, and what it computes."""

    @property
    def parts(self) -> tuple[Value, ...]:
        """The descriptions that it depends on."""

    @property
    def rows_each(self) -> int:
        """Rows of a sample."""

    @property
    def position_bytes(self) -> int:
        """Bytes per position of a batch beside those of tokens, targets and masks."""

    def loss_bytes(self, logits: int, each: int) -> int:
        """Bytes that the backward pass of the loss takes beside what it saved, of which the logits are `logits`; each of those
        that the model gives has `each` bytes."""

    def work(self, shape: Shape) -> int:
        """FLOPs of the products that it computes beside those of the models, forward and backward."""

    @property
    def others(self) -> Mapping[str, Architecture]:
        """The models that it reads beside the one that is asked about, by name."""

    def shape(self, samples: int, length: int) -> Shape:
        """Sizes of a micro-batch of a run whose rows have `length` positions."""

    def facts(self, shape: Shape) -> Any:
        """Plain data: all that the loss depends on beside the sizes."""

    def loss(self, model: Transformer, shape: Shape, others: Mapping[str, Transformer]) -> Tensor:
        """The loss of made-up examples of these sizes: a 0-d tensor."""


@dataclass(frozen=True)
class TraceQuestion:
    """`recomputed`: every layer is recomputed in the backward pass. `scoreless`: every attention by a kernel that writes no
    scores, masks or biases of them, whatever torch's kernel does. `learning`: None for all weights. `signal`:
    the loss; None for the cross-entropy of a token at every position of rows without padding.
    """

    architecture: Architecture
    shape: Shape
    plan: Plan
    recomputed: bool = False
    scoreless: bool = False
    learning: Learning | None = None
    signal: TracedLoss | None = None

    @property
    def rows_each(self) -> int:
        """Rows that make one sample: a batch is a multiple of it."""
        return 1 if self.signal is None else self.signal.rows_each

    @property
    def precision(self) -> Precision:
        """The precision that saves the same tensors: those of one number format, or with narrow products."""
        given = self.plan.precision
        return given if given.narrow is not None else Bf16() if given.autocasts else Fp32()

    def learns(self, path: str) -> bool:
        return self.learning is None or path in self.learning.weights
