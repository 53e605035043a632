"""Transcripts of files: of a published Whisper as transformers writes them, of runs here, and refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest
import soundfile
import torch
import transformers

from anyformer.catalogue import architecture
from anyformer.describe import UserError, change_all
from anyformer.evaluation import listener, measure, open_subject, task_of
from anyformer.huggingface import HuggingFaceError
from anyformer.parts import Head
from anyformer.training import default_run, train
from text.whisper_tokens import written

RATE, TEXTS = 16_000, ("one two", "two", "one")
WHISPER = architecture("whisper-tiny", tiny=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Three sounds of up to half a second, and records of them, ten of each."""
    place = tmp_path_factory.mktemp("sounds")
    for number in range(3):
        sound = np.random.default_rng(number).normal(0, 0.2, 8000 - 1500 * number)
        soundfile.write(place / f"{number}.wav", sound, RATE)
    rows = [{"sound": f"{number}.wav", "text": text, "label": text} for number, text in enumerate(TEXTS)]
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows * 10))
    return place


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A tiny Whisper with all its files, which hears a second each time."""
    place = tmp_path_factory.mktemp("whisper")
    written(place)
    torch.manual_seed(3)
    config = transformers.WhisperConfig(
        vocab_size=206, num_mel_bins=8, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, max_source_positions=50, max_target_positions=24,
        decoder_start_token_id=96, eos_token_id=95, bos_token_id=95, pad_token_id=95, init_std=0.6, dropout=0.0,
    )  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(config).eval()
    model.generation_config = transformers.GenerationConfig(
        decoder_start_token_id=96, eos_token_id=95, bos_token_id=95, pad_token_id=95, is_multilingual=True, max_length=24,
        lang_to_id={"<|en|>": 97, "<|zh|>": 98}, task_to_id={"transcribe": 100, "translate": 99}, no_timestamps_token_id=104,
        suppress_tokens=[60, 61, 62, *range(96, 206)], begin_suppress_tokens=[95, 94], max_initial_timestamp_index=50,
        prev_sot_token_id=102, return_timestamps=False, forced_decoder_ids=None,
    )  # fmt: skip
    model.save_pretrained(place)
    transformers.WhisperFeatureExtractor(feature_size=8, chunk_length=1).save_pretrained(place)
    return place


def test_a_published_whisper_writes_what_transformers_has_it_write(published, files):
    sounds = [files / f"{number}.wav" for number in range(3)]
    theirs = transformers.WhisperForConditionalGeneration.from_pretrained(published).eval()
    extractor = transformers.WhisperFeatureExtractor.from_pretrained(published)
    heard = extractor([soundfile.read(sound)[0] for sound in sounds], sampling_rate=RATE, return_tensors="pt").input_features
    with torch.no_grad():
        said = theirs.generate(heard, language="en", task="transcribe", max_new_tokens=18)
    words = transformers.WhisperTokenizer.from_pretrained(published)
    wanted = [text.strip() for text in words.batch_decode(said, skip_special_tokens=True)]
    hears = listener(open_subject(published))
    assert list(hears.transcripts(sounds, most=18)) == wanted
    assert list(hears.transcripts(sounds, most=18, batch=1)) == wanted
    assert all(wanted)


def test_a_published_whisper_is_evaluated_as_it_hears(published, files):
    task = task_of(open_subject(published), (str(files / "rows.jsonl"),), progress=False)
    assert (task.objective.padding, task.run.data.seconds, task.objective.features.bins) == ("silence", 1.0, 8)
    found = measure(task).evaluated
    assert found.metrics["word_error_rate"] > 0
    assert found.seen == 30


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"feature_extractor_type": "OtherExtractor"}, "feature_extractor_type = 'OtherExtractor': how it hears"),
        ({"dither": 0.1}, r"dither = 0.1: only 0.0 is computed here"),
        ({"hop_length": 0}, "hop: "),
        ({"chunk_length": "long"}, "chunk_length = 'long' should be a number of seconds"),
    ],
)
def test_what_is_not_computed_is_refused(published, tmp_path, change, words):
    for file in published.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    path = tmp_path / "preprocessor_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(HuggingFaceError, match=words):
        listener(open_subject(tmp_path))


def test_a_model_without_its_file_is_not_guessed_at(published, tmp_path):
    for file in published.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(UserError, match=r"has no preprocessor_config.json, which says how it hears"):
        listener(open_subject(tmp_path))


@pytest.fixture(scope="module", params=["speech_to_text", "ctc", "sound_classification"])
def trained(request, files, tmp_path_factory):
    heads = {"ctc": Head(outputs=258), "sound_classification": Head(outputs=3, pool="mean")}
    head = heads.get(request.param)
    model = WHISPER if head is None else WHISPER.but(decoder=None, decoder_embedding=None, head=head)
    run = change_all(
        default_run(model, (str(files / "rows.jsonl"),)),
        {"minutes": None, "steps": 2, "batch": 4, "data.validation_paths": [str(files / "rows.jsonl")], "plan.compile": "off",
         "data.paths": [str(copied(files, tmp_path_factory.mktemp("copy")))]},
    )  # fmt: skip
    place = tmp_path_factory.mktemp("run") / "run"
    train(run, place)
    return request.param, place


def copied(files, place):
    for file in files.iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    return place / "rows.jsonl"


def test_a_run_hears_files_as_it_heard_records(trained, files, call):
    kind, place = trained
    sounds = [files / f"{number}.wav" for number in range(3)]
    if kind == "sound_classification":
        with pytest.raises(UserError, match="is a model for sound_classification, and a model for speech_to_text or ctc"):
            listener(open_subject(place))
        return
    subject = open_subject(place)
    task = task_of(subject, (str(files / "rows.jsonl"),), progress=False)
    texts = list(listener(subject).transcripts(sounds, batch=2))
    examples = next(iter(task.feed.once()))
    held_out = task.objective.transcripts(
        subject.model, examples.tokens, examples.padding, subject.text, most=task.run.length
    )  # fmt: skip
    assert texts == held_out[:3]
    printed = call("generate", str(place), *(f"--audio={sound}" for sound in sounds), "--json").stdout
    assert [json.loads(line)["text"] for line in printed.splitlines()] == texts
    long = files.parent / "long.wav"
    soundfile.write(long, np.zeros(3 * RATE), RATE)
    with pytest.raises(UserError, match=r"long.wav: lasts 3 s, and .* hears 1.28 s at most"):
        list(listener(subject).transcripts([long]))


def test_a_prompt_has_no_transcript(trained, files, call):
    result = call("generate", str(trained[1]), "so", f"--audio={files / '0.wav'}")
    assert result.returncode == 2
    assert "leave a prompt out" in result.stderr
