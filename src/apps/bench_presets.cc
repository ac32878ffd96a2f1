#include "apps/bench_presets.h"

#include <cmath>

#include "apps/bench_numbers.h"
#include "base/strings.h"

namespace aril {
namespace {

struct SLoraPreset {
  const char* name;
  int64_t num_adapters;
  double alpha;
  double rate;
  double cv;
};

constexpr SLoraPreset kSLoraPresets[] = {{"s-lora-7b-a10g", 200, 1, 2, 1},
                                         {"s-lora-7b-a100-80g", 200, 1, 10, 1},
                                         {"s-lora-13b-a100-40g", 200, 1, 2, 1},
                                         {"s-lora-13b-a100-80g", 400, 1, 6, 1}};
// The same for all of them.
constexpr TokenRange kSLoraTokens = {8, 512};
constexpr Duration kSLoraDuration = std::chrono::seconds(300);

constexpr size_t kMaxSweepValues = 100;

// A value that counts something.
Status SetCount(double value, int64_t max, int64_t* count) {
  if (value < 1 || value > static_cast<double>(max) || value != std::floor(value)) {
    return InvalidArgument(StrCat(value, " is not an integer from 1 to ", max));
  }
  *count = static_cast<int64_t>(value);
  return OkStatus();
}

Status SetTokens(double value, TokenRange* range) {
  RETURN_IF_ERROR(SetCount(value, kMaxRequestTokens, &range->min));
  range->max = range->min;
  return OkStatus();
}

// What a parameter does to a spec, and what the workload must be for that.
struct SweepParameter {
  const char* name;
  const char* needs;
  bool (*has)(const WorkloadSpec&);
  Status (*set)(double, WorkloadSpec*);
};

bool HasLengths(const WorkloadSpec& spec) {
  return !spec.has_trace_lengths() && spec.lengths.punica_max_total == 0;
}

constexpr SweepParameter kParameters[] = {
    {"rate", "--arrivals poisson:RATE or gamma:RATE:CV",
     [](const WorkloadSpec& spec) { return !spec.has_trace_arrivals() && spec.arrivals.is_open(); },
     [](double value, WorkloadSpec* spec) {
       spec->arrivals.rate = value;
       return Validate(spec->arrivals);
     }},
    {"cv", "--arrivals gamma:RATE:CV",
     [](const WorkloadSpec& spec) {
       return !spec.has_trace_arrivals() && spec.arrivals.kind == ArrivalKind::kGamma;
     },
     [](double value, WorkloadSpec* spec) {
       spec->arrivals.cv = value;
       return Validate(spec->arrivals);
     }},
    {"concurrency", "--arrivals closed:CLIENTS",
     [](const WorkloadSpec& spec) { return !spec.is_open(); },
     [](double value, WorkloadSpec* spec) {
       RETURN_IF_ERROR(SetCount(value, INT32_MAX, &spec->arrivals.concurrency));
       return Validate(spec->arrivals);
     }},
    {"adapters", "", [](const WorkloadSpec&) { return true; },
     [](double value, WorkloadSpec* spec) {
       return SetCount(value, INT32_MAX, &spec->num_adapters);
     }},
    {"alpha", "--popularity power:ALPHA",
     [](const WorkloadSpec& spec) {
       return !spec.has_trace_adapters() && spec.popularity.kind == PopularityKind::kPower;
     },
     [](double value, WorkloadSpec* spec) {
       spec->popularity.alpha = value;
       return Validate(spec->popularity);
     }},
    {"prompt-tokens", "--prompt-tokens", HasLengths,
     [](double value, WorkloadSpec* spec) { return SetTokens(value, &spec->lengths.prompt); }},
    {"output-tokens", "--output-tokens", HasLengths,
     [](double value, WorkloadSpec* spec) { return SetTokens(value, &spec->lengths.output); }},
    {"prefix-tokens", "", [](const WorkloadSpec&) { return true; },
     [](double value, WorkloadSpec* spec) {
       return SetCount(value, INT32_MAX, &spec->prefix_tokens);
     }},
    {"beside-cold", "--beside RATE", [](const WorkloadSpec& spec) { return spec.beside_rate > 0; },
     [](double value, WorkloadSpec* spec) {
       spec->beside_cold = value;
       return value >= 0 && value <= 1 ? OkStatus() : InvalidArgument("a share is from 0 to 1");
     }},
    {"trace-speed", "a --trace that records times",
     [](const WorkloadSpec& spec) { return spec.has_trace_arrivals(); },
     [](double value, WorkloadSpec* spec) {
       spec->trace_speed = value;
       return value > 0 ? OkStatus() : InvalidArgument("the speed must be above 0");
     }}};

const SweepParameter* FindParameter(std::string_view name) {
  for (const SweepParameter& parameter : kParameters) {
    if (name == parameter.name) return &parameter;
  }
  return nullptr;
}

std::string ParameterNames() {
  std::vector<std::string> names;
  for (const SweepParameter& parameter : kParameters) names.emplace_back(parameter.name);
  return Join(names, ", ");
}

}  // namespace

StatusOr<WorkloadSpec> FindPreset(const std::string& name) {
  for (const SLoraPreset& preset : kSLoraPresets) {
    if (name != preset.name) continue;
    return WorkloadSpec{
        .arrivals = {.kind = ArrivalKind::kGamma, .rate = preset.rate, .cv = preset.cv},
        .popularity = {.kind = PopularityKind::kPower, .alpha = preset.alpha},
        .lengths = {.prompt = kSLoraTokens, .output = kSLoraTokens},
        .num_requests = 0,
        .duration = kSLoraDuration,
        .num_adapters = preset.num_adapters};
  }
  return InvalidArgument(StrCat("`", name, "`: expected ", Join(PresetNames(), ", ")));
}

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const SLoraPreset& preset : kSLoraPresets) names.emplace_back(preset.name);
  return names;
}

StatusOr<Sweep> ParseSweep(const std::string& text) {
  const size_t equals = text.find('=');
  Sweep sweep = {.parameter = text.substr(0, equals), .values = {}};
  if (equals == std::string::npos || FindParameter(sweep.parameter) == nullptr) {
    return InvalidArgument(StrCat("`", text,
                                  "`: expected PARAMETER=VALUE,VALUE,…, e.g. rate=1,2,4; "
                                  "the parameters are ",
                                  ParameterNames()));
  }
  for (const std::string_view item : SplitText(std::string_view(text).substr(equals + 1), ',')) {
    double value = 0;
    if (!ParseNumber(item, &value)) {
      return InvalidArgument(StrCat("`", text, "`: `", item, "` is not a number"));
    }
    sweep.values.push_back(value);
  }
  if (sweep.values.size() <= kMaxSweepValues) return sweep;
  return InvalidArgument(
      StrCat("a sweep can have ", kMaxSweepValues, " values, this has ", sweep.values.size()));
}

Status ApplySweep(const std::string& parameter, double value, WorkloadSpec* spec) {
  const SweepParameter* const found = FindParameter(parameter);
  if (found == nullptr) return InvalidArgument("no parameter " + parameter);
  if (!found->has(*spec)) return InvalidArgument(StrCat(parameter, " needs ", found->needs));
  if (const Status set = found->set(value, spec); !set.ok()) {
    return Annotate(set, StrCat(parameter, "=", value));
  }
  return OkStatus();
}

}  // namespace aril
