// A decode step as a table: operations in their order, which threads compute together without a call of anybody in between.

#include "attention.h"
#include "batches.h"
#include "indexed.h"
#include "matrices.h"
#include "order.h"

namespace {

using Operation = void (*)(Words&, Lanes&);
constexpr Operation OPERATIONS[] = {elementwise, reduction, rows, indexed, product, matrix_product, attention, chosen_product, order};

struct Step {
    Words words;
    const int64_t* end;
    Lanes lanes;
};

void run(Step& step) {
    while (step.words.next_word < step.end) OPERATIONS[step.words.next()](step.words, step.lanes);
    step.lanes.end();
}

}  // namespace

// torch's `torch_parallel_for(begin, end, grain, function, given)`.
using Threads = int32_t (*)(int64_t, int64_t, int64_t, void (*)(int64_t, int64_t, void*), void*);

// Computes the `count` words of a table for tensors that begin at `bases`, on at most `lanes` threads. Returns whether an index
// named a place that its tensor does not have.
extern "C" int32_t step(Threads threads, int64_t lanes, const int64_t* table, int64_t count, char* const* bases) {
    Step step{{table, bases, false}, table + count, Lanes(lanes)};
    threads(0, lanes, 1, [](int64_t begin, int64_t, void* given) {
        Step& step = *static_cast<Step*>(given);
        if (begin == 0)
            run(step);
        else if (begin < MOST_LANES)
            step.lanes.help(begin);
    }, &step);
    return step.words.failed;
}
