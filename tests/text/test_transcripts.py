"""What stands around a transcript: with Whisper's tokens as transformers has it, else as around a target."""

from __future__ import annotations

import pytest

from anyformer.data import Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.text import DataError, Specials, Tokenizer
from anyformer.text.transcripts import TranscriptFrame
from text.whisper_tokens import written


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whisper")
    written(folder)
    return folder


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("task", ["transcribe", "translate"])
def test_prompts_are_those_of_transformers(place, tmp_path, language, task):
    theirs, ours = written(tmp_path), Tokenizer.load(place)
    theirs.set_prefix_tokens(language=language, task=task)
    frame = TranscriptFrame.of(ours, language, task)
    for text in ("so it goes", ""):
        framed = frame.framed(ours.encode(text), 1.0)
        assert [frame.start, *framed] == theirs(text).input_ids
        assert len(framed) == frame.count + len(ours.encode(text))
    theirs.set_prefix_tokens(language=language, task=task, predict_timestamps=True)
    timed = TranscriptFrame.of(ours, language, task, timestamps=True)
    framed = timed.framed(ours.encode("go"), 1.2345)
    assert [timed.start, *framed] == theirs("<|0.00|>go<|1.24|>").input_ids
    assert len(framed) == timed.count + len(ours.encode("go"))
    assert timed.opening == tuple(theirs("").input_ids[:-1])


def test_a_model_of_english_has_a_short_prompt(tmp_path):
    written(tmp_path)
    (tmp_path / "generation_config.json").write_text('{"is_multilingual": false}')
    ours = Tokenizer.load(tmp_path)
    frame = TranscriptFrame.of(ours)
    assert ours.decode(frame.opening, special=True) == "<|startoftranscript|><|notimestamps|>"
    with pytest.raises(DataError, match=r"language = 'zh'.*knows English alone"):
        TranscriptFrame.of(ours, "zh")


def test_the_language_is_that_of_its_files(tmp_path):
    written(tmp_path)
    (tmp_path / "generation_config.json").write_text('{"language": "zh"}')
    assert Tokenizer.load(tmp_path).special_tokens["<|zh|>"] in TranscriptFrame.of(Tokenizer.load(tmp_path)).before


def test_others_end_and_have_no_prompt(place):
    plain = make_tokenizer(Bytes(), tuple, tuple, Specials())
    frame = TranscriptFrame.of(plain)
    assert (frame.opening, frame.behind, frame.count) == ((plain.end,), (plain.end,), 1)
    assert frame.framed(plain.encode("a"), 1.0) == [97, plain.end]
    for asked, name in (
        ({"language": "en"}, "language"),
        ({"task": "translate"}, "task"),
        ({"timestamps": True}, "timestamps"),
    ):
        with pytest.raises(DataError, match=f"{name}: this tokenizer has no <.startoftranscript"):
            TranscriptFrame.of(plain, **asked)
    with pytest.raises(DataError, match=r"language = 'fr': no language of this tokenizer.*write it as 'en'"):
        TranscriptFrame.of(Tokenizer.load(place), "fr")
