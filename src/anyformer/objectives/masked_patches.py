"""Masked autoencoding of images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from anyformer.data import IGNORED, Data, RecordBatch
from anyformer.describe import Count
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import Partner, SampleSizes
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.objective import Partners, Setting, Totals
from anyformer.objectives.on_images import VariedImageObjective, image_positions, stacked
from anyformer.objectives.selection import exactly
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise, uniform
from anyformer.parts.call.reports import Auxiliary
from anyformer.parts.embedding.embedding import ImageCells
from anyformer.parts.embedding.patches_module import cut
from anyformer.requirements.pixel_decoder import check_pixel_decoder, pixel_decoder
from anyformer.requirements.usual import BY_KIND

FLAT = 1e-6
"""Added to the variance of a patch before its root divides the pixels (MAE's released code)."""


class MaskedPatchesObjective(VariedImageObjective):
    """Squared error of the pixels of patches that are hidden from the encoder: sum_{n in M} mean((y'_n - y_n)^2).

    The encoder, the run's architecture, reads the patches outside M alone, in their places. A small decoder, which is learnt
    beside it and kept with the run alone, reads their features and one learned vector in the place of every hidden patch (MAE,
    He et al. 2022, arXiv 2111.06377). y_n are the pixels of patch n less their mean, divided by their deviation. M holds the
    same share of every image, drawn anew per row.
    """

    kind: Literal["masked_patches"] = "masked_patches"
    rate: Annotated[float, Field(gt=0, lt=1)] = 0.75
    """Share of the patches that are hidden."""
    normalise: bool = True
    """Divide the pixels of each patch by their deviation, less their mean; false: predict them as they enter the encoder."""
    decoder: Architecture | None = None
    """The decoder; None: a pre-norm transformer that follows from the encoder by `narrower` and `depth`."""
    narrower: Count = 2
    """How many times narrower than the encoder such a decoder is."""
    depth: Count = 2
    """Layers of such a decoder; the paper's 8 help where the encoder stays as it is in what follows, not where it goes on
    learning (table 1a)."""
    of_decoder: ClassVar[str] = "decoder"

    @property
    def partners(self) -> Mapping[str, Partner]:
        return {
            self.of_decoder: Partner(
                self.decoder, derived=self.decoder_of, learns=True, check=check_pixel_decoder, length=image_positions
            )
        }

    def decoder_of(self, encoder: Architecture) -> Architecture:
        """The decoder that follows from the encoder."""
        return pixel_decoder(encoder, self.narrower, self.depth)

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without features of every patch, and a decoder that does not suit it."""
        BY_KIND["masked_patches"].check(architecture)
        if self.decoder is not None:
            check_pixel_decoder(self.decoder, architecture)

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        super().check_data(data, architecture, length)
        if length - cells_of(architecture).front < 2:
            raise ValueError(
                f"an image of one patch leaves nothing to be seen where it is hidden: set data.height and data.width beyond "
                f"{cells_of(architecture).size}"
            )
        decoder = self.decoder or self.decoder_of(architecture)
        longest = decoder.output_stack.max_length
        if longest is not None and length > longest:
            raise ValueError(f"length {length} is longer than the position table of objective.decoder ({longest})")

    @property
    def sizes(self) -> SampleSizes:
        return replace(super().sizes, read=self.read)

    def read(self, architecture: Architecture, data: Data) -> int:
        """The positions of an image that the encoder reads."""
        positions = image_positions(architecture, data)
        return positions - self.hidden(positions - cells_of(architecture).front)

    def hidden(self, patches: int) -> int:
        """How many of an image's patches are hidden: at least one is, and one is not."""
        return min(max(patches - int(patches * (1 - self.rate)), 1), patches - 1)

    def examples(self, batch: RecordBatch, setting: Setting, training: bool = False) -> Examples:
        """`targets` (B, N): 0 where a patch is hidden, else `IGNORED`; `facts` (B, N, P): the numbers that are predicted."""
        assert setting.architecture is not None, "patches are those of the run's architecture"
        images, rows = stacked(batch), torch.from_numpy(batch.rows)
        if training:
            images = self.varied(images, setting, rows)
        tokens = self.standardised(images)
        pixels_BNP = cut(tokens, cells_of(setting.architecture).size)
        draws_BN = uniform(Noise.at(setting.seed, 0, rows).other(0), 0, pixels_BNP.shape[:2])
        counts_B = torch.full((len(rows),), self.hidden(draws_BN.shape[1]))
        hidden_BN = exactly(torch.ones(draws_BN.shape, dtype=torch.bool), counts_B, draws_BN)
        targets_BN = torch.where(hidden_BN, 0, IGNORED)
        return Examples(tokens, targets_BN, None, rows, facts=normalised(pixels_BNP) if self.normalise else pixels_BNP)

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made, cells = super().made_up(architecture, data, shape), cells_of(architecture)
        patches = image_positions(architecture, data) - cells.front
        targets_BN = torch.full((shape.batch, patches), IGNORED)
        targets_BN[:, : self.hidden(patches)] = 0
        facts = torch.zeros(shape.batch, patches, cells.numbers)
        return replace(made, targets=targets_BN, facts=facts, counts=None)

    def signal(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> Tensor:
        said_BMP, real_BMP = self.reconstructed(model, partners[self.of_decoder], examples, noise, auxiliary)
        return (said_BMP - real_BMP).square().mean(-1).sum()

    def reconstructed(
        self, model: Transformer, decoder: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary | None
    ) -> tuple[Tensor, Tensor]:
        """The numbers of the hidden patches in their order, (B, M, P) in fp32: as they are said, and as they are."""
        assert examples.facts is not None, "made with the examples"
        front, patches = cells_of(model.architecture).front, examples.targets.shape[1]
        visible = patches - self.hidden(patches)
        order_BN = (examples.targets != IGNORED).byte().argsort(dim=1, stable=True)
        in_front = torch.arange(front, device=order_BN.device).expand(len(order_BN), -1)
        kept_BK = torch.cat([in_front, order_BN[:, :visible] + front], 1)
        features_BKD = model.features(examples.tokens, kept=kept_BK, noise=noise, auxiliary=auxiliary)
        seen_BKF = F.pad(features_BKD, (0, 1))  # not hidden
        whole_BTF = F.pad(seen_BKF.new_zeros(len(seen_BKF), front + patches, features_BKD.shape[2]), (0, 1), value=1.0)
        whole_BTF = whole_BTF.scatter(1, kept_BK[:, :, None].expand_as(seen_BKF), seen_BKF)
        said_BTP = decoder(whole_BTF, noise=None if noise is None else noise.other(0))
        hidden_BMP = order_BN[:, visible:, None].expand(-1, -1, said_BTP.shape[2])
        return said_BTP[:, front:].gather(1, hidden_BMP).float(), examples.facts.gather(1, hidden_BMP)

    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        said, real = self.reconstructed(model, partners[self.of_decoder], examples, None, auxiliary)
        real = real.double()
        return {
            "loss": (said - real).square().mean(-1).sum(),
            "patches": torch.tensor(real.shape[0] * real.shape[1]),
            "pixels": real.sum((0, 1)),
            "squares": real.square().sum((0, 1)),
        }

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        """The share of the variance of the hidden patches, about their mean patch, that is explained: 1 - loss / variance."""
        mean_P = totals["pixels"] / totals["patches"]
        variance = float((totals["squares"] / totals["patches"] - mean_P.square()).mean())
        return {"explained": 1 - float(totals["loss"] / totals["patches"]) / variance if variance > 0 else 0.0}

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        """The loss of the mean patch of the images of the first training batches."""
        seen = [
            examples.facts.mean((0, 1)) for step in range(min(steps, 50)) if (examples := training.at(step)).facts is not None
        ]
        mean_P, total, count = torch.stack(seen).mean(0), 0.0, 0.0
        for examples in held_out.once(windows):
            assert examples.facts is not None, "made with the examples"
            hidden_BN = examples.targets != IGNORED
            total += float((examples.facts[hidden_BN] - mean_P).double().square().mean(-1).sum())
            count += examples.count
        return ("the mean patch of the training images", total / count) if count else None


def normalised(pixels_BNP: Tensor) -> Tensor:
    """The numbers of every patch less their mean, divided by their deviation (of P - 1 degrees of freedom)."""
    variance = pixels_BNP.var(-1, keepdim=True, correction=min(1, pixels_BNP.shape[-1] - 1))
    return (pixels_BNP - pixels_BNP.mean(-1, keepdim=True)) / (variance + FLAT).sqrt()


def cells_of(architecture: Architecture) -> ImageCells:
    """How the architecture cuts an image."""
    cells = architecture.embedding.cells
    assert cells is not None, "refused by the check"
    return cells
