"""A directory for CTranslate2, made by its own converter."""

from __future__ import annotations

from anyformer.cli.exports.request import Exported, ExportRequest


def write(asked: ExportRequest) -> Exported:
    """Write the directory."""
    import torch

    from anyformer import checkpoint
    from anyformer.exporting import export_ctranslate2
    from anyformer.huggingface.number_types import TYPES
    from anyformer.loading import beside, labels_of, load, trained_length
    from anyformer.plan import Plan

    kind: torch.dtype | None = TYPES.get(asked.form.dtype)
    loaded, tokenizer = load(asked.model, plan=Plan(attention="plain"), dtype=kind)
    place = checkpoint.newest(asked.model)
    model_type = export_ctranslate2(
        loaded, asked.out, tokenizer=tokenizer, beside=beside(place), model_type=asked.form.family,
        length=trained_length(asked.model), labels=labels_of(place),
    )  # fmt: skip
    architecture = loaded.architecture
    opener = "Translator" if architecture.two_inputs else "Generator" if architecture.decoder else "Encoder"
    opened = f"import ctranslate2\n  model = ctranslate2.{opener}({asked.place!r})"
    return Exported(
        {"model_type": model_type}, [f"{asked.place}: {model_type}, for CTranslate2", f"try next, in Python:\n  {opened}"]
    )
