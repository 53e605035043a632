"""How often the features of a sparse dictionary are active, over what its run held out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyformer.evaluation.measure import task_of
from anyformer.evaluation.subject import open_subject
from anyformer.model.hooks import hook_of
from anyformer.model.value_paths import named
from anyformer.objectives.objective import added
from anyformer.objectives.sparse import SOURCE, SparseObjective
from anyformer.parts.call.reports import Auxiliary

ROWS = 512
"""Rows that are read at most."""


def features_of(path: Path) -> tuple[Tensor | None, dict[str, Any]]:
    """(F,) the share of held-out positions at which each feature of a run's dictionary is active, and what it was learnt of,
    `hook_name` as TransformerLens names it and `paths` as we do; nothing of a model without a run, or of another objective."""
    subject = open_subject(path)
    if subject.run is None:
        return None, {}
    task = task_of(subject, (), progress=False)
    objective, model = task.objective, subject.model
    if not isinstance(objective, SparseObjective):
        return None, {}
    partners = task.partners
    read, written = (named(partners[SOURCE].architecture, paths) for paths in (objective.read_at, objective.written_at))
    metadata = {
        "model_name": objective.source, "context_size": task.run.length,
        "hook_name": ", ".join(map(hook_of, read)), "hook_name_out": ", ".join(map(hook_of, written)),
        "paths": list(read), "paths_out": list(written),
    }  # fmt: skip
    with torch.no_grad():
        totals = added(
            objective.statistics(model, part.to(model.device), Auxiliary(objective.counted(part)), partners)
            for part in task.feed.once(ROWS)
        )
    return totals["fired"] / totals["positions"].clamp(min=1), metadata
