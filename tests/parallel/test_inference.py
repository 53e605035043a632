"""Several processes generate and evaluate as one does, and each holds its share. All have two groups of processes."""

from __future__ import annotations

import json
import re
import runpy
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch

from anyformer import checkpoint, export
from anyformer.api import architecture
from anyformer.describe import UserError
from anyformer.generation import generate_tokens
from anyformer.generation import memory as generation_memory
from anyformer.generation.weights import check_weights, generating
from anyformer.inference import division, processes
from anyformer.inference.division import Division, EqualPart, Portions
from anyformer.inference.hooks import RowsOfTokens
from anyformer.loading import load
from anyformer.model.collectives import Group
from anyformer.model.narrowed import narrowed, widest_ways
from anyformer.model.share import ProcessShare
from anyformer.model.transformer import Transformer, build
from anyformer.quantising import FORMATS
from anyformer.quantising.tensor import Quantised

WORKER = Path(__file__).with_name("generating.py")
WORK = runpy.run_path(str(WORKER))
CASES, COMMANDS, RUN, SAID, Generated = (WORK[name] for name in ("CASES", "COMMANDS", "RUN", "SAID", "Generated"))
SHARES = {
    ("llama-3-8b:1", 2): (0.51, 0.5), ("deepseek-v3:1", 2): (0.68, 1.0), ("mixtral-8x7b:2", 2): (0.51, 0.5),
    ("gpt2:1", 2): (0.57, 0.5), ("llama-3-8b:1", 4): (0.3, 0.5), ("deepseek-v3:2", 4): (0.42, 1.0),
    ("mixtral-8x7b:4", 4): (0.29, 0.5),
}  # fmt: skip
"""Of weights at most, and of decode state: tiny models have two heads of keys, and the latents of one serve all heads."""


@pytest.fixture(scope="module")
def folder(start_in, tmp_path_factory) -> Path:
    """What the processes left."""
    place: Path = tmp_path_factory.mktemp("generating")
    for count in sorted(CASES):
        ended = start_in(place, count, WORKER, place)
        assert ended.returncode == 0, ended.stderr[-4000:]
    return place


@pytest.fixture(scope="module")
def found(folder) -> list[Any]:
    return [Generated(**json.loads(line)) for line in (folder / "found.jsonl").read_text().splitlines()]


def test_several_processes_generate_as_one_does(found):
    assert [(each.case, each.processes) for each in found] == [
        (f"{name}:{expert}", count) for count in sorted(CASES) for name, expert in CASES[count]
    ]
    for each in found:
        assert each.logits < 2e-6, each
        assert each.texts, each
        assert each.beams, each
        assert each.alike, each


def test_a_process_holds_its_share_of_weights_and_state(found):
    held = {(each.case, each.processes): each for each in found}
    for case, (weights, state) in SHARES.items():
        assert held[case].weights < weights, case
        assert held[case].state == state, case
        assert held[case].declared == 1, case
    assert all(1 <= each.declared < 1.2 for each in found), "numbers that stay in 32 bits count twice"


def test_the_first_process_alone_speaks_and_says_what_one_process_says(folder, call):
    alone = re.compile(r"--expert|2")
    for number, words in enumerate(COMMANDS):
        said, other = ((folder / f"{number}-{rank}.out").read_text() for rank in (0, 1))
        assert other == (folder / f"{number}-1.err").read_text() == "", words
        plain = [word for word in words if not alone.fullmatch(word)]
        with mock.patch("sys.stdin", StringIO(SAID)):
            expected = call(*plain, cwd=folder)
        assert expected.returncode == 0, expected.stderr
        if words[0] == "eval":
            figures, own = (json.loads(text)["data"] for text in (said, expected.stdout))
            assert figures["targets"] == own["targets"] > 0
            for name in ("loss", "bits_per_byte"):
                assert figures[name] == pytest.approx(own[name], rel=1e-6)
        else:
            assert said == expected.stdout, words
    assert (folder / "picture.png").exists()


def test_branches_are_divided_in_as_many_ways_as_they_have_equal_parts():
    ways = widest_ways(architecture("llama-3-8b", tiny=True), 4)
    assert ways == {("decoder", "layer", "attention"): 2, ("decoder", "layer", "feedforward"): 4}
    assert widest_ways(architecture("bitnet-b1.58-2b", tiny=True), 2) == {}
    mixture = architecture("mixtral-8x7b", tiny=True)
    assert widest_ways(mixture, 4, experts=2) == {("decoder", "layer", "attention"): 2, ("decoder", "layer", "experts"): 2}
    assert widest_ways(mixture, 4, experts=4) == {("decoder", "layer", "attention"): 2}
    assert narrowed(mixture, {}) == mixture


def test_each_process_holds_rows_of_the_vocabulary_and_one_adds_the_biases_of_outputs():
    held = []
    for rank in (0, 1):
        group = Group(SimpleNamespace(group_name=f"of process {rank}"), rank, 2)  # type: ignore[arg-type]
        model = build(architecture("gpt2", tiny=True), device="meta")
        kept = Division(2, 2, torch.device("cpu"), {2: group})(model, lambda name: torch.float32)
        assert kept.pieces["embedding.weight"] == [EqualPart(0, rank, 2)]
        held.append(kept.elsewhere)
    assert not held[0]
    assert {name.rpartition("sublayer.")[2] for name in held[1]} == {"output.bias", "down.bias"}


def test_of_tokens_that_another_process_has_a_process_adds_nothing(monkeypatch):
    monkeypatch.setattr("anyformer.inference.hooks.summed", lambda x, group: x)
    table = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert RowsOfTokens("any", 1, 2).rows(table, torch.tensor([[0, 4]])).tolist() == [[[0.0, 0.0], [3.0, 4.0]]]


def portions(**pieces: EqualPart) -> Portions:
    made = Portions()
    for name, piece in pieces.items():
        made.pieces[name].append(piece)
    return made


def test_factors_of_logits_are_those_of_a_process_s_own_tokens(monkeypatch):
    monkeypatch.setattr("anyformer.inference.hooks.side_by_side", lambda own, group: own)
    x, table, gain = torch.randn(2, 3, 4), torch.randn(5, 4), torch.randn(5)
    found = RowsOfTokens("group", 1, 2).logits(x, table, None, gain)
    torch.testing.assert_close(found, (x @ table.T) * gain)


def test_a_process_keeps_memory_of_its_own_for_a_part():
    weight = torch.arange(12.0).view(4, 3)
    kept = portions(weight=EqualPart(0, 1, 2))
    kept.elsewhere.add("bias")
    part = kept("weight", weight)
    assert part.tolist() == weight[2:].tolist()
    assert part.untyped_storage().nbytes() == 6 * 4
    assert kept("bias", torch.ones(3)).tolist() == [0, 0, 0]
    assert kept("other", weight).equal(weight)


@pytest.mark.parametrize("write", [checkpoint.save, export])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_weights_that_do_not_fit_are_refused_before_they_are_read(write, dtype, monkeypatch, tmp_path):
    """Each counts with its own bytes: here norms have twice those of matrices, until one type is asked for."""
    model = build(architecture("llama-3-8b", tiny=True))
    for weight in model.parameters():
        weight.data = weight.data.to(torch.float32 if weight.dim() == 1 else torch.bfloat16)
    write(model, tmp_path / "model")
    needed = 2 * sum(weight.numel() * (dtype or weight.dtype).itemsize for weight in model.parameters())
    divide = Division(1, 2, torch.device("cpu"), {})
    monkeypatch.setattr(division, "free_memory", lambda device: needed)
    assert load(tmp_path / "model", dtype=dtype, divide=divide)[0].share.processes == 1
    monkeypatch.setattr(division, "free_memory", lambda device: needed - 1)
    monkeypatch.setattr(Portions, "__call__", None)
    with pytest.raises(UserError, match=r"the weights of 2 of 1 processes would take 0.0 GB, and 0.0 GB of memory are free"):
        load(tmp_path / "model", dtype=dtype, divide=divide)


def test_the_state_of_all_processes_of_a_machine_counts(monkeypatch):
    model = build(architecture("llama-3-8b", tiny=True)).eval()
    model.share = ProcessShare(model.architecture, 4, 3)
    one = generation_memory.state_bytes(model, 1, 4)
    monkeypatch.setattr(generation_memory, "free_memory", lambda device: 3 * one - 1)
    with pytest.raises(UserError, match=r"1 x 4 positions would take .* of decode state in 3 processes"):
        generation_memory.check_memory(model, 1, 4)
    monkeypatch.setattr(generation_memory, "free_memory", lambda device: 3 * one)
    generation_memory.check_memory(model, 1, 4)


@pytest.mark.parametrize(
    ("count", "expert", "says"),
    [("", 2, r"--expert 2: one process was started; start more with torchrun"), ("4", 3, r"--expert 3 must divide the 4")],
)
def test_processes_that_do_not_divide_experts_are_refused(monkeypatch, count, expert, says):
    monkeypatch.setenv("WORLD_SIZE", count)
    with pytest.raises(UserError, match=says), processes("cpu", expert):
        raise AssertionError("it was refused")


@pytest.mark.parametrize(
    ("name", "experts", "says"),
    [
        ("llama-3-8b", 2, r"--expert 2 divides experts, and the model has none"),
        ("mixtral-8x7b", 3, r"--expert 3 must divide the experts of every layer, and one has \d"),
    ],
)
def test_experts_that_have_no_equal_parts_are_refused(name, experts, says):
    nothing: Any = None
    with torch.device("meta"):
        model = Transformer(architecture(name, tiny=True))
    with pytest.raises(UserError, match=says):
        Division(6, 6, torch.device("cpu"), {}, Group(nothing, 0, experts))(model, nothing)


def test_what_is_not_divided_yet_is_refused(monkeypatch, call, tmp_path):
    model = build(architecture("llama-3-8b", tiny=True)).eval()
    few = Quantised.of(torch.ones(4, 4), FORMATS["int8"])
    with pytest.raises(UserError, match=r"weight is stored in few bits, and such matrices are not divided among processes yet"):
        portions()("weight", few)
    model.share = ProcessShare(model.architecture, 2, 2)
    with pytest.raises(UserError, match=r"weights 'int8' are not divided among 2 processes yet"):
        generating(model, "int8")
    check_weights("bf16", processes=2)
    with pytest.raises(UserError, match=r"max_time = 3 ends texts by a clock, and each of 2 processes has its own"):
        generate_tokens(model, [[1, 2]], max_tokens=2, max_time=3.0)
    monkeypatch.setenv("WORLD_SIZE", "2")
    refused = call("generate", "nowhere", "--tokens", "1", "--max-time", "3", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--max-time ends texts by a clock" in refused.stderr
    with pytest.raises(UserError, match=r"is not divided among processes with an adapter beside it"):
        load(tmp_path, adapter=tmp_path, divide=Division(2, 2, torch.device("cpu"), {}))


@pytest.mark.parametrize("command", ["generate", "eval"])
def test_torchrun_leaves_every_option_to_the_command(command):
    from torch.distributed.run import get_args_parser
    from typer.main import get_command

    from anyformer.cli import app

    found = get_command(app).commands[command]  # type: ignore[attr-defined]
    for option in (name for each in found.params for name in each.opts if name.startswith("-")):
        words = [command, "model", option, "x"]
        asked = get_args_parser().parse_args(["--nproc-per-node", "2", "-m", "anyformer", *words])
        assert asked.training_script_args == words
