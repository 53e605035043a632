"""The mathematics of factoring keys and values into a latent, after TransMLA (Meng et al. 2025, arXiv 2502.07864)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.parts.layout import HeadsLayout, LatentLayout
from anyformer.surgery.operation import ROUNDING, Fresh, Made, judged, relative_error

Pair = tuple[int, int]


@dataclass(frozen=True)
class Turn:
    """A pair of features of the shared rotated key, and the neighbouring pairs of every head that it stands for."""

    key: Pair
    heads: tuple[Pair, ...]


@dataclass(frozen=True)
class Factored:
    """W_q, W_k, W_v of heads -> the projections of a latent.

    1. One rotation for all heads (the paper's RoRoPE, section 4.2, and FreqFold, appendix C): of the pairs of all key heads
       that turn at one frequency, the first principal component becomes the shared rotated key; the rest of the keys loses its
       rotation. Exact for one key head whose pairs are not folded.
    2. Scores without rotation: q_h^T k_h of each head in n = `nope_width` features, exact for n >= E or the rank left.
    3. Keys and values, balanced to equal norms (section 4.3), by one truncated singular value decomposition of rank P, exact if
       P is their rank. Components are those of the weights, as for inputs of equal variance; the paper takes activations.
    """

    heads: HeadsLayout
    latent: LatentLayout
    turns: tuple[Turn, ...]

    @property
    def words(self) -> str:
        return "factored by singular values"

    def __call__(self, given: Sequence[Tensor], fresh: Sequence[Fresh]) -> list[Made]:
        old, new = self.heads, self.latent
        width, dtype = given[0].shape[1], given[0].dtype
        q_HED = given[0].double().view(old.heads, old.head_width, width) * (old.scale / new.scale)
        k_KED = given[1].double().view(old.kv_heads, old.head_width, width)
        v_KUD = given[2].double().view(old.kv_heads, old.value_width, width) * old.value_scale
        rope_q, rope_k, rest_KED, lost = self._decoupled(q_HED, k_KED)
        if rest_KED.norm() <= ROUNDING * k_KED.norm():  # what is left is rounding
            rest_KED = torch.zeros_like(rest_KED)
        nope_q, nope_k, cut = self._narrowed(q_HED, rest_KED)
        key_up, value_up, kv_down, key_error, value_error = self._compressed(nope_k, v_KUD)
        query = torch.cat([nope_q, rope_q], 1).flatten(0, 1)
        down, up, query_error = factors(query, new.q_rank) if new.q_rank else (None, query, 0.0)
        made = [
            judged(up.to(dtype), query_error), judged(kv_down.to(dtype), max(key_error, value_error)),
            judged(rope_k.to(dtype), lost), judged(key_up.to(dtype), max(key_error, cut)),
            judged(value_up.to(dtype), value_error),
        ]  # fmt: skip
        return made if down is None else [*made, judged(down.to(dtype), query_error)]

    def _decoupled(self, q_HED: Tensor, k_KED: Tensor) -> tuple[Tensor, Tensor, Tensor, float]:
        """Queries and the key of rotated features, the keys' rest, and the share of rotated keys that loses its rotation."""
        H, _, width = q_HED.shape
        K, R = len(k_KED), self.latent.rope_width
        rope_q, rope_k, rest = q_HED.new_zeros(H, R, width), k_KED.new_zeros(R, width), k_KED.clone()
        whole = left = 0.0
        for turn in self.turns:
            parts = [[pair[side] for pair in turn.heads] for side in (0, 1)]
            # Rows: every pair of every key head; the two sides of a pair turn together, so they share their component.
            sides = [k_KED[:, part].flatten(0, 1) for part in parts]
            gram = sum((side @ side.mT for side in sides), k_KED.new_zeros(()))
            component = torch.linalg.eigh(gram).eigenvectors[:, -1]
            by_head = component.view(K, -1).repeat_interleave(H // K, 0)
            for place, part, side in zip(turn.key, parts, sides, strict=True):
                rope_k[place] = component @ side
                rope_q[:, place] = (by_head[:, :, None] * q_HED[:, part]).sum(1)
                gone = (side - component[:, None] * rope_k[place]).view(K, len(part), width)
                rest[:, part] = gone
                whole, left = whole + float(side.square().sum()), left + float(gone.square().sum())
        return rope_q, rope_k, rest, (left / whole) ** 0.5 if whole else 0.0

    def _narrowed(self, q_HED: Tensor, k_KED: Tensor) -> tuple[Tensor, Tensor, float]:
        """Queries (H, n, D) and keys (H, n, D) or (K, n, D) with q^T k as near as n features allow, and its relative error."""
        features, n = k_KED.shape[1], self.latent.nope_width
        if n >= features:
            return _padded(q_HED, n), _padded(k_KED, n), 0.0
        k_HED = k_KED.repeat_interleave(len(q_HED) // len(k_KED), 0)
        q_basis, q_small = torch.linalg.qr(q_HED.mT)
        k_basis, k_small = torch.linalg.qr(k_HED.mT)
        left, values, right = torch.linalg.svd(q_small @ k_small.mT)
        root = values[:, :n].sqrt()
        q_HnD = ((q_basis @ left[:, :, :n]) * root[:, None]).mT
        k_HnD = ((k_basis @ right.mT[:, :, :n]) * root[:, None]).mT
        total = float(values.square().sum())
        return q_HnD, k_HnD, (float(values[:, n:].square().sum()) / total) ** 0.5 if total else 0.0

    def _compressed(self, k: Tensor, v_KUD: Tensor) -> tuple[Tensor, Tensor, Tensor, float, float]:
        """key_up (H n, P), value_up (H U, P), kv_down (P, D), and the relative errors of keys and values."""
        H, n, rows = self.heads.heads, k.shape[1], k.shape[0] * k.shape[1]
        keys, values = k.flatten(0, 1), v_KUD.flatten(0, 1)
        sizes = float(keys.norm()), float(values.norm())
        balance = sizes[0] / sizes[1] if min(sizes) > 0 else 1.0
        down, up, _ = factors(torch.cat([keys / balance, values]), self.latent.kv_rank)
        key_up, value_up = up[:rows] * balance, up[rows:]
        errors = relative_error(key_up @ down, keys), relative_error(value_up @ down, values)
        key_up = key_up.view(-1, n, up.shape[1]).repeat_interleave(H // len(k), 0).flatten(0, 1)
        value_up = value_up.view(len(v_KUD), -1, up.shape[1]).repeat_interleave(H // len(v_KUD), 0).flatten(0, 1)
        return key_up, value_up, down, *errors


def factors(matrix: Tensor, rank: int) -> tuple[Tensor, Tensor, float]:
    """down (rank, inputs) and up (outputs, rank) with up @ down as near to `matrix` as can be, and the relative error.

    Eckart & Young 1936 (doi 10.1007/BF02288367). Singular values are shared by both, so that neither is much larger.
    """
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    root = values[:rank].sqrt()
    down, up = root[:, None] * right[:rank], left[:, :rank] * root
    total = float(values.square().sum())
    error = (float(values[rank:].square().sum()) / total) ** 0.5 if total else 0.0
    return _padded(down[None], rank)[0], _padded(up.mT[None], rank)[0].mT, error


def _padded(x: Tensor, rows: int) -> Tensor:
    """(N, r, D) -> (N, rows, D), with zeros after the r rows."""
    return torch.nn.functional.pad(x, (0, 0, 0, max(rows - x.shape[1], 0)))
