"""Text decoders that also attend to sound, here without: of Canary, Cohere Transcribe, Moonshine Streaming and SpeechT5."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.words import fairseq
from anyformer.huggingface.words.names import joined, projections
from anyformer.huggingface.words.seq2seq import after_padding
from anyformer.model import Architecture
from anyformer.parts import Attention, LayerNorm, LearnedPosition, Projection, SinusoidalPosition, Softmax, post_norm, pre_norm
from anyformer.parts.positions.absolute import Position


def read_canary(config: Config) -> Architecture:
    """Sinusoids divided by sqrt(D), beside a head tied to the table."""
    config.assume(num_key_value_heads=8, head_dim=128)
    width = config("hidden_size", 1024)
    position = SinusoidalPosition(
        layout="halves", scale=width**-0.5, length=config("max_position_embeddings", 1024, "stack.position.length")
    )
    return _transcriber(config, position, tied=True)


def read_cohere(config: Config) -> Architecture:
    return _transcriber(config, LearnedPosition(length=config("max_position_embeddings", 1024, "stack.position.length")))


def _transcriber(config: Config, position: Position, *, tied: bool = False) -> Architecture:
    config.assume(
        vocab_size=16_384, hidden_size=1024, num_hidden_layers=8, num_attention_heads=8, intermediate_size=4096,
        attention_bias=True,
    )  # fmt: skip
    norm = LayerNorm()
    block = pre_norm(norm, words.attention(config), words.plain(config, "relu"))
    around = {"position": position, "input_norm": norm}
    return words.decoder(config, words.repeated(config, block), norm, tied=tied, length=None, around=around, bias=True)


def read_moonshine(config: Config) -> Architecture:
    config.assume(
        vocab_size=32_768, hidden_size=320, num_hidden_layers=6, num_attention_heads=8, intermediate_size=1280,
    )  # fmt: skip
    norm = LayerNorm(bias=False)
    bias = words.biases(config, names=words.QKV)
    # A table without a share turns whole heads: the class has its own share in the place of a whole table alone.
    share = 0.8 if config("rope_parameters", None, words.rope_table_with_share) is None else 1.0
    attention = words.attention(config, bias=bias, rotary=words.rotary(config, fraction=share, pairing="adjacent"))
    config.expect("num_key_value_heads", None, attention.heads, why="its class computes with one number of heads")
    block = pre_norm(norm, attention, words.feedforward(config, bias=True))
    return words.decoder(config, words.repeated(config, block), norm)


def read_speecht5(config: Config) -> Architecture:
    config.assume(vocab_size=81, hidden_size=768, decoder_layers=6)
    norm, dropout = words.layer_norm(config, 1e-5), config("hidden_dropout", 0.1, "attention.dropout")
    attention = Attention(
        heads=config("decoder_attention_heads", 12, "attention.heads"),
        project=Projection(bias=words.ALL),
        weigh=Softmax(dropout=config("attention_dropout", 0.1)),
    )
    width = config("decoder_ffn_dim", 3072, "feedforward.width")
    network = words.plain(config, size=None, width=width, dropout=config("activation_dropout", 0.1))
    around = {"position": after_padding(config, "decoder"), "dropout": config("positional_dropout", 0.1, "stack.dropout")}
    block = post_norm(norm, attention, network, dropout=dropout)
    return words.decoder(
        config, words.repeated(config, block, "decoder_layers"), None, tied=True, length=None, around=around,
        embedding_scale=words.root_scale(config, False),
    )  # fmt: skip


_TRANSCRIBER: Table = {
    "embedding": "model.decoder.embed_tokens",
    "decoder.position": "model.decoder.pos_emb",
    "decoder.input_norm": "model.decoder.embedding_layernorm",
    "decoder.final_norm": "model.decoder.norm",
    "head": "proj_out",
}
_ATTENTION: Table = {
    **projections("self_attn.*_proj"),
    "attention.norm_before": "input_layernorm",
    "feedforward.norm_before": "final_layernorm",
}
_PLAIN: Table = {"feedforward.up": "mlp.fc1", "feedforward.down": "mlp.fc2"}
_GATED: Table = {("feedforward.up", "feedforward.gate"): To("mlp.fc1", Rows()), "feedforward.down": "mlp.fc2"}
_LAYERS = "model.decoder.layers.{i}."
_SPEECHT5: Table = {
    "embedding": "speecht5.decoder.prenet.embed_tokens",
    "head": "text_decoder_postnet.lm_head",
}
_SPEECHT5_LAYERS: Table = joined(
    fairseq.ATTENTION,
    fairseq.NORMS,
    {"feedforward.up": "feed_forward.intermediate_dense", "feedforward.down": "feed_forward.output_dense"},
)
_OF_ENCODER = ("decoder_start_token_id", "is_encoder_decoder")
FAMILIES = (
    Family(
        "canary_decoder",
        read_canary,
        Names(_TRANSCRIBER, {"decoder": (_LAYERS, joined(_ATTENTION, _PLAIN))}),
        "",
        inert=_OF_ENCODER,
    ),
    Family(
        "cohere_asr-text",
        read_cohere,
        Names(_TRANSCRIBER, {"decoder": (_LAYERS, joined(_ATTENTION, _PLAIN))}),
        "",
        inert=_OF_ENCODER,
    ),
    Family(
        "moonshine_streaming-text",
        read_moonshine,
        Names(_TRANSCRIBER, {"decoder": (_LAYERS, joined(_ATTENTION, _GATED))}),
        "",
        inert=(*_OF_ENCODER, "pad_head_dim_to_multiple_of"),
    ),
    Family(
        "speecht5-text",
        read_speecht5,
        Names(_SPEECHT5, {"decoder": ("speecht5.decoder.wrapped_decoder.layers.{i}.", _SPEECHT5_LAYERS)}),
        "",
        inert=(*_OF_ENCODER, "decoder_layerdrop", "max_text_positions"),
    ),
)
