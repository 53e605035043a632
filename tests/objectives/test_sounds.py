"""Sounds as they are heard: padding that is hidden or silence, sizes, transcripts and their errors, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

from anyformer.catalogue import architecture
from anyformer.data import IGNORED, Characters, TokenizerFile
from anyformer.describe import DescriptionError, UserError, change_all
from anyformer.generation.transcribing import best_path
from anyformer.huggingface import load as load_published
from anyformer.model import Architecture
from anyformer.model.transformer import build
from anyformer.objectives import CTCObjective, SoundClassificationObjective, SpeechToTextObjective, default_objective, loss_of
from anyformer.objectives.choice import suited
from anyformer.objectives.ctc import needed_positions
from anyformer.objectives.spec_augment import SpecAugment
from anyformer.parts import Head
from anyformer.parts.call.reports import Auxiliary
from anyformer.sound import LogMel
from anyformer.text import DataError
from anyformer.text.edits import EditCounts
from anyformer.training import default_run
from objectives.heads import made
from text.whisper_tokens import written

FEATURES = LogMel(rate=1000, window=32, hop=8, bins=6, high=500.0)
WHISPER = architecture("whisper-tiny", tiny=True)
SECONDS = 0.2


def hearing(head: Head) -> Architecture:
    return WHISPER.but(decoder=None, decoder_embedding=None, head=head)


def samples(number: int) -> list[float]:
    draws = np.random.default_rng(number)
    return draws.normal(0, 0.3, 200 - 37 * (number % 4)).round(3).tolist()


ROWS = [
    {"sound": {"array": samples(number), "sampling_rate": 1000}, "text": text, "label": text[:1]}
    for number, text in enumerate(("one two", "two", "aab", "one one two"))
]
SPEECH = {"kind": "speech", "rate": 1000, "seconds": SECONDS}


def heard(objective: Any, data: dict[str, Any], folder: Any, length: int, model: Architecture = WHISPER) -> Any:
    return made(objective, data, ROWS, folder, length, model=model)


@pytest.fixture(scope="module")
def speech(tmp_path_factory):
    return heard(SpeechToTextObjective(features=FEATURES), SPEECH, tmp_path_factory.mktemp("speech"), 16)


def test_a_padded_sound_has_the_logits_it_has_alone(speech):
    examples, model = speech.held_out[0], build(WHISPER, seed=1).eval()
    assert examples.tokens.shape == (4, 25, 6)
    assert examples.padding.sum(1).tolist() == [25 - len(samples(number)) // 8 for number in range(4)]
    logits = SpeechToTextObjective().logits(model, examples, None, Auxiliary())
    for number, row in enumerate(ROWS):
        alone = FEATURES.spectrum(torch.tensor([row["sound"]["array"]])).mT
        target = examples.targets[number][examples.targets[number] != IGNORED]
        assert speech.setting.tokenizer.decode(target.tolist()) == row["text"]
        entered = torch.cat([target[-1:], target[:-1]])[None]
        torch.testing.assert_close(logits[number, : len(target)], model(alone, entered)[0], atol=1e-5, rtol=1e-5)


def test_silence_is_heard(tmp_path):
    objective = SpeechToTextObjective(features=FEATURES, padding="silence")
    examples = heard(objective, SPEECH, tmp_path, 16).held_out[0]
    assert examples.padding is None
    for number, row in enumerate(ROWS):
        sound = torch.zeros(1, 200)
        sound[0, : len(row["sound"]["array"])] = torch.tensor(row["sound"]["array"])
        torch.testing.assert_close(examples.tokens[number], FEATURES.spectrum(sound)[0].mT)


def test_training_hides_what_the_seed_says_and_evaluation_nothing(tmp_path, speech):
    """Of the frames of a sound alone; the same sample has the same masks in any batch."""
    objective = SpeechToTextObjective(features=FEATURES, augment=SpecAugment(bins=3, frames=6))
    ready = heard(objective, SPEECH, tmp_path, 16)
    plain, feed = speech.held_out[0], objective.feed(ready.data, ready.corpus, ready.setting, 4)
    assert torch.equal(ready.held_out[0].tokens, plain.tokens)
    hidden = feed.at(0)
    whole = SpeechToTextObjective(features=FEATURES).feed(ready.data, ready.corpus, ready.setting, 4).at(0)
    changed = hidden.tokens != whole.tokens
    assert changed.any()
    assert not changed[whole.padding].any()
    again = objective.feed(ready.data, ready.corpus, ready.setting, 2)
    assert torch.equal(torch.cat([again.at(0).tokens, again.at(1).tokens]), hidden.tokens)


def greedy(model: Any, source: Tensor, padding: Tensor, start: int, end: int, most: int) -> list[int]:
    """The likeliest tokens, all read again for each."""
    said: list[int] = []
    while len(said) < most:
        logits = model(source, torch.tensor([[start, *said]]), padding=padding)
        token = int(logits[0, -1].argmax())
        if token == end:
            break
        said.append(token)
    return said


def test_error_rates_are_those_of_greedy_transcripts(speech):
    """Of a model that was trained a little on the four sounds, beside one decoded without a state."""
    objective, examples, tokenizer = SpeechToTextObjective(features=FEATURES), speech.held_out[0], speech.setting.tokenizer
    model = build(WHISPER, seed=3)
    optimiser = torch.optim.Adam(model.parameters(), 2e-2)
    for _ in range(40):
        optimiser.zero_grad()
        loss_of(objective, model, examples).backward()
        optimiser.step()
    model.eval()
    total = EditCounts()
    with torch.no_grad():
        sums = objective.traits.answers(model, examples, tokenizer)
        for number, row in enumerate(ROWS):
            each = slice(number, number + 1)
            said = greedy(model, examples.tokens[each], examples.padding[each], tokenizer.end, tokenizer.end, 16)
            total += EditCounts.of(tokenizer.decode(said), row["text"])
    rates = objective.metrics({**sums, "correct": torch.tensor(1), "targets": torch.tensor(2)}, {})
    assert rates == {
        "accuracy": 0.5,
        "word_error_rate": pytest.approx(total.word_error_rate),
        "character_error_rate": pytest.approx(total.character_error_rate),
    }
    assert 0 < total.character_error_rate < 1


def test_the_loss_is_that_of_transformers(tmp_path):
    """Whisper's own class, labels and tokenizer; it hears all frames, silence included."""
    theirs_of_text = written(tmp_path)
    theirs_of_text.set_prefix_tokens(language="en", task="transcribe")
    torch.manual_seed(0)
    config = transformers.WhisperConfig(
        vocab_size=206, num_mel_bins=6, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, max_source_positions=13, max_target_positions=24,
        decoder_start_token_id=96, eos_token_id=95, bos_token_id=95, pad_token_id=95, init_std=0.3, dropout=0.0,
    )  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(config).eval()
    model.save_pretrained(tmp_path)
    objective = SpeechToTextObjective(features=FEATURES.but(hop=8), padding="silence")
    data = SPEECH | {"seconds": 0.208, "tokenizer": TokenizerFile(path=str(tmp_path)).plain()}
    ready = heard(objective, data, tmp_path, 20)
    examples = ready.held_out[0]
    ours, _ = load_published(tmp_path)
    labels = torch.full((4, 20), IGNORED)
    for number, row in enumerate(ROWS):
        ids = theirs_of_text(row["text"]).input_ids[1:]
        labels[number, : len(ids)] = torch.tensor(ids)
    assert torch.equal(labels, examples.targets)
    with torch.no_grad():
        found = loss_of(objective, ours.eval(), examples) / examples.count
        torch.testing.assert_close(found, model(examples.tokens.mT, labels=labels).loss, atol=1e-5, rtol=0)


def test_sounds_are_as_long_as_the_position_table(tmp_path):
    """1,500 positions of 20 ms are 30 s; 64 are 1.28 s; without a table a kind's own limit holds."""
    for name, tiny, seconds, bands in (
        ("whisper-tiny", False, 30.0, 80), ("whisper-large-v3", False, 30.0, 128), ("whisper-base", True, 1.28, 6)
    ):  # fmt: skip
        run = default_run(architecture(name, tiny=tiny), ("x",))
        assert (run.data.seconds, run.objective.features.bins, run.objective.kind) == (seconds, bands, "speech_to_text")
        assert run.piece.source == run.architecture.encoder.max_length
    open_ended = change_all(WHISPER, {"encoder.position": None})
    assert default_run(open_ended, ("x",)).data.seconds == 30.0
    run = default_run(WHISPER, ("x",))
    with pytest.raises(DescriptionError, match=r"data.seconds = 2: such a sound has 100 positions.*set data.seconds to 1.28"):
        change_all(run, {"data.seconds": 2.0})
    with pytest.raises(DescriptionError, match=r"data.rate = 8000, and objective.features.rate = 16000"):
        change_all(run, {"data.rate": 8000})
    with pytest.raises(DescriptionError, match=r"gives 80 numbers per frame, and the embedding reads 6"):
        change_all(run, {"objective.features.bins": 80})


def test_what_hears_has_its_objective():
    pairs = {"ctc": Head(outputs=40), "sound_classification": Head(outputs=4, pool="mean")}
    for kind, head in pairs.items():
        model = hearing(head)
        run = default_run(model, ("x",))
        assert default_objective(model).kind == run.objective.kind == kind
        assert run.length == 64
        with pytest.raises(DescriptionError, match=r"length = 60, and the longest sound .* has 64 positions"):
            change_all(run, {"length": 60})
    for objective, model, words in (
        (CTCObjective(), hearing(Head(outputs=4, pool="mean")), "needs logits of the symbols and of the blank"),
        (CTCObjective(), WHISPER, "gives the model a sound, and this model reads audio_frames beside a target"),
        (SoundClassificationObjective(), hearing(Head(outputs=4)), "needs one output per row"),
        (
            SpeechToTextObjective(),
            architecture("t5-small"),
            "a sound and a target, and this model reads tokens beside a target",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            objective.check(model)


def test_a_spectrum_is_seen_as_a_picture(tmp_path):
    """Patches of 4 x 4 of 6 bands and 25 frames: 2 x 7, and a class token; what is added is the least number."""
    model = change_all(
        architecture("vit-base-16", tiny=True),
        {"embedding.channels": 1, "embedding.size": 4, "encoder.position.length": 15, "head.outputs": 3},
    )
    objective = suited(SoundClassificationObjective, model, {"features": FEATURES.plain()})
    ready = heard(objective, {**SPEECH, "kind": "sounds"}, tmp_path, 15, model)
    examples = ready.held_out[0]
    assert ready.corpus.names["label"] == ("a", "o", "t")
    assert examples.targets.tolist() == [1, 2, 0, 1]
    assert examples.tokens.shape == (4, 1, 8, 28)
    sound = torch.zeros(1, 200)
    sound[0, : len(ROWS[1]["sound"]["array"])] = torch.tensor(ROWS[1]["sound"]["array"])
    torch.testing.assert_close(examples.tokens[1, 0, :6, :25], FEATURES.spectrum(sound)[0])
    assert (examples.tokens[1, 0, 6:] == examples.tokens[1].min()).all()
    assert objective.logits(build(model, seed=0), examples, None, Auxiliary()).shape == (4, 3)
    with pytest.raises(ValueError, match="a picture of a sound has no padding"):
        objective.but(padding="masked").check_data(ready.data, model, 15)
    with pytest.raises(ValueError, match=r"pictures of 3: set architecture.embedding.channels = 1"):
        objective.check_data(ready.data, change_all(model, {"embedding.channels": 3}), 15)


def ctc(folder: Any, text: str = "bytes", outputs: int = 258, features: LogMel = FEATURES) -> Any:
    model = hearing(Head(outputs=outputs))
    positions = -(-features.frames(200) // 2)
    data = SPEECH | {"tokenizer": Characters().plain() if text == "characters" else {"kind": text}}
    return heard(CTCObjective(features=features), data, folder, positions, model)


def test_transcripts_that_do_not_fit_their_sounds_are_left_out(tmp_path):
    """`one one two` has 11 symbols, and its sound of 89 samples 6 positions; `aab` needs 4."""
    ready = ctc(tmp_path)
    assert len(ready.held_out[0].rows) == 3
    assert [needed_positions(np.array(list(text.encode()))) for text in ("aab", "abab", "aaa", "")] == [4, 4, 5, 0]
    with pytest.raises(DataError, match=r"every sound of the train split has fewer positions than its transcript has symbols"):
        ctc(tmp_path, features=FEATURES.but(hop=64, window=128))


def test_the_head_has_room_for_the_blank(tmp_path):
    with pytest.raises(UserError, match=r"257 tokens, the blank is number 257, and the head gives 257 logits.*outputs = 258"):
        ctc(tmp_path, outputs=257)


def test_the_best_path_is_told_in_words(tmp_path):
    """Logits of the true symbols give no error; of others the edits of what they spell."""
    ready = ctc(tmp_path, "characters", outputs=20)
    examples, tokenizer = ready.held_out[0], ready.setting.tokenizer
    blank = tokenizer.vocab_size
    assert examples.facts.tolist() == [[blank]] * 3
    logits = torch.full((*examples.targets.shape, 20), 0.0)
    paths = []
    for row in examples.targets:
        path = [blank]
        for symbol in row[row != IGNORED].tolist():
            path += [blank] * (path[-1] == symbol) + [symbol]
        paths.append((path + [blank] * 13)[:13])
    for row, path in enumerate(paths):
        logits[row, torch.arange(13), path] = 9.0
    texts = [tokenizer.decode(said) for said in best_path(logits, torch.tensor([13, 13, 13]), blank)]
    assert texts == [row["text"] for row in ROWS[:3]]

    class Model:
        architecture = hearing(Head(outputs=20))

        def __call__(self, *given: Any, **options: Any) -> Tensor:
            return logits

    objective: Any = CTCObjective(features=FEATURES)
    assert objective.metrics(objective.traits.answers(Model(), examples, tokenizer), {})["word_error_rate"] == 0.0
    logits[1] = 0.0
    logits[1, :, blank] = 1.0
    rates = objective.metrics(objective.traits.answers(Model(), examples, tokenizer), {})
    assert rates == {"word_error_rate": 1 / 4, "character_error_rate": 3 / 13}
