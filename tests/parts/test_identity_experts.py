"""Experts that return what they read: no weights, no work, and no trace of the memory that is not computed."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.parts import Experts, Renormalise, Router, ScoreCorrectionBias, TopK
from anyformer.parts.call.reports import Auxiliary
from anyformer.parts.experts import grouped
from anyformer.parts.experts.grouped import grouped_product
from parts.mixture import B, D, K, T, X, experts_of, of, tokens

ENDS = [3, 3, 8]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("gpu_path", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_rows_of_no_group_become_zero_and_give_no_gradient(dtype, gpu_path, compiled, monkeypatch):
    """On memory that holds NaN wherever nothing was written."""
    if gpu_path:
        monkeypatch.setattr(grouped, "_fits_torch", lambda rows: rows.dtype == torch.bfloat16)
    product = torch.compile(grouped_product, fullgraph=True, backend="aot_eager") if compiled else grouped_product
    torch.manual_seed(0)
    rows = torch.randn(13, 5, dtype=dtype, requires_grad=True)
    weight = torch.randn(3, 7, 5, dtype=dtype, requires_grad=True)
    direction = torch.randn(13, 7, dtype=dtype)
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)  # fills new memory with NaN
    try:
        ours = product(rows, weight, torch.tensor(ENDS), whole=False)
        gradients = torch.autograd.grad((ours * direction).sum(), (rows, weight))
        whole = product(rows[:8], weight, torch.tensor(ENDS))
        expected = torch.autograd.grad((whole * direction[:8]).sum(), (rows, weight))
    finally:
        torch.use_deterministic_algorithms(before)
    assert not ours[8:].any()
    assert not gradients[0][8:].any()
    torch.testing.assert_close(ours[:8], whole)
    for a, b in zip(gradients, expected, strict=True):
        torch.testing.assert_close(a, b)


ROUTER = Router(score="sigmoid", choice=TopK(correction=ScoreCorrectionBias()), renormalise=Renormalise())


def preferring(number: int, **fields):
    """A model, and how it evaluates when the router wants expert `number` for every token."""
    model = build(of(identity_experts=3, router=ROUTER, **fields)).eval()
    with torch.no_grad():
        experts_of(model).router.correction[number] = 9
    return model


def test_a_token_that_chooses_identity_experts_only_keeps_what_it_was():
    model, seen = preferring(X + 1, chosen=1), []
    experts_of(model).register_forward_hook(lambda module, given, output: seen.append((given[0], output)))
    model(tokens())
    ((read, wrote),) = seen
    assert torch.equal(read, wrote), "its weight is 1"


def test_the_load_counts_identity_experts():
    model, found = preferring(X + 1), Auxiliary()
    model(tokens(), auxiliary=found)
    (load,) = found.loads.values()
    assert len(load.counts) == X + 3
    assert load.counts[X + 1] == B * T
    assert load.counts.sum() == B * T * K


def test_identity_experts_have_no_weights_and_the_rest_is_the_same():
    plain, more = build(of(router=ROUTER)), build(of(identity_experts=3, router=ROUTER))
    layer = experts_of(more)
    assert {name: len(p) for name, p in layer.named_parameters()} == {
        "gate": X, "up": X, "down": X, "router.weight": X + 3, "router.correction": X + 3
    }  # fmt: skip
    with torch.no_grad():
        experts_of(more).load_state_dict(
            {
                name: torch.cat([p, torch.zeros(3, *p.shape[1:])]) if name.startswith("router") else p
                for name, p in experts_of(plain).state_dict().items()
            }
        )
        layer.router.correction[X:] = -9
        torch.testing.assert_close(more.eval()(tokens()), plain.eval()(tokens()))


def test_the_price_is_that_of_no_identity_and_of_an_even_share():
    """LongCat-Flash: 512 experts and 256 identities, 12 chosen, so 8 of them compute on average."""
    experts = Experts(experts=512, identity_experts=256, chosen=12, width=2048)
    (sent,) = experts.routed(8, tokens=100)
    assert sent.rows == 100 * 8, "rows of identity experts stay where they are"
    tally = experts.cost(6144, Shape(length=10), plan=None)
    assert tally.weights["up"].active == 8 * 2048 * 6144
    assert tally.flops["up"].exact * 12 == tally.flops["up"].dense * 8 == 12 * 8 * 10 * 2 * 2048 * 6144
    ours = of(identity_experts=3, chosen=3)
    with FlopCounterMode(display=False) as counter:
        build(ours, device="meta")(tokens().to("meta"))
    flops = ours.cost(Shape(batch=B, length=T)).total_flops
    assert counter.get_total_flops() == flops.dense > flops.exact
    assert flops.dense - flops.exact > B * T * 3 * 12 * D
