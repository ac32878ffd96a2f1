#include "tokenizer/pieces.h"

#include <algorithm>

namespace aril {
namespace {

// Joins each match to the stretch before it, unless that is a match, too.
std::vector<Stretch> MergeWithPrevious(const std::vector<Stretch>& stretches) {
  std::vector<Stretch> merged;
  bool after_match = false;
  for (const Stretch& stretch : stretches) {
    if (stretch.is_match && !after_match && !merged.empty()) {
      merged.back().end = stretch.end;
    } else {
      merged.push_back(stretch);
    }
    after_match = stretch.is_match;
  }
  return merged;
}

std::vector<Stretch> MergeWithNext(const std::vector<Stretch>& stretches) {
  std::vector<Stretch> merged;
  bool before_match = false;
  for (auto stretch = stretches.rbegin(); stretch != stretches.rend(); ++stretch) {
    if (stretch->is_match && !before_match && !merged.empty()) {
      merged.back().begin = stretch->begin;
    } else {
      merged.push_back(*stretch);
    }
    before_match = stretch->is_match;
  }
  std::reverse(merged.begin(), merged.end());
  return merged;
}

std::vector<Stretch> JoinNeighbours(const std::vector<Stretch>& stretches) {
  std::vector<Stretch> joined;
  for (const Stretch& stretch : stretches) {
    if (!joined.empty() && joined.back().is_match == stretch.is_match) {
      joined.back().end = stretch.end;
    } else {
      joined.push_back(stretch);
    }
  }
  return joined;
}

}  // namespace

std::vector<Stretch> ApplyBehavior(SplitBehavior behavior, std::vector<Stretch> stretches) {
  switch (behavior) {
    case SplitBehavior::kRemoved:
      std::erase_if(stretches, [](const Stretch& stretch) { return stretch.is_match; });
      return stretches;
    case SplitBehavior::kIsolated:
      return stretches;
    case SplitBehavior::kMergedWithPrevious:
      return MergeWithPrevious(stretches);
    case SplitBehavior::kMergedWithNext:
      return MergeWithNext(stretches);
    case SplitBehavior::kContiguous:
      return JoinNeighbours(stretches);
  }
  return stretches;
}

Pieces::Pieces(std::string text, bool starts_text)
    : text_(std::move(text)), starts_text_(starts_text) {
  if (!text_.empty()) pieces_.push_back({0, text_.size()});
}

}  // namespace aril
