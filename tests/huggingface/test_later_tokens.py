"""Predictions of later tokens in published files: read, computed, and written back under the same names, byte for byte."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

import anyformer as af
from anyformer import huggingface
from anyformer.huggingface import Config, HuggingFaceError
from huggingface.cases import CASES
from huggingface.parity import AUTO, given, pair

KEY, QWEN = "num_nextn_predict_layers", "mtp_num_hidden_layers"
BESIDE = ("embed_tokens", "enorm", "hnorm", "eh_proj", "shared_head.norm", "shared_head.head")
FIRST = ("mtp.fc", "mtp.norm", "mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden")
PUBLISHED = {
    "deepseek_v3": (KEY, 2, [f"model.layers.{i}.{name}" for i in (3, 4) for name in (*BESIDE, "self_attn.q_b_proj")]),
    "glm4_moe_lite": (KEY, 1, [f"model.layers.3.{name}" for name in (*BESIDE, "mlp.experts.5.up_proj")]),
    "glm4_moe": (KEY, 1, [f"model.layers.3.{name}" for name in (*BESIDE, "mlp.shared_experts.up_proj")]),
    "qwen3_next": (KEY, 1, [*FIRST, "mtp.layers.0.self_attn.q_proj", "mtp.layers.0.mlp.shared_expert_gate"]),
    "qwen3_5_moe_text": (QWEN, 1, [*FIRST, "mtp.layers.0.self_attn.q_norm", "mtp.layers.0.mlp.gate"]),
    "qwen3_5_text": (QWEN, 1, [*FIRST, "mtp.layers.0.self_attn.o_proj", "mtp.layers.0.mlp.down_proj"]),
    "ernie4_5_moe": (
        KEY, 1,
        ["model.mtp_emb_norm.0", "model.mtp_hidden_norm.0", "model.mtp_linear_proj.0", "model.mtp_block.0.mlp.gate_proj"],
    ),
}  # fmt: skip
"""Model type -> the key, its value, and some of the tensors in published indices beyond those of the main model."""


def case_of(model_type):
    return next(case for case in CASES if case.model_type == model_type)


def published(model_type, directory):
    """A directory of the published layout: a main model as transformers saves it, and random modules beside it."""
    key, count, _ = PUBLISHED[model_type]
    saved = pair(case_of(model_type)).directory
    config = json.loads((saved / "config.json").read_text()) | {key: count}
    architecture, family = huggingface.read_architecture(Config(config))
    model = af.build(architecture, seed=3)
    huggingface.export(model, directory / "modules", model_type=family.model_type)
    tensors = load_file(directory / "modules" / "model.safetensors")
    main = load_file(saved / "model.safetensors")
    later = {name: tensor for name, tensor in tensors.items() if name not in main}
    tables = {name: main[table] for name in later for end, table in COPIED.items() if name.endswith(end) and table in main}
    (directory / "files").mkdir()
    save_file({**main, **later, **{name: x.clone() for name, x in tables.items()}}, directory / "files" / "model.safetensors")
    (directory / "files" / "config.json").write_text(json.dumps(config))
    return directory / "files"


COPIED = {".embed_tokens.weight": "model.embed_tokens.weight", ".shared_head.head.weight": "lm_head.weight"}


@pytest.mark.parametrize("model_type", PUBLISHED)
def test_files_come_back_with_the_same_names_and_bytes(model_type, tmp_path):
    key, count, names = PUBLISHED[model_type]
    files = published(model_type, tmp_path)
    model, _ = huggingface.load(files)
    assert model.architecture.mtp.depth == count
    huggingface.export(model, tmp_path / "again", model_type=model_type)
    before, after = (load_file(place / "model.safetensors") for place in (files, tmp_path / "again"))
    assert before.keys() == after.keys()
    assert {f"{name}.weight" for name in names} <= after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert json.loads((tmp_path / "again" / "config.json").read_text())[key] == count
    assert len(model.predictions(given(case_of(model_type)))) == 1 + count


@pytest.mark.parametrize("model_type", ["deepseek_v3", "qwen3_next", "ernie4_5_moe"])
def test_the_main_model_is_that_of_transformers(model_type, tmp_path):
    files, case = published(model_type, tmp_path), case_of(model_type)
    theirs = AUTO["CausalLM"].from_pretrained(files, attn_implementation="eager").eval()
    with torch.no_grad():
        torch.testing.assert_close(huggingface.load(files)[0](given(case)), theirs(given(case)).logits, rtol=1e-4, atol=5e-5)


def test_files_that_transformers_saved_have_no_modules_whatever_the_key_says(tmp_path):
    files = published("deepseek_v3", tmp_path)
    main = {name: x for name, x in load_file(files / "model.safetensors").items() if not name.startswith("model.layers.3.")}
    save_file({n: x for n, x in main.items() if not n.startswith("model.layers.4.")}, files / "model.safetensors")
    assert huggingface.load(files)[0].architecture.mtp is None
    save_file(main, files / "model.safetensors")
    with pytest.raises(HuggingFaceError, match=r"tensors are missing, the first model\.layers\.3\."):
        huggingface.load(files)


def test_copies_of_the_embedding_may_be_left_out_but_not_differ(tmp_path):
    files = published("glm4_moe", tmp_path)
    tensors, copy = load_file(files / "model.safetensors"), "model.layers.3.embed_tokens.weight"
    save_file({name: x for name, x in tensors.items() if name != copy}, files / "model.safetensors")
    assert huggingface.load(files)[0].architecture.mtp is not None
    save_file({**tensors, copy: tensors[copy] + 1}, files / "model.safetensors")
    with pytest.raises(HuggingFaceError, match=r"embed_tokens\.weight should be a copy of model\.embed_tokens\.weight"):
        huggingface.load(files)


def test_published_files_of_qwen3_next_have_a_module_of_which_no_key_tells(tmp_path):
    files = published("qwen3_next", tmp_path)
    config = json.loads((files / "config.json").read_text())
    (files / "config.json").write_text(json.dumps({name: value for name, value in config.items() if name != KEY}))
    assert huggingface.load(files)[0].architecture.mtp.depth == 1


def test_more_modules_than_names_are_refused():
    config = case_of("qwen3_5_text").config | {"model_type": "qwen3_5_text", QWEN: 2}
    with pytest.raises(HuggingFaceError, match="mtp_num_hidden_layers = 2, and files of qwen3_5_text have names for 1 only"):
        huggingface.read_architecture(Config(config))
