"""A plain script of transformers: continue a prompt by the likeliest tokens, each printed as it comes.

python benchmarks/peers/continue.py DIRECTORY PROMPT TOKENS
"""

from __future__ import annotations

import sys

from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.generation.streamers import BaseStreamer


class Printed(BaseStreamer):
    """Prints every token at once; the one of the library holds text back until a word ends."""

    def __init__(self, tokenizer) -> None:
        self.tokenizer, self.prompted = tokenizer, False

    def put(self, value) -> None:
        if self.prompted:
            print(self.tokenizer.decode(value), end="", flush=True)
        self.prompted = True

    def end(self) -> None:
        print()


def main(directory: str, prompt: str, tokens: int) -> None:
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForCausalLM.from_pretrained(directory)
    print(prompt, end="", flush=True)
    model.generate(
        **tokenizer(prompt, return_tensors="pt"), streamer=Printed(tokenizer), do_sample=False,
        max_new_tokens=tokens, min_new_tokens=tokens,
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
