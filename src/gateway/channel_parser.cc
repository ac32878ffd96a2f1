#include "gateway/channel_parser.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "gateway/harmony.h"
#include "gateway/text.h"
#include "grammar/free_text.h"

namespace aril::gateway {
namespace {

using grammar::kSpecialTokenMark;

// Of a header: a channel's name, a tool's, and what its content is.
constexpr size_t kMaxHeaderBytes = 512;

std::string WithoutMarks(std::string_view text) {
  std::string plain;
  for (size_t at = 0; at < text.size();) {
    const size_t mark = std::min(text.find(kSpecialTokenMark, at), text.size());
    plain += text.substr(at, mark - at);
    at = mark + kSpecialTokenMark.size();
  }
  return plain;
}

// Whether a text is a header, so far: a special token, or for whom it is before one.
bool MayBeHeader(std::string_view text) {
  const std::string_view begun = StripLeft(text);
  for (const std::string_view beginning : {kSpecialTokenMark, kHarmonyRecipient}) {
    if (begun.starts_with(beginning) || beginning.starts_with(begun)) return true;
  }
  return false;
}

// The word behind `key` in a header; empty without one.
std::string_view WordBehind(std::string_view key, std::string_view header) {
  const size_t at = header.find(key);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = header.substr(at + key.size());
  return rest.substr(0, rest.find_first_of(" \t\r\n<"));
}

}  // namespace

ReasonedText ChannelParser::Flush() {
  ReasonedText out;
  const bool is_header = !has_said_nothing() || held_.find(kSpecialTokenMark) != std::string::npos;
  const std::string rest = WithoutMarks(std::exchange(held_, {}));
  switch (state_) {
    case State::kHeader:
      if (!is_header) out.answer = rest;
      break;
    case State::kReasoning:
      out.reasoning = rest;
      break;
    case State::kAnswer:
      out.answer = rest;
      break;
    case State::kCall:
      out.calls = rest;
      break;
  }
  return out;
}

bool ChannelParser::Step(ReasonedText* out) {
  switch (state_) {
    case State::kHeader:
      return TakeHeader(out);
    case State::kReasoning:
      return TakeMessage(&out->reasoning);
    case State::kAnswer:
      return TakeMessage(&out->answer);
    case State::kCall:
      return TakeMessage(&out->calls);
  }
  return false;
}

bool ChannelParser::TakeHeader(ReasonedText* out) {
  static const std::string kEndOfHeader =
      StrCat(kSpecialTokenMark, kHarmonyMessage, kSpecialTokenMark);
  if (held_.empty()) return false;
  const size_t end = held_.find(kEndOfHeader);
  const bool is_too_long = end == std::string::npos && held_.size() > kMaxHeaderBytes;
  if (!MayBeHeader(held_) || is_too_long) {
    // Its own special tokens would begin a header again.
    if (is_too_long) held_ = WithoutMarks(held_);
    has_answer_ = true;
    state_ = State::kAnswer;
    return true;
  }
  if (end == std::string::npos) return false;
  state_ = Classify(WithoutMarks(std::string_view(held_).substr(0, end)), out);
  held_.erase(0, end + kEndOfHeader.size());
  return true;
}

ChannelParser::State ChannelParser::Classify(const std::string& header, ReasonedText* out) {
  const std::string_view channel = WordBehind(kHarmonyChannel, header);
  const std::string_view recipient = WordBehind(kHarmonyRecipient, header);
  // One for a turn: the tool's answer comes next.
  if (calls_ != nullptr && !has_call_ && recipient.starts_with(kHarmonyFunctions)) {
    has_call_ = true;
    out->calls = StrCat(calls_->begin, recipient.substr(kHarmonyFunctions.size()), calls_->middle);
    return State::kCall;
  }
  const bool is_answer = channel == "final" || (channel != "analysis" && recipient.empty());
  bool& has_some = is_answer ? has_answer_ : has_reasoning_;
  if (std::exchange(has_some, true)) (is_answer ? out->answer : out->reasoning) += '\n';
  return is_answer ? State::kAnswer : State::kReasoning;
}

// Up to a special token that ends the message, or begins another one all the same.
bool ChannelParser::TakeMessage(std::string* out) {
  const size_t begin = held_.find(kSpecialTokenMark);
  if (begin == std::string::npos) {
    const size_t size = held_.size() - NumBegun(held_, kSpecialTokenMark);
    *out += held_.substr(0, size);
    held_.erase(0, size);
    return false;
  }
  *out += held_.substr(0, begin);
  held_.erase(0, begin);
  const size_t end = held_.find(kSpecialTokenMark, kSpecialTokenMark.size());
  if (end == std::string::npos) return false;
  const std::string token = WithoutMarks(std::string_view(held_).substr(0, end));
  const bool begins = token == kHarmonyChannel || kHarmonyStart.starts_with(token);
  if (!begins) held_.erase(0, end + kSpecialTokenMark.size());
  if (begins || token == kHarmonyEnd) {
    state_ = State::kHeader;
  } else if (token != kHarmonyMessage) {
    *out += token;
  }
  return true;
}

}  // namespace aril::gateway
