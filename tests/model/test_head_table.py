"""The table that the head multiplies by."""

from __future__ import annotations

from zoo import ZOO

from anyformer.operations import Shape


def test_the_heads_table_is_a_declared_weight_and_the_embeddings_if_tied():
    for name, architecture in ZOO.items():
        weights = architecture.cost(Shape(source=1)).weights
        if architecture.head_table is None:
            assert architecture.head is None or architecture.head.outputs == "features", name
            continue
        path, weight = architecture.head_table
        assert weights[path] == weight, name
        assert weight.shape[0] == architecture.outputs, name
        assert architecture.head.tied == ("embedding" in path), name
        assert ("head.weight" in weights) == (path == "head.weight"), name
