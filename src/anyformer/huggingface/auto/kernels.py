"""Which function computes attention: ours, or one of transformers' registry, where an engine puts its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from anyformer.describe import InputError
from anyformer.huggingface.openings import misfits
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.parts.attention.attends import Attends
from anyformer.parts.attention.attention_module import AttentionModule
from anyformer.parts.call.context import Memory, Visible
from anyformer.parts.layout import OutsideAttention

USUAL = "anyformer"
OURS: Mapping[str, str] = {USUAL: "auto", "eager": "plain", "sdpa": "sdpa"}
"""attn_implementation -> `Plan.attention`: kernels that know every attention here."""
FLEX = "flex_attention"


class OutsideKernel(nn.Module):
    """The attention of one layer by a function of transformers' registry, which reads its attributes.

    Engines look for a module with the number of its layer (`layer_idx`), a `config`, and one call of the function.
    """

    def __init__(self, config: Any, layer: int, told: OutsideAttention) -> None:
        super().__init__()
        self.config, self.layer_idx, self.scaling, self.is_causal = config, layer, told.scale, True
        self.num_key_value_groups, self.head_dim = told.heads // told.kv_heads, told.head_width
        self.sliding_window, self.softcap, self.dropped = told.window, told.softcap, told.dropped

    def forward(self, q_BHTE: Tensor, memory: Memory, visible: Callable[[], Visible]) -> Tensor:
        if self.training and self.dropped:
            raise InputError("attention dropout is drawn by our kernels alone: leave attn_implementation out to train")
        attention_interface = ALL_ATTENTION_FUNCTIONS[self.config._attn_implementation]
        mixed, _ = attention_interface(
            self,
            q_BHTE,
            memory.key.to(q_BHTE.dtype),
            memory.value.to(q_BHTE.dtype),
            self.mask(q_BHTE, visible),
            scaling=self.scaling,
            sliding_window=self.sliding_window,
            softcap=self.softcap,
        )
        B, _, T, _ = q_BHTE.shape
        return mixed.reshape(B, T, q_BHTE.shape[1], -1).transpose(1, 2)  # type: ignore[no-any-return]

    def mask(self, q_BHTE: Tensor, visible: Callable[[], Visible]) -> Tensor | None:
        """What is added to scores, (B, 1, T, S): 0 on keys that a query sees; None for an engine, which has its own masks."""
        if of_engine(self.config._attn_implementation):
            return None
        allowed = visible().dense(q_BHTE.shape[2], q_BHTE.device)
        if allowed is None:
            return None
        zero = torch.zeros((), dtype=q_BHTE.dtype, device=q_BHTE.device)
        return torch.where(allowed, zero, torch.finfo(q_BHTE.dtype).min).expand(len(q_BHTE), -1, -1, -1)


def of_engine(name: str) -> bool:
    """Whether an attention function was registered without a form of masks, as an engine does that keeps keys itself."""
    return name not in OURS and name in ALL_ATTENTION_FUNCTIONS and name not in ALL_MASK_ATTENTION_FUNCTIONS


def check_kernel(name: str, architecture: Architecture) -> None:
    """Refuse a function that is not there, or that does not know the attention of an architecture."""
    if name in OURS:
        return
    if name not in ALL_ATTENTION_FUNCTIONS:
        raise InputError(f"attn_implementation={name!r} is not registered with transformers; {_choices()}")
    if of_engine(name):
        if reasons := misfits(architecture):
            raise InputError(f"attn_implementation={name!r} does not compute this architecture: {'; '.join(reasons)}")
        return
    if name != FLEX:
        raise InputError(f"attn_implementation={name!r} takes masks of its own form, which are not made here; {_choices()}")
    unknown = [word for told in _attentions(architecture) for word in (["attention of another kind"] if told is None else told)]
    if unknown:
        raise InputError(f"attn_implementation={name!r} does not know {', '.join(dict.fromkeys(unknown))}; {_choices()}")


def use_kernel(model: Transformer, config: Any) -> None:
    """Let a model compute attention by the function that its configuration names, which `check_kernel` has passed."""
    name: str = config._attn_implementation
    plan = model.plan.but(attention=OURS.get(name, "auto"))
    model.plan = plan
    for module in model.modules():
        if isinstance(module, Attends):
            module.plan = plan  # type: ignore[assignment]
    stack = model.get_submodule(model.output)
    for i, layer in enumerate(stack.layers):  # type: ignore[arg-type]
        for module in layer.modules():
            if isinstance(module, AttentionModule):
                told = module.heads.outside(model.architecture.width)
                module.outside = None if name in OURS or told is None else OutsideKernel(config, i, told)


def _attentions(architecture: Architecture) -> Iterator[tuple[str, ...] | None]:
    """What kernels from outside do not know of every attention; None of one that is not over heads."""
    for stack in architecture.stacks.values():
        for block in stack.variants.values():
            for sublayer in (branch.sublayer for step in block.steps for branch in step.branches.values()):
                told = sublayer.outside(architecture.width)
                if told is not None:
                    yield told.unknown
                elif sublayer.masks:
                    yield None


def _choices() -> str:
    return f"leave it out for our kernels, or name one of {', '.join(sorted((*OURS, FLEX)))}"
