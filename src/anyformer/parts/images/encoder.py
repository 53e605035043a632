"""The base of encoders of images in a text: their projected features replace the tokens that stand for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from anyformer.describe import Count, Registry
from anyformer.operations import Shape, Tally, total
from anyformer.parts.embedding.embedding import has_numbers
from anyformer.parts.embedding.patches import Patches
from anyformer.parts.images.deep_stack import DeepStack
from anyformer.parts.images.placeholder import PlaceholderEncoder, Price
from anyformer.parts.images.projector import Projector
from anyformer.parts.layers.stack import Stack
from anyformer.parts.sketch import Sketch
from anyformer.plan import Plan

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.images.encoder_module import ImageEncoderModule, Images


class ImageEncoder(PlaceholderEncoder):
    """y = projector(stack(patches(image))): the embedding of the k-th `token` in the rows of a batch is the k-th row of y.

    Images come in the order in which their tokens stand in the rows, one row after the other. An image of S positions takes as
    many tokens as the projector makes of them. A call without images is that of the text model alone.
    """

    kinds: ClassVar[Registry] = Registry()
    noun: ClassVar[str] = "images"
    kind: str
    image: Count
    """Pixels of an image's side; of images of any size, of those that costs and examples are given for."""
    width: Count
    """Features of the tower's residual stream."""
    patches: Patches
    stack: Stack
    projector: Projector
    joined: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Numbers of layers, from 0, behind which the projector reads, their features side by side; by default behind the last
    alone, with the norm there (ViP-LLaVA: Cai et al. 2024, arXiv 2312.00784, section 3.1)."""
    deep: DeepStack | None = None
    """Features of inner layers of the tower, for the first layers of the text."""

    @property
    def positions(self) -> int:
        """S, the positions in the tower of an image of `image` pixels a side."""
        return self.patches.class_tokens + (self.image // self.patches.size) ** 2

    @property
    def features(self) -> int:
        """I, the features of a position that the projector reads."""
        return self.width * max(len(self.joined), 1)

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

    @property
    def deep_facts(self) -> str:
        """What its deep-stack adds, in words; empty without one."""
        if self.deep is None:
            return ""
        return f"; features behind layers {', '.join(map(str, self.deep.layers))} are added behind the first layers of the text"

    def sizes(self, images: Images) -> list[int]:
        """The tokens that each of some images takes."""
        raise NotImplementedError

    def written(self, images: Images) -> list[list[int]]:
        """The tokens that stand for each of some images in a text, of which those of the image itself are `token`."""
        return [[self.token] * size for size in self.sizes(images)]

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
        tokens = self.projector.tokens(self.positions - self.unread)
        if self.joined and max(self.joined) != self.stack.depth - 1:
            raise ValueError(
                f"joined: names layer {max(self.joined)} as the last that is read, and the stack has {self.stack.depth} from "
                f"0: leave out the layers behind it"
            )
        if self.joined and (self.stack.final_norm is not None or self.stack.streams is not None):
            raise ValueError("joined: reads the one stream behind layers, before any norm: leave final_norm and streams out")
        if self.deep is None:
            return
        if max(self.deep.layers) >= self.stack.depth:
            raise ValueError(
                f"deep.layers names layer {max(self.deep.layers)}, and the stack has {self.stack.depth}: count from 0"
            )
        if self.stack.streams is not None:
            raise ValueError("deep: reads the one stream behind a layer, and the stack has several: leave streams out")
        same = self.deep.projector.square == self.projector.square
        if not same or self.deep.projector.tokens(self.positions - self.unread) != tokens:
            raise ValueError("deep.projector: should make as many tokens of an image as projector, of the same squares")

    def check_text(self, text: Stack) -> None:
        """Refuse a text model that cannot take its features, with a `ValueError`."""
        if self.deep is None:
            return
        if text.depth < len(self.deep.layers):
            raise ValueError(f"images.deep: has features for {len(self.deep.layers)} layers, and the text has {text.depth}")
        if text.streams is not None:
            raise ValueError("images.deep: adds to one stream, and the text has several: leave streams or deep out")

    def check(self, images: Images, tokens_BT: Tensor) -> None:
        """Refuse images that it does not read, or another number of them than the tokens ask for, with an `InputError`."""
        self.check_images(images)
        if has_numbers(tokens_BT):
            self.check_tokens(self.sizes(images), tokens_BT)

    def example(self, tokens_BT: Tensor, seed: int = 0) -> tuple[Tensor, Images]:
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
            "projector": self.projector.cost(self.features, width, count, S - self.unread),
            **self.beside_cost(count),
        }
        if self.deep is not None:
            of_one = self.deep.projector.cost(self.width, width, count, S - self.unread)
            parts |= {f"deep.{k}": of_one for k in range(len(self.deep.layers))}
        tally = total(parts).without("state", "limits").as_parts()
        return tally if images else tally.without("work")

    def beside_cost(self, images: int) -> dict[str, Tally]:
        """The weights of parts that a kind of tower has beside these, and their work on `images` images, by name."""
        return {}

    def beside_sketches(self) -> tuple[Sketch, ...]:
        """The sketches of what a kind of tower adds to its patches."""
        return ()

    def ahead(self, shape: Shape) -> int:
        """Pairs of a query and a later key that the images of one row allow; `UserError` if they are longer than the text."""
        self.check_length(shape.images, shape.length)
        return 0
