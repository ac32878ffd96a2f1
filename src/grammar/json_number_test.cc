#include "grammar/json_number.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "grammar/automaton.h"
#include "grammar/test_support.h"
#include "gtest/gtest.h"

namespace aril::grammar {
namespace {

enum class Kind { kInteger, kNumber };

StatusOr<Automaton> Numbers(Kind kind, const NumberBounds& bounds) {
  GrammarBuilder builder;
  const auto add = kind == Kind::kInteger ? AddInteger : AddNumber;
  ASSIGN_OR_RETURN(const NodeIdx start, add(builder, bounds, builder.Return()));
  ASSIGN_OR_RETURN(Grammar grammar, builder.Build(start));
  return Automaton(std::move(grammar));
}

struct Case {
  Kind kind;
  NumberBounds bounds;
  std::vector<std::string> accepted;
  std::vector<std::string> refused;
};

constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();
constexpr int64_t kMinInt = std::numeric_limits<int64_t>::min();

TEST(JsonNumber, Bounds) {
  const std::vector<Case> cases = {
      {Kind::kInteger,
       {.minimum = 0},
       {"0", "9", "10", "12345678901234567"},
       {"-1", "00", "-0", ""}},
      {Kind::kInteger, {.exclusive_minimum = 0}, {"1", "10"}, {"0", "-1"}},
      {Kind::kInteger, {.minimum = 0.5, .maximum = 3.5}, {"1", "3"}, {"0", "4"}},
      {Kind::kInteger, {.exclusive_minimum = 1.0, .exclusive_maximum = 3.0}, {"2"}, {"1", "3"}},
      {Kind::kInteger, {.minimum = 2, .exclusive_minimum = 4, .maximum = 9}, {"5"}, {"4", "10"}},
      {Kind::kInteger, {.maximum = -10}, {"-10", "-11", "-99", "-100"}, {"-9", "0", "10", "-010"}},
      {Kind::kInteger,
       {.minimum = kMinInt, .maximum = kMaxInt},
       {"9223372036854775807", "-9223372036854775808", "0"},
       {"9223372036854775808", "-9223372036854775809"}},
      {Kind::kInteger, {.exclusive_minimum = kMaxInt}, {"9223372036854775808"}, {"1", "-1"}},
      {Kind::kInteger, {.minimum = -1e300, .maximum = 1e300}, {"9999999999999999999"}, {}},
      {Kind::kNumber,
       {.minimum = 0, .maximum = 1},
       {"0", "1", "0.5", "0.0", "1.0", "0.1234567890123456", "1.0000000000000000"},
       {"1.1", "-0.1", "-0", "2", "1.0000000000000001", "0.", ".5", "00", "0.12345678901234567",
        "1e0"}},
      {Kind::kNumber, {.exclusive_minimum = 0}, {"0.1", "1", "0.0000000000000001"}, {"0", "0.0"}},
      {Kind::kNumber, {.exclusive_maximum = 100}, {"99.99", "-5"}, {"100", "99.9999999999999999"}},
      {Kind::kNumber,
       {.minimum = -2.5, .maximum = -0.25},
       {"-2.5", "-1", "-0.25", "-0.250"},
       {"-2.51", "-0.2", "0", "1", "-0"}},
      {Kind::kNumber,
       {.minimum = 9.5, .maximum = 1200.25},
       {"9.5", "9.75", "10", "99", "100.1", "999", "1200.25", "1199.99"},
       {"9", "9.4", "1200.26", "1201", "2000", "09.5"}},
      {Kind::kNumber, {.minimum = 1e-300}, {"0.0000000000000001"}, {"0", "0.00"}},
      {Kind::kNumber, {.minimum = 0.1, .maximum = 0.1}, {"0.1", "0.10"}, {"0.11", "0.09", "0"}},
      {Kind::kNumber, {}, {"0", "-0", "1e10", "0.1E-5"}, {"01", "1e100"}},
  };
  for (const Case& test : cases) {
    auto automaton = Numbers(test.kind, test.bounds);
    ASSERT_TRUE(automaton.ok()) << automaton.status();
    SCOPED_TRACE(StrCat(test.bounds.minimum.Dump(), " ", test.bounds.exclusive_minimum.Dump(), " ",
                        test.bounds.maximum.Dump(), " ", test.bounds.exclusive_maximum.Dump()));
    for (const std::string& text : test.accepted) EXPECT_TRUE(Accepts(*automaton, text)) << text;
    for (const std::string& text : test.refused) EXPECT_FALSE(Accepts(*automaton, text)) << text;
  }
}

TEST(JsonNumber, RefusesBoundsWithNothingBetween) {
  const std::vector<std::pair<Kind, NumberBounds>> cases = {
      {Kind::kInteger, {.minimum = 2, .maximum = 1}},
      {Kind::kInteger, {.minimum = 0.1, .maximum = 0.9}},
      {Kind::kInteger, {.exclusive_minimum = 1, .exclusive_maximum = 2}},
      {Kind::kInteger, {.minimum = 1e20}},
      {Kind::kNumber, {.minimum = 1, .exclusive_maximum = 1}},
      {Kind::kNumber, {.minimum = 1e-20, .maximum = 1e-18}},
      {Kind::kNumber, {.maximum = -1e300}},
  };
  for (const auto& [kind, bounds] : cases) {
    EXPECT_EQ(Numbers(kind, bounds).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(JsonNumber, EveryIntegerOfSmallRanges) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int a = static_cast<int>(random() % 2400) - 1200;
    const int b = static_cast<int>(random() % 2400) - 1200;
    auto automaton =
        Numbers(Kind::kInteger, {.minimum = std::min(a, b), .maximum = std::max(a, b)});
    ASSERT_TRUE(automaton.ok());
    for (int i = -1300; i <= 1300; ++i) {
      ASSERT_EQ(Accepts(*automaton, std::to_string(i)), std::min(a, b) <= i && i <= std::max(a, b))
          << i << " in " << a << " " << b;
    }
  }
}

// `thousandths` as a decimal fraction, with as many zeros at the end as possible, or more.
std::string Decimal(int thousandths, size_t num_zeros) {
  std::string digits = std::to_string(std::abs(thousandths));
  while (digits.size() < 4) digits.insert(0, "0");
  digits.insert(digits.size() - 3, ".");
  while (digits.back() == '0') digits.pop_back();
  digits += std::string(num_zeros, '0');
  if (digits.back() == '.') digits.pop_back();
  return (thousandths < 0 ? "-" : "") + digits;
}

TEST(JsonNumber, RandomFractions) {
  std::mt19937 random(11);
  // Small numbers more often than large ones, so that they have different numbers of digits.
  const auto any = [&] {
    const int limit = 1 << (random() % 23);
    return static_cast<int>(random() % static_cast<unsigned>(2 * limit)) - limit;
  };
  for (int round = 0; round < 500; ++round) {
    const int a = any();
    const int b = any();
    const int min = std::min(a, b);
    const int max = std::max(a, b);
    auto automaton = Numbers(Kind::kNumber, {.minimum = min / 1000.0, .maximum = max / 1000.0});
    ASSERT_TRUE(automaton.ok());
    for (int i = 0; i < 300; ++i) {
      const int around = i % 3 == 0 ? any() : (i % 3 == 1 ? min : max) + any() % 9;
      const std::string text = Decimal(around, random() % 4);
      ASSERT_EQ(Accepts(*automaton, text), min <= around && around <= max)
          << text << " in " << min << " " << max;
    }
  }
}

// Texts at random within random bounds, which are read as doubles do not leave them.
TEST(JsonNumber, RandomWalksStayWithinTheBounds) {
  std::mt19937_64 random(13);
  const auto any = [&] {
    const double scale = std::pow(10.0, static_cast<double>(random() % 36) - 17);
    return std::generate_canonical<double, 53>(random) * scale * (random() % 2 == 0 ? 1 : -1);
  };
  for (int round = 0; round < 500; ++round) {
    const double low = any();
    const double high = low + std::abs(any());
    auto automaton = Numbers(Kind::kNumber, {.exclusive_minimum = low, .exclusive_maximum = high});
    if (!automaton.ok()) continue;
    for (int i = 0; i < 50; ++i) {
      std::string text;
      Automaton::State state = automaton->start();
      while (!automaton->IsComplete(state) || (automaton->HasNext(state) && random() % 16 != 0)) {
        const char byte = "0123456789.-"[random() % 12];
        const Automaton::State next = automaton->Next(state, static_cast<uint8_t>(byte));
        if (!Automaton::IsState(next)) continue;
        text.push_back(byte);
        state = next;
      }
      const double value = std::strtod(text.c_str(), nullptr);
      ASSERT_LT(low, value) << text;
      ASSERT_GT(high, value) << text;
    }
  }
}

}  // namespace
}  // namespace aril::grammar
