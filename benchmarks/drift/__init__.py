"""Every key of every model type is moved from its default: here and in transformers the result is equal, or the key refused.

    python -m benchmarks.drift
    python -m benchmarks.drift --quick

Pairs of a model type and a key that no test moves come first. A tiny random model is made by transformers with the key moved,
saved, loaded here, and both are asked for the logits of a batch, of a padded batch, and token by token. One line is written for
each value that was tried, and a rerun goes on where it stopped; the table goes to `results/drift.json`.

While the unmoved model is made and computes (also in training, and a loss), every key that any code of transformers asks for is
remembered. A key that none asks for moves nothing there; that its configuration is read here as before is then the whole
comparison, and no model is made (`--quick` tries these keys alone). Where a key moves no logit, the line says why: what it
moves instead (training, the loss, first values, other outputs), or who asks for it.
"""
