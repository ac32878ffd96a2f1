// The TerminationSignals for processes that have no event loop of their own.

#ifndef ARIL_APPS_TERMINATION_H_
#define ARIL_APPS_TERMINATION_H_

#include <csignal>

#include "base/clock.h"

namespace aril {

// While it exists the signals do not end the process, but what waits here. To be made before any
// thread is, as threads inherit it.
class Termination {
 public:
  Termination();
  Termination(const Termination&) = delete;
  Termination& operator=(const Termination&) = delete;
  ~Termination();

  // Until a signal comes.
  void Wait();
  // True if another one comes within `timeout` that EndsAtOnce.
  bool WaitFor(Duration timeout);

 private:
  sigset_t signals_{};
  sigset_t before_{};
};

}  // namespace aril

#endif  // ARIL_APPS_TERMINATION_H_
