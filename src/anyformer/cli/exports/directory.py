"""A directory that transformers loads; of a composite with the towers that it came with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from anyformer.cli.exports.request import Exported, ExportRequest

if TYPE_CHECKING:
    from anyformer.huggingface import Family
    from anyformer.model.transformer import Transformer


def write(asked: ExportRequest) -> Exported:
    """Write the directory; for vLLM only what that opens."""
    from anyformer import checkpoint, huggingface
    from anyformer.huggingface.card import PLACE
    from anyformer.loading import beside, imported_towers, labels_of, load, trained_length, trained_pixels, training_facts

    towers = asked.form.towers
    if towers is None and (asked.form.family is None or asked.form.family in huggingface.COMPOSITES):
        towers = imported_towers(asked.model)
    (loaded, tokenizer), place = load(asked.model), checkpoint.newest(asked.model)
    kept = beside(place)
    exported = huggingface.export(
        loaded, asked.out, tokenizer=tokenizer, beside=kept, model_type=asked.form.family, length=trained_length(asked.model),
        labels=labels_of(place), facts=training_facts(place), towers=towers, dtype=asked.number_type(kept, loaded),
        pixels=trained_pixels(place), name=asked.name or PLACE, engine="vllm" if asked.format == "vllm" else None,
    )  # fmt: skip
    facts = {"model_type": exported.model_type, "own_layout": exported is huggingface.own()}
    return Exported(facts, [*_lines(asked, exported, loaded)])


def _lines(asked: ExportRequest, exported: Family, model: Transformer) -> Iterator[str]:
    """What was written, how it is loaded, and which engines open our own layout."""
    from anyformer import huggingface
    from anyformer.describe import plugin_of
    from anyformer.huggingface.openings import openings
    from anyformer.huggingface.remote_files import AUTO

    is_own = exported is huggingface.own()
    yield f"{asked.place}: {exported.model_type}{'; what loads it needs the package anyformer' if is_own else ''}"
    if plugin_of(exported.home):  # a model type that transformers has not
        yield f"try next, in Python:\n  import anyformer\n  model, tokenizer = anyformer.load({asked.place!r})"
        return
    (name, *_) = huggingface.read_config(asked.out)("architectures", None) or ("AutoModel",)
    name, more = (AUTO[name], ", trust_remote_code=True") if is_own else (name, "")
    yield f"try next, in Python:\n  from transformers import {name}\n  model = {name}.from_pretrained({asked.place!r}{more})"
    for opening in openings(model.architecture) if is_own else ():
        told = (
            f"does not open it: {'; '.join(opening.reasons)}" if opening.reasons else opening.how.replace("PATH", asked.place)
        )
        yield f"{opening.engine}: {told}"
