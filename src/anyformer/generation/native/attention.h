// Attention of a few queries to many keys.

#pragma once

#include "batches.h"

namespace {

constexpr int64_t KEYS_TOGETHER = 32;  // keys that stay in the nearest cache while all queries are multiplied by them
constexpr int64_t SHORT = 1 << 16;  // bytes of keys and values of a head: fewer end before the processor foresees what is read

// A query as keys of one kind are multiplied by it: `width` floats, and how many of them at a time.
template <typename Key>
struct Query {
    static constexpr int64_t STEP = LANES;
    static void round(float*, int64_t) {}
    static float at(const float* query, int64_t, int64_t e) { return query[e]; }
    static void add(Floats& sum, const Key* key, const float* query, int64_t, int64_t e) {
        sum += vector_at(key + e) * floats_at(query + e);
    }
};
#ifdef __AVX512BF16__
// Two numbers in bf16 in the place of each float, which add up to it: one instruction multiplies pairs of them by keys in bf16.
template <>
struct Query<uint16_t> {
    static constexpr int64_t STEP = 2 * LANES;
    static const uint16_t* of(const float* query) { return reinterpret_cast<const uint16_t*>(query); }
    static void round(float* query, int64_t width) {
        float* const given = room<1>(width);
        uint16_t* const to = reinterpret_cast<uint16_t*>(query);
        std::memcpy(given, query, width * sizeof(float));
        for (int64_t e = 0; e < width; e++) {
            to[e] = to_bfloat16(given[e]);
            to[width + e] = to_bfloat16(given[e] - from_bfloat16(to[e]));
        }
    }
    static float at(const float* query, int64_t width, int64_t e) {
        return number_at(of(query) + e) + number_at(of(query) + width + e);
    }
    static void add(Floats& sum, const uint16_t* key, const float* query, int64_t width, int64_t e) {
        const __m512bh numbers = (__m512bh)_mm512_loadu_si512(key + e);
        for (int64_t part = 0; part < 2; part++)
            sum = _mm512_dpbf16_ps(sum, numbers, (__m512bh)_mm512_loadu_si512(of(query) + part * width + e));
    }
};
#endif

// The products of KEYS keys with COUNT queries.
template <int COUNT, int KEYS, typename Key>
inline void score(const char* key, int64_t by_key, const float* asked, int64_t width, float* scores, int64_t apart) {
    using Own = Query<Key>;
    auto of = [=](int s) { return reinterpret_cast<const Key*>(key + s * by_key); };
    Floats sums[COUNT][KEYS] = {};
    int64_t i = 0;
    for (; i + Own::STEP <= width; i += Own::STEP)
        for (int s = 0; s < KEYS; s++)
            for (int r = 0; r < COUNT; r++) Own::add(sums[r][s], of(s), asked + r * width, width, i);
#pragma GCC unroll 4
    for (int r = 0; r < COUNT; r++) {
        float* const found = scores + r * apart;
        if constexpr (KEYS == 4)
            store_sums(found, sums[r][0], sums[r][1], sums[r][2], sums[r][3]);
        else
            found[0] = sum_of(sums[r][0]);
        for (int64_t rest = i; rest < width; rest++)
            for (int s = 0; s < KEYS; s++) found[s] += number_at(of(s) + rest) * Own::at(asked + r * width, width, rest);
    }
}

struct Attention {
    int64_t heads, group, queries, keys, width, value_width, masked, pieces, tasks;  // pieces: tasks of one head
    float scale;
    // y, q: (row, head, query, feature); k, v: (row, head of keys, key, feature); mask: (row, head, query, key)
    Strided y, q, k, v, mask;

    static char* of(const Strided& x, int64_t row, int64_t head) { return x.data + row * x.strides[0] + head * x.strides[1]; }

    // Brings a key and a value of the head behind that of a task nearer. GCC leaves out calls that do nothing else.
    template <typename Key, typename Value>
    __attribute__((always_inline)) inline void bring_next(int64_t task, int64_t place) const {
        const int64_t later = std::min(task + pieces, tasks - 1) / pieces, row = later / heads, head = later % heads / group;
        const char *const key = of(k, row, head) + place * k.strides[2], *const value = of(v, row, head) + place * v.strides[2];
        for (int64_t b = 0; b < width * int64_t(sizeof(Key)); b += CACHE_LINE) __builtin_prefetch(key + b, 0, 2);
        for (int64_t b = 0; b < value_width * int64_t(sizeof(Value)); b += CACHE_LINE) __builtin_prefetch(value + b, 0, 2);
    }

    template <typename Key, typename Value>
    void operator()(int64_t task) const {
        const int64_t row = task / pieces / heads, head = task / pieces % heads, piece = task % pieces;
        const int64_t first = queries * piece / pieces, some = queries * (piece + 1) / pieces - first;
        float* const asked = room(some * (width + keys + value_width) + keys);
        float *const scores = asked + some * width, *const mixed = scores + some * keys;
        float* const hidden = mixed + some * value_width;
        for (int64_t t = 0; t < some; t++) {
            float* to = asked + t * width;
            const float* from = loaded(of(q, row, head) + (first + t) * q.strides[2], q.kind, q.strides[3], width, to);
            for (int64_t e = 0; e < width; e++) to[e] = from[e] * scale;
            Query<Key>::round(to, width);
        }
        const char *const key = of(k, row, head / group), *const value = of(v, row, head / group);
        const bool brief = keys * int64_t(width * sizeof(Key) + value_width * sizeof(Value)) <= SHORT;
        for (int64_t begin = 0; begin < keys; begin += KEYS_TOGETHER) {
            const int64_t end = std::min(keys, begin + KEYS_TOGETHER), by = k.strides[2];
            for (int64_t s = begin; brief && s < end; s++) bring_next<Key, Value>(task, s);
            together(some, [&](auto count, int64_t t) {
                const float* const own = asked + t * width;
                float* const found = scores + t * keys;
                int64_t s = begin;
                for (; s + 4 <= end; s += 4) score<count(), 4, Key>(key + s * by, by, own, width, found + s, keys);
                for (; s < end; s++) score<count(), 1, Key>(key + s * by, by, own, width, found + s, keys);
            });
        }
        for (int64_t t = 0; t < some; t++) {
            float* own = scores + t * keys;
            if (masked) {
                const char* place = of(mask, row, head) + (first + t) * mask.strides[2];
                const float* given = loaded(place, mask.kind, mask.strides[3], keys, hidden);
                if (mask.kind != BOOL)
                    for (int64_t s = 0; s < keys; s++) own[s] += given[s];
                else
                    for (int64_t s = 0; s < keys; s++) own[s] = given[s] != 0 ? own[s] : -INFINITY;
            }
            if (greatest(own, keys) == -INFINITY)
                std::fill_n(own, keys, 0.0f);  // of a query that sees nothing
            else
                softmax(own, keys, false);
        }
        for (int64_t e = 0; e < value_width; e += STRIP) {
            const int64_t wide = std::min(STRIP, value_width - e);
            together(some, [&](auto count, int64_t t) {
                float sums[TOGETHER * STRIP];
                add_columns<Value, count()>(value + e * sizeof(Value), v.strides[2], scores + t * keys, keys, sums, wide);
                for (int64_t r = 0; r < count; r++)
                    std::memcpy(mixed + (t + r) * value_width + e, sums + r * STRIP, wide * sizeof(float));
            });
        }
        for (int64_t t = 0; t < some; t++)
            stored(mixed + t * value_width, of(y, row, head) + (first + t) * y.strides[2], y.kind, y.strides[3], value_width);
    }
};

// Into how many tasks the queries of a head are divided, so that all threads have as many tasks: those of few heads alone.
inline int64_t pieces_of(int64_t queries, int64_t heads, int64_t lanes) {
    int64_t pieces = 1;
    while (pieces < queries && heads * pieces < 8 * lanes && heads * pieces % lanes) pieces++;
    return pieces;
}

// rows, heads, query heads of each head of keys, queries, keys, width, width of values, whether masked, scale; then the tensors
// in the order above.
void attention(Words& words, Lanes& lanes) {
    Attention a;
    const int64_t rows = words.next();
    a.heads = words.next(), a.group = words.next(), a.queries = words.next(), a.keys = words.next(), a.width = words.next();
    a.value_width = words.next(), a.masked = words.next(), a.scale = words.number();
    a.y = strided(words, 4), a.q = strided(words, 4), a.k = strided(words, 4), a.v = strided(words, 4);
    if (a.masked) a.mask = strided(words, 4);
    a.pieces = pieces_of(a.queries, rows * a.heads, lanes.count());
    a.tasks = rows * a.heads * a.pieces;
    lanes.each(a.tasks, [&](int64_t task) {
        if (a.k.kind == BFLOAT16)
            a.v.kind == BFLOAT16 ? a.operator()<uint16_t, uint16_t>(task) : a.operator()<uint16_t, float>(task);
        else
            a.v.kind == BFLOAT16 ? a.operator()<float, uint16_t>(task) : a.operator()<float, float>(task);
    });
}

}  // namespace
