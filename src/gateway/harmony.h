// The form of gpt-oss' turns: OpenAI's Harmony (cookbook, "OpenAI harmony response format"). A turn
// is a series of messages, each for a channel, which its header names; or for a tool:
//
//   <|channel|>analysis<|message|>…<|end|><|start|>assistant
//   <|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{…}<|call|>
//   <|channel|>final<|message|>…<|return|>
//
// Unlike others' forms it is known here, not learned: a template shows less of it than models
// write.

#ifndef ARIL_GATEWAY_HARMONY_H_
#define ARIL_GATEWAY_HARMONY_H_

#include <string_view>

#include "gateway/reasoning_syntax.h"
#include "grammar/tool_calls.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace aril::gateway {

inline constexpr std::string_view kHarmonyChannel = "<|channel|>";
inline constexpr std::string_view kHarmonyMessage = "<|message|>";  // ends a header
inline constexpr std::string_view kHarmonyEnd = "<|end|>";          // of a message
inline constexpr std::string_view kHarmonyStart = "<|start|>assistant";
inline constexpr std::string_view kHarmonyRecipient = "to=";
inline constexpr std::string_view kHarmonyFunctions = "functions.";  // where a request's tools are

// Whether a template has answers in the final channel. Takes two renderings. Thread-safe.
bool WritesHarmony(const ChatTemplate& chat_template);

// Reasoning is the channel of analysis, an answer the final one.
ReasoningSyntax HarmonyReasoning();
// Of a tokenizer that has no <|constrain|>, without it. Thread-safe.
grammar::ToolCallSyntax HarmonyCalls(const Tokenizer& tokenizer);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_HARMONY_H_
