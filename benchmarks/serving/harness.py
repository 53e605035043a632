"""lm-evaluation-harness against the server, unchanged, beside its own run of the exported model.

Three tasks that need no hub: choices by log-likelihood, the perplexity of texts, and texts that are generated; the last also as
chats. `local-completions` and `local-chat-completions` ask `anyformer serve`; `hf` runs the same directory in fp32.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.serving.model import source_text
from benchmarks.serving.servers import ours, running

QUESTIONS = 40
CLOSE = 1e-4
"""The largest relative difference of a figure."""
CHOICE = """task: served_choice
dataset_path: json
dataset_kwargs: {data_files: {test: %s}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: "{{choices}}"
doc_to_target: "{{answer}}"
metric_list: [{metric: acc}, {metric: acc_norm}]
"""
ROLLING = """task: served_rolling
dataset_path: json
dataset_kwargs: {data_files: {test: %s}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{passage}}"
metric_list: [{metric: word_perplexity}, {metric: byte_perplexity}]
"""
WRITTEN = """task: served_written
dataset_path: json
dataset_kwargs: {data_files: {test: %s}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{texts}}"
generation_kwargs: {until: ["\\n\\n"], max_gen_toks: 12, do_sample: false, temperature: 0.0}
metric_list: [{metric: exact_match, ignore_case: false}]
"""
TASKS = {"served_choice": CHOICE, "served_rolling": ROLLING, "served_written": WRITTEN}


def tasks(place: Path, texts: Sequence[str]) -> None:
    """The tasks, and the questions that they ask; `texts`: what is right behind each question of `served_written`."""
    data = place / "questions.json"
    drawn, lines = random.Random(0), [line.strip() for text in source_text() for line in text.splitlines()]
    lines = [line for line in lines if 30 < len(line) < 90 and line.isascii()]
    rows = []
    for number in range(QUESTIONS):
        begin, *others = drawn.sample(lines, 4)
        cut = begin.index(" ") if " " in begin else len(begin) // 2
        choices = [begin[cut:], *(f" {other}" for other in others)]
        right = drawn.randrange(4)
        choices[0], choices[right] = choices[right], choices[0]
        texts_here = texts[number] if number < len(texts) else ""
        rows.append({"question": begin[:cut], "choices": choices, "answer": right, "passage": begin, "texts": texts_here})
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, text in TASKS.items():
        (place / f"{name}.yaml").write_text(text % json.dumps(str(data)))


def scores(python: Path, place: Path, model: str, arguments: str, names: Sequence[str], *options: str) -> dict[str, Any]:
    """The figures of lm-evaluation-harness, and the texts that were generated."""
    with tempfile.TemporaryDirectory() as folder:
        words = [
            str(python), "-m", "lm_eval", "run", "--model", model, "--model_args", arguments, "--tasks", ",".join(names),
            "--include_path", str(place), "--output_path", folder, "--log_samples", "--batch_size", "1", "--device", "cpu",
            *options,
        ]  # fmt: skip
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OPENAI_API_KEY": "none", "HF_DATASETS_OFFLINE": "1"}
        environment.pop("PYTHONPATH", None)
        said = subprocess.run(words, capture_output=True, text=True, env=environment)
        results = list(Path(folder).rglob("results_*.json"))
        if said.returncode or not results:
            raise SystemExit(f"lm_eval {model}: {said.stderr[-4000:]}")
        found = json.loads(results[0].read_text())["results"]
        figures = {
            f"{task}: {name.partition(',')[0]}": value
            for task, table in found.items()
            for name, value in table.items()
            if isinstance(value, float) and "stderr" not in name
        }
        texts = [
            json.loads(line)["resps"][0][0]
            for file in Path(folder).rglob("samples_served_written_*.jsonl")
            for line in file.read_text().splitlines()
        ]
        return {"figures": figures, "texts": texts}


def compared(python: Path, place: Path) -> dict[str, Any]:
    """The figures of both ways, and how many of the generated texts are equal."""
    model = place / "model"
    tasks(place, ())
    written = ["served_written"]
    with running(ours(place, "--length", "512"), place, threads=1) as server:
        own = f"pretrained={model},dtype=float32"
        address = f"http://127.0.0.1:{server.port}/v1"
        beside = f"tokenizer={model},tokenizer_backend=huggingface,model=model,num_concurrent=4,max_retries=1"
        asked = f"base_url={address}/completions,{beside}"
        chats = f"base_url={address}/chat/completions,{beside}"
        told = {
            "hf": scores(python, place, "hf", own, list(TASKS)),
            "local-completions": scores(python, place, "local-completions", asked, list(TASKS)),
            "hf, chats": scores(python, place, "hf", own, written, "--apply_chat_template"),
            "local-chat-completions": scores(python, place, "local-chat-completions", chats, written, "--apply_chat_template"),
        }
    pairs = {"local-completions": "hf", "local-chat-completions": "hf, chats"}
    record: dict[str, Any] = {name: each["figures"] for name, each in told.items()}
    for ours_name, reference in pairs.items():
        a, b = told[ours_name], told[reference]
        if a["figures"].keys() != b["figures"].keys() or not a["texts"]:
            raise SystemExit(f"{ours_name} gives {sorted(a['figures'])}, and hf {sorted(b['figures'])}")
        apart = max(abs(value - b["figures"][name]) / max(1.0, abs(b["figures"][name])) for name, value in a["figures"].items())
        same = sum(x == y for x, y in zip(a["texts"], b["texts"], strict=True))
        record[f"{ours_name} beside hf"] = {"largest_difference": apart, "equal_texts": same, "texts": len(a["texts"])}
        if apart > CLOSE or same != len(a["texts"]):
            raise SystemExit(f"{ours_name} departs from hf: {record}")
    return record
