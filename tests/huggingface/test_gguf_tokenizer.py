"""Tokenizers inside GGUF files: what transformers makes of them, on odd strings."""

from __future__ import annotations

import json

import gguf
import pytest
import tokenizers
import transformers
from tokenizers import models, pre_tokenizers, trainers

import anyformer as af
from anyformer.describe import Notice
from anyformer.huggingface.gguf import beside_of
from anyformer.loading import beside
from anyformer.text import Tokenizer
from anyformer.text.chat import chat_tokens
from huggingface.test_gguf import write
from text.against import differences
from text.odd import odd

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
TEXT = ["the cat sat on the mat", "don't say 12345 words", "Straße, naïve café", "日本語のテキスト", "a  b\n\n c", "🙂 ok"] * 8
NORMAL, UNKNOWN, CONTROL, USER, BYTE = (
    gguf.TokenType[name] for name in ("NORMAL", "UNKNOWN", "CONTROL", "USER_DEFINED", "BYTE")
)
SPECIALS = {"<|im_start|>": CONTROL, "<|im_end|>": CONTROL, "<think>": USER}


def byte_pairs(writer: gguf.GGUFWriter, pre: str) -> None:
    """A vocabulary of bytes, as of GPT-2, Llama 3 and Qwen."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=340, initial_alphabet=alphabet, show_progress=False))
    words = sorted(made.get_vocab(), key=made.get_vocab().get)
    merges = json.loads(made.to_str())["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([*words, *SPECIALS])
    writer.add_token_types([NORMAL] * len(words) + list(SPECIALS.values()))
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(len(words))
    writer.add_eos_token_id(len(words) + 1)
    writer.add_pad_token_id(len(words) + 1)


def pieces(writer: gguf.GGUFWriter) -> None:
    """A vocabulary of SentencePiece, with scores and without merges, as of Llama 2 and Gemma."""
    words = [
        "▁",
        *"thecasomdn'wry12345,ßïvéf",
        "▁t",
        "he",
        "▁the",
        "at",
        "▁c",
        "▁cat",
        "▁s",
        "▁sat",
        "on",
        "▁on",
        "▁▁",
        "▁m",
        "▁mat",
    ]
    tokens = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL}
    tokens |= {f"<0x{byte:02X}>": BYTE for byte in range(256)} | dict.fromkeys(words, NORMAL) | SPECIALS
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(list(tokens))
    writer.add_token_scores([-float(number) for number in range(len(tokens))])
    writer.add_token_types(list(tokens.values()))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


CASES = {
    "gpt2": ("gpt2", lambda writer: byte_pairs(writer, "gpt-2")),
    "qwen2": ("qwen2", lambda writer: byte_pairs(writer, "qwen2")),
    "llama3": ("llama", lambda writer: (byte_pairs(writer, "llama-bpe"), writer.add_add_bos_token(True))),
    "llama": ("llama", pieces),
    "llama with an end": ("llama", lambda writer: (pieces(writer), writer.add_add_eos_token(True))),
    "gemma2": ("gemma2", lambda writer: (pieces(writer), writer.add_add_space_prefix(False))),
    "phi3": ("phi3", pieces),
}


@pytest.mark.parametrize("name", CASES)
def test_a_tokenizer_inside_is_the_one_that_transformers_makes(name, tmp_path):
    """But that llama.cpp, whose files these are, puts a blank before every text, and transformers before one without it that is
    not behind a special token."""
    architecture, extra = CASES[name]
    blanks = (" ", "▁", "<think>") if name in ("llama", "llama with an end", "phi3") else ()
    path = write(tmp_path / "model.gguf", architecture, extra=extra)
    ours = Tokenizer.found(beside_of(path))
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path), gguf_file=path.name)
    # Of a letter that is several tokens, as many here, what is said behind a part of it is no difference of two texts.
    found = [
        each
        for each in differences(ours, theirs, [*TEXT[:6], *odd()[list(CASES).index(name) :: len(CASES)]])
        if not each.what.startswith("continued") and not each.text.startswith(blanks)
    ]
    assert not found
    assert ours.number(theirs.eos_token) == theirs.eos_token_id


def test_a_file_is_a_model_that_chats(tmp_path):
    def extra(writer: gguf.GGUFWriter) -> None:
        byte_pairs(writer, "qwen2")
        writer.add_chat_template(TEMPLATE)

    path = write(tmp_path / "model.gguf", "qwen2", extra=extra)
    with pytest.warns(Notice, match="the tokenizer has"):  # the table of a tiny model is smaller
        _, tokenizer = af.load(path)
    assert tokenizer is not None
    assert tokenizer.ends == (tokenizer.number("<|im_end|>"),)
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path), gguf_file=path.name)
    chat = [{"role": "user", "content": "the cat"}]
    wanted = theirs.apply_chat_template(chat, tokenize=True, return_dict=True)["input_ids"]
    assert chat_tokens(tokenizer, chat).tokens.tolist() == wanted
    assert beside(path).files == beside_of(path).files


def test_a_tokenizer_beside_the_file_comes_before_the_one_inside(tmp_path):
    path = write(tmp_path / "model.gguf", "llama", extra=pieces)
    own = tokenizers.Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="b"))
    own.save(str(tmp_path / "tokenizer.json"))
    assert Tokenizer.found(beside_of(path)).vocab_size == 2


def test_a_tokenizer_that_is_not_known_is_named(tmp_path):
    def extra(writer: gguf.GGUFWriter) -> None:
        pieces(writer)
        writer.kv_data[0].pop("tokenizer.ggml.model")
        writer.add_tokenizer_model("plamo2")

    path = write(tmp_path / "model.gguf", "llama", extra=extra)
    with pytest.warns(Notice, match=r"not known here \(plamo2, default\); put its tokenizer.json beside"):
        assert Tokenizer.found(beside_of(path)) is None
