"""A model with another number of tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.describe import change
from anyformer.model import InputError, Transformer


def resized(model: Transformer, vocab: int, *, mean: bool) -> Transformer:
    """The model with `vocab` rows in its embedding and, where the head has a logit per token, as many logits.

    New rows are the mean of the old if `mean`, which leaves the odds between old tokens; else they start as in training.
    """
    architecture = model.architecture
    if vocab == architecture.embedding.symbols:
        return model
    if architecture.decoder_embedding is not None:
        raise InputError(
            "resize_token_embeddings: source and target have a table each; change the architecture by path instead"
        )
    wanted = change(architecture, "embedding.vocab", vocab)
    with torch.device("meta"):
        fresh = Transformer(wanted, model.plan)
    seed = int(torch.randint(0, 2**31, ()))
    tensors: dict[str, Tensor] = {}
    for name, old in model.named_parameters(remove_duplicate=False):
        weight = fresh.declared.get(name)
        if weight is None or weight.shape == old.shape:
            tensors[name] = old
            continue
        start = old.detach()
        more = weight.shape[0] - len(start)
        rows = start.mean(0, keepdim=True).expand(max(more, 0), *start.shape[1:])
        if not mean:
            rows = wanted.initialisation.fill(weight, name, seed)[len(start) :].to(start)
        tensors[name] = nn.Parameter(torch.cat([start[: weight.shape[0]], rows]), requires_grad=old.requires_grad)
    fresh.load_state_dict(tensors, assign=True)
    return fresh.train(model.training)
