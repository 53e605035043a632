"""Files and directories that are not what their names say: what a command line may be pointed at."""

from __future__ import annotations

import json
import struct
from pathlib import Path

DEEP = 20_000
CONFIG = {
    "model_type": "llama", "vocab_size": 53, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 1,
    "num_attention_heads": 4, "max_position_embeddings": 64,
}  # fmt: skip
TEXTS = {
    "five": "5", "list": "[]", "null": "null", "nothing": "", "table": "{}", "string": '"gpt2"', "true": "true", "nan": "NaN",
    "deep_lists": "[" * DEEP, "closed_lists": "[" * DEEP + "]" * DEEP, "deep_tables": '{"a":' * DEEP + "1" + "}" * DEEP,
    "digits": '{"width": ' + "9" * 5000 + "}", "twice": '{"width": 1, "width": 2}', "cut": '{"width": 32, "decoder": {',
    "keys": '{"architecture": 5, "data": []}', "many_names": json.dumps({"architecture": ["gpt2"], "data": {"paths": ["x"]}}),
    "config": json.dumps({**CONFIG, "num_hidden_layers": "2"}), "type": '{"model_type": 5}',
    "types": '{"model_type": ["llama"]}',
    "itself": '{"architecture": "itself.json", "data": {}}',
}  # fmt: skip
TOMLS = {
    "five": "5", "bare": "a", "digits": "width = " + "9" * 5000, "deep_lists": "a = " + "[" * DEEP,
    "deep_names": "a" + ".a" * DEEP + " = 1", "list": "architecture = []\ndata = []", "twice": "width = 1\nwidth = 2",
    "run": 'architecture = "llama-12m"\nsteps = 1e400\n[data]\npaths = 5', "date": "width = 2026-01-01",
    "set": 'architecture = "llama-12m"\nset = 5\n[data]\npaths = ["x"]', "itself": 'architecture = "itself.toml"\n[data]\n',
    "sets": 'architecture = "llama-12m"\n[set]\n"decoder.order" = 5\n[data]\npaths = ["x"]', "nothing": "",
}  # fmt: skip
HEADERS = {
    "float_as_int": {"lm_head.weight": {"dtype": "I32", "shape": [53, 32], "data_offsets": [0, 6784]}},
    "float_as_unsigned": {"model.norm.weight": {"dtype": "U32", "shape": [32], "data_offsets": [0, 128]}},
    "negative": {"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}},
    "beyond": {"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 1 << 60]}},
    "huge": {"a": {"dtype": "F32", "shape": [1 << 62, 1 << 62], "data_offsets": [0, 4]}},
    "unknown": {"a": {"dtype": "Q9", "shape": [1], "data_offsets": [0, 4]}},
    "no_table": [],
    "number": 5,
}
INDICES = {
    "list": [], "null": None, "five": 5, "no_map": {}, "map_list": {"weight_map": []}, "map_null": {"weight_map": None},
    "file_number": {"weight_map": {"a": 5}}, "file_outside": {"weight_map": {"a": "../x.safetensors"}},
    "file_long": {"weight_map": {"a": "x" * 5000}}, "file_itself": {"weight_map": {"a": "config.json"}},
}  # fmt: skip


def write(place: Path) -> list[str]:
    """Write them all into `place`; gives their names."""
    names = []
    for name, text in TEXTS.items():
        names += [_file(place / f"{name}.json", text), _file(place / f"in_{name}" / "config.json", text)]
    for name, text in TOMLS.items():
        names += [_file(place / f"{name}.toml", text), _file(place / f"run_{name}" / "run.toml", text)]
    for name, index in INDICES.items():
        _file(place / f"index_{name}" / "model.safetensors.index.json", json.dumps(index))
        names.append(_file(place / f"index_{name}" / "config.json", json.dumps(CONFIG)))
    for name, header in HEADERS.items():
        text = json.dumps(header).encode()
        _file(place / f"tensors_{name}" / "config.json", json.dumps(CONFIG))
        names.append(_file(place / f"tensors_{name}" / "model.safetensors", struct.pack("<Q", len(text)) + text + bytes(6784)))
    names.append(_file(place / "bytes.json", b"\xff\xfe\x00"))
    names.append(_file(place / "bytes.toml", b"\xff\xfe\x00"))
    (place / "directory.toml").mkdir(exist_ok=True)
    return [*names, "directory.toml"]


def _file(path: Path, content: str | bytes) -> str:
    """Write a file; gives what to call it by: the directory where it lies alone in one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path.parent.name if path.parent.name.startswith(("in_", "run_", "index_", "tensors_")) else path.name
