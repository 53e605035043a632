"""A directory for SAELens."""

from __future__ import annotations

from anyformer.cli.exports.request import Exported, ExportRequest


def write(asked: ExportRequest) -> Exported:
    """Write the directory; of a run, with how often its evaluation found each feature active."""
    from anyformer.evaluation.features import features_of
    from anyformer.huggingface.saelens import export_saelens
    from anyformer.loading import load

    model, _ = load(asked.model)
    frequencies, metadata = features_of(asked.model)
    name = export_saelens(model, asked.out, frequencies=frequencies, metadata=metadata)
    opened = f"from sae_lens import SAE\n  sae = SAE.load_from_disk({asked.place!r})"
    return Exported({"architecture": name}, [f"{asked.place}: {name}, for SAELens", f"try next, in Python:\n  {opened}"])
