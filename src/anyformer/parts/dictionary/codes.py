"""Codes: which features of a dictionary are active at a position, and what training pays for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from anyformer.describe import Count, NotNegative, Positive, Registry, Value
from anyformer.operations import Limit, Tally, Weight
from anyformer.operations.elementwise import activated

if TYPE_CHECKING:
    from anyformer.parts.dictionary.codes_module import CodeModule


class Code(Value):
    """A map of pre-activations z (..., F) to activations f (..., F), none negative, few above 0."""

    kinds: ClassVar[Registry] = Registry()
    kind: str
    penalty: ClassVar[str | None] = None
    """What training makes small so that few features are active, in words; None where the code itself sees to it."""
    guesses: ClassVar[bool] = False
    """Whether the decoder, as it stands, is also given what gates of its own guess, to make the target of it."""
    limits: ClassVar[tuple[Limit, ...]] = ()

    @property
    def words(self) -> str:
        """For pictures."""
        raise NotImplementedError

    def most(self, features: int) -> int:
        """The most features that are active at a position."""
        return features

    def weights(self, features: int) -> dict[str, Weight]:
        """What it learns, or keeps of training."""
        return {}

    def cost(self, features: int, vectors: int) -> Tally:
        """Its weights over F features, and its work on so many vectors."""
        return Tally(self.weights(features), {"": activated(features * vectors)})

    def build(self, features: int) -> CodeModule:
        from anyformer.parts.dictionary.codes_module import CODES

        return CODES[type(self)](self, features)


class ReLUCode(Code):
    """f = max(z, 0), with the penalty sum_i f_i |d_i|, d_i the decoder's vector of feature i.

    Cunningham et al. 2023 (arXiv 2309.08600); the norms: Conerly et al. 2024, transformer-circuits.pub/2024/april-update.
    """

    kind: Literal["relu"] = "relu"
    penalty: ClassVar[str | None] = "L1"

    @property
    def words(self) -> str:
        return "ReLU"


class TopKCode(Code):
    """f_i = max(z_i, 0) of the k largest z_i of a position, others 0 (Gao et al. 2024, arXiv 2406.04093, section 2.3)."""

    kind: Literal["top_k"] = "top_k"
    k: Count = 32

    @property
    def words(self) -> str:
        return f"top {self.k}"

    def most(self, features: int) -> int:
        return self.k


class BatchTopKCode(Code):
    """f_i = max(z_i, 0) of the k Z largest of all Z positions of a batch, others 0 (Bussmann et al. 2024, arXiv 2412.06410).

    In evaluation those above a threshold, so that positions do not depend on one another: the running mean of the smallest
    positive f of each batch, (1,), a parameter without a gradient.
    """

    kind: Literal["batch_top_k"] = "batch_top_k"
    k: Positive = 32.0
    """k, the mean number of active features."""
    momentum: Annotated[float, Field(gt=0, le=1)] = 0.01
    """Share of a batch's smallest in the new threshold."""
    limits: ClassVar[tuple[Limit, ...]] = Limit.each(
        "which features are active in training depends on all positions of the batch, padding included",
        "causal", "packed", "padded", "chunked", in_training=True,
    )  # fmt: skip

    @property
    def words(self) -> str:
        return f"top {self.k:g} of a batch's mean"

    def weights(self, features: int) -> dict[str, Weight]:
        return {"threshold": Weight((1,), "replicate", "zeros", learnt=False)}


class JumpReLUCode(Code):
    """f_i = z_i where z_i > theta_i, else 0, theta (F,) learnt, with the penalty sum_i H(z_i - theta_i), the number active.

    The straight-through gradients of both to theta, with K(u) = 1 for |u| < 1/2, else 0 (Rajamanoharan et al. 2024, arXiv
    2407.14435, section 3):

        df_i / dtheta_i = -theta_i / bandwidth * K((z_i - theta_i) / bandwidth)
        dH / dtheta_i = -1 / bandwidth * K((z_i - theta_i) / bandwidth)

    Unlike there theta itself is learnt and not its logarithm, which Adam hardly moves where it is small; below 0 it counts
    as 0.
    """

    kind: Literal["jump_relu"] = "jump_relu"
    penalty: ClassVar[str | None] = "L0"
    threshold: NotNegative = 0.01
    """theta at first."""
    bandwidth: Positive = 0.05
    """The width around theta within which z gives it a gradient."""

    @property
    def words(self) -> str:
        return "JumpReLU"

    def weights(self, features: int) -> dict[str, Weight]:
        return {"threshold": Weight((features,), "replicate", self.threshold)}


class GatedCode(Code):
    """f_i = max(exp(r_i) u_i + b_i, 0) where u_i + g_i > 0, else 0: a gate says which, a magnitude how much.

    u = z - g, the encoder without its bias g; r, b (F,) are learnt. The gate learns from the penalty sum_i max(z_i, 0) |d_i|
    and from what the decoder as it stands makes of max(z, 0) (Rajamanoharan et al. 2024, arXiv 2404.16014, section 3.2).
    """

    kind: Literal["gated"] = "gated"
    penalty: ClassVar[str | None] = "L1"
    guesses: ClassVar[bool] = True

    @property
    def words(self) -> str:
        return "gated ReLU"

    def weights(self, features: int) -> dict[str, Weight]:
        return {name: Weight((features,), "replicate", "zeros") for name in ("log_scale", "bias")}
