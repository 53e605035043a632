"""The section that `anyformer cost --gpus` adds: the fastest layout of a training step that fits."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyformer.costs.rows import Section
    from anyformer.costs.sheet import CostSheet
    from anyformer.plan import Checkpointing
    from anyformer.planning.planner import Planned


def planned(sheet: CostSheet, gpus: int, checkpointing: Checkpointing | None) -> Planned:
    """Layouts of the sheet's batch on `gpus` of its accelerators; `checkpointing`: this one only, or else any."""
    from anyformer.planning.planner import plan_training

    assert sheet.hardware is not None, "priced on hardware"
    tokens = sheet.batch * sheet.length
    return plan_training(
        sheet.architecture,
        ranks=gpus,
        batch_tokens=tokens,
        length=sheet.length,
        source_length=sheet.source or None,
        prefix=sheet.prefix,
        hardware=sheet.hardware,
        plan=sheet.plan,
        checkpointing=checkpointing,
        show=1,
    )


def section(sheet: CostSheet, plan: Planned) -> Section:
    """Whether the step fits, its layout, and its speed."""
    from anyformer.costs.figures import Figure, count, seconds, share, size
    from anyformer.costs.rows import FigureRow, Section

    assert sheet.hardware is not None, "priced on hardware"
    title = f"Training on {plan.ranks:,} x {sheet.hardware.title}"
    if not plan.fastest:
        rows = [FigureRow("fits", (Figure("no"),))]
        for nearest in plan.too_large[:1]:
            rows.append(FigureRow("nearest layout", (Figure(str(nearest.layout)),)))
            rows += [FigureRow(f"  {purpose}", (size(held),)) for purpose, held in nearest.memory.named.items()]
            rows.append(FigureRow("memory of the fullest rank", (size(nearest.memory.total),)))
        return Section(title, ("",), tuple(rows))
    best = plan.fastest[0]
    rows = [
        FigureRow("fits", (Figure("yes"),)),
        FigureRow("fastest layout", (Figure(str(best.layout)),)),
        FigureRow("micro-batch x steps", (Figure(f"{best.layout.micro_batch} x {best.layout.micro_batches}"),)),
        FigureRow("checkpointing", (Figure(best.layout.checkpointing),)),
        FigureRow("memory of the fullest rank", (size(best.memory.total),)),
        FigureRow("time", (seconds(best.time.total),)),
        FigureRow("tokens per second", (count(best.tokens_per_second),)),
        FigureRow("MFU, exact", (share(best.mfu),)),
    ]
    return Section(title, ("",), tuple(rows))


def data(plan: Planned) -> dict[str, Any]:
    """Plain data, for JSON."""
    layouts = [
        {
            "layout": asdict(each.layout),
            "memory": {**asdict(each.memory), "total": each.memory.total},
            "seconds": each.time.total,
            "tokens_per_second": each.tokens_per_second,
            "mfu": each.mfu,
        }
        for each in plan.fastest
    ]
    return {"gpus": plan.ranks, "fits": bool(layouts), "layout": layouts[0] if layouts else None}
