"""Tokenizers learnt from text, here or in a process of its own: the library ignores signals while it counts."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import IO

from anyformer.data.pipes import environment, receive, send
from anyformer.data.recipes import train
from anyformer.data.tokenizer_specs import LearntSpec
from anyformer.describe import Value, from_json, to_json
from anyformer.text.errors import DataError
from anyformer.text.specials import Specials

CODE = "from anyformer.data.tokenizer_training import serve; serve()"
NONE = Specials()
"""No special token but the one that ends a text."""


class TokenizerTraining(Value):
    """A tokenizer to be learnt: its description, its special tokens, and the alphabet of the text."""

    spec: LearntSpec
    special: Specials
    alphabet: str


def learn(spec: LearntSpec, texts: Iterable[str], special: Specials = NONE, alphabet: str = "") -> str:
    """What is learnt from `texts`, which have an `alphabet` (see `recipes`): the text of a `tokenizer.json`."""
    return train(spec, special, alphabet, texts)


def learn_in_process(spec: LearntSpec, texts: Iterable[str], special: Specials = NONE, alphabet: str = "") -> str:
    """`learn` in a fresh interpreter, which is killed when this function ends, by a signal too."""
    process = subprocess.Popen([sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment())
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        send(process.stdin, [to_json(TokenizerTraining(spec=spec, special=special, alphabet=alphabet)).encode()])
        for text in texts:
            send(process.stdin, [text.encode()])
        process.stdin.close()
        return receive(process.stdout)[0].decode()
    except (OSError, EOFError):
        raise DataError(
            f"the process that learns tokens ended early with status {process.wait()} (below 0: killed by that signal; "
            "else see its message above); if memory ran out, set a smaller tokenizer.sample_bytes"
        ) from None
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


def serve() -> None:
    """The loop of that process: a task and texts on standard input until it closes, then the definition on standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr  # a stray print must not enter the answer
    task = from_json(TokenizerTraining, receive(sys.stdin.buffer)[0].decode())
    send(answers, [train(task.spec, task.special, task.alphabet, _texts(sys.stdin.buffer)).encode()])


def _texts(stream: IO[bytes]) -> Iterator[str]:
    while True:
        try:
            yield receive(stream)[0].decode()
        except EOFError:
            return
