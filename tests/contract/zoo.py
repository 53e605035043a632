"""Tiny architectures that together hold every part and every field: what the contract tests run over."""

from __future__ import annotations

from zoo_conditions import CONDITIONED, MODULATED_DECODERS
from zoo_dictionaries import DICTIONARIES
from zoo_inputs import ALONE, NARROW_DECODERS, NARROW_ENCODERS, SOURCES, TEXT_PAIRS
from zoo_recurrent import GATED_DELTA, HYBRIDS, MIXERS

from anyformer.catalogue.gpt import gpt2
from anyformer.catalogue.llama import llama
from anyformer.catalogue.original import original
from anyformer.describe import Named, change_all
from anyformer.model import Architecture, decoder_only, encoder_decoder, encoder_only
from anyformer.parts import (
    RWKV7,
    AdaptedNorm,
    Affine,
    ALiBi,
    AlternatingUpdates,
    Attention,
    AttentionExperts,
    AttentionResiduals,
    BatchNorm,
    Bidirectional,
    Block,
    BlockIndexer,
    BlockWindow,
    Bottleneck,
    Branch,
    Capacity,
    Causal,
    ChannelCrossAttention,
    Chunk,
    Clip,
    ClippedRelativeLogits,
    Collisions,
    CompressedAttention,
    Compressor,
    Constant,
    CrossAttention,
    DelayNorm,
    DeltaValues,
    Differential,
    Disentangled,
    DynamicScaling,
    DynamicTanh,
    EluPlusOne,
    Embedding,
    Engram,
    EntryIndexer,
    Exclusive,
    Experts,
    FanIn,
    FeedForward,
    Fixed,
    ForgettingGate,
    FourierMixing,
    Gain,
    GainedFirst,
    GainedGate,
    Gate,
    GatedNorm,
    GatedResidual,
    GlobalTokens,
    GroupedLayerNorm,
    GroupedOutput,
    Groups,
    Hashed,
    HashedNgrams,
    Head,
    HeadGroups,
    HyperConnections,
    IndependentConnections,
    Indexer,
    InducedAttention,
    Initialisation,
    InputProjection,
    Joined,
    KeysFrom,
    LatentAttention,
    LatentExperts,
    Latents,
    LateTemperature,
    LayerEmbedding,
    LayerInput,
    LayerInputs,
    LayerLoRA,
    LayerNorm,
    LearnedPosition,
    LengthClip,
    LengthTemperature,
    LinearAttention,
    LinearScaling,
    Llama3Scaling,
    LogTemperature,
    LongRoPE,
    LoopedResiduals,
    LowRankConnections,
    LowRankResidual,
    ManifoldConnections,
    MaximalUpdate,
    MeanKeys,
    MessageGate,
    MixedNorm,
    MultiTokenWeights,
    NetworkGroups,
    Ngrams,
    Normal,
    OutputGate,
    Parallax,
    ParallelPrediction,
    PooledIndexer,
    PowerTemperature,
    Prefix,
    Projection,
    ProjectionLoRA,
    Proportional,
    QKNorm,
    QueryGain,
    RelativeBuckets,
    RelativeLogits,
    RelativeTable,
    Renormalise,
    ResidualConvolution,
    RMSNorm,
    Rotary,
    Router,
    RowCapacity,
    RWKV7ChannelMix,
    Sampled,
    ScaledGain,
    ScaledResidual,
    Score,
    ScoreCorrectionBias,
    SequentialPrediction,
    SharedBias,
    SharedExpert,
    SharedIndex,
    ShortConvolution,
    SideConvolution,
    SideInputs,
    SigmoidWeights,
    SinusoidalPosition,
    Skip,
    SoftCaps,
    Softmax,
    Softpick,
    SpanConvolution,
    SparseMixer,
    SpatialCrossAttention,
    Stack,
    StatisticalTopK,
    Step,
    Strided,
    SubNorm,
    TalkingHeads,
    TokenSink,
    TokenTable,
    TopK,
    TransformerXL,
    TruncatedNormal,
    UnitNorm,
    UnitScaledUpdate,
    ValueBias,
    ValueConvolution,
    ValueEmbedding,
    ValueGate,
    ValueNorm,
    ValueResidual,
    ValueScale,
    VerticalStride,
    VirtualTokens,
    Window,
    Xavier,
    YaRN,
    output_norm,
    parallel,
    post_norm,
    pre_norm,
    residual,
    sandwich,
    stack,
)
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.testing.around import LOUD, VOCAB, WIDTH
from anyformer.testing.traits import recurrent

RMS, LAYER = RMSNorm(), LayerNorm()
ALL = ("query", "key", "value", "output")


def _decoder(*blocks, **more) -> Architecture:
    more = {"final_norm": RMS, "head": Head(), "initialisation": LOUD} | more
    return decoder_only(Embedding(vocab=VOCAB), WIDTH, blocks, **more)


def _remembering(*memories) -> Architecture:
    """A layer for each memory, which stands in a step of its own before a network, then one of attention."""
    own = pre_norm(RMS, FEED)
    steps = [Step(branches=Named(ngrams=Branch(sublayer=each))) for each in memories]
    return _decoder(*[own.but(steps=(step, *own.steps)) for step in steps], pre_norm(RMS, SELF, FEED))


def _llama(**changes) -> Architecture:
    base = llama(width=WIDTH, depth=2, heads=4, kv_heads=4, ffn=20, vocab=VOCAB)
    return change_all(base.but(initialisation=LOUD), changes)


def _at(**changes) -> dict:
    return {f"decoder.layer.attention.{name}": value for name, value in changes.items()}


FEED = FeedForward(width=20)
PLAIN_FEED = FeedForward(width=20, activation="relu", gated=False, bias=("up", "down"))
SELF, BOTH = Attention(heads=4, place=Rotary()), Attention(heads=4, mask=Bidirectional())
SCALED = SELF.but(rotary=None, gate=Gate(bias="head"), temperature=PowerTemperature(power=0.7, span=3, shift=0))
LOCAL, GLOBAL = (
    pre_norm(RMS, Attention(heads=4, kv_heads=2, mask=mask, place=Rotary()), FEED) for mask in (Window(size=4), Causal())
)

SELF_AND_FEED = pre_norm(RMS, SELF, FEED)


def sides(depth: str, norms: str = "each") -> Block:
    """A layer whose queries, keys and values have inputs of their own."""
    attention = SELF.but(kv_heads=2, side_inputs=SideInputs(norm=RMSNorm(eps=1e-2), depth=depth, norms=norms))
    return change_all(pre_norm(RMS, attention, FEED), {"attention.norm_before": None})


def _looped(order: str, **streams) -> Architecture:
    """Layers of which those in parentheses are computed several times."""
    variants = {
        "first": SELF_AND_FEED,
        "gated": sides("gated", "shared"),
        "read": sides("read"),
        "again": pre_norm(LAYER, SELF, FEED),
        "last": sides("read", "shared"),
    }
    stack = Stack(
        variants=Named({name: block for name, block in variants.items() if name in order}),
        order=order,
        shared_weights=tuple(name for name in ("gated", "read", "again") if name in order),
        streams=LoopedResiduals(**streams),
        final_norm=RMS,
    )
    return _decoder(SELF_AND_FEED).but(decoder=stack)


STORED = ScaledGain(initial=1.5, stored=0.4)


def _on_sphere(name, sublayer) -> Step:
    """A step from a vector of length 1 a share of the way to another."""
    branch = Branch(sublayer=sublayer, norm_after=UnitNorm())
    interpolation = ScaledGain(initial=0.3, stored=0.4)
    return Step(norm_before=UnitNorm(), branches=Named({name: branch}), residual="normed", interpolation=interpolation)


SPHERE = Block(
    steps=(
        _on_sphere(
            "attention",
            SELF.but(
                kv_heads=2,
                qk_norm=QKNorm(norm=UnitNorm()),
                query_gain=QueryGain(initial=1.5, stored=0.4),
                gained_gate=GainedGate(gain=STORED),
                sub_norm=UnitNorm(eps=1e-3),
            ),
        ),
        _on_sphere("feedforward", FEED.but(gains=STORED, sub_norm=UnitNorm())),
    )
)
AGAIN = Block(
    steps=(
        Step(
            norm_before=UnitNorm(),
            branches=Named(skip=Branch(sublayer=Skip(variant="first"), norm_after=UnitNorm())),
            residual="normed",
        ),
    )
)


def convolved(block: Block, convolution: ResidualConvolution) -> Block:
    """The block with a filter behind every branch."""
    return change_all(block, {f"{name}.residual_convolution": convolution for name in block.branches})


LATENT = LatentAttention(
    heads=3, kv_rank=7, nope_width=5, rope_width=4, value_width=6, norm=RMS, rotary=Rotary(pairing="adjacent")
)
INDEXER = Indexer(keep=3, heads=5, head_width=6, norm=LayerNorm(eps=1e-6), rotary=Rotary(fraction=0.67))
INDEXED = LATENT.but(q_rank=9, choice=INDEXER)
BLOCKY = Attention(
    heads=4,
    kv_heads=2,
    project=Projection(adjust=QKNorm(norm=RMS)),
    place=(Rotary(), PowerTemperature(power=0.7, span=3, shift=0)),
    score=Score(choice=BlockIndexer(block=2, keep=3, head_width=6, norm=RMS, rotary=Rotary(fraction=0.67))),
    combine=SubNorm.of(RMS),
)
BLOCKY_HEADS = Attention(
    heads=4,
    head_width=5,
    value_width=7,
    project=Projection(
        bias=ALL, adjust=(Clip(bound=0.8), ValueNorm.of(RMS), ValueScale(factor=0.7), ProjectionLoRA(rank=3, layers=1))
    ),
    score=Score(scale=0.4, choice=BlockIndexer(block=3, keep=2, local=0, head_width=5)),
    combine=(OutputGate(), Exclusive()),
)
BLOCKY_VALUES = Attention(
    heads=4,
    kv_heads=2,
    project=Projection(grouped=HeadGroups(query=2), adjust=ValueResidual(variant="first")),
    score=Score(choice=BlockIndexer(block=4, keep=3, head_width=4)),
    weigh=Softmax(dropout=0.1),
)
MEAN_KEYS = Attention(
    heads=4,
    kv_heads=2,
    project=Projection(bias=ALL, adjust=QKNorm(norm=RMS)),
    place=Rotary(),
    score=Score(choice=MeanKeys(block=2, keep=3)),
    combine=OutputGate(),
)
COMPRESSED = CompressedAttention(
    heads=4, head_width=6, window=3, q_rank=9, norm=RMS, head_norm=RMSNorm(gain="none"),
    rotary=Rotary(fraction=0.67, place="last", pairing="adjacent"), sink="head", output=GroupedOutput(groups=2, rank=5),
    compressor=Compressor(block=2, span=2, norm=RMS),
    choice=EntryIndexer(keep=2, heads=5, head_width=7, rotary=Rotary(fraction=0.6, place="last")),
)  # fmt: skip
HEAVY = COMPRESSED.but(
    window=4, q_rank=None, scale=0.4, head_norm=None, sink=None, compressor=Compressor(block=3), choice=None, output=None
)
LATEST = COMPRESSED.but(rotary=None, compressor=None, choice=None)
SHARES_INDEX = LATENT.but(q_rank=9, choice=SharedIndex(variant="full", keep=3))


def _mixer(sublayer, *, beside: bool) -> Architecture:
    """Two layers of this mixer, with one of attention between them if `beside`."""
    block = pre_norm(RMS, sublayer, FEED)
    return _decoder(block, *([pre_norm(RMS, SELF, FEED)] if beside else []), block)


OWN_KEYS = pre_norm(RMS, Attention(heads=4, kv_heads=2, mask=Window(size=4), place=Rotary()), FEED)
MIXED_VALUES = pre_norm(
    RMS,
    Attention(
        heads=4, kv_heads=2, project=Projection(adjust=ValueResidual(variant="first", own=0.6, other=0.7)), place=Rotary()
    ),
    FEED,
)
PAIRED = Attention(heads=4, kv_heads=2, mask=Window(size=4), place=Rotary(), weigh=Differential())
GOOSE = RWKV7(heads=4, head_width=5, decay_rank=4, rate_rank=4, gate_rank=6, eps=0.1)
GOOSE_FIRST = pre_norm(LAYER, GOOSE, RWKV7ChannelMix(width=20))
ROWS = ValueEmbedding(vocab=VOCAB)
NGRAMS = Ngrams(vocab=VOCAB, rows=7, heads=2)
GATED_ROWS = ROWS.but(gate=Gate(per="head"), scale=2.0)
MIXED_ROWS = {"value_embedding": ROWS.but(gate=Gate(bias=True)), "value_residual": ValueResidual(variant="first")}
EMBEDDED = Step(branches=Named(embedded=Branch(sublayer=Skip(), gain=Gain(per="branch", initial=0.4))))
FIRST = Block(steps=(*pre_norm(RMS, SELF, FEED).steps, EMBEDDED))
LAST = Block(
    steps=(
        Step(branches=Named(mirrored=Branch(norm_after=RMS, sublayer=Skip(variant="first"), gain=Gain(initial=0.6)))),
        *pre_norm(RMS, SELF, FEED).steps,
    )
)
SLOW = post_norm(RMS, SELF, FEED)


def _joined(variant: str | None, *, detached: bool = False, **step) -> Block:
    """The stream and another one, behind a variant, for the next layers of a cycle."""
    return Block(steps=(Step(branches=Named(skip=Branch(sublayer=Skip(variant=variant, detached=detached))), **step),))


def _cycles(first: Constant, order: str) -> Architecture:
    """Two stacks in cycles, each with a stream of its own, of which the first cycles do not learn."""
    begin = Block(steps=(Step(branches=Named(constant=Branch(sublayer=first))),))
    joins = {"first": _joined(None, residual="detached"), "again": _joined(None), "join": _joined("slow"),
             "cut": _joined("slow", residual="detached"), "back": _joined("fast_b"),
             "kept": _joined("fast_b", detached=True)}  # fmt: skip
    variants = {"begin": begin, "fast_a": pre_norm(RMS, SELF, FEED), "fast_b": SLOW, "slow": SLOW, **joins}
    used = {name: block for name, block in variants.items() if name in order.split()}
    return _decoder(SLOW).but(
        decoder=Stack(variants=Named(used), order=order, shared_weights=("fast_a", "fast_b", "slow")),
        initialisation=Initialisation(matrix=Normal(std=0.1), embedding=Normal(std=1.0)),
    )


OWN_RANKS = LayerLoRA(rank=3, layers=2)
BESIDE = Attention(
    heads=4, head_width=6, project=Projection(adjust=(Joined(norm=RMS), ProjectionLoRA.of(OWN_RANKS))), score=Score(scale=0.5)
)
ASIDE = Block(
    steps=(
        Step(residual="none", branches=Named(attention=Branch(sublayer=BESIDE))),
        Step(residual="none", branches=Named(feedforward=Branch(norm_before=RMS, sublayer=FEED.but(lora=OWN_RANKS)))),
    ),
    output="aside",
)
READS_ASIDE = Block(
    steps=(
        Step(branches=Named(shared=Branch(sublayer=Skip(variant="aside", projected=True)))),
        Step(
            norm_before=RMS,
            branches=Named(attention=Branch(sublayer=SELF), feedforward=Branch(sublayer=PLAIN_FEED)),
            residual="block",
        ),
    )
)
SHARED_KEYS = pre_norm(
    RMS,
    Attention(
        heads=4,
        kv_heads=2,
        mask=Window(size=4),
        project=Projection(adjust=QKNorm(norm=RMS)),
        place=Rotary(),
        memory=KeysFrom(variant="own"),
    ),
    FEED,
)

DEEPSEEK = Router(
    score="sigmoid",
    choice=TopK(groups=Groups(count=3, keep=2, score="top_2"), correction=ScoreCorrectionBias()),
    renormalise=Renormalise(),
    scale=2.5,
)
SMALL = SharedExpert(feedforward=FeedForward(width=10))
MOA = AttentionExperts(experts=4, chosen=2, kv_heads=2, head_width=6, rotary=Rotary())


_GATED_INPUT = Branch(sublayer=LayerInput(width=5), norm_after=RMS)
ALTERNATING = Block(
    steps=(
        Step(
            norm_before=RMS,
            branches=Named(
                attention=Branch(sublayer=SELF, norm_after=RMS, multiplier=0.7),
                laurel=Branch(sublayer=LowRankResidual(rank=3, norm=RMSNorm(eps=1e-2)), multiplier=0.7),
            ),
            residual_scale=0.7,
        ),
        Step(branches=Named(feedforward=Branch(norm_before=RMS, sublayer=FEED, norm_after=RMS))),
        Step(norm_before=Affine(bias=False), branches=Named(layer_input=_GATED_INPUT), residual="inactive"),
    )
)
"""A layer of Gemma 3n."""
ALTERNATING_LATE = Block(
    steps=(
        Step(branches=Named(attention=Branch(norm_before=RMS, sublayer=SELF, added="after_block")), residual="block"),
        Step(branches=Named(feedforward=Branch(norm_before=RMS, sublayer=FEED)), gain=Gain(initial=0.9)),
        Step(
            norm_before=RMS,
            branches=Named(layer_input=Branch(sublayer=LayerInput(width=4)), other=Branch(sublayer=PLAIN_FEED)),
            norm_branches=RMS,
            residual="inactive",
        ),
        Step(branches=Named(again=Branch(norm_before=RMS, sublayer=SELF)), residual="inactive"),
    )
)
LAUREL, LAUREL_NORMED = (
    Block(
        steps=tuple(
            Step(
                branches=Named(
                    {
                        name: Branch(norm_before=RMS, sublayer=sublayer),
                        f"{name}_residual": Branch(sublayer=LowRankResidual(rank=4, norm=norm)),
                    }
                ),
                residual="none",
            )
            for name, sublayer in (("attention", SELF), ("feedforward", FEED))
        )
    )
    for norm in (None, RMS)
)
"""The residual beside each sublayer."""


def _experts(**fields) -> Architecture:
    return _decoder(pre_norm(RMS, SELF, Experts(**{"experts": 6, "chosen": 2, "width": 12} | fields)))


# What single families of published models do.
PUBLISHED_EXPERTS = {
    "kolibri": {
        "router": Router(
            score="sigmoid", choice=TopK(by="logits", correction=ScoreCorrectionBias()), renormalise=Renormalise(eps=0.0)
        ),
        "shared": SMALL,
    },
    "gemma4": {
        "norm": RMSNorm(gain="weight"),
        "router": Router(
            norm=RMSNorm(eps=1e-6), multiplier="inverse_sqrt_width", renormalise=Renormalise(eps=0.0), expert_scale=True
        ),
    },
    "laguna": {
        "router": Router(score="sigmoid", softcap=0.7, choice=TopK(correction=ScoreCorrectionBias(rate=0.01)), scale=1.5)
    },
    "longcat": {
        "experts": 3,
        "identity_experts": 4,
        "chosen": 3,
        "bias": ["up", "down"],
        "router": Router(choice=TopK(correction=ScoreCorrectionBias()), scale=6.0),
    },
    "gate_multiplied": {"gate_multiplier": 1.7},
    "identity_input_weighed": {"experts": 2, "identity_experts": 2, "weigh": "input", "chosen": 3},
    "cohere2": {"router": Router(score="sigmoid", choice=TopK(by="logits")), "shared": SMALL.but(join="mean")},
    "gpt_oss": {
        "router": Router(over="chosen", bias=True, choice=TopK(by="logits")),
        "bias": ["gate", "up", "down"],
        "activation": "quick_gelu",
        "clamp": 0.6,
        "up_offset": 1.0,
    },
    "step": {
        "clamp": 0.15,
        "clamp_at": "after_activation",
        "gate_multiplier": 1.7,
        "router": Router(score="sigmoid", scale=3.0),
    },
    "axk2": {"router": DEEPSEEK.but(choice=DEEPSEEK.choice.but(groups=DEEPSEEK.choice.groups.but(others="zero")))},
    "ernie": {"router": Router(choice=TopK(correction=ScoreCorrectionBias()), renormalise=Renormalise(eps=0.0, least=0.7))},
    "phi": {"router": Router(choice=SparseMixer(margin=0.9)), "chosen": 3},
}

LATENT_EXPERTS = {
    "capped": {"activation": "sigmoid", "caps": SoftCaps(gate=0.9, up=0.7)},
    "nemotron": {
        "router": DEEPSEEK, "shared": SMALL.but(gate="sigmoid"), "latent_bias": True, "gated": False, "activation": "relu",
        "bias": ["up", "down"], "clamp": 0.6,
    },
    "muse": {
        "output_norm": GainedFirst(),
        "norm": RMSNorm(gain="weight"), "up_offset": 1.0, "gate_multiplier": 1.7, "clamp": 0.15, "clamp_at": "after_activation",
        "router": Router(renormalise=Renormalise(eps=0.0)),
    },
    "identity": {"experts": 3, "identity_experts": 2, "weigh": "input", "chosen": 3},
}  # fmt: skip

DECODERS = {
    "llama": _llama(),
    "grouped": _llama(**_at(kv_heads=2)),
    "multi_query": _llama(**_at(kv_heads=1)),
    "head_width": _llama(**_at(head_width=10, kv_heads=2)),
    "biases": _llama(**_at(bias=list(ALL)), **{"decoder.layer.feedforward.bias": ["gate", "up", "down"]}),
    "grouped_projections": _llama(
        **_at(kv_heads=2, grouped=HeadGroups(query=4, key=2, value=3, output=2), bias=["query", "output"]),
        **{"decoder.layer.feedforward.grouped": NetworkGroups(gate=2, up=4, down=2)},
    ),
    "grouped_relative": _llama(
        **_at(rotary=None, score_bias=Disentangled(span=8, max_distance=16), kv_heads=2, grouped=HeadGroups(query=2, key=3)),
        **{"decoder.relative": RelativeTable(span=8)},
    ),
    "one_bias": _llama(**_at(bias=["value"])),
    "window": _llama(**_at(mask=Window(size=4))),
    "window_1": _llama(**_at(mask=Window(size=1))),
    "softcap_scale_qk_norm": _llama(**_at(softcap=2.0, scale=0.4, qk_norm=QKNorm(norm=RMSNorm(eps=1e-3)))),
    "qk_layer_norm": _llama(**_at(qk_norm=QKNorm(norm=LayerNorm(bias=False)), kv_heads=2)),
    "rotary_adjacent": _llama(
        **{"decoder.layer.attention.rotary.pairing": "adjacent", "decoder.layer.attention.rotary.theta": 100.0}
    ),
    "rotary_partial_fp32": _llama(
        **{"decoder.layer.attention.rotary.fraction": 0.67, "decoder.layer.attention.rotary.rotate_in": "fp32"}
    ),
    "no_position": _llama(**_at(rotary=None)),
    "derived_factors": _llama(
        head=Head(tied=True, scale="inverse_sqrt_width"),
        initialisation=LOUD.but(residual_scale="inverse_sqrt_2_depth"),
        **{"embedding.scale": "sqrt_width"},
    ),
    "head_options": _llama(head=Head(tied=True, bias=True, scale=0.5, softcap=3.0), **{"embedding.scale": 4.9}),
    "bottleneck": _decoder(
        post_norm(
            Affine(),
            Bottleneck(
                width=12,
                attention=SELF.but(bias=ALL, heads=2, kv_heads=1),
                network=PLAIN_FEED,
                networks=2,
                norm=Affine(),
                bias=True,
            ),
        ),
        pre_norm(RMS, Bottleneck(width=8, attention=SELF.but(mask=Window(size=3), value_width=3), network=FEED)),
    ),
    "gain_variants": _decoder(
        pre_norm(RMSNorm(gain="one_plus_weight", cast="after_gain"), SELF, FEED),
        pre_norm(RMSNorm(gain="none"), SELF, FEED),
        pre_norm(RMSNorm(bias=True), SELF, FEED),
        pre_norm(LayerNorm(gain="one_plus_weight", cast="before_gain"), SELF, FEED),
    ),
    "gpt2": gpt2(width=WIDTH, depth=2, heads=3, vocab=VOCAB, length=32, dropout=0.0).but(initialisation=LOUD),
    "learned_offset": _decoder(pre_norm(LAYER, BOTH.but(mask=Causal()), FEED), position=LearnedPosition(length=40, offset=2)),
    "sinusoids": _decoder(pre_norm(LAYER, BOTH.but(mask=Causal()), FEED), position=SinusoidalPosition()),
    "sinusoids_cosines_first": _decoder(pre_norm(LAYER, SELF, FEED), position=SinusoidalPosition(layout="cosines_first")),
    "sinusoids_halves": _decoder(
        pre_norm(LAYER, BOTH.but(mask=Causal()), FEED),
        position=SinusoidalPosition(layout="halves", spacing="inclusive", offset=2, theta=500.0, length=40, scale=0.4),
    ),
    "post_norm": _decoder(post_norm(LAYER, SELF, PLAIN_FEED), final_norm=None, input_norm=LAYER),
    "sandwich": _decoder(sandwich(RMS, SELF, FEED)),
    "output_norm": _decoder(output_norm(RMS, SELF, FEED)),
    "parallel_one_norm": _decoder(parallel(LAYER, SELF, FEED)),
    "parallel_two_norms": _decoder(parallel(LAYER, SELF, FEED, shared_norm=False)),
    "multiplier": change_all(
        _llama(), {"decoder.layer.attention.multiplier": 0.22, "decoder.layer.feedforward.multiplier": 2.0}
    ),
    "layer_scale": change_all(
        _llama(),
        {
            "decoder.layer.attention.gain": Gain(initial=0.3),
            "decoder.layer.feedforward.gain": Gain(per="branch", initial=0.7, bounded=True),
        },
    ),
    "deep_norm": _decoder(
        Block(steps=(Step(branches=Named(attention=Branch(sublayer=SELF)), norm_after=LAYER, residual_scale=1.7),)),
        Block(
            steps=(
                Step(norm_before=RMS, branches=Named(feedforward=Branch(sublayer=FEED)), residual="normed", residual_scale=0.6),
            )
        ),
    ),
    "residual_by_layer": _decoder(
        *[
            Block(
                steps=(
                    Step(branches=Named(attention=Branch(norm_before=RMS, sublayer=SCALED)), residual_scale="by_layer"),
                    Step(branches=Named(feedforward=Branch(sublayer=FEED, multiplier=0.7)), residual_scale="by_layer"),
                )
            )
        ]
        * 2
    ),
    "attention_experts": _decoder(pre_norm(RMS, MOA, FEED), pre_norm(RMS, MOA.but(experts=3), FEED)),
    "attention_experts_one_head": _decoder(
        pre_norm(
            RMS,
            MOA.but(kv_heads=1, chosen=3, router=DEEPSEEK.but(choice=TopK()), rotary=None, mask=Window(size=4), scale=0.3),
            FEED,
        )
    ),
    "attention_experts_hashed": _decoder(pre_norm(RMS, MOA.but(router=Router(score="equal", choice=Hashed())), FEED)),
    "branch_bias": _decoder(
        Block(
            steps=(
                Step(branches=Named(attention=Branch(norm_before=RMS, sublayer=SELF, output_bias=True))),
                Step(branches=Named(feedforward=Branch(sublayer=FEED, output_bias=True, norm_after=RMS, multiplier=0.7))),
            )
        )
    ),
    "shortcut_experts": _decoder(
        Block(
            steps=(
                Step(branches=Named(attention=Branch(norm_before=RMS, sublayer=SELF))),
                Step(
                    norm_before=RMS,
                    branches=Named(
                        experts=Branch(sublayer=Experts(experts=4, chosen=2, width=12), multiplier=0.7, added="after_block"),
                        feedforward=Branch(sublayer=FEED),
                    ),
                    norm_branches=RMS,
                ),
                Step(branches=Named(second=Branch(norm_before=RMS, sublayer=LATENT, added="after_block"))),
                Step(branches=Named(third=Branch(sublayer=PLAIN_FEED)), norm_after=RMS),
            )
        )
    ),
    "step_gain": _decoder(
        Block(
            steps=(
                Step(branches=Named(attention=Branch(norm_before=RMS, sublayer=SELF)), gain=Gain(initial=0.6, bounded=True)),
                Step(
                    branches=Named(feedforward=Branch(norm_before=RMS, sublayer=FEED), other=Branch(sublayer=PLAIN_FEED)),
                    norm_branches=RMS,
                    gain=Gain(per="branch", initial=0.8),
                ),
            )
        )
    ),
    "unit_sphere": _decoder(SPHERE, final_norm=None).but(
        decoder=Stack(
            variants=Named(first=SPHERE, join=AGAIN, looped=SPHERE.but(steps=SPHERE.steps[::-1]), last=SPHERE),
            order="first (join looped)*2 last",
            shared_weights=("looped",),
            final_norm=UnitNorm(),
        ),
        head=Head(gain=ScaledGain(initial=2.0, stored=0.5)),
    ),
    "gains_stored_otherwise": _decoder(
        Block(
            steps=(
                Step(
                    branches=Named(
                        attention=Branch(
                            norm_before=UnitNorm(eps=1e-2, gain="weight", bias=True, cast="after_gain"),
                            sublayer=SELF.but(
                                gained_gate=GainedGate(per="head", activation="tanh", bias=True, rank=3, gain=STORED)
                            ),
                        ),
                        other=Branch(sublayer=PLAIN_FEED.but(gains=STORED)),
                    ),
                    norm_branches=RMS,
                    interpolation=STORED,
                    gain=Gain(initial=0.8),
                ),
            )
        ),
        pre_norm(UnitNorm(gain="one_plus_weight"), SELF.but(gained_gate=GainedGate(bias="head"), query_gain=QueryGain()), FEED),
        head=Head(tied=True, bias=True, gain=STORED, scale=0.5, softcap=3.0),
    ),
    "streams": _llama(**{"decoder.streams": HyperConnections(count=3)}),
    "streams_static": _decoder(
        parallel(RMS, SELF, FEED), pre_norm(RMS, SELF, FEED), streams=HyperConnections(count=2, dynamic=False)
    ),
    "attention_residuals": _decoder(
        pre_norm(RMS, SELF, FEED),
        pre_norm(RMS, SELF, PLAIN_FEED),
        streams=AttentionResiduals(count=5, norm=RMS),
    ),
    "attention_residuals_of_sides": _decoder(
        sides("read"),
        pre_norm(RMS, SELF, FEED),
        sides("read", "shared"),
        streams=AttentionResiduals(block=4, count=3, norm=RMSNorm(gain="none"), values="normed", scale=0.4),
    ),
    "looped_residuals": _looped("first last (gated read)*2 last", block=2, before=2, looped=2, count=8, scale=0.5),
    "looped_residuals_by_blocks": _looped("first*2 (gated again)*2 last", block=4, count=5, norm=RMSNorm(gain="none")),
    "looped_residuals_thrice": _looped(
        "first (read)*3", block=2, passes=3, count=4, values="normed", gate=MessageGate(rank=5, eps=1e-2)
    ),
    "attention_residuals_by_blocks": _decoder(
        *[pre_norm(RMS, SELF, FEED)] * 2,
        pre_norm(RMS, SELF, PLAIN_FEED),
        streams=AttentionResiduals(block=4, count=3, norm=RMSNorm(gain="none"), values="normed", scale=0.4),
    ),
    "streams_manifold": _llama(**{"decoder.streams": ManifoldConnections(count=3, iterations=3, eps=1e-3, norm_eps=1e-2)}),
    "streams_manifold_learned": _decoder(
        pre_norm(RMS, SELF, FEED), streams=ManifoldConnections(count=3, merge="learned", iterations=3)
    ),
    "streams_independent": _llama(
        **{"decoder.streams": IndependentConnections(count=3, magnitude=1.3, eps=1e-2, norm_eps=1e-2, merge="learned")}
    ),
    "streams_of_low_rank": _decoder(*[residual(SELF, FEED)] * 2, streams=LowRankConnections(count=3, rank=5, eps=1e-2)),
    "streams_of_low_rank_parallel": _decoder(parallel(RMS, SELF, FEED), streams=LowRankConnections(count=2, rank=7)),
    "streams_gated": _decoder(
        pre_norm(GainedFirst(first="one_plus_weight"), SELF, FEED),
        pre_norm(GainedFirst(eps=1e-3), SELF, FEED),
        streams=GatedResidual(),
    ),
    "streams_gated_several": _decoder(parallel(RMS, SELF, FEED), streams=GatedResidual(count=3, temperature=0.8, least=0.7)),
    "streams_scaled": _decoder(
        pre_norm(RMS, SELF.but(value_bias=ValueBias(), kv_heads=2), FEED),
        pre_norm(RMS, SELF.but(value_bias=ValueBias(bias=True), score_bias=ALiBi()), FEED),
        streams=ScaledResidual(),
    ),
    "streams_scaled_several": _decoder(parallel(RMS, SELF, FEED), streams=ScaledResidual(count=2)),
    "streams_independent_mean": _decoder(parallel(RMS, SELF, FEED), streams=IndependentConnections(count=2, merge="mean")),
    "streams_alternating": _decoder(
        ALTERNATING,
        pre_norm(RMS, SELF, FEED),
        ALTERNATING,
        layer_inputs=LayerInputs(width=5, vocab=VOCAB),
        streams=AlternatingUpdates(count=3, norm=RMSNorm(eps=1e-2)),
    ),
    "streams_alternating_shaped": _decoder(
        post_norm(LAYER, SELF, FEED),
        ALTERNATING_LATE,
        layer_inputs=LayerInputs(width=4),
        streams=AlternatingUpdates(count=2),
    ),
    "low_rank_residual": _decoder(LAUREL, LAUREL_NORMED),
    "sparse_gate": _decoder(
        pre_norm(RMS, SELF, FEED.but(sparse=StatisticalTopK(sparsity=0.6), gate_multiplier=1.3)),
        pre_norm(RMS, SELF, PLAIN_FEED.but(sparse=StatisticalTopK(sparsity=0.3))),
    ),
    "streams_manifold_mean": _decoder(
        parallel(RMS, SELF, FEED), pre_norm(RMS, SELF, FEED), streams=ManifoldConnections(merge="mean")
    ),
    "shared_layers": _llama(**{"decoder.shared_weights": ["layer"], "decoder.order": "layer*3"}),
    "shared_variant": _decoder(LOCAL, GLOBAL, LOCAL).but(
        decoder=Stack(
            variants=Named(local=LOCAL, full=GLOBAL), order="local full local*2", shared_weights=("local",), final_norm=RMS
        )
    ),
    "shared_aside": _decoder(LOCAL, final_norm=None).but(
        decoder=Stack(
            variants=Named(local=LOCAL, aside=ASIDE, reading=READS_ASIDE),
            order="(local aside reading)*2",
            shared_weights=("aside",),
            final_norm=RMS,
        )
    ),
    "low_rank_of_layers": _decoder(LOCAL, final_norm=None).but(
        decoder=Stack(
            variants=Named(
                first=pre_norm(
                    RMS,
                    Attention(heads=4, project=Projection(adjust=ProjectionLoRA.of(OWN_RANKS)), weigh=Differential()),
                    PLAIN_FEED.but(lora=OWN_RANKS),
                ),
                own=pre_norm(RMS, SELF.but(lora=OWN_RANKS.but(layers=1), values="keys"), FEED),
            ),
            order="first own first",
            shared_weights=("first",),
            final_norm=RMS,
        )
    ),
    "joined": _decoder(
        pre_norm(RMS, SELF.but(joined=Joined(), gate=Gate()), FEED),
        pre_norm(
            RMS,
            Attention(heads=4, project=Projection(adjust=Joined(variant="layer_a", norm=LAYER)), weigh=Differential()),
            FEED,
        ),
    ),
    "virtual_tokens": _llama(**_at(virtual_tokens=3, kv_heads=2)),
    "virtual_tokens_window": _llama(**_at(virtual_tokens=2, mask=Window(size=3), score_bias=ALiBi(), sink="head", softcap=3.0)),
    "layer_embedding": _decoder(
        *[
            pre_norm(RMS, SELF, FEED, LayerEmbedding(vocab=VOCAB, width=5, scale=1.3, activation=act))
            for act in ("silu", "gelu_tanh")
        ]
    ),
    "hashed_ngrams": _remembering(HashedNgrams(ngrams=NGRAMS, scale=0.7)),
    "hashed_bigrams": _remembering(
        HashedNgrams(ngrams=NGRAMS.but(longest=2, heads=1, ends=3, before=5)),
        HashedNgrams(ngrams=NGRAMS.but(shortest=3, seed=4, index=2, multiple=8)),
    ),
    "engram": _remembering(
        Engram(ngrams=NGRAMS, width=3, convolution=ShortConvolution(dilation=3, activation="silu")),
        Engram(ngrams=NGRAMS.but(index=1), width=2, norm=RMSNorm(eps=1e-3), convolution=ShortConvolution(kernel=2, dilation=2)),
    ),
    "engram_bare": _remembering(Engram(ngrams=NGRAMS.but(ends=3), width=3)),
    "layer_inputs": _decoder(
        pre_norm(RMS, SELF, FEED, LayerInput(width=5)),
        pre_norm(RMS, SELF, LayerInput(width=5, activation="silu", layer=0)),
        layer_inputs=LayerInputs(
            width=5, vocab=VOCAB, table_scale=1.7, projection_scale="inverse_sqrt_width", norm=RMSNorm(eps=1e-3), factor=0.7
        ),
        streams=HyperConnections(count=2),
    ),
    "layer_inputs_projected": _decoder(*[pre_norm(RMS, SELF, LayerInput(width=4))] * 2, layer_inputs=LayerInputs(width=4)),
    "layer_inputs_short_table": _decoder(
        pre_norm(RMS, SELF, LayerInput(width=4)), layer_inputs=LayerInputs(width=4, vocab=VOCAB - 12, beyond=3)
    ),
    "local_global": _decoder(LOCAL, LOCAL, GLOBAL, LOCAL).but(
        decoder=Stack(variants=Named(local=LOCAL, full=GLOBAL), order="(local*2 full) local", final_norm=RMS)
    ),
    "prefix": _llama(**_at(mask=Causal() | Prefix())),
    "prefix_or_window": _llama(**_at(mask=Window(size=3) | Prefix())),
    "chunk": _llama(**_at(mask=Causal() & Chunk(size=3))),
    "sparse_strided": _llama(**_at(mask=Window(size=3) | (Causal() & Strided(stride=3)))),
    "sparse_fixed": _llama(**_at(mask=Causal() & (Chunk(size=4) | Fixed(size=4, summary=2)))),
    "global_tokens": _llama(**_at(mask=Causal() & (Window(size=3) | GlobalTokens(count=2)))),
    "block_sparse": _llama(**_at(mask=Causal() & (BlockWindow(block=2, count=2) | VerticalStride(block=2, stride=3)))),
    "sink": _llama(**_at(sink="head", kv_heads=2)),
    "sink_window": _llama(**_at(sink="head", mask=Window(size=3), softcap=3.0)),
    "gate": _llama(**_at(gate=Gate(), sub_norm=RMS)),
    "gate_head": _llama(**_at(gate=Gate(per="head", activation="softplus", bias=True))),
    "clip_value_norm": _llama(**_at(clip=0.5, value_norm=RMSNorm(gain="none"), kv_heads=2)),
    "value_width": _llama(**_at(value_width=3, value_scale=0.7, kv_heads=2, virtual_tokens=2, value_norm=RMSNorm())),
    "value_width_window": _llama(
        **_at(value_width=10, mask=Window(size=3), sink="head", gate=Gate(), sub_norm=RMS, value_scale=1.5)
    ),
    "keys_as_values": _llama(**_at(values="keys", kv_heads=2, qk_norm=QKNorm(norm=RMS))),
    "qk_norm_projection": _llama(**_at(qk_norm=QKNorm(norm=RMS, over="projection"), kv_heads=2)),
    "qk_norm_each_head": _llama(**_at(qk_norm=QKNorm(norm=LayerNorm(bias=False), over="each_head"), kv_heads=2)),
    "qk_norm_after_rotary": _llama(**_at(qk_norm=QKNorm(norm=RMSNorm(gain="none"), at="after_rotary"))),
    "temperature_log": _llama(**_at(temperature=LogTemperature(strength=0.7, span=3, shift=2))),
    "temperature_length": _llama(**_at(temperature=LengthTemperature(trained=4))),
    "alibi": _llama(**_at(rotary=None, score_bias=ALiBi())),
    "alibi_six_heads": _llama(**_at(rotary=None, heads=6, kv_heads=3, score_bias=ALiBi(before_scale=True))),
    "alibi_rounded": _llama(
        **_at(rotary=None, heads=12, kv_heads=6, head_width=4, score_bias=ALiBi(before_scale=True, rounded_to="bfloat16"))
    ),
    "alibi_three_heads": _llama(**_at(rotary=None, heads=3, kv_heads=3, score_bias=ALiBi())),
    "alibi_window": _llama(**_at(rotary=None, score_bias=ALiBi(), mask=Window(size=4))),
    "buckets": _llama(**_at(rotary=None, scale=1.0, score_bias=RelativeBuckets(buckets=6, max_distance=8))),
    "buckets_shared": _llama(
        **_at(rotary=None), **{"decoder.score_bias": SharedBias(heads=4, buckets=RelativeBuckets(buckets=4, max_distance=5))}
    ),
    "transformer_xl": _llama(**_at(rotary=None, score_bias=TransformerXL(), kv_heads=2)),
    "transformer_xl_window": _llama(**_at(rotary=None, score_bias=TransformerXL(), mask=Window(size=4))),
    "late_temperature": _llama(**_at(temperature=LateTemperature(strength=0.7, floor=3), kv_heads=2)),
    "convolved_sides": _decoder(
        convolved(
            pre_norm(RMS, SELF.but(kv_heads=2, side_convolution=SideConvolution(kernel=3)), FEED), ResidualConvolution(kernel=2)
        ),
        convolved(
            output_norm(
                RMS,
                SELF.but(
                    kv_heads=2,
                    mask=Window(size=4),
                    side_convolution=SideConvolution(kernel=3, taps="token", normalised=False),
                    value_norm=RMS,
                ),
                PLAIN_FEED,
            ),
            ResidualConvolution(kernel=3, normalised=False),
        ),
    ),
    "convolved_sides_forgetting": _decoder(
        pre_norm(RMS, SELF.but(side_convolution=SideConvolution(taps="token"), forget=ForgettingGate()), FEED)
    ),
    "clipped_lengths": _decoder(
        pre_norm(
            RMS,
            SELF.but(
                rotary=None,
                kv_heads=2,
                length_clip=LengthClip(bound=1.1),
                score_bias=ClippedRelativeLogits(
                    features=3, extent=5, bound=0.9, temperature=LateTemperature(strength=0.5, floor=4)
                ),
                weigh=TokenSink(dropout=0.1),
            ),
            FEED.but(activation="sigmoid", caps=SoftCaps(gate=0.8, up=0.6), gate_multiplier=1.3),
        ),
        pre_norm(
            RMS,
            SELF.but(length_clip=LengthClip(bound=0.7), score_bias=ClippedRelativeLogits(features=2, extent=3, bound=0.5)),
            Experts(experts=4, chosen=2, width=12, activation="sigmoid", caps=SoftCaps(gate=1.5)),
        ),
    ),
    "relative_logits": _llama(**_at(score_bias=RelativeLogits(features=3, extent=5), kv_heads=2)),
    "relative_logits_window": _llama(
        **_at(rotary=None, score_bias=RelativeLogits(features=2, extent=3), mask=Window(size=4), sink="head")
    ),
    "disentangled": _llama(
        **_at(rotary=None, score_bias=Disentangled(span=8, max_distance=16), kv_heads=2, bias=["key"]),
        **{"decoder.relative": RelativeTable(span=8, norm=LAYER)},
    ),
    "disentangled_own": _llama(
        **_at(rotary=None, score_bias=Disentangled(span=4, shared=False, bias=["position_to_content"])),
        **{"decoder.relative": RelativeTable(span=4)},
    ),
    "differential": _decoder(
        *[pre_norm(RMS, Attention(heads=4, kv_heads=2, place=Rotary(), weigh=Differential(lambda_init=0.3)), FEED)] * 2
    ),
    "differential_window": _decoder(
        *[
            pre_norm(
                RMS,
                Attention(
                    heads=6, head_width=5, mask=Window(size=3), weigh=Differential(lambda_init="by_layer", head_norm=RMS)
                ),
                FEED,
            )
        ]
        * 2
    ),
    "differential_scores": _decoder(
        pre_norm(
            RMS,
            Attention(
                heads=4,
                project=Projection(bias=ALL, adjust=(Clip(bound=0.8), QKNorm(norm=RMS, over="projection"))),
                score=Score(scale=0.3, softcap=3.0, terms=ALiBi()),
                weigh=Differential(maps=Softmax(sink="head")),
                combine=OutputGate(),
            ),
        ),
        pre_norm(
            RMS,
            Attention(
                heads=4,
                kv_heads=2,
                project=Projection(
                    grouped=HeadGroups(query=2, output=4), adjust=(QKNorm(norm=RMS, at="after_rotary"), ValueNorm.of(RMS))
                ),
                place=(Rotary(), LogTemperature(strength=0.7, span=3)),
                weigh=Differential(),
                combine=SubNorm.of(RMS),
                memory=VirtualTokens(count=2),
            ),
        ),
    ),
    "differential_value_width": _decoder(
        pre_norm(
            RMS,
            Attention(
                heads=4,
                kv_heads=2,
                value_width=3,
                project=Projection(adjust=ValueScale(factor=0.7)),
                weigh=Differential(maps=Softmax(dropout=0.1)),
            ),
            FEED,
        )
    ),
    "latent": _decoder(*[pre_norm(RMS, LATENT, FEED)] * 2),
    "latent_queries": _decoder(*[pre_norm(RMS, LATENT.but(q_rank=9, bias=("query_down", "kv_down", "output")), FEED)] * 2),
    "latent_temperature": _decoder(
        *[pre_norm(RMS, LATENT.but(temperature=LogTemperature(span=3, shift=0), rope_norm=RMS), FEED)] * 2
    ),
    "latent_aligned": _decoder(
        *[pre_norm(RMS, LATENT.but(aligned_to=to, **more), FEED) for to, more in ((3, {}), ("width", {"q_rank": 9}))]
    ),
    # Fewer keys than positions, more than half of them, and as many as there are.
    "latent_indexed": _decoder(*[pre_norm(RMS, LATENT.but(q_rank=9, choice=INDEXER.but(keep=keep)), FEED) for keep in (2, 5)]),
    "latent_indexed_all": _decoder(pre_norm(RMS, LATENT.but(choice=INDEXER.but(rotary=None, norm=None, keep=64)), FEED)),
    "latent_both": _decoder(
        *[
            pre_norm(RMS, LATENT.but(heads=4, q_rank=9, queries_from="both", **more), FEED)
            for more in ({"gate": Gate(per="head"), "gate_from": "queries"}, {"gate": Gate(), "choice": INDEXER.but(keep=5)})
        ]
    ),
    "latent_sink": _decoder(
        pre_norm(RMS, LATENT.but(sink="head", gate=Gate()), FEED),
        pre_norm(RMS, LATENT.but(sink="head", q_rank=9, choice=INDEXER.but(keep=4)), FEED),
    ),
    "latent_sink_window": _decoder(pre_norm(RMS, LATENT.but(sink="head", mask=Window(size=3)), FEED)),
    "latent_shared_index": _decoder(pre_norm(RMS, INDEXED, FEED)).but(
        decoder=Stack(
            variants=Named(full=pre_norm(RMS, INDEXED, FEED), shared=pre_norm(RMS, SHARES_INDEX, FEED)),
            order="full shared*2 full shared",
            final_norm=RMS,
        )
    ),
    "compressed": _decoder(pre_norm(RMS, COMPRESSED, FEED), pre_norm(RMS, COMPRESSED.but(choice=None), FEED)),
    "compressed_heavily": _decoder(*[pre_norm(RMS, each, FEED) for each in (HEAVY, LATEST)]),
    "blocks_of_mean_keys": _decoder(
        *[pre_norm(RMS, part, FEED) for part in (MEAN_KEYS, MEAN_KEYS.but(kv_heads=4, choice=MeanKeys(block=3, keep=2)))]
    ),
    "blocks_of_pooled_keys": _decoder(
        *[
            pre_norm(RMS, MEAN_KEYS.but(kv_heads=kv_heads, choice=choice), FEED)
            for kv_heads, choice in (
                (2, PooledIndexer(block=2, keep=1, heads=3, head_width=6, norm=RMS, rotary=Rotary(fraction=0.67))),
                (4, PooledIndexer(block=3, keep=2, heads=2, head_width=5)),
            )
        ]
    ),
    "blocks_of_keys": _decoder(*[pre_norm(RMS, blocky, FEED) for blocky in (BLOCKY, BLOCKY_HEADS)]),
    "blocks_of_keys_values": _decoder(OWN_KEYS).but(
        decoder=Stack(
            variants=Named(
                first=OWN_KEYS,
                mixed=pre_norm(RMS, BLOCKY_VALUES, FEED),
                keys=pre_norm(RMS, BLOCKY_VALUES.but(value_residual=None, values="keys"), FEED),
            ),
            order="first mixed keys",
            final_norm=RMS,
        )
    ),
    "latent_window_gate": _decoder(
        *[pre_norm(RMS, LATENT.but(mask=Window(size=4), gate=Gate(), rotary=None, norm=None, scale=0.3), FEED)] * 2
    ),
    "gate_low_rank": _llama(**_at(gate=Gate(activation="silu", rank=5))),
    **{name: _mixer(mixer, beside=name in HYBRIDS) for name, mixer in MIXERS.items()},
    "rotary_last": _llama(**_at(rotary=Rotary(fraction=0.67, place="last"))),
    "rotary_linear": _llama(**_at(rotary=Rotary(scaling=LinearScaling(factor=3.0)))),
    "rotary_llama3": _llama(**_at(rotary=Rotary(theta=50.0, scaling=Llama3Scaling(factor=4.0, low=0.5, high=3.0, trained=20)))),
    "rotary_yarn": _decoder(
        *[
            pre_norm(
                RMS, SELF.but(rotary=Rotary(theta=50.0, scaling=YaRN(factor=4.0, trained=60, beta_fast=4.0, **more))), FEED
            )
            for more in ({}, {"beta_slow": 0.5, "truncate": False, "attention_factor": 1.1})
        ]
    ),
    "rotary_proportional": _llama(**_at(rotary=Rotary(scaling=Proportional(fraction=0.7, factor=2.0)))),
    "shared_keys": _decoder(OWN_KEYS).but(
        decoder=Stack(variants=Named(own=OWN_KEYS, shared=SHARED_KEYS), order="own*2 shared*2 own shared", final_norm=RMS)
    ),
    "exclusive": _llama(**_at(exclusive=Exclusive(), kv_heads=2, value_norm=RMS)),
    "exclusive_learned": _llama(**_at(exclusive=Exclusive(strength="learned"), gate=Gate(), mask=Window(size=3))),
    "delta_values": _llama(**_at(delta_values=DeltaValues(), kv_heads=2)),
    "delta_values_options": _decoder(
        pre_norm(RMS, SELF.but(delta_values=DeltaValues(initial=0.5), mask=Window(size=3), virtual_tokens=2), FEED),
        pre_norm(RMS, SELF.but(kv_heads=1, delta_values=DeltaValues(), forget=ForgettingGate(), scale=0.7), FEED),
    ),
    "forgetting": _llama(**_at(forget=ForgettingGate(), kv_heads=2)),
    "forgetting_options": _decoder(
        pre_norm(
            RMS,
            SELF.but(
                rotary=None, forget=ForgettingGate(initial=1.5), joined=Joined(norm=RMS), virtual_tokens=2, score_bias=ALiBi()
            ),
            FEED,
        ),
        pre_norm(RMS, SELF.but(forget=ForgettingGate(initial=-1.0), softcap=3.0, sink="head", dropout=0.1), FEED),
        pre_norm(RMS, Attention(heads=4, kv_heads=2, score=Score(terms=ForgettingGate()), weigh=Differential()), FEED),
    ),
    "parallax": _llama(**_at(weigh=Parallax(dropout=0.1), kv_heads=2)),
    "parallax_window": _llama(**_at(weigh=Parallax(), mask=Window(size=4), softcap=3.0)),
    "sigmoid_weights": _llama(**_at(weigh=SigmoidWeights(dropout=0.1), kv_heads=2)),
    "sigmoid_weights_length": _llama(
        **_at(rotary=None, weigh=SigmoidWeights(length=7), score_bias=ALiBi(), mask=Window(size=4), virtual_tokens=2)
    ),
    "talking_heads": _llama(**_at(weigh=TalkingHeads(dropout=0.1), kv_heads=2, softcap=3.0)),
    "softpick": _llama(**_at(weigh=Softpick(), kv_heads=2)),
    "softpick_options": _decoder(
        pre_norm(RMS, SELF.but(weigh=Softpick(eps=0.3), mask=Window(size=3), softcap=3.0), FEED),
        pre_norm(RMS, Attention(heads=4, kv_heads=2, weigh=Differential(maps=Softpick(dropout=0.1))), FEED),
    ),
    "collisions": _llama(
        **_at(
            weigh=Collisions(bits=4, dropout=0.1),
            kv_heads=2,
            qk_norm=QKNorm(norm=RMSNorm(gain="none")),
            scale=1 / 6,
            mixed_norm=MixedNorm(norm=RMS, factor=0.4),
        )
    ),
    "mixed_norm": _llama(**_at(mixed_norm=MixedNorm(norm=RMS), gate=Gate(), exclusive=Exclusive(), kv_heads=2)),
    "value_embedding": _llama(**_at(value_embedding=GATED_ROWS, kv_heads=2, value_width=3)),
    "value_embedding_options": _decoder(OWN_KEYS).but(
        decoder=Stack(
            variants=Named(
                first=pre_norm(RMS, SELF.but(kv_heads=2, values="keys", value_embedding=ROWS), FEED),
                layer=pre_norm(RMS, SELF.but(kv_heads=2, joined=Joined(), **MIXED_ROWS), FEED),
                pairs=pre_norm(
                    RMS, Attention(heads=4, kv_heads=2, project=Projection(adjust=GATED_ROWS), weigh=Differential()), FEED
                ),
                blocks=pre_norm(RMS, BLOCKY.but(value_embedding=ROWS), FEED),
            ),
            order="first layer pairs blocks",
            final_norm=RMS,
        )
    ),
    "skips": _decoder(FIRST).but(
        decoder=Stack(variants=Named(first=FIRST, middle=OWN_KEYS, last=LAST), order="first middle*2 last", final_norm=RMS)
    ),
    "cycles": _cycles(Constant(), "begin fast_a fast_b again slow back fast_a fast_b cut fast_a fast_b join slow"),
    "cycles_detached": _cycles(Constant(learned=False), "begin fast_a fast_b first slow kept fast_a fast_b join slow"),
    "cycles_stored": _cycles(Constant(learned=False), "begin fast_a fast_b first fast_a fast_b again slow"),
    "differential_shared": _decoder(OWN_KEYS).but(
        decoder=Stack(
            variants=Named(
                first=OWN_KEYS,
                layer=pre_norm(RMS, PAIRED.but(value_residual=ValueResidual(variant="first")), FEED),
                keys=pre_norm(RMS, PAIRED.but(keys_from="first"), FEED),
            ),
            order="first layer keys",
            final_norm=RMS,
        )
    ),
    "value_residual": _decoder(OWN_KEYS).but(
        decoder=Stack(variants=Named(first=OWN_KEYS, layer=MIXED_VALUES), order="first layer*2", final_norm=RMS)
    ),
    "rwkv7_value_gate": _decoder(GOOSE_FIRST).but(
        decoder=Stack(
            variants=Named(
                first=GOOSE_FIRST,
                layer=pre_norm(LAYER, GOOSE.but(value_gate=ValueGate(variant="first", rank=3)), RWKV7ChannelMix(width=20)),
            ),
            order="first layer*2",
            final_norm=RMS,
        )
    ),
    "experts": _decoder(
        *[pre_norm(RMS, SELF, Experts(experts=4, chosen=2, width=12, router=Router(renormalise=Renormalise())))] * 2
    ),
    "experts_sigmoid_groups": _experts(router=DEEPSEEK, shared=SMALL),
    "experts_groups_max": _experts(chosen=3, router=Router(choice=TopK(groups=Groups(count=2, keep=1)), scale=2.0)),
    "experts_after_top_k": _experts(router=Router(over="chosen", bias=True), bias=["gate", "up", "down"]),
    "experts_top_1": _experts(chosen=1, gated=False, activation="relu", bias=["up"]),
    "experts_learned_activation": _experts(activation="swish"),
    "experts_hashed": _experts(router=Router(score="equal", choice=Hashed())),
    "experts_token_table": _experts(router=Router(score="equal", choice=TokenTable(vocab=VOCAB, seed=5))),
    "experts_token_table_scores": _experts(
        router=Router(score="sqrt_softplus", choice=TokenTable(vocab=VOCAB), renormalise=Renormalise())
    ),
    "experts_hashed_scores": _experts(router=Router(score="sqrt_softplus", choice=Hashed(seed=3), renormalise=Renormalise())),
    "experts_sampled": _experts(router=Router(choice=Sampled(), jitter=0.1)),
    "experts_gated_shared": _experts(chosen=3, shared=SMALL.but(gate="sigmoid")),
    "experts_input_weighed": _experts(chosen=1, weigh="input", router=Router(score="sigmoid"), shared=SMALL),
    "experts_all": _experts(experts=3, chosen=3, width=7),
    **{f"experts_{name}": _experts(**fields) for name, fields in PUBLISHED_EXPERTS.items()},
    **{
        f"latent_experts_{name}": _decoder(
            pre_norm(RMS, SELF, LatentExperts(**{"experts": 6, "chosen": 2, "width": 12, "latent": 10} | fields))
        )
        for name, fields in LATENT_EXPERTS.items()
    },
    **{f"activation_{name}": _llama(**{"decoder.layer.feedforward.activation": name}) for name in ACTIVATIONS},
    "clamped": _llama(
        **{f"decoder.layer.feedforward.{k}": v for k, v in {"activation": "quick_gelu", "clamp": 0.6, "up_offset": 1.0}.items()}
    ),
    "feed_sub_norm": _llama(**{"decoder.layer.feedforward.sub_norm": LAYER, "decoder.layer.feedforward.activation": "relu"}),
    "clamped_late": _llama(
        **{f"decoder.layer.feedforward.{k}": v for k, v in {"clamp": 0.2, "clamp_at": "after_activation"}.items()}
    ),
    "gate_multiplied": _llama(**{"decoder.layer.feedforward.gate_multiplier": 1.7}),
    "clamped_plain": _llama(**{"decoder.layer.feedforward.gated": False, "decoder.layer.feedforward.clamp": 0.5}),
    "batch_norm": _decoder(
        pre_norm(BatchNorm(eps=1e-3, momentum=0.2), SELF, FEED), pre_norm(BatchNorm(gain="none", bias=False), SELF, FEED)
    ),
    "batch_norm_by_position": _decoder(*[pre_norm(BatchNorm(over="position"), SELF, FEED)] * 2),
    "dynamic_tanh": _decoder(
        pre_norm(DynamicTanh(), SELF.but(qk_norm=QKNorm(norm=DynamicTanh(initial=0.8))), FEED),
        pre_norm(DynamicTanh(initial=1.1), SELF, FEED),
        final_norm=DynamicTanh(),
    ),
    "gated_norm": _decoder(
        pre_norm(GatedNorm(rank=3), SELF.but(qk_norm=QKNorm(norm=GatedNorm(rank=2))), FEED),
        pre_norm(GatedNorm(norm=LAYER, activation="tanh", rank=5), SELF, FEED),
        final_norm=GatedNorm(norm=DynamicTanh()),
    ),
    "adapted_norm": _decoder(
        pre_norm(AdaptedNorm(rank=3, languages=("en_XX", "de_DE"), language="de_DE"), SELF, FEED),
        pre_norm(AdaptedNorm(norm=RMSNorm(), before=LAYER, rank=2, activation="tanh"), SELF, FEED),
    ),
    "delay_norm": _decoder(
        pre_norm(DelayNorm(rank=3), SELF, FEED),
        pre_norm(DelayNorm(norm=LAYER, rank=5, activation="tanh", delay=2.5, theta=30.0), SELF, FEED),
    ),
    "grouped_layer_norm": _decoder(
        pre_norm(GroupedLayerNorm(groups=3), SELF, FEED),
        pre_norm(GroupedLayerNorm(groups=8, eps=1e-3, gain="one_plus_weight", bias=False, cast="before_gain"), SELF, FEED),
    ),
    "dropout": _decoder(
        Block(
            steps=(
                Step(branches=Named(attention=Branch(norm_before=RMS, sublayer=SELF.but(dropout=0.1), dropout=0.2))),
                Step(branches=Named(feedforward=Branch(norm_before=RMS, sublayer=FEED.but(dropout=0.3), drop_path=0.4))),
            )
        ),
        dropout=0.1,
    ),
    "not_gated": _llama(**{"decoder.layer.feedforward.gated": False}),
    "truncated_init": _llama(
        initialisation=Initialisation(matrix=TruncatedNormal(std=0.3, cut=2.0), embedding=Normal(std=1.0))
    ),
    "xavier_init": _llama(
        initialisation=Initialisation(
            matrix=Xavier(gain=1.2), embedding=Normal(std=1.0), head=FanIn(gain=1.5), residual_scale=0.5
        )
    ),
    "init_by_blocks": _llama(initialisation=LOUD.but(version=2)),
    "mup": _llama(initialisation=LOUD.but(mup=MaximalUpdate(base_width=8)), head=Head(tied=True, scale="inverse_sqrt_width")),
    "depth_mup": _llama(initialisation=LOUD.but(mup=MaximalUpdate(base_width=8, base_depth=1, depth_exponent=0.75))),
    "unit_scaled": _llama(
        initialisation=Initialisation(
            matrix=Normal(std=1.0),
            embedding=Normal(std=1.0),
            mup=UnitScaledUpdate(residual=1.5, attention=0.7, scores=1.2, logits=3.0, length=12),
        )
    ),
    "later_tokens_by_modules": _decoder(
        pre_norm(RMS, SELF, FEED),
        pre_norm(RMS, SELF.but(mask=Window(size=4)), Experts(experts=6, chosen=2, width=12, shared=SMALL, router=DEEPSEEK)),
        mtp=SequentialPrediction(norm=RMSNorm(eps=1e-3), depth=2),
    ),
    "later_tokens_by_other_modules": _decoder(
        pre_norm(RMS, SELF, FEED),
        head=Head(tied=True, scale=0.5),
        streams=HyperConnections(count=2),
        mtp=SequentialPrediction(
            norm=LAYER,
            bias=True,
            shared_norm=True,
            block=post_norm(
                LAYER,
                SELF.but(mask=Window(size=3)),
                Experts(experts=3, chosen=1, width=12, router=Router(score="equal", choice=Hashed())),
            ),
        ),
    ),
    "later_tokens_by_heads": _decoder(
        pre_norm(RMS, SELF.but(rotary=None), FEED),
        sandwich(RMS, SELF, PLAIN_FEED),
        position=LearnedPosition(length=32),
        mtp=ParallelPrediction(depth=2, block=pre_norm(RMS, SELF.but(mask=Window(size=5)), FEED)),
    ),
    **NARROW_DECODERS,
    **MODULATED_DECODERS,
}


def _encoder(*blocks, **more) -> Architecture:
    return encoder_only(Embedding(vocab=VOCAB), WIDTH, blocks, initialisation=LOUD, **more)


ENCODERS = {
    "encoder": _encoder(
        *[post_norm(LAYER, BOTH, PLAIN_FEED)] * 2,
        position=LearnedPosition(length=32),
        input_norm=LAYER,
        head=Head(tied=True, bias=True),
    ),
    "encoder_features": _encoder(*[pre_norm(RMS, BOTH.but(rotary=Rotary()), FEED)] * 2),
    "encoder_relative": _encoder(
        *[
            post_norm(LAYER, BOTH.but(bias=ALL, scale=0.3, score_bias=Disentangled(span=6, max_distance=9, **more)), PLAIN_FEED)
            for more in ({}, {"terms": ("content_to_position",)})
        ],
        head=Head(),
        relative=RelativeTable(span=6),
    ),
    "encoder_buckets": _encoder(
        *[pre_norm(RMS, BOTH.but(score_bias=RelativeBuckets(buckets=8, max_distance=9, two_sided=True)), FEED)] * 2
    ),
    "encoder_induced": _encoder(
        *[pre_norm(RMS, InducedAttention(points=3, attention=CrossAttention(heads=4, kv_heads=2)), FEED)] * 2, head=Head()
    ),
    "encoder_induced_norms": _encoder(
        *[pre_norm(RMS, InducedAttention(points=3, attention=CrossAttention(heads=4, source_norm=RMS)), FEED)] * 2, head=Head()
    ),
    "encoder_dual": _encoder(
        *[residual(ChannelCrossAttention(scales=(4, 12, 8)), SpatialCrossAttention(scales=(4, 12, 8)))] * 2, head=Head()
    ),
    "encoder_channel_heads": _encoder(
        *[residual(ChannelCrossAttention(scales=(6, 18), heads=3, norm=GroupedLayerNorm(groups=2)), FEED)] * 2, head=Head()
    ),
    "encoder_spatial": _encoder(
        *[residual(SpatialCrossAttention(scales=(10, 4, 10), heads=2, norm=RMS))] * 2, position=LearnedPosition(length=32)
    ),
    "encoder_linear": _encoder(
        *[pre_norm(RMS, LinearAttention(heads=4, kv_heads=2, feature_map=EluPlusOne(), eps=1e-6, causal=False), FEED)] * 2
    ),
    "encoder_value_convolution": _encoder(
        *[post_norm(LAYER, BOTH.but(kv_heads=2, value_convolution=ValueConvolution(kernel=5)), PLAIN_FEED)] * 2, head=Head()
    ),
    "encoder_forgetting": _encoder(*[post_norm(LAYER, BOTH.but(forget=ForgettingGate()), PLAIN_FEED)] * 2, head=Head()),
    "encoder_sigmoid_weights": _encoder(*[post_norm(LAYER, BOTH.but(weigh=SigmoidWeights()), PLAIN_FEED)] * 2, head=Head()),
    "encoder_fourier": _encoder(
        *[post_norm(LAYER, FourierMixing(), PLAIN_FEED)] * 2,
        position=LearnedPosition(length=32),
        input_norm=LAYER,
        input_projection=InputProjection(),
        head=Head(),
    ),
    "encoder_spans": _encoder(
        *[
            pre_norm(RMS, BOTH.but(rotary=rotary, kv_heads=2, head_width=3, value_width=value, convolution=spans), FEED)
            for rotary, value, spans in (
                (Rotary(fraction=0.67), 5, SpanConvolution(kernel=5)),
                (None, None, SpanConvolution(kernel=3, bias=("key", "kernel", "value"))),
            )
        ],
        pre_norm(RMS, Attention(heads=4, mask=Bidirectional(), weigh=Differential(), combine=SpanConvolution())),
        head=Head(),
    ),
    "encoder_window": _encoder(
        *[pre_norm(RMS, BOTH.but(mask=Window(size=3, after=2)), FEED)] * 2, position=SinusoidalPosition(), head=Head()
    ),
    **NARROW_ENCODERS,
}

CROSS = CrossAttention(heads=4, kv_heads=2, head_width=5, project=Projection(bias=ALL, adjust=QKNorm(norm=RMS)))
CROSS_EVERYTHING = CrossAttention(
    heads=2,
    value_width=5,
    source_norm=LAYER,
    project=Projection(
        grouped=HeadGroups(key=3, output=2),
        adjust=(
            Clip(bound=0.8),
            QKNorm(norm=RMS, over="projection"),
            ValueNorm.of(RMS),
            ValueScale(factor=0.7),
            ProjectionLoRA(rank=3, layers=1),
        ),
    ),
    score=Score(scale=0.4),
    weigh=Softmax(sink="head"),
    combine=(OutputGate(), SubNorm.of(RMS)),
)
PAIRS = {
    "original": original(width=WIDTH, depth=2, heads=4, ffn=20, vocab=VOCAB, dropout=0.0).but(initialisation=LOUD),
    "pair_pre_norm": encoder_decoder(
        Embedding(vocab=VOCAB),
        WIDTH,
        stack([pre_norm(RMS, BOTH.but(rotary=Rotary()), FEED)], final_norm=RMS),
        stack([pre_norm(RMS, SELF, CROSS, FEED)] * 2, final_norm=RMS),
        decoder_embedding=Embedding(vocab=29),
        initialisation=LOUD,
    ),
    "pair_recurrent": encoder_decoder(
        Embedding(vocab=VOCAB),
        WIDTH,
        stack([pre_norm(RMS, LinearAttention(heads=4, feature_map=EluPlusOne(), eps=1e-6, causal=False), FEED)]),
        stack([pre_norm(RMS, GATED_DELTA, CROSS, FEED)] * 2, final_norm=RMS),
        initialisation=LOUD,
    ),
    "pair_window": encoder_decoder(
        Embedding(vocab=VOCAB),
        WIDTH,
        stack([pre_norm(RMS, BOTH, FEED)], position=LearnedPosition(length=32)),
        stack(
            [
                pre_norm(RMS, SELF.but(mask=Window(size=3)), cross, FEED)
                for cross in (
                    CROSS_EVERYTHING,
                    CrossAttention(
                        heads=2, project=Projection(values="keys"), score=Score(softcap=3.0), weigh=Softmax(dropout=0.1)
                    ),
                    CrossAttention(heads=2, weigh=SigmoidWeights()),
                )
            ],
            position=LearnedPosition(length=32),
            input_norm=LAYER,
            input_norm_at="before_position",
        ),
        initialisation=LOUD,
    ),
    "pair_row_capacity": encoder_decoder(
        Embedding(vocab=VOCAB),
        WIDTH,
        stack(
            [pre_norm(RMS, BOTH.but(rotary=Rotary()), Experts(experts=3, chosen=2, width=12, capacity=RowCapacity(tokens=3)))]
            * 2
        ),
        stack([pre_norm(RMS, SELF, CROSS, FEED)]),
        initialisation=LOUD,
    ),
    **TEXT_PAIRS,
}

LATENT_BLOCK = pre_norm(LAYER, CrossAttention(heads=4, source_norm=LAYER), BOTH, FEED)
LATENTS = {
    "perceiver": Architecture(
        width=WIDTH,
        embedding=Embedding(vocab=VOCAB),
        latents=Latents(count=5, position=SinusoidalPosition()),
        decoder=stack([LATENT_BLOCK] * 2, final_norm=LAYER),
        initialisation=LOUD,
    ),
    "latents_of_an_encoder": Architecture(
        width=WIDTH,
        embedding=Embedding(vocab=VOCAB),
        encoder=stack([pre_norm(RMS, BOTH.but(rotary=Rotary()), FEED)]),
        latents=Latents(count=3),
        decoder=stack([LATENT_BLOCK]),
        head=Head(),
        initialisation=LOUD,
    ),
}

LIMITED = {
    "multi_token_weights": _llama(**_at(weigh=MultiTokenWeights(queries=3, keys=4, dropout=0.1), kv_heads=2)),
    "capacity": _decoder(
        *[
            pre_norm(RMS, SELF, Experts(experts=4, chosen=2, width=12, capacity=capacity))
            for capacity in (Capacity(factor=0.8, when="always"), Capacity(overflow="reroute"))
        ]
    ),
    "latent_experts_row_capacity": _decoder(
        pre_norm(RMS, SELF, LatentExperts(experts=4, chosen=2, width=12, latent=10, capacity=RowCapacity(tokens=3)))
    ),
    "rotary_by_length": _decoder(
        *[
            pre_norm(RMS, SELF.but(rotary=Rotary(scaling=scaling)), FEED)
            for scaling in (
                DynamicScaling(factor=3.0, trained=3),
                LongRoPE(short=(1.0, 1.5, 2.0), long=(2.0, 3.0, 4.0), trained=3, attention_factor=1.2),
            )
        ]
    ),
}
"""Decoders with parts that break contracts by their mathematics, and say so."""

PROMPTED_DECODERS = {
    "prompt": _llama(**_at(kv_heads=2, mask=Window(size=5) | Prefix())).but(virtual_tokens=3),
    "prompt_positions": _decoder(
        pre_norm(LAYER, SELF.but(rotary=None), FEED),
        position=LearnedPosition(length=40),
        embedding_width=6,
        input_projection=InputProjection(),
    ).but(virtual_tokens=2),
    "prompt_recurrent": _mixer(MIXERS["delta"], beside=True).but(virtual_tokens=2),
}
PROMPTED_ENCODERS = {
    "encoder_prompt": _encoder(pre_norm(RMS, BOTH, FEED), head=Head(pool="first", outputs=3)).but(virtual_tokens=2),
}

ZOO: dict[str, Architecture] = {
    **DECODERS,
    **LIMITED,
    **ENCODERS,
    **PAIRS,
    **LATENTS,
    **SOURCES,
    **ALONE,
    **DICTIONARIES,
    **PROMPTED_DECODERS,
    **PROMPTED_ENCODERS,
    **CONDITIONED,
}
RECURRENT = [name for name, each in ZOO.items() if recurrent(each)]
"""Those with a decode state that is no keys and values."""
