"""What `anyformer export --format` writes: directories for ONNX Runtime and for CTranslate2."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from anyformer.cli.as_json import print_json

Engine = Literal["onnx", "ctranslate2"]


def write_for_engine(model: Path, out: Path, family: str | None, engine: Engine, dtype: str, *, json: bool) -> None:
    """Load the model as the engine's format needs it, and write the directory."""
    import torch

    from anyformer import checkpoint
    from anyformer.describe import UserError
    from anyformer.huggingface.number_types import TYPES
    from anyformer.loading import beside, labels_of, load, trained_length
    from anyformer.plan import Plan

    if engine == "onnx" and dtype == "bf16":
        raise UserError("--dtype bf16: ONNX Runtime computes in fp32 or fp16 on most devices: give fp32 or fp16")
    asked = None if engine == "ctranslate2" and dtype == "stored" else TYPES.get(dtype, torch.float32)
    loaded, tokenizer = load(model, plan=Plan(attention="plain"), dtype=asked)
    place = checkpoint.newest(model)
    settings: dict[str, Any] = {"tokenizer": tokenizer, "beside": beside(place), "model_type": family}
    settings |= {"length": trained_length(model), "labels": labels_of(place)}
    _write_onnx(loaded, out, settings, json=json) if engine == "onnx" else _write_ctranslate2(loaded, out, settings, json=json)


def _write_onnx(model: Any, out: Path, settings: dict[str, Any], *, json: bool) -> None:
    from anyformer.exporting import export_onnx

    written = export_onnx(model, out, **settings)
    if json:
        print_json({"directory": out, "model_type": written.model_type, "apart": dict(written.apart)})
        return
    print(f"{out}: {written.model_type}, in ONNX")
    for name, apart in written.apart.items():
        print(f"  onnx/{name}: within {apart:.1e} of this model in ONNX Runtime, of the largest number")
    (name, *_) = written.apart
    print(f"try next, in Python:\n  import onnxruntime\n  session = onnxruntime.InferenceSession('{out / 'onnx' / name}')")


def _write_ctranslate2(model: Any, out: Path, settings: dict[str, Any], *, json: bool) -> None:
    from anyformer.exporting import export_ctranslate2

    model_type = export_ctranslate2(model, out, **settings)
    if json:
        print_json({"directory": out, "model_type": model_type})
        return
    opener = "Translator" if model.architecture.two_inputs else "Generator" if model.architecture.decoder else "Encoder"
    print(f"{out}: {model_type}, for CTranslate2")
    print(f"try next, in Python:\n  import ctranslate2\n  model = ctranslate2.{opener}({str(out)!r})")
