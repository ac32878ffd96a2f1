// A terminal as a screen that is drawn anew: the alternate buffer, keys without echo, resizing.

#ifndef ARIL_APPS_TERMINAL_SCREEN_H_
#define ARIL_APPS_TERMINAL_SCREEN_H_

#include <termios.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "apps/top_view.h"
#include "base/clock.h"
#include "base/status.h"

namespace aril {

// At most one at a time. SIGINT, SIGTERM and SIGWINCH of the thread that makes it belong to it
// while it lives; afterwards the terminal is as it was. Not thread-safe.
class TerminalScreen {
 public:
  // FailedPrecondition if standard output is no terminal.
  static StatusOr<std::unique_ptr<TerminalScreen>> Open();
  ~TerminalScreen();
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  TextSize size() const;
  // Lines beyond the size are left out.
  void Draw(const std::vector<std::string>& lines);

  enum class Event { kTimeout, kResized, kQuit };
  // Waits for `q`, Ctrl-C, SIGTERM or a new size, at most so long.
  Event Wait(Duration timeout);

 private:
  TerminalScreen() = default;

  int signals_ = -1;  // a signalfd
  sigset_t old_mask_{};
  bool has_keys_ = false;  // standard input is a terminal, too
  termios old_input_{};
};

}  // namespace aril

#endif  // ARIL_APPS_TERMINAL_SCREEN_H_
