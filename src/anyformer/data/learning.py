"""Byte pairs learnt from text, here or in a process of its own: the library ignores signals while it counts."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import IO

import tokenizers
from tokenizers import Regex, decoders, models, pre_tokenizers, trainers

from anyformer.data.description import BytePairs
from anyformer.data.errors import DataError
from anyformer.data.pipes import environment, receive, send
from anyformer.data.tokenizers import END_OF_TEXT
from anyformer.describe import from_json, to_json

CODE = "from anyformer.data.learning import serve; serve()"


def learn(spec: BytePairs, texts: Iterable[str]) -> str:
    """Byte pairs learnt from `texts`: the text of a `tokenizer.json`."""
    inner = byte_level(models.BPE())
    # Words with the space or sign before them, digits apart, white space up to the last blank before a word (as in GPT-4).
    words = (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,DIGITS}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ).replace("DIGITS", str(spec.digits))
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(words), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=spec.vocab,
        min_frequency=2,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(texts, trainer)
    definition: str = inner.to_str()
    return definition


def learn_in_process(spec: BytePairs, texts: Iterable[str]) -> str:
    """`learn` in a fresh interpreter, which is killed when this function ends, by a signal too."""
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, to_json(spec)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
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
    """The loop of that process: texts on standard input until it closes, then the definition on standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr  # a stray print must not enter the answer
    send(answers, [learn(from_json(BytePairs, sys.argv[1]), _texts(sys.stdin.buffer)).encode()])


def _texts(stream: IO[bytes]) -> Iterator[str]:
    while True:
        try:
            yield receive(stream)[0].decode()
        except EOFError:
            return


def byte_level(model: models.BPE) -> tokenizers.Tokenizer:
    """A tokenizer whose symbols are bytes in GPT-2's letters."""
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    return inner
