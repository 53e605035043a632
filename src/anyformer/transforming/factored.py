"""The mathematics of factoring keys and values into a latent, after TransMLA (Meng et al. 2025, arXiv 2502.07864)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.parts.layout import HeadsLayout, LatentLayout
from anyformer.transforming.operation import ROUNDING, Fresh, MadeWeight, judged, relative_error

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
       P is their rank.

    Components are those of activations where the moments E[x x^T] of the inputs are given, as in the paper, else those of the
    weights, as for inputs of equal variance. Errors are relative, in the same measure.
    """

    heads: HeadsLayout
    latent: LatentLayout
    turns: tuple[Turn, ...]

    @property
    def words(self) -> str:
        return "factored by singular values"

    def __call__(self, given: Sequence[Tensor], fresh: Sequence[Fresh]) -> list[MadeWeight]:
        """`given`: the weights of queries, keys and values, and where they are known the moments (D, D) of the inputs."""
        old, new = self.heads, self.latent
        width, dtype = given[0].shape[1], given[0].dtype
        root_DD = root(given[3]) if len(given) > 3 else torch.eye(width, dtype=torch.float64, device=given[0].device)
        q_HED = given[0].double().view(old.heads, old.head_width, width) * (old.scale / new.scale)
        k_KED = given[1].double().view(old.kv_heads, old.head_width, width)
        v_KUD = given[2].double().view(old.kv_heads, old.value_width, width) * old.value_scale
        rope_q, rope_k, rest_KED, lost = self._decoupled(q_HED, k_KED, root_DD)
        if rest_KED.norm() <= ROUNDING * k_KED.norm():  # what is left is rounding
            rest_KED = torch.zeros_like(rest_KED)
        nope_q, nope_k, cut = self._narrowed(q_HED, rest_KED, root_DD)
        key_up, value_up, kv_down, key_error, value_error = self._compressed(nope_k, v_KUD, root_DD)
        query = torch.cat([nope_q, rope_q], 1).flatten(0, 1)
        down, up, query_error = factors(query, new.q_rank, root_DD) if new.q_rank else (None, query, 0.0)
        made = [
            judged(up.to(dtype), query_error), judged(kv_down.to(dtype), max(key_error, value_error)),
            judged(rope_k.to(dtype), lost), judged(key_up.to(dtype), max(key_error, cut)),
            judged(value_up.to(dtype), value_error),
        ]  # fmt: skip
        return made if down is None else [*made, judged(down.to(dtype), query_error)]

    def _decoupled(self, q_HED: Tensor, k_KED: Tensor, root_DD: Tensor) -> tuple[Tensor, Tensor, Tensor, float]:
        """Queries and the key of rotated features, the keys' rest, and the share of rotated keys that loses its rotation."""
        H, _, width = q_HED.shape
        K, R = len(k_KED), self.latent.rope_width
        rope_q, rope_k, rest = q_HED.new_zeros(H, R, width), k_KED.new_zeros(R, width), k_KED.clone()
        whole = left = 0.0
        for turn in self.turns:
            parts = [[pair[side] for pair in turn.heads] for side in (0, 1)]
            # Rows: every pair of every key head; the two sides of a pair turn together, so they share their component.
            sides = [k_KED[:, part].flatten(0, 1) for part in parts]
            sizes = [side @ root_DD for side in sides]
            gram = sum((size @ size.mT for size in sizes), k_KED.new_zeros(()))
            component = torch.linalg.eigh(gram).eigenvectors[:, -1]
            by_head = component.view(K, -1).repeat_interleave(H // K, 0)
            for place, part, side, size in zip(turn.key, parts, sides, sizes, strict=True):
                rope_k[place] = component @ side
                rope_q[:, place] = (by_head[:, :, None] * q_HED[:, part]).sum(1)
                rest[:, part] = (side - component[:, None] * rope_k[place]).view(K, len(part), width)
                gone = size - component[:, None] * (component @ size)
                whole, left = whole + float(size.square().sum()), left + float(gone.square().sum())
        return rope_q, rope_k, rest, (left / whole) ** 0.5 if whole else 0.0

    def _narrowed(self, q_HED: Tensor, k_KED: Tensor, root_DD: Tensor) -> tuple[Tensor, Tensor, float]:
        """Queries (H, n, D) and keys (H, n, D) or (K, n, D) with q^T k as near as n features allow, and its relative error."""
        features, n = k_KED.shape[1], self.latent.nope_width
        if n >= features:
            return _padded(q_HED, n), _padded(k_KED, n), 0.0
        k_HED = k_KED.repeat_interleave(len(q_HED) // len(k_KED), 0)
        # q^T k depends on both through the triangles of their decompositions alone.
        q_small, k_small = (torch.linalg.qr((x @ root_DD).mT, mode="r").R for x in (q_HED, k_HED))
        left, values, right = torch.linalg.svd(q_small @ k_small.mT)
        share = values[:, None, :n].sqrt()
        q_HnD = (left[:, :, :n] * share).mT @ torch.linalg.pinv(q_small).mT @ q_HED
        k_HnD = (right.mT[:, :, :n] * share).mT @ torch.linalg.pinv(k_small).mT @ k_HED
        total = float(values.square().sum())
        return q_HnD, k_HnD, (float(values[:, n:].square().sum()) / total) ** 0.5 if total else 0.0

    def _compressed(self, k: Tensor, v_KUD: Tensor, root_DD: Tensor) -> tuple[Tensor, Tensor, Tensor, float, float]:
        """key_up (H n, P), value_up (H U, P), kv_down (P, D), and the relative errors of keys and values."""
        H, n, rows = self.heads.heads, k.shape[1], k.shape[0] * k.shape[1]
        keys, values = k.flatten(0, 1), v_KUD.flatten(0, 1)
        sizes = float((keys @ root_DD).norm()), float((values @ root_DD).norm())
        balance = sizes[0] / sizes[1] if min(sizes) > 0 else 1.0
        down, up, _ = factors(torch.cat([keys / balance, values]), self.latent.kv_rank, root_DD)
        key_up, value_up = up[:rows] * balance, up[rows:]
        seen = down @ root_DD
        errors = relative_error(key_up @ seen, keys @ root_DD), relative_error(value_up @ seen, values @ root_DD)
        key_up = key_up.view(-1, n, up.shape[1]).repeat_interleave(H // len(k), 0).flatten(0, 1)
        value_up = value_up.view(len(v_KUD), -1, up.shape[1]).repeat_interleave(H // len(v_KUD), 0).flatten(0, 1)
        return key_up, value_up, down, *errors


def root(moments_DD: Tensor) -> Tensor:
    """The symmetric root of E[x x^T]: |W x| is on average |W root| in the Frobenius norm."""
    values, vectors = torch.linalg.eigh(moments_DD.double())
    rooted: Tensor = vectors * values.clamp(min=0).sqrt() @ vectors.mT
    return rooted


def factors(matrix: Tensor, rank: int, root_DD: Tensor) -> tuple[Tensor, Tensor, float]:
    """down (rank, inputs) and up (outputs, rank) with up @ down as near to `matrix` as can be, and the relative error.

    Both on inputs whose moments have this root: the outputs are projected on their first principal components (Eckart & Young
    1936, doi 10.1007/BF02288367). Singular values are shared by both, so that neither is much larger.
    """
    left, values, _ = torch.linalg.svd(matrix @ root_DD, full_matrices=False)
    left, kept = left[:, :rank], values[:rank]
    share = kept.clamp(min=ROUNDING**2 * float(values[0])).sqrt() if values.any() else torch.ones_like(kept)
    up, down = left * share, (left / share).mT @ matrix
    total = float(values.square().sum())
    error = (float(values[rank:].square().sum()) / total) ** 0.5 if total else 0.0
    return _padded(down[None], rank)[0], _padded(up.mT[None], rank)[0].mT, error


def _padded(x: Tensor, rows: int) -> Tensor:
    """(N, r, D) -> (N, rows, D), with zeros after the r rows."""
    return torch.nn.functional.pad(x, (0, 0, 0, max(rows - x.shape[1], 0)))
