#include "gateway/argument_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/strings.h"
#include "gateway/text.h"

namespace aril::gateway {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kPythonWords = {{
    {"True", "true"},
    {"False", "false"},
    {"None", "null"},
}};

// Inside the quotes of a string.
std::string Escaped(std::string_view text) {
  const std::string quoted = JsonQuote(text);
  return quoted.substr(1, quoted.size() - 2);
}

// The text before `end`, which is taken with it; nothing if that has not come yet. `from`: it does
// not begin before.
std::optional<std::string> TakeUntil(std::string_view end, std::string* held, size_t from = 0) {
  const size_t size = held->find(end, from);
  if (size == std::string::npos) return std::nullopt;
  std::string text = held->substr(0, size);
  held->erase(0, size + end.size());
  return text;
}

}  // namespace

std::string JsonOfArgument(std::string_view text, grammar::TypeSet types) {
  std::string_view spelled = StripLeft(StripRight(text));
  for (const auto& [word, meant] : kPythonWords) {
    if (spelled == word) spelled = meant;
  }
  const auto value = Json::Parse(spelled);
  const grammar::TypeSet others = types & static_cast<grammar::TypeSet>(~grammar::kString);
  // A quoted string is one only where a string is not written as it is.
  const bool is_meant = value.ok() && (types == others || (grammar::TypeOf(*value) & others) != 0);
  return is_meant ? std::string(spelled) : JsonQuote(text);
}

std::string ArgumentReader::Take(std::string* held) {
  std::string json;
  while (Step(held, &json)) {
  }
  return json;
}

bool ArgumentReader::Step(std::string* held, std::string* json) {
  switch (state_) {
    case State::kBetween:
      return TakeBetween(held, json);
    case State::kName:
      return TakeName(held, json);
    case State::kString:
      return TakeString(held, json);
    case State::kOther:
      return TakeOther(held, json);
    case State::kEnd:
      break;
  }
  return false;
}

bool ArgumentReader::TakeBetween(std::string* held, std::string* json) {
  if (held->starts_with(syntax_->begin)) {
    held->erase(0, syntax_->begin.size());
    state_ = State::kName;
    return true;
  }
  if (syntax_->begin.starts_with(*held)) return false;
  *json += is_first_ ? "{}" : "}";
  state_ = State::kEnd;
  return false;
}

bool ArgumentReader::TakeName(std::string* held, std::string* json) {
  const auto name = TakeUntil(syntax_->middle, held);
  if (!name) return false;
  *json += StrCat(std::exchange(is_first_, false) ? "{" : ", ", JsonQuote(*name), ": ");
  value_types_ = types_->Of(*name);
  state_ = value_types_ == grammar::kString ? State::kString : State::kOther;
  if (state_ == State::kString) *json += '"';
  return true;
}

bool ArgumentReader::TakeOther(std::string* held, std::string* json) {
  const size_t from = num_searched_ - std::min(num_searched_, syntax_->end.size() - 1);
  const auto text = TakeUntil(syntax_->end, held, from);
  num_searched_ = text ? 0 : held->size();
  if (!text) return false;
  *json += JsonOfArgument(*text, value_types_);
  state_ = State::kBetween;
  return true;
}

bool ArgumentReader::TakeString(std::string* held, std::string* json) {
  if (const auto text = TakeUntil(syntax_->end, held)) {
    *json += Escaped(*text) + '"';
    state_ = State::kBetween;
    return true;
  }
  const size_t size = held->size() - NumBegun(*held, syntax_->end);
  *json += Escaped(held->substr(0, size));
  held->erase(0, size);
  return false;
}

}  // namespace aril::gateway
