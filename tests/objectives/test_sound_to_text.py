"""Texts given sounds among their tokens: what is read and predicted, padding, whole tokens, greedy texts, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import soundfile
import torch
import torch.nn.functional as F

from anyformer.catalogue import architecture
from anyformer.data import IGNORED, QuestionsAboutSounds, RecordBatch, Speech
from anyformer.data.recognising import recognised
from anyformer.describe import UserError
from anyformer.model.transformer import build
from anyformer.objectives import Setting, SoundToTextObjective, loss_of
from anyformer.objectives.choice import suited, usual_objective
from anyformer.objectives.files_of_sounds import sound_prompt, sounds_in, trained_on
from anyformer.objectives.text_beside import written
from anyformer.plan import Plan
from anyformer.requirements.usual import usual_records
from anyformer.sound import LogMel
from anyformer.text import Specials
from anyformer.training import default_run
from objectives.windows import tokenizer

PLAN = Plan(precision="fp32", compile="off")
FEATURES = LogMel(rate=1000, window=32, hop=8, bins=6, high=500.0)
OURS = tokenizer(Specials())
ROWS = [("", "one", 200), ("what?", "two six", 100), ("", "x", 61)]
MODELS = {name: architecture(name, tiny=True) for name in ("qwen2-audio-7b", "voxtral-mini-3b")}


def letters(text: str) -> list[int]:
    return list(text.encode())


def batch_of(rows) -> RecordBatch:
    draws = np.random.default_rng(0)
    records = [
        {
            "sound": draws.normal(0, 0.3, samples).astype(np.float32),
            "prompt": np.array(OURS.encode(prompt), np.uint32),
            "text": np.array(OURS.encode(text), np.uint32),
        }
        for prompt, text, samples in rows
    ]
    return RecordBatch(tuple((record,) for record in records), np.arange(len(rows)))


def made(name: str, rows=ROWS, length: int = 24, **fields):
    objective = SoundToTextObjective(features=FEATURES, **fields)
    setting = Setting(OURS, length, architecture=MODELS[name], samples=200)
    return objective, objective.examples(batch_of(rows), setting)


def test_examples_by_hand():
    """25 frames are 13 positions and 6 tokens; 12 frames 6 and 3."""
    token, end, no = 151_646, OURS.end, IGNORED
    _, found = made("qwen2-audio-7b", [("", "ab", 200), ("?", "c", 100)], 10, before_sound="<", behind_sound=">")
    assert found.tokens.tolist() == [
        [*letters("<"), *[token] * 6, *letters(">ab")],
        [*letters("<"), *[token] * 3, *letters(">?c"), 0, 0, 0],
    ]
    assert found.targets.tolist() == [[no] * 7 + [*letters("ab"), end], [no] * 5 + [*letters("c"), end, no, no, no]]
    assert found.padding.tolist() == [[False] * 10, [False] * 7 + [True] * 3]
    assert found.prefix.tolist() == [8, 6]
    assert found.audio.shape == (2, 25, 6)
    assert (~found.audio_padding).sum(1).tolist() == [25, 12]


def test_zeros_follow_a_sound_up_to_a_whole_token():
    """Four positions, eight frames, are one token of Voxtral's: 25 frames become 31, 12 become 15, 7 stay."""
    objective, found = made("voxtral-mini-3b")
    assert (~found.audio_padding).sum(1).tolist() == [31, 15, 7]
    assert (found.tokens == 24).sum(1).tolist() == [4, 2, 1]
    sound = torch.from_numpy(batch_of(ROWS).records[1][0]["sound"])
    alone = FEATURES.spectrum(F.pad(sound, (0, 20))[None])[0].mT
    torch.testing.assert_close(found.audio[1, :15], alone)
    assert objective.needed(100, MODELS["voxtral-mini-3b"]) == 120


@pytest.mark.parametrize("padding", ["masked", "silence"])
@pytest.mark.parametrize("name", MODELS)
def test_a_batch_is_the_sum_of_its_rows_alone(name, padding):
    """Loss and gradients of a padded batch, beside rows without padding of text whose sounds are placed by hand."""
    objective, examples = made(name, padding=padding)
    ours, naive = (build(MODELS[name], PLAN, seed=1) for _ in range(2))
    loss, total, tower = loss_of(objective, ours, examples), torch.zeros(()), MODELS[name].audio
    for row, (prompt, text, _) in enumerate(ROWS):
        hidden = None if padding == "silence" else examples.audio_padding[row : row + 1]
        features = naive.audio(examples.audio[row : row + 1], hidden)[0]
        heard = features[: tower.sizes(examples.audio[row : row + 1], hidden)[0]]
        x_TD = naive.embedding(torch.tensor([letters(prompt + text)]), None, None)[0]
        answer = torch.tensor([*letters(text), OURS.end])
        state = torch.cat([heard, x_TD])[None]
        logits = from_embeddings(naive, state)
        total = total + F.cross_entropy(logits[0, -len(answer) :], answer, reduction="sum")
    torch.testing.assert_close(loss, total, rtol=1e-5, atol=1e-5)
    loss.backward()
    total.backward()
    for (path, one), other in zip(ours.named_parameters(), naive.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5, msg=path)


def from_embeddings(model, x_BTD):
    """Logits of a model whose embeddings are given."""
    handle = model.embedding.register_forward_hook(lambda module, given, found: x_BTD)
    logits = model(torch.zeros(x_BTD.shape[:2], dtype=torch.int64))
    handle.remove()
    return logits


def test_a_sound_changes_the_text():
    objective, examples = made("qwen2-audio-7b")
    model = build(MODELS["qwen2-audio-7b"], PLAN, seed=1)
    with torch.no_grad():
        one, two = (
            objective.logits(model, each, None, None) for each in (examples, replace(examples, audio=examples.audio.flip(1)))
        )
    assert (one - two).abs().max() > 1e-5


def test_written_texts_are_the_likeliest_tokens_one_by_one():
    _, examples = made("qwen2-audio-7b")
    model = build(MODELS["qwen2-audio-7b"], PLAN, seed=3).eval()
    with torch.no_grad():
        model.head.weight.mul_(20)
        said, wanted = written(model, examples)
        assert wanted == [letters(text) for _, text, _ in ROWS]
        for row, text in enumerate(said):
            opening, tokens = examples.tokens[row, : examples.prefix[row]].tolist(), []
            while len(tokens) < max(len(text) for text in wanted) + 1:
                alone = examples.slice(row, row + 1)
                logits = model(torch.tensor([[*opening, *tokens]]), audio=alone.audio, audio_padding=alone.audio_padding)
                token = int(logits[0, -1].argmax())
                if token == OURS.end:
                    break
                tokens.append(token)
            assert text == tokens


def test_records_are_recognised_and_have_their_run(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"sound": "a.wav", "question": "who?", "answer": "he"}\n')
    assert recognised(("spoken-digits",)).table == {"kind": "speech"}
    for model in MODELS.values():
        assert usual_records(model) == "spoken-digits"
        assert usual_objective(model, ("spoken-digits",)) == usual_objective(model, (str(file),)) == "sound_to_text"
        objective = suited(SoundToTextObjective, model, {})
        run = default_run(model, ("spoken-digits",), objective)
        assert isinstance(run.data, Speech)
        assert (run.objective.features.bins, run.piece.audio) == (6, 1)
        assert run.length == 64 + model.audio.tokens * run.piece.frames // 128
        assert isinstance(default_run(model, (str(file),), objective).data, QuestionsAboutSounds)
    assert usual_objective(architecture("gpt2", tiny=True), ("spoken-digits",)) is None


def test_what_does_not_hear_among_tokens_is_refused():
    for name in ("gpt2", "whisper-tiny"):
        with pytest.raises(ValueError, match=r"a text with a sound among its tokens, and this model has no tower for sound"):
            SoundToTextObjective().check(architecture(name, tiny=True))
    model, objective = MODELS["qwen2-audio-7b"], SoundToTextObjective(features=FEATURES)
    data = Speech(paths=("x",), rate=1000, seconds=0.2)
    objective.check_data(data, model, 7)
    with pytest.raises(ValueError, match=r"length = 6, and the longest sound \(data.seconds\) alone takes 6 tokens"):
        objective.check_data(data, model, 6)
    with pytest.raises(ValueError, match=r"data.seconds = 2: such a sound has 125 positions, and the position table .* 64"):
        objective.check_data(data.but(seconds=2.0), model, 64)
    with pytest.raises(ValueError, match=r"gives 7 numbers per frame, and the embedding reads 6"):
        objective.but(features=FEATURES.but(bins=7)).check_data(data, model, 64)


def test_files_are_heard_as_in_training(tmp_path):
    """Of a run as it is kept, with text around a sound; refused: a longer file, and a token without a spelling."""
    record = batch_of(ROWS).records[1][0]
    soundfile.write(tmp_path / "a.wav", record["sound"], 1000, subtype="FLOAT")
    own = {"kind": "sound_to_text", "features": FEATURES.plain(), "before_sound": "<"}
    run = {"objective": own, "data": {"kind": "speech", "paths": ["x"], "rate": 1000, "seconds": 0.2}}
    objective, data = trained_on(run)
    assert trained_on({**run, "objective": {"kind": "ctc"}}) is None
    assert trained_on(None) is None
    model = MODELS["voxtral-mini-3b"]
    found = sounds_in([tmp_path / "a.wav"], objective, data, model, "runs/x")
    _, examples = made("voxtral-mini-3b")
    torch.testing.assert_close(found.audio, examples.audio[1:2])
    assert torch.equal(found.padding, examples.audio_padding[1:2])
    assert sound_prompt(objective, model, OURS) == f"<{OURS.token(24)}"
    assert sound_prompt(objective.but(before_sound=""), model, OURS) == ""
    with pytest.raises(UserError, match=r"the tokenizer has no token 151646, which stands for a sound"):
        sound_prompt(objective, MODELS["qwen2-audio-7b"], OURS)
    with pytest.raises(UserError, match=r"a.wav: lasts 0.1 s, and runs/x hears 0.05 s at most"):
        sounds_in([tmp_path / "a.wav"], objective, data.but(seconds=0.05), model, "runs/x")
