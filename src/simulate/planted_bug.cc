#include "simulate/planted_bug.h"

#include <utility>

#include "base/strings.h"

namespace aril::simulate {
namespace {

constexpr std::pair<PlantedBug, const char*> kNames[] = {
    {PlantedBug::kStaleEpochAccepted, "stale-epoch-accepted"},
    {PlantedBug::kBrokenConnectionIgnored, "broken-connection-ignored"},
    {PlantedBug::kReleaseIgnored, "release-ignored"},
    {PlantedBug::kEpochForgotten, "epoch-forgotten"},
    {PlantedBug::kStaleAttemptAccepted, "stale-attempt-accepted"},
    {PlantedBug::kGapsClosed, "gaps-closed"},
    {PlantedBug::kDuplicatesRenumbered, "duplicates-renumbered"},
    {PlantedBug::kDroppedCancel, "dropped-cancel"},
    {PlantedBug::kPromptOnlyResubmitted, "prompt-only-resubmitted"},
    {PlantedBug::kLostResubmission, "lost-resubmission"},
    {PlantedBug::kUnboundedQueue, "unbounded-queue"},
    {PlantedBug::kPausedLeaderRules, "paused-leader-rules"},
    {PlantedBug::kEvictOldest, "evict-oldest"},
    {PlantedBug::kOffByOneIndex, "off-by-one-index"},
    {PlantedBug::kPageLeak, "page-leak"},
    {PlantedBug::kPageFreedTwice, "page-freed-twice"},
    {PlantedBug::kAdapterInUseDropped, "adapter-in-use-dropped"},
    {PlantedBug::kTokensRestart, "tokens-restart"},
    {PlantedBug::kFinishForgotten, "finish-forgotten"}};

}  // namespace

std::vector<PlantedBug> AllPlantedBugs() {
  std::vector<PlantedBug> bugs;
  for (const auto& [bug, name] : kNames) bugs.push_back(bug);
  return bugs;
}

std::string Name(PlantedBug bug) {
  for (const auto& [known, name] : kNames) {
    if (known == bug) return name;
  }
  return "none";
}

StatusOr<PlantedBug> ParsePlantedBug(const std::string& name) {
  std::vector<std::string> names = {"none"};
  if (name == "none") return PlantedBug::kNone;
  for (const auto& [bug, known] : kNames) {
    if (name == known) return bug;
    names.emplace_back(known);
  }
  return InvalidArgument(StrCat("`", name, "`: expected ", Join(names, ", ")));
}

}  // namespace aril::simulate
