// Attention of whole rows on a processor, forward and backward: softmax(q k^T * scale over the visible keys) v.
//
// A task is one head of keys of one row, with all query heads that read it. Its keys and values are laid out and padded once, in
// fp32, or in bf16 where the processor multiplies pairs of that; scores exist for `BLOCK` queries at a time, in fp32, and of a
// causal row only up to the last key that one of them sees. Numbers are added up in fp32 in an order that depends on the row
// alone: neither on the batch nor on the threads.

#include "products.h"

#include <algorithm>
#include <cmath>

namespace {

constexpr int64_t BLOCK = 32;  // queries whose scores exist at a time; sizes are padded to a multiple of it
static_assert(BLOCK % ROWS == 0 && BLOCK % PANEL == 0, "tiles fill a block");

using Ints = const int64_t*;

inline int64_t padded(int64_t n) { return (n + BLOCK - 1) / BLOCK * BLOCK; }

// A tensor (B, heads, T, features): its first number, and its strides but for the last, which is 1.
template <typename N>
struct Tensor {
    N* data;
    int64_t by_row, by_head, by_position;
    N* of(int64_t row, int64_t head) const { return data + row * by_row + head * by_head; }
};

template <typename N>
void stored(const float* x, int64_t width, int64_t positions, int64_t features, N* to, int64_t by_position) {
    for (int64_t t = 0; t < positions; t++)
        for (int64_t e = 0; e < features; e++) store(to[t * by_position + e], x[t * width + e]);
}

struct Sizes {
    int64_t rows, heads, key_heads, queries, keys, width, value_width, causal;
    int64_t group() const { return heads / key_heads; }
    // Numbers from one query's scores to the next's: no power of two, whose lines would share a few places of the cache.
    int64_t row() const { return padded(keys) + LANES; }
    // Keys laid out for the block of queries that begins at `first`.
    int64_t read(int64_t first) const { return causal ? first + BLOCK : padded(keys); }
    // Keys that a query sees; one that only pads sees as many as the last.
    int64_t seen(int64_t query) const { return causal && query < queries ? query + 1 : keys; }
};

// Makes a query's scores to weights, in place. Returns the logarithm of the sum of their exponentials.
float weights(float* scores, int64_t seen, int64_t read) {
    for (int64_t s = seen; s < read; s++) scores[s] = -INFINITY;
    Floats most = at(scores);
    for (int64_t s = LANES; s < read; s += LANES) most = at(scores + s) > most ? at(scores + s) : most;
    const float top = greatest(most);
    Floats total = {};
    for (int64_t s = 0; s < read; s += LANES) total += at(scores + s) = exponential(at(scores + s) - top);
    for (int64_t s = seen; s < read; s++) scores[s] = 0;
    const float share = 1 / sum(total);
    for (int64_t s = 0; s < read; s += LANES) at(scores + s) *= share;
    return top - std::log(share);
}

// Makes a query's scores to weights, and the gradients of its weights to those of its scores before the factor, in place.
void weights_again(float* scores, float* gradients, float logarithm, float mean, float factor, int64_t seen, int64_t read) {
    for (int64_t s = 0; s < read; s += LANES) {
        at(scores + s) = exponential(at(scores + s) - logarithm);
        at(gradients + s) = at(scores + s) * (at(gradients + s) - mean) * factor;
    }
    for (int64_t s = seen; s < read; s++) scores[s] = gradients[s] = 0;
}

struct Buffer : std::vector<float> {
    Buffer(int64_t rows, int64_t width) : std::vector<float>(rows * width) {}
    operator float*() { return data(); }
};

template <typename N>
struct Forward {
    using Unit = typename Units<N>::Unit;
    Sizes sizes;
    float scale;
    Tensor<const N> q, k, v;
    Tensor<N> mixed;
    float* logarithms;

    void operator()(int64_t begin, int64_t end) const {
        constexpr int64_t D = Units<N>::DEPTH;
        const int64_t S = padded(sizes.keys), E = padded(sizes.width), U = padded(sizes.value_width), W = sizes.row();
        Laid<N> keys(S, E), values(S, U), queries(BLOCK, E);
        std::vector<Unit> keys_across(E / D * S);
        Sums<N> scores(BLOCK, W);
        Buffer own(BLOCK, U);
        for (int64_t task = begin; task < end; task++) {
            const int64_t row = task / sizes.key_heads, head = task % sizes.key_heads;
            keys.fill(k.of(row, head), k.by_position, sizes.keys, sizes.width);
            values.fill(v.of(row, head), v.by_position, sizes.keys, sizes.value_width);
            values.turn();
            transposed(keys.across(), S, E / D, keys_across.data());
            for (int64_t h = head * sizes.group(); h < (head + 1) * sizes.group(); h++)
                for (int64_t t = 0; t < sizes.queries; t += BLOCK) {
                    const int64_t there = std::min(BLOCK, sizes.queries - t), read = sizes.read(t);
                    queries.fill(q.of(row, h) + t * q.by_position, q.by_position, there, sizes.width);
                    product(BLOCK, read, E / D, queries.across(), E / D, 1, keys_across.data(), PANEL, E / D * PANEL, scores, W,
                            scale, false);
                    for (int64_t i = 0; i < BLOCK; i++) {
                        const float logarithm = weights(scores + i * W, std::min(sizes.seen(t + i), read), read);
                        if (i < there) logarithms[(row * sizes.heads + h) * sizes.queries + t + i] = logarithm;
                    }
                    product(BLOCK, U, read / D, scores.across(read), W / D, 1, values.down(), U, PANEL, own, U, 1, false);
                    stored<N>(own, U, there, sizes.value_width, mixed.of(row, h) + t * mixed.by_position, mixed.by_position);
                }
        }
    }
};

template <typename N>
struct Backward {
    using Unit = typename Units<N>::Unit;
    Sizes sizes;
    float scale;
    Tensor<const N> gradient, q, k, v, mixed;
    const float* logarithms;
    Tensor<N> of_q, of_k, of_v;

    void operator()(int64_t begin, int64_t end) const {
        constexpr int64_t D = Units<N>::DEPTH;
        const int64_t S = padded(sizes.keys), E = padded(sizes.width), U = padded(sizes.value_width), W = sizes.row();
        Laid<N> keys(S, E), values(S, U), queries(BLOCK, E), given(BLOCK, U), result(BLOCK, U);
        std::vector<Unit> keys_across(E / D * S), values_across(U / D * S);
        Sums<N> scores(BLOCK, W), changes(BLOCK, W);
        Buffer of_keys(S, E), of_values(S, U), of_queries(BLOCK, E);
        for (int64_t task = begin; task < end; task++) {
            const int64_t row = task / sizes.key_heads, head = task % sizes.key_heads;
            keys.fill(k.of(row, head), k.by_position, sizes.keys, sizes.width);
            keys.turn();
            values.fill(v.of(row, head), v.by_position, sizes.keys, sizes.value_width);
            transposed(keys.across(), S, E / D, keys_across.data());
            transposed(values.across(), S, U / D, values_across.data());
            std::fill(of_keys.begin(), of_keys.end(), 0.0f);
            std::fill(of_values.begin(), of_values.end(), 0.0f);
            for (int64_t h = head * sizes.group(); h < (head + 1) * sizes.group(); h++)
                for (int64_t t = 0; t < sizes.queries; t += BLOCK) {
                    const int64_t there = std::min(BLOCK, sizes.queries - t), read = sizes.read(t);
                    queries.fill(q.of(row, h) + t * q.by_position, q.by_position, there, sizes.width);
                    queries.turn();
                    given.fill(gradient.of(row, h) + t * gradient.by_position, gradient.by_position, there, sizes.value_width);
                    given.turn();
                    result.fill(mixed.of(row, h) + t * mixed.by_position, mixed.by_position, there, sizes.value_width);
                    product(BLOCK, read, E / D, queries.across(), E / D, 1, keys_across.data(), PANEL, E / D * PANEL, scores, W,
                            scale, false);
                    product(BLOCK, read, U / D, given.across(), U / D, 1, values_across.data(), PANEL, U / D * PANEL, changes,
                            W, 1, false);
                    for (int64_t i = 0; i < BLOCK; i++) {
                        Floats mean = {};
                        for (int64_t e = i * U / D; e < (i + 1) * U / D; e += LANES)
                            add_product(mean, at(given.across() + e), at(result.across() + e));
                        // A query that only pads has no weight.
                        const float logarithm = i < there ? logarithms[(row * sizes.heads + h) * sizes.queries + t + i] : INFINITY;
                        const int64_t seen = i < there ? std::min(sizes.seen(t + i), read) : 0;
                        weights_again(scores + i * W, changes + i * W, logarithm, sum(mean), scale, seen, read);
                    }
                    product(read, U, BLOCK / D, scores.down(read), 1, W, given.down(), U, PANEL, of_values, U, 1, true);
                    product(read, E, BLOCK / D, changes.down(read), 1, W, queries.down(), E, PANEL, of_keys, E, 1, true);
                    product(BLOCK, E, read / D, changes.across(read), W / D, 1, keys.down(), E, PANEL, of_queries, E, 1, false);
                    stored<N>(of_queries, E, there, sizes.width, of_q.of(row, h) + t * of_q.by_position, of_q.by_position);
                }
            stored<N>(of_keys, E, sizes.keys, sizes.width, of_k.of(row, head), of_k.by_position);
            stored<N>(of_values, U, sizes.keys, sizes.value_width, of_v.of(row, head), of_v.by_position);
        }
    }
};

// torch's own threads, by its stable interface.
using Shared = void (*)(int64_t begin, int64_t end, void* work);
using Parallel = int32_t (*)(int64_t begin, int64_t end, int64_t grain, Shared work, void* given);

template <typename Work>
int32_t among_threads(const Work& work, Parallel parallel) {
    const Shared part = [](int64_t begin, int64_t end, void* given) { (*static_cast<const Work*>(given))(begin, end); };
    return parallel(0, work.sizes.rows * work.sizes.key_heads, 1, part, const_cast<Work*>(&work));
}

template <typename N>
Tensor<N> tensor(void* const* data, Ints strides, int number) {
    return {static_cast<N*>(data[number]), strides[3 * number], strides[3 * number + 1], strides[3 * number + 2]};
}

template <typename N>
int32_t forward(Parallel parallel, Sizes sizes, float scale, void* const* data, Ints strides) {
    const auto x = [&](int number) { return tensor<const N>(data, strides, number); };
    return among_threads(
        Forward<N>{sizes, scale, x(0), x(1), x(2), tensor<N>(data, strides, 3), static_cast<float*>(data[4])}, parallel);
}

template <typename N>
int32_t backward(Parallel parallel, Sizes sizes, float scale, void* const* data, Ints strides) {
    const auto x = [&](int number) { return tensor<const N>(data, strides, number); };
    const auto y = [&](int number) { return tensor<N>(data, strides, number); };
    return among_threads(
        Backward<N>{sizes, scale, x(0), x(1), x(2), x(3), x(4), static_cast<float*>(data[5]), y(6), y(7), y(8)}, parallel);
}
}  // namespace

// Tensors by number: q, k, v, mixed, logarithms; backward: the gradient of mixed, these five, the gradients of q, k and v.
extern "C" {
int32_t forward_fp32(Parallel parallel, Sizes sizes, float scale, void* const* data, Ints strides) {
    return forward<float>(parallel, sizes, scale, data, strides);
}
int32_t forward_bf16(Parallel parallel, Sizes sizes, float scale, void* const* data, Ints strides) {
    return forward<BFloat16>(parallel, sizes, scale, data, strides);
}
int32_t backward_fp32(Parallel parallel, Sizes sizes, float scale, void* const* data, Ints strides) {
    return backward<float>(parallel, sizes, scale, data, strides);
}
int32_t backward_bf16(Parallel parallel, Sizes sizes, float scale, void* const* data, Ints strides) {
    return backward<BFloat16>(parallel, sizes, scale, data, strides);
}
}
