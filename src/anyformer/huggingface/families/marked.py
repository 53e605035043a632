"""BERT whose tokens carry more numbers: boxes of words on a page, cells of a table, shapes and sounds of characters.

transformers' classes take them as `bbox`, as more `token_type_ids`, or as `input_shape_ids` and `input_pronunciation_ids`;
here they are `types` of a call, behind the kind of the segment.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.words.bert_line import (
    ATTENTION,
    EMBEDDINGS,
    FEEDFORWARD,
    IGNORED,
    POST_NORMS,
    bert_head,
    bert_sublayers,
    encoder,
    encoder_names,
    learned_position,
)
from anyformer.huggingface.words.encoder_heads import head_names
from anyformer.model import Architecture
from anyformer.parts import MarkedEmbedding, Marks, MarkSpan, NarrowTable, post_norm


def _read(config: Config, name: str, marks: tuple[Marks, ...], *, length: int = 512, **more: Any) -> Architecture:
    """BERT of the classes `name`, whose tokens have marks; `more`: fields of their embedding."""
    config.assume(
        vocab_size=30_522, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
        max_position_embeddings=length,
    )  # fmt: skip
    config.expect_all(is_decoder=False, add_cross_attention=False)
    norm = words.layer_norm(config, 1e-12)
    block = post_norm(norm, *bert_sublayers(config), dropout=config("hidden_dropout_prob", 0.1))
    types = more.pop("types", 2)
    made = encoder(
        config, block, bert_head(config, name, norm), types=types, position=learned_position(config), input_norm=norm
    )
    marked = {**dict(made.embedding), "kind": "marked_tokens", "marks": marks, **more}
    return made.but(embedding=MarkedEmbedding(**marked))


def read_layoutlm(config: Config) -> Architecture:
    """Left, upper, right and lower edge of a token's box, its height and its width."""
    rows = config("max_2d_position_embeddings", 1024, lambda target: target("embedding.marks")[0].rows)
    across, down = MarkSpan(first=0, last=2), MarkSpan(first=1, last=3)
    tables: tuple[dict[str, Any], ...] = ({"of": (0, 2)}, {"of": (1, 3)}, {"spans": (down,)}, {"spans": (across,)})
    return _read(config, "LayoutLM", tuple(Marks(rows=rows, **each) for each in tables))


def read_tapas(config: Config) -> Architecture:
    """The kind of segment, and six numbers of a cell."""
    config.put(reset_position_index_per_cell=False)
    config.assume(reset_position_index_per_cell=True)
    config.expect("reset_position_index_per_cell", False, why="positions that begin anew in every cell are not known here")
    first, *others = config("type_vocab_sizes", (3, 256, 256, 2, 256, 256, 10), _sizes)
    marks = tuple(Marks(rows=rows, of=(i,)) for i, rows in enumerate(others))
    made = _read(config, "Tapas", marks, length=1024, types=None)
    return made.but(embedding=made.embedding.but(types=first))


def _sizes(target: Any) -> list[int]:
    return [target("embedding.types"), *(each.rows for each in target("embedding.marks"))]


def read_roc(config: Config) -> Architecture:
    """The shape and the sound of a character, both projected with its own row."""
    config.expect_all(concat_input=True, enable_shape=True, enable_pronunciation=True)
    marks = tuple(
        Marks(
            rows=config(f"{kind}_vocab_size", rows, lambda target, i=i: target("embedding.marks")[i].rows),
            width=config(f"{kind}_embed_dim", width, lambda target, i=i: target("embedding.marks")[i].width),
            of=(i,),
        )
        for i, (kind, rows, width) in enumerate((("shape", 24_858, 512), ("pronunciation", 910, 768)))
    )
    return _read(config, "RoCBert", marks, narrow=NarrowTable(width=config("hidden_size", 768)))


_TABLES = {
    "layoutlm": [f"embeddings.{kind}_position_embeddings.weight" for kind in "xyhw"],
    "tapas": [f"embeddings.token_type_embeddings_{i}.weight" for i in range(1, 100)],
    "roc_bert": ["embeddings.shape_embed.weight", "embeddings.pronunciation_embed.weight"],
}


def names(base: str, own: Table, architecture: Architecture) -> Names:
    count = len(architecture.embedding.marks)  # type: ignore[attr-defined]
    tables: Table = {f"embedding.marks.{i}.table": name for i, name in enumerate(_TABLES[base][:count])}
    head = head_names(architecture, pooled=(f"{base}.pooler.dense", "classifier"))
    return encoder_names(architecture, base, {**EMBEDDINGS, **tables, **own}, head, ATTENTION, FEEDFORWARD, POST_NORMS)


_JOINED = "embeddings.map_inputs_layer"
_ROC: Table = {
    ("embedding.narrow.projection.weight", "embedding.marks.0.projection.weight", "embedding.marks.1.projection.weight"): To(
        f"{_JOINED}.weight", Rows(dim=1)
    ),
    "embedding.narrow.projection.bias": f"{_JOINED}.bias",
}
_TAPAS: Table = {"embedding.types": "embeddings.token_type_embeddings_0.weight"}
_OF_TABLES = (
    "aggregation_labels", "aggregation_loss_weight", "aggregation_temperature", "allow_empty_column_selection",
    "answer_loss_cutoff", "answer_loss_importance", "average_approximation_function", "average_logits_per_cell",
    "cell_selection_preference", "disable_per_token_loss", "huber_loss_delta", "init_cell_selection_weights_to_zero",
    "max_num_columns", "max_num_rows", "no_aggregation_label_index", "num_aggregation_labels", "positive_label_weight",
    "select_one_column", "temperature", "use_answer_as_supervision", "use_gumbel_for_aggregation", "use_gumbel_for_cells",
    "use_normalized_answer_loss",
)  # fmt: skip
"""Keys of TAPAS's head for questions, and of its losses."""
FAMILIES = (
    Family("layoutlm", read_layoutlm, partial(names, "layoutlm", {}), "LayoutLMForMaskedLM", ignored=IGNORED),
    Family("tapas", read_tapas, partial(names, "tapas", _TAPAS), "TapasForMaskedLM", inert=_OF_TABLES, ignored=IGNORED),
    Family("roc_bert", read_roc, partial(names, "roc_bert", _ROC), "RoCBertForMaskedLM", ignored=IGNORED),
)
