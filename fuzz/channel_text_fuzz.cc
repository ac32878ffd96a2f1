// ChannelParser on any text with special tokens in it: whatever pieces it comes in, the same is
// said, and nothing twice.

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/strings.h"
#include "gateway/channel_parser.h"
#include "grammar/free_text.h"
#include "grammar/tool_calls.h"

namespace {

using aril::gateway::ChannelParser;
using aril::gateway::ReasonedText;

const aril::grammar::ToolCallSyntax kCalls = {
    .begin = "<call ", .middle = ">", .next = std::nullopt, .end = "</call>", .marker = "<call"};

// What the first bytes stand for.
constexpr std::array<std::string_view, 8> kWords = {"<|start|>",   "<|end|>",       "<|message|>",
                                                    "<|channel|>", "<|call|>",      "final",
                                                    "analysis",    "to=functions.f"};
constexpr size_t kNumSpecial = 5;

std::string TextOf(const uint8_t* data, size_t size) {
  const std::string mark(aril::grammar::kSpecialTokenMark);
  std::string text;
  for (size_t i = 0; i < size; ++i) {
    if (data[i] >= kWords.size()) {
      text.push_back(static_cast<char>(data[i]));
      continue;
    }
    const std::string around = data[i] < kNumSpecial ? mark : "";
    text += aril::StrCat(around, kWords[data[i]], around);
  }
  return text;
}

ReasonedText Read(std::string_view text, bool has_calls, size_t piece) {
  ChannelParser parser(has_calls ? &kCalls : nullptr, /*has_begun=*/false);
  ReasonedText all;
  const auto take = [&](const ReasonedText& said) {
    all.reasoning += said.reasoning;
    all.answer += said.answer;
    all.calls += said.calls;
  };
  for (size_t at = 0; at < text.size(); at += piece) take(parser.Append(text.substr(at, piece)));
  take(parser.Flush());
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text = TextOf(data, std::min(size, size_t{2000}));
  for (const bool has_calls : {false, true}) {
    const ReasonedText whole = Read(text, has_calls, text.size() + 1);
    for (const size_t piece : {1, 2, 7}) {
      const ReasonedText in_pieces = Read(text, has_calls, piece);
      // Headers that are too long are found to be when so much of them has come.
      if (text.size() > 500) continue;
      CHECK(in_pieces.reasoning == whole.reasoning);
      CHECK(in_pieces.answer == whole.answer);
      CHECK(in_pieces.calls == whole.calls);
    }
    CHECK(has_calls || whole.calls.empty());
    // What is added is a new line for each message, and how a call begins.
    CHECK(whole.reasoning.size() + whole.answer.size() + whole.calls.size() <= text.size() + 64);
  }
  return 0;
}
