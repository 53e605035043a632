"""Compute-optimal sizes of model and text, and remarks where an architecture is far from a rule of thumb."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import exp, log

from anyformer.costs.figures import scaled
from anyformer.describe import UserError
from anyformer.model import Architecture
from anyformer.resizing.sizes import networks

TOKENS_PER_PARAMETER = 20.0
"""Hoffmann et al. 2022 (arXiv 2203.15556): Chinchilla has 1.4 T tokens for 70 B parameters, and table 3 as many elsewhere."""
WIDTHS = "4 times since Vaswani et al. 2017; gated 8/3, Shazeer 2020, arXiv 2002.05202"
HEADS = "Vaswani et al. 2017, arXiv 1706.03762, section 3.2.2"
SHAPES = "Kaplan et al. 2020, arXiv 2001.08361, figure 5"
VOCABULARIES = "sizes of published tokenizers"
"""Sources of the rules of thumb."""


@dataclass(frozen=True)
class Sizing:
    """N parameters trained on D tokens with C FLOPs; `loss` in nats per token where a fitted law predicts it."""

    parameters: float
    tokens: float
    flops: float
    rule: str
    loss: float | None = None

    def __str__(self) -> str:
        loss = "" if self.loss is None else f", loss {self.loss:.3f}"
        return (
            f"{scaled(self.parameters).strip()} parameters on {scaled(self.tokens).strip()} tokens "
            f"({self.tokens / self.parameters:.1f} per parameter), {self.flops:.3g} FLOPs{loss}: {self.rule}"
        )


@dataclass(frozen=True)
class ScalingLaw:
    """loss(N, D) = E + A / N^alpha + B / D^beta, in nats per token: N parameters, D tokens."""

    entropy: float
    """E, the entropy of the text itself."""
    of_parameters: float
    """A."""
    of_tokens: float
    """B."""
    alpha: float
    beta: float
    source: str

    def loss(self, parameters: float, tokens: float) -> float:
        lacking: float = self.of_parameters / parameters**self.alpha + self.of_tokens / tokens**self.beta
        return self.entropy + lacking

    def best(self, flops: float) -> Sizing:
        """The least loss for C = 6 N D (equation 4): N = G (C/6)^a, D = (C/6)^b / G.

        a = beta / (alpha + beta), b = alpha / (alpha + beta), G = (alpha A / (beta B))^(1 / (alpha + beta)).
        """
        _positive("flops", flops)
        both = self.alpha + self.beta
        ratio = exp(log(self.alpha * self.of_parameters / (self.beta * self.of_tokens)) / both)
        parameters = ratio * (flops / 6) ** (self.beta / both)
        tokens = (flops / 6) ** (self.alpha / both) / ratio
        return Sizing(parameters, tokens, flops, self.source, self.loss(parameters, tokens))


HOFFMANN = ScalingLaw(1.6934, 406.4, 410.7, 0.3392, 0.2849, "fitted law of Hoffmann et al. 2022, arXiv 2203.15556, approach 3")
"""Equation 10 prints 1.69, 0.34 and 0.28; these are the digits that Besiroglu et al. 2024 (arXiv 2404.10102, table 1) found
behind them. For Gopher's compute the law gives 40 B parameters, as in the paper's figure 4, where its other two approaches have
63 B and 67 B: the law's optimum has far more tokens per parameter than theirs."""
BESIROGLU = ScalingLaw(
    1.8172, 482.01, 2085.43, 0.3478, 0.3658, "the law fitted again to the same runs, Besiroglu et al. 2024, arXiv 2404.10102"
)
"""This fit agrees with the other approaches' 20 tokens per parameter."""


def compute_optimal(flops: float, *, tokens_per_parameter: float = TOKENS_PER_PARAMETER) -> Sizing:
    """The best sizes for a number of FLOPs by the rule C = 6 N D and D = 20 N, so N = sqrt(C / 120)."""
    _positive("flops", flops)
    _positive("tokens_per_parameter", tokens_per_parameter)
    parameters = (flops / (6 * tokens_per_parameter)) ** 0.5
    rule = f"{tokens_per_parameter:g} tokens per parameter and C = 6 N D, Hoffmann et al. 2022, arXiv 2203.15556"
    return Sizing(parameters, tokens_per_parameter * parameters, flops, rule)


def _positive(name: str, value: float) -> None:
    if not value > 0:
        raise UserError(f"{name} should be more than 0, got {value}")


@dataclass(frozen=True)
class Remark:
    """A size far from a rule of thumb: its subject, size and rule in words, and the rule's source."""

    about: str
    text: str
    source: str

    def __str__(self) -> str:
        return f"{self.about}: {self.text} ({self.source})"


def remarks(architecture: Architecture) -> tuple[Remark, ...]:
    """A remark per size far from a rule of thumb: the architecture is unusual, not wrong."""
    return tuple(dict.fromkeys(remark for rule in RULES for remark in rule(architecture)))


def _ffn(architecture: Architecture) -> Iterator[Remark]:
    """F = 4 D (Vaswani et al. 2017), gated 8/3 D, so that three matrices weigh what two did (Shazeer 2020, arXiv 2002.05202).

    Experts are many and narrow, and have no such rule.
    """
    for _, network in networks(architecture):
        ratio, usual = network.width / architecture.width, 8 / 3 if network.gated else 4.0
        if network.experts is None and not 1 / 1.5 <= ratio / usual <= 1.5:
            kind, rule = ("gated", "8/3") if network.gated else ("plain", "4")
            yield Remark(
                "feed-forward width",
                f"{network.width:,} is {ratio:.2f} times the width of {architecture.width:,}; the rule of thumb for a {kind} "
                f"network is {rule} times, {round(usual * architecture.width):,}",
                WIDTHS,
            )


def _aspect(architecture: Architecture) -> Iterator[Remark]:
    """D / L is about 100, and 50 to 200 pass. The loss changes little with it: 6 layers of 4,288 come within 3 % of 48 layers
    of 1,600 (Kaplan et al. 2020, arXiv 2001.08361, figure 5)."""
    for name, stack in architecture.stacks.items():
        ratio = architecture.width / stack.depth
        if not 50 <= ratio <= 200:
            shape = "wide for its depth" if ratio > 200 else "deep for its width"
            usual = max(1, round(architecture.width / 100))
            yield Remark(
                "width / depth",
                f"{architecture.width:,} / {stack.depth} = {ratio:.0f} in the {name}, {shape}; the rule of thumb is about 100, "
                f"here {usual} layer{'s' * (usual != 1)}",
                SHAPES,
            )


def _heads(architecture: Architecture) -> Iterator[Remark]:
    """H E = D: heads share the width of the model among them (Vaswani et al. 2017)."""
    for stack in architecture.stacks.values():
        for block in stack.variants.values():
            for sublayer in block.sublayers:
                heads = sublayer.layout(architecture.width).heads
                if heads is not None and heads.heads * heads.head_width != architecture.width:
                    together = heads.heads * heads.head_width
                    yield Remark(
                        "width of heads",
                        f"{heads.heads} of {heads.head_width} are {together:,}, {together / architecture.width:.2f} times the "
                        f"width of {architecture.width:,}; the rule of thumb is 1 time",
                        HEADS,
                    )


def _vocabulary(architecture: Architecture) -> Iterator[Remark]:
    """30,000 to 50,000 symbols for one language, 100,000 to 250,000 for many; the ends have a tenth of leeway."""
    for symbols in (architecture.embedding.symbols, architecture.output_embedding.symbols):
        if symbols is None or 27_000 <= symbols <= 55_000 or 90_000 <= symbols <= 275_000:
            continue
        place = "between the two" if 55_000 < symbols < 90_000 else "small" if symbols < 27_000 else "large"
        yield Remark(
            "vocabulary",
            f"{symbols:,} is {place}; the rule of thumb is 30,000-50,000 for one language and 100,000-250,000 for many",
            VOCABULARIES,
        )


RULES: tuple[Callable[[Architecture], Iterator[Remark]], ...] = (_ffn, _aspect, _heads, _vocabulary)
"""4, 8/3, 100, 1 and the two ranges of vocabulary are rules of the notes (docs/reference/notes.md); the tolerance is ours."""
