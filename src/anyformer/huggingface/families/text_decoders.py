"""Text decoders that also attend to images, here without: of TrOCR (BART), of PP-FormulaNet (mBART), of BLIP (BERT)."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import has_part
from anyformer.huggingface.rules import Names, Table, under
from anyformer.huggingface.target import Target
from anyformer.huggingface.words import fairseq
from anyformer.huggingface.words.bert_line import ATTENTION, EMBEDDINGS, FEEDFORWARD, POST_NORMS, learned_position
from anyformer.huggingface.words.encoder_heads import head_names
from anyformer.huggingface.words.names import joined
from anyformer.huggingface.words.seq2seq import BartVariant, after_padding, learned
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    LearnedPosition,
    Projection,
    SinusoidalPosition,
    Softmax,
    Transform,
    post_norm,
    pre_norm,
)


def read(config: Config) -> Architecture:
    config.assume(d_model=1024, decoder_layers=12, decoder_attention_heads=16, decoder_ffn_dim=4096, vocab_size=50_265)
    normed = config("layernorm_embedding", True, has_part("stack.input_norm"))
    return _alone(config, BartVariant(_position, input_norm=normed), tied=True, scaled=False)


def read_formula(config: Config) -> Architecture:
    config.assume(d_model=512, decoder_layers=8, decoder_attention_heads=16, decoder_ffn_dim=2048, vocab_size=50_000)
    config.expect("decoder_layerdrop", 0.0)
    variant = BartVariant(learned(2, 2560), wiring=pre_norm, input_norm=True, final_norm=True)
    return _alone(config, variant, tied=False, scaled=True)


def _alone(config: Config, variant: BartVariant, *, tied: bool, scaled: bool) -> Architecture:
    """The decoder of a variant of BART without its cross-attention; `tied`, `scaled`: defaults of absent keys."""
    layers = variant.stack(config, "decoder")
    block = layers.variants[layers.layers[0]]
    alone = block.but(steps=tuple(step for step in block.steps if "cross_attention" not in step.branches))
    scale = words.root_scale(config, scaled)
    stack = layers.but(variants={"layer": alone})
    made = words.decoder(
        config, [("layer", alone)] * layers.depth, None, tied=tied, width="d_model", embedding_scale=scale,
        starts=words.initialisation(config, key="init_std"),
    )  # fmt: skip
    return made.but(decoder=stack)


def _position(config: Config, side: str) -> LearnedPosition | SinusoidalPosition:
    rows = config("use_learned_position_embeddings", True, _learned)
    return learned(2, 512)(config, side) if rows else after_padding(config, side)


def _learned(target: Target) -> bool:
    return bool(target.get("stack.position.kind") == "learned_position")


def read_blip(config: Config) -> Architecture:
    config.assume(hidden_size=768, num_hidden_layers=12, num_attention_heads=8, intermediate_size=3072, vocab_size=30_524)
    config.expect("is_decoder", True, why="without it the class has no head")
    norm, dropout = words.layer_norm(config, 1e-12), config("hidden_dropout_prob", 0.0)
    attention = Attention(
        heads=config("num_attention_heads"),
        project=Projection(bias=words.ALL),
        weigh=Softmax(dropout=config("attention_probs_dropout_prob", 0.0)),
    )
    network = words.plain(config)
    layers = words.repeated(config, post_norm(norm, attention, network, dropout=dropout))
    around = {"position": learned_position(config), "input_norm": norm, "dropout": dropout}
    transform = Transform(activation=network.activation, norm=norm)
    return words.decoder(config, layers, None, tied=True, around=around, bias=True, transform=transform)


def names_of_blip(architecture: Architecture) -> Names:
    outside = {ours.replace("encoder.", "decoder."): theirs for ours, theirs in EMBEDDINGS.items()}
    layers = joined(ATTENTION, FEEDFORWARD, POST_NORMS)
    return Names({**under("bert.", outside), **head_names(architecture)}, {"decoder": ("bert.encoder.layer.{i}.", layers)})


_OUTSIDE: Table = {
    "embedding": "model.decoder.embed_tokens",
    "decoder.position": "model.decoder.embed_positions",
    "decoder.input_norm": "model.decoder.layernorm_embedding",
    "head": "output_projection",
}
_LAYERS = joined(fairseq.ATTENTION, fairseq.PLAIN, fairseq.NORMS)
FAMILIES = (
    Family(
        "trocr-text",
        read,
        Names(_OUTSIDE, {"decoder": ("model.decoder.layers.{i}.", _LAYERS)}),
        "TrOCRForCausalLM",
        inert=("cross_attention_hidden_size", "decoder_layerdrop"),
    ),
    Family(
        "pp_formulanet_text",
        read_formula,
        Names(
            {**_OUTSIDE, "decoder.final_norm": "model.decoder.layer_norm", "head": "lm_head"},
            {"decoder": ("model.decoder.layers.{i}.", _LAYERS)},
        ),
        "",
        inert=("encoder_attention_heads", "encoder_layers", "forced_eos_token_id", "is_encoder_decoder"),
    ),
    Family(
        "blip_text_model",
        read_blip,
        names_of_blip,
        "BlipTextLMHeadModel",
        inert=("encoder_hidden_size", "label_smoothing", "projection_dim"),
        ignored=(r"cls\.predictions\.(decoder\.(weight|bias)|bias)",),
    ),
)
