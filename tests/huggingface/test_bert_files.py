"""What old files of BERT hold: other names of norms, a pooler, a second copy of the tied matrix."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from anyformer import huggingface
from huggingface.cases.bert import CASES
from huggingface.cases.gpt import CASES as GPT
from huggingface.cases.roberta import CASES as ROBERTA
from huggingface.parity import given, pair

FILE = "model.safetensors"


def changed(tmp_path, change, **keys):
    """The first case's directory with its tensors and configuration changed; its case."""
    both = pair(CASES[0])
    directory = tmp_path / "old"
    shutil.copytree(both.directory, directory)
    save_file(change(load_file(directory / FILE)), directory / FILE)
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | keys))
    return both, directory


def old_names(tensors):
    swap = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    return {next((name.replace(new, old) for new, old in swap.items() if name.endswith(new)), name): value
            for name, value in tensors.items()}  # fmt: skip


def test_norms_called_gamma_and_beta_and_a_head_of_pretraining(tmp_path):
    def change(tensors):
        extra = {
            "bert.pooler.dense.weight": torch.ones(24, 24),
            "cls.seq_relationship.weight": torch.ones(2, 24),
            "cls.predictions.decoder.weight": tensors["bert.embeddings.word_embeddings.weight"].clone(),
            "bert.embeddings.position_ids": torch.arange(17)[None],
        }
        return old_names(tensors) | extra

    both, directory = changed(tmp_path, change, architectures=["BertForPreTraining"], position_embedding_type="absolute")
    again, _ = huggingface.load(directory)
    assert again.architecture == both.ours.architecture
    tokens = given(both.case)
    with torch.no_grad():
        assert torch.equal(again(tokens), both.ours(tokens))


def test_a_head_for_another_task_is_refused(tmp_path):
    _, directory = changed(tmp_path, dict, architectures=["BertForMultipleChoice"])
    with pytest.raises(huggingface.HuggingFaceError, match="ForMultipleChoice is not known here, only Model, ForMaskedLM"):
        huggingface.load(directory)


def test_relative_positions_inside_the_scores_are_refused(tmp_path):
    _, directory = changed(tmp_path, dict, position_embedding_type="relative_key")
    with pytest.raises(huggingface.HuggingFaceError, match="relative_key"):
        huggingface.load(directory)


def test_a_row_that_verify_draws_has_no_padding():
    """RoBERTa's classes count the positions of padding otherwise; of 15 tokens here one would be padding by chance."""
    case = next(each for each in ROBERTA if each.config.get("pad_token_id") == 3 and not each.config.get("is_decoder"))
    assert huggingface.verify(pair(case).directory, length=15).agrees


def test_verify_reads_a_layer_that_answers_with_a_list():
    assert huggingface.verify(pair(GPT[0]).directory, length=8).agrees
