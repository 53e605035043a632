// Threads that work on one step together: the first goes through it, and where there is much to do all take tasks of it.

#pragma once

#ifdef __x86_64__
#include <immintrin.h>
#endif
#include <sched.h>

#include <atomic>
#include <cstdint>

namespace {

constexpr int64_t MOST_LANES = 64;

// A moment in which a thread that waits leaves the processor to others.
inline void pause_shortly() {
#ifdef __x86_64__
    _mm_pause();
#else
    __asm__ volatile("isb" ::: "memory");  // ARM's own `yield` takes no time on most of its processors
#endif
}

// Every thread has a run of tasks, which it takes one at a time in their order, since memory is read fastest from one address
// to the next; who has none left takes those of others, so a thread that the system stops holds up no more than its task.
// Which thread computes a task changes no number.
class Lanes {
   public:
    explicit Lanes(int64_t count) : count_(count < MOST_LANES ? count : MOST_LANES) {}

    int64_t count() const { return count_; }

    // Calls `task(i)` for every i below `count`, in any order, on all threads. The first thread calls it.
    template <typename Task>
    void each(int64_t count, const Task& task) {
        if (count_ == 1 || count == 1) {
            for (int64_t i = 0; i < count; i++) task(i);
            return;
        }
        job_ = &task;
        run_ = [](const void* job, int64_t i) { (*static_cast<const Task*>(job))(i); };
        done_.store(0, std::memory_order_relaxed);
        for (int64_t lane = 0; lane < count_; lane++)
            runs_[lane].places.store(run_of(count * lane / count_, count * (lane + 1) / count_), std::memory_order_release);
        while (take(0)) {
        }
        for (int spins = 0; done_.load(std::memory_order_acquire) < count;) wait(spins);
    }

    // What another thread does until `end`.
    void help(int64_t lane) {
        for (int spins = 0; !over_.load(std::memory_order_acquire);) {
            if (take(lane))
                spins = 0;
            else
                wait(spins);
        }
    }

    void end() { over_.store(true, std::memory_order_release); }

   private:
    static constexpr int HALF = 32;
    static constexpr uint64_t MASK = (uint64_t(1) << HALF) - 1;

    static uint64_t run_of(int64_t begin, int64_t end) { return uint64_t(end) << HALF | uint64_t(begin); }
    static bool left(uint64_t places) { return (places & MASK) < (places >> HALF); }

    bool take(int64_t first) {
        for (int64_t i = 0; i < count_; i++) {
            std::atomic<uint64_t>& run = runs_[(first + i) % count_].places;
            if (!left(run.load(std::memory_order_relaxed))) continue;
            const uint64_t places = run.fetch_add(1, std::memory_order_acq_rel);
            if (!left(places)) continue;
            run_(job_, int64_t(places & MASK));  // the job stays until this task is done
            done_.fetch_add(1, std::memory_order_release);
            return true;
        }
        return false;
    }

    static void wait(int& spins) {
        pause_shortly();
        if (++spins % 4096 == 0) sched_yield();  // on a busy machine somebody else may have to run first
    }

    // One word holds where a run ends and which task is the next: whoever takes one knows both at once.
    struct alignas(64) Run {
        std::atomic<uint64_t> places{0};
    };

    const int64_t count_;
    const void* job_ = nullptr;
    void (*run_)(const void*, int64_t) = nullptr;
    Run runs_[MOST_LANES];
    alignas(64) std::atomic<int64_t> done_{0};
    alignas(64) std::atomic<bool> over_{false};
};

}  // namespace
