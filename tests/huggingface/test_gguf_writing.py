"""GGUF files as they are written: every type comes back as it went, every setting is in the file or refused."""

from __future__ import annotations

import shutil
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import gguf
import pytest
import torch
from benchmarks.engines.gguf_types import TYPES
from benchmarks.engines.llama_cpp import made

import anyformer as af
from anyformer.describe import Notice, diff
from anyformer.files import PlaceError
from anyformer.huggingface import HuggingFaceError
from anyformer.huggingface.find import canonical
from anyformer.huggingface.gguf import architectures, export_gguf, forms

NEAR = 1e-6
"""Of gains of 1 + w and of -exp(w), which 32 bits do not hold exactly."""


def test_every_type_is_asked_about():
    assert TYPES.keys() == forms().keys()


QUICK = ("llama", "gpt2", "falcon", "gpt_oss", "granitemoehybrid", "deepseek_v2", "lfm2")
"""Types that between them change tensors in every way; the others take a second each."""


@pytest.mark.parametrize("model_type", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in TYPES])
def test_types_come_back_as_they_went(tmp_path, model_type):
    for number, config in enumerate(TYPES[model_type]):
        warnings.simplefilter("ignore", Notice)
        model = made(model_type, config)
        path = tmp_path / f"{number}.gguf"
        plan = export_gguf(model, path, model_type=model_type, length=config.get("max_position_embeddings"))
        names = [tensor.name for tensor in gguf.GGUFReader(path).tensors]
        assert names == list(plan.shapes)
        assert len(set(names)) == len(names)
        again, tokenizer = af.load(path)
        assert tokenizer is None
        found = [change for change in diff(canonical(again.architecture), canonical(model.architecture)) if not near(*change)]
        assert not found
        changed = {name for rule in plan.file_rules if plan.form.changes for name in rule.theirs}
        for name, value in model.named_parameters():
            torch.testing.assert_close(again.get_parameter(name), value, rtol=0, atol=NEAR if changed else 0)


def near(path, left, right):
    """Numbers of 32 bits, and windows as long as the longest text."""
    return (isinstance(left, float) and abs(left - right) < 1e-6 * abs(right)) or path.endswith(".mask")


BASE = TYPES["llama"][0]


@pytest.mark.parametrize(
    ("model_type", "change", "words"),
    [
        ("llama", {"hidden_act": "gelu"}, r'hidden_act = "gelu" is not supported for llama.*no other is in llama\.cpp'),
        ("seed_oss", {"mlp_bias": True}, "mlp_bias = true is not supported for seed_oss"),
        ("qwen2", {"rope_parameters": {**TYPES["qwen2"][1]["rope_parameters"], "truncate": False}}, r"truncate = false is not"),
        ("mistral", {"sliding_window": 9}, "sliding_window = 9 is not in .*export with a length of at most 9"),
        ("qwen3_moe", {"norm_topk_prob": False}, "norm_topk_prob = false is not supported"),
        ("gemma2", {"query_pre_attn_scalar": 17}, "query_pre_attn_scalar = 17 is not supported for gemma2, only 16"),
    ],
)
def test_what_llama_cpp_does_not_compute_is_refused_by_name(tmp_path, model_type, change, words):
    model = made(model_type, {**TYPES[model_type][0], **change})
    with pytest.raises(HuggingFaceError, match=words):
        export_gguf(model, tmp_path / "model.gguf", model_type=model_type, length=64)
    assert not list(tmp_path.iterdir())


def test_a_word_that_nobody_read_is_refused():
    for form in (forms()["llama"], forms()["gpt2"]):
        _, table = af.huggingface.find_family(made(form.model_type, TYPES[form.model_type][0]).architecture, form.model_type)
        form.write(table, "model.gguf")
        with pytest.raises(HuggingFaceError, match=r"keys that are not known here.*attention_multiplier = 0\.3"):
            form.write({**table, "attention_multiplier": 0.3}, "model.gguf")


def test_architectures_of_no_type_are_refused_with_the_nearest(tmp_path):
    model = made("qwen2", TYPES["qwen2"][0])
    assert "llama" in architectures()
    other = af.change(model.architecture, "decoder.layer.attention.mask", {"kind": "window", "size": 3})
    with pytest.raises(HuggingFaceError, match=r"under none of the \d+ model types that are written here.*The nearest:\n  "):
        export_gguf(af.build(other, device="meta"), tmp_path / "model.gguf")
    with pytest.raises(HuggingFaceError, match="bart is no type that GGUF files are written of: give one of"):
        export_gguf(model, tmp_path / "model.gguf", model_type="bart")
    with pytest.raises(PlaceError):
        export_gguf(model, tmp_path / "nowhere" / "at" / "all.gguf")


@pytest.mark.parametrize(("dtype", "kind"), [(None, "F32"), (torch.bfloat16, "BF16"), (torch.float16, "F16")])
def test_types_of_numbers(tmp_path, dtype, kind):
    path = tmp_path / "model.gguf"
    model = made("llama", BASE)
    export_gguf(model, path, dtype=dtype)
    kinds = {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(path).tensors}
    assert {name for name, found in kinds.items() if found != kind} == (
        set() if kind == "F32" else {name for name in kinds if name.endswith("norm.weight")}
    )
    again, _ = af.load(path, dtype=torch.float32)
    for name, value in model.named_parameters():
        expected = value if dtype is None or "norm" in name else value.to(dtype).float()
        assert torch.equal(again.get_parameter(name), expected)


def test_few_bits(tmp_path):
    config = {**BASE, "hidden_size": 64, "intermediate_size": 96, "vocab_size": 96}
    model = made("llama", config)
    export_gguf(model, tmp_path / "model.gguf", quantise="q8_0")
    kinds = {tensor.tensor_type.name for tensor in gguf.GGUFReader(tmp_path / "model.gguf").tensors}
    assert kinds == {"Q8_0", "F32"}
    field = gguf.GGUFReader(tmp_path / "model.gguf").fields["general.file_type"]
    assert field.contents() == gguf.LlamaFileType.MOSTLY_Q8_0
    again, _ = af.load(tmp_path / "model.gguf", dtype=torch.float32)
    for name, value in model.named_parameters():
        step = value.abs().max() / 127
        assert (again.get_parameter(name) - value).abs().max() <= step
    with pytest.raises(HuggingFaceError, match="quantise = 'q9' is not known"):
        export_gguf(model, tmp_path / "other.gguf", quantise="q9")


class Quantiser:
    """In place of llama.cpp's: the file as it is, and what it was asked for."""

    LLAMA_FTYPE_MOSTLY_Q4_K_M = 15

    def __init__(self, failed=0):
        self.failed, self.asked = failed, []

    def llama_model_quantize_default_params(self):
        return SimpleNamespace(ftype=0)

    def llama_model_quantize(self, plain, to, options):
        self.asked.append((Path(plain.decode()).name, options.ftype))
        shutil.copy(plain.decode(), to.decode())
        return self.failed


def test_types_of_the_quantiser_of_llama_cpp(tmp_path, monkeypatch):
    model, path = made("llama", BASE), tmp_path / "model.gguf"
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(HuggingFaceError, match=r"is not installed: pip install llama-cpp-python; q8_0, q4_0, .* need no more"):
        export_gguf(model, path, quantise="Q4_K_M")
    assert not list(tmp_path.iterdir())
    monkeypatch.setitem(sys.modules, "llama_cpp", Quantiser(failed=1))
    with pytest.raises(HuggingFaceError, match="quantiser refuses the model as Q4_K_M"):
        export_gguf(model, path, quantise="q4_k_m")
    assert not list(tmp_path.iterdir())
    quantiser = Quantiser()
    monkeypatch.setitem(sys.modules, "llama_cpp", quantiser)
    export_gguf(model, path, quantise="q4_k_m")
    assert [(name.endswith("-unrounded.gguf"), kind) for name, kind in quantiser.asked] == [(True, 15)]
    assert [each.name for each in tmp_path.iterdir()] == ["model.gguf"]
    assert af.load(path)[0].architecture.embedding.symbols == BASE["vocab_size"]


def test_a_number_that_16_bits_do_not_hold_is_refused(tmp_path):
    model = made("llama", BASE)
    with torch.no_grad():
        model.decoder.layers[0].feedforward.sublayer.up.weight[0, 0] = 1e6
    with pytest.raises(HuggingFaceError, match=r"blk\.0\.ffn_up\.weight has numbers up to 1e\+06, and fp16 ends at 65504"):
        export_gguf(model, tmp_path / "model.gguf", dtype=torch.float16)
    with torch.no_grad():
        model.decoder.layers[0].feedforward.sublayer.up.weight[0, 0] = torch.nan
    with pytest.raises(HuggingFaceError, match=r"blk\.0\.ffn_up\.weight"):
        export_gguf(model, tmp_path / "model.gguf")
    assert not list(tmp_path.iterdir())


def test_a_head_of_its_own_is_written_where_the_graph_needs_one(tmp_path):
    tied = TYPES["gpt_neox"][1]
    assert tied["tie_word_embeddings"]
    export_gguf(made("gpt_neox", tied), tmp_path / "model.gguf", length=64)
    tensors = {tensor.name: tensor.data for tensor in gguf.GGUFReader(tmp_path / "model.gguf").tensors}
    assert (tensors["output.weight"] == tensors["token_embd.weight"]).all()
    assert af.load(tmp_path / "model.gguf")[0].architecture.head.tied
