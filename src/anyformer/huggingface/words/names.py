"""Tables of names that many decoders share: our name, from the branch of a layer on, to the stored one."""

from __future__ import annotations

from anyformer.huggingface.rules import Names, Op, Rows, Shaped, Stacked, Table, Then, To
from anyformer.huggingface.words.heads import ALL


def projections(pattern: str, output: str = "", ours: str = "attention") -> Table:
    """Names of the projections of an attention: `pattern` with the first letter of each for `*`; `output`: of the last."""
    return {f"{ours}.{name}": output if output and name == "output" else pattern.replace("*", name[0]) for name in ALL}


def gated_names(theirs: str, ours: str = "feedforward") -> Table:
    """Names of a gated network."""
    return {f"{ours}.{side}": f"{theirs}.{side}_proj" for side in ("gate", "up", "down")}


OUTSIDE: Table = {"embedding": "model.embed_tokens", "decoder.final_norm": "model.norm", "head": "lm_head"}
ATTENTION = projections("self_attn.*_proj")
FEEDFORWARD = gated_names("mlp")
UP_DOWN: Table = {"feedforward.up": "mlp.up_proj", "feedforward.down": "mlp.down_proj"}
NORMS: Table = {
    "attention.norm_before": "input_layernorm",
    "feedforward.norm_before": "post_attention_layernorm",
    "experts.norm_before": "post_attention_layernorm",
}
SHARED_NORM: Table = {"step_0_norm_before": "input_layernorm"}
"""One norm before branches in parallel."""
BEFORE: Table = {"attention.norm_before": "input_layernorm", "feedforward.norm_before": "pre_feedforward_layernorm"}
AFTER: Table = {
    "attention.norm_after": "post_attention_layernorm",
    "feedforward.norm_after": "post_feedforward_layernorm",
    "experts.norm_after": "post_feedforward_layernorm",
}
QK_NORM: Table = {"attention.query_norm": "self_attn.q_norm", "attention.key_norm": "self_attn.k_norm"}
SINKS: Table = {"attention.sink": "self_attn.sinks"}
QKV = ("attention.query", "attention.key", "attention.value")
FUSED_QKV: Table = {QKV: To("self_attn.qkv_proj", Rows()), "attention.output": "self_attn.o_proj"}
FUSED_GATE: Table = {
    ("feedforward.gate", "feedforward.up"): To("mlp.gate_up_proj", Rows()),
    "feedforward.down": "mlp.down_proj",
}
LAYER = "model.layers.{i}."


def decoder_names(*tables: Table, outside: Table = OUTSIDE, prefix: str = LAYER) -> Names:
    """The names of a decoder whose layers have the names of these tables."""
    return Names(outside, {"decoder": (prefix, joined(*tables))})


def joined(*tables: Table) -> Table:
    """One table of several, of which a later one replaces names of the earlier."""
    return {ours: theirs for table in tables for ours, theirs in table.items()}


def one_by_one(experts: str, gate: str = "gate_proj", up: str = "up_proj", down: str = "down_proj") -> Table:
    """Names of experts with a tensor each."""
    sides = {"gate": gate, "up": up, "down": down}
    return {f"experts.{ours}": To(f"{experts}.{{x}}.{theirs}.weight", Stacked()) for ours, theirs in sides.items()}


def shared_names(theirs: str) -> Table:
    """Names of the shared expert."""
    return gated_names(theirs, "experts.shared")


ROUTED: Table = {"experts.router": "mlp.gate", **one_by_one("mlp.experts")}
NUMBERED: Table = {
    "experts.router": "block_sparse_moe.gate",
    **one_by_one("block_sparse_moe.experts", "w1", "w3", "w2"),
}
"""Names of experts in Mixtral's line."""
SHARED: Table = shared_names("mlp.shared_experts")
CORRECTION: Table = {"experts.router.correction": "mlp.gate.e_score_correction_bias"}


def convolution(kernel: int) -> Op:
    """A short convolution stored as a Conv1d's: (W, 1, n)."""
    return Shaped((-1, 1, kernel))


def fused_convolutions(kernel: int) -> Op:
    """Several short convolutions in one Conv1d."""
    return Then(Shaped((-1, 1, kernel), (-1, kernel)), Rows())
