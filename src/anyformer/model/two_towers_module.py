"""The module of TwoTowers."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.describe import InputError
from anyformer.model.initialise import Described
from anyformer.model.transformer import Transformer
from anyformer.model.two_towers import TwoTowers
from anyformer.operations import Weight
from anyformer.parts.call.noise import Noise
from anyformer.parts.initialisation import Initialisation
from anyformer.plan import Plan


class TwoTowersModule(Described):
    """Texts (n, T) and images (m, C, height, width) to similarities (n, m). `text` and `image` are its towers."""

    def __init__(self, description: TwoTowers, plan: Plan) -> None:
        super().__init__()
        self.description = description
        self.text, self.image = Transformer(description.text, plan), Transformer(description.image, plan)
        for name, weight in description.own_weights().items():
            self.register_parameter(name, nn.Parameter(torch.empty(weight.shape)))
        rules = self.image.initialisation
        self.own_rules = {f"image.{name}": rules for name in self.image.declared}

    @property
    def declared(self) -> Mapping[str, Weight]:
        towers = {"text": self.text, "image": self.image}
        inner = {f"{at}.{name}": weight for at, tower in towers.items() for name, weight in tower.declared.items()}
        return {**inner, **self.description.own_weights()}

    @property
    def initialisation(self) -> Initialisation:
        return self.text.initialisation

    def forward(
        self,
        tokens: Tensor,
        images: Tensor,
        *,
        padding: Tensor | None = None,
        text_noise: Noise | None = None,
        image_noise: Noise | None = None,
    ) -> Tensor:
        """Similarities (n, m) fp32 of n texts with m images. padding (n, T) bool: true on padding; noise: for dropout."""
        return self.similarities(
            self.of_texts(tokens, padding=padding, noise=text_noise), self.of_images(images, noise=image_noise)
        )

    def of_texts(self, tokens: Tensor, *, padding: Tensor | None = None, noise: Noise | None = None) -> Tensor:
        """The vectors of texts, of length 1: (n, features) fp32."""
        end = self.description.end
        if end is not None:
            ends_BT = tokens == end
            over_BT = ends_BT.cumsum(1) > ends_BT.long()  # behind the first end: the end itself is read
            padding = over_BT if padding is None else padding | over_BT
        return F.normalize(self.text(tokens, padding=padding, noise=noise).float(), dim=-1)

    def of_images(self, images: Tensor, *, noise: Noise | None = None) -> Tensor:
        """The vectors of images, of length 1: (m, features) fp32."""
        return F.normalize(self.image(images, noise=noise).float(), dim=-1)

    def similarities(self, texts: Tensor, images: Tensor) -> Tensor:
        """exp(a) cos + b of vectors of length 1: (n, features), (m, features) -> (n, m)."""
        similar = texts @ images.mT * self.get_parameter("log_scale").float().exp()
        return similar if self.description.bias is None else similar + self.get_parameter("bias").float()

    def loss(self, similar: Tensor) -> Tensor:
        """The mean loss of similarities (n, n) where text i belongs to image i: a 0-d tensor.

        Without b, of choosing: (CE of the rows + CE of the columns) / 2. With b, of every pair: the sum over a text's images of
        -log sigmoid(z_ij s_ij), z_ij = 1 if i = j, else -1.
        """
        count = len(similar)
        if similar.shape != (count, count):
            raise InputError(
                f"text i should belong to image i, as many of both: got similarities of {similar.shape[0]} texts with "
                f"{similar.shape[1]} images"
            )
        if self.description.bias is None:
            own = torch.arange(count, device=similar.device)
            return (F.cross_entropy(similar, own) + F.cross_entropy(similar.mT, own)) / 2
        signs = 2 * torch.eye(count, dtype=similar.dtype, device=similar.device) - 1
        return -F.logsigmoid(signs * similar).sum(1).mean()
