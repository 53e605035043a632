"""Machines that layouts are priced for: what the vendor states, and one set of efficiencies for each generation."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.describe import UserError, did_you_mean


@dataclass(frozen=True)
class Efficiency:
    """What share of the stated figures a well-written training program reaches; the same for every run of a generation.

    `compute`: of the peak, by matrix products and attention; fitted to published rates (docs/published.md), the rest assumed.
    `bandwidth`: of the memory's bandwidth, by element-wise work.
    `link`: of the bandwidth within a node and between nodes, by large messages.
    `overlap`: how much of the time of matrix products can hide transfers of weights and gradients.
    `memory`: of the memory, what tensors may take; the rest goes to the context, to transfers and to fragments.
    """

    compute: float
    bandwidth: float = 0.8
    link: float = 0.8
    overlap: float = 0.8
    memory: float = 0.92


@dataclass(frozen=True)
class Cluster:
    """Accelerators in nodes: all bandwidths are bytes per second of one accelerator in one direction.

    `peak`: dense bf16 FLOP/s; `speed`: bytes per second from and to memory. `hop`: seconds of one step of a
    collective over the network, however small it is.
    """

    name: str
    peak: float
    memory: int
    speed: float
    node: int
    inside: float
    network: float
    efficiency: Efficiency
    hop: float = 5e-6

    def ring(self, members: int, stride: int) -> float:
        """Bytes per second and rank of a ring over `members` ranks that stand `stride` apart.

        A ring inside a node runs over its links. A ring across nodes runs as several, so that the k members of a node share its
        k network ports: min(links, k * port), as all-reduce across whole nodes of 8 measures.
        """
        local = self.local(members, stride)
        raw = self.inside if local == members else min(self.inside, local * self.network)
        return raw * self.efficiency.link

    def local(self, members: int, stride: int) -> int:
        """How many of `members` ranks that stand `stride` apart share a node."""
        return max(min(members, self.node // stride), 1)


# Peaks and memory: the data sheets of NVIDIA A100 (2021), H100 SXM5 (2023). Links: NVLink 3 and 4 give 600 and 900 GB/s of both
# directions, H800 400. Network: 8 ports of 200 (DGX A100) or 400 Gbit/s (DGX H100; Llama 3, arXiv 2407.21783, section 3.3;
# DeepSeek-V3, 2412.19437, section 3). Memory is what the driver shows, about 79 to 80 GiB.
_GIB = 2**30
_CLUSTERS = (
    Cluster("a100", 312e12, 79 * _GIB, 2.04e12, 8, 300e9, 25e9, Efficiency(compute=0.55)),
    Cluster("a100-40gb", 312e12, 39 * _GIB, 1.555e12, 8, 300e9, 25e9, Efficiency(compute=0.55)),
    Cluster("h100", 989e12, 79 * _GIB, 3.35e12, 8, 450e9, 50e9, Efficiency(compute=0.61)),
    Cluster("h800", 989e12, 79 * _GIB, 3.35e12, 8, 200e9, 50e9, Efficiency(compute=0.61)),
)
CLUSTERS = {cluster.name: cluster for cluster in _CLUSTERS}


def cluster(name: str) -> Cluster:
    """The machine of that name."""
    if name not in CLUSTERS:
        raise UserError(f"no hardware {name!r}{did_you_mean(name, CLUSTERS)}; there are {', '.join(CLUSTERS)}")
    return CLUSTERS[name]
