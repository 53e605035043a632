"""Does `anyformer conform` pass the servers of real engines, and find every mistake that is put into them?

    python -m benchmarks.engines.conform llama.cpp --program build/bin/llama-server
    python -m benchmarks.engines.conform vllm --program .venv-vllm/bin/python

A tiny random model with windows and caps is exported. Its engine serves it as it is, in several types of numbers; then wrongly:
with another setting, weight or file, or with its answers distorted on their way. Every mistake must be named by its case. Ends
with 1 where one is not, or where a right server departs. Writes benchmarks/results/engines/conform.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from datetime import date
from importlib import import_module
from pathlib import Path

import torch
from benchmarks.engines.distorted import CHUNK, RUNTIME
from benchmarks.engines.row import FOLDER, processor
from benchmarks.engines.served import MODELS, Outcome, Served, running, written

from anyformer.conforming import CASES, CompletionServer, GoldenVectors, conform, golden_vectors

RESULT = FOLDER / "conform.json"
ENGINES = {"llama.cpp": "served_llama_cpp", "vllm": "served_vllm"}
LONGEST = 512


def parsed() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=tuple(ENGINES))
    parser.add_argument("--program", type=Path, required=True, help="its server; of vLLM the interpreter that has it")
    parser.add_argument("--only", help="ask the ways of this name alone, and keep the rows of the others")
    parser.add_argument("--port", type=int, default=18455)
    parser.add_argument("--place", type=Path, help="a folder that keeps the models and the servers' messages")
    return parser.parse_args()


def outcomes(engine: Served, program: Path, place: Path, port: int, only: str | None) -> Iterator[Outcome]:
    """What `conform` says of every way in which the engine serves."""
    kept: dict[tuple[str, str, str], GoldenVectors] = {}
    for way in (way for way in engine.ways if only in (None, way.name)):
        key = (way.model, way.dtype, way.cache)
        if key not in kept:
            kept[key] = golden_vectors(
                place / way.model, CASES, longest=LONGEST, chunk=CHUNK, arithmetic=way.dtype, cache=way.cache
            )
        with running(engine, way, program, place, port) as server:
            yield held(server, kept[key], way.name, way.case)
            if way.distorted:
                for name, (mistake, case) in RUNTIME.items():
                    yield held(mistake(server), kept[key], name, case)


def held(server: CompletionServer, golden: GoldenVectors, name: str, case: str | None) -> Outcome:
    """An engine held against golden vectors. `case`: the one that must name its mistake; None: it is right."""
    report = conform(server, golden, CASES)
    first = report.first
    largest = max((each.figures.largest for each in report.cases if each.state == "right"), default=0.0)
    return Outcome(
        server.called, name, golden.arithmetic, case, None if first is None else first.name,
        "" if first is None else f"{first.departures[0].where}: {first.departures[0].problem}",
        tuple(each.name for each in report.cases if each.state != "not asked"), float(f"{largest:.2e}"),
    )  # fmt: skip


def write(engine: str, made: list[Outcome], only: str | None) -> None:
    """The outcomes of an engine into the committed file, in the place of its old ones, or of those of a way alone."""
    told = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    cpu, flags = processor()
    new = {each.name: asdict(each) for each in made}
    old = {row["name"]: row for row in told.get(engine, {}).get("rows", ())} if only else {}
    rows = list((old | new).values())
    told[engine] = {"processor": cpu, "flags": flags, "date": date.today().isoformat(), "rows": rows}
    FOLDER.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(dict(sorted(told.items())), indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Ask, tell, and write."""
    given = parsed()
    torch.set_num_threads(1)
    engine: Served = import_module(f"benchmarks.engines.{ENGINES[given.engine]}").SERVED
    with tempfile.TemporaryDirectory() as folder:
        place = given.place or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for name, change in MODELS.items():
            written(place, name, change, engine.suffix)
        made = []
        try:
            for each in outcomes(engine, given.program.absolute(), place.absolute(), given.port, given.only):
                made.append(each)
                print(each.told, flush=True)
        except subprocess.SubprocessError as error:
            raise SystemExit(f"the engine did not serve: {error}") from None
    write(given.engine, made, given.only)
    if not all(each.expected for each in made):
        sys.exit(1)


if __name__ == "__main__":
    main()
