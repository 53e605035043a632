"""Layers in order, on as many streams as there are."""

from __future__ import annotations

import torch

from naive import alternating
from naive.attention import attention, cross_attention, latent_attention
from naive.basics import convolved_positions, linear, norm, position, scaled
from naive.compressed import compressed_attention
from naive.dictionaries import dictionary
from naive.experts import attention_experts, experts, latent_experts
from naive.memories import MEMORIES
from naive.modulation import condition, modulation
from naive.networks import feedforward, layer_embedding, layer_input, layer_inputs
from naive.ngrams import engram, hashed_ngrams
from naive.recurrent import RECURRENT
from naive.scales import channel_cross_attention, spatial_cross_attention


class Running:
    """What the layers of one stack share in one call."""

    def __init__(self, stack, name, source, prefix, tokens, until=None, axes=None, places=None):
        self.stack, self.name, self.source, self.prefix, self.tokens = stack, name, source, prefix, tokens
        self.until = until  # the last position that each query sees, whatever its mask says
        self.axes, self.places = axes, places  # the positions on several axes, and those that masks read, where others
        self.memories, self.values, self.chosen, self.variant, self.layer, self.turn = {}, {}, {}, "", 0, 0
        self.condition = self.sides = None
        self.streams = {}  # behind the latest layer of each variant; of None, what enters the layers


def run_stack(
    stack, name, weights, x, source, prefix, tokens, until=None, axes=None, places=None, added=(), behind=None,
    time=0.0, kind=None,
):  # fmt: skip
    run = Running(stack, name, source, prefix, tokens, until, axes, places)
    if stack.input_projection is not None and stack.input_projection.place == "first":
        x = [linear(f"{name}.input_projection", weights, v) for v in x]
    if stack.input_norm_at == "before_position":
        x = [norm(stack.input_norm, f"{name}.input_norm", weights, v) for v in x]
    if stack.position is not None and stack.position.kind == "convolutional_position":
        x = convolved_positions(stack.position, f"{name}.position", weights, x)
    elif stack.position is not None:
        x = [v + position(stack.position, t, weights.get(f"{name}.position.weight"), len(v)) for t, v in enumerate(x)]
    if stack.input_norm_at == "after_position":
        x = [norm(stack.input_norm, f"{name}.input_norm", weights, v) for v in x]
    if stack.input_projection is not None and stack.input_projection.place == "last":
        x = [linear(f"{name}.input_projection", weights, v) for v in x]
    if stack.condition is not None:
        run.condition = condition(stack.condition, f"{name}.condition", weights, time, kind)
    if stack.layer_inputs is not None:
        run.layer_inputs = layer_inputs(stack.layer_inputs, f"{name}.layer_inputs", weights, x, tokens, len(stack.layers))
    run.streams[None] = x
    own = f"{name}.streams"
    alternates = stack.streams is not None and stack.streams.kind == "alternating_updates"
    streams = None if stack.streams is None else [[v] * stack.streams.count for v in x]
    streams = [alternating.entering(stack.streams, own, weights, v) for v in x] if alternates else streams
    if stack.streams is not None and stack.streams.kind in DEEP:
        streams = [[v] + [torch.zeros_like(v)] * (stack.streams.count - 1) for v in x]
    for layer, variant in enumerate(stack.layers):
        # A shared variant's weights are those of its first layer.
        owner = stack.layers.index(variant) if variant in stack.shared_weights else layer
        path = f"{name}.layers.{owner}"
        run.variant, run.layer, entered = variant, owner, x
        run.turn = stack.layers[:layer].count(variant) if variant in stack.shared_weights else 0
        if alternates:
            streams = [alternating.predicted(stack.streams, f"{path}.streams", weights, v) for v in streams]
            entered = x = [v[0] for v in streams]
        late = [torch.zeros_like(v) for v in x]
        for number, step in enumerate(stack.variants[variant].steps):
            if step.residual == "inactive":
                break
            if streams is not None and not alternates:
                place = owner * len(stack.variants[variant].steps) + number
                deep = {"turn": run.turn, "inputs": step.inputs_of_depth} if stack.streams.kind in DEEP else {}
                weighed = [
                    WEIGH[stack.streams.kind](stack.streams, f"{path}.step_{number}_streams", weights, v, place, **deep)
                    for v in streams
                ]
                x = [read[0] if deep else read for read, _, _ in weighed]
                run.sides = (
                    [[read[side] for read, _, _ in weighed] for side in (1, 2)] if deep and len(weighed[0][0]) > 1 else None
                )
            x = [v.detach() for v in x] if step.residual == "detached" else x
            read = [norm(step.norm_before, f"{path}.step_{number}_norm_before", weights, v) for v in x]
            # Of n values in the stream, each has a share of 1 / n of the variance.
            n = 2 + owner * len(stack.variants[variant].steps) + number if step.residual_scale == "by_layer" else None
            scale, share = (step.residual_scale, 1.0) if n is None else (((n - 1) / n) ** 0.5, n**-0.5)
            nothing = [torch.zeros_like(v) for v in x]
            added_to = {"input": x, "detached": x, "normed": read, "block": entered, "none": nothing}[step.residual]
            x = [scale * v for v in added_to]
            given = given_by(step, number, path, weights, read, run, share, late)
            if streams is not None and not alternates:
                streams = [
                    [m + w * g for m, w in zip(mixed, write, strict=True)]
                    for (_, mixed, write), g in zip(weighed, given, strict=True)
                ]
            if step.interpolation is not None:
                rate = abs(scaled(step.interpolation, weights[f"{path}.step_{number}_interpolation"]))
                given = [rate * (b - a) for a, b in zip(x, given, strict=True)]
            x = [
                norm(step.norm_after, f"{path}.step_{number}_norm_after", weights, a + b) for a, b in zip(x, given, strict=True)
            ]
            x = [learned(step.gain, weights[f"{path}.step_{number}_gain"]) * v for v in x] if step.gain else x
        x = [a + b for a, b in zip(x, late, strict=True)]
        if alternates:
            streams = [
                alternating.corrected(stack.streams, f"{path}.streams", weights, v, found)
                for v, found in zip(streams, x, strict=True)
            ]
        for number, step in enumerate(stack.variants[variant].steps):
            if step.residual == "inactive":
                read = [norm(step.norm_before, f"{path}.step_{number}_norm_before", weights, v[0]) for v in streams]
                given = given_by(step, number, path, weights, read, run, 1.0, late)
                streams = [[v[0], *(other + g for other in v[1:])] for v, g in zip(streams, given, strict=True)]
        run.streams[variant] = x
        x = entered if stack.variants[variant].output == "aside" else x
        if layer < len(added):
            x = [v if more is None else v + more for v, more in zip(x, added[layer], strict=True)]
        if behind is not None:
            behind.append(x)
    if alternates:
        x = [alternating.leaving(stack.streams, own, weights, v) for v in streams]
    elif streams is not None and stack.streams.kind in DEEP:
        past = range(0)
        if stack.streams.kind == "looped_residuals":
            past = range(1 + stack.streams.before + stack.streams.looped, 1 + stack.streams.before + 2 * stack.streams.looped)
        kept = [[u for slot, u in enumerate(v) if slot not in past] for v in streams]
        x = [attended(stack.streams, f"{own}.leave", weights, v)[0] for v in kept]
    elif streams is not None and stack.streams.kind == "low_rank_connections":
        x = [gated_by_feature(stack.streams, f"{own}.leave", weights, v)[0] for v in streams]
    elif streams is not None and getattr(stack.streams, "merge", "sum") == "learned":
        x = [merged(stack.streams, f"{own}.leave", weights, v) for v in streams]
    elif streams is not None:
        share = 1 / stack.streams.count if getattr(stack.streams, "merge", "sum") == "mean" else 1.0
        x = [share * sum(v) for v in streams]
    shift, scale, _ = modulation(stack.final_modulation, f"{name}.final_modulation", weights, run.condition)
    return [norm(stack.final_norm, f"{name}.final_norm", weights, v) * (1 + scale) + shift for v in x]


def given_by(step, number, path, weights, read, run, share, late):
    """What the branches of a step give together; those that are added after the block are put to `late`."""
    given = [torch.zeros_like(v) for v in read]
    for branch_name, branch in step.branches.items():
        inner = f"{path}.{branch_name}"
        y = [norm(branch.norm_before, f"{inner}.norm_before", weights, v) for v in read]
        shift, scale, gate = modulation(branch.modulation, f"{inner}.modulation", weights, run.condition)
        y = [v * (1 + scale) + shift for v in y]
        kind = branch.sublayer.kind
        assert kind in SUBLAYERS, f"write {kind!r} in plain loops beside {__file__}, into RECURRENT or SUBLAYERS"
        y = SUBLAYERS[kind](branch.sublayer, f"{inner}.sublayer", weights, y, run)
        y = [v + weights[f"{inner}.output_bias"] for v in y] if branch.output_bias else y
        y = (
            y
            if branch.residual_convolution is None
            else convolved(branch.residual_convolution, weights[f"{inner}.residual_convolution.weight"], y)
        )
        y = [norm(branch.norm_after, f"{inner}.norm_after", weights, v) * gate for v in y]
        gain = learned(branch.gain, weights[f"{inner}.gain"]) if branch.gain else 1.0
        sums = given if branch.added is None else late
        sums[:] = [a + share * branch.multiplier * gain * b for a, b in zip(sums, y, strict=True)]
    return [norm(step.norm_branches, f"{path}.step_{number}_norm_branches", weights, v) for v in given]


def convolved(part, weight, x):
    """Each position with a weighted sum of itself and those before it."""
    n, share = part.kernel, (part.kernel + 1) ** -0.5 if part.normalised else 1.0
    return [share * (v + sum(weight[:, n - 1 - j] * x[t - j] for j in range(min(n, t + 1)))) for t, v in enumerate(x)]


def low_rank_residual(part, name, weights, x, run):
    narrow = [linear(f"{name}.up", weights, linear(f"{name}.down", weights, v)) for v in x]
    return [v + norm(part.norm, f"{name}.norm", weights, u) for v, u in zip(x, narrow, strict=True)]


def bottleneck(part, name, weights, x, run):
    """Attention and networks on narrow vectors, each added and normalised."""
    entered = {
        place: [norm(part.norm, f"{name}.norms.{place}", weights, linear(f"{name}.{place}", weights, v)) for v in x]
        for place in ("narrow", "shared")
    }

    def add(place, h, y):
        return [norm(part.norm, f"{name}.norms.{place}", weights, a + b) for a, b in zip(h, y, strict=True)]

    mixed = attention(part.attention, f"{name}.attention", weights, entered["shared"], run, of_values=x)
    h = add("attention", entered["narrow"], mixed)
    for i in range(part.networks):
        h = add(f"network_{i}", h, feedforward(part.network, f"{name}.networks.{i}", weights, h, run))
    return [linear(f"{name}.widen", weights, v) for v in h]


def learned(gain, weight):
    """The factor that a gain's weight stands for."""
    return torch.tanh(weight) if gain.bounded else weight


def weigh(part, name, weights, streams, place):
    """What a step reads of a position's streams, the mixed streams, and the weights it writes with."""
    N, read, mixed, write = part.count, 0, [0] * part.count, []
    for n, x in enumerate(streams):
        shift = torch.zeros(N + 2, dtype=torch.float64)
        if part.dynamic:
            shift = torch.tanh(weights[f"{name}.dynamic.weight"] @ (x / torch.sqrt((x * x).mean() + 1e-6)))
        strength = weights[f"{name}.strength"] if part.dynamic else torch.zeros(3)
        read = read + (weights[f"{name}.read_weight"][n] + (n == place % N) + strength[0] * shift[0]) * x
        write.append(weights[f"{name}.write_weight"][n] + 1 + strength[2] * shift[1])
        for to in range(N):
            mixed[to] = mixed[to] + (weights[f"{name}.mix_weight"][n, to] + (n == to) + strength[1] * shift[2 + to]) * x
    return read, mixed, write


def weigh_by_attention(part, name, weights, streams, place, turn, inputs):
    """A softmax over what stands: the input, earlier blocks of steps, and what the own block has so far."""
    standing = [v for i, v in enumerate(streams) if i == 0 or (i - 1) * part.block < place]
    write = [float(i == 1 + place // part.block) for i in range(part.count)]
    return attended(part, name, weights, standing) if place else [streams[0]], list(streams), write


def weigh_in_a_loop(part, name, weights, streams, place, turn, inputs):
    """The same, where some blocks are written again in every pass, and later passes have messages of the one before."""
    M, first, behind = part.looped, 1 + part.before, 1 + part.before + part.looped
    loop = M * part.block
    own = place if place < (part.before + M) * part.block else place - (part.passes - 1) * loop
    block, within = divmod(own, part.block)
    streams = list(streams)
    if turn and block == part.before and not within:
        nothing = [torch.zeros_like(v) for v in streams[first:behind]]
        streams[first : behind + M] = nothing + streams[first:behind]
    of_blocks = [v for i, v in enumerate(streams) if i > 0 and not behind <= i < behind + M]
    standing = [streams[0], *of_blocks[: block + (within > 0)]]
    read = attended(part, name, weights, standing) if place else [streams[0]]
    if turn and first - 1 <= block < behind - 1:
        messages = attended(part, f"{name}.message", weights, streams[behind : behind + M])
        read = read * (len(messages) // len(read))
        read = [
            gated(part.gate, f"{name}.gates.{i}", weights, h, m) for i, (h, m) in enumerate(zip(read, messages, strict=True))
        ]
    at = 1 + block + (M if block >= part.before + M else 0)
    return read, streams, [float(i == at) for i in range(part.count)]


def gated(part, name, weights, h, m):
    """A stream that forgets some of itself for a message."""
    unit = lambda v: v / torch.sqrt((v * v).mean() + part.eps)  # noqa: E731
    z = linear(f"{name}.down", weights, torch.cat([unit(h), unit(m)]))
    return (1 - torch.tanh(linear(f"{name}.forget", weights, z))) * h + torch.tanh(linear(f"{name}.message", weights, z)) * m


def attended(part, name, weights, values):
    """For each query the sum of values by a softmax of the products of their norms with it."""
    keys = [norm(part.norm, f"{name}.norm", weights, v) for v in values]
    sums = []
    for query in weights[f"{name}.query.weight"]:
        scores = torch.stack([part.scale * (query @ k) for k in keys]).exp()
        summed = zip(scores, keys if part.values == "normed" else values, strict=True)
        sums.append(sum(s / scores.sum() * v for s, v in summed))
    return sums


def weigh_on_manifold(part, name, weights, streams, place):
    """The same, with a doubly stochastic matrix."""
    N, eps = part.count, part.eps
    v = torch.cat(list(streams))
    v = v / torch.sqrt((v * v).mean() + part.norm_eps)
    made, start, s = weights[f"{name}.dynamic.weight"] @ v, weights[f"{name}.static"], weights[f"{name}.strength"]
    reads = [sigmoid(s[0] * made[n] + start[n]) + eps for n in range(N)]
    write = [2 * sigmoid(s[1] * made[n] + start[n]) for n in range(N, 2 * N)]
    rows = [[s[2] * made[i] + start[i] for i in range((k + 2) * N, (k + 3) * N)] for k in range(N)]
    mix = [[torch.exp(e) / sum(torch.exp(o) for o in row) + eps for e in row] for row in rows]
    for time in range(2 * part.iterations - 1):
        by_row = time % 2 == 1
        sums = [sum(row) if by_row else sum(r[k] for r in mix) for k, row in enumerate(mix)]
        mix = [[e / (sums[k if by_row else n] + eps) for n, e in enumerate(row)] for k, row in enumerate(mix)]
    mixed = [sum(mix[k][n] * streams[k] for k in range(N)) for n in range(N)]
    return sum(r * x for r, x in zip(reads, streams, strict=True)), mixed, write


def weigh_independently(part, name, weights, streams, place):
    """The same, of streams that stay apart."""
    N, v = part.count, torch.cat(list(streams))
    v = v / torch.sqrt((v * v).mean() + part.norm_eps)
    made, start, s = weights[f"{name}.dynamic.weight"] @ v, weights[f"{name}.static"], weights[f"{name}.strength"]
    read = sum((sigmoid(s[0] * made[n] + start[n]) + part.eps) * x for n, x in enumerate(streams))
    write = [part.magnitude * sigmoid(s[1] * made[N + n] + start[N + n]) + part.eps for n in range(N)]
    return read, list(streams), write


def weigh_by_feature(part, name, weights, streams, place):
    """Streams that stay apart, read feature by feature."""
    read, v = gated_by_feature(part, name, weights, streams)
    made = weights[f"{name}.write.weight"] @ v / part.count
    return read, list(streams), [2 * sigmoid(e) for e in made]


def gated_by_feature(part, name, weights, streams):
    """The mean of the normed streams, each feature of each by a gate, and all of them side by side."""
    v = torch.cat([x / torch.sqrt((x * x).mean() + part.eps) for x in streams]) * (1 + weights[f"{name}.gain"])
    narrow = weights[f"{name}.down.weight"] @ v / part.count
    gates = sigmoid(weights[f"{name}.up.weight"] @ (narrow * sigmoid(narrow)))
    return sum((gates * v).split(len(v) // part.count)) / part.count, v


def weigh_by_gates(part, name, weights, streams, place):
    """Each feature of a stream keeps its share; that of what is written follows from it."""
    shares = [sigmoid(g / part.temperature) for g in weights[f"{name}.gate"]]
    kept = [torch.sqrt((1 - b * b).clamp(min=part.least)) * x for b, x in zip(shares, streams, strict=True)]
    return sum(streams) / part.count, kept, shares


def weigh_by_factors(part, name, weights, streams, place):
    kept = [g * x for g, x in zip(weights[f"{name}.gain"], streams, strict=True)]
    return sum(streams) / part.count, kept, [1.0] * part.count


def merged(part, name, weights, streams):
    """The streams behind the last layer, each by a weight of the token."""
    v = torch.cat(list(streams))
    v = v / torch.sqrt((v * v).mean() + part.norm_eps)
    made, start, s = weights[f"{name}.dynamic.weight"] @ v, weights[f"{name}.static"], weights[f"{name}.strength"]
    return sum((sigmoid(s[0] * made[n] + start[n]) + part.eps) * x for n, x in enumerate(streams))


def sigmoid(x):
    return 1 / (1 + torch.exp(-x))


DEEP = ("attention_residuals", "looped_residuals")
"""Streams that are values of the depth."""
WEIGH = {
    "hyper_connections": weigh,
    "manifold_connections": weigh_on_manifold,
    "attention_residuals": weigh_by_attention,
    "looped_residuals": weigh_in_a_loop,
    "independent_connections": weigh_independently,
    "low_rank_connections": weigh_by_feature,
    "gated_residual": weigh_by_gates,
    "scaled_residual": weigh_by_factors,
}


def induced_attention(part, name, weights, x, run):
    gather, scatter = Running(run.stack, run.name, x, 0, None), Running(run.stack, run.name, None, 0, None)
    scatter.source = cross_attention(part.attention, f"{name}.gather", weights, list(weights[f"{name}.points"]), gather)
    return cross_attention(part.attention, f"{name}.scatter", weights, x, scatter)


def fourier_mixing(part, name, weights, x, run):
    T, D = len(x), len(x[0])
    made = []
    for t in range(T):
        waves = [torch.cos(2 * torch.pi * (t * s / T + torch.arange(D)[:, None] * torch.arange(D) / D)) for s in range(T)]
        made.append(sum(wave.to(v.dtype) @ v for wave, v in zip(waves, x, strict=True)))
    return made


def skip(part, name, weights, x, run):
    earlier = [v.detach() if part.detached else v for v in run.streams[part.variant]]
    return [linear(f"{name}.projection", weights, v) for v in earlier] if part.projected else earlier


SUBLAYERS = (
    RECURRENT
    | MEMORIES
    | {
        "fourier_mixing": fourier_mixing,
        "induced_attention": induced_attention,
        "channel_cross_attention": channel_cross_attention,
        "spatial_cross_attention": spatial_cross_attention,
        "layer_embedding": layer_embedding,
        "layer_input": layer_input,
        "hashed_ngrams": hashed_ngrams,
        "engram": engram,
        "constant": lambda part, name, weights, x, run: [weights[f"{name}.vector"]] * len(x),
        "bottleneck": bottleneck,
        "dictionary": dictionary,
        "skip": skip,
        "low_rank_residual": low_rank_residual,
        "attention": attention,
        "compressed_attention": compressed_attention,
        "latent_attention": latent_attention,
        "cross_attention": cross_attention,
        "feedforward": feedforward,
        "experts": experts,
        "latent_experts": latent_experts,
        "attention_experts": attention_experts,
    }
)
