"""vLLM's side, run by the interpreter of its own environment: `python read_vllm.py QUESTION.json`.

The question is a list of models: `name`, `directory`, `length`, `prompts`, `shared` (pairs of prompts that begin alike) and
`new` tokens. Every model is opened twice, each time in a process of its own, which is forked once vLLM is imported: as a whole
("alone", "together"), and with few tokens per step and remembered prefixes ("chunked", "prefix cached"). A line of JSON says
the class that reads it, and one per answer its tokens and the log-probabilities of the whole vocabulary after every position.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from vllm import LLM, SamplingParams

STEP, BLOCK = 16, 32
"""Tokens of a step where prompts are read in chunks, and of a block of its cache."""


def dense(found: Any) -> list[list[float]]:
    """Log-probabilities of all tokens, in the order of their numbers, at every position that has any."""
    if found is None:
        return []
    return [[place[token].logprob for token in range(len(place))] for place in found if place is not None]


def opened(model: dict[str, Any], **settings: Any) -> LLM:
    """The engine with a model of this package's directory, in fp32."""
    return LLM(
        model["directory"], skip_tokenizer_init=True, enforce_eager=True, dtype="float32", max_model_len=model["length"],
        max_logprobs=-1, max_num_seqs=8, disable_log_stats=False, seed=0, trust_remote_code=bool(model.get("trusted")),
        model_impl=model.get("way", "auto"), **settings,
    )  # fmt: skip


def answers(llm: LLM, case: str, prompts: Sequence[Sequence[int]], new: int, *, whole: bool) -> Iterator[dict[str, Any]]:
    """What follows the prompts of one call; `whole`: the log-probabilities of the prompts' own tokens too."""
    asked = SamplingParams(
        temperature=0, max_tokens=new, logprobs=-1, prompt_logprobs=-1 if whole else None, detokenize=False, ignore_eos=True
    )
    for prompt, output in zip(prompts, llm.generate([{"prompt_token_ids": list(p)} for p in prompts], asked), strict=True):
        (said,) = output.outputs
        yield {
            "case": case, "prompt": list(prompt), "tokens": list(said.token_ids), "new": dense(said.logprobs),
            "read": dense(output.prompt_logprobs), "cached": output.num_cached_tokens or 0,
        }  # fmt: skip


def plain(model: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every prompt alone, then all of them in one call."""
    llm = opened(model, enable_prefix_caching=False, enable_chunked_prefill=False)
    kinds = llm.apply_model(lambda module: f"{type(module).__module__}.{type(module).__qualname__}")
    yield {"class": kinds[0], "architectures": llm.llm_engine.model_config.architectures}
    for prompt in model["prompts"]:
        yield from answers(llm, "alone", [prompt], model["new"], whole=True)
    yield from answers(llm, "together", model["prompts"], model["new"], whole=True)


def tight(model: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Long prompts, a few tokens of them at a time; then others that begin as they do."""
    llm = opened(model, enable_prefix_caching=True, enable_chunked_prefill=True, max_num_batched_tokens=STEP, block_size=BLOCK)
    first, second = [pair[0] for pair in model["shared"]], [pair[1] for pair in model["shared"]]
    yield from answers(llm, "chunked", first, model["new"], whole=False)
    yield from answers(llm, "prefix cached", second, model["new"], whole=False)


def in_a_fork(name: str, do: Callable[[dict[str, Any]], Iterator[dict[str, Any]]], model: dict[str, Any]) -> None:
    """Let a process of its own say the answers, or why there are none."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        for answer in do(model):
            print(json.dumps({"name": name, **answer}), flush=True)
    except BaseException as error:  # whatever the engine raises is an answer
        traceback.print_exc()
        said = " ".join(str(error).split("[type=")[0].split())
        print(json.dumps({"name": name, "part": do.__name__, "error": f"{type(error).__name__}: {said[:300]}"}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for each in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        for part in (plain, tight):
            in_a_fork(each["name"], part, each)
        print(json.dumps({"name": each["name"], "done": True}), flush=True)
