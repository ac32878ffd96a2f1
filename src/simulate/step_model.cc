#include "simulate/step_model.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/strings.h"

namespace aril::simulate {
namespace {

struct Member {
  const char* name;
  double StepModel::*value;
  double least = 0;
  double most = 10;
  const char* unit = "seconds";
};
constexpr Member kMembers[] = {{"base", &StepModel::base, 1e-9},
                               {"prefill_token", &StepModel::prefill_token},
                               {"sequence", &StepModel::sequence},
                               {"context_token", &StepModel::context_token},
                               {"adapter_byte", &StepModel::adapter_byte},
                               {"load_byte", &StepModel::load_byte},
                               {"load_latency", &StepModel::load_latency},
                               {"free_rows", &StepModel::free_rows, 0, 65536, "rows"}};

// Whatever the coefficients: a step of a fortnight fits a Duration.
constexpr double kMaxTime = 1e6;

Duration FromSeconds(double seconds) {
  return Duration(static_cast<int64_t>(std::llround(std::min(seconds, kMaxTime) * 1e9)));
}

}  // namespace

Duration StepModel::Step(const StepWork& work) const {
  return FromSeconds(base + prefill_token * PaidPrefillTokens(work) +
                     sequence * static_cast<double>(work.decodes) +
                     context_token * static_cast<double>(work.context_tokens) +
                     adapter_byte * static_cast<double>(work.adapter_bytes));
}

double StepModel::PaidPrefillTokens(const StepWork& work) const {
  const double room = std::max(0.0, free_rows - static_cast<double>(work.decodes));
  return std::max(0.0, static_cast<double>(work.prefill_tokens) - room);
}

Duration StepModel::Load(int64_t adapter_bytes) const {
  return FromSeconds(load_latency + load_byte * static_cast<double>(adapter_bytes));
}

scheduler::StepCurve StepModel::Curve(int64_t max_batch, int64_t context_tokens) const {
  std::vector<scheduler::StepCurve::Point> points;
  for (const int64_t batch : {int64_t{1}, max_batch}) {
    const Duration step = Step({.decodes = batch, .context_tokens = batch * context_tokens});
    if (points.empty() || batch > 1) {
      points.push_back({batch, std::chrono::duration<double>(step).count()});
    }
  }
  auto curve = scheduler::StepCurve::Make(std::move(points));
  CHECK(curve.ok());  // coefficients are not negative
  return *std::move(curve);
}

Json StepModel::ToJson() const {
  Json::Object object;
  for (const Member& member : kMembers) object.emplace_back(member.name, this->*member.value);
  return object;
}

StatusOr<StepModel> ParseStepModel(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, Json::Parse(text));
  const Json::Object* const object = json.AsObject();
  if (object == nullptr) {
    return InvalidArgument(StrCat("a step model is a JSON object, this is ", json.KindName()));
  }
  StepModel model;
  for (const auto& [key, value] : *object) {
    bool is_known = false;
    for (const Member& member : kMembers) {
      if (key != member.name) continue;
      is_known = true;
      double number = 0;
      if (!value.AsNumber(&number) || !(number >= member.least && number <= member.most)) {
        return InvalidArgument(StrCat("step model: `", key, "` must be a number of ", member.unit,
                                      " from ", member.least, " to ", member.most));
      }
      model.*member.value = number;
    }
    if (!is_known) {
      return InvalidArgument(StrCat("step model: unknown member `", key,
                                    "`; known are base, prefill_token, sequence, context_token, "
                                    "adapter_byte, load_byte, load_latency and free_rows"));
    }
  }
  return model;
}

}  // namespace aril::simulate
