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

}  // namespace

std::string JsonOfArgument(std::string_view text, const grammar::ArgumentType& type) {
  if (type.words.contains(std::string(text))) return JsonQuote(text);
  std::string_view spelled = StripLeft(StripRight(text));
  for (const auto& [word, meant] : kPythonWords) {
    if (spelled == word) spelled = meant;
  }
  // A quoted string is one only where a string is not written as it is.
  const auto is_meant = [&] {
    if ((type.types & grammar::kString) == 0) return IsJson(spelled);
    const auto value = Json::Parse(spelled);
    return value.ok() && value->AsString() == nullptr &&
           (grammar::TypeOf(*value) & type.types) != 0;
  };
  return is_meant() ? std::string(spelled) : JsonQuote(text);
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

std::optional<std::string> ArgumentReader::TakeUntil(std::string_view end, std::string* held) {
  const size_t size = held->find(end, num_searched_ - std::min(num_searched_, end.size() - 1));
  num_searched_ = size == std::string::npos ? held->size() : 0;
  if (size == std::string::npos) return std::nullopt;
  std::string text = held->substr(0, size);
  held->erase(0, size + end.size());
  return text;
}

bool ArgumentReader::TakeName(std::string* held, std::string* json) {
  const auto name = TakeUntil(syntax_->middle, held);
  if (!name) return false;
  *json += StrCat(std::exchange(is_first_, false) ? "{" : ", ", JsonQuote(*name), ": ");
  type_ = &types_->Of(*name);
  state_ = type_->types == grammar::kString ? State::kString : State::kOther;
  if (state_ == State::kString) *json += '"';
  return true;
}

bool ArgumentReader::TakeOther(std::string* held, std::string* json) {
  const auto text = TakeUntil(syntax_->end, held);
  if (!text) return false;
  *json += JsonOfArgument(*text, *type_);
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
  num_searched_ = 0;
  return false;
}

}  // namespace aril::gateway
