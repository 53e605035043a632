"""Tokenizers to GGUF's metadata and back: chosen by what they do to 300 strings, refused where nothing does the same."""

from __future__ import annotations

import json
import warnings
from functools import cache

import gguf
import pytest
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from anyformer.data.recipes import byte_level
from anyformer.describe import Notice
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.gguf.tokenizer import beside_of
from anyformer.huggingface.gguf.vocabulary import GgufVocabulary, TokenType, fitted, keys, stops, strings, vocabulary_of
from anyformer.huggingface.gguf.vocabulary.expressions import BY_NAME, PRE_TOKENIZERS
from anyformer.text import Tokenizer
from anyformer.text.beside import GENERATION, TOKENIZER, TOKENIZER_CONFIG, Beside
from anyformer.text.chat import templates
from anyformer.text.definition import library, text_of
from anyformer.text.lookup import byte_letters

TEXT = (
    "the cat sat on the mat",
    "don't say 12345 words",
    "Straße, naïve café",
    "日本語のテキスト",
    "a  b\n\n c",
    "GPTs 🙂 ok",
) * 8
SPECIALS = ["<unk>", "<s>", "</s>", "<|im_end|>", "<|later|>", "<|last|>"]
GPT4 = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DIGITS, EVERYTHING = GPT4.replace("{1,3}", ""), r"[\s\S]{1,7}"
CONFIG = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def framed(inner: tokenizers.Tokenizer) -> str:
    numbers = [(word, inner.token_to_id(word)) for word in ("<s>", "</s>")]
    inner.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> $B:1 </s>:1", numbers)
    return inner.to_str()


@cache
def byte_pairs(pattern: str, ignore_merges: bool = False) -> str:
    inner = tokenizers.Tokenizer(models.BPE())
    cut = pre_tokenizers.Split(Regex(pattern), "isolated")
    inner.pre_tokenizer = pre_tokenizers.Sequence([cut, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    given = [*SPECIALS, *(f"<|reserved {number}|>" for number in range(3))]
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=given, initial_alphabet=alphabet, show_progress=False)
    inner.train_from_iterator([*TEXT, *strings()], trainer)
    inner.add_tokens([AddedToken("<think>", normalized=False)])
    table = json.loads(inner.to_str())
    table["model"]["ignore_merges"] = ignore_merges
    table["model"]["vocab"]["Ġdog"] = table["added_tokens"][-1]["id"]  # no merge makes it
    table["added_tokens"][-1]["id"] += 1
    return json.dumps(table)


def sentence_pieces(prefix: bool) -> str:
    """Byte pairs with `▁` for blanks and tokens for bytes, each token from every pair that makes it."""
    pieces = ["▁", *"abcdehimnostw", "th", "he", "the", "▁t", "▁the", "at", "▁c", "▁cat", "▁▁", "on", "▁s", "▁sat"]
    words = {word: number for number, word in enumerate([*SPECIALS, *(f"<0x{byte:02X}>" for byte in range(256)), *pieces])}
    merges = [
        (word[:cut], word[cut:]) for word in pieces for cut in range(1, len(word)) if {word[:cut], word[cut:]} <= words.keys()
    ]
    inner = tokenizers.Tokenizer(models.BPE(words, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    first = [normalizers.Prepend("▁")] if prefix else []
    inner.normalizer = normalizers.Sequence([*first, normalizers.Replace(" ", "▁")])
    inner.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    inner.add_special_tokens(SPECIALS)
    return framed(inner)


def word_pieces(lowercase: bool) -> str:
    inner = tokenizers.Tokenizer(models.WordPiece(unk_token="<unk>"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    inner.train_from_iterator(TEXT, trainers.WordPieceTrainer(vocab_size=160, special_tokens=SPECIALS, show_progress=False))
    return framed(inner)


def unigrams(merged: bool) -> str:
    inner = tokenizers.Tokenizer(models.Unigram())
    blanks = [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")] if merged else []
    inner.normalizer = normalizers.Sequence(blanks)
    inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always" if merged else "never", split=False)
    inner.decoder = decoders.Metaspace(prepend_scheme="always" if merged else "never")
    trainer = trainers.UnigramTrainer(vocab_size=120, special_tokens=SPECIALS, unk_token="<unk>", show_progress=False)
    inner.train_from_iterator(TEXT, trainer)
    return framed(inner)


def characters() -> str:
    words = {letter: number for number, letter in enumerate(sorted(set("".join(TEXT))))}
    inner = tokenizers.Tokenizer(models.BPE(words, []))
    inner.decoder = decoders.Fuse()
    inner.add_special_tokens(SPECIALS)
    return inner.to_str()


def byte_letters_alone() -> str:
    inner = byte_level(models.BPE(byte_letters(), []))
    inner.add_special_tokens(SPECIALS)
    return inner.to_str()


KINDS = {
    "digits by three": (lambda: byte_pairs(GPT4), "gpt2", "smaug-bpe"),
    "words whole": (lambda: byte_pairs(GPT4, True), "gpt2", "llama-bpe"),
    "digits alone": (lambda: byte_pairs(DIGITS), "gpt2", "qwen2"),
    "a blank before": (lambda: sentence_pieces(True), "llama", "default"),
    "no blank before": (lambda: sentence_pieces(False), "llama", "default"),
    "small words": (lambda: word_pieces(True), "bert", "default"),
    "words": (lambda: word_pieces(False), "bert", "default"),
    "blanks merged": (lambda: unigrams(True), "t5", "default"),
    "blanks kept": (lambda: unigrams(False), "t5", "default"),
    "characters": (characters, "gpt2", "sarvam-moe"),
    "bytes": (byte_letters_alone, "gpt2", "gpt-2"),
}


def written(path, vocabulary: GgufVocabulary) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in vocabulary.keys().items():
        put = {bool: writer.add_bool, int: writer.add_uint32, str: writer.add_string}.get(type(value), writer.add_array)
        put(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.filterwarnings("ignore::anyformer.describe.Notice")
@pytest.mark.parametrize("kind", KINDS)
def test_a_tokenizer_is_chosen_a_way_by_what_it_does_and_read_back_the_same(kind, tmp_path):
    made, model, pre = KINDS[kind]
    tokenizer = Tokenizer.parse(made(), CONFIG | {"chat_template": "{{ messages }}"})
    vocabulary = vocabulary_of(tokenizer, tokenizer.vocab_size + 5)
    assert (vocabulary.model, vocabulary.pre) == (model, pre)
    assert vocabulary.tokens[-1] == f"[PAD{tokenizer.vocab_size + 4}]"
    assert vocabulary.types[-5:] == (TokenType.UNUSED,) * 5
    assert len(vocabulary.tokens) == len(vocabulary.types) == len(set(vocabulary.tokens)) == tokenizer.vocab_size + 5
    written(tmp_path / "vocabulary.gguf", vocabulary)
    back = Tokenizer.found(beside_of(tmp_path / "vocabulary.gguf"))
    assert back is not None
    assert back.vocab_size == tokenizer.vocab_size
    own, read = library(text_of(fitted(json.loads(tokenizer.completed))[0])), library(back.completed)
    for text in [*strings(), *(f"a {word}b{word}" for word in tokenizer.special_tokens)]:
        ids = own.encode(text).ids
        assert read.encode(text).ids == ids
        assert model in ("bert", "t5") or back.decode(ids, special=True) == tokenizer.decode(ids, special=True)
    assert tokenizer.ends == (tokenizer.number("</s>"),) == back.ends[:1]
    assert set(back.ends) == stops(vocabulary) == {tokenizer.number("</s>"), tokenizer.number("<|im_end|>")}
    assert templates(back) == templates(tokenizer)
    assert back.frame.single == tokenizer.frame.single


def test_there_are_300_strings_of_every_kind():
    assert len(strings()) == len(set(strings())) == 300
    letters = "".join(strings())
    assert {"\x00", "\t", "\r", "\x85", "\u3000", "\u0301", "漢", "й", "ß", "🙂", "½", "1234567890"[3]} <= set(letters)


def test_every_name_is_one_pre_tokenizer_and_no_two_split_the_strings_alike():
    assert len(BY_NAME) == sum(len(each.names) for each in PRE_TOKENIZERS)
    assert len({(each.patterns, each.whole_words) for each in PRE_TOKENIZERS if each.letters}) == sum(
        each.letters for each in PRE_TOKENIZERS
    )


@pytest.mark.parametrize("changed", [EVERYTHING, GPT4.replace("{1,3}", "{1,2}")])
def test_a_changed_expression_is_refused_with_the_first_string(changed):
    with pytest.raises(HuggingFaceError, match=r"of 3.. strings the nearest .gpt2, .* first differs at ['\"]"):
        vocabulary_of(Tokenizer.parse(byte_pairs(changed), CONFIG))


def test_what_llama_cpp_never_does_is_said(tmp_path):
    table = json.loads(byte_pairs(DIGITS))
    table["normalizer"] = {"type": "NFC"}
    table["added_tokens"][0]["lstrip"] = True
    with pytest.warns(Notice) as told:
        vocabulary_of(Tokenizer.parse(json.dumps(table), CONFIG))
    said = "\n".join(str(each.message) for each in told)
    assert "give it text in NFC" in said
    assert "'<unk>' take blanks" in said
    table["normalizer"] = {"type": "NFKC"}
    with pytest.raises(HuggingFaceError, match="no way to split text"):
        vocabulary_of(Tokenizer.parse(json.dumps(table), CONFIG))


def test_every_end_has_a_key_or_is_known_by_its_text():
    text = byte_pairs(DIGITS)
    numbers = tokenizers.Tokenizer.from_str(text).get_vocab()

    def ending(*names: str) -> GgufVocabulary:
        generation = {"eos_token_id": [numbers[name] for name in names]}
        files = {TOKENIZER: text, TOKENIZER_CONFIG: json.dumps(CONFIG), GENERATION: json.dumps(generation)}
        return vocabulary_of(Tokenizer.of(Beside({name: content.encode() for name, content in files.items()})))

    found = ending("</s>", "<|im_end|>", "<|later|>", "<|last|>")
    assert (found.ids["eos"], found.ids["eot"], found.ids["eom"]) == tuple(
        numbers[name] for name in ("</s>", "<|later|>", "<|last|>")
    )
    assert stops(found) == {numbers[name] for name in ("</s>", "<|im_end|>", "<|later|>", "<|last|>")}
    with pytest.raises(HuggingFaceError, match=r"'<\|reserved 0\|>' would not end a text"):
        ending("</s>", "<|later|>", "<|last|>", "<|reserved 0|>")


def test_a_tokenizer_without_an_end_and_a_table_too_small_are_refused():
    text = json.loads(byte_pairs(DIGITS).replace("</s>", "<e>").replace("<|im_end|>", "<i>"))
    with pytest.raises(HuggingFaceError, match=r"no token ends a text, and llama\.cpp would end one at token 11"):
        vocabulary_of(Tokenizer.parse(json.dumps(text), {"bos_token": "<s>"}))
    tokenizer = Tokenizer.parse(byte_pairs(DIGITS), CONFIG)
    with pytest.raises(HuggingFaceError, match=f"has {tokenizer.vocab_size} tokens and the model's table 7 rows"):
        keys(tokenizer, 7)
    assert keys(None, 7) == {"tokenizer.ggml.model": "no_vocab"}
    with pytest.raises(HuggingFaceError, match=r"kind 'WordLevel' is none of llama\.cpp's"):
        vocabulary_of(Tokenizer.parse(tokenizers.Tokenizer(models.WordLevel({"a": 0}, unk_token="a")).to_str()))


def test_a_damaged_vocabulary_is_left_out_with_a_reason(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        found = vocabulary_of(Tokenizer.parse(word_pieces(True), CONFIG))
    broken = GgufVocabulary(model="bert", tokens=found.tokens, types=found.types[:3])
    written(tmp_path / "model.gguf", broken)
    with pytest.warns(Notice, match="goes without its tokenizer, which cannot be read"):
        assert Tokenizer.found(beside_of(tmp_path / "model.gguf")) is None
