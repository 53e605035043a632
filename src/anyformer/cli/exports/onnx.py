"""A directory for ONNX Runtime and transformers.js."""

from __future__ import annotations

from anyformer.cli.exports.request import Exported, ExportRequest


def write(asked: ExportRequest) -> Exported:
    """Write the directory, whose graphs are tried in ONNX Runtime first."""
    import torch

    from anyformer import checkpoint
    from anyformer.describe import UserError
    from anyformer.exporting import export_onnx
    from anyformer.huggingface.number_types import TYPES
    from anyformer.loading import beside, labels_of, load, trained_length
    from anyformer.plan import Plan

    if asked.form.dtype == "bf16":
        raise UserError("--dtype bf16: ONNX Runtime computes in fp32 or fp16 on most devices: give fp32 or fp16")
    loaded, tokenizer = load(asked.model, plan=Plan(attention="plain"), dtype=TYPES.get(asked.form.dtype, torch.float32))
    place = checkpoint.newest(asked.model)
    made = export_onnx(
        loaded, asked.out, tokenizer=tokenizer, beside=beside(place), model_type=asked.form.family,
        length=trained_length(asked.model), labels=labels_of(place),
    )  # fmt: skip
    lines = [f"{asked.place}: {made.model_type}, in ONNX"]
    for name, apart in made.apart.items():
        lines.append(f"  onnx/{name}: within {apart:.1e} of this model in ONNX Runtime, of the largest number")
    (name, *_) = made.apart
    graph = f"{asked.place}/onnx/{name}"
    lines.append(f"try next, in Python:\n  import onnxruntime\n  session = onnxruntime.InferenceSession({graph!r})")
    return Exported({"model_type": made.model_type, "apart": dict(made.apart)}, lines)
