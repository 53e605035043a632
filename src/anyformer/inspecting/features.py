"""Features of a sparse dictionary beside the model that it was learnt of: which are active in a text, and what they write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyformer.describe import InputError, UserError
from anyformer.inspecting.attribution import uncapped
from anyformer.inspecting.call_inputs import CallInputs, pools
from anyformer.inspecting.logit_lens import read_out
from anyformer.inspecting.places import stream_paths, writers
from anyformer.inspecting.tables import table_of
from anyformer.model.architecture import Architecture
from anyformer.model.transformer import Transformer
from anyformer.model.value_paths import named
from anyformer.objectives.activations import seen, vector_at

if TYPE_CHECKING:
    from rich.table import Table

MOST_FEATURES = 12
"""Features of a token that are shown, the strongest first."""
MOST_TOKENS = 6
"""Tokens that are shown of what a feature writes."""


@dataclass(frozen=True, eq=False)
class FeatureReading:
    """The activations of F features in a call, `active_BTF`: 0 where one is not active."""

    active_BTF: Tensor

    def strongest(self, *, row: int = 0, position: int = -1, most: int = MOST_FEATURES) -> list[tuple[int, float]]:
        """The features that are active at a position with their activations, the strongest first."""
        here_F = self.active_BTF[row, position]
        values, features = here_F.topk(min(most, int((here_F > 0).sum())))
        return list(zip(features.tolist(), values.tolist(), strict=True))

    def of(self, feature: int, *, row: int = 0) -> Tensor:
        """The activation of a feature at every position, (T,)."""
        count = self.active_BTF.shape[-1]
        if not 0 <= feature < count:
            raise InputError(f"there is no feature {feature}: the dictionary has {count:,}, numbered from 0")
        return self.active_BTF[row, :, feature]


@dataclass(frozen=True, eq=False)
class FeatureDictionary:
    """A sparse autoencoder, transcoder or crosscoder, `dictionary`, of the values of `source`.

    `read`: the paths of the source whose values stand side by side in what it reads; `written`: of those that it gives. Refused
    is a source that has no such paths, or vectors of another size there.
    """

    dictionary: Transformer
    source: Transformer
    read: tuple[str, ...]
    written: tuple[str, ...]

    def __post_init__(self) -> None:
        own = self.dictionary.architecture
        for what, paths, numbers in (("reads", self.read, own.width), ("gives", self.written, own.outputs)):
            there = _vectors(self.source.architecture, paths)
            if sum(there) != numbers:
                sizes = " + ".join(f"{each:,}" for each in there)
                raise InputError(
                    f"the dictionary {what} {numbers:,} numbers, and the model has {sizes} at {', '.join(paths)}: open it "
                    "beside the model that it was learnt of"
                )

    @property
    def active(self) -> str:
        """The path of the activations of features in the dictionary's own model."""
        stack = self.dictionary.architecture.output_stack
        (found,) = (
            f"{each.path}.active"
            for each in writers(self.dictionary)
            if stack.variants[stack.layers[each.layer]].branches[each.branch].sublayer.coding is not None
        )
        return found

    @property
    def count(self) -> int:
        """F, the number of features."""
        found: int = self.dictionary.watchable()[self.active].sizes["F"]
        return found

    def reading(self, given: Tensor | CallInputs) -> FeatureReading:
        """The features that are active in a call of the source."""
        prompt = CallInputs.of(given)
        with torch.no_grad():
            values = torch.cat(seen(self.source, self.read, lambda: prompt.logits(self.source)), -1)
            with self.dictionary.watch(self.active) as found:
                self.dictionary(values)
        return FeatureReading(found[self.active])

    def directions(self, features: Sequence[int]) -> Tensor:
        """What an activation of 1 of each feature adds to the values at `written`, (k, O), in the units of the source."""
        like = next(self.dictionary.parameters())
        alone_kTF = torch.zeros(len(features) + 1, 1, self.count, device=like.device, dtype=like.dtype)
        alone_kTF[range(len(features)), 0, list(features)] = 1
        nothing = torch.zeros(len(alone_kTF), 1, self.dictionary.architecture.width, device=like.device)
        with torch.no_grad(), self.dictionary.patch(self.active, alone_kTF):
            said_kO: Tensor = self.dictionary(nothing)[:, 0]
        return said_kO[:-1] - said_kO[-1]

    @property
    def streamed(self) -> str | None:
        """The last path of `written` at which it writes into the residual stream that the head reads; None of none."""
        if self.source.architecture.head is None or pools(self.source):
            return None
        there = stream_paths(self.source)
        return next((path for path in reversed(named(self.source.architecture, self.written)) if path in there), None)

    def tokens(self, features: Sequence[int], most: int = MOST_TOKENS) -> list[list[tuple[int, float]]]:
        """The tokens that every feature's direction makes likeliest, by the final norm and the head alone, with their logits
        less those of a stream of zeros; none where it does not write into the residual stream."""
        path = self.streamed
        if path is None or not features:
            return [[] for _ in features]
        paths = named(self.source.architecture, self.written)
        parts = torch.split(self.directions(features), _vectors(self.source.architecture, paths), -1)
        direction_kTD = parts[paths.index(path)][:, None]
        weight, softcap = next(self.source.parameters()), self.source.architecture.head.softcap  # type: ignore[union-attr]
        stream_kTD = torch.cat([direction_kTD, torch.zeros_like(direction_kTD[:1])]).to(weight)
        with torch.no_grad():
            logits_kV = uncapped(read_out(self.source, stream_kTD)[:, -1].float(), softcap)
        found = (logits_kV[:-1] - logits_kV[-1]).topk(min(most, logits_kV.shape[-1]))
        return [
            list(zip(tokens, values, strict=True))
            for tokens, values in zip(found.indices.tolist(), found.values.tolist(), strict=True)
        ]

    def table(self, reading: FeatureReading, word: Callable[[int], str] = str, *, row: int = 0, position: int = -1) -> Table:
        """The strongest features at a position, and what they write as `word` says tokens."""
        strongest = reading.strongest(row=row, position=position)
        said = self.tokens([feature for feature, _ in strongest])
        count = int((reading.active_BTF[row, position] > 0).sum())
        lines = [
            (str(feature), f"{value:.4f}", " ".join(word(token) for token, _ in tokens) or "-")
            for (feature, value), tokens in zip(strongest, said, strict=True)
        ]
        title = f"{count:,} of {self.count:,} features of {', '.join(self.read)} are active"
        return table_of(title, ("feature", "activation", "makes likelier"), lines, words=3)


def feature_table(reading: FeatureReading, feature: int, words: Sequence[str], *, row: int = 0) -> Table:
    """The tokens at which a feature is active, `words`, in the order of the text."""
    values = reading.of(feature, row=row).tolist()
    lines = [(words[at], str(at), f"{value:.4f}") for at, value in enumerate(values) if value > 0]
    title = f"feature {feature} is active at {len(lines)} of {len(values)} tokens"
    return table_of(title, ("token", "position", "activation"), lines)


def _vectors(architecture: Architecture, paths: Sequence[str]) -> list[int]:
    """The numbers of the vector at every path; refused where there is none."""
    try:
        return [vector_at(architecture, path) for path in paths]
    except UserError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from None
