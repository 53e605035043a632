"""Classification of sounds."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from anyformer.data import Data, RecordBatch, RecordTable, Sounds
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.objectives.classes import ClassObjective
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Setting
from anyformer.objectives.sounds import SoundPositions
from anyformer.requirements.usual import BY_KIND


class SoundClassificationObjective(SoundPositions, ClassObjective):
    """Cross-entropy of the class of a sound: -log softmax(logits)[class].

    An encoder hears frames of a spectrum, or sees it as a picture of one channel cut into patches (AST, Gong et al. 2021, arXiv
    2104.01778), and its head pools them.
    """

    reads: ClassVar[type[Data]] = Sounds
    kind: Literal["sound_classification"] = "sound_classification"

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that does not turn one sound into a logit per class."""
        BY_KIND["sound_classification"].check(architecture)

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        return table.lengths("label") * setting.length

    def examples(self, batch: RecordBatch, setting: Setting, training: bool = False) -> Examples:
        """`targets` (B,): the numbers of the classes."""
        tokens, padding = self.heard(batch, setting, training)
        targets = torch.tensor([int(record["label"]) for (record,) in batch.records])
        counts = torch.ones(len(targets), dtype=torch.float64)
        return Examples(tokens, targets, None, torch.from_numpy(batch.rows), padding=padding, counts=counts)

    def counted(self, examples: Examples) -> Tensor | None:
        return None
