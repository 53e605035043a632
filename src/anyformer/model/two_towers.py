"""TwoTowers: a text and an image become one vector each, and a pair is as similar as the angle between them says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, model_validator

from anyformer.describe import Value
from anyformer.model.architecture import Architecture
from anyformer.operations import Product, Shape, Tally, Weight, total
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.model.two_towers_module import TwoTowersModule


class TwoTowers(Value):
    """Similarities of texts and images: s_ij = exp(a) cos(t_i, v_j) + b, of the vectors t_i of a text and v_j of an image.

    With b absent training is a choice of the own image of every text in the batch, and of the own text of every image: CLIP
    (Radford et al. 2021, arXiv 2103.00020, figure 3). With b every pair is a yes or no of its own: SigLIP (Zhai et al. 2023,
    arXiv 2303.15343, algorithm 1). The papers' t' is a here.

        towers = TwoTowers(
            text=af.architecture("clip-text-base-32").but(head=Head(outputs=512, pool="last")),
            image=af.architecture("clip-vision-base-32"),
            end=49407,
        )
        model = towers.build()
        similar = model(tokens, images)    # (texts, images)
        loss = model.loss(similar)
    """

    text: Architecture
    """The tower that reads tokens; its head pools."""
    image: Architecture
    """The tower that reads images; its head pools, to as many features."""
    log_scale: float = 2.6592
    """a at first, log(1 / temperature): CLIP log(1 / 0.07), SigLIP log(10)."""
    bias: float | None = None
    """b at first, SigLIP -10; absent, there is none."""
    end: Annotated[int, Field(ge=0)] | None = None
    """A token behind whose first place a text is over: CLIP's end of text. A row without it is read whole."""

    @model_validator(mode="after")
    def _fits_together(self) -> TwoTowers:
        for name, tower in (("text", self.text), ("image", self.image)):
            if tower.two_inputs or tower.head is None or tower.head.pool is None:
                raise ValueError(
                    f"{name}: should give one vector of one input: set {name}.head = {{outputs = ..., pool = ...}}"
                )
        if self.text.embedding.symbols is None:
            raise ValueError(f"text: reads {self.text.embedding.kind}, not tokens")
        if self.image.embedding.rank != 4:
            raise ValueError(f"image: reads {self.image.embedding.kind}, not images")
        if self.text.outputs != self.image.outputs:
            raise ValueError(
                f"text gives {self.text.outputs} features and image {self.image.outputs}: set the outputs of both heads alike"
            )
        if self.end is not None and self.end >= self.text.embedding.symbols:
            raise ValueError(f"end = {self.end} is no token of text, which has {self.text.embedding.symbols}")
        return self

    @property
    def features(self) -> int:
        """The number of features in which both are compared."""
        return self.text.outputs

    def own_weights(self) -> dict[str, Weight]:
        """Those beside the towers: a, and b where there is one."""
        numbers = {"log_scale": self.log_scale} | ({} if self.bias is None else {"bias": self.bias})
        return {name: Weight((1,), "replicate", float(number)) for name, number in numbers.items()}

    def cost(self, text: Shape, image: Shape, plan: Plan | None = None) -> Tally:
        """The declarations of both towers and of their comparison, for one call of so many texts and images.

        image: its length is the positions of an image, patches and class tokens.
        """
        towers = {"text": self.text.cost(text, plan), "image": self.image.cost(image, plan)}
        # Every text is multiplied with every image, whose vectors take a gradient as a weight does.
        compared = Product(text.batch, self.features, image.batch, "replicate")
        parts = {name: tally.as_parts().without("state", "limits") for name, tally in towers.items()}
        return total(parts) + Tally(self.own_weights(), {"similarities": compared})

    def build(
        self,
        plan: Plan | None = None,
        device: torch.device | str = "cpu",
        dtype: torch.dtype | None = None,
        seed: int = 0,
    ) -> TwoTowersModule:
        """The module, both towers initialised by their own rules from `seed`, in fp32 by default; on `device="meta"` without
        values."""
        import torch

        from anyformer.model.initialise import assemble
        from anyformer.model.two_towers_module import TwoTowersModule

        return assemble(lambda: TwoTowersModule(self, plan or Plan()), device, dtype or torch.float32, seed)
