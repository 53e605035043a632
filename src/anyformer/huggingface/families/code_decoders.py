"""Decoders of codes of sound in several books, without what they are conditioned on: of MusicGen, its melodies, and Dia.

A position is a code of every book: that of the first is its token, and a call names the others as `types`, behind a kind of
segment that there is not. By none, each is code 0. The head gives the logits of all books side by side.
"""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Concatenated, Names, Rows, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words import fairseq
from anyformer.huggingface.words.names import joined, projections
from anyformer.model import Architecture
from anyformer.parts import Attention, LayerNorm, MarkedEmbedding, Marks, Score, SinusoidalPosition, Softmax, pre_norm


def read_musicgen(config: Config) -> Architecture:
    """Each table has a row more than its book has codes, for positions before the first code of a later book."""
    config.assume(hidden_size=1024, num_hidden_layers=24, vocab_size=2048)
    config.expect_all(scale_embedding=False, tie_word_embeddings=False, is_decoder=False)
    norm, dropout = LayerNorm(), config("dropout", 0.1)
    attention = Attention(heads=config("num_attention_heads", 16), weigh=Softmax(dropout=config("attention_dropout", 0.0)))
    inner, width = config("activation_dropout", 0.0), config("ffn_dim", 4096, "feedforward.width")
    network = words.plain(config, "gelu", "activation_function", bias=False, size=None, width=width, dropout=inner)
    block = pre_norm(norm, attention, network, dropout=dropout)
    around = {"position": SinusoidalPosition(layout="cosines_first", spacing="inclusive"), "dropout": dropout}
    codes = config("vocab_size", 2048, lambda target: target("embedding.vocab") - 1)
    made = words.decoder(
        config, words.repeated(config, block), norm, around=around,
        starts=words.initialisation(config, key="initializer_factor"),
    )  # fmt: skip
    return _of_books(made, config("num_codebooks", 4, _books, kind=SIZE), codes + 1, codes)


def read_dia(config: Config) -> Architecture:
    config.assume(hidden_size=2048, num_hidden_layers=18, num_attention_heads=16, intermediate_size=8192, vocab_size=1028)
    norm = words.rms_norm(config, 1e-5, key="norm_eps")
    attention = words.attention(
        config, kv_heads=4, head_width=128, bias=(), dropout=0.0, rotary=words.rotary(config), score=Score(scale=1.0)
    )
    block = pre_norm(norm, attention, words.feedforward(config))
    codes = config("vocab_size")
    made = words.decoder(config, words.repeated(config, block), norm)
    return _of_books(made, config("num_channels", 9, _books, kind=SIZE), codes, codes)


def _of_books(made: Architecture, books: int, rows: int, codes: int) -> Architecture:
    """The model with a table and logits for each book."""
    assert made.head is not None, "as it is read"
    marks = tuple(Marks(rows=rows, of=(i,)) for i in range(books - 1))
    embedding = {**dict(made.embedding), "vocab": rows}
    several = {**embedding, "kind": "marked_tokens", "marks": marks}
    return made.but(
        embedding=MarkedEmbedding(**several) if marks else made.embedding.but(vocab=rows),
        head=made.head.but(outputs=books * codes),
    )


def _books(target: Target) -> int:
    return 1 + len(target.get("embedding.marks", ()))


def _tables(architecture: Architecture) -> tuple[str, ...]:
    return ("embedding", *(f"embedding.marks.{i}.table" for i in range(_books(Target(architecture)) - 1)))


def musicgen_names(architecture: Architecture) -> Names:
    tables = _tables(architecture)
    each = tuple(map(str, range(len(tables))))
    outside: Table = {
        **{ours: f"model.decoder.embed_tokens.{n}{'.weight' if n else ''}" for n, ours in enumerate(tables)},
        "decoder.final_norm": "model.decoder.layer_norm",
        "head.weight": To("lm_heads.{x}.weight", Concatenated(len(tables)), each=each),
    }
    return Names(outside, {"decoder": ("model.decoder.layers.{i}.", _MUSICGEN)})


def dia_names(architecture: Architecture) -> Names:
    first, *others = _tables(architecture)
    outside: Table = {
        (f"{first}.weight", *others): To("model.decoder.embeddings.embed.weight", Rows()),
        "decoder.final_norm": "model.decoder.norm",
        "head": "logits_dense",
    }
    return Names(outside, {"decoder": ("model.decoder.layers.{i}.", _DIA)})


_MUSICGEN = joined(fairseq.ATTENTION, fairseq.PLAIN, fairseq.NORMS)
_DIA: Table = {
    **projections("self_attention.*_proj"),
    "attention.norm_before": "pre_sa_norm",
    ("feedforward.gate", "feedforward.up"): To("mlp.gate_up_proj", Rows()),
    "feedforward.down": "mlp.down_proj",
    "feedforward.norm_before": "pre_mlp_norm",
}
_OF_MUSIC = ("add_cross_attention", "audio_channels", "cross_attention_hidden_size", "layerdrop")
_OF_SPEECH = tuple(f"cross_{key}" for key in ("head_dim", "hidden_size", "num_attention_heads", "num_key_value_heads"))
FAMILIES = (
    *(
        Family(f"{name}_decoder", read_musicgen, musicgen_names, "", inert=_OF_MUSIC)
        for name in ("musicgen", "musicgen_melody")
    ),
    Family("dia_decoder", read_dia, dia_names, "", inert=_OF_SPEECH),
)
