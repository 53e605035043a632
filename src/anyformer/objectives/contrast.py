"""What objectives by contrast share: questions, the candidates of a micro-batch, and the ranks of those that belong to them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import SampleSizes, compares_rows
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Partners, Totals
from anyformer.objectives.records import RecordObjective
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary


class ContrastObjective(RecordObjective):
    """Cross-entropy of what belongs to a vector, among the candidates of the micro-batch. The base of such objectives.

    A smaller last batch of an evaluation has fewer candidates, and a lower loss.
    """

    @property
    def members(self) -> int:
        """The rows of a sample, which stand together."""
        return 2

    @property
    def sizes(self) -> SampleSizes:
        return SampleSizes(self.members, least_held_out=2, check=compares_rows(self.kind, "its negatives"))

    def similarities(self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary) -> Tensor:
        """(Q, C) fp32: of Q questions with C candidates, as they enter the softmax; candidate i belongs to question i."""
        raise NotImplementedError

    def summed(self, similar_QC: Tensor) -> Tensor:
        """The loss of similarities, summed over the samples."""
        raise NotImplementedError

    def signal(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> Tensor:
        return self.summed(self.similarities(model, examples, noise, auxiliary))

    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        return self.ranked(self.similarities(model, examples, None, auxiliary))

    def ranked(self, similar_QC: Tensor) -> dict[str, Tensor]:
        """The loss, and the sums for `metrics`; candidates that are as near as the one that belongs stand before it."""
        ranks_Q = (similar_QC >= similar_QC.diagonal()[:, None]).sum(1).double()
        return {
            "loss": self.summed(similar_QC),
            "questions": torch.tensor(len(ranks_Q)),
            "first": (ranks_Q == 1).sum(),
            "reciprocal_rank": ranks_Q.reciprocal().sum(),
        }

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        """Of finding what belongs to a question among the candidates of its batch: the share that come first, and the mean of
        1 / rank."""
        questions = totals["questions"].clamp(min=1)
        return {
            "recall_at_1": float(totals["first"] / questions),
            "mean_reciprocal_rank": float(totals["reciprocal_rank"] / questions),
        }


def own_candidates(similar_QC: Tensor) -> Tensor:
    """sum_i -log softmax_j(similar_ij)[i]: 0-d."""
    return F.cross_entropy(similar_QC, torch.arange(len(similar_QC), device=similar_QC.device), reduction="sum")
