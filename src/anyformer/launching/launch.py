"""`Launch`: a run, and the processes that share it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Launch:
    """The run of a file, in `gpus` processes on each of `nodes` machines; its directory is `out`."""

    run: str
    out: str
    nodes: int
    gpus: int

    @property
    def name(self) -> str:
        """The run's name as every cluster takes it: small letters, digits and hyphens."""
        return re.sub(r"[^a-z0-9]+", "-", Path(self.run).stem.lower()).strip("-")[:40].rstrip("-") or "run"

    @property
    def head(self) -> str:
        """The first line of a script, for whoever reads it."""
        some = f"{self.nodes} node{'s' * (self.nodes > 1)} with {self.gpus} process{'es' * (self.gpus > 1)} each"
        return f"# anyformer launch: {self.run} on {some}, kept in {self.out}"


def waited(job: str, code: str, what: str) -> str:
    """Lines of shell that wait for a job to end, and put its exit code into a variable.

    `job`: the variable with its number; `what`: its name in the comment.
    """
    return f"""\
wait "${job}"
{code}=$?
while [ "${code}" -gt 128 ] && kill -0 "${job}" 2>/dev/null; do # a signal ended the wait, not the {what}
  wait "${job}"
  {code}=$?
done"""


def folded(words: list[str]) -> str:
    """A command over several lines of shell: torchrun's options, its rendezvous, the program."""
    breaks = {"--rdzv-backend", "-m"}
    return " ".join(f"\\\n  {word}" if word in breaks else word for word in words)
