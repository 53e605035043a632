"""Scans: in pairs, fours and so on they are the loop, forward and backward; a compiler sees as many steps for any length."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from anyformer.parts import MLSTM, RGLRU, RWKV, Mamba, Mamba2, TTTLinear
from anyformer.parts.call.context import Context
from anyformer.parts.recurrence.scan import running_largest, scan
from anyformer.plan import Plan

B, N, W = 2, 2, 3
lengths = pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8, 16, 23])


def drawn(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def loop(join, links, x):
    """Position after position."""
    out = [x[:, 0]]
    for t in range(1, x.shape[1]):
        out.append(join(out[-1], links[:, t - 1], x[:, t]))
    return torch.stack(out, 1)


@lengths
@pytest.mark.parametrize("shared", [1, N])
def test_a_scan_is_the_loop_forward_and_backward(length, shared):
    """`shared`: with one link for N numbers, or one for each."""
    links, writes = drawn(B, length - 1, shared, W, seed=1).requires_grad_(), drawn(B, length, N, W, seed=2).requires_grad_()
    ours, theirs = scan(links, writes), loop(lambda x, link, write: link * x + write, links, writes)
    torch.testing.assert_close(ours, theirs)
    towards = drawn(*ours.shape, seed=3)
    found, wanted = (torch.autograd.grad(x, (links, writes), towards, allow_unused=True) for x in (ours, theirs))
    for x, y in zip(found, wanted, strict=True):
        torch.testing.assert_close(x, y)


@lengths
def test_the_running_largest_is_the_loop(length):
    links, entering = -drawn(B, length - 1, W, seed=1).abs(), drawn(B, length, W, seed=2)
    wanted = loop(lambda x, link, new: torch.maximum(x + link, new), links, entering)
    torch.testing.assert_close(running_largest(links, entering), wanted)


def test_links_of_nothing_leave_no_nan():
    links, writes = torch.zeros(B, 6, W, requires_grad=True), drawn(B, 7, W, seed=1).float()
    states = scan(links, writes)
    torch.testing.assert_close(states, writes)
    torch.testing.assert_close(torch.autograd.grad(states.sum(), links)[0], writes[:, :-1])


def test_the_gradient_of_a_scan_has_a_gradient():
    links, writes = drawn(1, 4, W, seed=1).requires_grad_(), drawn(1, 5, W, seed=2).requires_grad_()
    assert torch.autograd.gradgradcheck(scan, (links, writes))


@pytest.mark.parametrize("operator", ["scan", "running_largest"])
def test_operators_are_what_torch_takes_them_for(operator):
    links, x = drawn(B, 6, W, seed=1), drawn(B, 7, W, seed=2)
    torch.library.opcheck(getattr(torch.ops.anyformer, operator), (links, x))


class Alone(nn.Module):
    """A mixer by itself, at positions 0, 1, ..."""

    def __init__(self, part, plan):
        super().__init__()
        self.plan, self.part = plan, part.build(8, plan, "part")

    def forward(self, x):
        return self.part(x, Context(torch.arange(x.shape[1])[None], self.plan))


@pytest.mark.parametrize(
    "part",
    [
        Mamba(channels=8, state_width=4, step_rank=2),
        Mamba2(heads=2, head_width=4, state_width=4),
        RGLRU(channels=8, heads=2),
        RWKV(channels=8),
        MLSTM(heads=2, key_width=4, value_width=4),
        TTTLinear(heads=2, minibatch=4),
    ],
    ids=lambda part: part.kind,
)
def test_a_compiler_sees_as_many_steps_for_many_chunks_as_for_few(part):
    seen = []

    def count(graph, inputs):
        seen.append(len(graph.graph.nodes))
        return graph.forward

    for length in (8, 64):
        torch.compiler.reset()
        torch.compile(Alone(part, Plan(chunk=4)), fullgraph=True, dynamic=False, backend=count)(torch.randn(1, length, 8))
    assert len(set(seen)) == 1, seen
