// The signals that ask a process to end.

#ifndef ARIL_BASE_TERMINATION_SIGNALS_H_
#define ARIL_BASE_TERMINATION_SIGNALS_H_

#include <vector>

namespace aril {

// SIGTERM, SIGINT, and SIGHUP unless it is ignored: who starts a process with nohup wants it to
// outlive the terminal.
std::vector<int> TerminationSignals();

// Whether such a signal, when another one has come before, means that the process is to end at
// once. A terminal that is closed may send SIGHUP twice: from its shell, and from the kernel.
bool EndsAtOnce(int second_signal);

}  // namespace aril

#endif  // ARIL_BASE_TERMINATION_SIGNALS_H_
