#include "base/termination_signals.h"

#include <csignal>

#include "base/check.h"

namespace aril {

std::vector<int> TerminationSignals() {
  struct sigaction hangup = {};
  CHECK_EQ(sigaction(SIGHUP, nullptr, &hangup), 0);
  std::vector<int> signals = {SIGTERM, SIGINT};
  if (hangup.sa_handler != SIG_IGN) signals.push_back(SIGHUP);
  return signals;
}

bool EndsAtOnce(int second_signal) { return second_signal != SIGHUP; }

}  // namespace aril
