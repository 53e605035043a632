"""Experts in several processes: tokens gathered by all, or sent to their experts: bytes counted, and the same numbers.

    python -m benchmarks.dispatching

Each process has N tokens and 16 / processes of 16 experts, which are matrices here; each token chooses 2. *All-gather*: every
process gets all tokens and choices, computes its experts' part of each, and the parts are summed where the tokens came from
(reduce-scatter). *All-to-all*: each row travels to its expert and back. Both are differentiated, and compared with one process
that has all experts. No figure depends on the machine. Writes benchmarks/results/dispatching.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from benchmarks.equality import RANKS, Start, by_torchrun, rows_of
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

from anyformer.model.collectives import Group, gathered, scattered
from anyformer.parts.experts.dispatch import ExpertRows
from anyformer.testing.collective_bytes import Counting
from anyformer.training.parallel.experts import AllToAll
from anyformer.training.parallel.launch import connect

RESULT = Path(__file__).parent / "results" / "dispatching.json"
EXPERTS, CHOSEN, TOKENS, WIDTH = 16, 2, 256, 64
FLOAT, INTEGER = 4, 8
Way = Callable[[Tensor, Tensor, Tensor, Group], Tensor]
"""Tokens (N, D), their choices (N, K) and this process's experts (X / processes, D, D) -> the sums of outputs (N, D)."""


def by_all_gather(x_ND: Tensor, chosen_NK: Tensor, weights_XDE: Tensor, group: Group) -> Tensor:
    """Every process computes its experts for the tokens of all."""
    every = TOKENS * group.size
    all_ND = gathered(x_ND[None], every, group)[0]
    choices_NK = gathered(chosen_NK[None], every, group)[0]
    part_ND = torch.zeros_like(all_ND)
    for i, weight_DE in enumerate(weights_XDE, group.rank * len(weights_XDE)):
        part_ND = part_ND + (choices_NK == i).sum(1, keepdim=True) * (all_ND @ weight_DE)
    return scattered(part_ND[None], group)[0]


def by_all_to_all(x_ND: Tensor, chosen_NK: Tensor, weights_XDE: Tensor, group: Group) -> Tensor:
    """Each row is computed where its expert is."""

    def compute(rows_QD: Tensor, groups: ExpertRows) -> Tensor:
        assert groups.ends is not None, "experts have different numbers of rows"
        begins = [0, *groups.ends.tolist()]
        return torch.cat([rows_QD[a:b] @ weight for a, b, weight in zip(begins, begins[1:], weights_XDE, strict=False)])

    flat = chosen_NK.flatten()
    order = flat.argsort(stable=True)
    groups = ExpertRows(flat[order], torch.bincount(flat, minlength=EXPERTS).cumsum(0))
    rows_QD = AllToAll(group)(compute, x_ND.repeat_interleave(CHOSEN, 0)[order], groups)
    return rows_QD[order.argsort()].view(TOKENS, CHOSEN, WIDTH).sum(1)


WAYS: Mapping[str, Way] = {"all-gather": by_all_gather, "all-to-all": by_all_to_all}


def foretold(ranks: int) -> dict[str, int]:
    """Bytes of a forward and a backward pass, of all processes: of P processes each gathers P N tokens and choices, and as many
    are reduced; each sends K N rows there and back, the numbers of rows before, and all again in the backward pass."""
    tokens = TOKENS * WIDTH * FLOAT
    return {
        "all-gather": ranks * ranks * (4 * tokens + TOKENS * CHOSEN * INTEGER),
        "all-to-all": ranks * (4 * CHOSEN * tokens + EXPERTS * INTEGER),
    }


def work(out: Path) -> None:
    """What each process does; the first writes a line for each way."""
    torch.set_num_threads(1)
    connect(torch.device("cpu"), timeout=60)  # it parts at exit: gloo ends a process with an error whose group outlives it
    ranks = dist.get_world_size()
    mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("expert",))
    group = Group.of(mesh.get_group())
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(EXPERTS, WIDTH, WIDTH, generator=generator) / WIDTH**0.5
    all_tokens = torch.randn(ranks * TOKENS, WIDTH, generator=generator)
    all_choices = torch.rand(ranks * TOKENS, EXPERTS, generator=generator).argsort(1)[:, :CHOSEN]
    for name, way in WAYS.items():
        here = slice(group.rank * TOKENS, (group.rank + 1) * TOKENS)
        tokens, experts = all_tokens[here].clone().requires_grad_(), weights.chunk(ranks)[group.rank].clone().requires_grad_()
        with Counting(mesh) as counting:
            found = way(tokens, all_choices[here], experts, group)
            found.square().sum().backward()  # type: ignore[no-untyped-call]
        bytes_of_all = torch.tensor(sum(counting.bytes.values()))
        dist.all_reduce(bytes_of_all)
        whole, every = all_tokens.clone().requires_grad_(), weights.clone().requires_grad_()
        outputs = torch.stack([whole @ weight for weight in every], 1)
        wanted = outputs.gather(1, all_choices[:, :, None].expand(-1, -1, WIDTH)).sum(1)
        wanted.square().sum().backward()  # type: ignore[no-untyped-call]
        pairs = ((found, wanted[here]), (tokens.grad, whole.grad[here]), (experts.grad, every.grad.chunk(ranks)[group.rank]))
        error = torch.tensor(max(float((ours - theirs).detach().norm() / theirs.detach().norm()) for ours, theirs in pairs))
        dist.all_reduce(error, dist.ReduceOp.MAX)
        if group.rank == 0:
            row = {
                "ranks": ranks,
                "way": name,
                "bytes": int(bytes_of_all),
                "foretold": foretold(ranks)[name],
                "error": float(error),
            }
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    dist.barrier()  # gloo may abort a process whose partner is gone already


def main() -> None:
    """Count, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.out is not None:
        work(given.out)
        return
    rows = [row for ranks in RANKS for row in found_by(ranks)]
    sizes = {"experts": EXPERTS, "chosen": CHOSEN, "tokens": TOKENS, "width": WIDTH}
    facts = {"date": date.today().isoformat(), "versions": {"torch": version("torch")}, **sizes}
    RESULT.write_text(json.dumps({**facts, "results": rows}, indent=1) + "\n", encoding="utf-8")
    for row in rows:
        said = f"{row['bytes']:,} bytes, foretold {row['foretold']:,}; error {row['error']:.0e}"
        print(f"{row['ranks']} processes, {row['way']}: {said}")


def found_by(ranks: int, start: Start = by_torchrun) -> list[dict[str, Any]]:
    """What so many processes found."""
    with tempfile.TemporaryDirectory() as folder:
        return list(rows_of("benchmarks.dispatching", (), ranks, Path(folder), start))


if __name__ == "__main__":
    main()
