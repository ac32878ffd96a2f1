#include "wire/prefix_marks.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "gtest/gtest.h"

namespace aril::wire {
namespace {

using Adapters = std::vector<AdapterFrom>;

std::vector<int32_t> Prompt(size_t num_tokens, int32_t first = 0) {
  std::vector<int32_t> prompt(num_tokens);
  std::iota(prompt.begin(), prompt.end(), first);
  return prompt;
}

// How many marks two prompts have in common.
size_t InCommon(const std::vector<PrefixMark>& a, const std::vector<PrefixMark>& b) {
  const auto differ = std::ranges::mismatch(a, b);
  const auto in_common = static_cast<size_t>(differ.in1 - a.begin());
  for (size_t i = in_common; i < std::min(a.size(), b.size()); ++i) EXPECT_NE(a[i], b[i]);
  return in_common;
}

TEST(PrefixDepthTest, MarksAreOfSixtyFourTokensOrOfASixteenth) {
  EXPECT_EQ(PrefixDepth(0), 64);
  EXPECT_EQ(PrefixDepth(31), 2048);
  EXPECT_EQ(PrefixDepth(32), 2176);
  EXPECT_EQ(PrefixDepth(47), 4096);
  EXPECT_EQ(PrefixDepth(kMaxPrefixMarks - 1), 131'072);
  for (size_t i = 1; i < kMaxPrefixMarks; ++i) {
    const int64_t step = PrefixDepth(i) - PrefixDepth(i - 1);
    EXPECT_GE(step, 64);
    EXPECT_LE(step, std::max<int64_t>(64, PrefixDepth(i - 1) / 16)) << i;
  }
}

TEST(PrefixMarksTest, ThereIsOneForEachBeginningOfThePrompt) {
  EXPECT_TRUE(MarkPrefixes({}, Prompt(63)).empty());
  EXPECT_EQ(MarkPrefixes({}, Prompt(64)).size(), 1u);
  EXPECT_EQ(MarkPrefixes({}, Prompt(2175)).size(), 32u);
  EXPECT_EQ(MarkPrefixes({}, Prompt(2176)).size(), 33u);
  const auto longest = MarkPrefixes({}, Prompt(200'000));
  EXPECT_EQ(longest.size(), kMaxPrefixMarks);
  EXPECT_EQ(std::set<PrefixMark>(longest.begin(), longest.end()).size(), kMaxPrefixMarks);
}

TEST(PrefixMarksTest, PromptsHaveThoseOfTheirCommonBeginning) {
  const std::vector<int32_t> prompt = Prompt(1000);
  const auto marks = MarkPrefixes({}, prompt);
  EXPECT_EQ(InCommon(marks, MarkPrefixes({}, Prompt(700))), 10u);
  for (const size_t at : {0u, 63u, 64u, 500u, 959u, 960u}) {
    std::vector<int32_t> other = prompt;
    other[at] += 1;
    EXPECT_EQ(InCommon(marks, MarkPrefixes({}, other)), at / 64) << at;
  }
  std::vector<int32_t> swapped = prompt;
  std::swap(swapped[70], swapped[71]);
  EXPECT_EQ(InCommon(marks, MarkPrefixes({}, swapped)), 1u);
}

TEST(PrefixMarksTest, ThoseOfOtherAdaptersAreOthers) {
  const std::vector<int32_t> prompt = Prompt(640);
  const auto marks_of = [&](const Adapters& adapters) { return MarkPrefixes(adapters, prompt); };
  const AdapterUse one = {.id = AdapterId(1)};
  const AdapterUse two = {.id = AdapterId(2)};
  const auto base = marks_of({});
  EXPECT_EQ(InCommon(base, marks_of({{.use = one}})), 0u);
  EXPECT_EQ(InCommon(marks_of({{.use = one}}), marks_of({{.use = two}})), 0u);
  EXPECT_EQ(InCommon(marks_of({{.use = one}}), marks_of({{.use = {one.id, 0.5f}}})), 0u);
  EXPECT_EQ(
      InCommon(marks_of({{.use = one}, {.use = two}}), marks_of({{.use = two}, {.use = one}})), 0u);
}

TEST(PrefixMarksTest, WhatIsBeforeAnInvocationIsTheBaseModels) {
  const std::vector<int32_t> prompt = Prompt(640);
  const auto base = MarkPrefixes({}, prompt);
  const auto invoked = [&](int64_t first_token) {
    return MarkPrefixes(Adapters{{.use = {.id = AdapterId(1)}, .first_token = first_token}},
                        prompt);
  };
  EXPECT_EQ(InCommon(base, invoked(0)), 0u);
  EXPECT_EQ(InCommon(base, invoked(63)), 0u);
  EXPECT_EQ(InCommon(base, invoked(64)), 1u);
  EXPECT_EQ(InCommon(base, invoked(639)), 9u);
  EXPECT_EQ(InCommon(invoked(200), invoked(201)), 3u);
}

}  // namespace
}  // namespace aril::wire
