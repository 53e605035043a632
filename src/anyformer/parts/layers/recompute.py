"""Activation checkpointing: layers that are computed again in the backward pass (`Plan.checkpointing`)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from anyformer.parts.attention.attend_blocks import BLOCKS
from anyformer.parts.attention.attend_chosen import ATTEND
from anyformer.parts.attention.attend_chosen_blocks import ATTEND_BLOCKS
from anyformer.parts.attention.attend_native import NATIVE
from anyformer.parts.attention.chosen_blocks import CHOOSE_BLOCKS
from anyformer.parts.attention.chosen_keys import CHOOSE
from anyformer.parts.call.context import Context
from anyformer.parts.call.reports import Report
from anyformer.parts.call.shared import Read, Shared
from anyformer.parts.counting import standing_still
from anyformer.parts.experts.grouped import PRODUCT
from anyformer.parts.recurrence.selective_scan import SELECTIVE_SCAN
from anyformer.plan import Checkpointing

PRODUCTS: tuple[Any, ...] = (
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten.bmm.default,
    torch.ops.aten.baddbmm.default,
    torch.ops.aten._grouped_mm.default,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_cudnn_attention.default,
    torch.ops.aten._scaled_dot_product_fused_attention_overrideable.default,
    PRODUCT,
    BLOCKS,
    NATIVE,
    ATTEND,
    ATTEND_BLOCKS,
    CHOOSE,
    CHOOSE_BLOCKS,
    SELECTIVE_SCAN,
)
"""Operators whose outputs `selective` saves: nearly all work of a layer is in them."""


def recomputed(how: Checkpointing, block: nn.Module, x: Tensor, context: Context, reads: tuple[Read, ...]) -> Tensor:
    """block(x), computed again in the backward pass: x is saved, and with `selective` also the outputs of `PRODUCTS`.

    Each time the layer has a context of its own, with the values that it `reads` of other layers; the values that it leaves
    for later layers, and its report to the caller, come from the first time. Noise is a function of a counter, so no
    generator's state has to be saved. Chen et al. 2016 (arXiv 1604.06174); selective: Korthikanti et al. 2022 (2205.05198).
    """
    inputs = context.isolated(reads)

    def layer(x: Tensor) -> tuple[Tensor, Shared, dict[str, Report]]:
        own = inputs.isolated(reads)
        y = block(x, own)
        left = {key: value for key, value in own.shared.items() if key not in inputs.shared}
        return y, left, own.auxiliary.reports if own.auxiliary else {}

    options: dict[str, Any] = {}
    if not torch.compiler.is_compiling():
        options = {"context_fn": partial(_contexts, how, block)}
    elif how == "selective":
        # A compiler repeats operations, not calls, so running statistics are updated only once anyhow.
        options = {"context_fn": partial(create_selective_checkpoint_contexts, list(PRODUCTS))}
    y, left, reports = checkpoint(layer, x, use_reentrant=False, preserve_rng_state=False, **options)
    context.shared.update(left)
    if context.auxiliary is not None:
        context.auxiliary.reports.update(reports)
    return y  # type: ignore[no-any-return]


def _contexts(how: Checkpointing, block: nn.Module) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """The context managers of the forward pass and of its repetition."""
    if how == "full":
        return nullcontext(), standing_still(block)
    first, again = create_selective_checkpoint_contexts(list(PRODUCTS))  # type: ignore[no-untyped-call]
    return first, _both(again, standing_still(block))


@contextlib.contextmanager
def _both(outer: AbstractContextManager[Any], inner: AbstractContextManager[Any]) -> Iterator[None]:
    with outer, inner:
        yield
