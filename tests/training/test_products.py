"""Products of compiled passes in fp32: which ones oneDNN computes, that they are those of BLAS, and when it is asked."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from anyformer.plan import Plan
from anyformer.processor import packs
from anyformer.training import products
from anyformer.training.products import KEPT, LEAST, gain_of_onednn, notes_of, options_of

CPU = torch.device("cpu")
FP32 = Plan(precision="fp32", compile="on")
here = pytest.mark.skipif(not packs(torch.float32), reason="oneDNN multiplies nothing on this processor")


def passes_of(dtype: torch.dtype, rows: int = 96) -> tuple[torch.fx.GraphModule, tuple[torch.Tensor, ...]]:
    """A graph of both passes of two layers, one with a bias, and what it is given."""
    draw = torch.Generator().manual_seed(3)
    given = tuple(torch.randn(*sizes, generator=draw).to(dtype) for sizes in ((rows, 32), (48, 32), (48,), (20, 48)))

    def both(x, first, bias, second):
        x, first, bias, second = (each.detach().requires_grad_() for each in (x, first, bias, second))
        found = torch.nn.functional.linear(torch.nn.functional.linear(x, first, bias).tanh(), second)
        return found.detach(), *torch.autograd.grad(found.square().sum(), (x, first, bias, second))

    return make_fx(both, tracing_mode="fake")(*given), given


def given_away(module: torch.fx.GraphModule) -> list[tuple[int, ...]]:
    """The sizes (rows, inputs, outputs) of the products that oneDNN computes."""
    from anyformer.training.product_pass import ByOneDNN

    ByOneDNN()(module.graph)
    module.recompile()
    nodes = [node for node in module.graph.nodes if node.target is torch.ops.anyformer.onednn_product.default]
    return [(*node.args[0].meta["val"].shape, node.args[1].meta["val"].shape[1]) for node in nodes]


@here
def test_layers_and_gradients_of_inputs_are_computed_by_onednn_and_those_of_weights_stay() -> None:
    module, given = passes_of(torch.float32)
    wanted = module(*given)
    assert given_away(module) == [(96, 32, 48), (96, 48, 20), (96, 20, 48), (96, 48, 32)]
    assert sum(node.target is torch.ops.aten.mm.default for node in module.graph.nodes) == 2  # of the two weights
    for found, twin in zip(module(*given), wanted, strict=True):
        torch.testing.assert_close(found, twin, rtol=1e-5, atol=1e-4)


@here
@pytest.mark.parametrize(("dtype", "rows"), [(torch.float64, 96), (torch.bfloat16, 96), (torch.float32, 8)])
def test_other_numbers_and_few_rows_stay(dtype: torch.dtype, rows: int) -> None:
    assert given_away(passes_of(dtype, rows)[0]) == []


@pytest.mark.parametrize(
    ("plan", "gain", "processes", "taken"),
    [
        (FP32, 1.1, 1, True),
        (FP32, LEAST - 0.01, 1, False),
        (FP32, 1.1, 2, False),
        (FP32.but(precision="bf16"), 1.1, 1, False),
    ],
)
def test_it_is_taken_in_fp32_in_one_process_where_it_is_faster(monkeypatch, plan, gain, processes, taken) -> None:
    monkeypatch.setattr(products, "gain_of_onednn", lambda: gain)
    monkeypatch.setattr(products, "started", lambda: processes)
    assert ("post_grad_custom_post_pass" in options_of(plan, CPU)) == taken
    told = notes_of(plan, CPU)
    assert told == (["products in fp32 by oneDNN, 1.10 times as fast here as by BLAS (--no-compile: by BLAS)"] if taken else [])
    assert notes_of(plan.but(compile="off"), CPU) == []


@here
def test_what_was_measured_counts_for_later_runs(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path))
    measured = iter([1.23456])
    monkeypatch.setattr(products, "_measured", lambda: next(measured))
    for _ in range(2):
        gain_of_onednn.cache_clear()
        assert gain_of_onednn() == 1.235
    assert len(list(KEPT.place.iterdir())) == 1
    gain_of_onednn.cache_clear()


@here
def test_the_trial_measures_both() -> None:
    assert 0.05 < products._measured() < 50
