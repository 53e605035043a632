// x W^T of a few rows x by a matrix W of weights in the order in which it lies, of which every number is read once.

#pragma once

#include <utility>
#include <vector>

#include "matrix_in_4_bits.h"

namespace {

// Blocks of outputs: for every input (in bf16: every pair of inputs) the numbers of all outputs of the block lie side by side.
template <typename N, int WIDTH, int COUNT>
void by_block(const Product& p, const char* block, int64_t row, int64_t output) {
    constexpr int64_t EACH = WIDTH * LANES;
    const float* x[COUNT];
    for (int r = 0; r < COUNT; r++) x[r] = p.x + (row + r) * p.inputs;
    for (int64_t first = 0; first < p.block; first += EACH) {
        Floats sums[COUNT][WIDTH] = {}, more[COUNT][WIDTH] = {};
        if constexpr (sizeof(N) == 2) {
            for (int64_t i = 0; i + 1 < p.inputs; i += 2) {
                const char* line = block + (i / 2 * p.block + first) * 4;
                for (int j = 0; j < WIDTH; j++) {
                    const Pairs w = pairs_at(line + j * LANES * 4);
                    for (int r = 0; r < COUNT; r++) {
                        sums[r][j] += lower(w) * x[r][i];
                        more[r][j] += upper(w) * x[r][i + 1];
                    }
                }
            }
        } else {
            const float* weight = reinterpret_cast<const float*>(block) + first;
            for (int64_t i = 0; i + 1 < p.inputs; i += 2)
                for (int j = 0; j < WIDTH; j++)
                    for (int r = 0; r < COUNT; r++) {
                        sums[r][j] += floats_at(weight + i * p.block + j * LANES) * x[r][i];
                        more[r][j] += floats_at(weight + (i + 1) * p.block + j * LANES) * x[r][i + 1];
                    }
        }
        const int64_t there = std::min<int64_t>(EACH, p.outputs - output - first);
        if (there <= 0) return;
#pragma GCC unroll 8
        for (int r = 0; r < COUNT; r++) {
            float found[EACH];
            for (int j = 0; j < WIDTH; j++) floats_at(found + j * LANES) = sums[r][j] + more[r][j];
            p.put(row + r, output + first, found, there);
        }
    }
}

#ifdef __AVX512BF16__
// Pairs of numbers in bf16 multiplied and added up by one instruction: of `COUNT` rows, for `WIDTH` vectors of outputs at a time.
template <int WIDTH, int COUNT>
void by_pairs(const Product& p, const char* block, int64_t row, int64_t output) {
    constexpr int64_t EACH = WIDTH * LANES;
    const int64_t count = p.inputs / 2;
    // Several rows take longer than memory does: while the last of them are computed the next block comes nearer.
    const bool last = COUNT > 1 && row + COUNT >= p.rows;
    for (int64_t first = 0; first < p.block; first += EACH) {
        __m512 sums[COUNT][WIDTH] = {};
        for (int64_t i = 0; i < count; i++) {
            __m512i w[WIDTH];
            for (int j = 0; j < WIDTH; j++) {
                const char* line = block + (i * p.block + first + j * LANES) * 4;
                w[j] = _mm512_loadu_si512(line);
                if (last) __builtin_prefetch(line + p.by_block, 0, 2);
            }
            for (int r = 0; r < COUNT; r++) {
                const __m512bh x = (__m512bh)_mm512_set1_epi32(int32_t(p.pairs[(row + r) * count + i]));
                for (int j = 0; j < WIDTH; j++) sums[r][j] = _mm512_dpbf16_ps(sums[r][j], (__m512bh)w[j], x);
            }
        }
        const int64_t there = std::min<int64_t>(EACH, p.outputs - output - first);
        if (there <= 0) return;
#pragma GCC unroll 8
        for (int r = 0; r < COUNT; r++) {  // sums that a loop counts through would not stay in registers
            float found[EACH];
            for (int j = 0; j < WIDTH; j++) _mm512_storeu_ps(found + j * LANES, sums[r][j]);
            p.put(row + r, output + first, found, there);
        }
    }
}
#else
template <int WIDTH, int COUNT>
void by_pairs(const Product& p, const char* block, int64_t row, int64_t output) {
    by_block<uint16_t, WIDTH, COUNT>(p, block, row, output);
}
#endif

template <typename N>
void by_blocks(const Product& p, int64_t number) {
    const char* block = p.weight + number * p.by_block;
    int64_t row = 0;
    if (sizeof(N) == 2 && p.pairs && p.block % (4 * LANES) == 0) {
        const int64_t first = number * p.block;
        for (; row + 8 <= p.rows; row += 8) by_pairs<2, 8>(p, block, row, first);
        for (; row + 4 <= p.rows; row += 4) by_pairs<4, 4>(p, block, row, first);
        for (; row < p.rows; row++) by_pairs<4, 1>(p, block, row, first);
        return;
    }
    for (; row + MOST_ROWS <= p.rows; row += MOST_ROWS) by_block<N, 1, MOST_ROWS>(p, block, row, number * p.block);
    for (; row < p.rows; row++) {
        if (p.block % (4 * LANES) == 0)
            by_block<N, 4, 1>(p, block, row, number * p.block);
        else
            by_block<N, 1, 1>(p, block, row, number * p.block);
    }
}

int64_t tasks_of(const Product& p) {
    const int64_t block = p.layout == BLOCKS || p.layout == BLOCKS_OF_4_BITS ? p.block : TASK;
    return (p.outputs + block - 1) / block;
}

// The outputs of one task.
void multiply(const Product& p, int64_t number) {
    if (p.layout == BLOCKS_OF_4_BITS) return by_blocks_of_4_bits(p, number);
    if (p.layout == BLOCKS) return p.kind == BFLOAT16 ? by_blocks<uint16_t>(p, number) : by_blocks<float>(p, number);
    const int64_t begin = number * TASK, end = std::min(begin + TASK, p.outputs);
    if (p.layout == SCALED_ROWS) return by_rows<int8_t>(p, begin, end);
    p.kind == BFLOAT16 ? by_rows<uint16_t>(p, begin, end) : by_rows<float>(p, begin, end);
}

// What codes of 4 bits need to know of the rows of x: digits, and what groups of inputs add up to; where others may stand.
float* prepared(Product& p, float* place, Lanes& lanes) {
    if (p.layout != BLOCKS_OF_4_BITS) return place;
#ifdef BY_DIGITS
    if (takes_digits(p)) {
        const int64_t chunk = chunk_of(p.group), count = p.inputs / chunk;
        int8_t* const digits = reinterpret_cast<int8_t*>(place);
        float* const units = place + p.rows * p.inputs / 2;
        auto row = [&](int64_t r) {
            for (int64_t i = r * count; i < (r + 1) * count; i++) put_digits(p.x + i * chunk, chunk, digits + i * chunk * 2, units + i);
        };
        lanes.each(p.rows, row);
        p.digits = digits, p.units = units;
        place = units + p.rows * count;
    }
#endif
    p.totals = place;
    for (const float* x = p.x; x < p.x + p.inputs; x += p.group)
        for (int64_t row = 0; row < p.rows; row++) *place++ = total(x + row * p.inputs, p.group);
    return place;
}

// Numbers of this.
int64_t prepared_size(const Product& p) {
    if (p.layout != BLOCKS_OF_4_BITS) return 0;
    int64_t each = p.inputs / p.group;
#ifdef BY_DIGITS
    each += p.inputs / 2 + p.inputs / chunk_of(p.group);
#endif
    return p.rows * each;
}

Product product_of(Words& words) {
    Product p = {};
    p.layout = words.next(), p.kind = words.next(), p.block = words.next(), p.by_block = words.next(), p.group = words.next();
    p.rows = words.next(), p.outputs = words.next(), p.inputs = words.next();
    p.by_x = p.inputs;
#ifdef BY_TILES
    if (p.rows >= MOST_ROWS && (p.layout == ROWS || p.layout == SCALED_ROWS)) p.by_x = apart_in_cache(p.inputs);
#endif
    return p;
}

// order, rows, outputs, inputs; W, its scales where it has some; x and y.
void product(Words& words, Lanes& lanes) {
    Product p = product_of(words);
    p.weight = words.place();
    if (p.scaled()) p.scales = words.place();
    const Strided x = strided(words, 2);
    p.y = strided(words, 2);
    float* numbers = room(p.rows * p.by_x + p.rows * p.inputs / 2);
    read_rows(x, p.rows, p.inputs, numbers, p.by_x);
    p.x = numbers;
    if (x.kind == BFLOAT16 && x.strides[1] == 2 && p.inputs % 2 == 0) {
        uint32_t* pairs = reinterpret_cast<uint32_t*>(numbers + p.rows * p.by_x);
        for (int64_t row = 0; row < p.rows; row++) std::memcpy(pairs + row * p.inputs / 2, x.data + row * x.strides[0], p.inputs * 2);
        p.pairs = pairs;
    }
    prepared(p, room<2>(prepared_size(p)), lanes);
    lanes.each(tasks_of(p), [&](int64_t number) { multiply(p, number); });
}

// order, rows, outputs, inputs, how many matrices, the kind to which x and y are rounded, how many times all of this with other
// matrices: the number of each row's matrix and x, then each time each W with its scales where it has some, and y. A row with
// another number than those of the matrices gives zeros.
void chosen_product(Words& words, Lanes& lanes) {
    Product p = product_of(words);
    const int64_t count = words.next(), rounded = words.next(), times = words.next(), rows = p.rows;
    const Strided number = strided(words, 1), x = strided(words, 2);
    float *const numbers = room(rows * (p.by_x + p.inputs + times * p.outputs)), *const found = numbers + rows * p.by_x;
    uint16_t* const pairs = reinterpret_cast<uint16_t*>(found + times * rows * p.outputs);
    const int64_t apart[2] = {p.outputs * int64_t(sizeof(float)), sizeof(float)};
    static thread_local std::vector<std::pair<int64_t, int64_t>> chosen;  // matrix and row, by both
    static thread_local std::vector<Product> products;                    // one for each matrix that was chosen
    static thread_local std::vector<Strided> results;
    chosen.clear(), products.clear(), results.clear();
    for (int64_t row = 0; row < rows; row++) {
        int64_t spare;
        chosen.push_back({*loaded(number.data + row * number.strides[0], number.kind, 0, 1, &spare), row});
    }
    std::sort(chosen.begin(), chosen.end());
    for (int64_t at = 0; at < rows; at++) {
        float* const own = numbers + at * p.by_x;
        read_rows({x.data + chosen[at].second * x.strides[0], x.kind, x.strides}, 1, p.inputs, own, p.by_x);
        for (int64_t i = 0; rounded == BFLOAT16 && i < p.inputs; i++)
            own[i] = from_bfloat16(pairs[at * p.inputs + i] = to_bfloat16(own[i]));
    }
    for (int64_t time = 0; time < times; time++) {
        const int64_t each = p.scaled() ? 4 : 2, *matrices = words.several(each * count);
        results.push_back(strided(words, 2));
        float* const own = found + time * rows * p.outputs;
        for (int64_t at = 0; at < rows; at++) {
            const int64_t matrix = chosen[at].first;
            if (matrix < 0 || matrix >= count) {
                std::fill_n(own + at * p.outputs, p.outputs, 0.0f);
                continue;
            }
            if (at == 0 || chosen[at - 1].first != matrix) {
                const int64_t* place = matrices + each * matrix;
                p.weight = words.bases[place[0]] + place[1];
                if (p.scaled()) p.scales = words.bases[place[2]] + place[3];
                p.rows = 0, p.x = numbers + at * p.by_x, p.y = {reinterpret_cast<char*>(own + at * p.outputs), FLOAT32, apart};
                const bool paired = rounded == BFLOAT16 && p.inputs % 2 == 0;
                p.pairs = paired ? reinterpret_cast<const uint32_t*>(pairs + at * p.inputs) : nullptr;
                products.push_back(p);
            }
            products.back().rows++;
        }
    }
    p.rows = rows;
    float* place = room<2>(prepared_size(p));
    const size_t once = products.size() / times;  // whose rows are those of every time
    for (size_t i = 0; i < products.size(); i++) {
        Product& one = products[i];
        if (i < once)
            place = prepared(one, place, lanes);
        else
            one.digits = products[i - once].digits, one.units = products[i - once].units, one.totals = products[i - once].totals;
    }
    const int64_t tasks = tasks_of(p);
    const Product* const all = products.data();  // other threads have vectors of their own
    lanes.each(products.size() * tasks, [&](int64_t task) { multiply(all[task / tasks], task % tasks); });
    if (rounded == BFLOAT16)
        for (int64_t i = 0; i < times * rows * p.outputs; i++) found[i] = from_bfloat16(to_bfloat16(found[i]));
    for (int64_t time = 0; time < times; time++)
        for (int64_t at = 0; at < rows; at++) {
            const Strided& y = results[time];
            const float* const own = found + (time * rows + at) * p.outputs;
            stored(own, y.data + chosen[at].second * y.strides[0], y.kind, y.strides[1], p.outputs);
        }
}

}  // namespace
