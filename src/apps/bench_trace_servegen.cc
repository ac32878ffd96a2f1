// ServeGen's clients (Alibaba): not requests but what they were drawn from. A line of
// chunk-N-trace.csv is a window: its start (s), the rate (requests/s), the coefficient of
// variation, and a distribution of the times between requests (Gamma or Weibull: shape, scale;
// empty: exponential). chunk-N-dataset.json has, for longer windows, the probabilities of the
// lengths.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "apps/bench_lengths.h"
#include "apps/bench_numbers.h"
#include "apps/bench_random.h"
#include "apps/bench_trace_formats.h"
#include "base/json.h"
#include "base/strings.h"

namespace aril {
namespace {

constexpr size_t kNumColumns = 6;
constexpr double kMaxSeconds = 4e9;
constexpr double kMaxRate = 1e6;
// Γ(1 + 1/shape) of a Weibull distribution is still a double.
constexpr double kMinShape = 0.01;
constexpr double kMaxShape = 1e6;
// Of the last window, which has no successor; all are as long.
constexpr double kWindowSeconds = 600;

struct Window {
  double start_s = 0;
  double rate = 0;
  std::string_view pattern;
  double shape = 1;
};

StatusOr<Window> ParseWindow(std::string_view line) {
  const std::vector<std::string_view> fields = SplitText(line, ',');
  Window window;
  double ignored = 0;  // the scale; that of the rate counts
  if (fields.size() != kNumColumns || !ParseNumber(fields[0], &window.start_s) ||
      !ParseNumber(fields[1], &window.rate) || !ParseNumber(fields[4], &window.shape) ||
      !ParseNumber(fields[5], &ignored)) {
    return InvalidArgument("expected START,RATE,CV,PATTERN,SHAPE,SCALE");
  }
  window.pattern = fields[3];
  if (window.start_s < 0 || window.start_s > kMaxSeconds) {
    return InvalidArgument(StrCat("a window starts at 0 to ", kMaxSeconds, " s"));
  }
  if (window.rate < 0 || window.rate > kMaxRate) {
    return InvalidArgument(StrCat("the rate can be 0 to ", kMaxRate, " requests/s"));
  }
  if (!window.pattern.empty() && window.pattern != "Gamma" && window.pattern != "Weibull") {
    return InvalidArgument(
        StrCat("the pattern `", window.pattern.substr(0, 40), "` is not Gamma, Weibull or empty"));
  }
  if (!window.pattern.empty() && (window.shape < kMinShape || window.shape > kMaxShape)) {
    return InvalidArgument(StrCat("the shape can be ", kMinShape, " to ", kMaxShape));
  }
  return window;
}

// In seconds. The fitted scales miss the windows' rates by a few percent; the rate is what was
// measured, so only the shape is taken.
double NextInterval(const Window& window, BenchRandom& random) {
  double of_mean_1 = 0;
  if (window.pattern == "Gamma") {
    of_mean_1 = random.Gamma(window.shape) / window.shape;
  } else if (window.pattern == "Weibull") {
    of_mean_1 = random.Weibull(window.shape) / std::tgamma(1 + 1 / window.shape);
  } else {
    of_mean_1 = random.Exponential();
  }
  return of_mean_1 / window.rate;
}

// A number of tokens with its probability.
class TokenTable {
 public:
  // A Python dictionary: "{50: 0.25, 347: 0.75}".
  static StatusOr<TokenTable> Parse(std::string_view text) {
    if (text.size() < 2 || text.front() != '{' || text.back() != '}') {
      return InvalidArgument("expected {TOKENS: PROBABILITY, …}");
    }
    text = text.substr(1, text.size() - 2);
    TokenTable table;
    if (text.empty()) return table;
    for (std::string_view item : SplitText(text, ',')) {
      if (item.substr(0, 1) == " ") item.remove_prefix(1);
      RETURN_IF_ERROR(table.Add(item));
    }
    return table;
  }

  bool empty() const { return tokens_.empty(); }

  int64_t Draw(BenchRandom& random) const {
    const double at = random.Uniform() * cumulative_.back();
    const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end(), at);
    const auto idx = std::min<std::ptrdiff_t>(found - cumulative_.begin(),
                                              static_cast<std::ptrdiff_t>(tokens_.size()) - 1);
    return tokens_[static_cast<size_t>(idx)];
  }

 private:
  Status Add(std::string_view item) {
    const size_t colon = item.find(": ");
    int64_t tokens = 0;
    double probability = 0;
    if (colon == std::string_view::npos || !ParseInt(item.substr(0, colon), &tokens) ||
        !ParseNumber(item.substr(colon + 2), &probability) || tokens < 0 ||
        tokens > kMaxRequestTokens || probability < 0 || probability > 1) {
      return InvalidArgument(StrCat("`", item.substr(0, 40), "`: expected TOKENS: PROBABILITY"));
    }
    if (probability == 0) return OkStatus();
    tokens_.push_back(std::max<int64_t>(tokens, 1));
    cumulative_.push_back((cumulative_.empty() ? 0 : cumulative_.back()) + probability);
    return OkStatus();
  }

  std::vector<int64_t> tokens_;
  std::vector<double> cumulative_;
};

struct LengthTables {
  TokenTable prompt;
  TokenTable output;
};

// By the start of their window, in seconds; those without requests are left out.
using LengthWindows = std::map<int64_t, LengthTables>;

StatusOr<TokenTable> ReadTable(const Json& window, const char* name) {
  const Json* value = window.Find(name);
  if (value == nullptr || value->AsString() == nullptr) {
    return InvalidArgument(StrCat("expected a string `", name, "`"));
  }
  auto table = TokenTable::Parse(*value->AsString());
  if (!table.ok()) return Annotate(table.status(), name);
  return table;
}

StatusOr<LengthWindows> ParseLengths(std::string_view text) {
  LengthWindows windows;
  if (text.empty()) return windows;
  ASSIGN_OR_RETURN(const Json json, Json::Parse(text));
  if (json.AsObject() == nullptr) return InvalidArgument("expected an object");
  for (const auto& [start, window] : *json.AsObject()) {
    int64_t start_s = 0;
    if (!ParseInt(start, &start_s)) {
      return InvalidArgument(StrCat("`", start.substr(0, 40), "`: expected a window's start in s"));
    }
    LengthTables tables;
    ASSIGN_OR_RETURN(tables.prompt, ReadTable(window, "input_tokens"));
    ASSIGN_OR_RETURN(tables.output, ReadTable(window, "output_tokens"));
    if (!tables.prompt.empty() && !tables.output.empty()) windows[start_s] = std::move(tables);
  }
  return windows;
}

// Those of the last window that started by then, or the first of all.
const LengthTables& LengthsAt(const LengthWindows& windows, double time_s) {
  const auto later = windows.upper_bound(static_cast<int64_t>(time_s));
  return later == windows.begin() ? later->second : std::prev(later)->second;
}

class Sampler {
 public:
  Sampler(const LengthWindows& lengths, const TraceOptions& options, Trace* trace)
      : lengths_(lengths),
        options_(options),
        random_(options.seed, RandomStream::kTrace),
        trace_(trace) {}

  bool is_full() const {
    return static_cast<int64_t>(trace_->requests.size()) >= options_.max_requests;
  }

  void Draw(const Window& window, double end_s) {
    if (window.rate == 0) return;
    double time_s = window.start_s;
    while (!is_full()) {
      time_s += NextInterval(window, random_);
      if (time_s >= end_s) return;
      TraceRequest request = {.arrival = ToDuration(time_s)};
      if (!lengths_.empty()) {
        const LengthTables& tables = LengthsAt(lengths_, time_s);
        request.prompt_tokens = tables.prompt.Draw(random_);
        request.output_tokens = tables.output.Draw(random_);
      }
      trace_->requests.push_back(request);
    }
  }

 private:
  const LengthWindows& lengths_;
  const TraceOptions& options_;
  BenchRandom random_;
  Trace* const trace_;
};

}  // namespace

bool IsServegenLine(std::string_view line) {
  const std::vector<std::string_view> fields = SplitText(line, ',');
  double number = 0;
  return fields.size() == kNumColumns && ParseNumber(fields[0], &number) &&
         ParseNumber(fields[1], &number);
}

StatusOr<Trace> ParseServegenTrace(std::string_view text, std::string_view lengths,
                                   const TraceOptions& options) {
  const auto windows = ParseLengths(lengths);
  if (!windows.ok()) return Annotate(windows.status(), "the lengths beside it");
  Trace trace = {
      .format = "servegen", .has_arrivals = true, .has_lengths = !windows->empty(), .requests = {}};
  Sampler sampler(*windows, options, &trace);
  std::optional<Window> last;
  LineReader lines(text);
  std::string_view line;
  while (!sampler.is_full() && lines.Next(&line)) {
    if (line.empty()) continue;
    const auto window = ParseWindow(line);
    if (!window.ok()) return lines.Error(Message(window.status()));
    if (last && window->start_s <= last->start_s) {
      return lines.Error("the windows must be in the order of their starts");
    }
    if (last) sampler.Draw(*last, window->start_s);
    last = *window;
  }
  if (last) sampler.Draw(*last, last->start_s + kWindowSeconds);
  return trace;
}

}  // namespace aril
