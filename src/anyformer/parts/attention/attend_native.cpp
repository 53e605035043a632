// Attention of whole rows on a processor, forward and backward: softmax(q k^T * scale over the visible keys) v.
//
// A task is one head of keys of one row, with all query heads that read it. Its keys and values are laid out in fp32 and padded
// once; scores exist for `BLOCK` queries at a time, and of a causal row only up to the last key that one of them sees. Numbers
// are added up in fp32 in an order that depends on the row alone: neither on the batch nor on the threads.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace {

#ifdef __AVX512F__
constexpr int LANES = 16, ROWS = 8, COLUMNS = 2;  // a tile of ROWS x (COLUMNS * LANES) sums stays in registers
#else
constexpr int LANES = 8, ROWS = 4, COLUMNS = 2;
#endif
constexpr int64_t BLOCK = 32;  // queries whose scores exist at a time; sizes are padded to a multiple of it
static_assert(BLOCK % ROWS == 0 && BLOCK % (COLUMNS * LANES) == 0, "tiles fill a block");

typedef float Floats __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t Integers __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
using Ints = const int64_t*;

inline Floats& at(float* p) { return *reinterpret_cast<Floats*>(p); }
inline const Floats& at(const float* p) { return *reinterpret_cast<const Floats*>(p); }
inline Floats all(float x) { return x - Floats{}; }
inline int64_t padded(int64_t n) { return (n + BLOCK - 1) / BLOCK * BLOCK; }

inline float sum(Floats x) {
    float total = 0;
    for (int i = 0; i < LANES; i++) total += x[i];
    return total;
}

inline float greatest(Floats x) {
    float most = x[0];
    for (int i = 1; i < LANES; i++) most = x[i] > most ? x[i] : most;
    return most;
}

// e^x of x <= 0: 2^n e^r with |r| <= ln(2) / 2, and for e^r its Taylor polynomial of the sixth degree.
inline Floats exponential(Floats x) {
    x = x < -87.0f ? all(-87.0f) : x;
    const Floats scaled = x * 1.44269504088896341f - 0.5f;
    const Integers n = __builtin_convertvector(scaled, Integers);  // towards zero: the nearest, of numbers <= 0
    const Floats whole = __builtin_convertvector(n, Floats);
    const Floats r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    Floats p = all(1.0f / 720);
    for (const float next : {1.0f / 120, 1.0f / 24, 1.0f / 6, 1.0f / 2, 1.0f, 1.0f}) p = p * r + next;
    const Integers bits = (n + 127) << 23;
    Floats power;
    std::memcpy(&power, &bits, sizeof power);
    return p * power;
}

struct BFloat16 {
    uint16_t bits;
};
inline float number(float x) { return x; }
inline float number(BFloat16 x) {
    const uint32_t bits = uint32_t(x.bits) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
inline void store(float& to, float x) { to = x; }
inline void store(BFloat16& to, float x) {  // to the nearest, ties to even
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    to.bits = x != x ? 0x7fc0 : uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

constexpr int64_t PANEL = COLUMNS * LANES;

// C (+)= factor * A B, with A(m, k) = a[m * by_m + k * by_k], and rows of B and C of `wide` and `width` numbers. The columns of B
// lie in panels of PANEL, `apart` numbers from one to the next: PANEL where rows are whole.
inline void tile(int64_t K, const float* a, int64_t by_m, int64_t by_k, const float* b, int64_t wide, float* c, int64_t width,
                 float factor, bool adds) {
    Floats sums[ROWS][COLUMNS] = {};
    for (int64_t k = 0; k < K; k++) {
        Floats row[COLUMNS];
#pragma GCC unroll 4
        for (int j = 0; j < COLUMNS; j++) row[j] = at(b + k * wide + j * LANES);
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            const Floats x = all(a[i * by_m + k * by_k]);
#pragma GCC unroll 4
            for (int j = 0; j < COLUMNS; j++) sums[i][j] += x * row[j];
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < COLUMNS; j++) {
            Floats& to = at(c + i * width + j * LANES);
            to = adds ? to + factor * sums[i][j] : factor * sums[i][j];
        }
}

void product(int64_t M, int64_t N, int64_t K, const float* a, int64_t by_m, int64_t by_k, const float* b, int64_t wide,
             int64_t apart, float* c, int64_t width, float factor, bool adds) {
    for (int64_t n = 0; n < N; n += PANEL)
        for (int64_t m = 0; m < M; m += ROWS)
            tile(K, a + m * by_m, by_m, by_k, b + n / PANEL * apart, wide, c + m * width + n, width, factor, adds);
}

// A tensor (B, heads, T, features): its first number, and its strides but for the last, which is 1.
template <typename N>
struct Tensor {
    N* data;
    int64_t by_row, by_head, by_position;
    N* of(int64_t row, int64_t head) const { return data + row * by_row + head * by_head; }
};

// (positions, features) as fp32, (rows, width), zero where padded; transposed: (width, rows).
template <typename N>
void laid_out(const N* x, int64_t by_position, int64_t positions, int64_t features, float* to, int64_t rows, int64_t width) {
    for (int64_t t = 0; t < rows; t++) {
        float* line = to + t * width;
        const int64_t filled = t < positions ? features : 0;
        for (int64_t e = 0; e < filled; e++) line[e] = number(x[t * by_position + e]);
        for (int64_t e = filled; e < width; e++) line[e] = 0;
    }
}

// (rows, width) -> (width, rows), in panels of PANEL columns.
void transposed(const float* x, int64_t rows, int64_t width, float* to) {
    for (int64_t t = 0; t < rows; t += PANEL, to += PANEL * width)
        for (int64_t e = 0; e < width; e++)
            for (int64_t i = 0; i < PANEL; i++) to[e * PANEL + i] = x[(t + i) * width + e];
}

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
    Sizes sizes;
    float scale;
    Tensor<const N> q, k, v;
    Tensor<N> mixed;
    float* logarithms;

    void operator()(int64_t begin, int64_t end) const {
        const int64_t S = padded(sizes.keys), E = padded(sizes.width), U = padded(sizes.value_width), W = sizes.row();
        Buffer keys(S, E), keys_across(E, S), values(S, U), queries(BLOCK, E), scores(BLOCK, W), own(BLOCK, U);
        for (int64_t task = begin; task < end; task++) {
            const int64_t row = task / sizes.key_heads, head = task % sizes.key_heads;
            laid_out<const N>(k.of(row, head), k.by_position, sizes.keys, sizes.width, keys, S, E);
            laid_out<const N>(v.of(row, head), v.by_position, sizes.keys, sizes.value_width, values, S, U);
            transposed(keys, S, E, keys_across);
            for (int64_t h = head * sizes.group(); h < (head + 1) * sizes.group(); h++)
                for (int64_t t = 0; t < sizes.queries; t += BLOCK) {
                    const int64_t there = std::min(BLOCK, sizes.queries - t), read = sizes.read(t);
                    laid_out<const N>(q.of(row, h) + t * q.by_position, q.by_position, there, sizes.width, queries, BLOCK, E);
                    product(BLOCK, read, E, queries, E, 1, keys_across, PANEL, E * PANEL, scores, W, scale, false);
                    for (int64_t i = 0; i < BLOCK; i++) {
                        const float logarithm = weights(scores + i * W, std::min(sizes.seen(t + i), read), read);
                        if (i < there) logarithms[(row * sizes.heads + h) * sizes.queries + t + i] = logarithm;
                    }
                    product(BLOCK, U, read, scores, W, 1, values, U, PANEL, own, U, 1, false);
                    stored<N>(own, U, there, sizes.value_width, mixed.of(row, h) + t * mixed.by_position, mixed.by_position);
                }
        }
    }
};

template <typename N>
struct Backward {
    Sizes sizes;
    float scale;
    Tensor<const N> gradient, q, k, v, mixed;
    const float* logarithms;
    Tensor<N> of_q, of_k, of_v;

    void operator()(int64_t begin, int64_t end) const {
        const int64_t S = padded(sizes.keys), E = padded(sizes.width), U = padded(sizes.value_width), W = sizes.row();
        Buffer keys(S, E), keys_across(E, S), values(S, U), values_across(U, S), of_keys(S, E), of_values(S, U);
        Buffer queries(BLOCK, E), given(BLOCK, U), result(BLOCK, U), scores(BLOCK, W), changes(BLOCK, W), of_queries(BLOCK, E);
        for (int64_t task = begin; task < end; task++) {
            const int64_t row = task / sizes.key_heads, head = task % sizes.key_heads;
            laid_out<const N>(k.of(row, head), k.by_position, sizes.keys, sizes.width, keys, S, E);
            laid_out<const N>(v.of(row, head), v.by_position, sizes.keys, sizes.value_width, values, S, U);
            transposed(keys, S, E, keys_across);
            transposed(values, S, U, values_across);
            std::fill(of_keys.begin(), of_keys.end(), 0.0f);
            std::fill(of_values.begin(), of_values.end(), 0.0f);
            for (int64_t h = head * sizes.group(); h < (head + 1) * sizes.group(); h++)
                for (int64_t t = 0; t < sizes.queries; t += BLOCK) {
                    const int64_t there = std::min(BLOCK, sizes.queries - t), read = sizes.read(t);
                    laid_out<const N>(q.of(row, h) + t * q.by_position, q.by_position, there, sizes.width, queries, BLOCK, E);
                    for (auto [x, to] : {std::pair{&gradient, &given}, std::pair{&mixed, &result}})
                        laid_out<const N>(
                            x->of(row, h) + t * x->by_position, x->by_position, there, sizes.value_width, *to, BLOCK, U);
                    product(BLOCK, read, E, queries, E, 1, keys_across, PANEL, E * PANEL, scores, W, scale, false);
                    product(BLOCK, read, U, given, U, 1, values_across, PANEL, U * PANEL, changes, W, 1, false);
                    for (int64_t i = 0; i < BLOCK; i++) {
                        Floats mean = {};
                        for (int64_t e = 0; e < U; e += LANES) mean += at(given + i * U + e) * at(result + i * U + e);
                        // A query that only pads has no weight.
                        const float logarithm = i < there ? logarithms[(row * sizes.heads + h) * sizes.queries + t + i] : INFINITY;
                        const int64_t seen = i < there ? std::min(sizes.seen(t + i), read) : 0;
                        weights_again(scores + i * W, changes + i * W, logarithm, sum(mean), scale, seen, read);
                    }
                    product(read, U, BLOCK, scores, 1, W, given, U, PANEL, of_values, U, 1, true);
                    product(read, E, BLOCK, changes, 1, W, queries, E, PANEL, of_keys, E, 1, true);
                    product(BLOCK, E, read, changes, W, 1, keys, E, PANEL, of_queries, E, 1, false);
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
