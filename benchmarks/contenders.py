"""Who takes part in which comparison: the command line of every worker."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.cases import ON_ENGINE, OWN_ALONE, PLAIN, WEIGHTS, Case
from benchmarks.sitting import OURS

Commands = dict[str, list[str]]
"""What a worker is started with, by the contender's name."""
BASE = {"training": f"{OURS} compiled", "decoding": f"{OURS} default"}
"""The contender that all others are compared with."""
ENGINE = f"{OURS} engine"
"""Ours with the logits of llama.cpp, as `anyformer generate --engine llama.cpp` decodes."""
EXTRAS = ("llama.cpp", "tuned", "engine")
"""Contenders of decoding that are asked for by name: llama.cpp has to be compiled, tuned peers compile for minutes."""
PEERS_OF_SHAPE = {
    "small": ("litgpt", "transformers", "x-transformers"),
    "nanogpt": ("nanoGPT", "transformers"),
    "110m": ("litgpt", "transformers", "x-transformers"),
    "encoder": ("transformers",),
    "encoder-decoder": ("transformers",),
}
"""The peers that can train each shape of `cases.TRAININGS`."""
WITH_FUSED = ("transformers", "x-transformers")
"""Peers that train both with the written-out attention and with torch's fused one."""
COMPILING = {"compiled": "--compile", "eager": "--no-compile"}


def training(shape: str, precision: str, nanogpt: str | None = None) -> Commands:
    """Everybody who trains a shape; nanoGPT where its file is given."""
    of_ours = ["-m", "benchmarks.ours_train", "--peer", OURS]
    found = {f"{OURS} {mode}": [*of_ours, flag] for mode, flag in COMPILING.items()}
    for peer in PEERS_OF_SHAPE[shape]:
        if peer == "nanoGPT" and nanogpt is None:
            continue
        own = ["--nanogpt", nanogpt] if peer == "nanoGPT" and nanogpt else []
        command = ["-m", "benchmarks.peers.train", "--peer", peer, *own]
        found |= {f"{peer} {mode}": [*command, flag] for mode, flag in COMPILING.items()}
        if peer in WITH_FUSED and shape != "encoder-decoder":  # T5's scores have a bias, so that there is one form
            found[f"{peer} compiled sdpa"] = [*command, "--compile", "--attention", "sdpa"]
    return {name: [*command, "--shape", shape, "--precision", precision] for name, command in found.items()}


def decoding(case: Case, extras: Sequence[str] = ()) -> Commands:
    """Everybody who decodes a case."""
    peers = "-m", "benchmarks.peers.decode", "--peer"
    ours = ["-m", "benchmarks.ours_decode", "--peer", OURS, "--mode"]
    found = {f"{OURS} default": [*ours, "default"]}
    if case.weights in PLAIN:
        found |= {f"{OURS} {mode}": [*ours, mode] for mode in ("compiled", "eager")}
        # litgpt's own loop generates one sequence, and it has neither latents nor these experts.
        libraries = ("litgpt", "transformers") if case.batch == 1 and case.model in ("dense", "gqa") else ("transformers",)
        modes = ("compiled", "eager", *(("frozen", "tuned") if "tuned" in extras else ()))
        found |= {f"{peer} {mode}": [*peers, peer, "--mode", mode] for mode in modes for peer in libraries}
    if "engine" in extras and case.weights not in OWN_ALONE:
        found[ENGINE] = ["-m", "benchmarks.ours_engine", "--peer", OURS]
    if "llama.cpp" in extras:
        found["llama.cpp"] = [*peers, "llama.cpp"]
    return asked(found, case)


def grid(case: Case, extras: Sequence[str] = ()) -> Commands:
    """Those of a grid of many cases: our default, transformers as it is, llama.cpp; with `engine`, ours on llama.cpp."""
    kept = (f"{OURS} default", ENGINE, "transformers eager", "llama.cpp")
    return {name: command for name, command in decoding(case, ("llama.cpp", *extras)).items() if name in kept}


def asked(commands: Commands, case: Case) -> Commands:
    """The same commands, asked for a case."""
    theirs = ON_ENGINE if ENGINE in commands else WEIGHTS

    def of(name: str) -> list[str]:
        weights = theirs[case.weights] if name == "llama.cpp" else case.weights
        numbers = ["--batch", str(case.batch), "--context", str(case.context)]
        return ["--model", case.model, "--weights", weights, *numbers]

    return {name: [*command, *of(name)] for name, command in commands.items()}
