"""The table that the head multiplies by."""

from __future__ import annotations

import pytest
from zoo import ZOO

from anyformer.tally import Shape


@pytest.mark.parametrize("name", ZOO)
def test_the_heads_table_is_a_declared_weight_and_the_embeddings_if_tied(name):
    architecture = ZOO[name]
    weights = architecture.cost(Shape(source=1)).weights
    if architecture.head_table is None:
        assert architecture.head is None or architecture.head.outputs == "features"
        return
    path, weight = architecture.head_table
    assert weights[path] == weight
    assert weight.shape[0] == architecture.outputs
    assert architecture.head.tied == ("embedding" in path)
    assert ("head.weight" in weights) == (path == "head.weight")
