"""A sparse dictionary: a vector as a sum of a few of many learnt ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, model_validator

from anyformer.describe import Count, Value, with_kind
from anyformer.operations import Shape, Tally, Watchables, Weight, matrix, total, value
from anyformer.operations.elementwise import added, normalised
from anyformer.parts.dictionary.codes import Code, ReLUCode
from anyformer.parts.sketch import Cell, Sketch, chain, number
from anyformer.parts.sublayer import Coding, Sublayer, Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    from anyformer.parts.dictionary.dictionary_module import DictionaryModule


class MeanLength(Value):
    """Vectors times s = sqrt(D) / E|x|, and what the dictionary gives divided by s: so a penalty means the same at any path.

    E|x| is the running mean over training batches of the vectors' mean length (Conerly et al. 2024,
    transformer-circuits.pub/2024/april-update), and stands in evaluation.
    """

    batches: Count = 1000
    """Batches after which a further one counts no less than 1 / `batches`."""

    def cost(self, width: int, vectors: int, blocks: int) -> Tally:
        weights = {
            "length": Weight((blocks,), "replicate", "zeros", learnt=False),
            "seen": Weight((1,), "replicate", "zeros", learnt=False),
        }
        return Tally(weights, {"": normalised(width, 2 * vectors, width)})


class Revival(Value):
    """Features that were not active at `after` positions on end are dead, and learn from what the others leave over.

        |e - sum_i z_i d_i|^2 * min(dead / count, 1), e = x - y taken as given, i the `count` dead features of largest z_i

    Gao et al. 2024 (arXiv 2406.04093, appendix A.2); the factor: EleutherAI's sparsify.
    """

    after: Count = 1_000_000
    """Positions."""
    count: Count | None = None
    """Dead features that learn at a position; D / 2 by default."""

    def most(self, width: int, features: int) -> int:
        """The dead features that learn at a position, at most."""
        return min(self.count or max(1, width // 2), features)


class Dictionary(Sublayer):
    """y = sum_i f_i d_i + b, f = code((x - b) W + c): D features as a sum of few of F learnt vectors d_i.

    W (D, F) is the encoder, c (F,) its bias, d_i the columns of the decoder (D, F), b (D,) its bias. Without a residual around
    it, it is a sparse autoencoder, or a transcoder where it learns another vector than the one that it reads. The papers'
    d_sae, M or n is F; the encoder starts as the transposed decoder.
    """

    kind: Literal["dictionary"] = "dictionary"
    features: Count
    """The number of vectors d_i, F."""
    code: Annotated[Code, BeforeValidator(with_kind("relu"))] = ReLUCode()
    """Which features are active."""
    centred: bool = True
    """Whether b is subtracted from x; false for a transcoder."""
    detached: bool = False
    """Whether x is taken as given, so that no gradient reaches what it is made of; activations of another model have none, and
    only with b subtracted has the encoder's product a gradient of its input then."""
    unit: bool = False
    """Whether d_i are divided by their lengths: then no gradient changes the length of what is stored."""
    blocks: Count = 1
    """n, equal parts of the D features that come from different paths: a crosscoder's. The length of d_i is then the sum of its
    lengths in all parts, and every part is scaled to a mean length of its own."""
    length: MeanLength | None = None
    """Vectors scaled to a mean length of sqrt(D)."""
    revival: Revival | None = None
    """Dead features that learn again, if the objective weighs it; None: nothing counts when a feature was active."""

    @model_validator(mode="after")
    def _has_enough(self) -> Dictionary:
        most = self.code.most(self.features)
        if most > self.features:
            remedy = f"give code.k = {self.features} at most, or features = {most}"
            raise ValueError(f"code.k = {most} is more than the {self.features} features: {remedy}")
        return self

    @property
    def coding(self) -> Coding:
        return Coding(
            self.features,
            self.code.penalty,
            self.revival is not None,
            revived=0 if self.revival is None else 3,
            guessed=2 if self.code.guesses else 0,
        )

    def check(self, width: int) -> None:
        """Refuse a width that the blocks do not divide."""
        if width % self.blocks:
            raise ValueError(f"blocks = {self.blocks} must divide the width of {width}")

    @property
    def traits(self) -> Traits:
        return Traits(activation=self.code.words)

    def gathers(self, width: int) -> int | None:
        whole = self.code.limits or self.length is not None or self.revival is not None
        return None if whole else 0

    def sketch(self, width: int) -> Sketch:
        facts = {"unit vectors": self.unit, "scaled to a mean length": self.length is not None, "centred": self.centred}
        inner = chain(
            Cell(f"encoder {number(self.features)}"), Cell(self.code.words, "choice"), Cell(f"decoder {number(width)}")
        )
        return Sketch("Sparse dictionary", tuple(fact for fact, holds in facts.items() if holds), inner)

    def build(self, width: int, plan: Plan, name: str) -> DictionaryModule:
        from anyformer.parts.dictionary.dictionary_module import DictionaryModule

        return DictionaryModule(self, width, name)

    def watchable(self, width: int) -> Watchables:
        pre = value("BTF", "the pre-activations of features", F=self.features)
        return {"preactivations": pre, "active": value("BTF", "the activations of features", F=self.features)}

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        rows, constant = shape.rows, self.detached and not self.centred
        encoder = matrix("encoder", width, self.features, rows, role="replicate", bias=True, fill="residual", constant=constant)
        start = replace(encoder.own_weights["encoder.weight"], transposes="decoder.weight", writes=False)
        bias = replace(encoder.own_weights["encoder.bias"], writes=False)
        encoder = replace(encoder, own_weights={"encoder.weight": start, "encoder.bias": bias})
        decoder = matrix("decoder", self.features, width, rows, role="replicate", bias=True, fill="residual")
        inner = {"code": self.code.cost(self.features, rows)}
        if self.length is not None:
            inner["length"] = self.length.cost(width, rows, self.blocks)
        if self.revival is not None:
            inner["silent"] = Tally({"": Weight((self.features,), "replicate", "zeros", learnt=False)})
        beside = {"centred": added(rows * width)} if self.centred else {}
        return encoder + decoder + total(inner) + Tally(own_work=beside, own_limits=self.code.limits)
