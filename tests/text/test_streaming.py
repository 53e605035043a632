from __future__ import annotations

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models

from anyformer.data import BytePairs, Bytes, Characters
from anyformer.data.vocabulary import make_tokenizer
from anyformer.text import StreamDecoder, Tokenizer
from data.texts import prose
from effort import examples

TEXT = prose(5, 2000)
BYTE_LEVEL = {spec.kind: make_tokenizer(spec, lambda: [TEXT], lambda: [TEXT]) for spec in (BytePairs(vocab=400), Bytes())}
CHARACTERS = make_tokenizer(Characters(), lambda: [TEXT], lambda: [TEXT])


def _fallback() -> Tokenizer:
    """A sentence-piece-like BPE: a mark for spaces, bytes for characters it does not know."""
    words = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abc"]
    inner = tokenizers.Tokenizer(
        models.BPE(vocab={word: number for number, word in enumerate(words)}, merges=[], unk_token="<unk>", byte_fallback=True)
    )
    inner.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")]
    )
    inner.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", left=1)]
    )
    inner.add_special_tokens(["</s>"])
    return Tokenizer.parse(inner.to_str())


FALLBACK = _fallback()


def _streamed(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    decoder = StreamDecoder(tokenizer)
    return [*(decoder.push(token) for token in ids), decoder.finish()]


@pytest.mark.parametrize("kind", ["byte_pairs", "bytes"])
@examples(150)
@given(data=st.data())
def test_byte_level_streams_are_exact_for_any_tokens(kind: str, data: st.DataObject) -> None:
    tokenizer = BYTE_LEVEL[kind]
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=30))
    assert "".join(_streamed(tokenizer, ids)) == tokenizer.decode(ids)


@pytest.mark.parametrize("tokenizer", [*BYTE_LEVEL.values(), FALLBACK], ids=["byte_pairs", "bytes", "fallback"])
@examples(80)
@given(text=st.text(max_size=40))
def test_streams_of_text_give_the_text(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert "".join(_streamed(tokenizer, ids)) == tokenizer.decode(ids)


def test_characters_stream_one_by_one() -> None:
    assert _streamed(CHARACTERS, CHARACTERS.encode("the café 日")) == [*"the café 日", ""]


@pytest.mark.parametrize("tokenizer", [BYTE_LEVEL["bytes"], FALLBACK], ids=["bytes", "fallback"])
def test_an_unfinished_character_is_held_back(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("日é")
    parts = _streamed(tokenizer, ids[-5:])
    assert parts == ["", "", "日", "", "é", ""]
    assert _streamed(tokenizer, ids[-5:-1])[:4] == ["", "", "日", ""]
    assert _streamed(tokenizer, ids[-5:-1])[-1].startswith("\ufffd")


@pytest.mark.parametrize("tokenizer", [BYTE_LEVEL["bytes"], FALLBACK], ids=["bytes", "fallback"])
def test_a_finished_decoder_is_as_new(tokenizer: Tokenizer) -> None:
    decoder, ids = StreamDecoder(tokenizer), tokenizer.encode("é")
    decoder.push(ids[-2])
    assert decoder.finish() == "\ufffd"
    assert decoder.finish() == ""
    assert [decoder.push(token) for token in ids[-2:]] == ["", "é"]


def test_special_tokens_give_no_text() -> None:
    tokenizer = BYTE_LEVEL["byte_pairs"]
    assert tokenizer.end_of_text is not None
    assert "".join(_streamed(tokenizer, [*tokenizer.encode("fox"), tokenizer.end_of_text])) == "fox"


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("tokenizer", [*BYTE_LEVEL.values(), FALLBACK], ids=["byte_pairs", "bytes", "fallback"])
@examples(80)
@given(text=st.text("abc é日👍\n", max_size=24), data=st.data())
def test_a_continuation_is_what_the_whole_text_has_behind_its_prompt(
    tokenizer: Tokenizer, special: bool, text: str, data: st.DataObject
) -> None:
    ids = tokenizer.encode(text)
    if tokenizer.end_of_text is not None:
        ids.insert(data.draw(st.sampled_from([0, len(ids)])), tokenizer.end_of_text)
    place = data.draw(st.integers(0, len(ids)))
    before, whole = tokenizer.decode(ids[:place], special=special), tokenizer.decode(ids, special=special)
    if not whole.startswith(before):
        return  # the prompt ends within a character
    decoder = StreamDecoder(tokenizer, before=ids[:place], special=special)
    found = "".join([*(decoder.push(token) for token in ids[place:]), decoder.finish()])
    assert found == whole[len(before) :]


def test_a_letter_that_the_prompt_begins_is_shown_when_it_is_whole() -> None:
    tokenizer = BYTE_LEVEL["bytes"]
    first, second = tokenizer.encode("é")
    decoder = StreamDecoder(tokenizer, before=[*tokenizer.encode("caf"), first])
    assert decoder.push(second) == "é"
    decoder = StreamDecoder(tokenizer, before=[*tokenizer.encode("caf"), first])
    assert decoder.push(tokenizer.encode("x")[0]) == "x", "the prompt has shown what is broken"
