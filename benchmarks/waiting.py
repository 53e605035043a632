"""From pressing return to the first token on the terminal, and the tokens per second from then on.

    python -m benchmarks.waiting --peers-python .venv-peers/bin/python

A Llama of 110 M parameters with random weights is written to a temporary directory in Hugging Face's layout, and from there in
ours. `anyformer generate` as it is by default continues a prompt by 256 tokens, the likeliest each time, from either directory,
and so does a plain script of transformers from Hugging Face's: each a fresh process on a terminal of its own, in turns, after
one round that is not counted and leaves the files in memory. Beside it: the first token of a model that is already loaded, in
Python. The gate: all print the same beginning. Writes benchmarks/results/waiting.json.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.cases import DECODERS
from benchmarks.sitting import RESULTS, machine, written

PROMPT = "once upon a time there was a"
NEW = 256
SAME = 4
"""Characters of the continuation that all must have in common: one token's."""
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|[\r\n]")
LETTERS = "abcdefghijklmnopqrstuvwxyz"

LOADED = {
    "anyformer": """\
import json, sys, time
import anyformer as af
from anyformer.generation import Sampling, generating, stream
model, tokenizer = af.load(sys.argv[1])
model = generating(model)
times = []
for _ in range(4):
    begin = time.perf_counter()
    next(stream(model, tokenizer, [sys.argv[2]], max_tokens=256, sampling=Sampling(temperature=0)))
    times.append(time.perf_counter() - begin)
print(json.dumps(times))
""",
    "transformers": """\
import json, sys, time
from transformers import AutoModelForCausalLM, AutoTokenizer
model, tokenizer = AutoModelForCausalLM.from_pretrained(sys.argv[1]), AutoTokenizer.from_pretrained(sys.argv[1])
times = []
for _ in range(4):
    begin = time.perf_counter()
    ids = tokenizer(sys.argv[2], return_tensors="pt")
    made = model.generate(**ids, max_new_tokens=1, do_sample=False)
    tokenizer.decode(made[0, ids["input_ids"].shape[1]:])
    times.append(time.perf_counter() - begin)
print(json.dumps(times))
""",
}
"""Prints the seconds to the first token of each of four calls in one process."""


def made_tokenizer(vocab: int) -> Any:
    """A byte-level tokenizer of exactly `vocab` tokens, whose text is made of letters: every token shows on a terminal."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers

    pieces = sorted(pre_tokenizers.ByteLevel.alphabet())
    twos = [(a, b) for a in LETTERS for b in LETTERS]
    fours = ((f"{a}{b}", f"{c}{d}") for a, b in twos for c, d in twos)
    merges = [*twos, *(pair for _, pair in zip(range(vocab), fours, strict=False))][: vocab - len(pieces)]
    names = [*pieces, *(first + second for first, second in merges)]
    made = tokenizers.Tokenizer(models.BPE({name: number for number, name in enumerate(names)}, merges))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return made


def write_model(folder: Path, weights: str, tiny: bool) -> dict[str, Path]:
    """The same model in Hugging Face's layout and in ours."""
    import torch
    from benchmarks.ours_models import decoder

    import anyformer as af
    from anyformer.text import Tokenizer

    sizes = DECODERS["dense"].tiny if tiny else DECODERS["dense"]
    model = af.build(decoder(sizes), seed=0).to(torch.bfloat16 if weights == "bf16" else torch.float32)
    tokenizer = Tokenizer.parse(made_tokenizer(sizes.vocab).to_str())
    places = {"Hugging Face's layout": folder / "huggingface", "our layout": folder / "ours"}
    af.export(model, places["Hugging Face's layout"], tokenizer=tokenizer)
    command = [sys.executable, "-m", "anyformer", "import", *map(str, places.values())]
    subprocess.run(command, check=True, capture_output=True)
    return places


def watched(command: Sequence[str]) -> dict[str, Any]:
    """Run a command on a terminal: seconds to the first character that is not the prompt's, and to the last one."""
    ours, theirs = pty.openpty()
    seen, first, last = b"", None, 0.0
    begin = time.perf_counter()
    errors = tempfile.TemporaryFile()  # noqa: SIM115, closed below; a pipe that nobody reads could fill up
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=errors, close_fds=True)
    os.close(theirs)
    while True:
        try:
            read = os.read(ours, 65536)
        except OSError:  # Linux's end of a terminal that nobody holds any more
            break
        if not read:
            break
        seen += read
        last = time.perf_counter() - begin
        if first is None and len(text_of(seen)) > len(PROMPT):
            first = last
    os.close(ours)
    failed = process.wait()
    with errors:
        errors.seek(0)
        said = errors.read().decode(errors="replace")
    if failed or first is None:
        raise SystemExit(f"{' '.join(command)} gave {seen!r} and said {said}")
    return {"first": first, "last": last, "text": text_of(seen)[len(PROMPT) :]}


def text_of(seen: bytes) -> str:
    """The characters that a reader sees, without colours and ends of lines."""
    return ESCAPES.sub(b"", seen).decode(errors="replace")


def figures(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Medians over runs, and all times."""
    return {
        "first_token_seconds": round(statistics.median(run["first"] for run in runs), 3),
        "tokens_per_second": round(statistics.median((NEW - 1) / (run["last"] - run["first"]) for run in runs), 1),
        "seconds_in_all": round(statistics.median(run["last"] for run in runs), 3),
        "first_times": [round(run["first"], 4) for run in runs],
        "last_times": [round(run["last"], 4) for run in runs],
    }


def same_beginning(texts: Mapping[str, str]) -> None:
    """Raises `SystemExit` where two do not print the same at first."""
    if len({text[:SAME] for text in texts.values()}) > 1:
        shown = "; ".join(f"{name}: {text[:40]!r}" for name, text in texts.items())
        raise SystemExit(f"the same model continues the same prompt in different ways: {shown}")


def loaded(python: str, name: str, folder: Path) -> dict[str, Any]:
    """Seconds to the first token of a model that is in memory: of the first call, and the median of the others."""
    done = subprocess.run([python, "-c", LOADED[name], folder, PROMPT], capture_output=True, text=True, check=True)
    first, *others = json.loads(done.stdout.splitlines()[-1])
    return {"first_call_seconds": round(first, 4), "later_calls_seconds": round(statistics.median(others), 4)}


def main() -> None:
    """Measure, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers-python", default=".venv-peers/bin/python", help="the interpreter that has transformers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--weights", choices=("bf16", "f32"), default="bf16", help="as the files store them")
    parser.add_argument("--tiny", action="store_true", help="a small model, for a rehearsal; written only to --output")
    parser.add_argument("--output", type=Path, metavar="FILE", help="the result's file, in place of results/waiting.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        places = write_model(Path(folder), arguments.weights, arguments.tiny)
        ours = [sys.executable, "-m", "anyformer", "generate"]
        greedy = ["--max-tokens", str(NEW), "--temperature", "0"]
        script = str(Path(__file__).parent / "peers" / "continue.py")
        theirs = places["Hugging Face's layout"]
        commands = {f"anyformer, {layout}": [*ours, str(place), PROMPT, *greedy] for layout, place in places.items()}
        commands["transformers, Hugging Face's layout"] = [arguments.peers_python, script, str(theirs), PROMPT, str(NEW)]
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in commands}
        for number in range(arguments.rounds + 1):
            for name, command in commands.items():
                found = watched(command)
                if number:
                    runs[name].append(found)
            same_beginning({name: each[-1]["text"] for name, each in runs.items() if each})
        memory = {
            "anyformer": loaded(sys.executable, "anyformer", theirs),
            "transformers": loaded(arguments.peers_python, "transformers", theirs),
        }
    record = {
        "date": date.today().isoformat(),
        "machine": machine(),
        "weights": arguments.weights,
        "new_tokens": NEW,
        "from_the_shell": {name: figures(each) for name, each in runs.items()},
        "loaded": memory,
    }
    print(json.dumps(record, indent=1))
    path = arguments.output or (None if arguments.tiny else RESULTS / "waiting.json")
    if path is not None:
        written(path, record)


if __name__ == "__main__":
    main()
