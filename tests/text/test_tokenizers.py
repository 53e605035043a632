from __future__ import annotations

import itertools
import json
import random
from functools import cache
from pathlib import Path

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers

from anyformer.data import BytePairs, Bytes, Characters, TokenizerFile, TokenizerSpec, Unigram, WordPiece, WordTokenizer
from anyformer.data.recipes import alphabet, least
from anyformer.data.surveys import _repeated
from anyformer.data.vocabulary import make_tokenizer, sample
from anyformer.text import DataError, Tokenizer
from anyformer.text.lookup import CodeTable
from anyformer.text.specials import Specials
from data.texts import prose
from effort import examples

TEXT = prose(3, 3000)
LOSSLESS = [BytePairs(vocab=600), BytePairs(vocab=257), BytePairs(vocab=500, digits=1), Bytes(), Unigram(vocab=500)]
SPECS = [*LOSSLESS, Characters(unknown="replace"), WordPiece(vocab=300), WordTokenizer(vocab=20)]
END = "<|endoftext|>"


@cache
def _made(spec: TokenizerSpec) -> Tokenizer:
    return make_tokenizer(spec, lambda: [TEXT], lambda: [TEXT])


def _file(tmp_path: Path, inner: tokenizers.Tokenizer, **config: object) -> Path:
    inner.save(str(tmp_path / "tokenizer.json"))
    if config:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


def test_a_tokenizer_that_merges_nothing_is_a_table():
    """A table reads a text many times faster; that both give the same tokens is asked below."""
    made = {
        spec.kind: CodeTable.of(json.loads(_made(spec).definition)) for spec in (Bytes(), Characters(), BytePairs(vocab=600))
    }
    assert [kind for kind, table in made.items() if table is not None] == ["bytes", "characters"]


@pytest.mark.parametrize("spec", LOSSLESS, ids=str)
@examples(80)
@given(text=st.text(max_size=80))
@example(text=END)
@example(text=f"a{END}{END}\r\n\r\n  x\t\t 1234567 ''s é 👩‍👩‍👧 \u0000\ufeff\u2028")
@example(text=" leading and trailing  \n")
def test_every_string_survives(spec: TokenizerSpec, text: str) -> None:
    tokenizer = _made(spec)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.end_of_text not in ids
    assert all(0 <= number < tokenizer.vocab_size for number in ids)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_saving_changes_nothing(spec: TokenizerSpec, tmp_path: Path) -> None:
    tokenizer = _made(spec)
    tokenizer.save(tmp_path)
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        loaded = Tokenizer.load(path)
        assert loaded == tokenizer
        assert (loaded.vocab_size, loaded.end_of_text) == (tokenizer.vocab_size, tokenizer.end_of_text)
        assert loaded.encode(TEXT) == tokenizer.encode(TEXT)
    assert make_tokenizer(TokenizerFile(path=str(tmp_path)), list, list) == tokenizer


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_the_end_of_text_is_a_token_that_text_cannot_make(spec: TokenizerSpec) -> None:
    tokenizer = _made(spec)
    end = tokenizer.end_of_text
    assert end is not None
    assert tokenizer.decode([end]) == ""
    assert tokenizer.decode([end], special=True) == END
    assert tokenizer.special_tokens == {END: end}
    for texts in ([END], [f"user: {END} assistant", TEXT]):
        for ids in tokenizer.encode_batch(texts):
            assert end not in ids
    if spec.kind not in ("word_piece", "words"):
        assert tokenizer.decode(tokenizer.encode(END)) == END
    assert tokenizer._leaks is None, "the library refuses it by itself; cutting the word in two is for other models"


def test_sizes_and_numbers() -> None:
    assert _made(BytePairs(vocab=300)).vocab_size == 300
    assert _made(BytePairs(vocab=600)).vocab_size < 600, "little text gives fewer tokens"
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefghijklmnop", k=chance.randint(2, 7))) for _ in range(300)]
    varied = " ".join(chance.choices(words, k=4000))
    assert make_tokenizer(Unigram(vocab=320), lambda: [varied], lambda: [varied]).vocab_size == 320
    assert (_made(Bytes()).vocab_size, _made(Bytes()).end_of_text) == (257, 256)
    assert _made(Bytes()).encode("é\n") == [0xC3, 0xA9, 10]
    characters = _made(Characters())
    assert characters.vocab_size == len(set(TEXT)) + 1
    assert [characters.decode([number]) for number in range(len(set(TEXT)))] == sorted(set(TEXT))


def test_learnt_tokenizers_want_as_many_tokens_if_nothing_is_said() -> None:
    assert {kind().vocab for kind in (BytePairs, WordPiece, Unigram, WordTokenizer)} == {4096}


@pytest.mark.parametrize(("digits", "pieces"), [(1, 7), (3, 3)])
def test_digits_are_grouped(digits: int, pieces: int) -> None:
    tokenizer = make_tokenizer(BytePairs(vocab=700, digits=digits), lambda: ["1234567 " * 500], list)
    assert len(tokenizer.encode("1234567")) == pieces


def test_training_is_reproducible_and_batches_equal_single_texts() -> None:
    assert make_tokenizer(SPECS[0], lambda: [TEXT], list) == _made(SPECS[0])
    texts = [prose(number, 40) for number in range(9)]
    for spec in SPECS:
        tokenizer = _made(spec)
        batch = [ids.tolist() for ids in tokenizer.encode_batch(texts)]
        assert batch == [tokenizer.encode(text) for text in texts]
        assert batch == [ids.tolist() for ids in tokenizer.encode_batch(texts, threads=False)]


@pytest.mark.parametrize("spec", [Bytes(), Characters(), Characters(unknown="replace")], ids=str)
@examples(40)
@given(text=st.text(alphabet=sorted(set(TEXT)), max_size=60))
def test_the_table_equals_the_library(spec: TokenizerSpec, text: str) -> None:
    tokenizer = _made(spec)
    assert tokenizer.instant
    assert (
        tokenizer.encode(text) == tokenizers.Tokenizer.from_str(tokenizer.definition).encode(text.replace(END, "")).ids
        or END in text
    )


def test_an_unknown_character_is_named_or_replaced() -> None:
    with pytest.raises(DataError, match=r"has no 'Ω' \(U\+03A9\), '𝄞' \(U\+1D11E\), as in 'the fox Ω.*unknown = 'replace'"):
        _made(Characters()).encode("the fox Ω 𝄞")
    with pytest.raises(DataError, match=r"has no 'Ω' \(U\+03A9\), as in 'the fox Ω'; leave"):
        _made(Characters()).encode("the fox Ω")
    replaced = _made(Characters(unknown="replace"))
    assert replaced.decode(replaced.encode("the fox Ω 𝄞")) == "the fox \ufffd \ufffd"


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_half_a_surrogate_pair_is_refused(spec: TokenizerSpec) -> None:
    with pytest.raises(DataError, match="surrogate"):
        _made(spec).encode("a\ud800")


def test_a_file_neither_truncates_nor_pads_nor_adds(tmp_path: Path) -> None:
    inner = tokenizers.Tokenizer.from_str(_made(SPECS[0]).definition)
    inner.enable_truncation(4)
    inner.enable_padding(length=4)
    inner.post_processor = tokenizers.processors.TemplateProcessing(single=f"{END} $0", special_tokens=[(END, 0)])
    tokenizer = Tokenizer.load(_file(tmp_path, inner))
    assert tokenizer.encode(TEXT) == _made(SPECS[0]).encode(TEXT)


@pytest.mark.parametrize("special", [True, False])
def test_the_end_of_text_of_a_file(tmp_path: Path, special: bool) -> None:
    inner = tokenizers.Tokenizer(models.BPE(vocab={"a": 0, "b": 1}, merges=[], unk_token="a"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    assert Tokenizer.load(_file(tmp_path, inner)).end_of_text is None
    inner.add_tokens([tokenizers.AddedToken("<|stop|>", special=special, normalized=False)])
    assert Tokenizer.load(_file(tmp_path, inner)).end_of_text is None
    for eos in ("<|stop|>", {"content": "<|stop|>"}):
        tokenizer = Tokenizer.load(_file(tmp_path, inner, eos_token=eos))
        assert tokenizer.end_of_text == 2
        assert 2 not in tokenizer.encode("b<|stop|>")
    inner.add_special_tokens(["</s>"])
    assert Tokenizer.load(_file(tmp_path, inner, eos_token="<|stop|>")).end_of_text == 2  # and `</s>` may be padding
    # A token that the configuration names and nothing holds is none.
    assert Tokenizer.load(_file(tmp_path, inner, mask_token="<|absent|>")).find("mask") is None


def test_special_words_in_a_models_own_vocabulary_do_not_leak(tmp_path: Path) -> None:
    pieces = [("<unk>", 0.0), ("</s>", 0.0), *((letter, -3.0) for letter in "▁ab</s>")]
    inner = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=0))
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    inner.decoder = decoders.Metaspace()
    inner.add_special_tokens(["</s>"])
    inner.encode_special_tokens = True
    assert 1 in inner.encode("a</s>b").ids, "the library alone leaks; else this test shows nothing"
    tokenizer = Tokenizer.load(_file(tmp_path, inner))
    assert tokenizer.end_of_text == 1
    assert all(1 not in ids for ids in tokenizer.encode_batch(["a</s>b", "</s></s>", "<</s>/s>", "a</s>"]))


@pytest.mark.parametrize("words", [("</s>", "</s><s>", "<s>"), ("<s>", "</s><s>", "</s>")])
def test_special_words_inside_others_do_not_leak(tmp_path: Path, words: tuple[str, ...]) -> None:
    pieces = [("<unk>", 0.0), *((word, 0.0) for word in words), *((letter, -3.0) for letter in "ab</s>")]
    inner = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=0))
    inner.decoder = decoders.Fuse()
    inner.add_special_tokens(list(words))
    tokenizer = Tokenizer.load(_file(tmp_path, inner))
    for text in ("a</s><s>b", "</s><s></s><s>", "</s></s><s><s>", "<</s>s></s><<s>s>"):
        ids = tokenizer.encode(text)
        assert not {1, 2, 3} & set(ids), text
        assert tokenizer.decode(ids) == text


def test_text_that_is_normalised_to_a_special_word_does_not_leak(tmp_path: Path) -> None:
    pieces = [("<unk>", 0.0), ("</s>", 0.0), *((letter, -3.0) for letter in "▁ab</s>")]
    inner = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=0))
    inner.normalizer = normalizers.NFKC()
    inner.add_special_tokens(["<unk>", "</s>"])
    tokenizer = Tokenizer.load(_file(tmp_path, inner))
    for text in ("a＜／ｓ＞b", "＜/s＞＜/s＞", "x＜/s＞", "</s>＜/s＞"):
        assert 1 not in tokenizer.encode(text), text
    assert tokenizer.encode("axb") == [tokenizer.encode("a")[0], 0, tokenizer.encode("b")[0]]


def test_a_file_written_in_another_order_is_the_same_tokenizer() -> None:
    made = _made(BytePairs(vocab=300))
    table = json.loads(made.definition)
    turned = json.dumps(dict(reversed(table.items())) | {"model": dict(reversed(table["model"].items()))}, indent=1)
    assert turned != made.definition
    assert Tokenizer.parse(turned).digest == made.digest
    assert _made(BytePairs(vocab=257)).digest != made.digest


def test_files_that_are_no_tokenizer_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no tokenizer\.json"):
        Tokenizer.load(tmp_path)
    for content in ("{", "[]", "{}", '{"model": 5}'):
        (tmp_path / "tokenizer.json").write_text(content)
        with pytest.raises(DataError, match=r"tokenizer\.json: not a tokenizer"):
            Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes(b'{"model": "\xff"}')
    with pytest.raises(DataError, match=r"tokenizer\.json: cannot be read \('utf-8' codec"):
        Tokenizer.load(tmp_path)


@examples(50)
@given(count=st.integers(0, 300), share=st.floats(0.01, 1.5))
def test_a_sample_is_spread_evenly(count: int, share: float) -> None:
    taken = [int(text) for text in sample(map(str, range(count)), share)]
    assert abs(len(taken) - count * min(1.0, share)) <= 1
    gaps = [b - a for a, b in itertools.pairwise(taken)]
    assert not gaps or max(gaps) <= 1 / share + 1


@pytest.mark.parametrize("times", [0.25, 1.0, 2.5, 3.0])
def test_text_is_repeated_whole_and_then_in_part(times: float) -> None:
    class Given:
        def training(self):
            return map(str, range(8))

    texts = list(_repeated(Given(), times))
    whole = int(times) * 8
    assert texts[:whole] == [str(number) for number in range(8)] * int(times)
    assert len(texts) == 8 * times
    assert len(set(texts[whole:])) == len(texts) - whole


def test_an_alphabet_begins_with_the_most_frequent_letters() -> None:
    assert alphabet(WordPiece(vocab=300), Specials(), ["cabc", "bc "]) == "cba"


@pytest.mark.parametrize(("kind", "letters"), [(WordPiece, 50), (Unigram, 100)])
def test_letters_take_half_of_the_vocabulary_at_most(kind: type[WordPiece | Unigram], letters: int) -> None:
    """A letter takes two tokens of word pieces, one that begins a word and one that goes on, and one of Unigram."""
    spec = kind(vocab=least(kind(vocab=1000), Specials()) + 200)
    text = "".join(chr(0x4E00 + number) for number in range(300))
    assert alphabet(spec, Specials(), [text]) == text[:letters]
