"""Every key of every model type is moved from its default: here and in transformers the result is equal, or the key refused.

    python -m benchmarks.drift

Pairs of a model type and a key that no test moves come first. A tiny random model is made by transformers with the key moved,
saved, loaded here, and both are asked for the logits of a batch, of a padded batch, and token by token. One line is written for
each value that was tried, and a rerun goes on where it stopped; the table goes to `results/drift.json`.
"""
