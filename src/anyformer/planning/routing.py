"""Tokens sent to their experts: how many ranks and nodes each goes to, and the bytes on either kind of link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import comb

from anyformer.operations import ExpertProduct
from anyformer.planning.layout import Layout

FP8 = 1 + 4 / 128
"""Bytes of a number in fp8 with its share of a scale of 128 numbers in fp32 (DeepSeek-V3, arXiv 2412.19437, section 3.3.2)."""


@dataclass(frozen=True)
class MixtureRouting:
    """A mixture as tokens are sent to it: each, of `width` features, passes `chosen` of `experts` experts, which are of `keep`
    of `groups` equal groups."""

    chosen: int
    experts: int
    width: int
    groups: int = 1
    keep: int = 1

    @classmethod
    def of(cls, work: ExpertProduct) -> MixtureRouting:
        """The routing of a product that tokens enter."""
        return cls(work.chosen, work.experts, work.inputs, work.groups, work.keep)

    def reached(self, parts: int) -> float:
        """Of `parts` that divide the experts evenly, how many hold one of a token's, if all are chosen equally often.

        parts * (1 - P), P the chance that none of the k experts is in a part: C(n - s, k) / C(n, k), n experts of which s are
        in it; with groups (DeepSeek-V2, arXiv 2405.04434, section 2.2.2) n and s count those of the groups kept.
        """
        size, group = self.experts // parts, self.experts // self.groups
        n = group * self.keep
        if size % group == 0:
            inside = size // group
            ways = comb(self.groups, self.keep)
            missed = sum(
                comb(inside, j) * comb(self.groups - inside, self.keep - j) / ways * self._missed(n, j * group)
                for j in range(min(inside, self.keep) + 1)
            )
        elif group % size == 0:
            share = self.keep / self.groups
            missed = 1 - share + share * self._missed(n, size)
        else:
            missed = self._missed(self.experts, size)
        return parts * (1 - missed)

    def _missed(self, n: int, inside: int) -> float:
        """The chance that none of k of n experts is one of those `inside`."""
        return comb(n - inside, self.chosen) / comb(n, self.chosen)


def copies(routing: MixtureRouting, layout: Layout, domain: int) -> tuple[float, float]:
    """Copies of a token that its rank sends within nodes of `domain` ranks, and to other nodes, on one of its ways.

    by_expert: one to each expert, evenly spread over ep ranks (GShard, Lepikhin et al. 2020, arXiv 2006.16668).
    by_node: one to each node, to the rank with the same place there, which passes it on to each rank with one of its experts
    (DeepSeek-V3, arXiv 2412.19437, section 3.2.2, and DeepEP).
    """
    near = min(layout.ep, domain)
    nodes = -(-layout.ep // near)
    if layout.dispatcher == "by_expert":
        return routing.chosen * (near - 1) / layout.ep, routing.chosen * (layout.ep - near) / layout.ep
    return routing.reached(layout.ep) * (near - 1) / near, routing.reached(nodes) * (nodes - 1) / nodes


def dispatched(
    routings: Mapping[MixtureRouting, int], layout: Layout, tokens: int, element: int, domain: int, *, again: bool
) -> tuple[int, int]:
    """Bytes that a rank sends within its node and to other nodes while `tokens` of its own pass the mixtures and back;
    `routings`: how many mixtures are alike.

    Each token is dispatched and combined, and so are gradients on their way back; `again`: the forward pass is computed twice.
    Dispatches may be in fp8, sums of experts' outputs are in `element` bytes.
    """
    ways = 2 + again
    number = ways * ((FP8 if layout.fp8_dispatch else element) + element)
    near = far = 0.0
    for routing, times in routings.items():
        beside, beyond = copies(routing, layout, domain)
        near += times * beside * routing.width * tokens * number
        far += times * beyond * routing.width * tokens * number
    return round(near), round(far)
