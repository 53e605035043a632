"""Speed side by side in one sitting: workers take turns, round after round, and ratios are taken within each round.

    python -m benchmarks.compare training --peers-python .venv-peers/bin/python
    python -m benchmarks.compare training --shape nanogpt --nanogpt nanoGPT/model.py
    python -m benchmarks.compare training --shape 110m --fp32
    python -m benchmarks.compare decoding --with llama.cpp --with tuned
    python -m benchmarks.compare decoding --model gqa --batch 16 --context 2048 --weights int8 --with llama.cpp
    python -m benchmarks.compare grid
    python -m benchmarks.compare training --against f64efbf

Each prints a table and writes a file of its own in benchmarks/results/ with machine, versions and every time. A worker whose
own correctness gate fails, or for whom memory does not suffice, is left out and named; all others must use as many parameters
for a token. Nothing else should run on the machine meanwhile. `python -m benchmarks.compare training --help` tells what can be
asked of a comparison.
"""

from __future__ import annotations

import argparse
import math
import time
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks import grid
from benchmarks.cases import BATCHES, CONTEXTS, DECODERS, TRAININGS, WEIGHTS, Case
from benchmarks.contenders import BASE, EXTRAS, Commands, decoding, training
from benchmarks.sitting import (
    OURS,
    RESULTS,
    begun,
    checked_out,
    machine,
    start,
    summary,
    take_turns,
    told,
    written,
)

# What anyformer's training asks of malloc in its own process, for peers that are to have it too (--tuned-malloc).
MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(2**32), "MALLOC_TRIM_THRESHOLD_": str(2**33), "MALLOC_TOP_PAD_": str(2**28)}
USUAL = Case("dense", "bf16", 1, 64)
"""The case of decoding whose file has no other name."""


def parsed() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True, metavar="training|decoding|grid")
    train = what.add_parser(
        "training", help="one training step of a shape", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    train.add_argument(
        "--shape", choices=tuple(TRAININGS), default="small",
        help="small: a Llama of 13.8 M parameters, 16 x 256 tokens; nanogpt: GPT-2 as nanoGPT has it, of equal sizes; 110m: a "
        "Llama of 110 M, 2 x 1,024; encoder: BERT with masked tokens; encoder-decoder: T5",
    )  # fmt: skip
    train.add_argument(
        "--nanogpt", metavar="MODEL.PY", help="nanoGPT's model.py, which no package index has, to train it in shape nanogpt"
    )
    train.add_argument("--fp32", action="store_true", help="train in fp32 instead of bf16, for processors that emulate it")
    one = what.add_parser("decoding", help="one case of decoding", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    one.add_argument("--model", choices=tuple(DECODERS), default=USUAL.model, help="all use 110 M parameters for a token")
    one.add_argument("--batch", type=int, default=USUAL.batch, help="rows decoded at once; a rate counts all of them")
    one.add_argument("--context", type=int, default=USUAL.context, help="tokens of each prompt, before 64 new ones")
    one.add_argument(
        "--weights", choices=tuple(WEIGHTS), default=USUAL.weights,
        help="how weights are held; in 8 and 4 bits llama.cpp, with as many, is the only peer",
    )  # fmt: skip
    one.add_argument(
        "--with", dest="extras", action="append", default=[], choices=EXTRAS,
        help="besides: llama.cpp, which has to be compiled; tuned peers, which autotune for minutes; engine, ours on llama.cpp",
    )  # fmt: skip
    many = what.add_parser(
        "grid", help="many cases of decoding into one file, which a later call goes on with",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Our default, transformers in eager mode and llama.cpp, case after case. A case that the file has is not "
        "measured again. Reading 16 prompts of 2,048 tokens takes longest; such cases come last, with one generation each.",
    )  # fmt: skip
    many.add_argument("--models", nargs="+", choices=tuple(DECODERS), default=list(DECODERS))
    many.add_argument("--weights", nargs="+", choices=tuple(WEIGHTS), default=list(WEIGHTS))
    many.add_argument("--batches", nargs="+", type=int, default=list(BATCHES))
    many.add_argument("--contexts", nargs="+", type=int, default=list(CONTEXTS))
    many.add_argument("--rounds", type=int, default=2, help="generations of each contender in a case")
    many.add_argument("--minutes", type=float, default=12, help="begin no case after so long; call again for the others")
    many.add_argument(
        "--with", dest="extras", action="append", default=[], choices=("engine",),
        help="engine: ours on llama.cpp too, into decoding-engines.json; this interpreter has llama-cpp-python then",
    )  # fmt: skip
    many.add_argument("--again", action="store_true", help="measure cases that the file has, too")
    for each in (train, one):
        each.add_argument("--rounds", type=int, default=7, help="in which everybody takes a turn")
        each.add_argument("--units", type=int, default=3, help="steps or generations per round")
        each.add_argument("--tuned-malloc", action="store_true", help="give every contender the malloc settings anyformer uses")
        each.add_argument(
            "--only", action="append", default=[],
            help="contenders whose names contain this (or one of several), beside ours; written only to --output",
        )  # fmt: skip
        each.add_argument(
            "--minutes", type=float, default=math.inf, help="begin no further round after so long, starts included"
        )
        each.add_argument("--against", metavar="REVISION", help="anyformer of another revision, in place of the peers")
    for each in (train, one, many):
        each.add_argument("--peers-python", default=".venv-peers/bin/python", help="the interpreter that has the peers")
        each.add_argument(
            "--output", type=Path, metavar="FILE", help="the result's file, in place of one in benchmarks/results"
        )
        each.add_argument(
            "--tiny", action="store_true", help="small models of the same kinds, for a rehearsal; written only to --output"
        )
    return parser.parse_args()


def name_of(arguments: argparse.Namespace) -> str:
    """The name of the result's file, without its ending."""
    parts = [arguments.what]
    if arguments.against:
        parts.append(f"against-{arguments.against}")
    if arguments.what == "training":
        parts += [arguments.shape] if arguments.shape != "small" else []
        parts += ["fp32"] if arguments.fp32 else []
    else:
        case = case_of(arguments)
        if (case.model, case.batch, case.context) != (USUAL.model, USUAL.batch, USUAL.context):
            parts += [case.model, f"batch{case.batch}", f"context{case.context}"]
        parts += [case.weights] if case.weights != USUAL.weights else []
    return "-".join(parts + (["tuned-malloc"] if arguments.tuned_malloc else []))


def case_of(arguments: argparse.Namespace) -> Case:
    """The case of decoding that is asked for."""
    return Case(arguments.model, arguments.weights, arguments.batch, arguments.context)


def commands_of(arguments: argparse.Namespace) -> Commands:
    """The contenders that are asked for."""
    if arguments.what == "training":
        if arguments.shape == "nanogpt" and not arguments.nanogpt:
            print("nanoGPT itself takes no part: give the path of its model.py as --nanogpt", flush=True)
        commands = training(arguments.shape, "fp32" if arguments.fp32 else "bf16", arguments.nanogpt)
    else:
        commands = decoding(case_of(arguments), arguments.extras)
    if arguments.only:
        commands = {n: c for n, c in commands.items() if n.startswith(OURS) or any(each in n for each in arguments.only)}
    return {name: [*command, *(["--tiny"] if arguments.tiny else [])] for name, command in commands.items()}


def compare(arguments: argparse.Namespace) -> None:
    """Let the contenders take turns and write down what they did."""
    until = time.monotonic() + 60 * arguments.minutes
    commands, malloc = commands_of(arguments), MALLOC if arguments.tuned_malloc else {}
    with ExitStack() as stack:
        trees: dict[str, Path | None] = dict.fromkeys(commands)
        if arguments.against:
            ours = {name: command for name, command in commands.items() if name.startswith(OURS)}
            other = {f"{name} at {arguments.against}": command for name, command in ours.items()}
            tree = stack.enter_context(checked_out(arguments.against))
            commands, trees = ours | other, dict.fromkeys(ours) | dict.fromkeys(other, tree)
        starting = (start(name, each, arguments.peers_python, malloc, trees[name]) for name, each in commands.items())
        contenders = begun(stack, starting)
        left_out = sorted(commands.keys() - {contender.name for contender in contenders})
        if BASE[arguments.what] in left_out:
            raise SystemExit(f"{BASE[arguments.what]} itself gave up: see its messages above")
        take_turns(contenders, arguments.rounds, arguments.units, until)
    rows = summary(contenders, BASE[arguments.what])
    told(rows)
    record: dict[str, Any] = {
        "what": arguments.what,
        "base": BASE[arguments.what],
        "date": date.today().isoformat(),
        "machine": machine(),
        "malloc": malloc,
        **({"gave_up": left_out} if left_out else {}),
        "shape": contenders[0].ready["shape"],
        "results": rows,
    }
    if arguments.what == "training" and not arguments.tiny:
        from benchmarks.floors import NUMBERS, step

        record["products"] = step(TRAININGS[arguments.shape], NUMBERS["fp32" if arguments.fp32 else "bf16"])
    if arguments.what == "decoding":
        from benchmarks.floors import reading

        record["reading"] = round(reading())  # bytes per second, the bound of `bytes_per_step`
    path = arguments.output or (None if arguments.only or arguments.tiny else RESULTS / f"{name_of(arguments)}.json")
    if path is not None:
        written(path, record)


def measure_grid(arguments: argparse.Namespace) -> None:
    """Measure the cases that are asked for and that the file does not have."""
    from benchmarks.floors import reading

    usual = "decoding-engines.json" if arguments.extras else "decoding-grid.json"
    path = arguments.output or (None if arguments.tiny else RESULTS / usual)
    begin = grid.starting(arguments.peers_python, arguments.tiny)
    whole = grid.Grid(path, arguments.rounds, begin, reading, arguments.extras)
    wanted = grid.cases(arguments.models, arguments.weights, arguments.batches, arguments.contexts)
    left = whole.measure(whole.missing(wanted, arguments.again), 60 * arguments.minutes)
    print(f"{len(left)} cases are left" + (": call again" if left else ""), flush=True)


def main() -> None:
    """Measure what is asked for."""
    arguments = parsed()
    if arguments.what == "grid":
        measure_grid(arguments)
    else:
        compare(arguments)


if __name__ == "__main__":
    main()
