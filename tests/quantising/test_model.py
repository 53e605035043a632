"""Models whose matrices are in few bits: for every architecture, as priced, and computing what the restored matrices do."""

from __future__ import annotations

from functools import cache

import pytest
import torch

import anyformer as af
from anyformer.catalogue import architecture
from anyformer.costs.inference import weight_bytes
from anyformer.describe import UserError, change
from anyformer.generation import Sampling, generate
from anyformer.quantising import FORMATS
from anyformer.quantising.calibrated import calibrated
from anyformer.quantising.model import dense, quantisable, quantised
from anyformer.quantising.tensor import Quantised, stored_bytes

NARROW = [name for name, format in FORMATS.items() if not format.whole]
TYPES = [
    "llama-3-8b",
    "deepseek-v3",
    "qwen3-next-80b-a3b",
    "t5-v1.1-xl",
    "gpt2",
    "gpt-oss-20b",
    "bert-base-uncased",
]


@cache
def model(name: str) -> af.Transformer:
    return af.build(architecture(name, tiny=True).but(mtp=None), seed=3).eval()


def inputs(made: af.Transformer) -> tuple[torch.Tensor, ...]:
    tokens = torch.randint(0, 16, (2, 9), generator=torch.Generator().manual_seed(0))
    return (tokens, tokens[:, :5]) if made.architecture.two_inputs else (tokens,)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", TYPES)
def test_bytes_are_those_of_the_price(name, format):
    made, report = quantised(model(name), FORMATS[format])
    allocated = sum(map(stored_bytes, made.parameters()))
    assert allocated == report.after == weight_bytes(made.architecture, FORMATS[format])


@pytest.mark.parametrize("name", TYPES)
def test_it_computes_what_its_restored_matrices_do(name):
    made, report = quantised(model(name), FORMATS["int4-32"])
    assert set(report.errors) == set(quantisable(made)) == {k for k, v in made.named_parameters() if isinstance(v, Quantised)}
    plain = dense(made.float())
    assert not any(isinstance(value, Quantised) for value in plain.parameters())
    with torch.no_grad():
        torch.testing.assert_close(made(*inputs(made)), plain(*inputs(made)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["llama-3-8b", "deepseek-v3", "qwen3-next-80b-a3b"])
def test_it_generates_what_its_restored_matrices_do(name):
    made = quantised(model(name), FORMATS["int8"])[0].float()
    settings = {"max_tokens": 6, "sampling": Sampling(temperature=0)}
    assert generate(made, None, [[1, 2, 3]], **settings) == generate(dense(made), None, [[1, 2, 3]], **settings)


def test_the_model_given_stays_as_it_is():
    made = model("llama-3-8b")
    before = {name: value.clone() for name, value in made.named_parameters()}
    quantised(made, FORMATS["int8"], lambda one: one(*inputs(one)))
    assert all(torch.equal(value, before[name]) for name, value in made.named_parameters())
    assert not any(module._forward_pre_hooks for module in made.modules())


def test_what_is_quantised_already_is_refused():
    made, _ = quantised(model("gpt2"), FORMATS["int8"])
    with pytest.raises(UserError, match="in few bits already"):
        quantised(made, FORMATS["int4"])
    with pytest.raises(UserError, match="nf4 has no calibrated form"):
        quantised(model("gpt2"), FORMATS["nf4"], lambda one: None)


@pytest.mark.parametrize("name", ["fp8", "fp8-row", "int8", "int4", "int4-32"])
def test_calibrated_codes_change_the_products_less(name):
    torch.manual_seed(0)
    W = torch.randn(48, 200) * 0.05
    X = torch.randn(900, 200) @ torch.randn(200, 200) * 0.1  # correlated inputs, which leave something to gain
    near, chosen = (
        FORMATS[name].restored(planes, (48, 200))
        for planes in (FORMATS[name].quantised(W), calibrated(W, X.T @ X, FORMATS[name]))
    )
    error = [((X @ (kept - W).T).norm() / (X @ W.T).norm()).item() for kept in (near, chosen)]
    assert error[1] < 0.7 * error[0], error


def test_calibrated_codes_are_those_of_the_paper_s_loop():
    """Algorithm 1 with the inverse of H taken anew for the columns left, as OBQ does, instead of a Cholesky factor."""
    torch.manual_seed(0)
    format = FORMATS["int4-32"]
    W, X = torch.randn(6, 70, dtype=torch.float64) * 0.05, torch.randn(300, 70) @ torch.randn(70, 70)
    H = (X.T @ X).double()
    found = format.restored(calibrated(W.float(), H.float(), format), (6, 70))
    H.diagonal().add_(0.01 * H.diagonal().mean())
    expected = torch.empty_like(W)
    for j in range(70):
        if j % 32 == 0:
            scale, zero = (part.double() for part in format.grid(W[:, j : j + 32].float()))
        inverse = torch.linalg.inv(H[j:, j:])
        expected[:, j : j + 1] = format.numbers(format.codes(W[:, j : j + 1], scale, zero), scale, zero)
        W[:, j:] -= (W[:, j : j + 1] - expected[:, j : j + 1]) / inverse[0, 0] * inverse[0]
    assert ((found - expected).abs() > 1e-5).double().mean() < 0.01


def test_a_gradient_flows_through_and_the_planes_alone_are_kept():
    made = quantised(model("llama-3-8b"), FORMATS["nf4"])[0].float()
    kept: list[torch.Tensor] = []
    x = torch.randn(2, 5, made.architecture.width, requires_grad=True)
    linear = made.get_submodule("decoder.layers.0.feedforward.sublayer.up")
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        linear(x).square().sum().backward()
    plain = dense(made).get_submodule("decoder.layers.0.feedforward.sublayer.up")
    again = x.detach().requires_grad_()
    plain(again).square().sum().backward()
    torch.testing.assert_close(x.grad, again.grad)
    assert all(tensor.shape[-1] != linear.in_features or tensor.ndim == 3 for tensor in kept)


@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_it_is_compiled_as_any_other(backend, monkeypatch):
    if backend == "eager":  # the graph as it is, without generated code
        compiling = torch.compile
        plainly = lambda run, *, options, **how: compiling(run, backend=backend, **how)  # noqa: E731
        monkeypatch.setattr("torch.compile", plainly)
    shallow = change(architecture("gpt2", tiny=True), "decoder.order", "layer")  # generating code takes seconds for each layer
    made = quantised(af.build(shallow, seed=3).eval(), FORMATS["int8"])[0]
    settings = {"max_tokens": 4, "sampling": Sampling(temperature=0)}
    assert generate(made, None, [[1, 2]], compile=True, **settings) == generate(made, None, [[1, 2]], compile=False, **settings)
