"""A GGUF file, which llama.cpp runs: the adapter merged; of a composite the text model alone."""

from __future__ import annotations

from anyformer.cli.exports.request import Exported, ExportRequest


def write(asked: ExportRequest) -> Exported:
    """Write the file."""
    from anyformer import checkpoint, huggingface
    from anyformer.loading import beside, load, trained_length

    loaded, tokenizer = load(asked.model)
    kept = beside(checkpoint.newest(asked.model))
    plan = huggingface.export_gguf(
        loaded, asked.out, tokenizer=tokenizer if asked.gguf.vocabulary else None, beside=kept, model_type=asked.form.family,
        length=asked.gguf.length or trained_length(asked.model), dtype=asked.number_type(kept, loaded),
        quantise=asked.gguf.quantise, progress=asked.progress,
    )  # fmt: skip
    size = asked.out.stat().st_size
    told = f"{asked.out}: {plan.form.model_type} as {plan.form.architecture}, {size:,} bytes"
    facts = {"model_type": plan.form.model_type, "architecture": plan.form.architecture, "bytes": size}
    return Exported(facts, [told, f"try next, with llama.cpp:\n  llama-cli -m {asked.out}"])
