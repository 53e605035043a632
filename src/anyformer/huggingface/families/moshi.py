"""Moshi's text model, which it has beside codes of sound: Llama with a fused gate, and a row of the table for no token."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Rows, Table, To
from anyformer.huggingface.words.names import NORMS, decoder_names, projections
from anyformer.model import Architecture
from anyformer.parts import pre_norm


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


_LAYER: Table = {
    **projections("self_attn.*_proj.linear"),
    ("feedforward.gate", "feedforward.up"): To("mlp.fc1", Rows()),
    "feedforward.down": "mlp.fc2",
}
FAMILIES = (Family("moshi-text", read, decoder_names(_LAYER, NORMS), "MoshiForCausalLM"),)
