"""Waves as an input: encoded by a stack of a width of its own, which may not be that of the text that reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import model_validator

from anyformer.describe import Count
from anyformer.operations import Shape, Tally
from anyformer.parts.embedding.embedding import Input
from anyformer.parts.embedding.waves import Waves
from anyformer.parts.images.encoded import encoder_work
from anyformer.parts.layers.stack import Stack
from anyformer.parts.sketch import Sketch, number
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from anyformer.parts.images.encoded_waves_module import EncodedWavesModule


class EncodedWaves(Input):
    """y = stack(waves(samples)), (B, T, I), or with `projected` y W^T + b, W (D, I): (B, T, D).

    Convolutions over samples give features that a stack of I encodes, before a decoder of D: speech translation from
    wav2vec 2.0 (Wang et al. 2021, arXiv 2104.06678, section 3.1). Without a projection only cross-attention with `source_width`
    = I can read it, unless I = D. Checkpointing keeps what its layers save.
    """

    kind: Literal["encoded_waves"] = "encoded_waves"
    rank: ClassVar[int] = 2
    sound: ClassVar[Literal["frames", "samples"] | None] = "samples"
    width: Count
    """Features of the residual stream of its stack (I)."""
    narrow: Count | None = None
    """Features that the convolutions give, where they are not I: the stack then has an input projection."""
    waves: Waves
    stack: Stack
    projected: bool = False
    """Whether a linear map with a bias gives D features."""

    @model_validator(mode="after")
    def _fits_together(self) -> EncodedWaves:
        if self.stack.reads_tokens:
            raise ValueError("stack: a layer looks at the tokens themselves, and the positions of a sound are none")
        if self.features != self.width and self.stack.input_projection is None:
            raise ValueError(
                f"narrow: the convolutions give {self.features} features and the stack has {self.width}: set "
                f"stack.input_projection, or leave narrow out"
            )
        self.stack.check(self.width, self.features, "embedding.stack")
        return self

    @property
    def features(self) -> int:
        """What the convolutions give."""
        return self.width if self.narrow is None else self.narrow

    def sketch(self, width: int) -> Sketch:
        facts = [f"a position every {self.waves.samples_per_position:,} samples"]
        facts += [f"{self.stack.depth} layers of {number(self.width)}"]
        return Sketch("Encoder of waves", (*facts, *([f"→ {number(width)}"] if self.projected else [])))

    def fitting(self, width: int) -> str:
        return "project them (embedding.projected), or give the decoder cross-attention that reads them and no encoder"

    def given(self, width: int) -> int:
        return width if self.projected else self.width

    def check(self, name: str, given: Tensor, padding: Tensor | None) -> int:
        return self.waves.check(name, given, padding)

    def padding(self, padding: Tensor | None) -> Tensor | None:
        return self.waves.padding(padding)

    def built(self, width: int, plan: Plan, name: str) -> EncodedWavesModule:
        from anyformer.parts.images.encoded_waves_module import EncodedWavesModule

        return EncodedWavesModule(self, width, plan, name)

    def build(self, width: int) -> EncodedWavesModule:
        return self.built(width, Plan(), "embedding")

    def cost(self, width: int, batch: int, length: int) -> Tally:
        return self.priced(width, batch, length, Plan(), Stack.cost)

    def priced(self, width: int, batch: int, length: int, plan: Plan, price: Any) -> Tally:
        rows = Shape(batch=batch, length=max(length, 1))
        parts = {
            "waves": self.waves.cost(self.features, batch, length),
            "stack": price(self.stack, self.width, self.features, rows, plan),
        }
        return encoder_work(parts, batch * length, self.width, width if self.projected else None)

    @property
    def longest(self) -> int | None:
        return self.stack.max_length

    def example(self, batch: int, length: int, device: torch.device | str = "cpu", seed: int = 0) -> Tensor:
        return self.waves.example(batch, length, device, seed)
