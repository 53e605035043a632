// Memory that begins at a line of the cache, by the names that compilers for x86 have for it.

#pragma once

#include <cstdlib>

namespace {

inline void* _mm_malloc(size_t bytes, size_t alignment) {
    void* place;
    return posix_memalign(&place, alignment, bytes) == 0 ? place : nullptr;
}
inline void _mm_free(void* place) { std::free(place); }

}  // namespace
