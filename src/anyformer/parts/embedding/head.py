"""Head: from the last hidden state to logits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from anyformer.describe import Choice, Count, Positive, Value
from anyformer.operations import Dimension, Operation, Product, Tally, Weight, matrix, total
from anyformer.operations.elementwise import gated
from anyformer.parts.derived import WidthFactor, of_width
from anyformer.parts.embedding.embedding import Input
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS, activation_name
from anyformer.parts.pointwise.scaled_gain import ScaledGain
from anyformer.parts.sketch import Drawn, Sketch, number

if TYPE_CHECKING:
    from anyformer.parts.embedding.head_module import HeadModule


POOLED = {
    "first": "first position",
    "mean": "mean of positions",
    "last": "last position",
    "first_and_mean": "first position beside the mean",
}
"""How one x is made of a row's, in words."""


class Transform(Value):
    """y = norm(act(W z + b)): a dense layer before the logits (BERT's masked-language-model head and its pooler).

    z is x, or with `inner` a first dense layer of it: z = act(W_inner x + b_inner).
    """

    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] | None = None
    norm: Norm | None = None
    bias: bool = True
    width: Count | None = None
    """Features of y; by default as many as the embeddings have (RemBERT: its own, ELECTRA's discriminator: D)."""
    inner: Count | None = None
    """Features of a first dense layer, with the same activation (UltraBERT)."""

    @property
    def words(self) -> str:
        """In words: `dense, GELU, LayerNorm`."""
        activation = None if self.activation is None else activation_name(self.activation, gated=False)
        first = () if self.inner is None else ("dense", activation)
        return ", ".join(filter(None, (*first, "dense", activation, None if self.norm is None else type(self.norm).__name__)))

    def cost(self, width: int, outputs: int, rows: int) -> Tally:
        parts, read = Tally(), self.inner or width
        if self.inner is not None:
            parts += matrix("inner", width, read, rows, role="replicate", bias=self.bias)
        parts += matrix("dense", read, outputs, rows, role="replicate", bias=self.bias)
        inner = {"norm": self.norm.cost(outputs, rows)} if self.norm else {}
        if self.activation is not None:
            inner["activation"] = ACTIVATIONS[self.activation].cost(outputs, rows)
            if self.inner is not None:
                inner["inner_activation"] = ACTIVATIONS[self.activation].cost(self.inner, rows)
        return parts + total(inner)


class Head(Drawn):
    """logits = cap(scale * g * (t(x) W^T + b)), W (V, D): the embedding's table if `tied`; cap(z) = c * tanh(z / c).

    c is `softcap`, t the transform, if there is one. One vector of logits per position, or with `pool` one per row.
    `outputs = "features"`: t(x) itself, without W (BERT's pooler; Sentence-BERT's mean, Reimers & Gurevych 2019, arXiv
    1908.10084).
    """

    tied: bool = False
    """Use the embedding's table; nothing is stored twice."""
    own: Count | None = None
    """Features of W beside those of a tied table narrower than what the head reads: W = [table, own] (MobileBERT)."""
    bias: bool = False
    gain: ScaledGain | None = None
    """g, a learned factor of each logit, (V,) (nGPT, arXiv 2410.01131); None: 1."""
    scale: WidthFactor = 1.0
    """Factor of the logits (T5: `inverse_sqrt_width`)."""
    softcap: Positive | None = None
    outputs: Count | Literal["features"] | None = None
    """The number of logits (classes, for instance); by default one per token of the embedding. `features`: no logits."""
    pool: Literal["first", "mean", "last", "first_and_mean"] | None = None
    """One x per row: that of the first position (ViT, BERT), the mean over all but padding, or that of the last position
    (classifiers and reward models that are decoders). `first_and_mean`: the first two side by side, 2 D features (DINOv2)."""
    front: Annotated[int, Field(ge=0)] = 0
    """First positions that a mean leaves out: class tokens and registers, before an image's patches."""
    passed_over: Annotated[int, Field(ge=0)] | None = None
    """A token that `last` passes over wherever it stands, as classes of transformers do with the one of padding; a row of
    nothing else has the x of its first position."""
    transform: Transform | None = None

    @model_validator(mode="after")
    def _one_size(self) -> Head:
        if self.tied and self.outputs is not None:
            raise ValueError("outputs: a tied head has a logit per row of the embedding's table; leave outputs out or untie it")
        if self.tied and self.transform is not None and self.transform.width is not None:
            raise ValueError("transform.width: a tied head reads the features of the embeddings; leave width out or untie it")
        if self.own is not None and not self.tied:
            raise ValueError("own: features beside those of a tied table; leave own out or set tied = true")
        if self.passed_over is not None and self.pool != "last":
            raise ValueError("passed_over: a token that pool = 'last' passes over; leave it out or set pool = 'last'")
        if self.front and self.pool not in ("mean", "first_and_mean"):
            raise ValueError("front: first positions that a mean leaves out; leave it out or set pool = 'mean'")
        if self.tied and self.transform is None and self.pool == "first_and_mean":
            raise ValueError("pool = 'first_and_mean' gives 2 D features, and a tied table has no more than D: set transform")
        of_logits = self.bias or self.gain is not None or self.scale != 1.0 or self.softcap is not None
        if self.outputs == "features" and of_logits:
            raise ValueError("outputs = 'features' gives no logits: leave bias, gain, scale and softcap out")
        if self.outputs == "features" and self.pool is None and self.transform is None:
            raise ValueError("outputs = 'features' needs a pool or a transform; features of every position need no head")
        return self

    def check(self, entrance: Input, width: int, table_width: int, *, decodes: bool) -> None:
        """Refuse a head without a number of logits, or with a table of another width than its input."""
        if self.outputs is None and entrance.symbols is None:
            raise ValueError(f"head: the input is {entrance.kind}, not tokens, so set head.outputs, the number of logits")
        if self.pool not in (None, "last") and decodes:
            raise ValueError(
                "head.pool gives one output per row, and a decoder gives one per position: leave pool out, or set it to "
                "'last', the position that has read all of the row"
            )
        if self.passed_over is not None and (entrance.symbols is None or self.passed_over >= entrance.symbols):
            raise ValueError(f"head.passed_over = {self.passed_over} is no token of the input ({entrance.symbols} symbols)")
        if self.tied and table_width != width and self.transform is None:
            raise ValueError(f"head: the tied table has {table_width} features and the stream {width}: set head.transform")
        columns, read = entrance.columns(table_width), self.features(width, table_width)
        if self.tied and columns + (self.own or 0) != read:
            raise ValueError(
                f"head: the tied table has {columns} features of {read} that are read: set head.own to {read - columns}"
            )

    def sketch(self, width: int) -> Sketch:
        facts = [POOLED[self.pool]] if self.pool else []
        facts += [f"mean without the first {self.front}"] if self.front else []
        facts += [self.transform.words] if self.transform else []
        facts += ["tied to the embedding"] if self.tied else []
        facts += [f"{number(self.own)} features of its own"] if self.own else []
        facts += ["a learned factor of each logit"] if self.gain is not None else []
        facts += [f"scaled by {number(of_width(self.scale, width))}"] if self.scale != 1 else []
        facts += [f"soft-cap {number(self.softcap)}"] if self.softcap else []
        return Sketch("Pooler" if self.outputs == "features" else "Linear head", tuple(facts))

    @property
    def may_be_tied(self) -> bool:
        """Whether the embedding's table could serve as W."""
        return self.outputs is None and self.own is None and (self.transform is None or self.transform.width is None)

    def resolved(self, width: int) -> Head:
        """A copy with the value of `scale` at D = `width`."""
        return self.but(scale=of_width(self.scale, width))

    def pooled_width(self, width: int) -> int:
        """Features of what is pooled of a stream of D = `width`."""
        return 2 * width if self.pool == "first_and_mean" else width

    def features(self, width: int, table_width: int) -> int:
        """The number of features that W multiplies; `table_width`: the features of the embedding's table."""
        if self.transform is None:
            return table_width if self.tied else self.pooled_width(width)
        return self.transform.width or table_width

    def build(self, outputs: int, width: int, table_width: int) -> HeadModule:
        from anyformer.parts.embedding.head_module import HeadModule

        return HeadModule(self, outputs, width, self.features(width, table_width))

    def cost(self, outputs: int, width: int, table_width: int, batch: int, length: int) -> Tally:
        rows, features = batch if self.pool else batch * length, self.features(width, table_width)
        weights: dict[str, Weight] = {}
        inner, read = Tally(), self.pooled_width(width)
        if self.transform is not None:
            inner = total({"transform": self.transform.cost(read, features, rows)})
        if self.outputs == "features":
            return inner
        tokens: Dimension = (("vocab", outputs),) if self.outputs is None else ()
        if not self.tied:
            weights["weight"] = Weight((outputs, features), "column", "head", axes=(tokens, ()))
        if self.own is not None:
            weights["own"] = Weight((outputs, self.own), "column", "head", axes=(tokens, ()))
        if self.bias:
            weights["bias"] = Weight((outputs,), "column", "zeros", axes=(tokens,))
        work: dict[str, Operation] = {"logits": Product(rows, features, outputs, "column")}
        if self.gain is not None:
            weights["gain"] = self.gain.weight(outputs, "column", (tokens,))
            work["gain"] = gated(rows * outputs)
        return Tally(weights, work) + inner
