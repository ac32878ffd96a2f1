#include "apps/termination.h"

#include <cerrno>
#include <ctime>

#include "base/check.h"
#include "base/termination_signals.h"

namespace aril {

Termination::Termination() {
  sigemptyset(&signals_);
  for (const int signal : TerminationSignals()) sigaddset(&signals_, signal);
  CHECK_EQ(pthread_sigmask(SIG_BLOCK, &signals_, &before_), 0);
}

Termination::~Termination() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void Termination::Wait() {
  int signal = 0;
  CHECK_EQ(sigwait(&signals_, &signal), 0);
}

bool Termination::WaitFor(Duration timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timespec limit = {.tv_sec = seconds.count(), .tv_nsec = (timeout - seconds).count()};
  // Another signal may cut the wait short: whoever waits asks again.
  const int signal = sigtimedwait(&signals_, nullptr, &limit);
  return signal > 0 && EndsAtOnce(signal);
}

}  // namespace aril
