"""Values inside a model against the hooks of TransformerLens, on tiny random models of three families.

    .venv-lens/bin/python -m benchmarks.opening          # the environment of peers/requirements-opening.txt

GPT-2, GPT-NeoX (Pythia's) and Llama are made from configurations by transformers, written to a directory, and read by both:
by TransformerLens's bridge with its weights as they are, and by ours. Compared are the value of every hook with that of our
path, and the logits after the value of a hook was halved with those after ours was. And what naming values costs a call in
which nobody asks for one: the time of as many namings as a forward pass of these tiny models has, as a share of it. Writes
benchmarks/results/opening.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
import timeit
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

os.environ.setdefault("HF_HUB_OFFLINE", "1")
RESULT = Path(__file__).parent / "results" / "opening.json"
SIZES: Mapping[str, int] = {"vocab_size": 97, "num_attention_heads": 4, "num_hidden_layers": 2, "hidden_size": 32}
ROWS, LENGTH, FARTHEST = 2, 11, 1e-5
NORM = {"hook_scale": "scale", "hook_normalized": "normalized", "hook_out": "output"}
OF_MODEL: Mapping[str, str] = {
    "embed.hook_out": "embedding.output", "hook_embed": "embedding.output",
    "pos_embed.hook_out": "decoder.position.output", "hook_pos_embed": "decoder.position.output",
    "rotary_emb.hook_in": "decoder.layer[0].input",
    "ln_final.hook_in": "decoder.layer[-1].output",
    **{f"ln_final.{hook}": f"decoder.final_norm.{name}" for hook, name in NORM.items()},
    "unembed.hook_in": "decoder.output", "unembed.hook_out": "head.logits", "hook_unembed": "head.logits",
}  # fmt: skip
"""Hook -> path of ours."""
OF_BLOCK: Mapping[str, str] = {
    "hook_in": "input", "hook_resid_pre": "input", "hook_resid_mid": "attention.after",
    "hook_out": "output", "hook_resid_post": "output",
    "ln1.hook_in": "attention.before", "ln2.hook_in": "feedforward.before",
    **{f"ln1.{hook}": f"attention.norm_before.{name}" for hook, name in NORM.items()},
    **{f"ln2.{hook}": f"feedforward.norm_before.{name}" for hook, name in NORM.items()},
    "attn.hook_in": "attention.input", "hook_attn_in": "attention.input",
    **{f"attn.{side}.hook_in": "attention.input" for side in ("q", "k", "v", "qkv")},
    **{f"attn.{side}.hook_out": f"attention.{name}" for side, name in zip("qkv", ("query", "key", "value"), strict=True)},
    **{f"attn.hook_{side}": f"attention.{name}" for side, name in zip("qkv", ("query", "key", "value"), strict=True)},
    "attn.hook_rot_q": "attention.placed_query", "attn.hook_rot_k": "attention.placed_key",
    "attn.hook_attn_scores": "attention.scores", "attn.hook_pattern": "attention.weights",
    "attn.o.hook_in": "attention.heads", "attn.hook_z": "attention.heads", "attn.hook_result": "attention.head_outputs",
    "attn.o.hook_out": "attention.sublayer.output", "attn.hook_hidden_states": "attention.sublayer.output",
    "attn.hook_out": "attention.sublayer.output", "hook_attn_out": "attention.output",
    "mlp.hook_in": "feedforward.input", "mlp.in.hook_in": "feedforward.input", "mlp.gate.hook_in": "feedforward.input",
    "hook_mlp_in": "feedforward.input",
    "mlp.in.hook_out": "feedforward.up", "mlp.gate.hook_out": "feedforward.gate", "mlp.hook_pre_linear": "feedforward.up",
    "mlp.out.hook_in": "feedforward.hidden", "mlp.hook_post": "feedforward.hidden",
    "mlp.out.hook_out": "feedforward.sublayer.output", "mlp.hook_out": "feedforward.sublayer.output",
    "hook_mlp_out": "feedforward.output",
}  # fmt: skip
"""Hook of a block -> path of ours in a layer; `mlp.hook_pre` is the gate, where there is one."""
TABLES = re.compile(r"(embed|pos_embed)\.hook_in|.*hook_(cos|sin)")
"""Hooks of what a call is given and of its tables of positions, which are no values inside the model."""
ONE_READER = re.compile(r"rotary_emb\.hook_in|.*(ln\d\.hook_in|attn\.[qkv]\.hook_in|mlp\.(in|gate)\.hook_in|hook_resid_mid)")
"""Hooks of what one of several readers reads, of a value that has one path of ours: changed there, others read it unchanged."""


def models() -> Iterator[tuple[str, Any]]:
    """Name, and a tiny random model of transformers."""
    import transformers as hf

    off = {"attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}
    wide = {**SIZES, "intermediate_size": 64, "max_position_embeddings": 32, "initializer_range": 0.3}
    made: dict[str, Callable[[], Any]] = {
        "GPT-2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**SIZES, **off, n_positions=32, initializer_range=0.3)),
        "Pythia": lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**wide, rotary_pct=0.25)),
        "Llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**wide, num_key_value_heads=2)),
    }
    for name, make in made.items():
        torch.manual_seed(0)
        yield name, make()


def bridge_of(folder: Path) -> Any:
    """TransformerLens's bridge to the model of a directory, with its weights as they are."""
    from transformer_lens.model_bridge import TransformerBridge  # type: ignore[import-not-found,unused-ignore]
    from transformers import AutoModelForCausalLM

    own = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    bridge = TransformerBridge.boot_transformers(str(folder), hf_model=own)
    bridge.set_use_attn_result(True)
    return bridge


def write_tokenizer(folder: Path) -> None:
    """A tokenizer of a word per token: the bridge asks for one."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel({str(i): i for i in range(SIZES["vocab_size"])}, unk_token="0"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=made, unk_token="0", eos_token="1", bos_token="1").save_pretrained(folder)


def path_of(hook: str, known: Mapping[str, object], layers: int) -> str | None:
    """Our path of a hook; None of one that is none of the model's values."""
    if TABLES.fullmatch(hook):
        return None
    block = re.fullmatch(r"blocks\.(\d+)\.(.*)", hook)
    if block is None:
        return OF_MODEL[hook].replace("[-1]", f"[{layers - 1}]")
    layer = f"decoder.layer[{block[1]}]."
    if block[2] == "mlp.hook_pre":
        gate = f"{layer}feedforward.gate"
        return gate if gate in known else f"{layer}feedforward.up"
    return layer + OF_BLOCK[block[2]]


def apart(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference, as a share of the largest number where that is above 1; what both leave out is equal."""
    left_out = (ours < -1e9) & (theirs < -1e9)
    ours, theirs = ours.masked_fill(left_out, 0), theirs.masked_fill(left_out, 0)
    return float((ours - theirs.view(ours.shape)).abs().max() / max(1.0, float(ours.abs().max())))


def compared(theirs: Any, ours: Any) -> dict[str, Any]:
    """The farthest values and logits of a model's hooks."""
    tokens = torch.randint(0, SIZES["vocab_size"], (ROWS, LENGTH), generator=torch.Generator().manual_seed(1))
    logits, cache = theirs.run_with_cache(tokens)
    known, layers = ours.watchable(), SIZES["num_hidden_layers"]
    paths = {hook: path for hook in cache if (path := path_of(hook, known, layers)) is not None}
    with ours.watch(*paths.values()) as seen:
        own = ours(tokens)
    values = {hook: apart(seen[path], cache[hook]) for hook, path in paths.items()}
    replaced = {}
    for hook, path in paths.items():
        if ONE_READER.fullmatch(hook):
            continue
        after = theirs.run_with_hooks(tokens, fwd_hooks=[(hook, lambda value, hook: value / 2)])
        with ours.patch(path, lambda value: value / 2):
            replaced[hook] = apart(ours(tokens), after)
    return {
        "hooks": len(values), "paths": len(set(paths.values())), "halved_hooks": len(replaced),
        "left_out": sorted({re.sub(r"blocks\.\d+", "blocks.*", hook) for hook in set(cache) - set(paths)}),
        "logits": apart(own, logits), "value": max(values.values()), "halved": max(replaced.values()),
        "farthest": [hook for hook, far in (*values.items(), *replaced.items()) if far > FARTHEST],
    }  # fmt: skip


def unwatched(ours: Any) -> dict[str, float]:
    """Namings of a forward pass in which nobody asks, and their share of its time: the smallest times of 7 takes."""
    from anyformer.parts.call.context import Context

    tokens, took = torch.randint(0, SIZES["vocab_size"], (ROWS, LENGTH)), partial(timeit.repeat, repeat=7)
    context, count = Context(tokens, ours.plan), len(ours.watchable())
    naming = min(took(lambda: context.see("name", tokens), number=10_000)) / 10_000
    call = min(took(lambda: ours(tokens), number=20)) / 20
    return {"namings": count, "nanoseconds": round(naming * 1e9), "share": round(count * naming / call, 4)}


@torch.no_grad()
def main() -> None:
    """Compare, print, write."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    import anyformer as af

    torch.set_num_threads(1)
    found = {}
    for name, made in models():
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            made.eval().save_pretrained(folder)
            write_tokenizer(folder)
            ours = af.load(folder)[0].eval()
            found[name] = {**compared(bridge_of(folder), ours), "unwatched": unwatched(ours)}
        print(name, json.dumps(found[name]))
    versions = {name: version(name) for name in ("torch", "transformers", "transformer-lens")}
    record = {"date": date.today().isoformat(), "versions": versions, "models": found}
    RESULT.write_text(json.dumps(record, indent=1) + "\n")
    assert not any(each["farthest"] for each in found.values()), "hooks whose values or effects differ: see above"


if __name__ == "__main__":
    main()
