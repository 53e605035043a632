"""`anyformer generate` on models of several shapes, each trained by the command before it."""

from __future__ import annotations

import json

import numpy as np
import pytest
import soundfile
from PIL import Image

from stand_ins import few_records


@pytest.mark.parametrize("name", ["t5-small"])
def test_a_target_is_generated_by_the_command_that_a_run_prints(name, call, tmp_path):
    pairs = [{"source": f"say {i} {i + 1}", "target": f"{i + 1} {i}"} for i in range(40)]
    (tmp_path / "pairs.jsonl").write_text("".join(f"{json.dumps(pair)}\n" for pair in pairs))
    settings = [word for each in ("steps=3", "batch=4", "length=32") for word in ("--set", each)]
    trained = call(
        "train", name, "--tiny", "--data", "pairs.jsonl", "--objective", "seq2seq", *settings, "--out", "r", cwd=tmp_path
    )
    assert trained.returncode == 0, trained.stderr
    assert "anyformer generate r" in trained.stdout
    generated = call("generate", "r", "say 3 4", "-n", "5", cwd=tmp_path)
    assert generated.returncode == 0, generated.stderr
    assert generated.stdout.startswith("say 3 4")


def test_a_model_trained_on_images_captions_files(call, tmp_path):
    settings = [
        word for each in ("steps=2", "batch=4", "plan.compile=off", "evaluation.final_tokens=64") for word in ("--set", each)
    ]
    with few_records():
        trained = call("train", "blip-caption-base", "--tiny", "--data", "shapes", *settings, "--out", "r", cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    for name in ("a.png", "b.png"):
        Image.new("RGB", (24, 24), "red" if name == "a.png" else "blue").save(tmp_path / name)
    shown = [word for name in ("a.png", "b.png") for word in ("--image", name)]
    generated = call("generate", "r", *shown, "--json", "--temperature", "0", "-n", "4", cwd=tmp_path)
    assert generated.returncode == 0, generated.stderr
    assert [json.loads(line)["prompt"] for line in generated.stdout.splitlines()] == ["", ""]
    refused = call("generate", "r", "--image", "none.png", cwd=tmp_path)
    assert refused.returncode != 0
    assert "none.png: no such image" in refused.stderr


@pytest.mark.slow
def test_a_model_trained_on_sounds_writes_texts_of_files(call, tmp_path):
    settings = [word for each in ("steps=2", "batch=4", "plan.compile=off") for word in ("--set", each)]
    trained = call("train", "voxtral-mini-3b", "--tiny", *settings, "--out", "r", cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    assert "word error rate" in trained.stdout + trained.stderr
    for name in ("a.wav", "b.wav"):
        soundfile.write(tmp_path / name, np.sin(np.arange(8000) / 9), 16_000)
    heard = [word for name in ("a.wav", "b.wav") for word in ("--audio", name)]
    generated = call("generate", "r", *heard, "--json", "--temperature", "0", "-n", "4", cwd=tmp_path)
    assert generated.returncode == 0, generated.stderr
    assert [json.loads(line)["prompt"] for line in generated.stdout.splitlines()] == ["", ""]
    asked = call("generate", "r", "who?", "--audio", "a.wav", "-n", "4", cwd=tmp_path)
    assert asked.returncode == 0, asked.stderr
    soundfile.write(tmp_path / "long.wav", np.zeros(32_000), 16_000)
    refused = call("generate", "r", "--audio", "long.wav", cwd=tmp_path)
    assert refused.returncode != 0
    assert "long.wav: lasts 2 s" in refused.stderr


def test_pictures_are_made_of_the_classes_that_are_asked(call, tmp_path):
    for name in ("bars", "dots"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(12):
            Image.new("L", (16, 16), 20 * number).save(tmp_path / "images" / name / f"{number}.png")
    settings = [word for each in ("steps=2", "batch=4", "plan.compile=off", "data.validation=0.3") for word in ("--set", each)]
    trained = call("train", "dit-b-4", "--tiny", "--data", "images", *settings, "--out", "r", cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    assert "generate r --class dots" in trained.stdout
    with Image.open(tmp_path / "r" / "pictures.png") as sheet:
        assert (sheet.height + 1) / (sheet.width + 1) == pytest.approx(2 / 10, rel=0.05)
    asked = ("--class", "dots", "--each", "2", "--steps", "2", "--output", "p.png")
    generated = call("generate", "r", *asked, cwd=tmp_path)
    assert generated.returncode == 0, generated.stderr
    assert "p.png: 1 x 2 pictures, rows: dots" in generated.stderr + generated.stdout
    first = (tmp_path / "p.png").read_bytes()
    call("generate", "r", *asked, cwd=tmp_path)
    assert (tmp_path / "p.png").read_bytes() == first
    for more, said in (
        (["--class", "cat"], "knows no such class (it knows bars, dots)"),
        (["--class", "dots", "a prompt"], "made of noise: leave a prompt out"),
        (["--class", "dots", "--output", "none/p.png"], "none/p.png"),
    ):
        refused = call("generate", "r", *more, cwd=tmp_path)
        assert refused.returncode != 0
        assert said in " ".join(refused.stderr.split())
