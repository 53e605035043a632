"""Memory of one rank while training under a layout."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.costs.holding import Holding
from anyformer.plan import Plan
from anyformer.planning.layout import Layout
from anyformer.planning.stages import Row, Stage


@dataclass(frozen=True)
class NumberBytes:
    """Bytes that training keeps for each parameter: by default 2 + 4 + 4 + 8, bf16 weights with sums in fp32 and Adam.

    16 of Rajbhandari et al. 2019 (arXiv 1910.02054, section 3.1) are gradients in 2. `master`: the fp32 copy.
    """

    weight: int = 2
    gradient: int = 4
    master: int = 4
    moments: int = 8

    @property
    def optimiser(self) -> int:
        return self.master + self.moments


def number_bytes(plan: Plan) -> NumberBytes:
    """In fp32 the weights are the master copy."""
    return NumberBytes() if plan.number == "bf16" else NumberBytes(weight=4, master=0)


def in_flight(layout: Layout, stage: int) -> tuple[int, int]:
    """Micro-batches whose activations stage s keeps at once, as a numerator and a denominator.

    min(m, p - s) where forward and backward alternate; min(m v, 2 (p - s - 1) + (v - 1) p + 1) / v with v chunks, which is
    p (1 + (p - 1) / (p v)) for the first stage (Narayanan et al. 2021, arXiv 2104.04473, section 2.2; Korthikanti et al.
    2022, 2205.05198, section 4.2.3).
    """
    later = layout.pp - stage - 1
    if layout.chunks == 1:
        return min(layout.micro_batches, later + 1), 1
    warm = 2 * later + (layout.chunks - 1) * layout.pp + 1
    return min(layout.micro_batches * layout.chunks, warm), layout.chunks


def memory(row: Row, stages: tuple[Stage, ...], layout: Layout, numbers: NumberBytes) -> Holding:
    """Of the rank of the fullest stage; one that holds the whole model holds what a training step of one device does."""
    if layout.alone:
        return row.alone(layout.micro_batch, layout.micro_batches > 1, layout.checkpointing)
    return max((stage_memory(row, stage, layout, numbers) for stage in stages), key=lambda each: each.total)


def stage_memory(row: Row, stage: Stage, layout: Layout, numbers: NumberBytes) -> Holding:
    """Bytes of one rank of a stage; the optimiser's state is always divided, gradients and weights as `layout.sharded` says.

    W = column and row weights / tp + replicated ones, divided by fsdp; experts / ep, divided by `layout.expert_fsdp`.
    `copies`: in the type of products, beside fp32 weights; where ranks hold only shards, two units of them whole.
    `temporaries`: gradients of one unit, whole for a moment, and of one micro-batch logits or the layer computed again.
    """
    dense, experts = stage.held.dense(layout.tp), stage.held.of_experts(layout.ep)
    shard = -(-dense // layout.fsdp) + -(-experts // layout.expert_fsdp)
    whole = dense + experts
    unit = stage.largest.dense(layout.tp) + stage.largest.of_experts(layout.ep)
    divided = layout.fsdp > 1 or layout.expert_fsdp > 1
    cut_weights = layout.sharded == "weights"
    cut_gradients = cut_weights or layout.sharded == "gradients"
    flying, of = in_flight(layout, stage.first)
    kept = stage.kept[layout.checkpointing].on(layout.micro_batch, layout.tp, sp=layout.sp)
    again = stage.again[layout.checkpointing].on(layout.micro_batch, layout.tp, sp=layout.sp)
    passing = max(stage.passing.on(layout.micro_batch, layout.tp, sp=layout.sp), again)
    read = numbers.weight * (shard if cut_weights else whole)
    gathered = 2 * numbers.weight * unit * (divided and cut_weights)
    return Holding(
        weights=numbers.master * shard if numbers.master else read,
        gradients=numbers.gradient * (shard if cut_gradients else whole),
        optimiser=numbers.moments * shard,
        copies=gathered + (read if numbers.master else 0),
        activations=kept * flying // of,
        temporaries=passing + numbers.gradient * unit * (divided and cut_gradients),
    )
