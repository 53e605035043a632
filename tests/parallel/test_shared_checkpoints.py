"""Checkpoints that several processes write together: the numbers of one process, whatever the mesh, whole or not at all."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from rich.console import Console
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

from anyformer import checkpoint
from anyformer.checkpoint import CheckpointError
from anyformer.checkpoint.pieces import share_name, write_pieces
from anyformer.describe import to_toml
from anyformer.model.transformer import build
from anyformer.operations import Extent
from anyformer.quantising import FORMATS
from anyformer.quantising.model import quantised
from anyformer.training import load_run, train

REWRITING = Path(__file__).with_name("rewriting.py")
MESHES = runpy.run_path(str(REWRITING))["MESHES"]
RUNS = {
    "llama-3-8b": {"average": {"kind": "ema"}},
    "mixtral-8x7b": {"average": {"kind": "ema"}},
    "gpt2": {"optimiser": {"kind": "adafactor"}},
    "gemma-2-2b": {"optimiser": {"kind": "sgd", "momentum": 0.0}},
    "electra-small": {"objective": {"kind": "replaced_tokens"}},
    "llama-2-7b": {"tuning": {"adapter": {"kind": "dora", "rank": 2}}},
    "mistral-7b-v0.1": {"tuning": {"adapter": {"kind": "prompt", "tokens": 3}}},
    "qwen3-30b-a3b": {"tuning": {"adapter": {"kind": "lora", "rank": 2}, "base": "nf4"}},
}
"""Of each entry: averages beside the weights, states of other shapes, no state at all, a second model that learns, adapters, a
base of few bits."""
MORE = {"electra-small": "generator.safetensors", "llama-2-7b": "adapter.safetensors", "mistral-7b-v0.1": "adapter.safetensors"}
FEW = {
    ("gemma-2-2b", "optimiser.safetensors"),
    ("mistral-7b-v0.1", "optimiser.safetensors"),
    ("mistral-7b-v0.1", "adapter.safetensors"),
}
"""Files with few tensors, or none."""
FEW_BITS = "qwen3-30b-a3b"
FILES = ("model.safetensors", "optimiser.safetensors")


@pytest.fixture(scope="module", params=["few", pytest.param("all", marks=pytest.mark.slow)])
def which(request):
    """Few meshes, or all."""
    return request.param


@pytest.fixture(scope="module")
def meshes(which):
    """By name, the meshes that read and write it."""
    return MESHES[which]


@pytest.fixture(scope="module")
def rewritten(which, meshes, run_of, start_in, tmp_path_factory):
    """By name, the checkpoint of a run of one process, and those that four processes made of it, one mesh after another."""
    place, given = tmp_path_factory.mktemp("rewritten"), []
    for name, changes in RUNS.items():
        run = load_run(run_of(name, **changes), {"steps": 2, "checkpoints.keep": 99})
        if name == FEW_BITS:
            base, _ = quantised(build(run.architecture, seed=7), FORMATS["nf4"])
            checkpoint.save(base, place / "base")
            run = run.but(start_from=str(place / "base"))
        file = place / f"{name}.toml"
        file.write_text(to_toml(run), encoding="utf-8")
        train(run, place / f"{name}-alone", console=Console(quiet=True))
        given += [file, checkpoint.directory_of(place / f"{name}-alone", 2)]
    done = start_in(place, 4, REWRITING, which, place / "out", *given)
    assert done.returncode == 0, done.stderr[-3000:]
    return {
        name: (origin, [checkpoint.directory_of(place / "out" / name, number) for number in range(1, len(meshes[name]) + 1)])
        for name, origin in zip(RUNS, given[1::2], strict=True)
    }


def test_every_mesh_reads_what_another_wrote_to_the_bit(rewritten, meshes):
    assert sum(len(made) for _, made in rewritten.values()) >= 12
    for name, (origin, made) in rewritten.items():
        files = sorted(path.name for path in origin.glob("*.safetensors"))
        assert {*FILES, *((MORE[name],) if name in MORE else ())} <= {*files}
        for file in files:
            whole = checkpoint.read(origin / file)
            assert len(whole) > 5 or (name, file) in FEW
            for sizes, each in zip(meshes[name], made, strict=True):
                found = checkpoint.read(each / file)
                assert found.shapes == whole.shapes, (name, sizes)
                assert found.digest == whole.digest, (name, sizes)
                checkpoint.verify(each, tuple(files))


def test_a_base_in_few_bits_is_taken_and_held_by_share(rewritten):
    origin, made = rewritten[FEW_BITS]
    whole = checkpoint.read(origin / "model.safetensors")
    begun = checkpoint.directory_of(made[0].parents[2] / f"{FEW_BITS}-begun", 0)
    assert checkpoint.read(begun / "model.safetensors").digest == whole.digest
    assert any(name.endswith(".codes") for name in whole)
    held = [int(Path(f"{made[0].parents[2]}-{FEW_BITS}-{rank}").read_text()) for rank in range(4)]
    # A quarter of the base and of the adapter, and what is not divided evenly.
    assert max(held) < 0.4 * sum(payload(origin / file) for file in ("model.safetensors", "adapter.safetensors")), held


def payload(path: Path) -> int:
    """Bytes of a safetensors file behind its header."""
    with path.open("rb") as file:
        return path.stat().st_size - 8 - int.from_bytes(file.read(8), "little")


def test_each_number_is_written_once_and_no_process_writes_most(rewritten, meshes):
    for name in ("llama-3-8b", "mixtral-8x7b", "gpt2"):
        origin, made = rewritten[name]
        whole = sum(payload(origin / file) for file in FILES)
        for sizes, each in zip(meshes[name], made, strict=True):
            assert not (each / "model.safetensors").exists()
            bytes_of = dict.fromkeys(range(1, 5), 0)
            for path in each.glob("*.safetensors"):
                bytes_of[int(re.search(r"share-(\d+)-of-00004", path.name)[1])] += payload(path)
            # The header is filled up to a multiple of 8 bytes.
            assert whole <= sum(bytes_of.values()) < whole + 8 * 8, (name, sizes)
            assert max(bytes_of.values()) < 0.7 * whole, (name, sizes)


def test_all_processes_check_digests_together_and_hear_the_same(rewritten):
    """Each file is hashed once, by one of them, and what one of them finds is known to all."""
    origin = rewritten["gpt2"][1][0].parents[1]
    each = [json.loads((origin / f"checked-{rank}.json").read_text()) for rank in range(4)]
    older, newest = checkpoint.directory_of(origin, 1), checkpoint.directory_of(origin, 2)
    share = newest / "model-share-00003-of-00004.safetensors"
    for said in each:
        assert said["found"] == str(older)
        (damaged,) = said["damaged"]
        assert damaged.startswith(f"{share}: changed since it was written")
        assert "take an older checkpoint" in damaged
    hashed = sorted(path for said in each for path in said["hashed"])
    files = [path for place in (older, newest) for path in place.rglob("*") if path.is_file() and path.name != "manifest.json"]
    assert hashed == sorted(map(str, files))
    most = max(sum(Path(path).stat().st_size for path in said["hashed"]) for said in each)
    assert most < 0.4 * sum(path.stat().st_size for path in files)


def test_torch_reads_the_shares_as_its_own(rewritten):
    origin, made = rewritten["llama-3-8b"]
    whole = checkpoint.read(origin / "model.safetensors")
    given = {name: torch.zeros(shape) for name, shape in whole.shapes.items()}
    dcp.load(given, storage_reader=HuggingFaceStorageReader(str(made[0])), no_dist=True)
    assert all(torch.equal(given[name], whole[name]) for name in whole)


def test_one_process_loads_and_verifies_them(rewritten):
    origin, made = rewritten["mixtral-8x7b"]
    one, _, manifest = checkpoint.load(made[1])
    other, _, _ = checkpoint.load(origin)
    assert manifest.facts["step"] == 2
    for (name, weight), (_, same) in zip(one.named_parameters(), other.named_parameters(), strict=True):
        assert torch.equal(weight, same), name
    share = next(made[2].glob("model-share-*"))
    data = bytearray(share.read_bytes())
    data[-1] ^= 1
    share.write_bytes(data)
    with pytest.raises(CheckpointError, match=re.escape(f"{share}: changed since it was written")):
        checkpoint.load(made[2])
    strange = made[2] / "model.safetensors"
    strange.write_bytes(share.read_bytes())
    with pytest.raises(CheckpointError, match=r"model\.safetensors: is not listed in manifest\.json"):
        checkpoint.load(made[2])
    strange.unlink()
    share.unlink()
    with pytest.raises(CheckpointError, match="missing"):
        checkpoint.load(made[2])


def pieces_of(tensor: torch.Tensor, *extents: Extent) -> list[checkpoint.Piece]:
    return [checkpoint.Piece(tensor[each.slices].contiguous(), each, tuple(tensor.shape)) for each in extents]


def test_a_part_is_put_together_from_the_pieces_that_it_meets(tmp_path):
    tensor = torch.arange(7 * 6.0).view(7, 6)
    corners = [Extent((a, b), (size, 3)) for a, size in ((0, 4), (4, 3)) for b in (0, 3)]
    for number, piece in enumerate(pieces_of(tensor, *corners)):
        write_pieces({"w": piece}, tmp_path / share_name("model.safetensors", number, 4))
    found = checkpoint.read(tmp_path / "model.safetensors")
    assert torch.equal(found["w"], tensor)
    for start, size in (((0, 0), (4, 3)), ((1, 1), (2, 2)), ((3, 2), (3, 3)), ((6, 0), (1, 6)), ((7, 0), (0, 6))):
        extent = Extent(start, size)
        assert torch.equal(found.part("w", extent), tensor[extent.slices])


@pytest.mark.parametrize("fault", ["gap", "twice", "overlap", "beyond", "shapes"])
def test_pieces_that_are_not_the_tensor_are_refused(tmp_path, fault):
    tensor = torch.arange(12.0).view(6, 2)
    upper, lower = pieces_of(tensor, Extent((0, 0), (3, 2)), Extent((3, 0), (3, 2)))
    match fault:
        case "gap":
            lower = pieces_of(tensor, Extent((4, 0), (2, 2)))[0]
        case "twice":
            lower = upper
        case "overlap":
            upper, lower = pieces_of(tensor, Extent((0, 0), (4, 2)), Extent((2, 0), (2, 2)))
        case "beyond":
            lower = checkpoint.Piece(lower.values, Extent((4, 0), (3, 2)), (6, 2))
        case "shapes":
            lower = checkpoint.Piece(lower.values, lower.extent, (7, 2))
    for number, piece in enumerate((upper, lower)):
        write_pieces({"w": piece}, tmp_path / share_name("model.safetensors", number, 2))
    with pytest.raises(CheckpointError, match=r"model.*safetensors.*\bw: "):
        checkpoint.read(tmp_path / "model.safetensors")
