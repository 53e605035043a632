"""What decoders with experts share: experts stored one by one, layers that differ, DeepSeek-V3's router."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anyformer.describe import Named
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.rules import Stacked, Table, To
from anyformer.huggingface.spelling import (
    FULL,
    SLIDING,
    initialisation,
    read_rotary,
    rope_parameters,
    write_activation,
    write_rope,
)
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Block,
    Causal,
    Correction,
    Embedding,
    Experts,
    FeedForward,
    Groups,
    Head,
    Renormalise,
    Rotary,
    Router,
    SharedExpert,
    TopK,
    Window,
)
from anyformer.parts.mask import Mask
from anyformer.parts.norm import Norm
from anyformer.parts.stack import stack

EXPERTS_NORM: Table = {"experts.norm_before": "post_attention_layernorm"}
QK_NORMS: Table = {"attention.query_norm": "self_attn.q_norm", "attention.key_norm": "self_attn.k_norm"}
WORDS: Mapping[str, str] = {SLIDING: "local", FULL: "full", "chunked_attention": "local", "sparse": "experts", "dense": "dense"}
"""Their word for what a layer holds -> ours."""


def one_by_one(experts: str, gate: str = "gate_proj", up: str = "up_proj", down: str = "down_proj") -> Table:
    """Names of experts with a tensor each."""
    sides = {"gate": gate, "up": up, "down": down}
    return {f"experts.{ours}": To(f"{experts}.{{x}}.{theirs}.weight", Stacked()) for ours, theirs in sides.items()}


def shared_names(expert: str) -> Table:
    """Names of the shared expert."""
    return {f"experts.shared.{side}": f"{expert}.{side}_proj" for side in ("gate", "up", "down")}


ROUTED: Table = {"experts.router": "mlp.gate", **one_by_one("mlp.experts")}
SHARED: Table = shared_names("mlp.shared_experts")
CORRECTION: Table = {"experts.router.correction": "mlp.gate.e_score_correction_bias"}


def label(*axes: Sequence[str]) -> list[str]:
    """A name per layer: its word of every axis along which layers differ (`local_dense`); `layer` where none does."""
    telling = [axis for axis in axes if len(set(axis)) > 1]
    return ["_".join(words) for words in zip(*telling, strict=True)] if telling else ["layer"] * len(axes[0])


def decoder(
    config: Config,
    names: Sequence[str],
    blocks: Sequence[Block],
    norm: Norm,
    *,
    scale: float = 1.0,
    tied: bool = False,
    head: Head | None = None,
) -> Architecture:
    """The architecture of named layers in order. `scale`: of the embedding; `tied`: what an absent flag means."""
    if not any("experts" in block.branches for block in blocks):
        raise HuggingFaceError(f"{config.where}: no layer has experts; use a dense family of the same shape")
    return Architecture(
        width=config("hidden_size"),
        embedding=Embedding(vocab=config("vocab_size"), scale=scale),
        decoder=stack(blocks, names=Named(dict(zip(names, blocks, strict=True))), final_norm=norm),
        head=(head or Head()).but(tied=config("tie_word_embeddings", tied)),
        initialisation=initialisation(config),
    )


def blocks_of(architecture: Architecture) -> list[Block]:
    """The decoder's layers, first to last."""
    decoder = architecture.decoder
    assert decoder is not None, "a language model has a decoder"
    return [decoder.variants[name] for name in decoder.layers]


def sublayers(architecture: Architecture, branch: str) -> list[Any]:
    """What stands in a branch, of every layer that has it."""
    return [block.branches[branch].sublayer for block in blocks_of(architecture) if branch in block.branches]


def first(architecture: Architecture, branch: str) -> Any:
    """What stands in a branch of the first layer that has it."""
    return sublayers(architecture, branch)[0]


def expert_layers(architecture: Architecture) -> list[bool]:
    """Whether each layer has experts."""
    return ["experts" in block.branches for block in blocks_of(architecture)]


def mlp_words(architecture: Architecture) -> list[str]:
    """`mlp_layer_types`."""
    return ["sparse" if sparse else "dense" for sparse in expert_layers(architecture)]


def first_dense(architecture: Architecture) -> int:
    """How many layers stand before the first with experts."""
    return expert_layers(architecture).index(True)


def layer_words(
    config: Config, absent: Callable[[int], str], key: str = "layer_types", known: Mapping[str, str] = WORDS
) -> list[str]:
    """Our word for what each layer holds; `absent(i)`: theirs where the configuration has no list; `known`: theirs -> ours."""
    depth = config("num_hidden_layers")
    kinds = config(key, None) or [absent(i) for i in range(depth)]
    strange = sorted(set(kinds) - set(known))
    if strange or len(kinds) != depth:
        raise HuggingFaceError(
            f"{config.where}: {key} has {len(kinds)} entries for {depth} layers"
            + (f", and {', '.join(strange)} is not known here, only {', '.join(known)}" if strange else "")
        )
    return [known[kind] for kind in kinds]


def dense_first(config: Config, key: str, default: int) -> list[str]:
    """`dense` for as many layers as `key` says, then `experts`."""
    depth, dense = config("num_hidden_layers"), config(key, default)
    return ["dense" if i < dense else "experts" for i in range(depth)]


def dense_width(architecture: Architecture, default: int) -> int:
    """Width of the dense layers; the default where there are none, and nobody reads it."""
    widths = [feedforward.width for feedforward in sublayers(architecture, "feedforward")]
    return widths[0] if widths else default


def window(config: Config, default: int | None = None) -> Mask:
    """The mask of all layers: a window if there is one."""
    size = config("sliding_window", default)
    return Causal() if size is None else Window(size=size)


def layer_types(architecture: Architecture) -> list[str]:
    """`layer_types`, by whether a layer's mask forgets."""
    return [SLIDING if each.mask.reach else FULL for each in sublayers(architecture, "attention")]


def window_size(architecture: Architecture) -> int | None:
    """The window of the local layers; None where there are none."""
    reaches = [each.mask.reach for each in sublayers(architecture, "attention") if each.mask.reach]
    return reaches[0] if reaches else None


def partial_rotary(config: Config, default: float = 1.0, *, theta: float = 10_000.0) -> Rotary:
    """Rotary positions of a share of each head, in the table of settings or beside it."""
    return read_partial(rope_parameters(config, theta=theta), config("partial_rotary_factor", default))


def read_partial(table: Mapping[str, Any], default: float = 1.0) -> Rotary:
    """The same from a table alone."""
    fraction = table.get("partial_rotary_factor")
    return read_rotary(table, unread=("partial_rotary_factor",), fraction=float(default if fraction is None else fraction))


def rotary_of(attention: Attention) -> Rotary:
    """Its rotary positions, which the family cannot do without."""
    assert attention.rotary is not None, "the attention has no rotary positions"
    return attention.rotary


def write_partial(attention: Attention) -> dict[str, Any]:
    """The keys about its rotary positions, with the share of a head that turns."""
    rotary = rotary_of(attention)
    keys = write_rope(rotary)
    return {**keys, "rope_parameters": {**keys["rope_parameters"], "partial_rotary_factor": rotary.fraction}}


def heads(attention: Attention) -> dict[str, Any]:
    """Heads of an attention, in a class that wants a number of key-value heads and knows no absent head width."""
    width = {} if attention.head_width is None else {"head_dim": attention.head_width}
    return {
        "num_attention_heads": attention.heads,
        "num_key_value_heads": attention.groups,
        "attention_dropout": attention.dropout,
        **width,
    }


def read_groups(config: Config) -> Groups | None:
    """Groups of experts; none where all of them are kept."""
    count, keep = config("n_group", 1), config("topk_group", 1)
    return None if count == keep else Groups(count=count, keep=keep, score="top_2")


def read_router(config: Config, *, renormalises: bool = True, scale: float = 1.0) -> Router:
    """DeepSeek-V3's: sigmoids, a correction for the choice, groups. The keywords are the defaults of absent keys."""
    factor = config("routed_scaling_factor", None)
    return Router(
        score="sigmoid",
        choice=TopK(groups=read_groups(config), correction=Correction()),
        renormalise=Renormalise() if config("norm_topk_prob", renormalises) else None,
        scale=float(scale if factor is None else factor),
    )


def write_router(router: Router) -> dict[str, Any]:
    groups = router.choice.plain().get("groups", {"count": 1, "keep": 1})
    return {
        "n_group": groups["count"],
        "topk_group": groups["keep"],
        "norm_topk_prob": router.renormalise is not None,
        "routed_scaling_factor": router.scale,
    }


def shared_expert(width: int, activation: str, **fields: Any) -> SharedExpert:
    """A shared expert that is added as it is."""
    return SharedExpert(feedforward=FeedForward(width=width, activation=activation, **fields))


def shared_count(experts: Experts) -> int:
    """How many experts' width the shared one has."""
    return 0 if experts.shared is None else experts.shared.feedforward.width // experts.width


def written_activation(architecture: Architecture) -> str:
    """`hidden_act`."""
    return write_activation(first(architecture, "experts").activation)
