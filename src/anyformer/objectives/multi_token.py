"""Prediction of several tokens ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor

from anyformer.data import IGNORED
from anyformer.describe import NotNegative
from anyformer.model import Architecture
from anyformer.model.loss import token_losses
from anyformer.model.transformer import Transformer
from anyformer.objectives.causal import NextToken
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Partners, Totals, of_divided_logits
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.requirements.usual import BY_KIND


def later_targets(targets_BT: Tensor, documents_BT: Tensor | None, k: int) -> Tensor:
    """The tokens that prediction k is of, (B, T - k): the target of the position k further on, if of the same document."""
    later = targets_BT[:, k:]
    if documents_BT is None:
        return later
    return torch.where(documents_BT[:, k:] == documents_BT[:, : later.shape[1]], later, IGNORED)


def later_losses(later: Sequence[Tensor], targets_BT: Tensor, documents_BT: Tensor | None) -> list[Tensor]:
    """Cross-entropy of each prediction k = 1, 2, ..., logits (B, T - k, V), summed over its targets: 0-d tensors in fp32.

    targets (B, T): those of the next token. A position whose target, or the token that its module is given, is of another
    document has no loss.
    """
    return [
        token_losses(logits, later_targets(targets_BT, documents_BT, k))[0].sum() for k, logits in enumerate(later, start=1)
    ]


class MultiTokenObjective(NextToken):
    """Cross-entropy of the next token L_0, and of the tokens k = 1 ... D after it: L_0 + factor * sum_k L_k.

    DeepSeek-V3 takes lambda / D for the factor, lambda = 0.3 and then 0.1 (arXiv 2412.19437, sections 2.2 and 4.2), Gloeckle et
    al. take 1 (arXiv 2404.19737, section 2). All are divided by the number of next tokens. `z_loss` and `label_smoothing` are
    of the next token alone, and so is the loss of an evaluation, which other models' can be compared with.
    """

    teachable: ClassVar[bool] = False
    kind: Literal["multi_token"] = "multi_token"
    factor: NotNegative = 0.3
    """Factor of each later token's loss, with `mean` of their mean."""
    mean: bool = True
    """Whether the later losses are averaged (DeepSeek-V3) or added up (Gloeckle et al., factor 1)."""

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without logits of later tokens, or in which a token sees its target."""
        BY_KIND["multi_token"].check(architecture)

    @of_divided_logits
    def signal(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> Tensor:
        first, *later = model.predictions(examples.tokens, documents=examples.documents, noise=noise, auxiliary=auxiliary)
        losses = later_losses(later, examples.targets, examples.documents)
        factor = self.factor / len(losses) if self.mean else self.factor
        return self.token_loss(first, examples) + factor * torch.stack(losses).sum()

    @of_divided_logits
    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        first, *later = model.predictions(examples.tokens, documents=examples.documents, auxiliary=auxiliary)
        sums = self.token_statistics(first, examples)
        for k, logits in enumerate(later, 1):
            targets = later_targets(examples.targets, examples.documents, k)
            sums[f"later_{k}"] = token_losses(logits, targets)[0].sum()
            sums[f"targets_{k}"] = (targets != IGNORED).sum()
        return sums

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        """The accuracy of the next token, and the mean loss of each later one."""
        later = [name for name in totals if name.startswith("later_")]
        return super().metrics(totals, names) | {
            f"loss_{name}": float(totals[name] / totals[name.replace("later", "targets")].clamp(min=1)) for name in later
        }
