"""Tensors that transformers has and computes nothing with: matrices of LongCat-Flash's experts without computation."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file

from anyformer import huggingface
from anyformer.huggingface import HuggingFaceError
from huggingface.cases.longcat_flash import CASES
from huggingface.parity import pair

IDLE = "experts.5.gate_proj"


def test_files_may_lack_them(tmp_path):
    """Published files do."""
    both = pair(CASES[0])
    stored = load_file(both.directory / "model.safetensors")
    assert any(IDLE in name for name in stored)
    kept = {name: tensor for name, tensor in stored.items() if not any(f"experts.{i}." in name for i in (4, 5, 6))}
    (tmp_path / "config.json").write_bytes((both.directory / "config.json").read_bytes())
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    again = huggingface.load(tmp_path)[0]
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), both.ours.parameters(), strict=True))
    save_file({name: kept[name] for name in kept if "experts.3." not in name}, tmp_path / "model.safetensors")
    with pytest.raises(HuggingFaceError, match=r"6 tensors are missing, the first .*experts\.3\.gate_proj"):
        huggingface.load(tmp_path)
