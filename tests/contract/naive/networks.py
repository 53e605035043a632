"""Activations and feed-forward networks."""

from __future__ import annotations

import math

import torch

from naive.basics import factor, linear, low_rank, norm, scaled, softplus


def xielu(x, positive, negative):
    a, b = softplus(positive), 0.5 + softplus(negative)
    return torch.where(x > 0, a * x**2 + 0.5 * x, b * (torch.exp(x.clamp(max=0)) - 1 - x) + 0.5 * x)


ACTIVATIONS = {
    "relu": lambda x: x * (x > 0),
    "relu_squared": lambda x: (x * (x > 0)) ** 2,
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "quick_gelu": lambda x: x / (1 + torch.exp(-1.702 * x)),
    "sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
    "tanh": lambda x: (torch.exp(x) - torch.exp(-x)) / (torch.exp(x) + torch.exp(-x)),
    "silu": lambda x: x / (1 + torch.exp(-x)),
    "softplus": softplus,
    "prelu": lambda x, slope: x * torch.where(x > 0, 1, slope),
    "swish": lambda x, beta: x / (1 + torch.exp(-beta * x)),
    "xielu": xielu,
}
"""Formulas by name; what an activation learns is given by name."""


def activate(part, name, weights, x):
    if part.activation is None:
        return x
    assert part.activation in ACTIVATIONS, f"write the formula of {part.activation!r} into ACTIVATIONS of {__file__}"
    prefix = f"{name}.activation."
    learned = {key.removeprefix(prefix): weight for key, weight in weights.items() if key.startswith(prefix)}
    return ACTIVATIONS[part.activation](x, **learned)


def gate(part, name, weights, v, gain=1.0):
    """An output gate: of each feature, or of each head; `gain`: a factor of what its activation reads."""
    read = v if part.rank is None else linear(f"{name}.down", weights, v)
    logits = linear(f"{name}.projection", weights, read)
    if part.bias == "head":
        each = weights[f"{name}.bias"]
        logits = logits + torch.stack([each[f * len(each) // len(logits)] for f in range(len(logits))])
    return activate(part, name, weights, gain * logits)


def between(part, act, gate, up):
    """What stands between a network's projections."""
    bound = math.inf if part.clamp is None else part.clamp
    if part.caps is not None:
        cap = lambda v, bound: bound * torch.tanh(v / bound)  # noqa: E731
        z = gate * part.gate_multiplier
        return act(z) * cap(z, part.caps.gate) * cap(up, part.caps.up)
    early = part.clamp_at == "before_activation"
    bounded = lambda v: act(v.clamp(max=bound)) if early else act(v).clamp(max=bound)  # noqa: E731
    return bounded(up) if gate is None else bounded(gate * part.gate_multiplier) * (up.clamp(-bound, bound) + part.up_offset)


def kept(sparse, v):
    """The features of a vector beyond a threshold."""
    mean = sum(v) / len(v)
    deviation = torch.sqrt(sum((e - mean) ** 2 for e in v) / len(v))
    quantile = math.sqrt(2) * torch.erfinv(torch.tensor(2 * sparse.sparsity - 1, dtype=torch.float64))
    return torch.stack([(e - mean - quantile * deviation).clamp(min=0) for e in v])


def feedforward(part, name, weights, x, run):
    out = []
    for v in x:
        gate, up = linear(f"{name}.gate", weights, v) if part.gated else None, linear(f"{name}.up", weights, v)
        if part.lora is not None:
            gate = gate + low_rank(f"{name}.lora", "gate", weights, v, run.turn) if part.gated else None
            up = up + low_rank(f"{name}.lora", "up", weights, v, run.turn)
        if part.gains is not None:
            gate = scaled(part.gains, weights[f"{name}.gate_gain"]) * gate if part.gated else None
            up = scaled(part.gains, weights[f"{name}.up_gain"]) * up
        if part.sparse is not None:
            gate, up = (kept(part.sparse, gate), up) if part.gated else (gate, kept(part.sparse, up))
        h = between(part, lambda z: activate(part, name, weights, z), gate, up)
        out.append(linear(f"{name}.down", weights, norm(part.sub_norm, f"{name}.sub_norm", weights, h)))
    return out


def layer_embedding(part, name, weights, x, run):
    rows = [weights[f"{name}.table.weight"][token] * part.scale for token in run.tokens]
    gates = [activate(part, name, weights, linear(f"{name}.input", weights, v)) for v in x]
    return [linear(f"{name}.output", weights, gate * row) for gate, row in zip(gates, rows, strict=True)]


def layer_input(part, name, weights, x, run):
    """The gate of `layer_embedding`, on features that the stack made for each layer."""
    own = [features[run.layer if part.layer is None else part.layer] for features in run.layer_inputs]
    gates = [activate(part, name, weights, linear(f"{name}.input", weights, v)) for v in x]
    return [linear(f"{name}.output", weights, gate * u) for gate, u in zip(gates, own, strict=True)]


def layer_inputs(part, name, weights, x, tokens, depth):
    """For every position the features of each layer."""
    made = []
    for t, v in enumerate(x):
        features = []
        for layer in range(depth):
            rows = slice(layer * part.width, (layer + 1) * part.width)
            u = weights[f"{name}.projection.weight"][rows] @ v * factor(part.projection_scale, len(v))
            u = norm(part.norm, f"{name}.norm", weights, u)
            if part.vocab is not None:
                row = tokens[t] if part.beyond is None or tokens[t] < part.vocab else part.beyond
                u = u + part.table_scale * weights[f"{name}.table"][row, rows]
            features.append(part.factor * u)
        made.append(features)
    return made
