"""Models that several processes generate with, beside whole ones: `python generating.py FOLDER`, in each process of a group."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from unittest import mock

import torch
from torch import Tensor

from anyformer import checkpoint, huggingface
from anyformer.api import architecture
from anyformer.cli import main
from anyformer.data import Bytes, Text
from anyformer.generation import Sampling, generate_tokens
from anyformer.generation.beams import Beams
from anyformer.generation.memory import state_bytes
from anyformer.inference import SeveralProcesses, processes
from anyformer.loading import load
from anyformer.model.transformer import Transformer, build
from anyformer.plan import Plan
from anyformer.training import Run, journal
from anyformer.training.held_out import corpus_of

EXPORTED = "exported"
"""A Llama in Hugging Face's layout."""
CASES: dict[int, tuple[tuple[str, int], ...]] = {
    2: (("llama-3-8b", 1), ("deepseek-v3", 1), ("mixtral-8x7b", 2), ("gpt2", 1), ("qwen3-next-80b-a3b", 1), ("t5-small", 1),
        (EXPORTED, 1)),
    4: (("llama-3-8b", 1), ("deepseek-v3", 2), ("mixtral-8x7b", 4)),
}  # fmt: skip
"""By the number of processes: an entry of the catalogue, and the processes that divide its experts."""
RUN = "run"
COMMANDS = (
    ("generate", "mixtral-8x7b", "--tokens", "5,6,7", "--tokens", "9", "-n", "8", "--temperature", "1", "--expert", "2"),
    ("generate", RUN, "def f(", "-n", "8", "--json"),
    ("eval", RUN, "--json", "--draw", "picture.png"),
    ("generate", RUN, "--chat", "--template", "template.txt", "-n", "4"),
)
"""Commands that two processes run; the last reads lines of the user."""
SAID = "what\nis\n/exit\n"


@dataclass(frozen=True)
class Generated:
    """How a case of some processes differs from one process.

    `logits`: the largest difference, relative; `texts`, `beams`: whether tokens are the same; `alike`: whether all processes
    had the same bits; `weights`, `state`: their share of the bytes of one, slots left out; `declared`: the bytes of the state
    that are checked beforehand, relative to those that it has.
    """

    case: str
    processes: int
    logits: float
    texts: bool
    beams: bool
    alike: bool
    weights: float
    state: float
    declared: float


def perturbed(name: str) -> Transformer:
    """The tiny form of an entry, in which no bias is zero and no gain one."""
    model = build(architecture(name, tiny=True), seed=1)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter += (
                    0.1 * torch.randn(parameter.shape, generator=generator) * parameter.std(correction=0).clamp(min=0.1)
                )
    return model.eval()


def prepare(folder: Path) -> None:
    """A checkpoint of each case, and a run with held-out text."""
    huggingface.export(perturbed("llama-3-8b"), folder / EXPORTED)
    for name in {name for cases in CASES.values() for name, _ in cases} - {EXPORTED}:
        checkpoint.save(perturbed(name), folder / name)
    (folder / "text.txt").write_text("\n".join(f"def f{i}(x):\n    return x + {i * i % 97}\n" for i in range(200)))
    (folder / "template.txt").write_text("{% for turn in messages %}{{ turn.content }}<|endoftext|>{% endfor %}")
    run = Run(
        steps=1, batch=4, length=32, plan=Plan(precision="fp32", compile="off"), architecture=architecture("gpt2", tiny=True),
        data=Text(paths=(str(folder / "text.txt"),), tokenizer=Bytes(), validation=0.2),
    )  # fmt: skip
    (folder / RUN).mkdir()
    journal.write_run(folder / RUN, run)
    checkpoint.save(perturbed("gpt2"), checkpoint.directory_of(folder / RUN, 1), tokenizer=corpus_of(run).tokenizer)


def size(model: Transformer) -> int:
    return sum(each.nbytes for each in model.parameters())


@torch.inference_mode()
def logits_of(model: Transformer) -> Tensor:
    tokens = torch.arange(14).view(2, 7) % 11
    logits: Tensor = model(tokens, tokens) if model.architecture.two_inputs else model(tokens)
    return logits


def compared(name: str, expert: int, folder: Path, them: SeveralProcesses) -> Generated | None:
    """A case in this process; the first computes what one process does, and None is what the others have."""
    part = load(folder / name, divide=them.divide)[0]
    ours = logits_of(part)
    prompts, source = [[3, 1, 4, 1, 5], [9, 2], [6, 5, 3]], 8 if part.architecture.two_inputs else 0
    write = partial(generate_tokens, prompts=prompts, max_tokens=10, **({"start": 0} if source else {}))
    drawn = partial(write, sampling=Sampling(temperature=1.0, seed=2), batch=2)
    found, beams = drawn(part), write(part, beams=Beams(count=2))
    digests = them.ranks.every(hashlib.sha256(ours.numpy().tobytes() + json.dumps(found).encode()).hexdigest())
    if not them.ranks.first:
        return None
    whole = load(folder / name)[0]
    theirs = logits_of(whole)
    held, all_of_it = (model.state(2, 64, source=source) for model in (part, whole))
    slots = held.slots.nbytes
    return Generated(
        f"{name}:{expert}", them.ranks.size, float((ours - theirs).abs().max() / theirs.abs().max()), found == drawn(whole),
        beams == write(whole, beams=Beams(count=2)), len(set(digests)) == 1,
        size(part) / size(whole), (held.nbytes - slots) / (all_of_it.nbytes - slots),
        state_bytes(part, 2, 64, source) / held.nbytes,
    )  # fmt: skip


def act(folder: Path) -> None:
    """What each process of a group does."""
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    for name, expert in CASES[count]:
        with processes("cpu", expert) as them:
            assert isinstance(them, SeveralProcesses)
            if count == 2:
                them.ranks.first_alone(lambda: None if (folder / RUN).exists() else prepare(folder))
            found = compared(name, expert, folder, them)
        if found is not None:
            with (folder / "found.jsonl").open("a") as file:
                file.write(json.dumps(asdict(found)) + "\n")
    for number, words in enumerate(COMMANDS if count == 2 else ()):
        places = [folder / f"{number}-{rank}.{kind}" for kind in ("out", "err")]
        with contextlib.ExitStack() as stack:
            out, err = (stack.enter_context(place.open("w")) for place in places)
            (folder / f"{rank}.in").write_text(SAID if rank == 0 else "")
            stack.enter_context(mock.patch("sys.stdin", stack.enter_context((folder / f"{rank}.in").open())))
            stack.enter_context(mock.patch("sys.argv", ["anyformer", *words]))
            stack.enter_context(contextlib.redirect_stdout(out))
            stack.enter_context(contextlib.redirect_stderr(err))
            with contextlib.suppress(SystemExit):
                main()


if __name__ == "__main__":
    act(Path(sys.argv[1]))
