"""Special tokens by role: made with a tokenizer, found in a file, never made from text."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers
from transformers import AutoTokenizer

from anyformer.data import BytePairs, Bytes, Characters, TokenizerFile, TokenizerSpec, Unigram, WordPiece, WordTokenizer
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import DescriptionError
from anyformer.text import DataError, RoleName, Specials, Tokenizer
from anyformer.text.specials import END_OF_TEXT, ROLES, SENTINEL_NAMES
from data.texts import prose
from effort import examples

ALL = Specials(roles=get_args(RoleName), sentinels=5)
TEXT = prose(5, 2000) + " ".join(ALL.names) + " [UNK] <unk> <0x41> ▁"
LETTERS = " ".join("".join(random.Random(n % 900).choices("abcdefgh", k=n % 7 + 1)) for n in range(3600))
LOSSLESS = [BytePairs(vocab=500), Unigram(vocab=420), Bytes()]
SPECS = [
    *LOSSLESS,
    Characters(unknown="replace"),
    WordPiece(vocab=200),
    WordPiece(vocab=200, lowercase=False),
    WordTokenizer(vocab=40),
]
pieces = st.lists(st.sampled_from([*ALL.names, "[UNK]", "<unk>", "<0x41>", "▁", " ", "\n", "[", "##a"]) | st.text(max_size=4))


@cache
def made(spec: TokenizerSpec) -> Tokenizer:
    return make_tokenizer(spec, lambda: [TEXT], lambda: [TEXT], special=ALL)


@pytest.mark.parametrize("spec", SPECS, ids=str)
@examples(60)
@given(parts=pieces)
@example(parts=[" ".join(ALL.names)])
@example(parts=list(ALL.names))
def test_no_text_becomes_a_special_token(spec: TokenizerSpec, parts: list[str]) -> None:
    tokenizer = made(spec)
    numbers = set(tokenizer.special_tokens.values())
    assert len(numbers) == len(ALL.names) == 18
    assert numbers.isdisjoint(tokenizer.encode("".join(parts)))


@pytest.mark.parametrize("spec", LOSSLESS, ids=str)
@examples(60)
@given(parts=pieces)
@example(parts=["<0x41><0x0A> ▁▁ [UNK]<unk>  a\r\n\t b\u0000\ufeff 日本 x" + "y" * 300])
def test_what_spells_bytes_loses_nothing(spec: TokenizerSpec, parts: list[str]) -> None:
    text = "".join(parts)
    assert made(spec).decode(made(spec).encode(text)) == text


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_made_tokenizer_has_every_role(spec: TokenizerSpec, tmp_path: Path) -> None:
    made(spec).save(tmp_path)
    for tokenizer in (made(spec), make_tokenizer(TokenizerFile(path=str(tmp_path)), list, list, special=ALL)):
        for role in ALL.roles:
            assert tokenizer.special(role) == tokenizer.special_tokens[ROLES[role].own]
        assert tokenizer.sentinels(5) == tuple(tokenizer.special_tokens[f"<extra_id_{place}>"] for place in range(5))
        assert tokenizer.special_tokens[END_OF_TEXT] == tokenizer.end_of_text
        specials = list(tokenizer.special_tokens.values())
        fox = tokenizer.encode("the fox")
        assert tokenizer.decode([*specials, *fox, *specials]) == tokenizer.decode(fox)
        assert "[MASK]" in tokenizer.decode([*fox, tokenizer.special("mask")], special=True)
        with pytest.raises(DataError, match=r"no 6 sentinels, only 5: not all of <extra_id_0> to <extra_id_5>"):
            tokenizer.sentinels(6)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_transformers_reads_the_same_tokens_and_roles(spec: TokenizerSpec, tmp_path: Path) -> None:
    ours = made(spec)
    ours.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    text = prose(9, 50).replace(END_OF_TEXT, "")
    assert theirs.encode(text, add_special_tokens=False) == ours.encode(text)
    assert theirs.decode(ours.encode(text), skip_special_tokens=True) == ours.decode(ours.encode(text)).replace("[UNK] ", "")
    for role in ("cls", "sep", "mask", "pad"):
        assert getattr(theirs, f"{role}_token_id") == ours.special(role)
    assert (theirs.bos_token_id, theirs.eos_token_id) == (ours.special("start"), ours.end_of_text)


@pytest.mark.parametrize("spec", [spec.but(vocab=400) for spec in SPECS if "vocab" in type(spec).model_fields], ids=str)
def test_special_tokens_are_inside_the_vocabulary(spec: TokenizerSpec) -> None:
    tokenizer = make_tokenizer(spec, lambda: [LETTERS], list, special=ALL)
    assert tokenizer.vocab_size <= 400
    assert tokenizer.vocab_size >= 390 or spec.kind == "words", "the budget is used"
    with pytest.raises(DataError, match=r"tokenizer\.vocab = 400 has no room for the 491 special tokens .*<extra_id_0>"):
        make_tokenizer(spec, lambda: [LETTERS], list, special=Specials(sentinels=490))


@pytest.mark.parametrize("spec", [Unigram(vocab=600), WordPiece(vocab=300), WordTokenizer(vocab=100)], ids=str)
def test_the_same_text_gives_the_same_tokenizer(spec: TokenizerSpec) -> None:
    """In the library's hash tables the order is another in each table."""
    once, again, apart = (
        make_tokenizer(spec, lambda: [TEXT, LETTERS], list, in_process=apart, special=ALL) for apart in (False, False, True)
    )
    assert once.definition == again.definition == apart.definition


def test_rare_characters_get_no_token_and_common_ones_do() -> None:
    rare = "日本語中文字漢仮名"
    text = prose(2, 9000).replace("日本", "é") + rare
    for spec in (Unigram(vocab=500), WordPiece(vocab=300, lowercase=False)):
        tokenizer = make_tokenizer(spec, lambda: [text], list)
        words = {tokenizer.token(number) for number in range(tokenizer.vocab_size)}
        assert "é" in words
        assert words.isdisjoint(rare)


def test_word_pieces_are_those_of_bert() -> None:
    """The same vocabulary in transformers' own class."""
    from transformers import BertTokenizer

    for lowercase in (True, False):
        ours = made(WordPiece(vocab=200, lowercase=lowercase))
        vocab = {ours.token(number): number for number in range(ours.vocab_size)}
        theirs = BertTokenizer(vocab=vocab, do_lower_case=lowercase)
        text = "The QUICK brown-fox, naïve café 日本 x\ty  1234"
        assert theirs.encode(text, add_special_tokens=False) == ours.encode(text)


def _file(folder: Path, names: list[str], plain: tuple[str, ...] = (), **config: object) -> Path:
    inner = tokenizers.Tokenizer(models.BPE(vocab={"a": 0, "b": 1, "[HIDE]": 2}, merges=[], unk_token="a"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.decoder = decoders.Fuse()
    inner.add_special_tokens(names)
    inner.add_tokens([tokenizers.AddedToken(name, special=False, normalized=False) for name in plain])
    inner.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def test_roles_of_a_file_by_its_configuration_and_by_usual_names(tmp_path: Path) -> None:
    names = ["<s>", "</s>", "<mask>", "<|end|>", "[BLANK]"]
    tokenizer = Tokenizer.load(_file(tmp_path, names, ("<|user|>",), pad_token={"content": "[BLANK]"}, cls_token="[HIDE]"))
    number = tokenizer.special_tokens
    asked = {"sep": "</s>", "mask": "<mask>", "pad": "[BLANK]", "start": "<s>", "turn_end": "<|end|>", "user": "<|user|>"}
    for role, name in asked.items():
        assert tokenizer.special(role) == number[name], role
    assert tokenizer.special("cls") == 2, "named by the configuration, and only in the model's vocabulary"
    assert {*number.values()}.isdisjoint(tokenizer.encode("[HIDE] <|user|><mask> a</s>"))
    assert tokenizer.find("assistant") is None


def test_what_a_file_lacks_is_said_with_the_names_looked_for(tmp_path: Path) -> None:
    spec = TokenizerFile(path=str(_file(tmp_path, ["</s>", *map(SENTINEL_NAMES[0].format, range(3))])))
    message = (
        r"tokenizer\.json: this tokenizer has no special token for the role 'mask': its configuration names none under "
        r"'mask_token', and none of \[MASK\], <mask>, .* is among its special tokens \(</s>, <extra_id_0>, .*\); learn a"
    )
    with pytest.raises(DataError, match=message):
        make_tokenizer(spec, list, list, special=Specials(roles=("sep", "mask")))
    with pytest.raises(DataError, match=r"role 'user': none of <\|user\|> is among"):
        make_tokenizer(spec, list, list, special=Specials(roles=("user",)))
    assert len(make_tokenizer(spec, list, list, special=Specials(sentinels=3)).sentinels(3)) == 3


def test_a_role_is_named_once_and_is_a_known_one() -> None:
    with pytest.raises(DescriptionError, match=r"roles = \['cls', 'cls'\] names a role twice"):
        Specials(roles=("cls", "cls"))
    with pytest.raises(DescriptionError, match="roles"):
        Specials(roles=("clss",))
