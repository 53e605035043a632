"""What queries and gates of latent attention read: the input, or the queries' latent behind and before its norm."""

from __future__ import annotations

from typing import Any

import pytest

from anyformer.describe import DescriptionError
from anyformer.operations import Shape
from anyformer.parts import Gate, LatentAttention, RMSNorm
from anyformer.plan import Plan

D, Q, H = 24, 9, 4
FIELDS: dict[str, Any] = {"heads": H, "kv_rank": 6, "nope_width": 4, "rope_width": 2, "value_width": 5}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"queries_from": "both", "q_rank": Q}, "set q_rank and norm"),
        ({"queries_from": "both", "norm": RMSNorm()}, "set q_rank and norm"),
        ({"gate_from": "queries", "q_rank": Q}, "set gate and q_rank"),
        ({"gate_from": "queries", "gate": Gate()}, "set gate and q_rank"),
    ],
)
def test_what_is_not_there_to_read_is_refused(more, said):
    with pytest.raises(DescriptionError, match=said):
        LatentAttention(**FIELDS, **more)


@pytest.mark.parametrize(("gate_from", "inputs"), [("input", D), ("queries", 2 * Q)])
def test_both_sides_of_the_norm_double_what_is_read(gate_from, inputs):
    part = LatentAttention(**FIELDS, q_rank=Q, norm=RMSNorm(), queries_from="both", gate=Gate(), gate_from=gate_from)
    weights = part.cost(D, Shape(), Plan()).weights
    assert weights["query_up.weight"].shape == (H * 6, 2 * Q)
    assert weights["gate.projection.weight"].shape == (H * 5, inputs)
