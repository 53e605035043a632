"""The memory of reading weights in few bits: that of the model and of one tensor."""

from __future__ import annotations

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from anyformer import huggingface
from huggingface.case import Case
from huggingface.cases import gpt_oss
from huggingface.few_bits import write
from huggingface.test_few_bits_floats import block_fp8, mxfp4, stacked

LARGE = Case(
    "llama",
    {
        "vocab_size": 53, "hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 1, "num_attention_heads": 4,
        "max_position_embeddings": 64,
    },
)  # fmt: skip
EXPERTS = Case("gpt_oss", {**gpt_oss.CASES[1].config, "hidden_size": 512, "intermediate_size": 512, "num_hidden_layers": 1,
                           "layer_types": ["full_attention"]})  # fmt: skip


class Live(TorchDispatchMode):
    """The most bytes that the tensors of all operations, what they read and what they make, hold at once."""

    def __init__(self):
        super().__init__()
        self.peak, self.held = 0, {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves((args, kwargs, made)):
            if isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu":
                storage = tensor.untyped_storage()
                self.held[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        self.held = {key: held for key, held in self.held.items() if not held[0].expired()}
        self.peak = max(self.peak, sum(nbytes for _, nbytes in self.held.values()))
        return made


def peak_of(directory, dtype):
    """The peak of live tensors beyond the model's own bytes."""
    with Live() as live:
        model, _ = huggingface.load(directory, dtype=dtype)
    return live.peak - sum(parameter.nbytes for parameter in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fp8_takes_one_tensor_beyond_the_model(tmp_path, dtype):
    settings = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    made = write(tmp_path, LARGE, settings, block_fp8(128, 128))
    largest = 1024 * 2048 * dtype.itemsize
    assert 0 < peak_of(made.packed, dtype) <= largest


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_mxfp4_takes_one_tensor_beyond_the_model(tmp_path, dtype):
    made = write(tmp_path, EXPERTS, {"quant_method": "mxfp4"}, mxfp4, stacked)
    largest = 5 * 512 * 1024 * dtype.itemsize  # gate and up of all experts, before they are cut apart
    assert 0 < peak_of(made.packed, dtype) <= largest
