"""The comparison of decoding: equal models, a gate that notices a wrong step, and a grid that goes on where it stopped."""

from __future__ import annotations

import json
from argparse import Namespace
from math import prod

import pytest
import torch
from benchmarks import grid, ours_decode, ours_engine, protocol, report
from benchmarks.cases import BATCHES, CONTEXTS, DECODERS, NEW, WEIGHTS, Case
from benchmarks.contenders import ENGINE, decoding
from benchmarks.contenders import grid as contenders_of_grid
from benchmarks.ours_models import decoder
from benchmarks.peers import transformers_models
from benchmarks.sitting import Contender, GaveUpError, same_work, summary

from anyformer.engines import choice, proof
from anyformer.operations import Shape
from anyformer.quantising.tensor import PackedMatrix
from engines.stand_in import StandInEngine


def active(sizes) -> int:
    return decoder(sizes).cost(Shape(batch=1, length=1, past=8)).active_parameters


def asked(**given) -> Namespace:
    settings = {"model": "dense", "weights": "bf16", "mode": "default", "batch": 1, "context": 8, "tiny": True, "seed": 0}
    return Namespace(**settings | {"threads": None, "peer": "anyformer", "warmup": 1} | given)


@pytest.mark.parametrize("name", DECODERS)
def test_models_use_110_million_parameters_for_a_token_in_every_library(name):
    sizes = DECODERS[name]
    assert active(sizes) == pytest.approx(110e6, rel=0.01)
    pytest.importorskip("gguf")
    from benchmarks.peers import gguf_file

    with torch.device("meta"):
        theirs = transformers_models.decoder(sizes, 128)
    assert transformers_models.active(theirs, sizes) == active(sizes)
    assert gguf_file.active(sizes) == active(sizes)


@pytest.mark.parametrize("name", DECODERS)
def test_a_file_of_llama_cpp_holds_what_its_table_says(name, tmp_path):
    gguf = pytest.importorskip("gguf")
    from benchmarks.peers import gguf_file

    sizes = DECODERS[name].tiny
    gguf_file.write(tmp_path / "x.gguf", sizes, 128, "q4_1/q8_0", seed=0)
    read = gguf.GGUFReader(tmp_path / "x.gguf")
    shapes = {each.name: tuple(int(size) for size in reversed(each.shape)) for each in read.tensors}
    assert shapes == dict(gguf_file.tensors(sizes))
    matrices = [each for each in read.tensors if len(each.shape) > 1 and gguf_file.ROUTER not in each.name]
    kinds = {each.name: each.tensor_type.name for each in matrices}
    assert kinds.pop(gguf_file.TABLE) == "Q8_0"
    assert set(kinds.values()) == {"Q4_1"}


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", DECODERS)
def test_our_default_decodes_every_model_behind_its_gate(name, weights):
    worker = ours_decode.build(asked(model=name, weights=weights))
    assert worker.at is not None
    worker = worker.at(3, 5)
    seconds = worker.unit()
    said = worker.facts | worker.outcome()
    assert seconds > 0
    assert worker.tokens == 3 * (NEW - 1)
    assert said["parameters"] == active(DECODERS[name].tiny)
    assert said["first_token_seconds"] > 0
    assert said["gap_to_fp32"] <= ours_decode.ALLOWED.get(weights, ours_decode.ROUNDING)
    json.dumps(said)


def test_ours_on_another_engine_decodes_behind_its_proof(monkeypatch):
    monkeypatch.setattr(choice, "OTHERS", (StandInEngine(),))
    monkeypatch.setattr(proof, "LENGTHS", (1, 9))
    worker = ours_engine.build(asked(engine="stand-in", weights="f32"))
    assert worker.at is not None
    worker = worker.at(3, 5)
    worker.unit()
    said = worker.facts | worker.outcome()
    assert said["parameters"] == active(DECODERS["dense"].tiny)
    assert said["proof"].startswith("engine: stand-in 1.0, proved on 2 rows")
    own = ours_decode.build(asked(weights="f32")).at(3, 5)
    own.unit()
    assert own.outcome()["first_tokens"] == said["first_tokens"]
    with pytest.raises(SystemExit, match="is the own engine here"):
        ours_engine.build(asked(engine="own"))


def test_a_grid_has_ours_on_an_engine_where_it_is_asked_for(monkeypatch):
    case = Case("gqa", "f32", 1, 64)
    assert ENGINE not in contenders_of_grid(case)
    command = contenders_of_grid(case, ("engine",))[ENGINE]
    assert command[-6:] == ["--weights", "f32", "--batch", "1", "--context", "64"]
    assert ENGINE not in contenders_of_grid(Case("gqa", "int4-64", 1, 64), ("engine",)), "which has no such form"
    rows = [
        {"name": name, "tokens_per_second": rate, "first_token_seconds": 0.5, "ours_is_faster_by": 100 / rate}
        for name, rate in (("anyformer default", 100), (ENGINE, 190), ("llama.cpp", 200))
    ]
    machine = {"cpu": "C", "cores": 2}
    record = {"base": "anyformer default", "cases": {case.name: {"date": "today", "machine": machine, "results": rows}}}
    monkeypatch.setattr(report, "record_of", lambda name: record)
    (table,) = report.engines()
    assert f"| {case.name} | 100 | 0.50 | 190 | 0.50 | 200 | 0.50 | 0.95 |" in table


def test_the_gate_refuses_logits_of_another_model(monkeypatch):
    worker = ours_decode.build(asked(weights="f32"))

    def off(model, tokens, state):
        return ours_decode.decode(model, tokens, state).roll(1, -1)

    monkeypatch.setattr(ours_decode, "stepper", lambda *_: (off, 1))
    worker.unit()
    with pytest.raises(SystemExit, match="differ from the uncached fp32 model's"):
        worker.outcome()


def test_bytes_of_a_step_are_those_of_the_weights_and_of_the_state():
    sizes = DECODERS["gqa"].tiny
    model = ours_decode.Ours(asked(model="gqa", weights="f32")).model
    shape = Shape(batch=3, length=1, past=40)
    state = 3 * 41 * sizes.depth * 2 * sizes.kv_heads * (sizes.width // sizes.heads) * 4
    assert ours_decode.bytes_per_step(model, shape) == 4 * active(sizes) + state
    experts = ours_decode.Ours(asked(model="experts", weights="f32")).model
    one, many = (ours_decode.bytes_per_step(experts, Shape(batch=batch, length=1, past=1)) for batch in (1, 500))
    total = sum(value.nbytes for value in experts.parameters())
    assert one < 0.6 * total
    assert many > total


@pytest.mark.parametrize("name", ["dense", "experts"])
def test_beside_4_bits_of_llama_cpp_as_many_bytes_are_read(name):
    """Of the matrices of layers and of the table."""
    pytest.importorskip("gguf")
    from benchmarks.peers import gguf_file

    sizes = DECODERS[name].tiny
    model = ours_decode.Ours(asked(model=name, weights="int4-64")).model
    ours = sum(value.read_bytes for value in model.parameters() if isinstance(value, PackedMatrix))
    in_few = (size for tensor, size in gguf_file.tensors(sizes) if len(size) > 1 and gguf_file.ROUTER not in tensor)
    assert ours == sum(map(prod, in_few)) * 18 / 32
    table = model.get_parameter("embedding.weight")
    assert table.stored_bytes == sizes.vocab * (sizes.width // 2 + sizes.width // 64 * 2.5)


class Stub:
    """A process that answers as a worker does."""

    def __init__(self, rate: float, parameters: int = 100, broken: str = "") -> None:
        self.rate, self.parameters, self.broken = rate, parameters, broken
        self.stdin = self.stdout = self
        self.asked: list[str] = []
        self.begin()

    def begin(self) -> Stub:
        self.what = "start"
        return self

    def write(self, line: str) -> None:
        self.what = line.strip()
        self.asked.append(self.what)

    def flush(self) -> None: ...

    def kill(self) -> None: ...

    def wait(self) -> None: ...

    def readline(self) -> str:
        if self.broken and self.what.startswith(self.broken):
            return ""
        if self.what.startswith("round"):
            said = {"event": "round", "times": [1 / self.rate], "processor_seconds": 1.0, "peak_bytes": 5}
            said |= {"first_token_seconds": 2.0}
        else:
            said = {"event": "ready", "build_seconds": 0, "warmup_seconds": 0, "warmup_times": [], "tokens_per_unit": 1}
            said |= {"parameters": self.parameters, "versions": {}, "bytes_before": 1, "bytes_per_step": 10}
        return json.dumps(said) + "\n"


def measured(path, wanted, stubs, seconds=1000.0, again=False):
    whole = grid.Grid(path, 2, lambda name, command: Contender(name, stubs[name].begin()), lambda: 100.0)
    return whole.measure(whole.missing(wanted, again), seconds)


def three(**broken):
    return {
        "anyformer default": Stub(6.0, broken=broken.get("ours", "")),
        "transformers eager": Stub(2.0, broken=broken.get("theirs", "")),
        "llama.cpp": Stub(8.0),
    }


def test_a_grid_goes_on_where_it_stopped(tmp_path):
    path, wanted = tmp_path / "grid.json", grid.cases(["dense"], ["bf16"], BATCHES, CONTEXTS)
    assert [case.heavy for case in wanted] == [False, False, False, True]
    assert measured(path, wanted, three(), seconds=-1.0) == wanted
    assert measured(path, wanted[:2], three()) == []
    stubs = three()
    assert measured(path, wanted, stubs) == []
    # A process of its own for the heavy case, which is not warmed up, and has one round.
    assert stubs["llama.cpp"].asked == ["case 16 64 1", "round 1", "round 1", "case 16 2048 0", "round 1"]
    found = json.loads(path.read_text())["cases"]
    assert list(found) == [case.name for case in wanted]
    row = found[wanted[0].name]
    assert {each["name"]: each["ours_is_faster_by"] for each in row["results"]} == {
        "anyformer default": 1.0, "transformers eager": 3.0, "llama.cpp": 0.75,
    }  # fmt: skip
    # 6 steps of 10 bytes, at 100 bytes a second.
    assert row["share_of_reading"] == 0.6
    stubs = three()
    assert measured(path, wanted, stubs) == []
    assert stubs["llama.cpp"].asked == []


def test_a_peer_that_gives_up_leaves_a_row_without_it_and_ours_leaves_none(tmp_path):
    wanted = grid.cases(["dense"], ["bf16"], (1,), (64,))
    assert measured(tmp_path / "peer.json", wanted, three(theirs="case")) == []
    (row,) = json.loads((tmp_path / "peer.json").read_text())["cases"].values()
    assert [each["name"] for each in row["results"]] == ["anyformer default", "llama.cpp"]
    assert measured(tmp_path / "ours.json", wanted, three(ours="round")) == wanted
    assert not (tmp_path / "ours.json").exists()


def test_unequal_work_is_no_comparison():
    ours, other = (Contender(name, Stub(1.0, count)) for name, count in (("anyformer default", 1000), ("x", 1011)))
    for each in (ours, other):
        each.begin()
    with pytest.raises(SystemExit, match="x uses 1,011 parameters for a token and anyformer default 1,000"):
        same_work(ours, [ours, other])
    with pytest.raises(SystemExit):
        summary([ours, other], "anyformer default")
    other.ready["parameters"] = 1010
    same_work(ours, [ours, other])


def test_a_peer_is_asked_only_what_it_can():
    def names(*case) -> set[str]:
        return {name.split()[0] for name in decoding(Case(*case), ("llama.cpp",))}

    assert names("dense", "bf16", 1, 64) == {"anyformer", "litgpt", "transformers", "llama.cpp"}
    assert names("gqa", "f32", 16, 64) == {"anyformer", "transformers", "llama.cpp"}
    assert names("mla", "bf16", 1, 64) == {"anyformer", "transformers", "llama.cpp"}
    assert names("experts", "int4", 1, 64) == {"anyformer", "llama.cpp"}
    command = decoding(Case("gqa", "int8", 16, 2048), ("llama.cpp",))["llama.cpp"]
    assert command[-8:] == ["--model", "gqa", "--weights", "q8_0", "--batch", "16", "--context", "2048"]


def test_a_worker_turns_to_another_case_when_it_is_asked(capsys, monkeypatch):
    """What is said over the pipe: ready, a round, another case, and an error for a line that says nothing."""
    import io
    import sys

    def worker(tokens: int) -> protocol.Worker:
        return protocol.Worker(
            lambda: 0.5, tokens, {"mode": "x"}, lambda: {"ok": True}, lambda batch, context: worker(batch * context)
        )

    out = io.StringIO()
    lines = io.StringIO("round 2\ncase 3 4 1\nround 1\ncase 3\nquit\n")
    protocol._serve(lines, out, worker(1), asked(), {"build_seconds": 1})
    first, ready, second, error = map(json.loads, out.getvalue().splitlines())
    assert (first["times"], first["tokens_per_unit"]) == ([0.5, 0.5], 1)
    assert (ready["event"], ready["tokens_per_unit"], ready["warmup_times"], ready["build_seconds"]) == ("ready", 12, [0.5], 1)
    assert second["tokens_per_unit"] == 12
    assert error["event"] == "error"
    if sys.platform.startswith("linux"):
        assert first["peak_bytes"] > 1e6


def test_an_error_line_is_an_end():
    class Saying(Stub):
        def readline(self) -> str:
            return json.dumps({"event": "error", "message": "no"}) + "\n"

    with pytest.raises(GaveUpError, match="x: no"):
        Contender("x", Saying(1.0)).begin()
