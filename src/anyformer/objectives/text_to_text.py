"""The base of objectives whose source is a text made worse, and whose target is what it lacks, or the text."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from anyformer.data import IGNORED, Data
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits, nothing
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Inputs
from anyformer.objectives.source_target import pair_inputs
from anyformer.objectives.text import TextObjective
from anyformer.objectives.token_loss import TokenObjective
from anyformer.objectives.whole_rows import needs_whole_rows
from anyformer.requirements.needs import needs_hidden_targets, needs_source, needs_token_logits
from anyformer.text import Tokenizer
from anyformer.text.sides import Sides


class TextToText(TextObjective, TokenObjective):
    """Source and target are made of one text, each framed as the tokenizer does it."""

    @property
    def traits(self) -> LossTraits:
        # No prompt: a whole text is its own answer, or has no gap to answer to.
        return replace(super().traits, two_inputs=True, prompt=nothing)

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without a source of text."""
        needs_source(self.kind, architecture)
        needs_token_logits(self.kind, architecture)
        needs_hidden_targets(self.kind, architecture)

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        super().check_data(data, architecture, length)
        needs_whole_rows(self.kind, data)

    def beyond(self, tokenizer: Tokenizer) -> int:
        return Sides.of_running_text(tokenizer).beyond

    def counted(self, examples: Examples) -> Tensor | None:
        return examples.targets != IGNORED

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        return pair_inputs(examples)
