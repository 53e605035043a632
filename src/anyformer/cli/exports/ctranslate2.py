"""A directory for CTranslate2, made by its own converter."""

from __future__ import annotations

from anyformer.cli.exports.request import Exported, ExportRequest


def write(asked: ExportRequest) -> Exported:
    """Write the directory."""
    from anyformer.exporting import export_ctranslate2
    from anyformer.huggingface.number_types import TYPES

    model, told = asked.plain(TYPES.get(asked.form.dtype))
    model_type = export_ctranslate2(model, asked.out, **told)
    architecture = model.architecture
    opener = "Translator" if architecture.two_inputs else "Generator" if architecture.decoder else "Encoder"
    opened = f"import ctranslate2\n  model = ctranslate2.{opener}({asked.place!r})"
    return Exported(
        {"model_type": model_type}, [f"{asked.place}: {model_type}, for CTranslate2", f"try next, in Python:\n  {opened}"]
    )
