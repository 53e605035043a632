"""Next-token prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from torch import Tensor

from anyformer.data import IGNORED
from anyformer.describe import NotNegative, Value
from anyformer.model import Architecture, Transformer
from anyformer.model.loss import token_losses
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary

_FEW, _FEW_WITH_PREFIX = Shape(length=4), Shape(length=4, prefix=3)


@dataclass(frozen=True)
class Examples:
    """One micro-batch on the model's device: `tokens`, `targets`, `documents` (B, T); `rows` (B,), global sample numbers.

    For a model with two inputs `tokens` is the source, and `decoder_tokens` (B, T) the token before each target.
    """

    tokens: Tensor
    targets: Tensor
    documents: Tensor | None
    rows: Tensor
    decoder_tokens: Tensor | None = None


class Objective(Protocol):
    """The loss of a micro-batch, summed over its valid targets, for a training step."""

    def loss(self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary | None = None) -> Tensor:
        """A 0-d tensor in fp32; `auxiliary` receives the experts' reports."""


class CausalObjective(Value):
    """Cross-entropy of the next token, summed over valid tokens: -log softmax(logits)[target] + z_loss * log(Z)^2.

    Z is the softmax's denominator; the z-loss keeps it near 1 (PaLM, arXiv 2204.02311, section 5). The caller divides by
    the number of valid tokens of the whole step, so the result does not depend on how a batch is cut.
    """

    kind: Literal["causal"] = "causal"
    z_loss: NotNegative = 0.0
    """Factor of log(Z)^2; PaLM: 0.0001."""
    balance_loss: NotNegative = 0.0
    """Factor of the experts' balance loss, summed over layers (`parts.experts.balance`); Switch: 0.01."""
    sequence_balance_loss: NotNegative = 0.0
    """Factor of the balance loss within each sequence, summed over layers; DeepSeek-V2: 0.003, DeepSeek-V3: 0.0001."""
    router_z_loss: NotNegative = 0.0
    """Factor of the routers' z-loss, summed over layers; ST-MoE: 0.001."""

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without logits of the next token, or in which a token sees its target."""
        kind = "one with a source" if architecture.two_inputs else architecture.shape_of_model
        if kind != "decoder-only" or architecture.head is None or architecture.head.outputs == "features":
            raise ValueError(f"the causal objective trains decoder-only models with a head, and this one is {kind}")
        tally = architecture.cost(_FEW)
        # A part that waits for later tokens shows a token its target; one only scaled by them shows little of it.
        reasons = tally.breaks("stepwise", training=True)
        if reasons:
            raise ValueError(
                "the causal objective predicts the next token, which this architecture lets each token see: "
                f"{'; '.join(reasons)}; the loss would say nothing. Give the decoder a mask of the past only, such as 'causal'"
            )
        if architecture.cost(_FEW_WITH_PREFIX).total_flops.exact != tally.total_flops.exact:
            raise ValueError(
                "the causal objective has no prefix, and a mask of this architecture reads prompts as one: that would never be "
                "trained. Train it with the mask 'causal' alone"
            )

    @property
    def without_penalties(self) -> CausalObjective:
        """The cross-entropy alone."""
        return self.but(z_loss=0.0, balance_loss=0.0, sequence_balance_loss=0.0, router_z_loss=0.0)

    def loss(self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary | None = None) -> Tensor:
        """The sum over valid tokens, penalties included: a 0-d tensor in fp32. `auxiliary` receives the experts' reports.

        The experts' penalties are means over the micro-batch's valid tokens, here multiplied by the number of these tokens.
        """
        valid_BT = examples.targets != IGNORED
        auxiliary = auxiliary or Auxiliary(valid_BT)
        logits_BTV = model(examples.tokens, documents=examples.documents, noise=noise, auxiliary=auxiliary)
        nll_BT, log_z_BT = token_losses(logits_BTV, examples.targets)
        total = nll_BT.sum()
        if self.z_loss:
            total = total + self.z_loss * (log_z_BT.square() * valid_BT).sum()
        if self.balance_loss:
            total = total + self.balance_loss * auxiliary.balance * valid_BT.sum()
        if self.sequence_balance_loss:
            total = total + self.sequence_balance_loss * auxiliary.sequence_balance * valid_BT.sum()
        if self.router_z_loss:
            total = total + self.router_z_loss * auxiliary.router_z * valid_BT.sum()
        return total
