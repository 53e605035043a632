"""The measure by which ours is held against theirs: rounding passes it on any processor, and a small mistake does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from huggingface.cases.llama import CASES
from huggingface.nearness import GRADIENTS, LOGITS
from huggingface.parity import pair

STRICT = [replace(each, bound=lambda pair: 0.0) for each in (LOGITS, GRADIENTS)]
"""Without a bound, so that the error of theirs alone decides, as where a processor adds in another order."""


@pytest.mark.parametrize("nearness", STRICT, ids=["logits", "gradients"])
def test_rounding_is_told_from_a_mistake_of_a_hundred_thousandth(nearness):
    both = pair(CASES[0])
    nearness.check(both)
    weight = both.ours.get_parameter("decoder.layers.0.attention.sublayer.value.weight")
    kept = weight.detach().clone()
    try:
        with torch.no_grad():
            weight.mul_(1 + 1e-4)
        with pytest.raises(AssertionError, match="from theirs in fp64, from which theirs in fp32 is"):
            nearness.check(both)
    finally:
        weight.data.copy_(kept)
