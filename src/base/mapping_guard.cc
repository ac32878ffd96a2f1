#include "base/mapping_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <map>

#include "base/check.h"

namespace aril {

// All guards there are. The lock is a spinning one, as a signal handler must not wait for a mutex;
// nobody who holds it reads from a mapping, so that the handler never waits for its own thread.
struct GuardedMappings {
  // Also during the last destructors.
  static GuardedMappings& All() {
    static GuardedMappings& all = *new GuardedMappings();
    return all;
  }

  void Add(MappingGuard& guard) {
    Lock();
    guards_.emplace(guard.begin_, &guard);
    Unlock();
  }
  void Remove(MappingGuard& guard) {
    Lock();
    guards_.erase(guard.begin_);
    Unlock();
  }

  // Whether the address was one of ours, and can be read from now on. Async-signal-safe.
  bool Replace(const std::byte* address) {
    Lock();
    const bool replaced = ReplaceLocked(address);
    Unlock();
    return replaced;
  }

  struct sigaction before = {};

 private:
  bool ReplaceLocked(const std::byte* address) {
    auto found = guards_.upper_bound(address);
    if (found == guards_.begin()) return false;
    MappingGuard& guard = *(--found)->second;
    if (address >= guard.begin_ + guard.size_) return false;
    guard.is_intact_ = false;
    const uintptr_t page = reinterpret_cast<uintptr_t>(address) / page_bytes_ * page_bytes_;
    // The system call itself: what sanitizers put around mmap is not for handlers.
    return syscall(SYS_mmap, page, page_bytes_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                   -1, 0) != -1;
  }

  void Lock() {
    while (locked_.test_and_set(std::memory_order_acquire)) {
    }
  }
  void Unlock() { locked_.clear(std::memory_order_release); }

  const uintptr_t page_bytes_ = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  std::atomic_flag locked_ = ATOMIC_FLAG_INIT;
  std::map<const std::byte*, MappingGuard*> guards_;  // by where they begin
};

namespace {

void OnBusError(int signal, siginfo_t* info, void* context) {
  GuardedMappings& all = GuardedMappings::All();
  if (all.Replace(static_cast<const std::byte*>(info->si_addr))) return;
  if ((all.before.sa_flags & SA_SIGINFO) != 0 && all.before.sa_sigaction != nullptr) {
    return all.before.sa_sigaction(signal, info, context);
  }
  // The instruction is run again, and ends the process as it would have.
  sigaction(signal, &all.before, nullptr);
}

void InstallOnce() {
  static const bool installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    CHECK_EQ(sigaction(SIGBUS, &action, &GuardedMappings::All().before), 0);
    return true;
  }();
  (void)installed;
}

}  // namespace

MappingGuard::MappingGuard(const void* begin, size_t size)
    : begin_(static_cast<const std::byte*>(begin)), size_(size) {
  InstallOnce();
  GuardedMappings::All().Add(*this);
}

MappingGuard::~MappingGuard() { GuardedMappings::All().Remove(*this); }

}  // namespace aril
