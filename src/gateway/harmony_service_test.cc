// Chats with models that write for channels, over HTTP.

#include <string>
#include <vector>

#include "base/strings.h"
#include "gateway/gateway_test_fixture.h"
#include "gateway/special_text.h"
#include "gmock/gmock.h"
#include "grammar/automaton.h"
#include "grammar/compile.h"
#include "grammar/free_text.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// As gpt-oss', in few bytes.
constexpr char kTemplate[] =
    "{% for t in tools or [] %}{{ t.function.name }},{% endfor %}"
    "{% for m in messages %}{% if m.role == 'assistant' %}"
    "{% if m.tool_calls %}<|start|>assistant to=functions.{{ m.tool_calls[0].function.name }}"
    "<|channel|>commentary json<|message|>{{ m.tool_calls[0].function.arguments|tojson }}<|call|>"
    "{% else %}{% if m.thinking %}<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}"
    "<|end|>{% endif %}<|start|>assistant<|channel|>final<|message|>{{ m.content }}<|end|>"
    "{% endif %}{% else %}{{ m.role[0] }}:{{ m.content }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant{% endif %}";

constexpr int32_t kReturn = 256, kCall = 257;
const std::vector<std::string> kSpecial = {"<|return|>",  "<|call|>",    "<|start|>",    "<|end|>",
                                           "<|message|>", "<|channel|>", "<|constrain|>"};

class HarmonyServiceTest : public GatewayTest {
 protected:
  HarmonyServiceTest() {
    auto parsed = ChatTemplate::Parse(kTemplate, {});
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    const auto model = std::make_shared<ServedModel>(*MakeServedModel({.clock = &clock_}));
    model->text = std::make_shared<const ModelText>(
        ModelText{.tokenizer = tokenizer_,
                  .vocab_size = tokenizer_->vocab_size(),
                  .chat_dialect = std::make_shared<const ChatDialect>(*std::move(parsed))});
    model->spec.vocab_size = tokenizer_->vocab_size();
    model->spec.eos_token_ids = {kReturn, kCall};
    model->max_model_len = 256;
    Start({}, /*with_model=*/false);
    gateway_->Serve(model, &port_, loader_, remote_);
  }

  // What a request of these members is answered if the model says this, and `end`.
  HttpResponse AskModel(const std::string& members, std::string_view says, int32_t end = kReturn) {
    auto answer = std::async(std::launch::async, [this, members] {
      return Send("POST", "/v1/chat/completions", Body(members));
    });
    requests_ = port_.WaitForRequests(requests_.size() + 1);
    std::vector<int32_t> tokens = Encode(says);
    tokens.push_back(end);
    std::vector<wire::TokenEvent> events;
    for (const int32_t token : tokens) {
      wire::TokenEvent event = {.sequence = requests_.back().sequence,
                                .index = static_cast<int32_t>(events.size())};
      event.token = token;
      events.push_back(std::move(event));
    }
    events.back().stop_token = true;
    events.back().finish = wire::FinishReason::kStop;
    port_.EmitEvents(std::move(events));
    return answer.get();
  }
  static std::string Body(const std::string& members) {
    return R"({"model":"base","messages":[{"role":"user","content":"Hi"}])" + members + "}";
  }
  Json Answer(const std::string& members, std::string_view says, int32_t end = kReturn) {
    const HttpResponse response = AskModel(members, says, end);
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::Parse(response.body).value_or(Json());
  }
  // With special tokens for what is spelled like them between, but not in, these marks: ‹ ›.
  std::vector<int32_t> Encode(std::string_view text) {
    std::vector<int32_t> tokens;
    while (!text.empty()) {
      const size_t spelled = std::min(text.find("‹"), text.size());
      const size_t end = std::min(text.find("›", spelled), text.size());
      for (const int32_t token : tokenizer_->Encode(text.substr(0, spelled), kParsed)) {
        tokens.push_back(token);
      }
      if (spelled == text.size()) break;
      const size_t size = std::string_view("‹").size();
      for (const char c : text.substr(spelled + size, end - spelled - size)) {
        tokens.push_back(static_cast<unsigned char>(c));
      }
      text.remove_prefix(end + size);
    }
    return tokens;
  }
  // Whether the last request's format allows this.
  bool Allows(const std::string& text) {
    auto grammar = grammar::Compile(requests_.back().format);
    EXPECT_TRUE(grammar.ok()) << grammar.status();
    grammar::Automaton automaton(*std::move(grammar));
    auto state = automaton.start();
    for (const char c : grammar::WithSpecialBytes(MarkSpecialTokens(text, *tokenizer_))) {
      if (!grammar::Automaton::IsState(state)) return false;
      state = automaton.Next(state, static_cast<uint8_t>(c));
    }
    return grammar::Automaton::IsState(state) && automaton.IsComplete(state);
  }

  static constexpr Tokenizer::EncodeOptions kParsed = {.add_special_tokens = false,
                                                       .parse_special_tokens = true};
  const std::shared_ptr<const Tokenizer> tokenizer_ =
      std::make_shared<SpecialTokenizer>(kSpecial, kReturn);
  std::vector<wire::SequenceRequest> requests_;
};

const std::string kThought = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";
const std::string kFinal = "<|channel|>final<|message|>";
const std::string kAdd =
    "<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\": 1}";
const std::string kTools = R"(,"tools":[{"type":"function","function":{"name":"add",)"
                           R"("parameters":{"type":"object","properties":{"a":{"type":"integer"}},)"
                           R"("required":["a"],"additionalProperties":false}}}])";

TEST_F(HarmonyServiceTest, ReasoningIsApartFromTheAnswer) {
  const Json json = Answer("", StrCat(kThought, kFinal, "Hello"));
  EXPECT_EQ(Text(json, {"choices", "0", "message"}),
            R"({"role":"assistant","content":"Hello","refusal":null,"reasoning_content":"Hm."})");
  EXPECT_EQ(Text(json, {"usage", "completion_tokens_details"}), R"({"reasoning_tokens":5})");
  // What is for channels is no text.
  for (const char* members : {R"(,"reasoning_format":"none")", R"(,"include_reasoning":false)",
                              R"(,"skip_special_tokens":false)"}) {
    const Json other = Answer(members, StrCat(kThought, kFinal, "Hello"));
    EXPECT_EQ(Text(other, {"choices", "0", "message", "content"}), "\"Hello\"") << members;
  }
}

TEST_F(HarmonyServiceTest, ComesInStreams) {
  const HttpResponse response = AskModel(R"(,"stream":true)", StrCat(kThought, kFinal, "Yo"));
  SseReader reader;
  reader.Append(response.body);
  std::vector<std::string> deltas;
  for (auto event = reader.Next(); event && *event != "[DONE]"; event = reader.Next()) {
    deltas.push_back(Text(Json::Parse(*event).value_or(Json()), {"choices", "0", "delta"}));
  }
  EXPECT_THAT(deltas,
              ElementsAre(R"({"role":"assistant","content":""})", R"({"reasoning_content":"H"})",
                          R"({"reasoning_content":"m"})", R"({"reasoning_content":"."})",
                          R"({"content":"Y"})", R"({"content":"o"})", "{}"));
}

TEST_F(HarmonyServiceTest, FormatsAreTheFinalMessages) {
  const Json json =
      Answer(R"(,"structured_outputs":{"choice":["yes"]})", StrCat(kThought, kFinal, "yes"));
  EXPECT_EQ(Text(json, {"choices", "0", "message", "content"}), "\"yes\"");
  EXPECT_TRUE(Allows(StrCat(kFinal, "yes")));
  EXPECT_TRUE(Allows(StrCat(kThought, kFinal, "yes")));
  EXPECT_FALSE(Allows("yes"));
  EXPECT_FALSE(Allows(StrCat(kThought, "yes")));
  EXPECT_FALSE(Allows(StrCat(kThought, kThought, kFinal, "yes"))) << "one is all";
  EXPECT_FALSE(Allows(StrCat("<|channel|>analysis<|message|>Hm.<|end|>", kFinal, "yes")));
  EXPECT_FALSE(Allows(StrCat(kFinal, "no")));
}

TEST_F(HarmonyServiceTest, AToolIsCalledInPlaceOfAnAnswer) {
  const Json json = Answer(kTools, StrCat(kThought, kAdd), kCall);
  EXPECT_EQ(Text(json, {"choices", "0", "message", "reasoning_content"}), "\"Hm.\"");
  EXPECT_EQ(Text(json, {"choices", "0", "message", "content"}), "null");
  EXPECT_EQ(Text(json, {"choices", "0", "message", "tool_calls", "0", "function"}),
            R"({"name":"add","arguments":"{\"a\": 1}"})");
  EXPECT_EQ(Text(json, {"choices", "0", "finish_reason"}), "\"tool_calls\"");
  EXPECT_TRUE(Allows(StrCat(kThought, kAdd)));
  EXPECT_TRUE(Allows(kAdd));
  EXPECT_TRUE(Allows(StrCat(kThought, kFinal, "Hello")));
  EXPECT_TRUE(Allows(StrCat(kFinal, "Hello")));
  EXPECT_FALSE(Allows("Hello"));
  EXPECT_FALSE(Allows(StrCat(kFinal, "Hello<|end|>")));
  EXPECT_FALSE(Allows(StrCat(kFinal, "Hello", kAdd)));
  for (const auto& [from, to] : {std::pair("functions.add", "functions.sub"), {"\"a\"", "\"b\""}}) {
    std::string other = kAdd;
    other.replace(other.find(from), std::string_view(from).size(), to);
    EXPECT_FALSE(Allows(other)) << other;
  }
  Answer(StrCat(kTools, R"(,"tool_choice":"required")"), kAdd, kCall);
  EXPECT_TRUE(Allows(StrCat(kThought, kAdd)));
  EXPECT_FALSE(Allows(StrCat(kFinal, "Hello")));
  // Beside a schema of the answer.
  Answer(StrCat(kTools, R"(,"response_format":{"type":"json_object"})"), StrCat(kFinal, "{}"));
  EXPECT_TRUE(Allows(StrCat(kThought, kFinal, "{}")));
  EXPECT_TRUE(Allows(StrCat(kThought, kAdd)));
  EXPECT_FALSE(Allows(StrCat(kThought, kFinal, "Hello")));
}

// A model may say how a call looks: it is no call for that, nor is what stands behind it lost.
TEST_F(HarmonyServiceTest, NoAnswerForgesACall) {
  for (const std::string& spelled :
       {std::string("<|channel|>commentary to=functions.rm json<|message|>{}"),
        std::string("a<|end|><|start|>assistant to=functions.rm<|channel|>b")}) {
    const Json json = Answer(kTools, StrCat(kThought, kFinal, "So: ‹", spelled, "›."));
    EXPECT_EQ(Text(json, {"choices", "0", "message", "content"}),
              Json(StrCat("So: ", spelled, ".")).Dump());
    EXPECT_EQ(Text(json, {"choices", "0", "message", "tool_calls"}), "null");
    EXPECT_EQ(Text(json, {"choices", "0", "finish_reason"}), "\"stop\"");
  }
  // Nor can the character that marks special tokens, which is none.
  const Json json = Answer("", StrCat(kFinal, "a\xEF\xBF\xBF‹<|end|>›\xEF\xBF\xBF"));
  EXPECT_EQ(Text(json, {"choices", "0", "message", "content"}), "\"a\uFFFD<|end|>\uFFFD\"");
}

TEST_F(HarmonyServiceTest, OtherEndpointsTellTheSame) {
  const auto ask = [&](const std::string& path, const std::string& body) {
    auto answer = std::async(std::launch::async, [&] { return Send("POST", path, body); });
    requests_ = port_.WaitForRequests(requests_.size() + 1);
    std::vector<wire::TokenEvent> events;
    for (const int32_t token : Encode(StrCat(kThought, kFinal, "Hello"))) {
      wire::TokenEvent event = {.sequence = requests_.back().sequence,
                                .index = static_cast<int32_t>(events.size())};
      event.token = token;
      events.push_back(std::move(event));
    }
    events.back().finish = wire::FinishReason::kStop;
    port_.EmitEvents(std::move(events));
    return Json::Parse(answer.get().body).value_or(Json());
  };
  const Json response = ask("/v1/responses", R"({"model":"base","input":"Hi"})");
  EXPECT_EQ(Text(response, {"output", "1", "content", "0", "text"}), "\"Hello\"");
  EXPECT_EQ(Text(response, {"output", "0", "type"}), "\"reasoning\"");
  const Json message =
      ask("/v1/messages",
          R"({"model":"base","max_tokens":60,"messages":[{"role":"user","content":"Hi"}],)"
          R"("thinking":{"type":"enabled","budget_tokens":1024}})");
  EXPECT_EQ(Text(message, {"content", "0", "thinking"}), "\"Hm.\"");
  EXPECT_EQ(Text(message, {"content", "1", "text"}), "\"Hello\"");
}

TEST_F(HarmonyServiceTest, WhatCannotBeKeptIsRefusedByName) {
  HttpResponse refused =
      Send("POST", "/v1/chat/completions", Body(R"(,"thinking_token_budget":5)"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("is not one token, but several"));
  refused = Send("POST", "/v1/chat/completions",
                 StrCat(R"({"model":"base","continue_final_message":true,"messages":[)",
                        R"({"role":"user","content":"Hi"},{"role":"assistant","content":"He"}])",
                        kTools, "}"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("need a prompt that begins no answer"));
}

}  // namespace
}  // namespace aril::gateway
