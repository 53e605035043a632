"""The base of objectives that learn sparse features of another model's activations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar, NamedTuple

import torch
from pydantic import BeforeValidator, Field, model_validator
from torch import Tensor

from anyformer.data import IGNORED, Corpus, Data, Text
from anyformer.describe import InputError, with_kind
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.activations import patched, seen, vector_at
from anyformer.objectives.aspects import LossTraits, Partner, SampleSizes
from anyformer.objectives.causal import CausalObjective
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed, remade_rows
from anyformer.objectives.objective import Objective, Partners, Penalty, Setting, Totals, prepared
from anyformer.objectives.token_loss import TokenObjective
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary, Coded
from anyformer.requirements.needs import needs_activations
from anyformer.text import Specials

SOURCE = "source"
"""The name of the model whose activations are learnt."""


class Rebuilt(NamedTuple):
    """What a model makes of activations: `said`, (B, T, O) fp32; `coded`, what its dictionary reports."""

    said: Tensor
    coded: Coded


class SparseObjective(Objective):
    """|s (y' - y)|^2 + sparsity * penalty + revival * auxiliary, a mean over positions: y' is made of few features.

    y are activations of a model that does not learn, the source, at some of its paths; it reads the examples of another
    objective, `of`. s, the penalty and the auxiliary loss are those of the architecture's dictionary. Held-out loss is the
    first term alone.
    """

    reads: ClassVar[type[Data]] = Text
    source: Annotated[str, Field(min_length=1)]
    """The model whose activations are learnt: a run, a checkpoint, or a directory of Hugging Face's layout, with the tokenizer
    of the data."""
    of: Annotated[Objective, BeforeValidator(with_kind("causal"))] = CausalObjective()
    """The objective whose examples the source reads, and whose loss tells what a reconstruction loses."""
    sparsity: Penalty = 0.0
    """Factor of the dictionary's penalty, L1 or L0; a top-k code has none."""
    rise: Annotated[int, Field(ge=0)] = 0
    """Rows (batch * steps) over which the penalty rises from 0."""
    revival: Penalty = 0.0
    """Factor of the auxiliary loss of dead features, if the dictionary counts them; Gao et al.: 1 / 32, SAELens: 1."""

    @model_validator(mode="after")
    def _reads_tokens(self) -> SparseObjective:
        if not isinstance(self.of, TokenObjective) or not self.of.teachable or self.of.partners:
            raise ValueError(f"of.kind = {self.of.kind!r} gives no logits of tokens: choose 'causal'")
        return self

    @property
    def read_at(self) -> tuple[str, ...]:
        """The paths whose values stand side by side in the input."""
        raise NotImplementedError

    @property
    def written_at(self) -> tuple[str, ...]:
        """The paths whose values stand side by side in the target."""
        return self.read_at

    @property
    def partners(self) -> Mapping[str, Partner]:
        return {SOURCE: Partner(path=self.source, predicted=_none, check=self._check_source, prepares=self._prepared)}

    @property
    def traits(self) -> LossTraits:
        return LossTraits(told=_mean_activation)

    @property
    def sizes(self) -> SampleSizes:
        return replace(self.of.sizes, loss_bytes=lambda outputs, each: 8 * outputs, work=self._work)

    def _work(self, architecture: Architecture, shape: Shape) -> int:
        """What dead features say, and what a code's gates guess, are decoded beside the reconstruction."""
        coding = needs_activations(self.kind, architecture)
        products = coding.revived * bool(self.revival) + coding.guessed * bool(self.sparsity)
        return 2 * products * shape.rows * coding.features * architecture.width

    def special(self, length: int) -> Specials:
        return self.of.special(length)

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without one sparse dictionary on activations, and factors of what it does not report."""
        coding = needs_activations(self.kind, architecture)
        if self.sparsity and coding.penalty is None:
            raise ValueError(
                f"sparsity = {self.sparsity:g} weighs a penalty, and the dictionary's code chooses few features by itself: "
                "leave sparsity out, or set its code to 'relu' or 'jump_relu'"
            )
        if self.revival and not coding.counts_dead:
            raise ValueError(
                f"revival = {self.revival:g} needs dead features to be counted: set revival = {{}} in the dictionary, or leave "
                "it out of the objective"
            )

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        self.of.check_data(data, architecture, length)

    def _check_source(self, partner: Architecture, own: Architecture) -> None:
        try:
            self.of.check(partner)
        except ValueError as error:
            raise ValueError(f"objective.source = {self.source!r} cannot read these examples: {error}") from None
        for what, paths, features in (("reads", self.read_at, own.width), ("gives", self.written_at, own.outputs)):
            try:
                there = [vector_at(partner, path) for path in paths]
            except (InputError, ValueError) as error:
                raise ValueError(f"objective.source = {self.source!r} at the path {', '.join(paths)}: {error}") from None
            if sum(there) != features:
                raise ValueError(
                    f"objective.source = {self.source!r} has vectors of {' + '.join(map(str, there))} numbers at "
                    f"{', '.join(paths)}, and the dictionary {what} {features}: set architecture.width and "
                    f"architecture.embedding.features to {sum(there)}"
                )

    def feed(self, data: Data, corpus: Corpus, setting: Setting, batch: int, *, held_out: bool = False) -> Feed:
        return remade_rows(self.of.feed(data, corpus, setting, batch, held_out=held_out), _every_position)

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        tokens = torch.zeros(shape.batch, shape.length, dtype=torch.int64)
        counts = torch.full((shape.batch,), float(shape.length), dtype=torch.float64)
        return Examples(tokens, tokens, None, torch.arange(shape.batch), counts=counts)

    def _prepared(self, source: Transformer, examples: Examples) -> Examples:
        """`tokens` (B, T, I), `targets` (B, T, O): the source's activations."""
        read, written = self._activations(examples, source)
        return Examples(read, written, None, examples.rows, padding=examples.padding, counts=examples.counts)

    def signal(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> Tensor:
        said, coded = self._rebuilt(model, examples, noise, auxiliary)
        left = scaled(examples.targets - said, coded)
        each_BT = left.square().sum(-1)
        if self.sparsity and coded.penalty is not None:
            each_BT = each_BT + self.sparsity * self._share(examples.rows)[:, None] * coded.penalty
        if self.sparsity and coded.guess is not None:
            each_BT = each_BT + (scaled(examples.targets, coded) - coded.guess().float()).square().sum(-1)
        if self.revival and coded.revived is not None:
            each_BT = each_BT + self.revival * coded.revived(left.detach().to(coded.active.dtype))
        return _counted(each_BT, examples).sum()

    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        given, source = prepared(self, examples, partners), partners[SOURCE]
        said, coded = self._rebuilt(model, given, None, auxiliary)
        left, target, valid = given.targets - said, given.targets, valid_of(given)
        of_dictionary = scaled(target, coded)
        active = torch.where(valid[..., None], coded.active, 0.0)
        return {
            "loss": _counted(scaled(left, coded).square().sum(-1), given).sum(),
            "positions": valid.sum(),
            "error": _counted(left.square().sum(-1), given).double().sum(),
            "square": _counted(target.square().sum(-1), given).double().sum(),
            "scaled_square": _counted(of_dictionary.square().sum(-1), given).double().sum(),
            "scaled_sum": torch.where(valid[..., None], of_dictionary, 0.0).flatten(0, 1).double().sum(0),
            "sum": torch.where(valid[..., None], target, 0.0).flatten(0, 1).double().sum(0),
            "active": (active > 0).sum(),
            "magnitude": active.double().sum(),
            "fired": (active > 0).flatten(0, 1).sum(0).double(),
            **self._losses(source, examples, said),
        }

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        """As SAELens names them; `dead`: the share of features that no position of the evaluation made active.

        explained_variance = 1 - sum |y - y'|^2 / sum |y - mean(y)|^2; loss_recovered = (zeros - rebuilt) / (zeros - loss)
        of the source's loss as it is, with y' in the place of y, and with zeros there. `mean_activation`: the loss of the mean
        of y at every position.
        """
        count, targets = totals["positions"].clamp(min=1), totals["targets"].clamp(min=1)
        variance, of_dictionary = (
            totals[f"{units}square"] - totals[f"{units}sum"].square().sum() / count for units in ("", "scaled_")
        )
        clean, rebuilt, zeros = (float(totals[name] / targets) for name in ("clean", "rebuilt", "zeros"))
        return {
            "explained_variance": float(1 - totals["error"] / variance.clamp(min=1e-30)),
            "mse": float(totals["error"] / count),
            "l0": float(totals["active"] / count),
            "l1": float(totals["magnitude"] / count),
            "dead": float((totals["fired"] == 0).double().mean()),
            "loss_recovered": (zeros - rebuilt) / (zeros - clean) if zeros != clean else 0.0,
            "mean_activation": float(of_dictionary / count),
            "source_loss": clean, "rebuilt_loss": rebuilt, "zeros_loss": zeros,
        }  # fmt: skip

    @property
    def _tokens(self) -> TokenObjective:
        assert isinstance(self.of, TokenObjective), "checked when it was described"
        return self.of

    def _activations(self, examples: Examples, source: Transformer) -> tuple[Tensor, Tensor]:
        paths = tuple(dict.fromkeys((*self.read_at, *self.written_at)))
        with torch.no_grad():
            found = dict(zip(paths, seen(source, paths, partial(self._logits, source, examples)), strict=True))
        read, written = ([found[path] for path in at] for at in (self.read_at, self.written_at))
        return torch.cat(read, -1), torch.cat(written, -1)

    def _logits(self, source: Transformer, examples: Examples) -> Tensor:
        return self._tokens.logits(source, examples, None, Auxiliary(self.of.counted(examples)))

    def _losses(self, source: Transformer, examples: Examples, said: Tensor) -> dict[str, Tensor]:
        """The source's summed loss as it is, with a reconstruction in the place of its activations, and with zeros there."""

        def loss() -> Tensor:
            return self._tokens.token_loss(self._logits(source, examples), examples)

        parts = torch.split(said, [vector_at(source.architecture, path) for path in self.written_at], -1)
        rebuilt = {path: partial(_in_place, part) for path, part in zip(self.written_at, parts, strict=True)}
        with torch.no_grad():
            return {
                "clean": loss(),
                "rebuilt": patched(source, rebuilt, loss),
                "zeros": patched(source, dict.fromkeys(self.written_at, torch.zeros_like), loss),
                "targets": (examples.targets != IGNORED).sum(),
            }

    def _rebuilt(self, model: Transformer, given: Examples, noise: Noise | None, auxiliary: Auxiliary) -> Rebuilt:
        said = model(given.tokens, padding=given.padding, noise=noise, auxiliary=auxiliary)
        (coded,) = auxiliary.coded
        return Rebuilt(said.float(), coded)

    def _share(self, rows_B: Tensor) -> Tensor:
        """(B,): the share of the penalty that counts at these rows."""
        if not self.rise:
            return torch.ones_like(rows_B, dtype=torch.float32)
        return ((rows_B + 1) / self.rise).clamp(max=1.0).float()


def _none(length: int) -> int:
    """The positions that the source's head reads while activations are learnt."""
    return 0


def _mean_activation(metrics: Mapping[str, float]) -> tuple[str, float]:
    return "the mean activation at every position", metrics["mean_activation"]


def _every_position(examples: Examples) -> Examples:
    """The same examples, whose loss is a mean over all positions but padding."""
    return replace(examples, counts=valid_of(examples).sum(1).double())


def valid_of(examples: Examples) -> Tensor:
    """(B, T) bool: false on padding."""
    shape = examples.tokens.shape[:2]
    if examples.padding is None:
        return torch.ones(shape, dtype=torch.bool, device=examples.tokens.device)
    return ~examples.padding


def _counted(each_BT: Tensor, examples: Examples) -> Tensor:
    return torch.where(valid_of(examples), each_BT, 0.0)


def scaled(x_BTD: Tensor, coded: Coded) -> Tensor:
    """x in the units in which the dictionary computes."""
    return x_BTD if coded.scale is None else x_BTD * coded.scale.float()


def _in_place(said_BTI: Tensor, value: Tensor) -> Tensor:
    return said_BTI.reshape(value.shape).to(value.dtype)
