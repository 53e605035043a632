"""An engine's own environment: its interpreter runs a script that reads a question and says rows of JSON, one line each."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PEERS = Path(__file__).parents[1] / "peers"
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


@dataclass(frozen=True)
class Scratch:
    """`python`: the interpreter that has the engine. `place`: a folder for directories, questions and logs. `names`: what to
    compare."""

    python: Path
    place: Path
    names: tuple[str, ...]

    def answers(
        self, script: Path, question: Any, *, environment: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> Iterator[dict[str, Any]]:
        """The lines that `python -P script QUESTION.json` prints, parsed, as they come.

        Any line that is not an object is the engine's talk.

        `environment`: variables besides those that keep every library off the network and on one thread. Raises `SystemExit`
        with the end of its messages where the script fails.
        """
        place = folder or self.place
        place.mkdir(parents=True, exist_ok=True)
        asked, log = place / f"{script.stem}.question.json", place / f"{script.stem}.log"
        asked.write_text(json.dumps(question), encoding="utf-8")
        kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        with (
            log.open("w", encoding="utf-8") as errors,
            subprocess.Popen(
                [self.python, "-P", script, asked], stdout=subprocess.PIPE, stderr=errors, text=True,
                env={**kept, **OFFLINE, **(environment or {})},
            ) as running,
        ):  # fmt: skip
            assert running.stdout is not None
            for line in running.stdout:
                if line.startswith("{"):
                    yield json.loads(line)
        if running.returncode:
            raise SystemExit(f"{script.name} ended with {running.returncode}: {log.read_text(encoding='utf-8')[-3000:]}")

    def versions(self, *packages: str) -> dict[str, str]:
        """Of packages in the engine's environment."""
        code = (
            "import json, sys; from importlib.metadata import version; print(json.dumps({p: version(p) for p in sys.argv[1:]}))"
        )
        done = subprocess.run([self.python, "-c", code, *packages], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{self.python} lacks one of {', '.join(packages)}: {done.stderr.strip().splitlines()[-1]}")
        found: dict[str, str] = json.loads(done.stdout)
        return found
