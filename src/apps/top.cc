#include "apps/top.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/terminal_screen.h"
#include "apps/top_view.h"
#include "base/strings.h"

namespace aril {
namespace {

// A cluster's runner knows no requests, and its gateway no steps.
bool IsOurs(const std::vector<MetricSample>& samples) {
  return FindValue(samples, "aril_requests_in_flight") ||
         FindValue(samples, "aril_step_rows_count");
}

StatusOr<MetricScrape> Scrape(const Server& server, const Clock& clock) {
  ASSIGN_OR_RETURN(const std::string text, server.Fetch("/metrics"));
  MetricScrape scrape = {.time = clock.Now(), .samples = ParseMetrics(text)};
  if (!IsOurs(scrape.samples)) {
    return FailedPrecondition("/metrics: not those of an Aril server; check --url");
  }
  return scrape;
}

std::string Title(const TopOptions& options) {
  const auto& url = options.server.url;
  return StrCat("aril top  ", url.is_https ? "https" : "http", "://", url.host, ":", url.port,
                url.path);
}

Status PrintTop(const TopOptions& options, std::ostream& out, const Clock& clock) {
  ASSIGN_OR_RETURN(MetricScrape before, Scrape(options.server, clock));
  for (int64_t i = 0; options.iterations == 0 || i < options.iterations; ++i) {
    std::this_thread::sleep_for(options.interval);
    ASSIGN_OR_RETURN(MetricScrape now, Scrape(options.server, clock));
    for (const std::string& line : DrawTop(before, now, {.columns = std::string::npos})) {
      out << line << '\n';
    }
    out << std::endl;
    if (!out) return OkStatus();  // the reader has gone: `aril top | head`
    before = std::move(now);
  }
  return OkStatus();
}

Status DrawTopOn(TerminalScreen& screen, const TopOptions& options, const Clock& clock) {
  // The first failure is one of usage: wrong URL, wrong key.
  ASSIGN_OR_RETURN(MetricScrape before, Scrape(options.server, clock));
  MetricScrape now = before;
  std::string error;
  const auto draw = [&] {
    TextSize size = screen.size();
    std::vector<std::string> lines = {Title(options) + "  (q ends)", error};
    size.rows = size.rows > lines.size() ? size.rows - lines.size() : 1;
    const auto view = DrawTop(before, now, size);
    lines.insert(lines.end(), view.begin(), view.end());
    for (std::string& line : lines) {
      if (line.size() > size.columns) line.resize(size.columns);
    }
    screen.Draw(lines);
  };
  TimePoint next = clock.Now();
  for (int64_t i = 0; options.iterations == 0 || i < options.iterations;) {
    draw();
    const Duration left = next - clock.Now();
    const auto event = screen.Wait(left > Duration::zero() ? left : Duration::zero());
    if (event == TerminalScreen::Event::kQuit) return OkStatus();
    if (clock.Now() < next) continue;
    next = clock.Now() + options.interval;
    ++i;
    auto scrape = Scrape(options.server, clock);
    error = scrape.ok() ? "" : "no answer: " + Message(scrape.status());
    if (!scrape.ok()) continue;
    before = std::exchange(now, *std::move(scrape));
  }
  draw();
  return OkStatus();
}

}  // namespace

Status Top(const TopOptions& options, std::ostream& out, const Clock& clock) {
  if (isatty(STDOUT_FILENO) == 0) return PrintTop(options, out, clock);
  ASSIGN_OR_RETURN(const auto screen, TerminalScreen::Open());
  return DrawTopOn(*screen, options, clock);
}

}  // namespace aril
