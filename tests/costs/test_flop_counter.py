"""FLOPs counted with sizes worked out once are those of torch's own counter, which runs its meta operators."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from zoo import ZOO

from anyformer.costs.examples import examples
from anyformer.costs.flop_counter import MetaFlops
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.plan import Plan
from covering import covering, rest_slow

QUICK = ("llama", "latent", "experts", "delta_gated", "slstm", "original", "compressed")
KERNELS = ("sdpa", "plain")


@pytest.mark.parametrize(("name", "kernel"), rest_slow(product(ZOO, KERNELS), covering(QUICK, KERNELS, together=1)))
def test_both_counters_agree_of_both_passes(name, kernel):
    made = ZOO[name]
    model = build(made, Plan(attention=kernel, chunk=3), device="meta").eval()
    inputs = [x.to("meta") for x in examples(made, Shape(batch=2, length=8, source=5 if made.two_inputs else 0))]

    def both_passes():
        torch.autograd.backward([output.sum() for output in model.predictions(*inputs)])

    with FlopCounterMode(display=False) as theirs:
        both_passes()
    with MetaFlops() as ours:
        both_passes()
    assert ours.total == theirs.get_total_flops() > 0


def test_tensors_of_a_processor_are_counted_and_computed():
    """What is worked out is what has no numbers: others are."""
    x = torch.randn(3, 4)
    with MetaFlops() as counter:
        y = (x @ x.T).exp() + torch.arange(3)
    torch.testing.assert_close(y, (x @ x.T).exp() + torch.arange(3))
    assert counter.total == 2 * 3 * 4 * 3


def test_composed_operations_are_counted_by_what_they_are_made_of():
    x = torch.empty(2, 5, 4, device="meta")
    with torch.inference_mode(), MetaFlops() as counter:
        torch.nn.functional.linear(x, torch.empty(7, 4, device="meta"))
        torch.einsum("bij,bkj->bik", x, x)
    assert counter.total == 2 * 2 * 5 * 4 * 7 + 2 * 2 * 5 * 4 * 5
