"""How long it takes to load a directory of Hugging Face's layout with 1 GB of weights, here and in transformers.

    python -m benchmarks.loading

Random weights of a Llama in bf16 are written to a temporary directory in shards. Each measurement is a fresh process: it
imports what it needs, loads (`mapped`: both map the files, so that little is read yet), and then reads a number of every 2 KiB
of every weight (`read`: from the beginning of loading to the end of that). `process` is the whole process, imports included.
Both must come to the same sum. The files are in the page cache, as after a download.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.compare import RESULTS, machine
from benchmarks.protocol import versions

ROUNDS = 7
GIGABYTE = 10**9
SHARD = "200MB"
WRITE = """
import sys, torch
from transformers import LlamaConfig, LlamaForCausalLM
torch.manual_seed(0)
config = LlamaConfig(hidden_size=1536, intermediate_size=4096, num_hidden_layers=16, num_attention_heads=16,
                     num_key_value_heads=4, vocab_size=32_512, dtype=torch.bfloat16)
LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(sys.argv[1], max_shard_size=sys.argv[2])
"""
LOAD = {
    "anyformer": """
import anyformer as af
import anyformer.loading
from anyformer.huggingface.families import llama
load = lambda: af.load(directory)[0]
""",
    "transformers": """
from transformers import AutoModelForCausalLM
from transformers.models.llama import modeling_llama
load = lambda: AutoModelForCausalLM.from_pretrained(directory, dtype="auto")
""",
}
"""Contender -> how it imports and loads."""
TIMED = """
import json, sys, time, torch
from pathlib import Path
directory = Path(sys.argv[1])
{load}
begin = time.perf_counter()
model = load()
mapped = time.perf_counter() - begin
total = sum(float(weight.detach().flatten()[::1024].double().sum()) for weight in model.parameters())
print(json.dumps({{"mapped": mapped, "read": time.perf_counter() - begin, "sum": round(total, 3)}}))
"""


def measured(contender: str, directory: Path) -> dict[str, float]:
    """Seconds of one fresh process, and the sum that it came to."""
    code, begin = TIMED.format(load=LOAD[contender]), time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, str(directory)], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "process": time.perf_counter() - begin}


def main() -> None:
    """Measure in turns, print, write."""
    rounds: list[dict[str, dict[str, float]]] = []
    with tempfile.TemporaryDirectory(prefix="anyformer-loading-") as folder:
        directory = Path(folder)
        subprocess.run([sys.executable, "-c", WRITE, folder, SHARD], check=True, capture_output=True)
        files = [path.stat().st_size for path in directory.glob("*.safetensors")]
        assert abs(sum(files) / GIGABYTE - 1) < 0.05, "about 1 GB"
        for contender in LOAD:
            measured(contender, directory)  # whatever is compiled or cached at first use
        for _ in range(ROUNDS):
            rounds.append({contender: measured(contender, directory) for contender in LOAD})
    sums = {each["sum"] for of in rounds for each in of.values()}
    assert len(sums) == 1, f"the contenders loaded other weights: {sums}"
    record: dict[str, Any] = {
        "date": date.today().isoformat(),
        "machine": machine(),
        "versions": versions("torch", "transformers", "safetensors"),
        "bytes": sum(files),
        "shards": len(files),
        "seconds": {name: {what: _median(of[name][what] for of in rounds) for what in _WHAT} for name in LOAD},
        "anyformer's share of transformers' time": {
            what: _median(of["anyformer"][what] / of["transformers"][what] for of in rounds) for what in _WHAT
        },
        "rounds": [{name: {what: round(of[name][what], 4) for what in _WHAT} for name in LOAD} for of in rounds],
    }
    print(json.dumps(record, indent=1))
    (RESULTS / "loading.json").write_text(json.dumps(record, indent=1) + "\n")


_WHAT = ("mapped", "read", "process")


def _median(values: Any) -> float:
    return round(statistics.median(values), 4)


if __name__ == "__main__":
    main()
