"""What contenders decode and train, in plain numbers: every worker builds its model from these, whatever its library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal


@dataclass(frozen=True)
class Latents:
    """Sizes of latent attention: features of the two latents, and of a head without position, with position, and of values."""

    q_rank: int
    kv_rank: int
    nope: int
    rope: int
    value: int


@dataclass(frozen=True)
class Decoder:
    """A Llama, where `latents` with latent attention, and where `experts` with networks of which a token passes `chosen`.

    The head is the embedding's table; no projection has a bias.
    """

    width: int
    depth: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    latents: Latents | None = None
    experts: int = 1
    chosen: int = 1
    theta: float = 10_000.0

    @property
    def active_share(self) -> float:
        """Share of the experts' parameters that one token uses."""
        return self.chosen / self.experts

    @property
    def tiny(self) -> Decoder:
        """The same kind at a size for rehearsals; rows of matrices stay multiples of the 64 numbers of a group in few bits."""
        latents = self.latents and Latents(q_rank=64, kv_rank=64, nope=32, rope=16, value=32)
        kv_heads = 4 if self.kv_heads == self.heads else 2
        return replace(self, width=64, depth=2, heads=4, kv_heads=kv_heads, ffn=128, vocab=512, latents=latents)

    def data(self) -> dict[str, Any]:
        return asdict(self)


DENSE = Decoder(width=768, depth=12, heads=12, kv_heads=12, ffn=2048, vocab=32_000)
DECODERS: Mapping[str, Decoder] = {
    "dense": DENSE,
    "gqa": replace(DENSE, kv_heads=4, ffn=2432),
    "mla": replace(DENSE, ffn=2240, latents=Latents(q_rank=384, kv_rank=256, nope=64, rope=32, value=64)),
    "experts": replace(DENSE, ffn=1024, experts=8, chosen=2),
}
"""Decoders of 110 M parameters that a token uses; the one with experts has 280 M."""
BATCHES, CONTEXTS = (1, 16), (64, 2048)
"""Rows decoded at once, and tokens of each prompt."""
NEW = 64
"""New tokens of a generation."""
WEIGHTS: Mapping[str, str] = {"bf16": "bf16", "f32": "f32", "int8": "q8_0", "int4": "q4_1/q8_0", "int4-64": "q4_0"}
"""The weights of a decoder, and what llama.cpp calls about as many bits, behind a stroke that of the table of tokens. int4 is
what our users get without naming a table: a factor and an offset for 32 weights, as in q4_1, beside a table in 8 bits; int4-64
reads 4.5 bits of every weight, the table's too, as llama.cpp does of q4_0."""
ON_ENGINE: Mapping[str, str] = {**WEIGHTS, "int4": "q4_0"}
"""The same beside our weights on llama.cpp itself, which are of its types."""
PLAIN = ("bf16", "f32")
"""Weights that every contender has; others are those of llama.cpp and of our default."""
OWN_ALONE = ("int4-64",)
"""Weights that no engine but our own has a form for."""


@dataclass(frozen=True)
class Case:
    """One setting of decoding."""

    model: str
    weights: str
    batch: int
    context: int

    @property
    def name(self) -> str:
        """As it stands in a table."""
        return f"{self.model}, {self.weights}, batch {self.batch}, context {self.context:,}"

    @property
    def heavy(self) -> bool:
        """Whether reading the prompts takes far longer than what is measured after it."""
        return self.batch * self.context > 8192


@dataclass(frozen=True)
class Training:
    """One shape of training: `kind` of model, its sizes, and rows and tokens of a batch (of source and target, where two)."""

    kind: Literal["llama", "gpt2", "bert", "t5"]
    width: int
    depth: int
    heads: int
    ffn: int
    vocab: int
    batch: int
    length: int
    tied: bool = True

    @property
    def tokens(self) -> int:
        """Tokens of a step; those of the source and of the target where a model has both."""
        return self.batch * self.length * (2 if self.kind == "t5" else 1)

    @property
    def tiny(self) -> Training:
        """The same kind at a size for rehearsals."""
        return replace(self, width=64, depth=2, heads=4, ffn=256, vocab=256, batch=2, length=32)

    def data(self) -> dict[str, Any]:
        return asdict(self)


TRAININGS: Mapping[str, Training] = {
    "small": Training("llama", 384, 6, 6, 1024, 4096, batch=16, length=256, tied=False),
    "nanogpt": Training("gpt2", 384, 6, 6, 4 * 384, 4096, batch=16, length=256),
    "110m": Training("llama", 768, 12, 12, 2048, 32_000, batch=2, length=1024),
    "encoder": Training("bert", 384, 6, 6, 4 * 384, 4096, batch=16, length=256),
    "encoder-decoder": Training("t5", 384, 4, 6, 4 * 384, 4096, batch=16, length=128),
}
"""Llamas of 13.8 M and 110 M parameters, GPT-2 as nanoGPT has it, BERT with masked tokens, T5; all without dropout."""
MASKED = 0.15
"""Share of the tokens that an encoder predicts."""
MASK, IGNORED = 3, -100
"""The token that stands for a hidden one, and the target where there is nothing to predict."""
