#include "apps/top_view.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <utility>

#include "apps/progress.h"
#include "base/strings.h"

namespace aril {
namespace {

constexpr size_t kBarWidth = 40;

// "7", "0.25", "1234.5": what a reader takes in at a glance.
std::string Short(double value) {
  char text[32];
  const int digits = value == std::floor(value) || value >= 1000 ? 0 : value >= 10 ? 1 : 2;
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

std::string Milliseconds(double seconds) { return Short(seconds * 1000) + " ms"; }

std::string Padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

// No counter and no gauge of ours is negative, no number, or this large.
double Plausible(double value) { return value >= 0 && value <= 1e15 ? value : 0; }

// Without what a terminal would take for commands: our own names have none of it, but who knows
// what answers there.
std::string Printable(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return c < ' ' || c > '~'; }, '?');
  return name;
}

class View {
 public:
  View(const MetricScrape& before, const MetricScrape& now) : before_(before), now_(now) {
    const double seconds = std::chrono::duration<double>(now.time - before.time).count();
    if (seconds > 0) seconds_ = seconds;
  }

  double Value(const std::string& name,
               const std::map<std::string, std::string>& labels = {}) const {
    return Plausible(FindValue(now_.samples, name, labels).value_or(0));
  }
  // Per second. A counter that went back belongs to a server that was started anew.
  double Rate(const std::string& name,
              const std::map<std::string, std::string>& labels = {}) const {
    const double was = Plausible(FindValue(before_.samples, name, labels).value_or(0));
    return std::max(0.0, Value(name, labels) - was) / seconds_;
  }
  HistogramChange Change(const std::string& name) const {
    const auto now = FindHistogram(now_.samples, name);
    if (!now) return {};
    const auto was = FindHistogram(before_.samples, name);
    if (!was || was->count > now->count) return Difference({}, *now);
    return Difference(*was, *now);
  }

  std::vector<std::string> Summary() const {
    const HistogramChange adapters = Change("aril_step_adapters");
    const HistogramChange first = Change("aril_time_to_first_token_seconds");
    return {StrCat("sequences  ", Short(Value("vllm:num_requests_running")), " running, ",
                   Short(Value("vllm:num_requests_waiting")), " waiting; ",
                   Short(Rate("aril_requests_total", {{"outcome", "success"}})), " requests/s"),
            StrCat("tokens/s   ", Short(Rate("vllm:generation_tokens_total")), " generated, ",
                   Short(Rate("vllm:prompt_tokens_total")), " of prompts"),
            StrCat("a batch    ", Short(Change("aril_step_rows").mean), " rows, ",
                   Short(Change("aril_step_segments").mean), " segments, ", Short(adapters.mean),
                   " adapters (at most ", Short(adapters.max), "), ",
                   Milliseconds(Change("aril_step_seconds").mean)),
            first.count > 0 ? StrCat("latency    first token ", Milliseconds(first.mean),
                                     " (at most ", Milliseconds(first.max), "), next ",
                                     Milliseconds(Change("aril_inter_token_latency_seconds").mean))
                            : std::string("latency    no first token meanwhile"),
            Pool()};
  }

  std::vector<std::string> Models() const {
    struct Counts {
      double running = 0;
      double waiting = 0;
    };
    std::map<std::string, Counts> by_name;
    for (const MetricSample& sample : now_.samples) {
      if (sample.name != "aril_model_sequences") continue;
      const auto model = sample.labels.find("model");
      const auto state = sample.labels.find("state");
      if (model == sample.labels.end() || state == sample.labels.end()) continue;
      Counts& counts = by_name[Printable(model->second)];
      (state->second == "running" ? counts.running : counts.waiting) = Plausible(sample.value);
    }
    std::vector<std::pair<std::string, Counts>> models(by_name.begin(), by_name.end());
    std::stable_sort(models.begin(), models.end(), [](const auto& a, const auto& b) {
      return std::pair(a.second.running, a.second.waiting) >
             std::pair(b.second.running, b.second.waiting);
    });
    std::vector<std::string> lines;
    for (const auto& [name, counts] : models) {
      lines.push_back(
          StrCat(Padded(Short(counts.running), 9), Padded(Short(counts.waiting), 9), name));
    }
    return lines;
  }

 private:
  std::string Pool() const {
    const std::pair<const char*, char> uses[] = {{"kv", 'k'}, {"adapter", 'a'}, {"prefix", 'p'}};
    double total = Value("aril_pool_pages", {{"use", "free"}});
    const double free = total;
    for (const auto& [use, mark] : uses) total += Value("aril_pool_pages", {{"use", use}});
    if (total == 0) return "pool       not known before the first step";
    std::string bar;
    std::string text;
    for (const auto& [use, mark] : uses) {
      const double pages = Value("aril_pool_pages", {{"use", use}});
      if (pages == 0) continue;
      // What is there is seen, however little.
      const double width = std::max(1.0, std::round(pages / total * double{kBarWidth}));
      bar.append(static_cast<size_t>(width), mark);
      text += StrCat(Short(pages), " ", use, ", ");
    }
    bar.resize(kBarWidth, '.');
    const double bytes = std::min(1e18, total * Value("aril_pool_page_bytes"));
    return StrCat("pool       [", bar, "] ", text, Short(free), " free of ", Short(total),
                  " pages (", FormatBytes(static_cast<uint64_t>(bytes)), ")");
  }

  const MetricScrape& before_;
  const MetricScrape& now_;
  double seconds_ = 1;
};

}  // namespace

std::vector<std::string> DrawTop(const MetricScrape& before, const MetricScrape& now,
                                 const TextSize& size) {
  const View view(before, now);
  std::vector<std::string> lines = view.Summary();
  const std::vector<std::string> models = view.Models();
  lines.emplace_back();
  lines.push_back("running  waiting  model");
  lines.insert(lines.end(), models.begin(), models.end());
  if (size.rows > 0 && lines.size() > size.rows) {
    // Names are what the last line gives way to.
    const size_t left_out = std::min(lines.size() - size.rows + 1, models.size());
    lines.resize(size.rows);
    if (left_out > 0) lines.back() = StrCat("(and ", left_out, " more)");
  }
  for (std::string& line : lines) {
    if (line.size() > size.columns) line.resize(size.columns);
  }
  return lines;
}

}  // namespace aril
