"""Every class that transformers has of a type of decoder: without a head, for texts, for tokens, for spans; there and back."""

from __future__ import annotations

import json
from functools import cache

import pytest
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers.models.auto import modeling_auto

from anyformer import huggingface
from anyformer.describe import InputError
from anyformer.generation.checks import check_model
from anyformer.huggingface.decoder_classes import BASE, DECODERS, TEXT
from anyformer.huggingface.words.encoder_heads import SPANS, TOKENS
from anyformer.text.beside import Beside
from huggingface.case import Case
from huggingface.cases import CASES
from huggingface.parity import gap, randomise

MAPPINGS = {
    TEXT: modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    TOKENS: modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    SPANS: modeling_auto.MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES,
    BASE: modeling_auto.MODEL_MAPPING_NAMES,
}
PAD, LABELS = 1, {0: "wrong", 1: "right", 2: "neither"}
OFTEN = ("llama", "qwen3", "gemma2", "gpt2", "opt", "bloom", "mixtral", "mamba")
"""Types that are tried in every run of the tests; `make test-slow` tries all."""


ELSE = {
    "xlnet": "its classes summarise a text by a layer of their own",
    "xlm": "its classes summarise a text by a layer of their own",
    "flaubert": "its classes summarise a text by a layer of their own",
}
"""Type whose classes beside the bare model are refused by name -> why."""


@cache
def firsts() -> dict[str, Case]:
    """The first case of each type."""
    return {case.model_type: case for case in reversed(CASES)}


def classes_of(model_type: str) -> dict[str, str]:
    """End of the name -> the class of transformers."""
    return {task: DECODERS[model_type].start + task for task in (BASE, *DECODERS[model_type].heads)}


def saved(model_type: str, task: str, directory):
    """A tiny random model of a class of transformers, saved."""
    labels = {} if task in (BASE, SPANS) else {"id2label": LABELS, "label2id": {name: i for i, name in LABELS.items()}}
    config = transformers.AutoConfig.for_model(model_type, **{**firsts()[model_type].config, "pad_token_id": PAD, **labels})
    torch.manual_seed(0)
    theirs = getattr(transformers, classes_of(model_type)[task])._from_config(config, attn_implementation="eager").eval()
    randomise(theirs)
    theirs.save_pretrained(directory)
    return theirs


def outputs(theirs, tokens, mask=None):
    more = {**firsts()[theirs.config.model_type].calls, **({} if mask is None else {"attention_mask": mask})}
    with torch.no_grad():
        out = theirs(input_ids=tokens, **more)
    if "start_logits" in out:
        return torch.stack([out.start_logits, out.end_logits], -1)
    return out.logits if "logits" in out else out.last_hidden_state


def check(model_type: str, task: str, place) -> None:
    theirs = saved(model_type, task, place / "theirs")
    ours, _ = huggingface.load(place / "theirs")
    tokens = torch.randint(5, 50, (2, 9), generator=torch.Generator().manual_seed(3))
    right = tokens.clone()
    right[0, 6:] = PAD
    with torch.no_grad():
        assert gap(ours(tokens), outputs(theirs, tokens)) < 2e-5
        padded, expected = ours(right, padding=right == PAD), outputs(theirs, right, (right != PAD).long())
        kept = right != PAD if expected.dim() == 3 else slice(None)
        assert gap(padded[kept], expected[kept]) < 2e-5, "padded"
    # An architecture does not tell spans from two classes of each token: the configuration beside the weights does.
    beside = Beside.read(place / "theirs") if task == SPANS else None
    family = huggingface.export(ours, place / "again", model_type=model_type, beside=beside)
    assert family.model_type == model_type
    config = json.loads((place / "again" / "config.json").read_text())
    assert config["architectures"] == [type(theirs).__name__]
    loaded, report = type(theirs).from_pretrained(place / "again", output_loading_info=True)
    assert not report["unexpected_keys"], report
    assert gap(outputs(loaded.eval(), tokens), outputs(theirs, tokens)) < 2e-5, "again"
    if model_type in OFTEN:
        assert names(place / "again") == names(place / "theirs")


def names(directory) -> set[str]:
    with safe_open(directory / "model.safetensors", "pt") as file:
        return set(file.keys())


@pytest.mark.parametrize("task", [BASE, TEXT, TOKENS, SPANS])
@pytest.mark.parametrize("model_type", OFTEN)
def test_a_class_of_transformers_there_and_back(model_type, task, tmp_path):
    if task in classes_of(model_type):
        check(model_type, task, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("model_type", [each for each in DECODERS if each not in OFTEN])
def test_every_class_of_every_type(model_type, tmp_path):
    for task in classes_of(model_type):
        check(model_type, task, tmp_path / task)


ENCODERS = ("bert", "roberta", "distilbert", "modernbert", "eurobert", "roformer", "deberta-v2")


@pytest.mark.parametrize("model_type", ENCODERS)
def test_spans_and_bare_encoders(model_type, tmp_path):
    for task in (SPANS, TOKENS, BASE):
        if model_type not in MAPPINGS[task]:
            continue
        config = transformers.AutoConfig.for_model(model_type, **firsts()[model_type].config)
        theirs = getattr(transformers, MAPPINGS[task][model_type])._from_config(config, attn_implementation="eager").eval()
        randomise(theirs)
        theirs.save_pretrained(tmp_path / task)
        tokens = torch.randint(5, 50, (2, 9), generator=torch.Generator().manual_seed(3))
        ours, _ = huggingface.load(tmp_path / task)
        with torch.no_grad():
            assert gap(ours(tokens), outputs(theirs, tokens)) < 2e-5
        huggingface.export(ours, tmp_path / f"{task} again", beside=Beside.read(tmp_path / task))
        again = type(theirs).from_pretrained(tmp_path / f"{task} again").eval()
        assert gap(outputs(again, tokens), outputs(theirs, tokens)) < 2e-5


def test_the_files_of_a_bare_model_may_have_the_prefix(tmp_path):
    theirs = saved("qwen3", BASE, tmp_path / "theirs")
    tensors = load_file(tmp_path / "theirs" / "model.safetensors")
    save_file({f"model.{name}": each for name, each in tensors.items()}, tmp_path / "theirs" / "model.safetensors")
    tokens = torch.randint(5, 50, (2, 9))
    with torch.no_grad():
        assert gap(huggingface.load(tmp_path / "theirs")[0](tokens), outputs(theirs, tokens)) < 2e-5


def test_a_language_model_whose_files_lack_the_prefix(tmp_path):
    """As Qwen3-Embedding is published: the class of a language model, tied, saved from the bare model."""
    theirs = saved("qwen3", BASE, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"architectures": ["Qwen3ForCausalLM"], "tie_word_embeddings": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    whole = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    ours, _ = huggingface.load(tmp_path)
    tokens = torch.randint(5, 50, (2, 9))
    with torch.no_grad():
        assert gap(ours(tokens), whole(input_ids=tokens).logits) < 2e-5
        assert gap(ours.features(tokens), outputs(theirs, tokens)) < 2e-5


def test_a_padding_token_that_ends_texts_is_passed_over_as_in_transformers(tmp_path):
    theirs = saved("llama", TEXT, tmp_path)
    ours, _ = huggingface.load(tmp_path)
    tokens = torch.tensor([[7, 8, PAD, PAD], [PAD, 9, PAD, 11], [PAD, PAD, PAD, PAD]])
    with torch.no_grad():
        assert gap(ours(tokens), outputs(theirs, tokens)) < 2e-5


@pytest.mark.parametrize(
    ("model_type", "architecture", "message"),
    [
        ("gpt_oss", "GptOssForQuestionAnswering", "only GptOssModel, GptOssForSequenceClassification, GptOssForToken"),
        ("t5", "T5ForSequenceClassification", "the head of this class is not read here"),
        ("bert", "BertForMultipleChoice", "ForMultipleChoice is not known here"),
        ("big_bird", "BigBirdForQuestionAnswering", "a network of its own before its head"),
        ("llama", "LlamaForQuestionAnswering", "3 labels, and the head of LlamaForQuestionAnswering has 2"),
    ],
)
def test_a_class_that_is_not_read_is_refused_by_name(model_type, architecture, message):
    labels = {"id2label": {"0": "a", "1": "b", "2": "c"}} if model_type == "llama" else {}
    keys = {**firsts()[model_type].config, **labels, "model_type": model_type, "architectures": [architecture]}
    with pytest.raises(huggingface.HuggingFaceError, match=message):
        huggingface.read_architecture(huggingface.Config(keys))


def test_a_classifier_does_not_generate(tmp_path):
    saved("llama", TEXT, tmp_path)
    with pytest.raises(InputError, match="gives 3 numbers for each text, and none for tokens to come"):
        check_model(huggingface.load(tmp_path)[0])


def test_the_classes_are_those_that_transformers_has():
    named = {
        model_type: {task for task, mapping in MAPPINGS.items() if model_type in mapping and task != BASE}
        for model_type in DECODERS.keys() - ELSE.keys()
    }
    own = {
        model_type: set(decoder.heads) for model_type, decoder in DECODERS.items() if decoder.heads or model_type not in ELSE
    }
    assert own == named
    for model_type, decoder in DECODERS.items():
        for task in (BASE, *decoder.heads):
            assert MAPPINGS[task][model_type] == decoder.start + task, (model_type, task)
