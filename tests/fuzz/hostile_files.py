"""Files and directories that are not what their names say: what a command line may be pointed at."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
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


def _all() -> dict[str, dict[str, bytes]]:
    """What to call a file or directory by -> its files."""
    made: dict[str, dict[str, bytes]] = {
        "bytes.json": {"bytes.json": b"\xff\xfe\x00"},
        "bytes.toml": {"bytes.toml": b"\xff\xfe\x00"},
        "directory.toml": {"directory.toml/x": b""},
    }
    for name, text in TEXTS.items():
        made[f"{name}.json"] = {f"{name}.json": text.encode()}
        made[f"in_{name}"] = {f"in_{name}/config.json": text.encode()}
    for name, text in TOMLS.items():
        made[f"{name}.toml"] = {f"{name}.toml": text.encode()}
        made[f"run_{name}"] = {f"run_{name}/run.toml": text.encode()}
    config = json.dumps(CONFIG).encode()
    for name, index in INDICES.items():
        place = f"index_{name}"
        made[place] = {f"{place}/config.json": config, f"{place}/model.safetensors.index.json": json.dumps(index).encode()}
    for name, header in HEADERS.items():
        place, text = f"tensors_{name}", json.dumps(header)
        tensors = struct.pack("<Q", len(text)) + text.encode() + bytes(6784)
        made[place] = {f"{place}/config.json": config, f"{place}/model.safetensors": tensors}
    return made


FILES = _all()


def write(place: Path, named: Iterable[str]) -> None:
    """Write those that are `named` into `place`."""
    for name in set(named) & FILES.keys():
        for path, content in FILES[name].items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(content)
