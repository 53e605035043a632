"""The bytes that collectives of a training step carry in every mode: counted, and as `planning.collectives` foretells them.

    python -m benchmarks.exchanges                    # 2, 4 and 8 processes, and the committed table
    python -m benchmarks.exchanges --ranks 2

Each process runs one forward and backward pass of the tiny form of a catalogue entry and counts the bytes of its collectives,
by operation and dimension of the mesh; those of all processes are added. Beside them stand the bytes of weights that the
fullest process holds. No figure depends on the machine. Writes benchmarks/results/exchanges.json.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from benchmarks.equality import MODES, Case, asked, by_mode, every_case, found, pieces_of, run_of, written
from benchmarks.forms import TWICE, WIDE

from anyformer.model.divided import local
from anyformer.objectives import divides_logits
from anyformer.planning.collectives import Workload, exchanged
from anyformer.planning.held_weights import held
from anyformer.testing.collective_bytes import Counting
from anyformer.training.held_out import corpus_of
from anyformer.training.parallel import joined
from anyformer.training.parallel.together import Together
from anyformer.training.precision import Host
from anyformer.training.trainer import Trainer

RESULT = Path(__file__).parent / "results" / "exchanges.json"


@dataclass(frozen=True)
class Exchange:
    """Bytes of a case by `operation dimension`, of all processes; and those of the weights of one."""

    case: str
    ranks: int
    counted: Mapping[str, int]
    foretold: Mapping[str, int]
    held: int
    held_foretold: int

    @property
    def equal(self) -> bool:
        return dict(self.counted) == dict(self.foretold) and self.held == self.held_foretold


def cases_of(ranks: int) -> list[Case]:
    """Every pair of mode and architecture in which all weights learn, but those of two models, whose collectives would be told
    as one's."""
    cases = [case for case in every_case(ranks) if case.optimiser == "adamw" and case.form in (WIDE, TWICE)]
    return [case for case in cases if case.architecture != "electra-small"]


def counted(case: Case, text: Path, ranks: Together) -> Exchange:
    """What the processes send in one forward and backward pass."""
    run = run_of(case, text, pieces_of(ranks.asked, case.form), ranks.asked.all_chunks)
    trainer = Trainer.start(run, corpus_of(run), Host(torch.device("cpu"), {"fp32": 1e9}), ranks=ranks)
    batch = trainer.micro_batches(0)
    weights = {p.untyped_storage().data_ptr(): p.untyped_storage().nbytes() for p in map(local, learned(trainer))}
    # A pipeline asks in the first passes of what size its stream is.
    trainer.passes.add_gradients(batch)
    with Counting(*ranks.meshes) as counting:
        trainer.passes.add_gradients(batch)
    assert not counting.unknown, counting.unknown
    first, total = batch.pieces[0], Counter[str]()
    for each in ranks.every(dict(counting.bytes)):
        total.update({" ".join(key): size for key, size in each.items()})
    source = 0 if first.decoder_tokens is None else first.tokens.shape[1]
    length = first.tokens.shape[1] if first.decoder_tokens is None else first.decoder_tokens.shape[1]
    sizes = Workload(len(batch.pieces) * ranks.replicas, first.tokens.shape[0], length, source)
    vocabulary = divides_logits(run.objective)
    foretold = exchanged(run.architecture, ranks.asked, sizes, vocabulary=vocabulary)
    return Exchange(
        str(case), ranks.size, dict(sorted(total.items())), {" ".join(key): size for key, size in sorted(foretold.items())},
        max(ranks.every(sum(weights.values()))), held(run.architecture, ranks.asked, vocabulary=vocabulary),
    )  # fmt: skip


def learned(trainer: Trainer) -> list[torch.Tensor]:
    """The weights that gradients move."""
    return [parameter for parameter in trainer.model.parameters() if parameter.requires_grad]


def work(cases: Iterable[Case], out: Path) -> None:
    """What each process does: all cases in one group; the first writes a line for each."""
    text = out.with_suffix(".txt")
    torch.set_num_threads(1)
    for mode, those in by_mode(cases).items():
        with joined(MODES[mode][int(os.environ["WORLD_SIZE"])], torch.device("cpu")) as ranks:
            assert isinstance(ranks, Together)
            ranks.first_alone(lambda: written(text))
            for case in those:
                exchange = counted(case, text, ranks)
                if ranks.first:
                    with out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(asdict(exchange)) + "\n")


def main() -> None:
    """Count, and write the table."""
    given = asked(__doc__)
    if given.out is not None:
        work(map(Case.of, given.cases), given.out)
        return
    for row in found("benchmarks.exchanges", given, RESULT, cases_of):
        each = Exchange(**row)
        print(f"{each.ranks} {each.case}: {'equal' if each.equal else f'different: {row}'}")


if __name__ == "__main__":
    main()
