"""The modules of relative positions that depend on the content."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from anyformer.parts.attention.relative import RELATIVE, TERMS, Disentangled, RelativeTable
from anyformer.parts.call.context import Context, Memory
from anyformer.parts.positions.absolute import SinusoidalPosition
from anyformer.parts.positions.absolute_module import sinusoids
from anyformer.parts.slot import HeadSizes


class TransformerXLModule(nn.Module):
    def __init__(self, sizes: HeadSizes) -> None:
        super().__init__()
        H, E = sizes.heads, sizes.head_width
        self.width, self.scale = sizes.width, sizes.scale
        self.content_bias = nn.Parameter(torch.empty(H, E))
        self.position_bias = nn.Parameter(torch.empty(H, E))
        self.relative = nn.Linear(sizes.width, H * E, bias=False)

    def forward(self, q_BHTE: Tensor, memory: Memory, context: Context, own: Any, x_BTD: Tensor) -> Tensor:
        """(B, H, T, S)."""
        k_BKSE, query_BT, key_BS = memory.key, context.positions, memory.keys.positions
        B, H, T, E = q_BHTE.shape
        K, S = k_BKSE.shape[1], k_BKSE.shape[2]
        distance = torch.arange(-(S - 1), S, device=q_BHTE.device)
        waves_nD = sinusoids(distance, self.width, SinusoidalPosition(layout="halves")).to(q_BHTE.dtype)
        r_HEn = self.relative(waves_nD).view(-1, H, E).permute(1, 2, 0)
        q_BHTE = q_BHTE + self.position_bias[:, None].to(q_BHTE.dtype)
        place_BHTn = (q_BHTE.transpose(0, 1).reshape(H, B * T, E) @ r_HEn).view(H, B, T, -1).transpose(0, 1)
        index = (query_BT[:, :, None] - key_BS[:, None, :]).clamp(-(S - 1), S - 1) + S - 1
        place_BHTS = place_BHTn.gather(-1, index[:, None].expand(B, H, T, S))
        u = self.content_bias.to(k_BKSE.dtype).view(K, H // K, E)
        content_BH1S = (u @ k_BKSE.mT).reshape(B, H, 1, S)
        scores: Tensor = (place_BHTS + content_BH1S).float() * self.scale
        return scores


class DisentangledModule(nn.Module):
    def __init__(self, part: Disentangled, sizes: HeadSizes) -> None:
        super().__init__()
        self.part, self.scale, E = part, sizes.scale, sizes.head_width
        own = () if part.shared else part.terms
        self.position_key, self.position_query = (
            nn.Linear(sizes.width, count * E, bias=term in part.bias) if term in own else None
            for term, count in zip(TERMS, (sizes.groups, sizes.heads), strict=True)
        )

    def forward(self, q_BHTE: Tensor, memory: Memory, context: Context, own: Any, x_BTD: Tensor) -> Tensor:
        """(B, H, T, S)."""
        table_nD: Tensor = context.shared[None, RELATIVE]
        k_BKSE, query_BT, key_BS = memory.key, context.positions, memory.keys.positions
        B, H, T, E = q_BHTE.shape
        K, S = k_BKSE.shape[1], k_BKSE.shape[2]
        table_nD = table_nD.to(q_BHTE.dtype)
        relative = query_BT[:, :, None] - key_BS[:, None, :]
        parts: list[Tensor] = []
        if "content_to_position" in self.part.terms:
            keys_nKE = (self.position_key or own.key)(table_nD).view(-1, K, E)
            q_BKgE = q_BHTE.reshape(B, K, H // K * T, E)
            scores = (q_BKgE @ keys_nKE.permute(1, 2, 0)).view(B, H, T, -1)
            parts.append(scores.gather(-1, table_row(self.part, relative)[:, None].expand(B, H, T, S)))
        if "position_to_content" in self.part.terms:
            queries_nHE = (self.position_query or own.query)(table_nD).view(-1, H, E)
            k_BHSE = k_BKSE.to(q_BHTE.dtype).repeat_interleave(H // K, 1)
            scores = k_BHSE @ queries_nHE.permute(1, 2, 0)
            index = table_row(self.part, relative).mT[:, None].expand(B, H, S, T)
            parts.append(scores.gather(-1, index).mT)
        terms: Tensor = sum(parts[1:], parts[0])
        return terms.float() * self.scale


class RelativeTableModule(nn.Module):
    def __init__(self, table: RelativeTable, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2 * table.span, width))
        self.norm = table.norm.build(width) if table.norm else nn.Identity()

    def forward(self) -> Tensor:
        return self.norm(self.weight)  # type: ignore[no-any-return]


def table_row(part: Disentangled, relative: Tensor) -> Tensor:
    """The table row of t - s: the distance, logarithmic beyond half the span, shifted to be positive."""
    if part.max_distance is not None:
        middle = part.span // 2
        distance = relative.abs().clamp(min=1).float()
        far = torch.ceil(torch.log(distance / middle) / math.log((part.max_distance - 1) / middle) * (middle - 1)) + middle
        relative = torch.where(relative.abs() <= middle, relative, (far * relative.sign()).long())
    return (relative + part.span).clamp(0, 2 * part.span - 1)
