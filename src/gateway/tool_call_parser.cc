#include "gateway/tool_call_parser.h"

#include <algorithm>
#include <utility>

#include "gateway/text.h"

namespace aril::gateway {
namespace {

using grammar::kSpaces;

// Of whitespace before a marker: more of it is text.
constexpr size_t kMaxHeldSpaces = 256;

// Of whitespace at the end of `text`.
size_t NumSpaces(std::string_view text) {
  const size_t last = text.find_last_not_of(kSpaces);
  return std::min(kMaxHeldSpaces, text.size() - (last == std::string_view::npos ? 0 : last + 1));
}

}  // namespace

ToolCallParser::ToolCallParser(const grammar::ToolCallSyntax& syntax, bool only_at_start,
                               const ToolArgumentTypes* types)
    : syntax_(syntax),
      types_(types),
      has_no_text_(only_at_start),
      only_at_start_(only_at_start || syntax.marker.empty()),
      state_(only_at_start_ ? State::kBegin : State::kText) {}

ToolText ToolCallParser::Append(std::string_view text) {
  held_ += text;
  ToolText out;
  while (Step(&out)) {
  }
  return out;
}

std::string ToolCallParser::Flush() {
  const bool is_text = state_ == State::kText || (state_ == State::kBegin && !HoldsMarker());
  return is_text && !(state_ == State::kBegin && has_no_text_) ? std::exchange(held_, {}) : "";
}

bool ToolCallParser::has_whole_calls() const {
  if (num_calls_ == 0) return false;
  // What looked like the way to another call may have been the whitespace behind them all.
  const bool has_no_name = held_.find_first_not_of(kSpaces) == std::string::npos;
  return state_ == State::kBehind || state_ == State::kRest ||
         (state_ == State::kName && has_no_name);
}

bool ToolCallParser::Step(ToolText* out) {
  switch (state_) {
    case State::kText:
      return TakeText(out);
    case State::kBegin:
      return TakeBegin(out);
    case State::kName:
      return TakeName(out);
    case State::kArguments:
      return TakeArguments(out);
    case State::kBehind:
      return TakeBehind();
    case State::kRest:
      break;
  }
  // Whitespace behind calls is nothing, unless there is more.
  const bool is_nothing = num_calls_ > 0 && held_.find_first_not_of(kSpaces) == std::string::npos;
  if (!is_nothing) out->content += std::exchange(held_, {});
  return false;
}

bool ToolCallParser::TakeText(ToolText* out) {
  const size_t marker = held_.find(syntax_.marker);
  const bool is_found = marker != std::string::npos;
  const size_t end = is_found ? marker : held_.size() - NumBegun(held_, syntax_.marker);
  num_spaces_ = NumSpaces(std::string_view(held_).substr(0, end));
  out->content += TakeHeld(end - num_spaces_);
  if (!is_found) return false;
  state_ = State::kBegin;
  return true;
}

bool ToolCallParser::TakeBegin(ToolText* out) {
  if (only_at_start_) num_spaces_ = std::min(held_.find_first_not_of(kSpaces), held_.size());
  const std::string_view behind_spaces = std::string_view(held_).substr(num_spaces_);
  const bool may_begin = !only_at_start_ || num_spaces_ <= static_cast<size_t>(grammar::kMaxSpaces);
  if (may_begin && behind_spaces.starts_with(syntax_.begin)) {
    held_.erase(0, num_spaces_ + syntax_.begin.size());
    state_ = State::kName;
    return true;
  }
  if (may_begin && syntax_.begin.starts_with(behind_spaces)) return false;
  if (only_at_start_) return ToRest();
  // The marker was text, of which a part may begin another one.
  out->content += TakeHeld(num_spaces_ + 1);
  state_ = State::kText;
  return true;
}

bool ToolCallParser::TakeName(ToolText* out) {
  const size_t size = held_.find(syntax_.middle);
  if (size == std::string::npos) {
    const bool is_short = held_.size() <= grammar::kMaxToolNameBytes + syntax_.middle.size();
    return is_short ? false : ToRest();
  }
  if (!grammar::IsToolName(std::string_view(held_).substr(0, size))) return ToRest();
  out->calls.push_back({.index = num_calls_++, .name = TakeHeld(size), .arguments = ""});
  held_.erase(0, syntax_.middle.size());
  object_ = JsonExtent();
  if (syntax_.argument) {
    one_by_one_.emplace(*syntax_.argument, TypesOf(out->calls.back().name));
  }
  state_ = State::kArguments;
  return true;
}

const grammar::ArgumentTypes& ToolCallParser::TypesOf(const std::string& tool) const {
  static const grammar::ArgumentTypes kAnything;
  if (types_ == nullptr) return kAnything;
  const auto types = types_->find(tool);
  return types == types_->end() ? kAnything : types->second;
}

bool ToolCallParser::TakeArguments(ToolText* out) {
  AddArguments(one_by_one_ ? one_by_one_->Take(&held_) : TakeHeld(object_.Append(held_)), out);
  if (!(one_by_one_ ? one_by_one_->is_complete() : object_.is_complete())) return false;
  state_ = State::kBehind;
  return true;
}

void ToolCallParser::AddArguments(const std::string& json, ToolText* out) const {
  if (json.empty()) return;
  const int64_t index = num_calls_ - 1;
  if (out->calls.empty() || out->calls.back().index != index) {
    out->calls.push_back({.index = index, .name = "", .arguments = ""});
  }
  out->calls.back().arguments += json;
}

bool ToolCallParser::TakeBehind() {
  if (syntax_.next && held_.starts_with(*syntax_.next)) {
    held_.erase(0, syntax_.next->size());
    state_ = State::kName;
    return true;
  }
  if (syntax_.next && syntax_.next->starts_with(held_)) return false;
  if (held_.starts_with(syntax_.end)) {
    held_.erase(0, syntax_.end.size());
    return ToRest();
  }
  return syntax_.end.starts_with(held_) ? false : ToRest();
}

bool ToolCallParser::HoldsMarker() const {
  return !syntax_.marker.empty() &&
         std::string_view(held_).substr(num_spaces_).starts_with(syntax_.marker);
}

bool ToolCallParser::ToRest() {
  state_ = State::kRest;
  return true;
}

std::string ToolCallParser::TakeHeld(size_t size) {
  std::string taken = held_.substr(0, size);
  held_.erase(0, size);
  return taken;
}

}  // namespace aril::gateway
