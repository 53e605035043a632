"""The adapter of a run or checkpoint in PEFT's files, and its base beside it unless that is somewhere already."""

from __future__ import annotations

from anyformer.cli.exports.request import Exported, ExportRequest


def write(asked: ExportRequest) -> Exported:
    """Write the adapter."""
    from anyformer import huggingface
    from anyformer.files import write_text
    from anyformer.hub import parsed, pinned
    from anyformer.huggingface.card import PLACE, adapter_card
    from anyformer.loading import adapter_of, beside, trained_length, training_facts
    from anyformer.text.beside import README

    bare, tokenizer, adapter, own = adapter_of(asked.model)
    family, base = huggingface.find_family(bare.architecture, asked.form.family)[0], asked.alone.base
    where, public = (asked.out / "base" if base is None else base).absolute(), None if base is None else pinned(base)
    named = str(where) if public is None else parsed(public).repo
    huggingface.write_adapter(asked.out, adapter, own, bare.architecture, family, named)
    if public is not None:
        trained = training_facts(asked.model) or huggingface.Facts()
        write_text(asked.out / README, adapter_card(named, adapter.kind, family, trained, asked.name or PLACE))
    if base is None:
        length, kept = trained_length(asked.model), beside(asked.model)
        huggingface.export(
            bare, where, tokenizer=tokenizer, beside=kept, model_type=family.model_type, length=length,
            dtype=asked.number_type(kept, bare),
        )  # fmt: skip
    facts = {"adapter": adapter.kind, "model_type": family.model_type, "base": named}
    loading = f"from peft import AutoPeftModel\n  model = AutoPeftModel.from_pretrained({asked.place!r})"
    told = f"{asked.place}: {adapter.kind} for {family.model_type}, beside {named}"
    return Exported(facts, [told, f"try next, in Python:\n  {loading}"])
