"""The base of encoders of images in a text: their projected features replace the tokens that stand for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from anyformer.describe import Count, InputError, Registry, UserError
from anyformer.operations import Shape, Tally, total
from anyformer.parts.embedding.patches import Patches
from anyformer.parts.images.projector import Projector
from anyformer.parts.layers.stack import Stack
from anyformer.parts.sketch import Drawn
from anyformer.plan import Plan

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.images.encoder_module import ImageEncoderModule, Images


Price = Callable[[Stack, int, int, Shape, Plan], Tally]
"""`Stack.cost`, or `Stack.folded_cost`."""


class ImageEncoder(Drawn):
    """y = projector(stack(patches(image))): the embedding of the k-th `token` in the rows of a batch is the k-th row of y.

    Images come in the order in which their tokens stand in the rows, one row after the other. An image of S positions takes as
    many tokens as the projector makes of them. A call without images is that of the text model alone.
    """

    kinds: ClassVar[Registry] = Registry()
    kind: str
    token: Annotated[int, Field(ge=0)]
    """The token whose embedding is replaced; the table need not have a row for it."""
    image: Count
    """Pixels of an image's side; of images of any size, of those that costs and examples are given for."""
    width: Count
    """Features of the tower's residual stream."""
    patches: Patches
    stack: Stack
    projector: Projector

    @property
    def positions(self) -> int:
        """S, the positions in the tower of an image of `image` pixels a side."""
        return self.patches.class_tokens + (self.image // self.patches.size) ** 2

    @property
    def unread(self) -> int:
        """First positions of an image that the projector does not read."""
        return 0

    @property
    def tokens(self) -> int:
        """The tokens of the text that an image of `image` pixels a side takes."""
        return self.projector.tokens(self.positions - self.unread)

    @property
    def facts(self) -> str:
        """The images that it reads, and what a token of one sees, in words."""
        raise NotImplementedError

    def sizes(self, images: Images) -> list[int]:
        """The tokens that each of some images takes."""
        raise NotImplementedError

    def check_images(self, images: Images) -> None:
        """Refuse what are no images that it reads, with an `InputError`."""
        raise NotImplementedError

    def build(self, width: int, plan: Plan, name: str) -> ImageEncoderModule:
        raise NotImplementedError

    def check_fields(self) -> None:
        """Refuse a stack that cannot read the positions of images."""
        if self.stack.reads_tokens:
            raise ValueError("stack: a layer looks at the tokens themselves, and the positions of an image are none")
        self.stack.check(self.width, self.width, "images.stack")
        self.projector.tokens(self.positions - self.unread)

    def check(self, images: Images, tokens_BT: Tensor) -> None:
        """Refuse images that it does not read, or another number of them than the tokens ask for, with an `InputError`."""
        import torch

        self.check_images(images)
        if type(tokens_BT) is not torch.Tensor or tokens_BT.is_meta or torch.compiler.is_compiling():
            return  # their numbers are not there
        sizes = self.sizes(images)
        found, needed = int((tokens_BT == self.token).sum()), sum(sizes)
        if found != needed:
            raise InputError(
                f"{len(sizes)} images take {needed} tokens {self.token}, {each(sizes)}, and the text has {found}: write as "
                f"many of them for every image"
            )

    def example(self, tokens_BT: Tensor, seed: int = 0) -> tuple[Tensor, Tensor]:
        """The rows with a random image behind each first token, and the images, for measurements and trials."""
        import torch

        rows, generator = len(tokens_BT), torch.Generator().manual_seed(seed)
        shown = tokens_BT.new_full((rows, self.tokens), self.token)
        images = torch.randn(rows, self.patches.channels, self.image, self.image, generator=generator)
        return torch.cat([tokens_BT[:, :1], shown, tokens_BT[:, 1:]], 1), images

    def cost(self, width: int, images: int, plan: Plan, price: Price = Stack.cost) -> Tally:
        """Its weights, and the work of encoding `images` images for a text of D = `width`."""
        S, count = self.positions, max(images, 1)
        parts = {
            "patches": self.patches.cost(self.width, count, S),
            "stack": price(self.stack, self.width, self.width, Shape(batch=count, length=S), plan),
            "projector": self.projector.cost(self.width, width, count, S - self.unread),
        }
        tally = total(parts).without("state", "limits").as_parts()
        return tally if images else tally.without("work")

    def ahead(self, shape: Shape) -> int:
        """Pairs of a query and a later key that the images of one row allow; `UserError` if they are longer than the text."""
        if shape.images * self.tokens > shape.length:
            raise UserError(
                f"{shape.images} images take {shape.images * self.tokens} tokens of a text, which has {shape.length}"
            )
        return 0


def each(sizes: Sequence[int]) -> str:
    """The tokens of each image in words: `4 each`, or `4, 12`."""
    return f"{sizes[0]} each" if len(set(sizes)) == 1 else ", ".join(map(str, sizes))
