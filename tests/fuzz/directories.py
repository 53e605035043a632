"""Cases of damaged directories: a checkpoint, an export, one without digests; one file of it flipped, cut, filled, or gone."""

from __future__ import annotations

import random
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from zoo import ZOO

from anyformer import checkpoint, huggingface
from anyformer.loading import load
from anyformer.model.transformer import build
from fuzz.guard import place
from fuzz.kind import Case, Kind
from scratch import Scratch

KEPT = Scratch("anyformer-fuzz-")


def directory(seed: int) -> Case:
    """One damaged directory, loaded."""
    draw = random.Random(seed)
    whole = _whole(draw.choice(("checkpoint", "export", "hub")))

    def run() -> None:
        with place() as inside:
            damaged = inside / "damaged"
            shutil.copytree(whole, damaged)
            _damage(draw.choice(sorted(damaged.iterdir())), draw)
            load(damaged)

    return run


def _damage(path: Path, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    match draw.choice(("flip", "flip", "flips", "cut", "zero", "more", "text", "gone", "directory")):
        case "flip":
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        case "flips":
            for _ in range(20):
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        case "cut":
            del data[draw.randrange(len(data)) :]
        case "zero":
            at = draw.randrange(len(data))
            data[at : at + 64] = bytes(len(data[at : at + 64]))
        case "more":
            data += data[: draw.randrange(1, 64)]
        case "text":
            data = bytearray(draw.choice((b"", b"5", b"[]", b"null", b"{}", b"[" * 20_000, b"\xff")))
        case "gone":
            path.unlink()
            return
        case "directory":
            path.unlink()
            path.mkdir()
            return
    path.write_bytes(bytes(data))


@cache
def _whole(kind: str) -> Path:
    made = Path(mkdtemp(dir=KEPT.name)) / kind
    model = build(ZOO["llama"], seed=0)
    if kind == "checkpoint":
        checkpoint.save(model, made, facts={"step": 7})
        return made
    huggingface.export(model, made)
    if kind == "hub":
        (made / "digests.json").unlink()
    return made


KINDS = {"directories": Kind(directory, 600, 40)}
