#include "apps/terminal_screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include "base/strings.h"

namespace aril {
namespace {

// ECMA-48 control sequences, and DEC's private modes that all terminals know.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";  // alternate screen, no cursor
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view kHome = "\x1b[H";
constexpr std::string_view kClearLine = "\x1b[K";
constexpr std::string_view kClearBelow = "\x1b[J";

// A terminal that is gone takes nothing; there is nobody to tell.
void WriteAll(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

StatusOr<std::unique_ptr<TerminalScreen>> TerminalScreen::Open() {
  if (isatty(STDOUT_FILENO) == 0) {
    return FailedPrecondition("standard output is not a terminal");
  }
  std::unique_ptr<TerminalScreen> screen(new TerminalScreen);
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signal : {SIGINT, SIGTERM, SIGWINCH}) sigaddset(&mask, signal);
  pthread_sigmask(SIG_BLOCK, &mask, &screen->old_mask_);
  screen->signals_ = signalfd(-1, &mask, SFD_CLOEXEC);
  if (screen->signals_ < 0) {
    const int error = errno;
    return Internal(StrCat("signalfd: ", std::generic_category().message(error)));
  }
  if (tcgetattr(STDIN_FILENO, &screen->old_input_) == 0) {
    screen->has_keys_ = true;
    termios input = screen->old_input_;
    input.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &input);
  }
  WriteAll(kEnter);
  return screen;
}

TerminalScreen::~TerminalScreen() {
  if (signals_ >= 0) {
    WriteAll(kLeave);
    close(signals_);
  }
  if (has_keys_) tcsetattr(STDIN_FILENO, TCSANOW, &old_input_);
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

TextSize TerminalScreen::size() const {
  winsize window = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0 || window.ws_row == 0) {
    return {.columns = 80, .rows = 24};
  }
  return {.columns = window.ws_col, .rows = window.ws_row};
}

void TerminalScreen::Draw(const std::vector<std::string>& lines) {
  const size_t rows = size().rows;
  std::string text(kHome);
  for (size_t i = 0; i < lines.size() && i < rows; ++i) {
    text += StrCat(i > 0 ? "\r\n" : "", lines[i], kClearLine);
  }
  WriteAll(text.append(kClearBelow));
}

TerminalScreen::Event TerminalScreen::Wait(Duration timeout) {
  pollfd polled[] = {{.fd = signals_, .events = POLLIN, .revents = 0},
                     {.fd = has_keys_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0}};
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  if (poll(polled, std::size(polled), static_cast<int>(milliseconds)) <= 0) return Event::kTimeout;
  if (polled[0].revents != 0) {
    signalfd_siginfo info = {};
    if (read(signals_, &info, sizeof(info)) != sizeof(info)) return Event::kTimeout;
    return info.ssi_signo == SIGWINCH ? Event::kResized : Event::kQuit;
  }
  char key = 0;
  // A terminal that has hung up reads as the end of the file.
  if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q') return Event::kQuit;
  return Event::kTimeout;
}

}  // namespace aril
