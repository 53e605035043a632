"""The command line as a user meets it; a few tests in a process of its own, the others in this one."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

RUN = """
steps = 6
batch = 4
length = 32
architecture = "llama-12m"
sample = "def "
[plan]
compile = "off"
precision = "fp32"
[data]
paths = ["text.py"]
[data.tokenizer]
kind = "bytes"
[evaluation]
every = 3
batches = 1
[set]
"embedding.vocab" = 257
"architecture.width" = 48
"decoder.order" = "layer*2"
"""


def process(*arguments: str) -> subprocess.CompletedProcess:
    """In a process of its own, which takes as long as importing torch does."""
    return subprocess.run([sys.executable, "-m", "anyformer", *arguments], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, call):
    place = tmp_path_factory.mktemp("cli")
    (place / "text.py").write_text("\n".join(f"def f{i}(x):\n    return x + {i}\n" for i in range(300)))
    (place / "run.toml").write_text(RUN)
    result = call("train", "run.toml", "--out", "out", cwd=place)
    assert result.returncode == 0, result.stderr
    return place, result.stdout


def test_training_says_what_it_reached_and_what_to_do_next(trained, call):
    place, output = trained
    for words in (
        "step 6/6",
        "validation loss",
        "bits per byte",
        "bigram",
        "sample",
        "def ",
        "loss.png",
        "tokens per second",
        "memory at the peak",
        "FLOPs per update",
        "anyformer generate out",
    ):
        assert words in output
    assert {path.name for path in (place / "out").iterdir()} == {
        "checkpoints", "data.json", "end.json", "environment.json", "loss.png", "metrics.jsonl", "run.toml", "summary.json",
    }  # fmt: skip


def test_generate_continues_prompts(trained, call):
    place, _ = trained
    one = call("generate", "out", "def f", "-n", "12", "--temperature", "0", cwd=place)
    assert one.returncode == 0, one.stderr
    assert one.stdout.startswith("def f")
    two = call("generate", "out", "def f", "x", "-n", "12", "--temperature", "0", "--stop", "zzz", cwd=place)
    assert "--- 1 of 2\n" + one.stdout.rstrip("\n") in two.stdout
    (place / "prompts.txt").write_text("def f\n\nx\nclass\n")
    (place / "prompts.jsonl").write_text('{"prompt": "def f"}\n"x"\n{"prompt": "class"}\n')
    given = [["def f", "x", "class"], ["--file", "prompts.txt", "--batch", "2"], ["--file", "prompts.jsonl", "--batch", "1"]]
    first, *others = [call("generate", "out", *each, "-n", "9", "--seed", "3", cwd=place) for each in given]
    assert first.stdout.startswith("--- 1 of 3\ndef f"), first.stderr
    plain, *drafted = [
        call("generate", "out", "def f", "-n", "20", "--temperature", "0", *more, cwd=place)
        for more in ([], ["--draft", "lookup"], ["--draft", "out", "--draft-tokens", "3", "--weights", "int8"])
    ]
    assert drafted[0].stdout == plain.stdout, drafted[0].stderr
    assert all("tokens a pass of the model" in each.stderr for each in drafted), drafted[1].stderr
    assert [each.stdout for each in others] == [first.stdout] * 2, others[0].stderr


def test_show_gives_the_resolved_value_that_trains_the_same(trained, call):
    place, _ = trained
    shown = call("show", "out", "--toml", cwd=place)
    assert shown.stdout == (place / "out" / "run.toml").read_text()
    assert "6 steps of 4 x 32 tokens" in call("show", "out", cwd=place).stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "lama-12m"], "did you mean"),
        (["show", "nowhere.toml"], "nowhere.toml"),
        (["show", "llama-12m", "--set", "decoder.layer.attention.kv_heads=4"], "kv_heads = 4"),
        (["show", "llama-12m", "--set", "decoder.layer.attention.heads"], "PATH=VALUE"),
        (["show", "llama-12m", "--set", "decoder.layer.atention.heads=2"], "did you mean 'attention'"),
        (["list", "nothing-like-this"], "nothing-like-this"),
        (["train"], "RUN.toml"),
        (["train", "llama-12m"], "--data"),
        (["train", "llama-12m", "--data", "nowhere"], "nowhere"),
        (["train", "--resume", "nowhere"], "nowhere"),
        (["train", "llama-12m", "--resume", "x"], "either"),
        (["generate", "nowhere", "x"], "nowhere"),
        (["generate", "out", "x", "--top-p", "95"], "top_p = 95.0 is no setting"),
        (["generate", "out", "--file", "out/run.jsonl"], "out/run.jsonl"),
        (["generate", "out", "x", "--draft-tokens", "2"], "give --draft"),
        (["generate", "out", "x", "y", "--draft", "lookup", "--batch", "2"], "one prompt is computed at a time"),
        (["generate", "out", "x", "--file", "prompts.txt"], "or a --file of prompts"),
        (["generate", "out", "x", "--top-p", "two"], "valid number"),
        (["nothing"], "nothing"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_mistakes_are_one_clear_message_and_exit_code_2(trained, arguments, words, call):
    place, _ = trained
    before = sorted(path.name for path in place.iterdir())
    result = call(*arguments, cwd=place)
    assert result.returncode == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert sorted(path.name for path in place.iterdir()) == before, "nothing is done before a mistake is told"


@pytest.mark.parametrize("arguments", [["--help"], ["cost", "--help"], ["list"]], ids=" ".join)
def test_listing_and_help_import_no_torch(arguments):
    code = (
        "import sys, anyformer.cli\nsys.argv[0] = 'anyformer'\n"
        "try: anyformer.cli.main()\nexcept SystemExit as leave: assert not leave.code\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, *arguments], check=False, capture_output=True).returncode == 0


def test_a_process_of_its_own_ends_as_one_here_does(call):
    apart, here = process("show", "lama-12m"), call("show", "lama-12m")
    assert (apart.returncode, apart.stdout, apart.stderr) == (here.returncode, here.stdout, here.stderr)
    assert apart.returncode == 2


def test_list_filters(call):
    assert call("list", "gpt2", "--names").stdout.split() == ["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"]
    assert "transformer-base" not in call("list", "--since", "2018").stdout
    latent = call("list", "--moe", "--since", "2025", "--attention", "mla", "--sort", "active", "--names").stdout.split()
    assert latent == [
        "a.x-k2-light", "moonlight-16b-a3b", "kimi-linear-48b-a3b", "glm-4.7-flash", "hy4-preview", "ling-3.0-flash",
        "mistral-small-4-119b", "dots3-note", "longcat-flash", "a.x-k1", "kimi-k2", "deepseek-r1", "deepseek-v3.2", "glm-5",
    ]  # fmt: skip
    assert call("list", "--position", "alibi", "--norm", "rms", "--names").stdout.split() == ["baichuan-13b"]
    assert call("list", "--shape", "encoder-only", "--attention", "mha", "vit-large", "--names").stdout.split() == [
        "vit-large-16",
        "vit-large-32",
        "clip-vision-large-14",
    ]
    assert call("list", "--shape", "encoder-decoder", "--moe", "gshard", "--names").stdout.split()[0] == "gshard-37b"
    assert "671,877,944,064" in call("list", "deepseek-v3.2").stdout
    assert "arXiv 2512.02556" in call("list", "deepseek-v3.2", "--sources").stdout


@pytest.mark.parametrize("arguments", [["plan", "gpt2"], ["show", "gpt2"], ["diff", "gpt2", "gpt2-medium"]], ids=" ".join)
def test_lengths_end_where_the_position_table_does(arguments, call):
    """8k is 8,192 for every command, and none prices in silence what cannot be run."""
    short, long = (" ".join(call(*arguments, *more).stdout.split()) for more in ([], ["--length", "8k"]))
    assert "x 1,024 tokens" in short
    assert "x 8,192 tokens" in long
    assert "cannot be run at 8,192" in long
    assert "cannot be run" not in short


def test_a_typo_costs_no_import_of_torch():
    """Importing it takes seconds in which nothing is said."""
    wrong = [
        ["show", "lama"], ["cost", "lama"], ["plan", "lama"], ["match", "lama", "--params", "1B"], ["diff", "lama", "gpt2"],
        ["train", "lama", "--data", "x"], ["list", "--shape", "foo"], ["show", "nowhere.toml"], ["show", "gpt2", "--length=x"],
    ]  # fmt: skip
    code = (
        "import sys, json, anyformer.cli\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    sys.argv[1:] = words\n"
        "    try: anyformer.cli.main()\n"
        "    except SystemExit as leave: assert leave.code == 2, words\n"
        "    assert 'torch' not in sys.modules, words"
    )
    done = subprocess.run([sys.executable, "-c", code, json.dumps(wrong)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("lama") >= 6


def test_tiny_variants_are_shown_and_trained(tmp_path, call):
    shown = call("show", "deepseek-v3", "--tiny", "--toml").stdout
    assert 'order = "dense routed"' in shown
    (tmp_path / "text.py").write_text("x = 1\n" * 2000)
    few = ["steps=2", "batch=2", "plan.compile=off", "evaluation.baseline=false"]
    words = ["train", "grok-1", "--tiny", "--data", "text.py", "--out", "out", *(f"--set={text}" for text in few)]
    assert call(*words, cwd=tmp_path).returncode == 0
    assert "is a run" in call("train", "out/run.toml", "--tiny", cwd=tmp_path).stderr


def test_a_reader_that_leaves_is_no_error():
    command = f"{sys.executable} -m anyformer show gpt2 --toml | head -1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert result.stderr == ""


def test_plan_answers_in_a_sentence_and_finds_layouts_that_fit(call):
    """Will a 13B with 8k context train on 8 x 80 GB, and how fast?"""
    asked = ("plan", "llama-2-13b", "--gpus", "8", "--hardware", "h100", "--length", "8k")
    result = call(*asked, "--batch-tokens", "4M")
    assert result.returncode == 0, result.stderr
    answer, table = re.split(r"\s+(?=layout )", result.stdout)
    answer = " ".join(answer.split())
    assert max(map(len, table.splitlines())) <= 80
    assert answer.startswith("Yes: llama-2-13b on 8 h100, 512 x 8,192 tokens per step: fsdp 8")
    assert "s per step" in answer
    assert "days per trillion tokens" in answer
    planned = json.loads(call(*asked, "--json").stdout)
    best = planned["fastest"][0]
    assert best["memory"]["total"] < planned["hardware"]["usable_memory"] < planned["hardware"]["memory"]
    assert best["seconds"]["total"] == min(each["seconds"]["total"] for each in planned["fastest"])


def test_plan_says_why_nothing_fits(call):
    result = call("plan", "llama-3.1-405b", "--gpus", "8")
    assert result.returncode == 1, "as `grep` that finds nothing"
    assert result.stdout.startswith("No: llama-3.1-405b on 8 h100, 512 x 8,192 tokens per step: nothing fits")
    assert "GB of optimiser" in result.stdout
    for wrong, says in (
        ("--hardware=h1000", "did you mean"),
        ("--batch-tokens=many", "4M, 512k"),
        ("--batch-tokens=1k", "no sequence"),
    ):
        refused = call("plan", "llama-3.1-405b", wrong)
        assert refused.returncode == 2
        assert says in refused.stderr
