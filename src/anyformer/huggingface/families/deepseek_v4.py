"""DeepSeek-V4: attention to a window and to compressed entries, manifold hyper-connections, experts by a table of tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.choices import ExpertTable
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError, MismatchError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import SLIDING
from anyformer.huggingface.rules import Names, Table, To
from anyformer.huggingface.target import Target, nowhere
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.compressed import BRANCH as _AT
from anyformer.huggingface.words.compressed import rotary_pair
from anyformer.huggingface.words.names import decoder_names, one_by_one
from anyformer.model import Architecture
from anyformer.parts import (
    Block,
    CompressedAttention,
    Compressor,
    EntryIndexer,
    GroupedOutput,
    ManifoldConnections,
    Renormalise,
    RMSNorm,
    Router,
    ScoreCorrectionBias,
    TokenTable,
    TopK,
    pre_norm,
)

CHOSEN, ALL = "compressed_sparse_attention", "heavily_compressed_attention"
"""Types of layers whose queries see entries that an indexer chooses, or all."""
_KINDS = {SLIDING: "window", CHOSEN: "chosen", ALL: "all"}
_RATIOS = {0: SLIDING, 4: CHOSEN, 128: ALL}
"""Number in `compress_ratios`, in published files -> the type of a layer."""
_RATES = {CHOSEN: ("compress_rate_csa", 4, 2), ALL: ("compress_rate_hca", 128, 1)}
"""Type of a layer -> an older key of its rate, the rate where no key gives it, and the blocks of which an entry is pooled."""
_ROUTERS = {"hash_moe": "table", "moe": "scores"}
_SCORES: Mapping[str, Any] = {"sqrtsoftplus": "sqrt_softplus", "sigmoid": "sigmoid"}


def read(config: Config) -> Architecture:
    config.assume(
        vocab_size=129_280, hidden_size=4096, num_hidden_layers=43, num_attention_heads=64, moe_intermediate_size=2048
    )
    config.expect_all(attention_bias=False, mlp_bias=False, attention_dropout=0.0, router_jitter_noise=0.0)
    config.expect("num_key_value_heads", 1, why="all heads read one key")
    config.expect("n_shared_experts", 1, why="transformers' class has one, whatever the key says")
    config.expect("norm_topk_prob", True, why="the weights of the chosen experts add up to 1")
    config.put(num_key_value_heads=1)
    norm = words.rms_norm(config, 1e-6, cast="after_gain")
    attentions = _attentions(config, norm)
    networks = {kind: _experts(config, router) for kind, router in _routers(config).items()}

    def block(kind: str, router: str) -> Block:
        return pre_norm(norm, attentions[kind], networks[router])

    hashed = config("num_hash_layers", 3, nowhere)
    routers = words.types(config, lambda i: "hash_moe" if i < hashed else "moe", "mlp_layer_types", _ROUTERS, _mlp_layer_types)
    return words.decoder(
        config, words.layered(block, _types(config), routers), norm, around={"streams": _streams(config, norm)}
    )


def _types(config: Config) -> list[str]:
    """Our word for the attention of each layer."""
    ratios, depth = config("compress_ratios", None, nowhere), config("num_hidden_layers")
    strange = sorted(set(ratios or ()) - set(_RATIOS))
    if ratios is not None and (strange or len(ratios) < depth):
        raise HuggingFaceError(
            f"{config.where}: compress_ratios should hold one of {', '.join(map(str, _RATIOS))} per layer, of {depth} "
            f"layers, and for those of its predictions behind them, got {len(ratios)} numbers"
            + (f", among them {', '.join(map(str, strange))}" if strange else "")
        )

    def absent(layer: int) -> str:
        if ratios is not None:
            return _RATIOS[ratios[layer]]
        return CHOSEN if layer > 1 and layer % 2 else ALL

    return words.types(config, absent, known=_KINDS, at=lambda target: [_type(part) for part in target.each(f"{_AT}.sublayer")])


def _type(part: CompressedAttention) -> str:
    return SLIDING if part.compressor is None else ALL if part.choice is None else CHOSEN


def _attentions(config: Config, norm: RMSNorm) -> dict[str, CompressedAttention]:
    """The attention of each kind of layer."""
    own, entries = rotary_pair(config)
    width = config("head_dim", 512, f"{_AT}.head_width")
    window = CompressedAttention(
        heads=config("num_attention_heads", at=f"{_AT}.heads"),
        head_width=width,
        window=config("sliding_window", 128, f"{_AT}.window"),
        q_rank=config("q_lora_rank", 1024, f"{_AT}.q_rank", kind=SIZE),
        norm=norm,
        head_norm=RMSNorm(eps=norm.eps, gain="none"),
        rotary=own,
        sink="head",
        output=GroupedOutput(
            groups=config("o_groups", 8, f"{_AT}.output.groups"), rank=config("o_lora_rank", 1024, f"{_AT}.output.rank")
        ),
    )
    index_width = config("index_head_dim", 128, _of_type(CHOSEN, lambda part: _choice(part).head_width))
    rotated = entries.rotated(width)
    if rotated > index_width:
        raise HuggingFaceError(
            f"{config.where}: index_head_dim = {index_width} is less than the {rotated} features that rotate"
        )
    choice = EntryIndexer(
        keep=config("index_topk", 512, _of_type(CHOSEN, lambda part: _choice(part).keep)),
        heads=config("index_n_heads", 64, _of_type(CHOSEN, lambda part: _choice(part).heads)),
        head_width=index_width,
        rotary=entries.but(fraction=rotated / index_width),
    )
    rates = _rates(config)
    every, some = (
        window.but(rotary=entries, compressor=Compressor(block=rates[kind], span=_RATES[kind][2], norm=norm))
        for kind in (ALL, CHOSEN)
    )
    return {"window": window, "all": every, "chosen": some.but(choice=choice)}


def _of_type(kind: str, value: Callable[[CompressedAttention], Any]) -> Callable[[Target], Any]:
    """A value of the first layer of a type."""

    def found(target: Target) -> Any:
        for part in target.each(f"{_AT}.sublayer"):
            if _type(part) == kind:
                return value(part)
        raise MismatchError(f"no layer is of type {kind}")

    return found


def _rates(config: Config) -> dict[str, int]:
    """The positions of a block, by type of layer."""
    given = config("compress_rates", None, lambda target: {k: _of_type(k, _block)(target) for k in _kinds_of(target)}) or {}
    strange = [f"{name} = {rate}" for name, rate in given.items() if name not in _RATES or not SIZE.fits(rate)]
    if strange:
        raise HuggingFaceError(
            f"{config.where}: compress_rates should hold whole numbers from 1 for {' and '.join(_RATES)}, got {strange[0]}"
        )
    older = {kind: config(key, None, nowhere) for kind, (key, _, _) in _RATES.items()}
    return {kind: older[kind] or given.get(kind, usual) for kind, (_, usual, _) in _RATES.items()}


def _block(part: CompressedAttention) -> int:
    assert part.compressor is not None, "a layer of this type has one"
    return part.compressor.block


def _choice(part: CompressedAttention) -> EntryIndexer:
    assert part.choice is not None, "a layer of this type has one"
    return part.choice


def _kinds_of(target: Target) -> list[str]:
    return [kind for kind in _RATES if kind in {_type(part) for part in target.each(f"{_AT}.sublayer")}]


def _routers(config: Config) -> dict[str, Router]:
    """Of layers whose experts a table names, and of those that choose them by scores."""
    back = {ours: theirs for theirs, ours in _SCORES.items()}
    score = config("scoring_func", "sqrtsoftplus", lambda target: back.get(target("experts.router.score")))
    if score not in _SCORES:
        raise HuggingFaceError(f"{config.where}: scoring_func = {score!r} is not known here, only {', '.join(_SCORES)}")
    scale = float(config("routed_scaling_factor", 1.5, "experts.router.scale"))
    table = TokenTable(vocab=config("vocab_size"))
    made = Router(score=_SCORES[score], choice=table, renormalise=Renormalise(), scale=scale)
    return {"table": made, "scores": made.but(choice=TopK(correction=ScoreCorrectionBias()))}


def _experts(config: Config, router: Router) -> Any:
    clamp = float(config("swiglu_limit", 10.0, "experts.clamp"))
    counted = ("n_routed_experts", "num_local_experts")
    experts = words.experts(config, router, count=256, chosen=6, width=2048, counted=counted, clamp=clamp)
    return experts.but(shared=words.shared_expert(experts.width, experts.activation, clamp=clamp))


def _mlp_layer_types(target: Target) -> Sequence[str]:
    return ["moe" if choice.tabled is None else "hash_moe" for choice in target.each("experts.router.choice")]


def _streams(config: Config, norm: RMSNorm) -> ManifoldConnections:
    return ManifoldConnections(
        count=config("hc_mult", 4, "stack.streams.count"),
        iterations=config("hc_sinkhorn_iters", 20, "stack.streams.iterations"),
        eps=float(config("hc_eps", 1e-6, "stack.streams.eps")),
        norm_eps=norm.eps,
        merge="learned",
    )


def _pools(ours: str, theirs: str) -> Table:
    """Names of a compressor."""
    sides = {"value": "wkv", "gate": "wgate", "position_bias": "ape", "norm": "norm"}
    return {f"{_AT}.{ours}.{own}": f"attn.{theirs}.{name}" for own, name in sides.items()}


_ATTENTION: Table = {
    f"{_AT}.norm_before": "attn_norm",
    f"{_AT}.query_down": "attn.wq_a",
    f"{_AT}.query_norm": "attn.q_norm",
    f"{_AT}.query_up": "attn.wq_b",
    f"{_AT}.key": "attn.wkv",
    f"{_AT}.key_norm": "attn.norm",
    f"{_AT}.sink": "attn.attn_sink",
    f"{_AT}.output.down": "attn.wo_a",
    f"{_AT}.output.up": "attn.wo_b",
    f"{_AT}.choice.query": "attn.indexer.wq_b",
    f"{_AT}.choice.weights": "attn.indexer.weights_proj",
    **_pools("compressor", "compressor"),
    **_pools("choice.compressor", "indexer.compressor"),
}
_EXPERTS: Table = {
    "experts.norm_before": "ffn_norm",
    "experts.router": "ffn.gate",
    "experts.router.correction": "ffn.gate.bias",
    **one_by_one("ffn.experts", "w1", "w3", "w2"),
    **{f"experts.shared.{ours}": f"ffn.shared_experts.{name}" for ours, name in (("gate", "w1"), ("up", "w3"), ("down", "w2"))},
}
_WEIGHTS = {"dynamic.weight": "fn", "static": "base", "strength": "scale"}
"""Weights of hyper-connections."""
_STREAMS: Table = {
    f"step_{step}_streams.{ours}": f"hc_{name}_{theirs}"
    for step, name in enumerate(("attn", "ffn"))
    for ours, theirs in _WEIGHTS.items()
}
_OUTSIDE: Table = {
    "embedding": "model.embed_tokens",
    "decoder.final_norm": "model.norm",
    "head": "head",
    **{f"decoder.streams.leave.{ours}": f"model.hc_head.hc_{theirs}" for ours, theirs in _WEIGHTS.items()},
}
_RELEASED = {
    r"^layers\.": "model.layers.",
    r"^embed\.": "model.embed_tokens.",
    r"^norm\.": "model.norm.",
    r"^hc_head_": "model.hc_head.hc_",
    r"\.kv_norm\.": ".norm.",
}
"""Pattern in names of the released files -> what transformers writes there."""


def names(architecture: Architecture) -> Names:
    tables = [
        (choice, experts)
        for choice, experts in zip(*map(Target(architecture).each, ("experts.router.choice", "experts.experts")), strict=True)
        if choice.tabled is not None
    ]
    named: Table = {"experts.router.table": To("ffn.gate.tid2eid", ExpertTable(*tables[0]))} if tables else {}
    return decoder_names(_ATTENTION, _EXPERTS, _STREAMS, named, outside=_OUTSIDE)


_DRAFTS = ("dspark_block_size", "dspark_markov_rank", "dspark_noise_token_id", "dspark_target_layer_ids")
"""Keys of blocks that draft tokens, which are no part of the model."""
_INERT = ("expert_dtype", "n_group", "num_nextn_predict_layers", "topk_group", "topk_method", *_DRAFTS)
FAMILIES = (
    Family("deepseek_v4", read, names, "DeepseekV4ForCausalLM", inert=_INERT, ignored=(r"mtp\..*",), older_names=_RELEASED),
)
