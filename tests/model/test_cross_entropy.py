"""Cross-entropy of a few rows at a time against the plain formula: values, gradients of both outputs, memory, repetition."""

from __future__ import annotations

import pytest
import torch

from anyformer.costs.allocated import peak_above
from anyformer.model import loss_bytes
from anyformer.model.loss import token_losses

CPU = torch.device("cpu")


def plain(logits: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    log_z = logits.float().logsumexp(-1)
    chosen = logits.float().gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    return torch.where(targets < 0, 0.0, log_z - chosen), log_z


def example(dtype: torch.dtype, *shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    targets = torch.randint(0, shape[-1], shape[:-1])
    targets[..., 0] = -100
    return (torch.randn(shape) * 5).to(dtype).requires_grad_(), targets


@pytest.mark.parametrize("piece", [1, 40, 10**6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_is_the_plain_formula_whatever_the_piece(dtype, piece, monkeypatch):
    monkeypatch.setitem(loss_bytes.PIECE, "cpu", piece)
    logits, targets = example(dtype, 3, 7, 13)
    weights = torch.rand(2, 3, 7)
    exact = logits.detach().float().requires_grad_()
    found, wanted = token_losses(logits, targets), plain(exact, targets)
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)
    for x, both in ((logits, found), (exact, wanted)):
        sum((w * each).sum() for w, each in zip(weights, both, strict=True)).backward()
        assert x.grad.dtype == x.dtype
    torch.testing.assert_close(logits.grad.float(), exact.grad, rtol=4e-3 if dtype == torch.bfloat16 else 1e-5, atol=1e-6)


def test_rows_of_a_transposed_tensor_and_of_no_positions():
    logits, targets = example(torch.float32, 4, 5, 6)
    turned = logits.transpose(0, 1)
    for x, y in ((turned, targets.T), (logits[:0], targets[:0])):
        torch.testing.assert_close(token_losses(x, y), plain(x, y))
    token_losses(turned, targets.T)[0].sum().backward()
    first = logits.grad.clone()
    logits.grad = None
    plain(turned, targets.T)[0].sum().backward()
    torch.testing.assert_close(first, logits.grad)


def test_an_infinite_logit_gives_a_tokens_loss_without_nan():
    logits = torch.tensor([[-torch.inf, 0.0, 1.0]], requires_grad=True)
    loss, _ = token_losses(logits, torch.tensor([2]))
    loss.sum().backward()
    assert logits.grad[0, 0] == 0
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_its_memory_is_what_it_says(dtype):
    """The gradient and one piece, where the plain formula takes four tensors as large as the logits in fp32."""
    logits, targets = example(dtype, 2, 200, 10_000)
    size = logits.numel() * logits.element_size()
    foretold = loss_bytes.backward_bytes(size, logits.element_size())
    found = peak_above(lambda: token_losses(logits, targets)[0].sum().backward(), CPU)
    assert found == pytest.approx(foretold, rel=0.02)
    assert found < 0.6 * 4 * logits.numel() * 4


def test_the_same_bits_every_time():
    logits, targets = example(torch.bfloat16, 4, 300, 5000)
    made = []
    for _ in range(2):
        loss, _ = token_losses(logits, targets)
        made.append((loss, *torch.autograd.grad(loss.sum(), logits)))
    assert all(torch.equal(one, other) for one, other in zip(*made, strict=True))
