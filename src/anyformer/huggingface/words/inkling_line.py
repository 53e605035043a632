"""Inkling 2's line: attention residuals, filters of keys, values and branches, and logits of distances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from anyformer.describe import change_all
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import MismatchError
from anyformer.huggingface.places import window
from anyformer.huggingface.rules import Alternating, Names, Shaped, Shapes, Table, To, Transposed, under
from anyformer.huggingface.target import Place, Target
from anyformer.huggingface.vocabulary import SIZE
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    AttentionResiduals,
    Block,
    Causal,
    ClippedRelativeLogits,
    Experts,
    Gate,
    LateTemperature,
    LengthClip,
    Renormalise,
    ResidualConvolution,
    RMSNorm,
    SideConvolution,
    SideInputs,
    SoftCaps,
    TokenSink,
    ValueNorm,
    Window,
    pre_norm,
)

if TYPE_CHECKING:
    from torch import Tensor

LOCAL, FULL = "hybrid_sliding", "hybrid"
_TYPES = {LOCAL: "local", FULL: "full"}
STEPS = 2
"""Steps of a layer: attention and experts."""


def read_of(config: Config, *, floor: int, heads: int, experts: int, looped: range = range(0)) -> Architecture:
    """The text model, whose usual sizes differ; `looped`: layers that are computed several times."""
    config.expect("hidden_act", "silu", why="the class has no other network than a SwiGLU with bounds")
    config.expect("scoring_func", "sigmoid")
    norm = words.rms_norm(config, cast="after_gain")
    kinds = kinds_of(config)
    attention = {kind: _attention(config, kind, floor, heads, norm.eps) for kind in _TYPES.values()}
    router = words.sigmoid_router(config, renormalise=Renormalise(), scale=8.0, key="route_scale")
    caps = SoftCaps(
        gate=config("mlp_gate_softcap", 4.0, "experts.caps.gate"), up=config("mlp_up_softcap", 25.0, "experts.caps.up")
    )
    counted = ("n_routed_experts", "num_local_experts")
    network = words.experts(
        config, router, count=experts, chosen=8, width=2304, counted=counted, activation="sigmoid", caps=caps
    )
    kernel = config("conv_kernel_size", 4, "attention.side_convolution.kernel", kind=SIZE)
    layers = words.layered(
        lambda kind, place: _layer(norm, attention[kind], network, kind, place, kernel),
        kinds,
        ["looped" if i in looped else "once" for i in range(len(kinds))],
    )
    streams = AttentionResiduals(**residuals(config), count=1 + -(-len(kinds) // block_of(config)))
    cap = config("final_logit_softcapping", 30.0)
    made = words.decoder(config, layers, norm, vocab=201_024, softcap=cap, around={"input_norm": norm, "streams": streams})
    config.expect("tie_word_embeddings", False, why="the class has a matrix of logits of its own")
    vocab = config("vocab_size", 201_024)
    kept = config("unpadded_vocab_size", 200_058, lambda target: target("head.outputs") or vocab, kind=SIZE)
    if kept > vocab:
        raise config.refused("unpadded_vocab_size", kept, f"at most vocab_size = {vocab}")
    return made if kept == vocab or made.head is None else made.but(head=made.head.but(outputs=kept))


def _attentions(target: Target) -> list[Attention]:
    """The attention of every layer that has weights of its own."""
    stack = target.stack
    branches = [stack.variants[stack.layers[i]].branches.get("attention") for i in dict.fromkeys(stack.owners)]
    found = [branch.sublayer for branch in branches if branch is not None]
    if len(found) < len(branches) or not all(isinstance(each, Attention) for each in found):
        raise MismatchError("a layer has no attention")
    return [each for each in found if isinstance(each, Attention)]


def kinds_of(config: Config) -> list[str]:
    """`local` or `full` for every layer."""
    theirs = {ours: word for word, ours in _TYPES.items()}

    def at(target: Target) -> list[str]:
        return [theirs["local" if each.mask.window else "full"] for each in _attentions(target)]

    config("num_hidden_layers", 48, lambda target: len(_attentions(target)))
    return words.types(config, lambda i: LOCAL if (i + 1) % 6 else FULL, "layer_types", _TYPES, at)


def _of(kind: str, value: Callable[[Any], Any]) -> Place:
    """The place of a value of the layers of a kind."""

    def at(target: Target) -> Any:
        for each in _attentions(target):
            if (each.mask.window is not None) == (kind == "local"):
                try:
                    return value(each)
                except (AttributeError, KeyError):
                    raise MismatchError(f"a {kind} layer lacks a part of Inkling's") from None
        raise MismatchError(f"no layer is {kind}")

    return at


def _attention(config: Config, kind: str, floor: int, heads: int, eps: float) -> Attention:
    local = kind == "local"
    prefix = "swa_" if local else ""
    places: dict[str, tuple[int, Callable[[Any], Any]]] = {
        "num_attention_heads": (heads, lambda each: each.heads),
        "num_key_value_heads": (8, lambda each: each.kv_heads or each.heads),
        "head_dim": (128, lambda each: each.width_of_head(config("hidden_size"))),
    }
    count, groups, width = (config(prefix + key, usual, _of(kind, at)) for key, (usual, at) in places.items())
    size = config("sliding_window_size", 1024, window)
    reach = size if local else config("rel_extent", 1024, _of(kind, lambda each: each.score.terms["score_bias"].extent))
    late = None if local else _temperature(config, floor)
    taps: Literal["static", "token"] = "static" if local else "token"
    return Attention(
        heads=count,
        kv_heads=groups,
        head_width=width,
        mask=Window(size=size) if local else Causal(),
        weigh=TokenSink(dropout=config("attention_dropout", 0.0)),
    ).but(
        length_clip=LengthClip(bound=config("qk_l2_clip_threshold", 22.627416997969522, "attention.length_clip.bound")),
        side_convolution=SideConvolution(
            kernel=config("conv_kernel_size", 4, "attention.side_convolution.kernel", kind=SIZE), taps=taps
        ),
        value_norm=ValueNorm(norm=RMSNorm(eps=eps, gain="none")),
        gate=Gate(),
        score_bias=ClippedRelativeLogits(
            features=config("d_rel", 16, "attention.score_bias.features", kind=SIZE),
            extent=reach,
            bound=config("rel_l2_clip_threshold", 8.0, "attention.score_bias.bound"),
            temperature=late,
        ),
        **({} if late is None else {"temperature": late}),
    )


def _temperature(config: Config, floor: int) -> LateTemperature:
    strength = _of("full", lambda each: each.place["temperature"].strength)
    return LateTemperature(
        strength=config("log_scaling_alpha", 0.1, strength),
        floor=config("log_scaling_n_floor", floor, _of("full", lambda each: each.place["temperature"].floor), kind=SIZE),
    )


def _layer(norm: RMSNorm, attention: Attention, experts: Experts, kind: str, place: str, kernel: int) -> Block:
    """A layer; in full ones, and in a loop, queries, keys and values have inputs of their own."""
    filtered = ResidualConvolution(kernel=kernel)
    changes: dict[str, Any] = {"attention.residual_convolution": filtered, "experts.residual_convolution": filtered}
    if kind == "full" or place == "looped":
        sides = SideInputs(norm=norm, depth="read") if kind == "full" else SideInputs(norm=norm, depth="gated", norms="shared")
        attention, changes["attention.norm_before"] = attention.but(side_inputs=sides), None
    return change_all(pre_norm(norm, attention, experts), changes)


def block_of(config: Config) -> int:
    """Layers of a block of attention residuals."""
    return int(config("n_layers_per_attn_res_block", 6, lambda target: target("stack.streams.block") // STEPS, kind=SIZE))


def residuals(config: Config) -> dict[str, Any]:
    """The fields of attention residuals."""
    norm, scale = RMSNorm(eps=1e-6, gain="none"), config("hidden_size") ** -0.5
    return {"block": STEPS * block_of(config), "norm": norm, "values": "normed", "scale": scale}


@dataclass(frozen=True)
class FirstRows:
    """A matrix of `count` rows, of which the first are the parameter's and the others zeros."""

    count: int

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return [stored[0][: shapes[0][0]]]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        import torch

        (rows,) = parameters
        return [torch.cat([rows, rows.new_zeros(self.count - len(rows), *rows.shape[1:])])]


@dataclass(frozen=True)
class CrossPass:
    """Queries of messages: one tensor of those of queries and networks in turn, one of those of keys and values in turn; of
    every layer the parameters are the first three together, then that of its network."""

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        import torch

        of_steps, of_sides = stored
        made = []
        for i in range(0, len(of_steps), 2):
            made += [torch.cat([of_steps[i : i + 1], of_sides[i : i + 2]]), of_steps[i + 1 : i + 2]]
        return made

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        import torch

        of_attention, of_networks = parameters[::2], parameters[1::2]
        of_steps = [x for a, n in zip(of_attention, of_networks, strict=True) for x in (a[:1], n)]
        return [torch.cat(of_steps), torch.cat([a[1:] for a in of_attention])]


def _names_of_layer(kernel: int) -> Table:
    filtered = Shaped((-1, 1, kernel))
    made: dict[Any, To | str] = {
        **{f"attention.{ours}": f"attn.{theirs}" for ours, theirs in _PROJECTIONS.items()},
        **{f"attention.{side}_input_norm": f"{side[0]}_input_norm" for side in ("query", "key", "value")},
        "attention.input_norm": "attn_norm",
        "attention.norm_before": "attn_norm",
        "attention.query_scale": "attn.q_l2_clip.scale",
        "attention.score_bias.scale": "attn.rel_l2_clip.scale",
        "attention.score_bias.profiles.weight": To("attn.rel_logits_proj.proj", Transposed()),
        "attention.residual_convolution.weight": To("attn_sconv.weight", filtered),
        "experts.residual_convolution.weight": To("mlp_sconv.weight", filtered),
        "experts.norm_before": "mlp_norm",
        "experts.router": "mlp.gate",
        "experts.router.correction": "mlp.gate.bias",
        ("experts.gate", "experts.up"): To("mlp.experts.w13_weight", Alternating(dim=1)),
        "experts.down": "mlp.experts.w2_weight",
    }
    for side in ("key", "value"):
        made[f"attention.{side}_convolution.weight"] = To(f"attn.{side[0]}_sconv.weight", filtered)
        made[f"attention.{side}_convolution.static"] = f"attn.{side[0]}_sconv.static_w"
        made[f"attention.{side}_convolution.taps.weight"] = f"attn.{side[0]}_sconv.weight_proj"
    for number, gate in enumerate(("attn", "k", "v", "mlp")):
        for ours, theirs in (("down", "down"), ("forget", "forget"), ("message", "gain")):
            step = f"step_{number // 3}_streams.gates.{number % 3}.{ours}.weight"
            made[step] = f"controllers.{gate}.{theirs}_weight"
    return made


_PROJECTIONS = {
    "query": "wq_du", "key": "wk_dv", "value": "wv_dv", "output": "wo_ud", "gate.projection": "gate_attn",
    "token_sink": "attn_sink_proj", "score_bias.states": "wr_du",
}  # fmt: skip
_ROOT = "model.llm."


def names(architecture: Architecture) -> Names:
    stack, head, vocab = architecture.output_stack, architecture.head, architecture.vocabularies["embedding"]
    kernel = Target(architecture)("attention.side_convolution.kernel")
    one = Shaped((-1,))
    outside: dict[Any, To | str] = {
        "embedding": f"{_ROOT}embed",
        "decoder.input_norm": f"{_ROOT}embed_norm",
        "decoder.final_norm": f"{_ROOT}norm",
        "decoder.streams.leave.query.weight": To(f"{_ROOT}attn_res.output_query", one),
        "head": f"{_ROOT}unembed",
    }
    if head is not None and head.outputs is not None:
        outside["head.weight"] = To(f"{_ROOT}unembed.weight", FirstRows(vocab))
        del outside["head"]
    messages: list[str] = []
    for number, owner in enumerate(dict.fromkeys(stack.owners)):
        layer = f"decoder.layers.{owner}."
        for ours, to in under(f"{_ROOT}layers.{number}.", _names_of_layer(kernel)).items():
            outside[tuple(layer + each for each in ours) if isinstance(ours, tuple) else layer + ours] = to
        full = stack.variants[stack.layers[owner]].steps[0].inputs_of_depth == "read"
        for step, queries, before in ((0, "attn_queries", 1), (1, "mlp_queries", 0)):
            to = f"{_ROOT}attn_res.{queries}.{number - before}"
            outside[f"{layer}step_{step}_streams.query.weight"] = to if full and not step else To(to, one)
            messages += [f"{layer}step_{step}_streams.message.query.weight"] if stack.owners.count(owner) > 1 else []
    if messages:
        stored = To(f"{_ROOT}middle_cycle_cross_pass{{x}}queries", CrossPass(), each=("_", "_kv_"))
        outside[tuple(messages)] = stored
    return Names(outside, {})


INERT = ("number_of_conv_states", "use_cache")
"""Keys that change no number here."""
