"""The call that an engine makes on its machine: it runs the process of one trial to its end."""

from __future__ import annotations

from pathlib import Path

from anyformer.studies.runner import OUTPUT, process_of


def run_there(directory: str, threads: int) -> int:
    """Train the trial of a directory, which this machine shares; its exit code. If stopped it saves what it has."""
    place = Path(directory)
    with (place / OUTPUT).open("ab") as output:
        process = process_of(place, threads, output)
    try:
        return process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
