"""Hugging Face `datasets` doing what `anyformer data prepare` does: read files, tokenise in processes, write token ids.

    python benchmarks/peers/prepare.py text|records SOURCE TOKENIZER OUT WORKERS

The way its documentation shows: `load_dataset`, a batched `map` over `num_proc` processes with the `tokenizers` library, then
the ids appended to one file of numbers. Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the parallelism is in the number of processes
os.environ["HF_HUB_OFFLINE"] = "1"

import datasets
import numpy as np
import tokenizers

END = "<|endoftext|>"


def main(what: str, source: Path, tokenizer: str, out: Path, workers: int) -> None:
    datasets.disable_progress_bars()
    inner = tokenizers.Tokenizer.from_file(tokenizer)
    inner.encode_special_tokens = True
    begin = time.perf_counter()
    files = [str(path) for path in sorted(source.iterdir())]
    if what == "text":
        loaded = datasets.load_dataset("text", data_files=files, sample_by="document", split="train", cache_dir=str(out))
        columns, end = ["text"], [inner.token_to_id(END)]
    else:
        loaded = datasets.load_dataset("json", data_files=files, split="train", cache_dir=str(out))
        columns, end = ["source", "target"], []

    def tokenise(batch: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        encoded = {name: inner.encode_batch_fast(batch[name], add_special_tokens=False) for name in columns}
        return {f"{name}_ids": [[*each.ids, *end] for each in found] for name, found in encoded.items()}

    size = 16 if what == "text" else 1000
    mapped = loaded.map(tokenise, batched=True, batch_size=size, num_proc=workers, remove_columns=loaded.column_names)
    counts = {}
    for name in columns:
        column, total, starts = f"{name}_ids", 0, [0]
        with (out / f"{name}.bin").open("wb") as file:
            for batch in mapped.select_columns(column).with_format("numpy").iter(batch_size=size):
                for ids in batch[column]:
                    file.write(np.asarray(ids).astype("<u2" if what == "text" else "<u4").tobytes())
                    total += len(ids)
                    starts.append(total)
        np.array(starts, dtype="<i8").tofile(out / f"{name}-starts.bin")
        counts[name] = total
    seconds = time.perf_counter() - begin
    # Peaks of resident memory: of this process, and of the largest of its children.
    own, child = (resource.getrusage(who).ru_maxrss * 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    said = {"seconds": seconds, "tokens": sum(counts.values()), "peak_own_bytes": own, "peak_child_bytes": child}
    print(json.dumps(said | {"version": datasets.__version__}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4]), int(sys.argv[5]))
