"""Replaced-token detection: which tokens of a text were put in by a generator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from anyformer.data import IGNORED, Batch, Data
from anyformer.describe import Count, Positive
from anyformer.model import Architecture
from anyformer.model.loss import token_losses
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import Partner, SampleSizes
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.framing import MASKED, USUAL, beyond_usual, framed
from anyformer.objectives.frequencies import chance, target_counts
from anyformer.objectives.objective import Partners, Setting, Totals
from anyformer.objectives.selection import exactly, ordinary_tokens
from anyformer.objectives.text import TextObjective, WindowBatch
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise, uniform
from anyformer.parts.call.reports import Auxiliary
from anyformer.requirements.generator import NARROWER, check_generator, generator_of
from anyformer.requirements.needs import needs_both_sides, needs_one_logit_each, needs_one_sequence
from anyformer.text import Specials, Tokenizer
from anyformer.text.row_frame import row_frame


class ReplacedTokens(NamedTuple):
    """What both models say of a batch: B rows, T positions, P of them predicted by the generator.

    `generator_loss` (B, P): weighted, 0 where there is no target; `right` (B, P): whether its likeliest token is the true one;
    `loss`, `logits` (B, T) of the discriminator; `replaced`, `real` (B, T): whether a token is another than that of the text,
    and whether it counts.
    """

    generator_loss: Tensor
    right: Tensor
    loss: Tensor
    logits: Tensor
    replaced: Tensor
    real: Tensor


class ReplacedTokensObjective(TextObjective):
    """A generator's masked prediction and a discriminator's detection of what it put in, learnt together.

    loss = mean_{i in M} -log p_G(x_i | x with M hidden) + w * mean_i BCE(D(y)_i, y_i != x_i), where y is x with tokens drawn
    from p_G at M; no gradient passes through the draw (Clark et al. 2020, arXiv 2003.10555, section 2). M holds the same share
    of each row. The run's architecture is D, with one logit per position. Unlike in the paper, each of the two has token
    embeddings of its own.
    """

    kind: Literal["replaced_tokens"] = "replaced_tokens"
    rate: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of the tokens that the generator predicts; ELECTRA-large 0.25."""
    masked: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of these that become the mask token, the others stay; ELECTRA's released code: 0.85."""
    weight: Positive = 50.0
    """w, the factor of the discriminator's loss."""
    generator: Architecture | None = None
    """The generator, a masked language model; None: the run's architecture, `narrower` times narrower, that predicts tokens."""
    narrower: Count = NARROWER
    """How many times narrower a generator is that follows from the run's architecture; ELECTRA-base 3, small and large 4."""
    frame: bool = True
    """Put around each row what the tokenizer puts around a text, as `[CLS]` and `[SEP]`; false: around each document."""
    of_generator: ClassVar[str] = "generator"

    @property
    def partners(self) -> Mapping[str, Partner]:
        return {
            self.of_generator: Partner(
                self.generator, derived=self.generator_of, learns=True, predicted=self.places, check=check_generator
            )
        }

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without one logit per position, or to which no generator can be made."""
        needs_one_sequence("replaced_tokens", architecture)
        needs_both_sides("replaced_tokens", architecture)
        needs_one_logit_each("replaced_tokens", architecture)
        check_generator(self.generator or self.generator_of(architecture), architecture)

    def generator_of(self, discriminator: Architecture) -> Architecture:
        """The generator that follows from the run's architecture."""
        return generator_of(discriminator, self.narrower)

    @property
    def sizes(self) -> SampleSizes:
        return replace(super().sizes, check=self._check_sizes)

    def _check_sizes(self, length: int, batch: int, accumulation: int) -> None:
        if self.window(length) < 1:
            raise ValueError(f"length = {length} leaves no token between [CLS] and [SEP]: at least 3 are needed")
        for name, stack in self.generator.stacks.items() if self.generator else ():
            if stack.max_length is not None and length > stack.max_length:
                raise ValueError(
                    f"length {length} is longer than the position table of objective.generator's {name} ({stack.max_length})"
                )

    def special(self, length: int) -> Specials:
        return MASKED if self.frame else Specials(roles=("mask",))

    def window(self, length: int) -> int:
        return length - USUAL if self.frame else length

    def beyond(self, tokenizer: Tokenizer) -> int:
        return beyond_usual(tokenizer) if self.frame else 0

    def places(self, length: int) -> int:
        """The tokens that the generator predicts of a row of `length` positions."""
        return self.predicted(self.window(length))

    def predicted(self, length: int) -> int:
        """The tokens that the generator predicts of a row with `length` free ones."""
        return min(max(round(self.rate * length), 1), length)

    def examples(self, batch: Batch, setting: Setting) -> Examples:
        window, tokenizer = WindowBatch.of(batch), setting.tokenizer
        given = framed(window, row_frame(tokenizer).single) if self.frame else window
        noise, shape = Noise.at(setting.seed, 0, given.rows), given.tokens.shape
        inside_BT = torch.ones(shape, dtype=torch.bool) if given.padding is None else ~given.padding
        free_BT = inside_BT & ordinary_tokens(tokenizer)[given.tokens]
        most = self.places(shape[1])
        counts_B = torch.tensor([min(self.predicted(free), most) for free in free_BT.sum(1).tolist()])
        chosen_BT = exactly(free_BT, counts_B, uniform(noise, 0, shape))
        hidden_BT = chosen_BT & (uniform(noise, 1, shape) < self.masked)
        # A row of the evaluation that lies beyond the end of the split counts for nothing.
        each_B = torch.where(counts_B > 0, inside_BT.sum(1), 0)
        return Examples(
            torch.where(hidden_BT, tokenizer.special("mask"), given.tokens), torch.where(chosen_BT, given.tokens, IGNORED),
            given.documents, given.rows, padding=given.padding,
            weights=chosen_BT * (each_B / counts_B.clamp(min=1))[:, None], counts=each_B.double(),
        )  # fmt: skip

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made = super().made_up(architecture, data, shape)
        return replace(made, weights=torch.ones(made.targets.shape), counts=torch.ones(shape.batch, dtype=torch.float64))

    def signal(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> Tensor:
        guess = self.guess(model, partners[self.of_generator], examples, noise, auxiliary)
        return guess.generator_loss.sum() + self.weight * guess.loss.sum()

    def guess(
        self, model: Transformer, generator: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary | None
    ) -> ReplacedTokens:
        """The generator's predictions, tokens drawn from them, and what the discriminator says of the text with these."""
        tokens_BT, padding_BT, documents_BT = examples.tokens, examples.padding, examples.documents
        assert examples.weights is not None
        assert examples.counts is not None
        hidden_BT = examples.targets != IGNORED
        # As many places in each row, so that shapes do not depend on the draw; a shorter row has places without a target.
        most = self.places(tokens_BT.shape[1])
        places_BP = hidden_BT.byte().argsort(dim=1, descending=True, stable=True)[:, :most]
        targets_BP = examples.targets.gather(1, places_BP)
        features_BTD = generator.features(
            tokens_BT, padding=padding_BT, documents=documents_BT, noise=None if noise is None else noise.other(0)
        )
        at_BPD = features_BTD.gather(1, places_BP[..., None].expand(-1, -1, features_BTD.shape[-1]))
        logits_BPV = generator.logits(at_BPD)
        nll_BP, _ = token_losses(logits_BPV, targets_BP)
        # An evaluation has no noise of a step: it draws the same tokens each time.
        drawn_BP = draw(logits_BPV.detach(), (noise or Noise.at(0, 0, examples.rows)).other(1))
        filled_BT = tokens_BT.scatter(1, places_BP, torch.where(targets_BP < 0, tokens_BT.gather(1, places_BP), drawn_BP))
        replaced_BT = filled_BT != torch.where(hidden_BT, examples.targets, tokens_BT)
        logits_BT = model(filled_BT, padding=padding_BT, documents=documents_BT, noise=noise, auxiliary=auxiliary)[
            ..., 0
        ].float()
        real_BT = (examples.counts > 0)[:, None].expand_as(tokens_BT)
        if padding_BT is not None:
            real_BT = real_BT & ~padding_BT
        loss_BT = F.binary_cross_entropy_with_logits(logits_BT, replaced_BT.float(), reduction="none")
        return ReplacedTokens(
            nll_BP * examples.weights.gather(1, places_BP), logits_BPV.argmax(-1) == targets_BP,
            torch.where(real_BT, loss_BT, 0.0), logits_BT, replaced_BT & real_BT, real_BT,
        )  # fmt: skip

    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        guess = self.guess(model, partners[self.of_generator], examples, None, auxiliary)
        said = (guess.logits > 0) & guess.real
        return {
            "loss": guess.generator_loss.sum() + self.weight * guess.loss.sum(),
            "generator": guess.generator_loss.sum(),
            "discriminator": guess.loss.sum(),
            "tokens": guess.real.sum(),
            "predicted": (examples.targets != IGNORED).sum(),
            "generated": guess.right.sum(),
            "right": ((said == guess.replaced) & guess.real).sum(),
            "replaced": guess.replaced.sum(),
            "said": said.sum(),
            "found": (said & guess.replaced).sum(),
        }

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        def share(part: str, whole: str) -> float:
            return float(totals[part] / totals[whole].clamp(min=1))

        return {
            "accuracy": share("right", "tokens"),
            "recall": share("found", "replaced"),
            "precision": share("found", "said"),
            "replaced": share("replaced", "tokens"),
            "generator_accuracy": share("generated", "predicted"),
            "generator_loss": share("generator", "tokens"),
            "discriminator_loss": share("discriminator", "tokens"),
        }

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        known, asked = target_counts(training, steps, held_out, windows, outputs)
        # A generator that draws tokens by their frequency, and a discriminator that knows how often that is another token.
        shares, true = (known + 1) / (known + 1).sum(), asked / asked.sum().clamp(min=1e-9)
        hidden = total = 0.0
        for examples in held_out.once(windows):
            hidden, total = hidden + int((examples.targets != IGNORED).sum()), total + examples.count
        replaced = torch.tensor(hidden / max(total, 1.0), dtype=torch.float64) * (1 - (true * shares).sum())
        known_share = F.binary_cross_entropy(replaced, replaced)
        return (
            "a generator that knows the frequencies of the tokens and a discriminator that knows how many are replaced",
            chance(known, asked) + self.weight * float(known_share),
        )


def draw(logits_BPV: Tensor, noise: Noise) -> Tensor:
    """(B, P): a token for each softmax of logits, by the largest of logits + Gumbel noise (Gumbel 1954)."""
    return (logits_BPV.float() - (-uniform(noise, 0, logits_BPV.shape).log()).log()).argmax(-1)
