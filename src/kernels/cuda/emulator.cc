#include "kernels/cuda/emulator.h"

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <boost/context/stack_context.hpp>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/sanitizers.h"
#include "tensor/dtype.h"

#if ARIL_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace aril::kernels::emulator {
namespace {

namespace context = boost::context;

// A kernel's thread has at most 255 registers, and what our host build makes of it (no register
// allocation across -O0, ASan's red zones) stays far below this.
constexpr size_t kStackBytes = size_t{256} << 10;
constexpr size_t kSharedAlignment = 128;
constexpr size_t kCopyBytes = 16;
constexpr int kPoison = 0xFF;  // NaN as F32, BF16 and F16

// Hands every fiber the stack that its thread owns.
struct StackOfThread {
  std::byte* base;
  context::stack_context allocate() const {
    context::stack_context stack;
    stack.size = kStackBytes;
    stack.sp = base + kStackBytes;
    return stack;
  }
  void deallocate(context::stack_context&) const noexcept {}
};

// Of the threads with this number in all launches, one after the other: a stack's pages cost more
// than what a thread does on them.
std::byte* StackOf(size_t thread) {
  thread_local std::vector<std::unique_ptr<std::byte[]>> stacks;
  while (stacks.size() <= thread) {
    stacks.push_back(std::make_unique_for_overwrite<std::byte[]>(kStackBytes));
  }
  return stacks[thread].get();
}

// Tells ASan on which stack we are, around each switch.
class StackSwitch {
 public:
#if ARIL_ASAN
  void Leave(const void* to_bottom, size_t to_size) {
    __sanitizer_start_switch_fiber(&fake_stack_, to_bottom, to_size);
  }
  // Its fake stack is not needed any more.
  static void LeaveForGood(const void* to_bottom, size_t to_size) {
    __sanitizer_start_switch_fiber(nullptr, to_bottom, to_size);
  }
  void Arrive(const void** from_bottom, size_t* from_size) {
    __sanitizer_finish_switch_fiber(fake_stack_, from_bottom, from_size);
    fake_stack_ = nullptr;
  }

 private:
  void* fake_stack_ = nullptr;
#else
  void Leave(const void*, size_t) {}
  static void LeaveForGood(const void*, size_t) {}
  void Arrive(const void**, size_t*) {}
#endif
};

struct Copy {
  void* to;
  const void* from;  // null: zeros

  void Do() const {
    if (from == nullptr) {
      std::memset(to, 0, kCopyBytes);
    } else {
      std::memcpy(to, from, kCopyBytes);
    }
  }
};

enum class State : uint8_t { kReady, kAtBarrier, kInWarp, kReturned };

struct Thread {
  int index = 0;
  const char* waits_in = nullptr;
  std::vector<Copy> copies;         // under way
  std::vector<size_t> copy_groups;  // the ends of those that are closed
  std::byte* stack = nullptr;
  context::fiber fiber;
  StackSwitch stack_switch;
};

struct Warp {
  const char* name = nullptr;
  int arrived = 0;
  void* slots[kWarpSize] = {};
};

struct AlignedDelete {
  void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{kSharedAlignment}); }
};

// All blocks of one launch, one after the other, on the same fibers' stacks.
class Blocks {
 public:
  Blocks(Order order, const Grid& grid, const std::function<void()>& body)
      : order_(order),
        grid_(grid),
        body_(body),
        threads_(static_cast<size_t>(grid.num_threads)),
        states_(threads_.size()) {
    CHECK_GT(grid.num_threads, 0);
    CHECK_LE(grid.num_threads, 1024);
    CHECK_EQ(grid.num_threads % kWarpSize, 0);
    for (int i = 0; i < grid.num_threads; ++i) {
      threads_[static_cast<size_t>(i)].index = i;
      threads_[static_cast<size_t>(i)].stack = StackOf(static_cast<size_t>(i));
    }
    shared_.reset(static_cast<std::byte*>(::operator new (std::max<size_t>(grid.shared_bytes, 1),
                                                          std::align_val_t{kSharedAlignment})));
  }

  void RunAll() {
    for (int i = 0; i < grid_.num_blocks; ++i) RunBlock(InOrder(i, grid_.num_blocks));
  }

  int block() const { return block_; }
  int num_blocks() const { return grid_.num_blocks; }
  std::byte* shared() const { return shared_.get(); }
  Thread& running() { return *running_; }

  // Called on the running thread's fiber.
  void Barrier() {
    Thread& thread = running();
    thread.waits_in = "a barrier of the block";
    if (++at_barrier_ < grid_.num_threads) return Wait(State::kAtBarrier);
    at_barrier_ = 0;
    std::ranges::replace(states_, State::kAtBarrier, State::kReady);
    // The others get their turns in order, too.
    Wait(State::kReady);
  }

  void Collective(const char* name, void* slot, void (*combine)(WarpSlots)) {
    Thread& thread = running();
    const int first = thread.index / kWarpSize * kWarpSize;
    Warp& warp = warps_[static_cast<size_t>(first / kWarpSize)];
    if (warp.arrived > 0 && warp.name != name && std::strcmp(warp.name, name) != 0) {
      Die("thread " + std::to_string(thread.index) + " is in " + name + ", others of its warp in " +
          warp.name);
    }
    warp.name = name;
    warp.slots[thread.index - first] = slot;
    thread.waits_in = name;
    if (++warp.arrived < kWarpSize) return Wait(State::kInWarp);
    warp.arrived = 0;
    combine(warp.slots);
    std::fill_n(states_.begin() + first, kWarpSize, State::kReady);
  }

  void CopyAsync16(void* to, const void* from) {
    if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % kCopyBytes != 0) {
      Die("an address of a copy is not aligned");
    }
    const Copy copy{to, from};
    if (order_ == Order::kForward) copy.Do();
    running().copies.push_back(copy);
  }

  void CommitCopies() { running().copy_groups.push_back(running().copies.size()); }

  void WaitForCopies(int newest) {
    std::vector<Copy>& copies = running().copies;
    std::vector<size_t>& groups = running().copy_groups;
    const auto remaining = std::min(std::ssize(groups), std::ptrdiff_t{newest});
    if (remaining == std::ssize(groups)) return;
    const auto awaited = groups.end() - remaining;
    const auto end = static_cast<std::ptrdiff_t>(*(awaited - 1));
    if (order_ == Order::kBackward) {
      for (const Copy& copy : std::span(copies).first(static_cast<size_t>(end))) copy.Do();
    }
    copies.erase(copies.begin(), copies.begin() + end);
    groups.erase(groups.begin(), awaited);
    for (size_t& group : groups) group -= static_cast<size_t>(end);
  }

  [[noreturn]] void Die(const std::string& what) const {
    internal::CheckFailed(__FILE__, __LINE__, "kernel on the emulator",
                          "block " + std::to_string(block_) + ": " + what);
  }

 private:
  State& StateOf(const Thread& thread) { return states_[static_cast<size_t>(thread.index)]; }
  State StateOf(const Thread& thread) const { return states_[static_cast<size_t>(thread.index)]; }
  int InOrder(int i, int count) const { return order_ == Order::kForward ? i : count - 1 - i; }

  void RunBlock(int block) {
    block_ = block;
    std::memset(shared_.get(), kPoison, grid_.shared_bytes);
    warps_.assign(threads_.size() / kWarpSize, {});
    at_barrier_ = 0;
    for (Thread& thread : threads_) Start(thread);
    size_t returned = 0;
    while (returned < threads_.size()) {
      bool progress = false;
      for (int i = 0; i < grid_.num_threads; ++i) {
        const auto at = static_cast<size_t>(InOrder(i, grid_.num_threads));
        if (states_[at] != State::kReady) continue;
        progress = true;
        Thread& thread = threads_[at];
        Resume(thread);
        if (states_[at] != State::kReturned) continue;
        ++returned;
        if (!thread.copies.empty()) Die("a thread ended with copies under way");
      }
      if (!progress) Die("threads wait for others that will not come:" + Waiting());
    }
  }

  void Start(Thread& thread) {
    StateOf(thread) = State::kReady;
    thread.stack_switch = {};
    thread.copies.clear();
    thread.copy_groups.clear();
    thread.fiber =
        context::fiber(std::allocator_arg, StackOfThread{thread.stack},
                       [this, &thread](context::fiber&& scheduler) {
                         thread.stack_switch.Arrive(&scheduler_bottom_, &scheduler_size_);
                         scheduler_ = std::move(scheduler);
                         body_();
                         StateOf(thread) = State::kReturned;
                         StackSwitch::LeaveForGood(scheduler_bottom_, scheduler_size_);
                         return std::move(scheduler_);
                       });
  }

  void Resume(Thread& thread) {
    running_ = &thread;
    scheduler_switch_.Leave(thread.stack, kStackBytes);
    thread.fiber = std::move(thread.fiber).resume();
    scheduler_switch_.Arrive(nullptr, nullptr);
  }

  // Lets the other threads run until this one is ready.
  void Wait(State state) {
    Thread& thread = running();
    StateOf(thread) = state;
    thread.stack_switch.Leave(scheduler_bottom_, scheduler_size_);
    scheduler_ = std::move(scheduler_).resume();
    thread.stack_switch.Arrive(&scheduler_bottom_, &scheduler_size_);
  }

  // Ranges of threads that are in the same place.
  std::string Waiting() const {
    const auto place = [this](const Thread& thread) {
      return StateOf(thread) == State::kReturned ? std::string("returned")
                                                 : std::string("in ") + thread.waits_in;
    };
    std::string out;
    for (size_t i = 0; i < threads_.size();) {
      size_t end = i + 1;
      while (end < threads_.size() && place(threads_[end]) == place(threads_[i])) ++end;
      out += " " + std::to_string(i) + "-" + std::to_string(end - 1) + " " + place(threads_[i]);
      i = end;
    }
    return out;
  }

  Order order_;
  Grid grid_;
  const std::function<void()>& body_;
  std::vector<Thread> threads_;
  std::vector<State> states_;  // of each of them
  std::vector<Warp> warps_;
  std::unique_ptr<std::byte, AlignedDelete> shared_;
  int block_ = 0;
  int at_barrier_ = 0;
  Thread* running_ = nullptr;
  context::fiber scheduler_;
  StackSwitch scheduler_switch_;
  const void* scheduler_bottom_ = nullptr;
  size_t scheduler_size_ = 0;
};

// As threadIdx and its kind are to a kernel: what runs on this thread of the host.
thread_local Blocks* current = nullptr;

Blocks& Current() {
  CHECK(current != nullptr);  // else: outside of a kernel
  return *current;
}

void Run(Order order, const Grid& grid, const std::function<void()>& body) {
  CHECK(current == nullptr);  // a kernel cannot launch another
  Blocks blocks(order, grid, body);
  current = &blocks;
  blocks.RunAll();
  current = nullptr;
}

}  // namespace

void Launch(const Stream& stream, const Grid& grid, const std::function<void()>& body) {
  if (stream.later == nullptr) return Run(stream.order, grid, body);
  stream.later->push_back([order = stream.order, grid, body] { Run(order, grid, body); });
}

int ThreadIdx() { return Current().running().index; }
int BlockIdx() { return Current().block(); }
int GridDim() { return Current().num_blocks(); }
std::byte* SharedMemory() { return Current().shared(); }
void SyncThreads() { Current().Barrier(); }
void CopyAsync16(void* to, const void* from) { Current().CopyAsync16(to, from); }
void CommitCopies() { Current().CommitCopies(); }
void WaitForCopies(int newest) { Current().WaitForCopies(newest); }
void Trap(const char* what) { Current().Die(what); }

void WarpCollective(const char* name, void* slot, void (*combine)(WarpSlots)) {
  Current().Collective(name, slot, combine);
}

float F16ToFloat(uint16_t bits) { return ToFloat(F16{bits}); }
uint16_t FloatToF16(float value) { return ToF16(value).bits; }
uint16_t FloatToBf16(float value) { return ToBF16(value).bits; }

}  // namespace aril::kernels::emulator
