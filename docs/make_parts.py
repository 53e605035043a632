"""Writes `docs/reference/parts.md`: the mechanisms that the project started from, with their parts. A test compares.

python docs/make_parts.py
"""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from pathlib import Path

from anyformer.cli.usage import usage
from anyformer.describe import Value

PAGE = Path(__file__).with_name("reference") / "parts.md"
LLM, DEVELOPMENT, ITERATIONS, ATTENTION = (
    "LLM training notes",
    "Transformer development",
    "CS190C lecture 3, iterations of Transformer",
    "LLM, attention",
)
LATER = "Since the notes"


@dataclass(frozen=True)
class Mechanism:
    """What a note names in a section, and where it is: an object of `anyformer.parts` (or `module:object`), and how to ask."""

    note: str
    section: str
    name: str
    where: str
    how: str = ""


M = Mechanism
MECHANISMS = (
    M(LLM, "3.1 Scaling the logits after the head", "scaled logits", "Head", "`scale = D ** -0.5`"),
    M(LLM, "4.1 Multihead self-attention", "multi-head attention", "Attention", "`heads = H`"),
    M(LLM, "4.2 Multi-query attention", "multi-query attention", "Attention", "`kv_heads = 1`"),
    M(LLM, "4.3 KV cache", "preallocated cache", "anyformer.parts.call.state:FullState"),
    M(LLM, "4.3 KV cache", "the cache of a window", "anyformer.parts.call.ring_state:RingState"),
    M(LLM, "4.4 Grouped-query attention", "grouped-query attention", "Attention", "`kv_heads = K`"),
    M(LLM, "4.5 Multihead latent attention", "latent keys and values, decoupled rotary, absorbed decoding", "LatentAttention"),
    M(
        LLM,
        "4.5 Multihead latent attention",
        "text attending to an image",
        "anyformer.catalogue.vision_language:llama_vision",
        "an image's `Features` or `Patches` as the source of `CrossAttention`",
    ),
    M(LLM, "4.6 Latent Transformer block", "Perceiver", "Latents", "with `CrossAttention` and `Attention` in a block"),
    M(
        LLM,
        "4.6 Latent Transformer block",
        "latents and input normalised",
        "CrossAttention",
        "`source_norm`, and the branch's norm",
    ),
    M(LLM, "4.6 Latent Transformer block", "Set Transformer", "InducedAttention"),
    M(LLM, "4.7 Pre- and post-normalisation", "pre-norm", "pre_norm"),
    M(LLM, "4.7 Pre- and post-normalisation", "post-norm", "post_norm"),
    M(LLM, "4.7 Pre- and post-normalisation", "a last norm after all layers", "Stack", "`final_norm`"),
    M(LLM, "4.7 Pre- and post-normalisation", "LayerNorm", "LayerNorm"),
    M(
        LLM,
        "4.8 Dropout",
        "dropout",
        "anyformer.parts.call.noise:Dropout",
        "`dropout` of a branch, stack, attention or network",
    ),
    M(LLM, "4.9 DCA", "channel cross-attention", "ChannelCrossAttention"),
    M(LLM, "4.9 DCA", "spatial cross-attention", "SpatialCrossAttention"),
    M(LLM, "4.9 DCA", "both, on a U-Net's skip connections", "anyformer.model:MultiScale", "a block of both: `residual`"),
    M(
        LLM,
        "4.10 Linear attention",
        "attention without the whole score matrix",
        "anyformer.parts.attention.attend:attend",
        '`Plan(attention="sdpa")`',
    ),
    M(LLM, "4.10 Linear attention", "linear attention, running sums", "LinearAttention"),
    M(LLM, "4.10 Linear attention", "ELU + 1", "EluPlusOne"),
    M(LLM, "4.10 Linear attention", "ReLU, squared ReLU", "Rectified", "`power = 1`, `2`"),
    M(LLM, "4.10 Linear attention", "exponential with scaling", "Exponential"),
    M(LLM, "4.10 Linear attention", "random Fourier features", "RandomFourier"),
    M(LLM, "4.10 Linear attention", "positive random features", "PositiveRandom"),
    M(LLM, "4.10 Linear attention", "orthogonal maps", "PositiveRandom", "`orthogonal = true`"),
    M(LLM, "4.10 Linear attention", "normalised maps", "UnitLength"),
    M(LLM, "4.10 Linear attention", "exponential-normalised maps", "ExponentialNormalised"),
    M(LLM, "4.11 Sparse attention", "sliding window", "Window"),
    M(LLM, "4.11 Sparse attention", "strided", "Strided", "`Window(size=l) | Causal() & Strided(stride=l)`"),
    M(LLM, "4.11 Sparse attention", "fixed", "Fixed", "`Causal() & (Chunk(size=l) | Fixed(size=l))`"),
    M(LLM, "4.11 Sparse attention", "global tokens", "GlobalTokens"),
    M(LLM, "4.11 Sparse attention", "blocks with a vertical stride", "VerticalStride", "with `BlockWindow`"),
    M(LLM, "5.1 BatchNorm", "BatchNorm over (B, d) and (B, C, H, W)", "BatchNorm"),
    M(LLM, "5.1 BatchNorm", "GroupNorm of each position, never over the pixels", "GroupedLayerNorm"),
    M(LLM, "5.1 BatchNorm", "Vision Transformer", "Patches", "`encoder_only(Patches(size=16, class_tokens=1), ...)`"),
    M(LLM, "5.2 RMSNorm", "RMSNorm", "RMSNorm"),
    M(LLM, "6 Positional embedding", "sinusoids", "SinusoidalPosition"),
    M(LLM, "6 Positional embedding", "learned positions", "LearnedPosition"),
    M(LLM, "8.1 Encoder-only models", "encoder", "anyformer.model:encoder_only"),
    M(LLM, "8.1 Encoder-only models", "the answer at [CLS]", "Head", '`pool = "first"`, `outputs`'),
    M(LLM, "8.2 Decoder-only models", "decoder", "anyformer.model:decoder_only"),
    M(LLM, "8.3 Encoder-decoder models", "encoder-decoder", "anyformer.model:encoder_decoder"),
    M(LLM, "8.3 Encoder-decoder models", "speech to text", "AudioFrames", "`encoder_decoder(AudioFrames(...), ...)`"),
    M(LLM, "8.3 Encoder-decoder models", "the cached source", "anyformer.parts.call.state:CrossState"),
    M(LLM, "8.4 Prefix-decoder models", "prefix language model", "Prefix", "`Causal() | Prefix()`"),
    M(LLM, "8.4 Prefix-decoder models", "image embeddings as a prefix", "Features", '`Architecture(source="prefix")`'),
    M(LLM, "8.4 Prefix-decoder models", "prefix tuning, virtual tokens", "Attention", "`virtual_tokens = P`"),
    M(LLM, "8.6 The linear layers", "feed-forward network", "FeedForward"),
    M(LLM, "8.6 The linear layers", "ReLU, GELU, SiLU", "FeedForward", "`activation`"),
    M(LLM, "8.7 Gated linear units", "GLU", "FeedForward", '`activation = "sigmoid"`'),
    M(LLM, "8.7 Gated linear units", "SwiGLU, GEGLU", "FeedForward", '`activation = "silu"`, `"gelu"`'),
    M(LLM, "8.8 Mixture-of-experts FFNs", "experts", "Experts"),
    M(LLM, "8.8 Mixture-of-experts FFNs", "router, gating probabilities", "Router"),
    M(LLM, "8.8 Mixture-of-experts FFNs", "top-k, renormalised", "TopK", "`Router(renormalise=Renormalise())`"),
    M(LLM, "8.8 Mixture-of-experts FFNs", "sampled experts", "Sampled"),
    M(LLM, "8.8 Mixture-of-experts FFNs", "capacity: dropping, rerouting, padding", "Capacity"),
    M(LLM, "8.8 Mixture-of-experts FFNs", "balance loss", "anyformer.parts.experts.balance:balance_loss"),
    M(LLM, "8.9 Parallel attention + FFN", "parallel branches", "parallel"),
    M(LLM, "8.9 Parallel attention + FFN", "DropPath per branch", "Branch", "`drop_path = p`"),
    M(LLM, "8.9 Parallel attention + FFN", "branches scaled by 1/sqrt 2", "Branch", "`multiplier = 2 ** -0.5`"),
    M(LLM, "8.9 Parallel attention + FFN", "learnable alpha", "Gain", '`Branch(gain=Gain(per="branch"))`'),
    M(DEVELOPMENT, "1 Original Transformer", "the original Transformer", "anyformer.catalogue.original:original"),
    M(DEVELOPMENT, "2.1 Pre-norm instead of post-norm", "pre-norm with RMSNorm", "pre_norm"),
    M(DEVELOPMENT, "2.1 Pre-norm instead of post-norm", "double norm", "sandwich"),
    M(DEVELOPMENT, "2.2 RMSNorm instead of LayerNorm", "RMSNorm", "RMSNorm"),
    M(DEVELOPMENT, "2.3 No bias", "biases per projection", "FeedForward", "`bias = ()`"),
    M(DEVELOPMENT, "2.4 Gated activation", "ReGLU", "FeedForward", '`activation = "relu"`'),
    M(DEVELOPMENT, "2.4 Gated activation", "GEGLU, SwiGLU", "FeedForward", '`activation = "gelu"`, `"silu"`'),
    M(
        DEVELOPMENT,
        "2.4 Gated activation",
        "Swish with beta",
        "anyformer.parts.pointwise.activation_module:swish",
        '`activation = "swish"`',
    ),
    M(DEVELOPMENT, "2.5 Serial or parallel", "serial blocks", "pre_norm"),
    M(DEVELOPMENT, "2.5 Serial or parallel", "parallel blocks", "parallel"),
    M(DEVELOPMENT, "2.6 Position embedding", "rotary positions", "Rotary"),
    M(DEVELOPMENT, "3 Hyperparameters", "8/3 rule, rounded", "gated_width"),
    M(DEVELOPMENT, "5 Stability tricks", "z-loss", "anyformer.objectives:CausalObjective", "`z_loss = 1e-4`"),
    M(DEVELOPMENT, "5 Stability tricks", "normalised queries and keys", "Attention", "`qk_norm = QKNorm(norm=RMSNorm())`"),
    M(
        DEVELOPMENT,
        "5 Stability tricks",
        "soft-capped logits",
        "Head",
        "`softcap = 30.0`, and `Attention(score=Score(softcap=50.0))`",
    ),
    M(ITERATIONS, "1 Architecture", "encoder, decoder, encoder-decoder", "anyformer.model:Architecture"),
    M(ITERATIONS, "2.1 RoPE", "partial, scaled and proportional rotary", "Rotary", "`fraction`, `scaling`"),
    M(ITERATIONS, "2.2 KV-Cache", "cache, multi-query and grouped-query attention", "Attention", "`kv_heads`"),
    M(ITERATIONS, "2.2 KV-Cache", "MLA with decoupled RoPE", "LatentAttention"),
    M(ITERATIONS, "2.3 Sparse attention", "sliding window", "Window"),
    M(ITERATIONS, "2.3 Sparse attention", "Sparse Transformer, strided", "Strided"),
    M(ITERATIONS, "2.3 Sparse attention", "Sparse Transformer, fixed", "Fixed"),
    M(ITERATIONS, "3.1 SwiGLU", "ReLU, SiLU, Swish, GLU and its kin", "FeedForward", "`activation`, `gated`"),
    M(ITERATIONS, "3.2 MoE", "top k sampled from the distribution", "Sampled"),
    M(ITERATIONS, "4.1 Normalisation methods", "BatchNorm of each position", "BatchNorm", '`over = "position"`'),
    M(ITERATIONS, "4.1 Normalisation methods", "LayerNorm", "LayerNorm"),
    M(ITERATIONS, "4.1 Normalisation methods", "RMSNorm", "RMSNorm"),
    M(ITERATIONS, "4.2 Normalisation position", "post-norm", "post_norm"),
    M(ITERATIONS, "4.2 Normalisation position", "pre-norm", "pre_norm"),
    M(ITERATIONS, "Architecture table", "ALiBi", "ALiBi"),
    M(ITERATIONS, "Architecture table", "relative positions (T5)", "RelativeBuckets", "or one table for a stack: `SharedBias`"),
    M(ITERATIONS, "Architecture table", "relative positions (Gopher, Transformer-XL)", "TransformerXL"),
    M(ITERATIONS, "Architecture table", "disentangled positions (DeBERTa)", "Disentangled"),
    M(ITERATIONS, "Architecture table", "squared ReLU", "FeedForward", '`activation = "relu_squared"`'),
    M(ITERATIONS, "Architecture table", "RMS pre-norm and post-norm together", "sandwich"),
    M(ATTENTION, "3 Attention", "self-attention, multi-head attention", "Attention"),
    M(ATTENTION, "3 Attention", "cross-attention", "CrossAttention"),
    M(ATTENTION, "3.4 Causal masking", "causal mask", "Causal"),
    M(ATTENTION, "4 Decoder block", "the block", "anyformer.parts.layers.block:Block"),
    M(ATTENTION, "5 Full LLM architecture", "embedding, layers, head", "anyformer.model:decoder_only"),
    M(
        ATTENTION,
        "7 Original Transformer and modern LLMs",
        "both columns of the table",
        "anyformer.catalogue.original:original",
    ),
    M(ATTENTION, "8.2 Autoregressive inference", "prefill and decode", "anyformer.generation:continuations"),
    M(ATTENTION, "11 Feed-forward SwiGLU", "SwiGLU with biases", "FeedForward", '`bias = ("gate", "up")`'),
    M(ATTENTION, "13 Mixture of experts", "E networks and a router", "Experts"),
    M(LATER, "down the layers", "hyper-connections", "HyperConnections", "`Stack(streams=...)`"),
    M(LATER, "down the layers", "attention residuals", "AttentionResiduals", "`Stack(streams=...)`"),
    M(LATER, "down the layers", "manifold-constrained hyper-connections", "ManifoldConnections", "`Stack(streams=...)`"),
    M(LATER, "down the layers", "independent hyper-connections", "IndependentConnections", "`Stack(streams=...)`"),
    M(
        LATER,
        "down the layers",
        "alternating updates (AltUp)",
        "AlternatingUpdates",
        '`Stack(streams=...)`, `Step(residual="inactive")`',
    ),
    M(LATER, "down the layers", "residuals of low rank (LAuReL)", "LowRankResidual", '`Step(residual="none")`'),
    M(LATER, "down the layers", "value residual", "ValueResidual", "`Projection(adjust=ValueResidual(...))`"),
    M(LATER, "down the layers", "embedding and U-Net skips", "Skip", '`Branch(gain=Gain(per="branch", initial=0.0))`'),
    M(LATER, "down the layers", "layers that loop", "Stack", '`order = "layer*6"`, `shared_weights = ("layer",)`'),
    M(LATER, "down the layers", "layers that loop, what enters them added again", "Looped", "`Looped(8, 20, 2).stack(...)`"),
    M(
        LATER,
        "down the layers",
        "loops with messages of the pass before",
        "LoopedResiduals",
        "`Stack(streams=...)`, `MessageGate`",
    ),
    M(
        LATER,
        "down the layers",
        "steps that go a share of the way (nGPT)",
        "ScaledGain",
        "`Step(interpolation=ScaledGain(...))`",
    ),
    M(
        LATER,
        "down the layers",
        "sums of earlier blocks for queries, keys and values each",
        "SideInputs",
        "`Projection(adjust=SideInputs(...))` under `AttentionResiduals`",
    ),
    M(
        LATER,
        "down the layers",
        "residuals scaled by depth",
        "anyformer.parts.layers.step:Step",
        '`residual_scale = "by_layer"`',
    ),
    M(LATER, "down the layers", "cycles with a stream each", "Constant", '`Skip(variant=...)`, `Step(residual="detached")`'),
    M(
        LATER,
        "down the layers",
        "LoRA of each layer beside shared weights",
        "LayerLoRA",
        "`Projection(adjust=ProjectionLoRA(...))`, `FeedForward(lora=...)`",
    ),
    M(LATER, "down the layers", "a block that layers share, beside the stream", "Block", '`output = "aside"`, read by `Skip`'),
    M(LATER, "down the layers", "the embeddings read again by attention", "Joined", "`Projection(adjust=Joined())`"),
    M(LATER, "embeddings", "a table of each layer", "LayerEmbedding"),
    M(
        LATER,
        "embeddings",
        "a table of tokens for the values of a layer",
        "ValueEmbedding",
        "`Projection(adjust=ValueEmbedding(...))`",
    ),
    M(
        LATER,
        "embeddings",
        "tables of hashed n-grams beside the embedding",
        "HashedNgrams",
        "with `Ngrams`, in the first layer",
    ),
    M(LATER, "embeddings", "a memory of hashed n-grams that the stream gates", "Engram", "with `Ngrams`, at a few layers"),
    M(LATER, "embeddings", "per-layer embeddings that project the input", "LayerInputs", "with `LayerInput` in the layers"),
    M(LATER, "embeddings", "trigrams, and a table narrower than the stream", "NarrowTable", "`Embedding(narrow=...)`"),
    M(LATER, "embeddings", "places in a tree of tags", "TreePlacedEmbedding", "paths of a call as `types`"),
    M(LATER, "within a block", "a short convolution anywhere", "LocalConvolution"),
    M(
        LATER,
        "within a block",
        "span-based dynamic convolution",
        "SpanConvolution",
        "`Attention(combine=SpanConvolution())`",
    ),
    M(LATER, "within a block", "filters over what branches give", "ResidualConvolution", "`Branch(residual_convolution=...)`"),
    M(
        LATER,
        "within a block",
        "filters over keys and values, by taps of the token",
        "SideConvolution",
        '`Projection(adjust=SideConvolution(taps="token"))`',
    ),
    M(LATER, "within a block", "bottleneck with several networks", "Bottleneck"),
    M(LATER, "within a block", "norms to length 1", "UnitNorm"),
    M(LATER, "within a block", "learned factors of queries of length 1", "QueryGain", "`Projection(adjust=QueryGain())`"),
    M(LATER, "within a block", "a learned factor within an output gate", "GainedGate", "`Attention(combine=GainedGate())`"),
    M(
        LATER,
        "within a block",
        "queries and keys of bounded length",
        "LengthClip",
        "`Projection(adjust=LengthClip(bound=8.0))`",
    ),
    M(LATER, "within a block", "sinks by the query's token", "TokenSink", "`Attention(weigh=TokenSink())`"),
    M(LATER, "within a block", "a SwiGLU with bounds that bend", "SoftCaps", "`FeedForward(caps=SoftCaps())`"),
    M(LATER, "within a block", "a temperature behind a floor", "LateTemperature", "`Attention(place=LateTemperature())`"),
    M(LATER, "within a block", "a gain and a bias in the place of a norm", "Affine"),
    M(LATER, "within a block", "dynamic tanh in the place of a norm", "DynamicTanh"),
    M(LATER, "within a block", "norms gated by their input", "GatedNorm", "`norm_before = GatedNorm(rank=16)`"),
    M(LATER, "within a block", "an adapter for each language behind a norm", "AdaptedNorm"),
    M(LATER, "within a block", "norms that know a delay", "DelayNorm"),
    M(LATER, "within a block", "grouped projections of attention", "HeadGroups", "`Projection(grouped=HeadGroups(query=4))`"),
    M(LATER, "within a block", "grouped feed-forward networks", "NetworkGroups", "`FeedForward(grouped=NetworkGroups(up=4))`"),
    M(
        LATER,
        "within a block",
        "sparse activations (statistical top-k)",
        "StatisticalTopK",
        "`FeedForward(sparse=StatisticalTopK())`",
    ),
    M(LATER, "within a block", "talking heads", "TalkingHeads", "`Attention(weigh=TalkingHeads())`"),
    M(LATER, "within a block", "multi-token attention", "MultiTokenWeights", "`Attention(weigh=MultiTokenWeights())`"),
    M(LATER, "within a block", "exclusive self-attention", "Exclusive", "`Attention(combine=Exclusive())`"),
    M(
        LATER,
        "within a block",
        "a convolution of values beside attention",
        "ValueConvolution",
        "`Attention(combine=ValueConvolution())`",
    ),
    M(
        LATER,
        "within a block",
        "relative logits that the query's content decides",
        "RelativeLogits",
        "`Score(terms=RelativeLogits())`",
    ),
    M(
        LATER,
        "within a block",
        "relative logits of bounded states",
        "ClippedRelativeLogits",
        "`Score(terms=ClippedRelativeLogits())`",
    ),
    M(LATER, "within a block", "forgetting gate", "ForgettingGate", "`Score(terms=ForgettingGate())`"),
    M(LATER, "within a block", "sigmoid attention", "SigmoidWeights", "`Attention(weigh=SigmoidWeights())`"),
    M(LATER, "within a block", "softpick in place of softmax", "Softpick", "`Attention(weigh=Softpick())`"),
    M(LATER, "within a block", "blocks of keys chosen per query", "BlockIndexer", "`Score(choice=BlockIndexer())`"),
    M(LATER, "within a block", "mixture of block attention (MoBA)", "MeanKeys", "`Score(choice=MeanKeys())`"),
    M(
        LATER,
        "within a block",
        "a window beside compressed entries, all or chosen",
        "CompressedAttention",
        "`compressor = Compressor(...)`, `choice = EntryIndexer(...)`",
    ),
    M(LATER, "within a block", "an output projection in groups", "GroupedOutput", "`CompressedAttention(output=...)`"),
    M(LATER, "within a block", "experts by a table of tokens", "TokenTable", "`Router(choice=TokenTable(vocab=...))`"),
    M(LATER, "within a block", "Fourier transforms in place of attention", "FourierMixing"),
    M(LATER, "within a block", "test-time training with a linear map", "TTTLinear"),
    M(LATER, "within a block", "log-linear attention, a Fenwick tree of states", "LogLinearAttention"),
    M(LATER, "within a block", "RWKV-7, a generalised delta rule", "RWKV7", "with `RWKV7ChannelMix` in the block"),
    M(
        LATER,
        "within a block",
        "a state of complex numbers by the trapezoidal rule",
        "Mamba3",
        "`angles` of its keys turn; one input and one output per head, not the MIMO form",
    ),
    M(
        LATER,
        "within a block",
        "gates by feature (GLA), and keys that are what is forgotten (HGRN2)",
        "GatedLinearAttention",
        "`rank = 16, temperature = 16`; `keys = \"complement\"`",
    ),
    M(LATER, "within a block", "softmax over a fixed number of slots (GSA)", "GatedSlotAttention"),
    M(LATER, "within a block", "a delta rule with feedback and a corrected query", "Comba"),
    M(LATER, "within a block", "a delta rule that erases and writes by feature (GDN-2)", "GatedDelta2"),
    M(LATER, "within a block", "least squares at every token, by conjugate gradients (MesaNet)", "MesaLayer"),
    M(LATER, "within a block", "keys reflected by every token since (PaTH)", "PathAttention", "without its forgetting gate"),
    M(LATER, "within a block", "softmax weights that a second query corrects", "Parallax", "`Attention(weigh=Parallax())`"),
    M(LATER, "within a block", "values by the delta rule (DeltaFormer)", "DeltaValues", "`Attention(memory=DeltaValues())`"),
    M(LATER, "within a block", "an LSTM with exponential gates", "SLSTM", "its tokens go one by one"),
    M(LATER, "down the layers", "gates to the values of the first layer", "ValueGate", "`RWKV7(value_gate=...)`"),
)


def page() -> str:
    """The whole page."""
    lines = [
        "# Mechanisms, and the parts that they are",
        "",
        "The mechanisms of [the notes that the project started from](notes.md), in their order, with their parts and how to ask for",
        "them. The last column is the first paragraph of the part's own documentation. The last table has mechanisms that",
        "are in no note.",
        "",
        "The table holds what an architecture is made of. What the notes say of tokenizers, number formats, objectives, fine-tuning,",
        "distillation, processes that work together and the reckoning of costs is no part of one: [train.md](../train.md) and",
        "[costs.md](../costs.md) say what of it there is.",
        "",
        "Written by `python docs/make_parts.py` from the code.",
        "",
    ]
    for note in dict.fromkeys(mechanism.note for mechanism in MECHANISMS):
        lines += [f"## {note}", "", "| section | mechanism | part | how | what it is |", "|---|---|---|---|---|"]
        lines += [_row(mechanism) for mechanism in MECHANISMS if mechanism.note == note]
        lines.append("")
    return "\n".join(lines)


def _row(mechanism: Mechanism) -> str:
    module, _, name = mechanism.where.rpartition(":")
    found = getattr(importlib.import_module(module or "anyformer.parts"), name)
    first = (inspect.getdoc(found) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
    file = Path(inspect.getsourcefile(inspect.unwrap(found)) or "")
    link = f"[`{name}`](../../{file.relative_to(PAGE.parents[2])})"
    how = mechanism.how or (usage(found) if isinstance(found, type) and issubclass(found, Value) else "")
    return f"| {mechanism.section} | {mechanism.name} | {link} | {how.replace('|', chr(92) + '|')} | {first} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
