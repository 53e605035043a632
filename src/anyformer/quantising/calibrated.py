"""GPTQ: codes chosen so that the products of a matrix with real inputs change least."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from anyformer.quantising.grouped import Grouped

DAMPING = 0.01
"""What is added to the diagonal of H, in means of it."""
BLOCK = 128
"""Columns whose errors are handed on together to all later ones; a whole number of groups."""


@contextmanager
def watching(model: nn.Module, names: Mapping[str, str]) -> Iterator[dict[str, Tensor]]:
    """H = X^T X over all inputs X (rows, I) of each linear map while it is open: path of the weight -> (I, I), fp32.

    `names`: path of the weight -> path of the `nn.Linear` that it belongs to.
    """
    found: dict[str, Tensor] = {}

    def watch(path: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            x = inputs[0].detach().flatten(0, -2).float()
            found[path] = found.get(path, 0) + x.T @ x

        return hook

    hooks = [model.get_submodule(module).register_forward_pre_hook(watch(path)) for path, module in names.items()]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def calibrated(matrix: Tensor, moment: Tensor, format: Grouped) -> dict[str, Tensor]:
    """The planes of a matrix W (O, I) that keep x W^T, of inputs whose X^T X is `moment`, nearest.

    Column by column: each is rounded, and its error e is taken out of the columns not yet rounded,
        W[:, j:] -= e / U[j, j] U[j, j:],  U the upper Cholesky factor of (H + damping)^-1.
    A group's scale is that of its columns as they are when its first is reached. GPTQ, Frantar et al. 2022, arXiv 2210.17323.
    """
    W, H = matrix.detach().float().clone(), moment.clone()
    inputs = W.shape[1]
    unseen = H.diagonal() == 0
    H[unseen, unseen] = 1
    H.diagonal().add_(DAMPING * H.diagonal().mean())
    U = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(H)), upper=True)
    codes, scales, zeros = torch.empty_like(W), [], []
    size = format.group or inputs
    # One scale for the whole matrix cannot follow the columns as they change.
    grid = format.grid(W)
    for start in range(0, inputs, BLOCK):
        end = min(start + BLOCK, inputs)
        errors = torch.zeros_like(W[:, start:end])
        for j in range(start, end):
            if j % size == 0:
                grid = grid if format.one_scale else format.grid(W[:, j : j + size])
                scales.append(grid[0])
                zeros.append(grid[1])
            codes[:, j : j + 1] = format.codes(W[:, j : j + 1], *grid)
            error = (W[:, j : j + 1] - format.numbers(codes[:, j : j + 1], *grid)) / U[j, j]
            W[:, j:end] -= error * U[j, j:end]
            errors[:, j - start : j - start + 1] = error
        W[:, end:] -= errors @ U[start:end, end:]
    return format.stored(codes, torch.cat(scales, -1), torch.cat(zeros, -1))
