"""Which class transformers makes of a tokenizer's files, and what that class builds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
from transformers import AutoTokenizer
from transformers.models.auto.tokenization_auto import MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS, TOKENIZER_MAPPING_NAMES

from anyformer.text import Tokenizer
from anyformer.text.rebuilt import AS_STORED, TYPES_AS_STORED, TYPES_OF_ANOTHER
from text.kinds import FAST, MARKS, byte_fallback, byte_level

STORED = {*AS_STORED, "PythonBackend", "MistralCommonBackend"}


def loaded(place: Path, inner: tokenizers.Tokenizer, config: dict[str, Any], model: str) -> tuple[Tokenizer, Any]:
    (place / "tokenizer.json").write_text(inner.to_str())
    (place / "tokenizer_config.json").write_text(json.dumps(config))
    (place / "config.json").write_text(json.dumps({"model_type": model}))
    return Tokenizer.load(place), AutoTokenizer.from_pretrained(place)


def test_types_with_a_class_of_their_own_are_those_of_transformers() -> None:
    kinds = {kind: name for kind, name in TOKENIZER_MAPPING_NAMES.items() if name is not None}
    assert frozenset(kind for kind, name in kinds.items() if name in STORED) == TYPES_AS_STORED
    wrong = {kind for kind in MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS if kinds.get(kind) not in STORED}
    assert wrong == TYPES_OF_ANOTHER


@pytest.mark.parametrize("model", ["llama", "mistral", "phi3", "gpt2"])
@pytest.mark.parametrize("name", ["LlamaTokenizer", "LlamaTokenizerFast", "PreTrainedTokenizerFast"])
@pytest.mark.parametrize("flags", [{}, {"add_prefix_space": False}, {"legacy": True}])
def test_the_type_of_a_model_may_overrule_the_class_that_is_named(
    tmp_path: Path, model: str, name: str, flags: dict[str, bool]
) -> None:
    ours, theirs = loaded(tmp_path, byte_fallback(), {**FAST, "tokenizer_class": name, **flags}, model)
    for text in ("model reads", " model", "  two", "a <mask> b", "🙂\n"):
        assert ours.encode(text) == theirs(text, add_special_tokens=False, split_special_tokens=True)["input_ids"], text
        assert ours.decode(ours.encode(text)) == theirs.decode(ours.encode(text)), text


@pytest.mark.parametrize("model", ["gpt2", "llama", "granite"])
def test_expressions_that_split_words_are_those_of_the_class(tmp_path: Path, model: str) -> None:
    inner = byte_level()
    words = pre_tokenizers.Split(Regex(r"[a-z]+ |\s|."), behavior="isolated")
    inner.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    ours, theirs = loaded(tmp_path, inner, {**FAST, "tokenizer_class": "GPT2Tokenizer"}, model)
    for text in ("the model reads", "1234 and 56", "a\tb"):
        assert ours.encode(text) == theirs(text, add_special_tokens=False, split_special_tokens=True)["input_ids"], text


def test_a_usual_name_is_ordinary_beside_a_configuration_that_names_others(tmp_path: Path) -> None:
    """Gemma's `<s>` is a tag of HTML, and its `<mask>`, which nothing names, special."""
    words = {word: number for number, word in enumerate(["<unk>", "<bos>", "<eos>", "<pad>", "<mask>", "<s>", "</s>", "a"])}
    inner = tokenizers.Tokenizer(models.BPE(vocab=words, merges=[], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    inner.decoder = decoders.Sequence([*MARKS])
    inner.add_special_tokens(["<bos>", "<eos>", "<pad>", "<unk>"])
    inner.add_tokens([AddedToken(word, special=False, normalized=False) for word in ("<mask>", "<s>", "</s>")])
    names = {f"{name}_token": f"<{name}>" for name in ("bos", "eos", "pad", "unk")}
    ours, theirs = loaded(tmp_path, inner, {"tokenizer_class": "GemmaTokenizer", **names}, "gemma3_text")
    text = "a<s>a</s>a<mask>a"
    assert ours.encode(text) == theirs(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    numbers = theirs(text, add_special_tokens=False)["input_ids"]
    assert ours.decode(numbers) == theirs.decode(numbers, skip_special_tokens=True) == "a<s>a</s>aa"
