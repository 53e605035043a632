"""The module of the head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.derived import of_width
from anyformer.parts.embedding.head import Head, Transform
from anyformer.parts.embedding.vocabulary import HoldsVocabulary
from anyformer.parts.pointwise.activation_module import built_activation


class TransformModule(nn.Module):
    """(..., D) -> (..., features of y)."""

    def __init__(self, transform: Transform, width: int, outputs: int) -> None:
        super().__init__()
        inner = transform.inner
        self.inner = nn.Identity() if inner is None else nn.Linear(width, inner, bias=transform.bias)
        self.inner_activation = nn.Identity() if inner is None else built_activation(transform.activation, inner)
        self.dense = nn.Linear(inner or width, outputs, bias=transform.bias)
        self.activation = built_activation(transform.activation, outputs)
        self.norm = transform.norm.build(outputs) if transform.norm else nn.Identity()

    def forward(self, x_D: Tensor) -> Tensor:
        return self.norm(self.activation(self.dense(self.inner_activation(self.inner(x_D)))))  # type: ignore[no-any-return]


class HeadModule(HoldsVocabulary):
    """(..., D) -> (..., V). A tied table is an argument of each call, so that no copy, cast or move can break the tie."""

    def __init__(self, head: Head, outputs: int, width: int, features: int) -> None:
        super().__init__()
        self.head, self.scale, read = head, of_width(head.scale, width), head.pooled_width(width)
        self.transform = TransformModule(head.transform, read, features) if head.transform else nn.Identity()
        own = not head.tied and head.outputs != "features"
        self.weight = nn.Parameter(torch.empty(outputs, features)) if own else None
        self.own = nn.Parameter(torch.empty(outputs, head.own)) if head.own else None
        self.bias = nn.Parameter(torch.empty(outputs)) if head.bias else None
        self.gain = nn.Parameter(torch.empty(outputs)) if head.gain else None

    def extra_repr(self) -> str:
        return repr(self.head)

    def forward(self, x_D: Tensor, table_VP: Tensor | None = None) -> Tensor:
        if self.head.outputs == "features":
            return self.transform(x_D)  # type: ignore[no-any-return]
        table = table_VP if self.weight is None else self.weight
        assert table is not None, "a tied head gets the embedding's table"
        table = table if self.own is None else torch.cat([table, self.own], 1)
        gain_V = None if self.head.gain is None or self.gain is None else self.head.gain.taken(self.gain)
        logits_V = self.vocabulary.logits(self.transform(x_D), table, self.bias, gain_V)
        if self.scale != 1.0:
            logits_V = logits_V * self.scale
        if self.head.softcap is not None:
            logits_V = self.head.softcap * torch.tanh(logits_V / self.head.softcap)
        return logits_V

    def pooled(self, x_BTD: Tensor, padding_BT: Tensor | None, tokens: Tensor | None = None) -> Tensor:
        """The vectors that become logits: (B, D) where the head pools, else x itself; `tokens`: those of a text, (B, T)."""
        match self.head.pool:
            case None:
                return x_BTD
            case "first":
                return at_first(x_BTD, padding_BT)
            case "mean":
                return mean_behind(x_BTD, padding_BT, self.head.front)
            case "first_and_mean":
                return torch.cat([at_first(x_BTD, padding_BT), mean_behind(x_BTD, padding_BT, self.head.front)], -1)
            case "last":
                if self.head.passed_over is not None:
                    assert tokens is not None, "a text has tokens, and check refuses passed_over elsewhere"
                    skipped = tokens == self.head.passed_over
                    padding_BT = skipped if padding_BT is None else padding_BT | skipped
                return at_last(x_BTD, padding_BT)


def at_first(x_BTD: Tensor, padding_BT: Tensor | None) -> Tensor:
    """(B, T, D) -> (B, D): the first position of each row that is no padding."""
    if padding_BT is None:
        return x_BTD[:, 0]
    first = (~padding_BT).byte().argmax(1)
    return x_BTD[torch.arange(x_BTD.shape[0], device=x_BTD.device), first]


def mean_behind(x_BTD: Tensor, padding_BT: Tensor | None, front: int) -> Tensor:
    """(B, T, D) -> (B, D): the mean of each row's positions that are no padding, without the first `front` of them."""
    if padding_BT is None:
        return x_BTD[:, front:].mean(1)
    real_BT = ~padding_BT
    counted = (real_BT & (real_BT.cumsum(1) > front))[:, :, None]
    return (x_BTD * counted).sum(1) / counted.sum(1)


def at_last(x: Tensor, padding_BT: Tensor | None) -> Tensor:
    """(B, T, ...) -> (B, ...): the last position of each row that is no padding, the first of a row that is nothing else."""
    if padding_BT is None:
        return x[:, -1]
    last_B = (~padding_BT * torch.arange(x.shape[1], device=x.device)).amax(1)
    return x[torch.arange(x.shape[0], device=x.device), last_B]
