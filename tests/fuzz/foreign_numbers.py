"""Cases of files of numbers from elsewhere: weights in safetensors, GGUF files, adapters; their headers, counts and values."""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import gguf
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from zoo import ZOO

from anyformer import huggingface
from anyformer.loading import load
from anyformer.model.adapters import adapt
from anyformer.model.transformer import build
from anyformer.tuning import Dora, Lora, Prompt
from fuzz.guard import place
from fuzz.kind import Case, Kind
from fuzz.mutate import mutated
from scratch import Scratch

KEPT = Scratch("anyformer-fuzz-")
EXTREME = (0, 1, 2, 255, 2**16, 10**6, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**62, 2**63, 2**64 - 1)
NUMBERS = (float("nan"), float("inf"), float("-inf"), 3e38, -3e38, 0.0)


def weights(seed: int) -> Case:
    """An export whose weights have another header, or other numbers."""
    draw = random.Random(seed)

    def run() -> None:
        with place() as inside:
            file = Path(shutil.copytree(_base(), inside / "model")) / "model.safetensors"
            draw.choice((_number, _number, _header, _header, _length, _whole))(file, draw)
            load(inside / "model")

    return run


def adapters(seed: int) -> Case:
    """An adapter, merged with a whole model or beside one: other names, shapes, numbers or settings."""
    draw = random.Random(seed)

    def run() -> None:
        with place() as inside:
            directory = Path(shutil.copytree(_adapter(draw.choice(("lora", "dora", "prompt"))), inside / "adapter"))
            file, config = directory / "adapter_model.safetensors", directory / "adapter_config.json"
            match draw.choice(("settings", "settings", "names", "names", "numbers", "header", "whole")):
                case "settings":
                    config.write_text(json.dumps(mutated(json.loads(config.read_text()), draw)))
                case "names":
                    _names(file, draw)
                case "numbers":
                    _number(file, draw)
                case "header":
                    _header(file, draw)
                case _:
                    pass
            if draw.random() < 0.7:
                load(_base(), adapter=directory)
            else:
                huggingface.read_adapter(directory, ZOO["llama"], huggingface.family("llama"))

    return run


def gguf_files(seed: int) -> Case:
    """A GGUF file with other counts, sizes, types and bytes, or in pieces that are not there."""
    draw = random.Random(seed)

    def run() -> None:
        with place() as inside:
            data = bytearray(_gguf().read_bytes())
            ways: tuple[Callable[[bytearray, random.Random], None], ...] = (_count, _field, _field, _bits, _cut, _whole_bytes)
            draw.choice(ways)(data, draw)
            file = inside / draw.choice(("x.gguf", "x.gguf", "x-00001-of-99999.gguf", "x-00000-of-00000.gguf"))
            file.write_bytes(data)
            load(file)

    return run


def _number(file: Path, draw: random.Random) -> None:
    tensors = load_file(file)
    tensor = tensors[draw.choice(sorted(tensors))]
    if tensor.numel():
        tensor.view(-1)[draw.randrange(tensor.numel())] = draw.choice(NUMBERS)
    save_file(tensors, file, metadata={"format": "pt"})


def _names(file: Path, draw: random.Random) -> None:
    tensors = load_file(file)
    name = draw.choice(sorted(tensors))
    tensor = tensors.pop(name)
    match draw.choice(("gone", "renamed", "layer", "shape", "more", "none")):
        case "renamed":
            tensors[draw.choice((name[1:], name[:-1], f"{name}.weight", "", "x" * 9000, name.replace("q_proj", "norm")))] = (
                tensor
            )
        case "layer":
            tensors[name.replace(".0.", f".{draw.choice(EXTREME)}.")] = tensor
        case "shape":
            tensors[name] = torch.ones(draw.choice(((), (0,), (1,), (1, 1), (2, 3), tuple(tensor.shape)[::-1], (2, 2, 2))))
        case "more":
            tensors |= {
                name: tensor,
                name.replace("lora_A", draw.choice(("lora_embedding_A", "lora_magnitude_vector", "x"))): tensor,
            }
        case "none":
            tensors = {}
        case _:
            pass
    save_file({key: x.clone() for key, x in tensors.items()}, file)


def _header(file: Path, draw: random.Random) -> None:
    data = file.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    try:
        text = json.dumps(mutated(json.loads(data[8 : 8 + size]), draw)).encode()
    except ValueError:  # numbers of more digits than Python writes
        text = b"{}"
    file.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])


def _length(file: Path, draw: random.Random) -> None:
    file.write_bytes(struct.pack("<Q", draw.choice(EXTREME)) + file.read_bytes()[8:])


def _whole(file: Path, draw: random.Random) -> None:
    """Nothing changes: what is whole is loaded."""


def _count(data: bytearray, draw: random.Random) -> None:
    struct.pack_into("<Q", data, draw.choice((8, 16)), draw.choice(EXTREME))


def _field(data: bytearray, draw: random.Random) -> None:
    kind, size = draw.choice((("<I", 4), ("<Q", 8)))
    at = draw.randrange(24, _head() - size)
    struct.pack_into(kind, data, at, draw.choice(EXTREME) % 2 ** (8 * size))


def _bits(data: bytearray, draw: random.Random) -> None:
    for _ in range(draw.choice((1, 1, 8))):
        data[draw.randrange(_head())] ^= 1 << draw.randrange(8)


def _cut(data: bytearray, draw: random.Random) -> None:
    del data[draw.randrange(len(data)) :]


def _whole_bytes(data: bytearray, draw: random.Random) -> None:
    """Nothing changes."""


@cache
def _base() -> Path:
    made = Path(mkdtemp(dir=KEPT.name)) / "base"
    huggingface.export(build(ZOO["llama"], seed=0), made)
    (made / "digests.json").unlink()  # as directories come from elsewhere
    return made


@cache
def _adapter(kind: str) -> Path:
    made, model = Path(mkdtemp(dir=KEPT.name)) / kind, build(ZOO["llama"], seed=0)
    targets = ("*.query", "*.down")
    adapter = {"lora": Lora(rank=2, targets=targets), "dora": Dora(rank=2, targets=targets), "prompt": Prompt(tokens=3)}[kind]
    adapt(model, adapter, 0)
    own = {name: model.get_parameter(name).detach() for name in model.added}
    huggingface.write_adapter(made, adapter, own, model.bare, huggingface.family("llama"))
    return made


@cache
def _gguf() -> Path:
    """A llama of one layer."""
    made, draw = Path(mkdtemp(dir=KEPT.name)) / "x.gguf", np.random.default_rng(0)
    width, inner, vocab = 16, 24, 40
    writer = gguf.GGUFWriter(made, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_array("tokenizer.ggml.scores", [0.5] * 20)
    square, up = (width, width), (inner, width)
    shapes = {"token_embd": (vocab, width), "output_norm": (width,), "output": (vocab, width)}
    layer = {"attn_norm": (width,), "attn_q": square, "attn_k": square, "attn_v": square, "attn_output": square,
             "ffn_norm": (width,), "ffn_gate": up, "ffn_up": up, "ffn_down": (width, inner)}  # fmt: skip
    for name, shape in (shapes | {f"blk.0.{name}": shape for name, shape in layer.items()}).items():
        writer.add_tensor(f"{name}.weight", draw.standard_normal(shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return made


@cache
def _head() -> int:
    """The bytes before the numbers."""
    return int(gguf.GGUFReader(_gguf()).data_offset)


KINDS = {
    "weights": Kind(weights, 1500, 40),
    "adapters": Kind(adapters, 1500, 40),
    "gguf": Kind(gguf_files, 3000, 60),
}
