"""Exported models in the engines that are faster, token for token and number for number beside what this package computes.

    python -m benchmarks.engines vllm --python .venv-vllm/bin/python
    python -m benchmarks.engines vllm --python .venv-vllm/bin/python --only llama gemma2
    python -m benchmarks.engines vllm --list

Each engine lives in an environment of its own, with versions of its own: `benchmarks/peers/README.md` says how to make it. Tiny
random models are written here as `anyformer export` writes them; the engine says what it makes of the same tokens.
A row that is not asked for stays as it was. Ends with 1 where a row differs. Writes benchmarks/results/engines/ENGINE.json;
`python docs/make_engines.py` then fills in the tables of docs/engines.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import torch
from benchmarks.engines.engine import Engine
from benchmarks.engines.row import Row, read
from benchmarks.engines.scratch import Scratch

HERE = Path(__file__).parent
MODULES = {
    "llama.cpp": "llama_cpp",
    "vllm": "vllm",
    "vllm-layouts": "vllm_layouts",
    "onnx": "onnx",
    "ctranslate2": "ctranslate2",
    "elsewhere": "elsewhere",
    "vocabularies": "vocabularies",
}
"""Engines by the file that knows them."""
ENGINES = {name: module for name, module in MODULES.items() if (HERE / f"{module}.py").exists()}


def parsed() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=tuple(ENGINES))
    parser.add_argument("--only", nargs="+", metavar="TYPE", help="by default all")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="the interpreter that has the engine")
    parser.add_argument("--list", action="store_true", help="say what is compared, and compare nothing")
    parser.add_argument("--place", type=Path, help="a folder that keeps the directories and the engine's messages")
    return parser.parse_args()


def main() -> None:
    """Compare, and write the table row by row."""
    given = parsed()
    engine: Engine = import_module(f"benchmarks.engines.{ENGINES[given.engine]}").ENGINE
    wanted = tuple(given.only or engine.names)
    if unknown := sorted(set(wanted) - set(engine.names)):
        raise SystemExit(f"{given.engine} is not asked about {', '.join(unknown)}; it is about: {', '.join(engine.names)}")
    if given.list:
        print("\n".join(wanted))
        return
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Scratch(given.python.absolute(), given.place or Path(folder), wanted)
        versions = scratch.versions(*engine.packages)
        table, made = read(given.engine, engine.close), list[Row]()
        for row in engine.rows(scratch):
            table, made = table.but(row, versions), [*made, row]
            table.write(engine.names)
            print(row.told(engine.close), flush=True)
    if any(not row.reason and row.same(engine.close) == bool(row.departs) for row in made):
        sys.exit(1)


if __name__ == "__main__":
    main()
