"""A class per word: named entities, parts of speech."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from anyformer.data import IGNORED, Data, RecordBatch, RecordTable, WordLabels
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits
from anyformer.objectives.classes import macro_f1
from anyformer.objectives.entities import codes_of, entity_counts
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Inputs, Partners, Setting, Totals, without_penalties
from anyformer.objectives.records import RecordObjective
from anyformer.objectives.sequences import FRAME, around, labelled, sequence_inputs
from anyformer.objectives.token_loss import TokenObjective
from anyformer.operations import Shape
from anyformer.parts.call.reports import Auxiliary
from anyformer.requirements.needs import needs_classes, needs_one_sequence
from anyformer.text import Specials


class TokenLabelsObjective(RecordObjective, TokenObjective):
    """Cross-entropy of the classes of words, at their first tokens: -sum_i log softmax(logits_i)[class_i].

    A word's other tokens and the special tokens have no target (Devlin et al. 2019, arXiv 1810.04805, section 5.3).
    """

    reads: ClassVar[type[Data]] = WordLabels
    kind: Literal["token_labels"] = "token_labels"
    frame: bool = True
    """Put around texts what the tokenizer puts there, as `[CLS]` and `[SEP]`."""

    def special(self, length: int) -> Specials:
        return FRAME if self.frame else Specials()

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that does not give a number of logits of its own at every position."""
        needs_one_sequence("token_labels", architecture)
        needs_classes("token_labels", architecture)
        assert architecture.head is not None, "checked above"
        if architecture.head.pool is not None:
            raise ValueError(
                "the token_labels objective gives every word a class, and head.pool gives one output per text: leave it out"
            )

    @property
    def traits(self) -> LossTraits:
        return replace(super().traits, of_tokens=False, classes="labels")

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        return table.lengths("tokens") + around(setting.tokenizer, 1, self.frame).count

    def examples(self, batch: RecordBatch, setting: Setting) -> Examples:
        """`facts` (B, classes): the `codes_of` the classes, where these are of entities."""
        made, codes = labelled(batch, setting, self.frame), codes_of(setting.names["labels"])
        return made if codes is None else replace(made, facts=torch.tensor(codes).expand(len(made.targets), -1))

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made = super().made_up(architecture, data, shape)
        return replace(made, types=torch.zeros(shape.batch, shape.length, dtype=torch.int64))

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        return sequence_inputs(model, examples)

    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        logits = self.logits(model, examples, None, auxiliary)
        valid, classes, said_BT = examples.targets != IGNORED, logits.shape[-1], logits.argmax(-1)
        real, said = examples.targets[valid], said_BT[valid]
        sums = {
            "loss": without_penalties(self).token_loss(logits, examples),
            "right": torch.bincount(real[real == said], minlength=classes),
            "real": torch.bincount(real, minlength=classes),
            "said": torch.bincount(said, minlength=classes),
        }
        return sums if examples.facts is None else sums | entity_counts(examples.targets, said_BT, examples.facts)

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        """The share of words that are right; the mean F1 of the classes that occur; of entities the F1 of exact spans."""
        right, real, said = totals["right"], totals["real"], totals["said"]
        figures = {"accuracy": float(right.sum() / real.sum().clamp(min=1)), "macro_f1": macro_f1(right, real, said)}
        if "entities_right" in totals:
            found = totals["entities_real"] + totals["entities_said"]
            figures["entity_f1"] = float(2 * totals["entities_right"] / found.clamp(min=1))
        return figures
