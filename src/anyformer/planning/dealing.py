"""The units of an architecture dealt to the stages of a pipeline: by even work, or as a run deals them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from anyformer.planning.partition import even_pieces, partition
from anyformer.planning.staged import Staged
from anyformer.planning.stages import PipelineUnit, PlannedStage, StageParameters, UnitRow


def stages(row: UnitRow, pp: int, chunks: int, *, even: bool = False) -> tuple[PlannedStage, ...]:
    """The distinct stages of a pipeline, each where it comes first: stage s has the chunks s, s + p, ...

    Chunks are neighbouring units, the chunk with most work as small as possible, or all with as many layers. A group of
    weights that two units of a stage share is stored once.
    """
    each, rest = divmod(len(row.units) - 2, pp * chunks)
    ends = even_pieces(each, pp * chunks) if even and not rest else partition([unit.flops for unit in row.units], pp * chunks)
    return _distinct(row, pp, [row.units[start:end] for start, end in zip([0, *ends], ends, strict=False)])


def dealt(row: UnitRow, staged: Staged) -> tuple[PlannedStage, ...]:
    """The distinct stages of a run's pipeline: the layers that the head reads are dealt, each chunk computes what stands before
    them, and each stage holds all that stands beside them (`relay`)."""
    layers = {unit.name: unit for unit in row.units if unit.name.startswith(staged.path)}
    *before, last = (unit for unit in row.units if unit.name not in layers)
    chunks = [(*before, *(layers[f"{staged.path}{i}"] for i in numbers)) for numbers in staged.layers]
    return _distinct(row, staged.count, [*chunks[:-1], (*chunks[-1], last)], [*before, last])


def _distinct(
    row: UnitRow, pp: int, chunks: Sequence[tuple[PipelineUnit, ...]], beside: Iterable[PipelineUnit] = ()
) -> tuple[PlannedStage, ...]:
    """The distinct stages of some chunks; `beside`: units whose weights all stages hold."""
    kept = [name for unit in beside for name in unit.holds]
    distinct: dict[object, PlannedStage] = {}
    for stage in range(pp):
        members = tuple(unit for chunk in chunks[stage::pp] for unit in chunk)
        held = [name for unit in members for name in unit.holds]
        groups = [row.parameters[name] for name in dict.fromkeys([*held, *kept]) if name in row.parameters]
        total = sum(groups, StageParameters())
        key = (total, sum(unit.flops for unit in members))
        if key not in distinct:
            largest = max(groups, key=lambda group: group.total, default=StageParameters())
            distinct[key] = PlannedStage(stage, members, total, largest, row.length)
        else:
            distinct[key] = replace(distinct[key], copies=distinct[key].copies + 1)
    return tuple(distinct.values())
