"""Moshi's text model, which it has beside codes of sound: Llama with a fused gate, and a row of the table for no token.

Kyutai's speech to text has one that reads codes of sound beside each token of text: a number of each codebook, which a call
names as `types` behind a kind of segment that there is not. By none, each is code 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Rows, Shapes, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.names import NORMS, OUTSIDE, decoder_names, projections
from anyformer.model import Architecture
from anyformer.parts import MarkedEmbedding, Marks, pre_norm

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class CodeTables:
    """One stored table of text, of each codebook, and of the row for no token, which ours has behind those of text."""

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        import torch

        (text, _), *codes = shapes
        rows, *tables, none = torch.split(stored[0], [text - 1, *(count for count, _ in codes), 1])
        return [torch.cat([rows, none]), *tables]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        import torch

        text, *tables = parameters
        return [torch.cat([text[:-1], *tables, text[-1:]])]


def read(config: Config) -> Architecture:
    config.assume(vocab_size=32_000, hidden_size=4096, num_hidden_layers=32, num_attention_heads=32)
    # Attention sees the whole text, of which transformers' cache keeps a window: they agree as long as it holds the longest.
    config.expect(
        "sliding_window",
        config("max_position_embeddings", 3000),
        why="a window shorter than max_position_embeddings is not computed",
    )
    norm, heads = words.rms_norm(config, 1e-8, cast="after_gain"), words.attention(config, rotary=words.rotary(config))
    width = config("ffn_dim", 22_528, lambda target: 2 * target("feedforward.width")) // 2
    network = words.feedforward(config, size=None, width=width)
    vocab = config("vocab_size", at="head.outputs")
    config.expect("tie_word_embeddings", False, why="the table has a row more than there are logits")
    made = words.decoder(config, words.repeated(config, pre_norm(norm, heads, network)), norm)
    assert made.head is not None
    return made.but(embedding=made.embedding.but(vocab=vocab + 1), head=made.head.but(outputs=vocab))


def read_speech(config: Config) -> Architecture:
    """The same, whose tokens carry a code of each codebook."""
    books = config("num_codebooks", 32, lambda target: len(_marks(target)), kind=SIZE)
    rows = config("codebook_vocab_size", 2049, lambda target: _marks(target)[0].rows, kind=SIZE)
    config.assume(vocab_size=4001, hidden_size=2048, num_hidden_layers=48, ffn_dim=11_264, max_position_embeddings=750)
    made = read(config)
    last = config("vocab_size") + books * rows
    config.expect(
        "audio_pad_token_id", last, why="vocab_size + num_codebooks * codebook_vocab_size: the row for no token is the last"
    )
    tables = tuple(Marks(rows=rows, of=(i,)) for i in range(books))
    return made.but(embedding=MarkedEmbedding(**{**dict(made.embedding), "kind": "marked_tokens", "marks": tables}))


def _marks(target: Target) -> tuple[Marks, ...]:
    found: tuple[Marks, ...] = target("embedding.marks")
    return found


def speech_names(architecture: Architecture) -> Names:
    tables = tuple(f"embedding.marks.{i}.table" for i in range(len(_marks(Target(architecture)))))
    one = {("embedding.weight", *tables): To("model.embed_tokens.embed_tokens.weight", CodeTables())}
    outside = {ours: theirs for ours, theirs in OUTSIDE.items() if ours != "embedding"}
    return decoder_names(_LAYER, NORMS, outside={**outside, **one})


_LAYER: Table = {
    **projections("self_attn.*_proj.linear"),
    ("feedforward.gate", "feedforward.up"): To("mlp.fc1", Rows()),
    "feedforward.down": "mlp.fc2",
}
FAMILIES = (
    Family("moshi-text", read, decoder_names(_LAYER, NORMS), "MoshiForCausalLM"),
    Family("kyutai-text", read_speech, speech_names, "KyutaiSpeechToTextForConditionalGeneration"),
)
