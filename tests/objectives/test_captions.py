"""Texts given images: what is read and predicted, padding, greedy texts, scores beside sacrebleu, refusals."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import sacrebleu
import torch
import torch.nn.functional as F
from PIL import Image
from zoo_images import CLIP, SIGLIP

from anyformer.catalogue import architecture
from anyformer.data import IGNORED, Captions, QuestionsAboutImages, RecordBatch
from anyformer.data.kinds.vectors import placed
from anyformer.describe import change_all
from anyformer.model.transformer import build
from anyformer.objectives import CaptionsObjective, Setting, added, default_objective, loss_of
from anyformer.objectives.captions import written
from anyformer.objectives.choice import usual_objective
from anyformer.objectives.text_scores import text_scores, text_sums
from anyformer.parts import Causal, Prefix
from anyformer.plan import Plan
from anyformer.text import DataError, Specials
from anyformer.training import default_run
from anyformer.training.held_out import corpus_of
from anyformer.training.precision import Host
from anyformer.training.trainer import Trainer
from objectives.windows import tokenizer

PLAN = Plan(precision="fp32", compile="off")
OURS = tokenizer(Specials())
ROWS = [("", "a red cat"), ("what?", "no"), ("is it?", "yes it is"), ("", "x")]
DRAWN = np.random.default_rng(0)


def tiny(name: str, **changes):
    return change_all(architecture(name, tiny=True), changes)


def in_front():
    """BLIP with the image in front of the text instead of attended to."""
    blip = tiny("blip-caption-base")
    steps = blip.decoder.variants["layer"].steps
    without = [step for step in steps if "cross_attention" not in step.branches]
    assert len(without) == len(steps) - 1
    changed = change_all(blip, {"decoder.variants.layer.steps": without, "source": "prefix"})
    return change_all(changed, {"decoder.layer.attention.mask": Causal() | Prefix(), "decoder.position.length": 64})


MODELS = {
    "attended": (tiny("blip-caption-base"), 12),
    "vectors": (tiny("llama-3.2-11b-vision"), 3),
    "in front": (in_front(), 12),
    "tower": (tiny("llama-2-7b", images=CLIP), 4),
    "tower that sees all": (tiny("llama-2-7b", images=SIGLIP.but(token=300)), 8),
}


def batch_of(rows, channels: int, side: int) -> RecordBatch:
    records = [
        {
            "image": DRAWN.integers(0, 256, (channels, side, side), dtype=np.uint8),
            "prompt": np.array(OURS.encode(prompt), np.uint32),
            "text": np.array(OURS.encode(text), np.uint32),
        }
        for prompt, text in rows
    ]
    return RecordBatch(tuple((record,) for record in records), np.arange(len(rows)))


def made(name: str, rows=ROWS, length: int = 32):
    model, side = MODELS[name]
    channels = 3 if model.images is None else model.images.patches.channels
    batch = batch_of(rows, channels, side)
    return model, batch, CaptionsObjective().examples(batch, Setting(OURS, length, architecture=model))


def letters(text: str) -> list[int]:
    return list(text.encode())


def test_examples_of_a_source_by_hand():
    _, batch, found = made("attended", [("", "ab"), ("?", "xyz")], 6)
    end, no = OURS.end, IGNORED
    assert found.decoder_tokens.tolist() == [[end, *letters("ab"), 0, 0, 0], [end, *letters("?xyz"), 0]]
    assert found.decoder_padding.tolist() == [[False] * 3 + [True] * 3, [False] * 5 + [True]]
    assert found.targets.tolist() == [[*letters("ab"), end, no, no, no], [no, *letters("xyz"), end, no]]
    assert found.count == 7
    image = torch.tensor(batch.records[1][0]["image"])
    torch.testing.assert_close(found.tokens[1], (image / 255 - 0.5) / 0.5)
    assert found.padding is None
    assert found.images is None


def test_examples_of_a_tower_by_hand():
    _, _, found = made("tower", [("?", "ab")], 9)
    end, no = OURS.end, IGNORED
    assert found.tokens.tolist() == [[3, 3, 3, 3, *letters("?ab"), 0, 0]]
    assert found.targets.tolist() == [[no] * 4 + [*letters("ab"), end, no, no]]
    assert found.prefix.tolist() == [5]
    assert found.images.shape == (1, 3, 4, 4)
    told = CaptionsObjective(before_image="<", behind_image=">>")
    marked = told.examples(batch_of([("", "a")], 3, 4), Setting(OURS, 9, architecture=MODELS["tower"][0]))
    assert marked.tokens[0, :8].tolist() == [*letters("<"), 3, 3, 3, 3, *letters(">>a")][:8]


def test_vectors_know_their_places():
    model, batch, found = made("vectors")
    features = model.embedding.features
    for own, (record,) in zip(found.tokens, batch.records, strict=True):
        np.testing.assert_array_equal(own.numpy(), placed(record["image"], features))


@pytest.mark.parametrize("name", MODELS)
def test_a_batch_is_the_sum_of_its_rows_alone(name):
    """Loss and gradients of a padded batch, beside cross-entropies of each row without padding."""
    model, _, examples = made(name)
    ours, naive = (build(model, PLAN, seed=1) for _ in range(2))
    loss = loss_of(CaptionsObjective(), ours, examples)
    total = torch.zeros(())
    for row, (prompt, text) in enumerate(ROWS):
        alone = examples.slice(row, row + 1)
        answer = [*letters(text), OURS.end]
        if model.images is None:
            read = [OURS.end, *letters(prompt), *letters(text)]
            logits = naive(alone.tokens, torch.tensor([read]))
        else:
            front = [model.images.token] * model.images.tokens + letters(prompt)
            read = [*front, *letters(text)]
            logits = naive(torch.tensor([read]), images=alone.images, prefix=torch.tensor([len(front)]))
        total = total + F.cross_entropy(logits[0, -len(answer) :], torch.tensor(answer), reduction="sum")
    torch.testing.assert_close(loss, total, rtol=1e-5, atol=1e-5)
    loss.backward()
    total.backward()
    for (path, one), other in zip(ours.named_parameters(), naive.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None), path
        if one.grad is not None:
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5, msg=path)


@pytest.mark.parametrize("name", MODELS)
def test_an_image_changes_the_text(name):
    model, _, examples = made(name)
    built = build(model, PLAN, seed=1)
    for path, weight in built.named_parameters():
        if "gain" in path:  # Llama 3.2 Vision reads nothing at first
            torch.nn.init.ones_(weight)
    field = "tokens" if model.images is None else "images"
    other = replace(examples, **{field: getattr(examples, field).flip(-1, -2)})
    with torch.no_grad():
        one, two = (CaptionsObjective().logits(built, each, None, None) for each in (examples, other))
    assert (one - two).abs().max() > 1e-5


@pytest.mark.parametrize("name", MODELS)
def test_written_texts_are_the_likeliest_tokens_one_by_one(name):
    """With a state and rows padded to the left, beside whole calls of each row alone."""
    model, _, examples = made(name)
    built = build(model, PLAN, seed=3).eval()
    with torch.no_grad():
        built.head.weight.mul_(20) if not built.head.head.tied else None
        said, wanted = written(built, examples)
    assert wanted == [letters(text) for _, text in ROWS]
    most = max(len(text) for _, text in ROWS) + 1
    for row, (prompt, _) in enumerate(ROWS):
        alone, tokens = examples.slice(row, row + 1), []
        for _ in range(most):
            with torch.no_grad():
                if model.images is None:
                    read = [OURS.end, *letters(prompt), *tokens]
                    logits = built(alone.tokens, torch.tensor([read]))
                else:
                    front = [model.images.token] * model.images.tokens + letters(prompt)
                    read, images, prefix = [*front, *tokens], alone.images, torch.tensor([len(front)])
                    logits = built(torch.tensor([read]), images=images, prefix=prefix)
            token = int(logits[0, -1].argmax())
            if token == OURS.end:
                break
            tokens.append(token)
        assert said[row] == tokens


def test_scores_are_sacrebleus():
    said = ["a red cat on a mat", "no", "the green square is here now", ""]
    wanted = ["a red cat on the mat", "no ", "the blue square is there now", "yes"]
    parts = [text_sums(said[:1], wanted[:1]), text_sums(said[1:], wanted[1:])]
    found = text_scores(added(parts))
    assert found["exact_match"] == 0.25
    assert found["bleu"] == pytest.approx(sacrebleu.corpus_bleu(said, [[text.strip() for text in wanted]]).score)
    alone = [sacrebleu.sentence_chrf(one, [other.strip()]).score for one, other in zip(said, wanted, strict=True)]
    assert found["chrf"] == pytest.approx(sum(alone) / 4)
    assert text_scores({}) == {}
    assert text_scores(added([text_sums([], []), *parts])) == found


def test_without_sacrebleu_exact_matches_are_left(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    monkeypatch.setattr("anyformer.objectives.text_scores.find_spec", lambda name: None)
    assert text_scores(text_sums(["a"], ["a"])) == {"exact_match": 1.0}


def test_entries_with_images_are_captioned():
    for name in ("blip-caption-base", "llama-3.2-11b-vision"):
        for shrunk in (True, False):
            model = architecture(name, tiny=shrunk)
            assert default_objective(model).kind == "captions"
            run = default_run(model, ("shapes",))
            assert isinstance(run.data, Captions)
            assert isinstance(default_run(model, ("shapes-questions",)).data, QuestionsAboutImages)
            assert run.piece.source == (256 if "llama" in name else 50 if shrunk else 577)
    text = tiny("llama-2-7b", images=CLIP)
    assert usual_objective(text, ("shapes",)) == "captions"
    assert usual_objective(tiny("llama-2-7b"), ("shapes",)) is None
    assert default_objective(text).kind == "causal"
    shown = default_run(text, ("shapes",), CaptionsObjective())
    assert (shown.piece.images, shown.data.height, shown.length) == (1, 4, 68)


def test_what_cannot_be_captioned_is_refused():
    objective = CaptionsObjective()
    for name in ("gpt2", "t5-small", "whisper-tiny", "vit-base-16"):
        with pytest.raises(ValueError, match="gives the model an image and a text, and this model reads"):
            objective.check(tiny(name))
    blip, tower = MODELS["attended"][0], MODELS["tower"][0]
    with pytest.raises(ValueError, match="this model reads its image apart"):
        CaptionsObjective(before_image="<").check(blip)
    data = Captions(paths=("shapes",), height=12, width=12)
    big = data.but(height=60, width=60)
    with pytest.raises(ValueError, match=r"60 x 60 pixels the encoder reads 101 positions, and its table ends at 64"):
        objective.check_data(big, blip, 32)
    front = MODELS["in front"][0]
    objective.check_data(data, front, 59)
    with pytest.raises(ValueError, match=r"12 x 12 pixels the decoder reads 65 positions, and its table ends at 64"):
        objective.check_data(data, front, 60)
    with pytest.raises(ValueError, match="length = 4, and an image alone takes 4 tokens"):
        objective.check_data(data.but(height=4, width=4), tower, 4)
    with pytest.raises(ValueError, match=r"images should have shape \(n, 3, 4, 4\)"):
        objective.check_data(data, tower, 32)
    with pytest.raises(ValueError, match=r"objective.mean has 2 numbers, and the images 3 channels"):
        CaptionsObjective(mean=(0.1, 0.2)).check_data(data, blip, 32)


def test_a_tokenizer_beyond_the_head_is_refused():
    model = MODELS["attended"][0]
    small = change_all(model, {"head.outputs": model.outputs - 8, "head.tied": False})
    objective, corpus = CaptionsObjective(), type("Held", (), {"tokenizer": OURS})()
    objective.check(small)
    objective.check_corpus(corpus, Setting(OURS, 8, architecture=small))
    fewer = small.but(head=small.head.but(outputs=OURS.vocab_size - 1))
    with pytest.raises(DataError, match=r"set head.outputs = "):
        objective.check_corpus(corpus, Setting(OURS, 8, architecture=fewer))


@pytest.mark.parametrize(
    ("tuning", "learns"),
    [
        ({"frozen": ["images.stack.*", "images.patches.*"]}, ("images.projector.", "decoder.", "embedding.", "head.")),
        ({"train_only": ["images.projector.*"]}, ("images.projector.",)),
        ({"adapter": {"kind": "lora", "rank": 2}}, ("decoder.",)),
    ],
)
def test_a_tower_or_the_text_learns_alone(tuning, learns, tmp_path, monkeypatch):
    """Two updates: what does not learn keeps every bit, what learns changes; an adapter stands beside the text's matrices."""
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))
    rows = [{"image": f"{n}.png", "text": f"is {n % 3}"} for n in range(12)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for n in range(12):
        Image.fromarray(DRAWN.integers(0, 256, (4, 4, 3), dtype=np.uint8)).save(tmp_path / f"{n}.png")
    run = default_run(MODELS["tower"][0], (str(tmp_path / "rows.jsonl"),), CaptionsObjective())
    changes = {
        "minutes": None,
        "steps": 2,
        "batch": 4,
        "data.validation": 0.3,
        "tuning": tuning,
        "schedule": {"kind": "constant"},
    }
    run = change_all(run, {**changes, "plan": PLAN, "length": 16})
    trainer = Trainer.start(run, corpus_of(run), Host(torch.device("cpu"), {"fp32": 1e9}))
    before = {path: weight.detach().clone() for path, weight in trainer.model.named_parameters()}
    for step in range(2):
        trainer.passes.add_gradients(trainer.micro_batches(step))
        trainer.trainee.optimiser.step()
    changed = {path for path, weight in trainer.model.named_parameters() if not torch.equal(weight, before[path])}
    assert {path for path in before if trainer.model.get_parameter(path).requires_grad} >= changed
    assert changed
    assert all(path.startswith(learns) for path in changed), changed
    assert {next(name for name in learns if path.startswith(name)) for path in changed} >= set(learns[:2])
