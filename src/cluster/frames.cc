#include "cluster/frames.h"

#include <algorithm>
#include <array>

#include "base/strings.h"

namespace aril::cluster {

std::string_view NameOf(Role role) {
  switch (role) {
    case Role::kGateway:
      return "gateway";
    case Role::kRunner:
      return "runner";
    case Role::kScheduler:
      return "scheduler";
  }
  return "?";
}

std::string_view NameOf(const Frame& frame) {
  static constexpr std::array<std::string_view, std::variant_size_v<Frame>> kNames = {
      "Hello",          "Welcome",     "RunnerList",     "Submission",    "CloseSequence",
      "Placement",      "Refusal",     "RunnerReport",   "RunnerLeaving", "StartAttempt",
      "ReleaseAttempt", "TokenEvents", "AttemptRefused", "Prefetch",      "LoadAdapters"};
  return kNames[frame.index()];
}

std::string DescribeDifference(const Deployment& ours, const Deployment& theirs) {
  if (ours.base_digest != theirs.base_digest) {
    return StrCat("the base model is ", ours.base_digest, " here and ", theirs.base_digest,
                  " there");
  }
  const size_t num_common = std::min(ours.adapters.size(), theirs.adapters.size());
  for (size_t i = 0; i < num_common; ++i) {
    const Deployment::Adapter& here = ours.adapters[i];
    const Deployment::Adapter& there = theirs.adapters[i];
    if (here == there) continue;
    return StrCat("adapter ", i, " is ", here.name, " (generation ", here.digest, ") here and ",
                  there.name, " (generation ", there.digest, ") there");
  }
  if (ours.adapters.size() != theirs.adapters.size()) {
    return StrCat("there are ", ours.adapters.size(), " adapters here and ", theirs.adapters.size(),
                  " there");
  }
  return "";
}

Status CheckCompatible(const Hello& hello) {
  if (hello.protocol != kProtocol) {
    return FailedPrecondition(StrCat("the ", NameOf(hello.role), " of release ", hello.version,
                                     " speaks protocol ", hello.protocol, ", and this release ",
                                     kProtocol, ": upgrade the older of the two"));
  }
  if (!hello.features.empty()) {
    return FailedPrecondition(StrCat("the ", NameOf(hello.role), " of release ", hello.version,
                                     " needs the feature ", hello.features.front(),
                                     ", which this release does not have: upgrade this process"));
  }
  return OkStatus();
}

}  // namespace aril::cluster
