"""HRM-Text: two stacks in cycles, each of which ends in a norm without weights, behind a prefix that is read both ways."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import MismatchError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Rows, Table, To, under
from anyformer.huggingface.vocabulary import DEEPEST, POSITIVE
from anyformer.huggingface.words.names import OUTSIDE
from anyformer.model import Architecture
from anyformer.parts import Causal, Cycles, Gate, Prefix, RMSNorm, Stack, pre_norm


def read(config: Config) -> Architecture:
    if config.target is not None:
        _cycles_of(config.target.stack)
    cycles = _cycles(config)
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6, "attention.norm_before.eps"), gain="none")
    masked = config("prefix_lm", True, lambda target: target("attention.mask") != Causal())
    biased = words.biases(config)
    config.expect("num_key_value_heads", config("num_attention_heads"), why="the class has keys of its own for every head")
    attention = words.attention(
        config,
        head_width=128,
        rotary=words.rotary(config),
        mask=Causal() | Prefix() if masked else Causal(),
        gate=Gate(bias=bool(biased)),
        bias=biased,
    )
    network = words.feedforward(config, bias=config("mlp_bias", False))
    block = pre_norm(norm, attention, network)
    first, second = block.steps
    scale = config("embedding_scale", None, "embedding.scale")
    starts = words.initialisation(config)
    scale = 1 / config("initializer_range", 0.02, kind=POSITIVE) if scale is None else scale
    made = words.decoder(config, [("layer", block)], None, embedding_scale=scale, starts=starts)
    return made.but(decoder=cycles.stack(block, block.but(steps=(first, second.but(norm_after=norm)))))


def _cycles(config: Config) -> Cycles:
    slow = config("H_cycles", 2, lambda target: len(_cycles_of(target.stack).learning))
    fast = config("L_cycles", 3, lambda target: _cycles_of(target.stack).fast)
    given = config("L_bp_cycles", None, lambda target: list(_cycles_of(target.stack).learning))
    given = [2] if given is None else given
    if min(given, default=0) < 0:
        raise config.refused("L_bp_cycles", given, "numbers of passes, from 0")
    learning = [min(number, fast) for number in ([1] * (slow - len(given)) + given)[:slow]]
    layers = config("num_layers_per_stack", None, lambda target: _cycles_of(target.stack).layers)
    if layers is None:
        layers = config("num_hidden_layers")
    elif config.target is None:
        config.expect("num_hidden_layers", layers * slow * (fast + 1), why="num_layers_per_stack layers in every pass")
    config.put(num_hidden_layers=layers * slow * (fast + 1))
    if (layers + 1) * slow * (fast + 1) > DEEPEST:
        raise config.refused("H_cycles", slow, f"so small that at most {DEEPEST} layers are computed one after the other")
    return Cycles(layers, fast, tuple(learning))


def _cycles_of(stack: Stack) -> Cycles:
    """The cycles in which the layers of a stack stand."""
    passes, cut = _passes(stack)
    fast = next((i for i, owners in enumerate(passes) if owners != passes[0]), 0)
    if not fast or len(passes) % (fast + 1):
        raise MismatchError("the layers are not two stacks in cycles")
    cycles = range(0, len(passes), fast + 1)
    return Cycles(len(passes[0]), fast, tuple(fast - sum(cut[at + 1 : at + fast + 1]) for at in cycles))


def _passes(stack: Stack) -> tuple[list[list[int]], list[bool]]:
    """The layers that own the weights of each pass, and whether what it begins from is cut off the pass before."""
    passes: list[list[int]] = []
    cut: list[bool] = []
    for variant, owner in zip(stack.layers, stack.owners, strict=True):
        block = stack.variants[variant]
        if block.branches.keys() <= {"constant", "skip"}:
            passes.append([])
            cut.append(block.detaches)
        elif passes:
            passes[-1].append(owner)
    return passes, cut


def names(architecture: Architecture) -> Names:
    stack = architecture.output_stack
    passes, _ = _passes(stack)
    outside: dict[Any, To | str] = {**OUTSIDE, "decoder.layers.0.constant.vector": "model.z_L_init"}
    for side, owners in (("L", passes[0]), ("H", passes[_cycles_of(stack).fast])):
        for number, owner in enumerate(owners):
            for ours, theirs in under(f"model.{side}_module.layers.{number}.", _LAYER).items():
                outside[tuple(f"decoder.layers.{owner}.{each}" for each in ours)] = theirs
    return Names(outside, {})


_GATES = {"gate.projection": "gate", "query": "q", "key": "k", "value": "v"}
_LAYER: Table = {
    tuple(f"attention.{ours}.weight" for ours in _GATES): To("attn.gqkv_proj.weight", Rows()),
    **{(f"attention.{ours}.bias",): f"self_attn.{theirs}_proj.bias" for ours, theirs in _GATES.items()},
    ("attention.output",): "attn.o_proj",
    ("feedforward.gate.weight", "feedforward.up.weight"): To("mlp.gate_up_proj.weight", Rows()),
    **{(f"feedforward.{side}.bias",): f"mlp.{side}_proj.bias" for side in ("gate", "up")},
    ("feedforward.down",): "mlp.down_proj",
}
"""Weights are fused in the published files, and as transformers saves them; biases never."""
# The last key is the published conversion's word for `L_bp_cycles`, which the class does not read.
FAMILIES = (Family("hrm_text", read, names, "HrmTextForCausalLM", inert=("L_bp_steps",)),)
