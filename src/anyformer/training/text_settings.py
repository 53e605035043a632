"""What stands beside the weights that a run starts from, kept with the run."""

from __future__ import annotations

from os.path import abspath
from pathlib import Path

from anyformer.data import Data, TokenizerFile
from anyformer.loading import beside
from anyformer.text import Tokenizer
from anyformer.text.beside import FOLDER, OF_TEXT, TEMPLATES, Beside
from anyformer.training.run import Run
from anyformer.training.starting import WITHOUT_TEXT


def kept_beside(run: Run, directory: Path) -> Data:
    """The data of a run, after what stands beside the weights that it starts from was copied into the run's own directory.

    So the run can go on without them. Where it has a tokenizer of its own, files about text are not its own and stay behind.
    """
    data = run.data
    if isinstance(data.tokenizer, TokenizerFile):
        Tokenizer.load(data.tokenizer.path).beside.keep(directory)
        return data.but(tokenizer=TokenizerFile(path=abspath(directory)))
    if run.start_from is not None:
        own = beside(run.start_from)
        templates = [name for name in own.files if name.startswith(TEMPLATES)]
        strange = () if data.kind in WITHOUT_TEXT else (*OF_TEXT, *templates)
        own.but(dict.fromkeys(strange)).keep(directory)
    return data


def beside_of(tokenizer: Tokenizer, directory: Path) -> Beside:
    """What stands beside the weights of a run's checkpoints: its tokenizer's files, and those kept of what it started from."""
    kept = Beside.read(directory).files if (directory / FOLDER).is_dir() else {}
    return tokenizer.beside.but(kept)
