"""Memory of one rank while training under a layout."""

from __future__ import annotations

from anyformer.costs.holding import Holding
from anyformer.planning.layout import Layout
from anyformer.planning.stages import PlannedStage, UnitRow


def in_flight(layout: Layout, stage: int) -> tuple[int, int]:
    """Micro-batches whose activations stage s holds at once, as a numerator and a denominator.

    min(m, p - s) where forward and backward alternate; min(m v, 2 (p - s - 1) + (v - 1) p + 1) / v with v chunks, which is
    p (1 + (p - 1) / (p v)) for the first stage (Narayanan et al. 2021, arXiv 2104.04473, section 2.2; Korthikanti et al.
    2022, 2205.05198, section 4.2.3); min(m, p) with `zero_bubble`, whose gradients of weights come later (Qi et al. 2023,
    2401.10241, table 1). One more with `layout.behind`, as two are computed at once (DeepSeek-V3, 2412.19437, table 2).
    """
    later = layout.pp - stage - 1
    if layout.schedule == "zero_bubble":
        return min(layout.micro_batches, layout.pp), 1
    if layout.chunks == 1:
        return min(layout.micro_batches, later + 1 + layout.behind), 1
    warm = 2 * later + (layout.chunks - 1 + layout.behind) * layout.pp + 1
    return min(layout.micro_batches * layout.chunks, warm), layout.chunks


def memory(row: UnitRow, stages: tuple[PlannedStage, ...], layout: Layout) -> Holding:
    """Memory of the rank of the fullest stage; where a rank holds the whole model, the peak of a step of one device."""
    if layout.unsharded:
        return row.unsharded(layout.micro_batch, layout.micro_batches > 1, layout.checkpointing)
    return max((stage_memory(row, stage, layout) for stage in stages), key=lambda holding: holding.total)


def stage_memory(row: UnitRow, stage: PlannedStage, layout: Layout) -> Holding:
    """Bytes of one rank of a stage; the optimiser's state is always sharded, gradients and weights as `layout.sharded` says.

    W = column and row weights / tp + replicated ones, divided by fsdp; experts / ep, divided by `layout.expert_fsdp`.
    `copies`: weights in the type of products, beside fp32 weights; where ranks hold only shards, those of two units at once.
    `temporaries`: gradients of one unit, whole for a moment, or that of the largest weight before it is added to the sum of
    micro-batches, and the logits or the recomputed layer of one micro-batch.
    """
    dense, experts = stage.parameters.dense(layout.tp), stage.parameters.of_experts(layout.ep)
    shard = -(-dense // layout.fsdp) + -(-experts // layout.expert_fsdp)
    whole = dense + experts
    unit = stage.largest.dense(layout.tp) + stage.largest.of_experts(layout.ep)
    sharded = layout.fsdp > 1 or layout.expert_fsdp > 1
    shards_weights = layout.sharded == "weights"
    shards_gradients = shards_weights or layout.sharded == "gradients"
    flying, denominator = in_flight(layout, stage.first)
    saved, recomputed, ends = (
        size.on(layout.micro_batch, layout.tp, sp=layout.sp)
        for size in (stage.saved[layout.checkpointing], stage.recomputed[layout.checkpointing], stage.ends)
    )
    alone = row.element * stage.heaviest(layout.tp, layout.ep)
    states, narrow = row.states, row.element < row.states.weights
    read = row.element * (shard if shards_weights else whole)
    gathered = 2 * row.element * unit * (sharded and shards_weights)
    return Holding(
        weights=states.weights * shard if narrow else read,
        gradients=states.gradients * (shard if shards_gradients else whole),
        optimiser=states.optimiser * shard,
        copies=gathered + (read if narrow else 0),
        activations=saved * flying // denominator,
        temporaries=max(ends, recomputed) + (states.gradients * unit if sharded and shards_gradients else alone),
    )
