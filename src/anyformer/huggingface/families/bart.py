"""BART and its kin: encoder-decoders with LayerNorm and biases everywhere; Pegasus and M2M-100: with sinusoids."""

from __future__ import annotations

from anyformer.describe import change_all, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.words.rounded import tell_of_rounding
from anyformer.huggingface.words.seq2seq import SINUSOIDS, BartVariant, after_padding, halves, learned
from anyformer.model import Architecture
from anyformer.parts import pre_norm

BART = BartVariant(learned(2, 1024), input_norm=True, headless="BartModel")
MVP = BartVariant(learned(2, 1024), input_norm=True, headless="MvpModel")
MBART = BartVariant(learned(2, 1024), wiring=pre_norm, input_norm=True, final_norm=True, headless="MBartModel")
PLBART = BartVariant(learned(2, 1024), input_norm=True, scaled=True, attention_dropout=0.1, headless="PLBartModel")
SMALL = BartVariant(learned(0, 512), input_norm=True, headless="BlenderbotSmallModel")
BLENDERBOT = BartVariant(learned(0, 128), wiring=pre_norm, final_norm=True, headless="BlenderbotModel")
PEGASUS = BartVariant(halves, wiring=pre_norm, final_norm=True, headless="PegasusModel")
M2M = BartVariant(
    after_padding, wiring=pre_norm, final_norm=True, bias=False, scaled=True, activation="relu", attention_dropout=0.1
)


def read_small(config: Config) -> Architecture:
    """BlenderbotSmall: its decoder normalises embeddings before positions are added, its encoder after.

    The decoder does not scale embeddings by s: LayerNorm(x; eps) = LayerNorm(s x; s^2 eps).
    """
    made = SMALL.read(config)
    eps = get(made, "decoder.input_norm.eps") * get(made.resolved(), "embedding.scale") ** 2
    return change_all(made, {"decoder.input_norm_at": "before_position", "decoder.input_norm.eps": eps})


def read_mvp(config: Config) -> Architecture:
    config.expect("use_prompt", False, why="prompts that a network computes are not known here")
    return MVP.read(config)


def read_pegasus(config: Config) -> Architecture:
    tell_of_rounding(config, "the table of positions")
    return PEGASUS.read(config)


FAMILIES = (
    BART.family("bart", "BartForConditionalGeneration"),
    MBART.family("mbart", "MBartForConditionalGeneration"),
    PLBART.family("plbart", "PLBartForConditionalGeneration"),
    MVP.family("mvp", "MvpForConditionalGeneration", read=read_mvp, inert=("prompt_length", "prompt_mid_dim", "use_prompt")),
    BLENDERBOT.family("blenderbot", "BlenderbotForConditionalGeneration"),
    SMALL.family("blenderbot-small", "BlenderbotSmallForConditionalGeneration", read=read_small),
    PEGASUS.family("pegasus", "PegasusForConditionalGeneration", read=read_pegasus, fixed=SINUSOIDS),
    M2M.family("m2m_100", "M2M100ForConditionalGeneration", fixed=SINUSOIDS),
)
