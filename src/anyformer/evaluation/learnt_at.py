"""Where in its model a sparse dictionary was learnt, and both side by side."""

from __future__ import annotations

from pathlib import Path

from anyformer.describe import UserError
from anyformer.evaluation.subject import run_of
from anyformer.huggingface.saelens import LearntAt, is_saelens, saelens_paths
from anyformer.inspecting import FeatureDictionary
from anyformer.loading import load
from anyformer.model.transformer import Transformer
from anyformer.objectives.sparse import SparseObjective
from anyformer.requirements.needs import needs_activations
from anyformer.training.run import load_run


def learnt_at(path: Path) -> LearntAt:
    """The paths of the model whose values the dictionary of a run, or of a directory of SAELens, reads and gives."""
    if is_saelens(path):
        return saelens_paths(path)
    run = run_of(path)
    objective = None if run is None else load_run(run / "run.toml").objective
    if not isinstance(objective, SparseObjective):
        raise UserError(
            f"{path}: does not say where in a model it was learnt: name a run of the objective sae, transcoder or crosscoder, "
            "or a directory of SAELens"
        )
    return LearntAt(objective.read_at, objective.written_at)


def open_dictionary(path: Path, source: Transformer) -> FeatureDictionary:
    """The dictionary of a directory beside the model that it was learnt of; refused where it does not fit that."""
    model, _ = load(path, device=source.device)
    try:
        needs_activations("sae", model.architecture)
    except ValueError:
        raise UserError(f"{path}: is no sparse dictionary, but a {model.architecture.shape_of_model} model") from None
    try:
        return FeatureDictionary(model, source, *learnt_at(path))
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
