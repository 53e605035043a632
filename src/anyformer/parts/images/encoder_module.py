"""The base module of encoders of images."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.call.stack_state import StackState
from anyformer.parts.embedding.embedding_module import InputModule
from anyformer.parts.images.encoder import ImageEncoder
from anyformer.plan import Plan

Images = Tensor | tuple[Tensor, ...]
"""Images of one size, (n, I, height, width), or each with its own, (I, height, width)."""


class ImageEncoderModule(nn.Module):
    """Images -> the embeddings of their tokens, one image after the other: (n, T, D), or (tokens of all, D)."""

    def __init__(self, encoder: ImageEncoder, width: int, plan: Plan, name: str) -> None:
        super().__init__()
        self.token, self.plan = encoder.token, plan
        self.patches = encoder.patches.build(encoder.width)
        self.stack = encoder.stack.build(encoder.width, encoder.width, plan, f"{name}.stack")
        self.projector = encoder.projector.build(encoder.width, width)

    def forward(self, images: Images) -> Tensor:
        raise NotImplementedError

    def among(
        self, text: InputModule, tokens_BT: Tensor, images: Images, padding: Tensor | None, types: Tensor | None
    ) -> Tensor:
        """The embeddings (B, T, D) that `text` gives of the tokens, with those of the images at theirs."""
        inside = tokens_BT == self.token
        x_BTD: Tensor = text(tokens_BT.masked_fill(inside, 0), padding, types)
        return x_BTD.masked_scatter(inside[:, :, None], self(images).to(x_BTD.dtype))

    def placed(
        self,
        tokens_BT: Tensor,
        positions: Tensor,
        images: Images | None,
        documents: Tensor | None = None,
        state: StackState | None = None,
    ) -> tuple[Tensor | None, Tensor | None]:
        """`Context.until` and `Context.axes` of a text with these images, at positions counted one by one (B or 1, T).

        None where masks decide, and where a token of an image has one position, as those of text. `state`: of the text before,
        whose `offset` moves on.
        """
        raise NotImplementedError
