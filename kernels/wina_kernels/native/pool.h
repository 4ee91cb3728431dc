// Parallel regions of a fixed number of threads with cheap barriers.
//
// A region runs on OpenMP's team if one was given (PyTorch's, so that two pools never spin on the same cores), else on
// threads of its own, which spin shortly after a region and then sleep.
#pragma once
#include <atomic>
#include <cstdint>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#define WINA_PAUSE() _mm_pause()
#elif defined(__aarch64__)
#define WINA_PAUSE() asm volatile("yield")
#else
#define WINA_PAUSE() (void)0
#endif

namespace wina {

// Threads that wait for each other; they give way to other processes after a while.
class Barrier {
 public:
  void start(int threads) {
    threads_ = threads;
    arrived_.store(0, std::memory_order_relaxed);
  }
  void wait() {
    const unsigned round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    for (unsigned spins = 0; round_.load(std::memory_order_acquire) == round; ++spins) {
      if (spins < 20000)
        WINA_PAUSE();
      else
        std::this_thread::yield();
    }
  }

 private:
  int threads_ = 1;
  std::atomic<int> arrived_{0};
  std::atomic<unsigned> round_{0};
};

class Pool {
 public:
  using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
  using Number = int (*)();

  static Pool& shared() {
    static Pool* const pool = new Pool;  // never destroyed: threads may sleep in it at the process's end
    return *pool;
  }

  void use_openmp(Parallel parallel, Number team_size, Number team_thread) {
    std::lock_guard<std::mutex> turn(turn_);
    parallel_ = parallel, team_size_ = team_size, team_thread_ = team_thread;
  }

  // Call job(thread, threads) on each of at most `threads` threads, the caller among them, and wait for all.
  template <class Job>
  void run(int threads, Job&& job) {
    std::lock_guard<std::mutex> turn(turn_);
    call_ = [](void* given, int thread, int team) { (*static_cast<std::remove_reference_t<Job>*>(given))(thread, team); };
    given_ = &job;
    if (threads <= 1) {
      barrier_.start(1);
      call_(given_, 0, 1);
    } else if (parallel_) {
      started_.store(false, std::memory_order_relaxed);
      parallel_([](void* pool) { static_cast<Pool*>(pool)->member(); }, this, unsigned(threads), 0);
    } else {
      alone(threads);
    }
  }

  // Wait inside a job until all threads of the region have come here.
  void barrier() { barrier_.wait(); }

 private:
  void member() {
    const int team = team_size_(), thread = team_thread_();
    if (thread == 0) {  // OpenMP may give fewer threads than asked for
      barrier_.start(team);
      started_.store(true, std::memory_order_release);
    }
    while (!started_.load(std::memory_order_acquire)) WINA_PAUSE();
    call_(given_, thread, team);
  }

  void alone(int threads) {
    while (int(workers_.size()) < threads - 1) {
      const int thread = int(workers_.size()) + 1;
      const uint64_t seen = region_.load(std::memory_order_relaxed);
      workers_.emplace_back([this, thread, seen] { work(thread, seen); });
      workers_.back().detach();
    }
    barrier_.start(threads);
    running_.store(threads - 1, std::memory_order_relaxed);
    {
      std::lock_guard<std::mutex> lock(sleep_);
      region_.store(((region_.load(std::memory_order_relaxed) >> 16) + 1) << 16 | uint64_t(threads),
                    std::memory_order_release);
    }
    if (sleepers_.load(std::memory_order_acquire)) wake_.notify_all();
    call_(given_, 0, threads);
    for (unsigned spins = 0; running_.load(std::memory_order_acquire); ++spins) {
      if (spins < 20000)
        WINA_PAUSE();
      else
        std::this_thread::yield();
    }
  }

  void work(int thread, uint64_t seen) {
    for (;;) {
      for (int spins = 0; region_.load(std::memory_order_acquire) == seen && spins < 4000; ++spins) WINA_PAUSE();
      if (region_.load(std::memory_order_acquire) == seen) {
        std::unique_lock<std::mutex> lock(sleep_);
        ++sleepers_;
        wake_.wait(lock, [&] { return region_.load(std::memory_order_acquire) != seen; });
        --sleepers_;
      }
      seen = region_.load(std::memory_order_acquire);
      const int team = int(seen & 0xFFFF);
      if (thread < team) {
        call_(given_, thread, team);
        running_.fetch_sub(1, std::memory_order_release);
      }
    }
  }

  std::mutex turn_, sleep_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
  std::atomic<uint64_t> region_{0};  // number of regions so far, and in the lowest 16 bits the team of the latest
  std::atomic<int> running_{0}, sleepers_{0};
  std::atomic<bool> started_{false};
  Barrier barrier_;
  void (*call_)(void*, int, int) = nullptr;
  void* given_ = nullptr;
  Parallel parallel_ = nullptr;
  Number team_size_ = nullptr, team_thread_ = nullptr;
};

}  // namespace wina
