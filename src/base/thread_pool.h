// A persistent pool of worker threads for the engine's kernels.
//
// ParallelFor hands out chunk indices one at a time, so that threads finish together; workers spin
// for about 50 µs after their last chunk and then sleep. Which thread runs which chunk is not
// deterministic: a kernel's result must not depend on it (DESIGN: the arithmetic rule).

#ifndef ARIL_BASE_THREAD_POOL_H_
#define ARIL_BASE_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace aril {

class ThreadPool {
 public:
  // `num_threads` ≥ 1 counts the calling thread: a pool of 1 has no workers.
  explicit ThreadPool(int num_threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls `body(chunk)` once for every chunk in [0, num_chunks) and returns when all are done. The
  // caller works too. Not reentrant, and only one thread at a time may call it. `body` must not
  // throw.
  template <typename Body>
  void ParallelFor(int64_t num_chunks, const Body& body) {
    Run(
        num_chunks,
        [](const void* context, int64_t chunk) { (*static_cast<const Body*>(context))(chunk); },
        &body);
  }

 private:
  using ChunkFunction = void (*)(const void* context, int64_t chunk);

  void Run(int64_t num_chunks, ChunkFunction function, const void* context);
  void WorkerLoop();
  bool RunOneChunk();
  bool HasWork() const;

  // total << 32 | next: a successful compare-exchange on it claims chunk `next` of the current job.
  std::atomic<uint64_t> claim_{0};
  std::atomic<int64_t> completed_{0};
  ChunkFunction function_ = nullptr;
  const void* context_ = nullptr;

  std::atomic<int> num_sleeping_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
};

}  // namespace aril

#endif  // ARIL_BASE_THREAD_POOL_H_
