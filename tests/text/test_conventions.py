"""How a model is run, read from its files, against transformers' reading of them; and the files, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, GenerationConfig

from anyformer.text import DataError, Tokenizer
from anyformer.text.beside import Beside
from anyformer.text.chat.choosing import templates
from anyformer.text.conventions import GENERATION_KEYS, Conventions
from effort import examples
from huggingface.layouts import tokenizer
from text.test_frame import made

SETTINGS: dict[str, Any] = {
    "bos_token_id": 1, "eos_token_id": [3, 4], "pad_token_id": 0, "decoder_start_token_id": 2, "temperature": 0.6, "top_p": 0.9,
    "do_sample": True, "forced_bos_token_id": 5, "suppress_tokens": [1, 2], "max_length": 20,
}  # fmt: skip


def conventions(**tables: Any) -> Conventions:
    files = {f"{name}.json": json.dumps(table).encode() for name, table in tables.items()}
    return Conventions.of(Beside(files, "place"))


def test_the_keys_are_those_of_transformers() -> None:
    known = set(vars(GenerationConfig())) - {"transformers_version", "_from_model_config", "continuous_batching_config"}
    assert known == set(GENERATION_KEYS)


@pytest.mark.parametrize(
    "beside", [{}, {"generation_config": {"eos_token_id": 7}}, {"generation_config": {"temperature": 2.0}}]
)
@pytest.mark.parametrize("nested", [None, "decoder", "text_config"])
def test_generation_is_read_as_in_transformers(tmp_path: Path, beside: dict[str, Any], nested: str | None) -> None:
    config: dict[str, Any] = {"model_type": "llama", "hidden_size": 8}
    config |= SETTINGS if nested is None else {nested: SETTINGS, "bos_token_id": 9}
    for name, table in {"config": config, **beside}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(table))
    from_config = {"config_file_name": "config.json", "_from_model_config": True}
    theirs = GenerationConfig.from_pretrained(tmp_path, **({} if beside else from_config))
    found = Conventions.of(Beside.read(tmp_path))
    for key in GENERATION_KEYS:
        assert found.generation.get(key) == getattr(theirs, key), key
    assert found.begin == theirs.bos_token_id
    assert found.pad == theirs.pad_token_id
    assert list(found.ends) == ([] if (end := theirs.eos_token_id) is None else [end] if isinstance(end, int) else end)


def test_a_decoder_starts_with_its_own_token_or_the_first_of_a_text() -> None:
    assert conventions(config={"decoder_start_token_id": 0, "bos_token_id": 5}).start == 0
    assert conventions(config={"bos_token_id": 5}).start == 5
    assert conventions(config={"decoder_start_token_id": 0}, generation_config={"bos_token_id": 5}).start == 0
    assert conventions(config={"decoder_start_token_id": 0}, generation_config={"decoder_start_token_id": 3}).start == 3
    assert conventions(config={}).start is None


def test_labels_are_in_the_order_of_their_numbers() -> None:
    names = {str(number): f"class {number}" for number in (10, 1, 0, *range(2, 10))}
    assert conventions(config={"id2label": names}).labels == tuple(f"class {number}" for number in range(11))
    with pytest.raises(DataError, match=r"id2label numbers its classes \[0, 2\]"):
        conventions(config={"id2label": {"0": "a", "2": "b"}})


def test_the_context_is_the_models_own() -> None:
    assert conventions(config={"max_position_embeddings": 128}).context == 128
    assert conventions(config={"text_config": {"max_position_embeddings": 64}}).context == 64
    assert conventions(config={"n_positions": 1024}).context == 1024


@pytest.mark.parametrize("value", ["</s>", 1.5, True, [1, None]])
def test_what_is_no_token_is_refused_by_name(value: Any) -> None:
    with pytest.raises(DataError, match=r"place/generation_config\.json: eos_token_id = "):
        conventions(generation_config={"eos_token_id": value})


@examples(30)
@given(
    files=st.dictionaries(
        st.sampled_from(["README.md", "config.json", "merges.txt", "additional_chat_templates/tool.jinja", "LICENSE"]),
        st.binary(max_size=40),
    )
)
def test_files_are_written_as_they_were_read(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    first, second = (tmp_path_factory.mktemp("beside") for _ in range(2))
    Beside(files).write(first)
    for weights in ("model.safetensors", "pytorch_model.bin", "model.safetensors.index.json"):
        (first / weights).write_bytes(b"w")
    read = Beside.read(first)
    assert read.files == files
    read.keep(second)
    assert Beside.read(second).files == files
    assert Beside.read(second).digest == Beside(files).digest


def test_a_tokenizer_keeps_all_that_stands_beside_it(tmp_path: Path) -> None:
    files = {
        "tokenizer.json": made(None).to_str(pretty=True).encode(),
        "tokenizer_config.json": b'{"eos_token": "</s>",\r\n "chat_template": "config"}',
        "special_tokens_map.json": b'{"bos_token": "<s>"}',
        "chat_template.jinja": b"file",
        "generation_config.json": b'{"eos_token_id": [4, 2]}',
        "README.md": b"\xff\x00 as it is",
    }
    Beside(files).write(tmp_path / "model")
    tokenizer = Tokenizer.load(tmp_path / "model")
    assert templates(tokenizer) == {"default": "file"}
    assert tokenizer.named("bos_token") == "<s>"
    assert (tokenizer.end_of_text, tokenizer.ends) == (4, (4, 2))
    tokenizer.save(tmp_path / "saved")
    assert Beside.read(tmp_path / "saved").files == files


def test_one_file_brings_the_files_of_text_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text(made(None).to_str())
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": 2}')
    (tmp_path / "notes.txt").write_text("of somebody else")
    tokenizer = Tokenizer.load(tmp_path / "own.json")
    assert tokenizer.ends == (2,)
    assert set(tokenizer.beside.files) == {"tokenizer.json", "generation_config.json"}


def test_the_configured_end_comes_before_a_usual_name() -> None:
    """Where `</s>` is there for padding, and the model ends its texts with a token of its own."""
    config = {"eos_token": "<s>", "pad_token": "</s>"}
    ended = Tokenizer.parse(made(None).to_str(), config)
    assert (ended.end_of_text, ended.ends) == (3, (3,))


def test_tokens_that_stand_in_the_configuration_alone_are_added(tmp_path: Path) -> None:
    token = {"content": "<extra>", "lstrip": True, "rstrip": False, "normalized": False, "single_word": False, "special": True}
    table = {"tokenizer_class": "PreTrainedTokenizerFast", "added_tokens_decoder": {"10": token}}
    (tmp_path / "tokenizer.json").write_text(made(None).to_str())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(table))
    ours, theirs = Tokenizer.load(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    assert ours.special_tokens["<extra>"] == theirs.convert_tokens_to_ids("<extra>") == 10
    assert ours.vocab_size == len(theirs) == 11
    assert ours.decode([6, 10], special=True) == theirs.decode([6, 10])


@pytest.mark.parametrize("kind", ["GPT2Tokenizer", "PreTrainedTokenizerFast"])
@pytest.mark.parametrize("wanted", [False, True])
def test_a_prefix_space_is_the_configurations_where_its_class_builds_from_that(tmp_path: Path, kind: str, wanted: bool) -> None:
    (tmp_path / "tokenizer.json").write_text(tokenizer("$A").to_str())
    table = {"tokenizer_class": kind, "add_prefix_space": wanted, "eos_token": "</s>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(table))
    ours, theirs = Tokenizer.load(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    assert ours.encode("model") == theirs("model")["input_ids"]
