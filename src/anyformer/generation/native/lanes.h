// Threads that work on one step together: the first goes through it, and where there is much to do all take tasks of it.

#pragma once

#include <immintrin.h>
#include <sched.h>

#include <atomic>
#include <cstdint>

namespace {

// Tasks are taken one at a time by whoever is free, so a thread that the system stops holds up no more than its task. Which
// thread computes a task changes no number.
class Lanes {
   public:
    // Calls `task(i)` for every i below `count`, in any order, on all threads.
    template <typename Task>
    void each(int64_t count, const Task& task) {
        if (alone_ || count == 1) {
            for (int64_t i = 0; i < count; i++) task(i);
            return;
        }
        job_ = &task;
        run_ = [](const void* job, int64_t i) { (*static_cast<const Task*>(job))(i); };
        done_.store(0, std::memory_order_relaxed);
        // One word holds how many tasks there are and which is the next: whoever takes one knows both at once.
        places_.store(uint64_t(count) << HALF, std::memory_order_release);
        while (take()) {
        }
        for (int spins = 0; done_.load(std::memory_order_acquire) < count;) wait(spins);
    }

    // What the other threads do until `end`.
    void help() {
        for (int spins = 0; !over_.load(std::memory_order_acquire);) {
            const uint64_t places = places_.load(std::memory_order_relaxed);
            if ((places & MASK) < (places >> HALF) && take())
                spins = 0;
            else
                wait(spins);
        }
    }

    void alone(bool alone) { alone_ = alone; }
    void end() { over_.store(true, std::memory_order_release); }

   private:
    static constexpr int HALF = 32;
    static constexpr uint64_t MASK = (uint64_t(1) << HALF) - 1;

    bool take() {
        const uint64_t places = places_.fetch_add(1, std::memory_order_acq_rel);
        if ((places & MASK) >= (places >> HALF)) return false;
        run_(job_, int64_t(places & MASK));  // the job stays until this task is done
        done_.fetch_add(1, std::memory_order_release);
        return true;
    }

    static void wait(int& spins) {
        _mm_pause();
        if (++spins % 4096 == 0) sched_yield();  // on a busy machine somebody else may have to run first
    }

    const void* job_ = nullptr;
    void (*run_)(const void*, int64_t) = nullptr;
    bool alone_ = true;
    alignas(64) std::atomic<uint64_t> places_{0};
    alignas(64) std::atomic<int64_t> done_{0};
    alignas(64) std::atomic<bool> over_{false};
};

}  // namespace
