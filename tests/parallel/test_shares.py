"""A process of several holds its share of a model, from the first weight on."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from anyformer import checkpoint
from anyformer.describe import change_all, to_toml
from anyformer.operations import Shape
from anyformer.training import load_run

PROGRAM = Path(__file__).with_name("growing.py")
WIDTH, LAYERS = 384, 16


@pytest.fixture(scope="module")
def wide(run_of):
    """A run of two updates whose weights are some 150 MB."""
    changes = {
        "steps": 2, "batch": 2, "accumulation": 1, "length": 16, "checkpoints.every": 2,
        "evaluation.every": 2, "evaluation.final_tokens": 32,  # each batch gathers all weights
        "plan.mesh.shard": 2, "architecture.width": WIDTH, "architecture.decoder.order": f"layer*{LAYERS}",
        "architecture.decoder.layer.attention.heads": 8, "architecture.decoder.layer.attention.kv_heads": 8,
        "architecture.decoder.layer.attention.head_width": WIDTH // 8,
        "architecture.decoder.layer.feedforward.width": 4 * WIDTH,
    }  # fmt: skip
    return change_all(load_run(run_of("llama-3-8b")), changes)


def grown(start, run, out: Path) -> list[dict[str, int]]:
    """What two processes that train a run say of their size."""
    file = out.with_suffix(".toml")
    file.write_text(to_toml(run), encoding="utf-8")
    said = start(2, PROGRAM, file, out)
    assert said.returncode == 0, said.stderr
    return [json.loads(Path(f"{out}-{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system tells the size of a process")
def test_a_process_never_holds_the_whole_model(wide, start, tmp_path):
    weights = 4 * wide.architecture.cost(Shape()).parameters
    begun = grown(start, wide, tmp_path / "begun")
    # Of what the first run wrote in shares; nothing changes.
    still = {"start_from": str(tmp_path / "begun"), "steps": 1, "optimiser": {"kind": "sgd", "learning_rate": 1e-45}}
    found = [*begun, *grown(start, change_all(wide, still), tmp_path / "taken")]
    for each in found:
        # Half of the weights, one whole weight beside them, and what lies around.
        assert each["made"] < 0.75 * weights, (each, weights)
        # Half of weights, gradients and moments, and of a copy of them that is written; layers that are gathered while they
        # compute.
        assert each["whole"] < 4.5 * weights, (found, weights)
    digests = {checkpoint.read(checkpoint.newest(tmp_path / name) / "model.safetensors").digest for name in ("begun", "taken")}
    assert len(digests) == 1, "the second run starts from the weights of the first, and keeps them"
