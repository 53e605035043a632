"""What 4 bits round and what tables in few bits cost: a rehearsal of the study, and its committed result."""

from __future__ import annotations

import json

import pytest
import torch

pytest.importorskip("gguf")
from benchmarks import small_tables as study


def test_q4_0_against_a_plain_loop():
    """A number of the largest magnitude is -8 times the scale, and the others are rounded to 16 levels of it."""
    torch.manual_seed(0)
    matrix = torch.randn(3, 96) * 0.02
    for group, found in zip(matrix.reshape(-1, 32).tolist(), study.q4_0(matrix).reshape(-1, 32).tolist(), strict=True):
        scale = torch.tensor(max(group, key=abs) / -8)
        levels = [float(scale.half()) * (code - 8) for code in range(16)]
        for number, got in zip(group, found, strict=True):
            assert min(abs(got - level) for level in levels) < 1e-8
            assert abs(got - number) <= min(abs(level - number) for level in levels) + abs(float(scale)) * 1e-2


@pytest.mark.parametrize("name", study.NARROW)
def test_bits_are_those_of_the_format(name):
    group = {"q4_0": 32, "int4-32": 32, "int4-64": 64}[name]
    stored, read = study.bits(name)
    assert stored == 4 + (16 if name == "q4_0" else 20) / group
    assert read == 4 + (16 if name == "q4_0" else 32) / group


def test_layers_and_tables_are_rounded_each_to_its_format(tmp_path):
    (tmp_path / "text.py").write_text("\n".join(f"def f{i}(x):\n    return x + {i * i % 97}\n" for i in range(1500)))
    run = study.of_size(0, study.TINY, (str(tmp_path / "text.py"),))
    found = study.measured(run, tmp_path / "run", study.TINY)
    assert [(row["layers"], row["tables"]) for row in found["pairs"]] == list(study.PAIRS)
    assert all(any(row["beyond"]) for row in found["pairs"])
    model = study.trained(run, tmp_path / "run")
    made = study.rounded(model, "int4-32", "q4_0")
    layers, tables = study.parts_of(model)
    assert tables == ["embedding.weight"], "tied"
    changed = {path for path, value in made.named_parameters() if not torch.equal(value, model.get_parameter(path))}
    assert changed == {*layers, *tables}
    assert torch.equal(made.embedding.weight, study.q4_0(model.embedding.weight))


def test_the_committed_result_is_of_enough_text_and_of_every_pair():
    record = json.loads(study.RESULT.read_text())
    assert [each["seed"] for each in record["results"]] == list(study.SEEDS)
    for each in record["results"]:
        assert sum(each["targets"]) >= 25_000
        assert [(row["layers"], row["tables"]) for row in each["pairs"]] == list(study.PAIRS)
        for row in each["pairs"]:
            assert row["loss"] - each["loss"] == pytest.approx(sum(row["beyond"]) / sum(each["targets"]), abs=2e-6)
    assert record["bits"] == {name: study.bits(name) for name in study.NARROW}
