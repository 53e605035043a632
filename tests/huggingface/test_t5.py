"""What T5's files mean where transformers 5 reads them differently."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file

from anyformer import huggingface
from anyformer.text.beside import Beside

PUBLISHED = {
    "vocab_size": 53, "d_model": 16, "d_kv": 4, "d_ff": 12, "num_layers": 1, "num_heads": 2, "tie_word_embeddings": False,
}  # fmt: skip


@pytest.mark.parametrize("model_type", ["t5", "mt5", "umt5"])
def test_files_that_say_untied_mean_logits_without_a_factor(model_type):
    architecture, _ = huggingface.read_architecture(huggingface.Config(PUBLISHED | {"model_type": model_type}))
    assert architecture.head.scale == 1.0
    assert not architecture.head.tied


def test_an_umt5_whose_logits_transformers_would_scale_is_not_exported():
    architecture, family = huggingface.read_architecture(huggingface.Config(PUBLISHED | {"model_type": "umt5"}))
    with pytest.raises(huggingface.HuggingFaceError, match=r"head\.scale"):
        family.write(architecture)


SIZES = {
    "vocab_size": 61, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4,
    "decoder_start_token_id": 0,
}  # fmt: skip
GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
IN_FP16 = {
    "t5": ("t5", {}, 2000.0),
    "t5 v1.1": ("t5", GATED, 2000.0),
    "mt5": ("mt5", {}, 2000.0),
    "umt5": ("umt5", {}, 2000.0),
    # Of these transformers keeps nothing in fp32, and what overflows it clamps: so compared where nothing does.
    "longt5": ("longt5", {}, 1.0),
    "switch": ("switch_transformers", {"num_experts": 2}, 1.0),
}
"""Name -> model type, configuration, and the factor of the last matrix of each network."""


def saved_in_fp16(name: str, directory: Path) -> type[transformers.PreTrainedModel]:
    """A tiny model whose hidden states fp16 cannot hold; its class."""
    model_type, more, factor = IN_FP16[name]
    config = transformers.AutoConfig.for_model(model_type, **SIZES, **more)
    torch.manual_seed(0)
    theirs = transformers.AutoModelForSeq2SeqLM.from_config(config)
    with torch.no_grad():
        for path, weight in theirs.named_parameters():
            weight.mul_(factor if "wo" in path.split(".") else 20.0 if "wi" in path and factor > 1 else 1.0)
    theirs.half().save_pretrained(directory)
    return type(theirs)


@pytest.mark.parametrize("name", IN_FP16)
def test_logits_of_files_in_fp16_are_those_of_transformers(name, tmp_path):
    theirs = saved_in_fp16(name, tmp_path / "half").from_pretrained(tmp_path / "half", dtype=torch.float16).eval()
    generator = torch.Generator().manual_seed(1)
    source, target = (torch.randint(1, 61, (2, length), generator=generator) for length in (9, 7))
    ours, _ = huggingface.load(tmp_path / "half")
    with torch.inference_mode():
        wanted = theirs(input_ids=source, decoder_input_ids=target).logits.float()
        assert wanted.isfinite().all()
        found = ours(source, target).float()
    assert (found - wanted).abs().max() < 3e-3 * wanted.abs().max()


@pytest.mark.parametrize("name", ["t5", "switch"])
def test_weights_in_fp16_are_written_as_they_came(name, tmp_path):
    saved_in_fp16(name, tmp_path / "half")
    model, _ = huggingface.load(tmp_path / "half")
    beside = Beside.read(tmp_path / "half")
    huggingface.export(model, tmp_path / "same", beside=beside)
    written, came = (load_file(tmp_path / each / "model.safetensors") for each in ("same", "half"))
    assert {path: tensor.dtype for path, tensor in written.items()} == dict.fromkeys(written, torch.float16)
    assert all(torch.equal(tensor, came[path]) for path, tensor in written.items())
    assert (tmp_path / "same" / "config.json").read_bytes() == (tmp_path / "half" / "config.json").read_bytes()
    with torch.no_grad():
        model.get_parameter("embedding.weight").add_(1e-6)
    with pytest.warns(match="dtype = float32"):
        huggingface.export(model, tmp_path / "trained", beside=beside)
