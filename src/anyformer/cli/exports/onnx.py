"""A directory for ONNX Runtime and transformers.js."""

from __future__ import annotations

from anyformer.cli.exports.request import Exported, ExportRequest


def write(asked: ExportRequest) -> Exported:
    """Write the directory, whose graphs are tried in ONNX Runtime first."""
    import torch

    from anyformer.describe import UserError
    from anyformer.exporting import export_onnx
    from anyformer.huggingface.number_types import TYPES

    if asked.form.dtype == "bf16":
        raise UserError("--dtype bf16: ONNX Runtime computes in fp32 or fp16 on most devices: give fp32 or fp16")
    model, told = asked.plain(TYPES.get(asked.form.dtype, torch.float32))
    made = export_onnx(model, asked.out, **told)
    lines = [f"{asked.place}: {made.model_type}, in ONNX"]
    for name, apart in made.apart.items():
        lines.append(f"  onnx/{name}: within {apart:.1e} of this model in ONNX Runtime, of the largest number")
    (name, *_) = made.apart
    graph = f"{asked.place}/onnx/{name}"
    lines.append(f"try next, in Python:\n  import onnxruntime\n  session = onnxruntime.InferenceSession({graph!r})")
    return Exported({"model_type": made.model_type, "apart": dict(made.apart)}, lines)
