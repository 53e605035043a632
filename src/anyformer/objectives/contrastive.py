"""Embeddings by contrast: texts of like meaning are near, the others of the batch far."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from anyformer.data import Data, RecordBatch, RecordTable, Similar
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.contrast import ContrastObjective, own_candidates
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.objective import Setting
from anyformer.objectives.sequences import FRAME, around, outputs, sequences
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.parts.embedding.head_module import at_last
from anyformer.requirements.usual import BY_KIND
from anyformer.text import Specials

TEXTS = ("text", "positive", "negative")


class ContrastiveObjective(ContrastObjective):
    """InfoNCE with the batch's other texts as negatives: -log softmax_j(cos(x_i, y_j) / temperature)[i].

    x_i is the embedding of text i, y_j those of all positives of the micro-batch and, where the data has them, of all hard
    negatives (van den Oord et al. 2018, arXiv 1807.03748; SimCSE, arXiv 2104.08821; Sentence-BERT, arXiv 1908.10084).
    """

    reads: ClassVar[type[Data]] = Similar
    kind: Literal["contrastive"] = "contrastive"
    temperature: Annotated[float, Field(gt=0)] = 0.05
    """What the cosines are divided by; SimCSE 0.05, CLIP learns it from 0.07."""
    symmetric: bool = True
    """Average the loss with that of finding the texts from their positives (CLIP, arXiv 2103.00020)."""
    pool: Literal["first", "mean", "last"] = "mean"
    """What becomes a text's embedding where the head does not pool: its first or last position, or the mean."""
    frame: bool = True
    """Put around texts what the tokenizer puts there, as `[CLS]` and `[SEP]`."""
    hard_negatives: bool = False
    """Whether the data has a field `negative`."""

    def special(self, length: int) -> Specials:
        return FRAME if self.frame else Specials()

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of a sample; each takes a row."""
        return TEXTS if self.hard_negatives else TEXTS[:2]

    @property
    def members(self) -> int:
        return len(self.texts)

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that gives logits."""
        BY_KIND["contrastive"].check(architecture)

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        super().check_data(data, architecture, length)
        assert isinstance(data, Similar), "checked above"
        if (data.negative is not None) != self.hard_negatives:
            raise ValueError(
                f"objective.hard_negatives = {str(self.hard_negatives).lower()} and data.negative = {data.negative!r}: set "
                "both or neither"
            )

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        longest = np.max([table.lengths(name) for name in self.texts], axis=0)
        return np.asarray(longest + around(setting.tokenizer, 1, self.frame).count, dtype=np.int64)

    def examples(self, batch: RecordBatch, setting: Setting) -> Examples:
        """`tokens` (B n, T): the n texts of each sample stand together."""
        texts = [[record[name]] for (record,) in batch.records for name in self.texts]
        given = sequences(texts, setting.length, setting.tokenizer, self.frame)
        count = len(batch.records)
        return Examples(
            given.tokens, torch.zeros(count, dtype=torch.int64), None, torch.from_numpy(batch.rows), padding=given.padding,
            counts=torch.ones(count, dtype=torch.float64),
        )  # fmt: skip

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made = super().made_up(architecture, data, shape)
        return replace(made, targets=torch.zeros(len(made.rows), dtype=torch.int64))

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        """log of the number of candidates: the loss where all are alike."""
        loss = rows = 0.0
        for examples in held_out.once(windows):
            batch = len(examples.rows)
            away = math.log(batch * (len(self.texts) - 1))
            loss += batch * ((away + math.log(batch)) / 2 if self.symmetric else away)
            rows += batch
        return ("all texts of a batch alike", loss / rows) if rows else None

    def similarities(self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary) -> Tensor:
        """(B, C) fp32: of each text with the C candidates, over the temperature."""
        given = outputs(model, examples, noise and noise.of_each(len(self.texts)), auxiliary)
        features = F.normalize(self._pooled(given, examples.padding).float(), dim=-1)
        texts, *others = features.view(len(examples.rows), len(self.texts), -1).unbind(1)
        return texts @ torch.cat(others).mT / self.temperature

    def summed(self, similar_QC: Tensor) -> Tensor:
        there = own_candidates(similar_QC)
        return (there + own_candidates(similar_QC[:, : len(similar_QC)].mT)) / 2 if self.symmetric else there

    def _pooled(self, features: Tensor, padding: Tensor | None) -> Tensor:
        """(N, T, D) -> (N, D); features that the head pooled stay."""
        if features.dim() == 2:
            return features
        match self.pool:
            case "first":
                return features[:, 0]
            case "last":
                return at_last(features, padding)
            case "mean":
                assert padding is not None, "made above"
                kept = ~padding[:, :, None]
                return (features * kept).sum(1) / kept.sum(1)
