"""Files saved from a class without a head, as BART's first ones are: the head is the embedding's table."""

from __future__ import annotations

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from anyformer import huggingface
from huggingface.cases.bart import BASE
from huggingface.parity import gap, randomise

CONFIGS = {
    **dict.fromkeys(("bart", "mbart", "plbart", "mvp", "blenderbot", "blenderbot-small", "pegasus", "marian"), BASE),
    "m2m_100": BASE,
    "t5": {
        "vocab_size": 53,
        "d_model": 16,
        "d_kv": 4,
        "d_ff": 12,
        "num_layers": 2,
        "num_heads": 2,
        "decoder_start_token_id": 0,
    },
}


@pytest.mark.parametrize(("model_type", "shared"), [("t5", "shared"), ("bart", "model.shared")])
def test_files_that_hold_the_shared_table_under_the_names_of_both_sides(model_type, shared, tmp_path):
    config = transformers.AutoConfig.for_model(model_type, **CONFIGS[model_type])
    theirs = transformers.AutoModelForSeq2SeqLM.from_config(config).eval()
    randomise(theirs)
    theirs.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    table = tensors.pop(f"{shared}.weight")
    sides = [f"{shared.removesuffix('shared')}{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    save_file({**tensors, **{name: table.clone() for name in sides}}, tmp_path / "model.safetensors", {"format": "pt"})
    model, _ = huggingface.load(tmp_path)
    source, target = torch.randint(5, 53, (2, 9)), torch.randint(5, 53, (2, 7))
    again = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        expected = theirs(input_ids=source, decoder_input_ids=target).logits
        assert gap(model(source, target), expected) < 2e-5
        assert gap(again(input_ids=source, decoder_input_ids=target).logits, expected) < 2e-5
    save_file({**tensors, sides[0]: table, sides[1]: table + 1}, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(huggingface.HuggingFaceError, match=rf"no tensor {shared}.weight, and .*encoder.*differ"):
        huggingface.load(tmp_path)


@pytest.mark.parametrize("model_type", CONFIGS)
def test_a_model_saved_without_its_head(model_type, tmp_path):
    config = transformers.AutoConfig.for_model(model_type, **CONFIGS[model_type])
    bare = transformers.AutoModel.from_config(config).eval()
    randomise(bare)
    bare.save_pretrained(tmp_path / "bare")
    model, _ = huggingface.load(tmp_path / "bare")
    source, target = torch.randint(5, 53, (2, 9)), torch.randint(5, 53, (2, 7))
    huggingface.export(model, tmp_path / "again", model_type=model_type)
    for directory in ("bare", "again"):
        theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / directory).eval()
        with torch.no_grad():
            assert gap(model(source, target), theirs(input_ids=source, decoder_input_ids=target).logits) < 2e-5, directory
