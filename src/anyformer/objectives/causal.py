"""Next-token prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from anyformer.data import IGNORED
from anyformer.describe import Value
from anyformer.model import Architecture, Transformer
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.tally import Shape

Penalty = Annotated[float, Field(ge=0)]
_FEW, _FEW_WITH_PREFIX = Shape(length=4), Shape(length=4, prefix=3)


@dataclass(frozen=True)
class Examples:
    """One micro-batch on the model's device: `tokens`, `targets`, `documents` (B, T); `rows` (B,), global sample numbers."""

    tokens: Tensor
    targets: Tensor
    documents: Tensor | None
    rows: Tensor


class CausalObjective(Value):
    """Cross-entropy of the next token, summed over valid tokens: -log softmax(logits)[target] + z_loss * log(Z)^2.

    Z is the softmax's denominator; the z-loss keeps it near 1 (PaLM, arXiv 2204.02311, section 5). The caller divides by
    the number of valid tokens of the whole step, so the result does not depend on how a batch is cut.
    """

    kind: Literal["causal"] = "causal"
    z_loss: Penalty = 0.0
    """Factor of log(Z)^2; PaLM: 0.0001."""
    balance_loss: Penalty = 0.0
    """Factor of the experts' balance loss, summed over layers (`parts.balance`); Switch: 0.01."""
    sequence_balance_loss: Penalty = 0.0
    """Factor of the balance loss within each sequence, summed over layers; DeepSeek-V2: 0.003, DeepSeek-V3: 0.0001."""
    router_z_loss: Penalty = 0.0
    """Factor of the routers' z-loss, summed over layers; ST-MoE: 0.001."""

    def check(self, architecture: Architecture) -> None:
        """Refuse what cannot learn to predict the next token: no logits of it, or a token that sees its target."""
        kind = "one with a source" if architecture.two_inputs else architecture.shape_of_model
        if kind != "decoder-only" or architecture.head is None or architecture.head.outputs == "features":
            raise ValueError(f"the causal objective trains decoder-only models with a head, and this one is {kind}")
        tally = architecture.cost(_FEW)
        # What waits for later tokens shows a token its target; what is only scaled by them shows it little.
        seen = tally.breaks("stepwise", training=True)
        if seen:
            raise ValueError(
                f"the causal objective predicts the next token, which this architecture lets each token see: {'; '.join(seen)}"
                "; the loss would say nothing. Give the decoder a mask that looks back only, such as 'causal'"
            )
        if architecture.cost(_FEW_WITH_PREFIX).total_flops.exact != tally.total_flops.exact:
            raise ValueError(
                "the causal objective has no prefix to give, and a mask of this architecture has one that a text would be read "
                "with: it would never be trained. Train it with the mask 'causal' alone"
            )

    @property
    def without_penalties(self) -> CausalObjective:
        """The cross-entropy alone."""
        return self.but(z_loss=0.0, balance_loss=0.0, sequence_balance_loss=0.0, router_z_loss=0.0)

    def loss(self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary | None = None) -> Tensor:
        """The sum over valid tokens, penalties included: a 0-d tensor in fp32. `auxiliary` receives the experts' reports.

        The experts' penalties are means over the micro-batch's valid tokens, and weigh as many tokens here.
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


def token_losses(logits_BTV: Tensor, targets_BT: Tensor) -> tuple[Tensor, Tensor]:
    """Negative log-likelihood of each target (0 where ignored) and log Z, (B, T) each, in fp32."""
    logits = logits_BTV.float()
    log_z = torch.logsumexp(logits, -1)
    chosen = logits.gather(-1, targets_BT.clamp(min=0)[..., None])[..., 0]
    return torch.where(targets_BT == IGNORED, 0.0, log_z - chosen), log_z
