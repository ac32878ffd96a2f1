#include "gateway/anthropic_messages.h"

#include "base/strings.h"
#include "gateway/auth.h"
#include "gateway/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ApiResult<CompletionRequest> Parse(const std::string& body) {
  static const auto* const model = new std::shared_ptr<const ServedModel>(MakeServedModel());
  return ParseMessagesRequest(
      body, {.model = **model, .limits = {.max_sequences = 8}, .tenant = kDefaultTenant});
}

// The members of a request besides model and messages.
ApiResult<CompletionRequest> ParseMembers(const std::string& members) {
  return Parse(R"({"model":"base","messages":[{"role":"user","content":"Hi"}])" +
               (members.empty() ? "" : "," + members) + "}");
}

std::string PromptOf(const ApiResult<CompletionRequest>& parsed) {
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  if (!parsed.ok()) return "";
  return ByteTokenizer().Decode(parsed.value().prompts[0].tokens, false);
}

// The field that is blamed, and why.
std::string ErrorOf(const std::string& members) {
  const auto parsed = ParseMembers(members);
  return parsed.ok() ? "" : parsed.error().param + " " + parsed.error().message;
}

TEST(AnthropicMessages, NeedNothingButAModelAndMessages) {
  const auto parsed = ParseMembers("");
  EXPECT_EQ(PromptOf(parsed), "u:Hi;a:");
  const CompletionRequest& request = parsed.value();
  EXPECT_EQ(request.endpoint, Endpoint::kMessages);
  EXPECT_EQ(request.num_candidates(), 1);
  EXPECT_EQ(request.prompts[0].max_tokens, 64 - 7);
  EXPECT_FALSE(request.stream);
  EXPECT_THAT(request.common.stop_token_ids, ElementsAre(kEosToken));
}

TEST(AnthropicMessages, ReadTheirFields) {
  const auto parsed = ParseMembers(
      R"("system":[{"type":"text","text":"S","cache_control":{"type":"ephemeral"}}],"max_tokens":5,
         "temperature":0.5,"top_p":0.25,"top_k":9,"stop_sequences":["x","yz"],"stream":true,
         "metadata":{"user_id":"u"},"service_tier":"auto","tool_choice":{"type":"none"},"seed":7,
         "context_management":{"edits":[]},"mcp_servers":[],"container":null,"tools":[],
         "chat_template_kwargs":{"mood":"!"},"unknown":{})");
  EXPECT_EQ(PromptOf(parsed), "s:S;u:Hi;a:!");
  const CompletionRequest& request = parsed.value();
  EXPECT_EQ(request.prompts[0].max_tokens, 5);
  EXPECT_TRUE(request.stream && request.has_seed);
  EXPECT_EQ(request.common.sampling.temperature, 0.5f);
  EXPECT_EQ(request.common.sampling.top_k, 9);
  EXPECT_THAT(request.stop, ElementsAre("x", "yz"));
}

TEST(AnthropicMessages, AreOfAdapters) {
  EXPECT_EQ(PromptOf(Parse(R"({"model":"poet","messages":[{"role":"user","content":"Hi"}]})")),
            "poem:");
  const auto nobody = Parse(R"({"model":"nobody","messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(nobody.error().status, 404);
}

// Clients ask for as much as the largest models give.
TEST(AnthropicMessages, MayAskForMoreThanFits) {
  const auto parsed = [](const std::string& members) {
    auto result = ParseMembers(members);
    EXPECT_TRUE(result.ok()) << result.error().message;
    return std::pair(result.value().prompts[0].max_tokens, result.value().fills_context);
  };
  EXPECT_EQ(parsed(R"("max_tokens":32000)"), std::pair(57, true));
  EXPECT_EQ(parsed(R"("max_tokens":58)"), std::pair(57, true));
  EXPECT_EQ(parsed(R"("max_tokens":57)"), std::pair(57, false));
  EXPECT_EQ(parsed(R"("max_tokens":1)"), std::pair(1, false));
  EXPECT_EQ(parsed(""), std::pair(57, true));
  // But for a prompt that leaves no room at all.
  const std::string full(64 - 5, 'x');
  // In words that agents know, to shorten the conversation then.
  EXPECT_THAT(Parse(R"({"model":"base","max_tokens":9,"messages":[{"role":"user","content":")" +
                    full + R"("}]})")
                  .error()
                  .message,
              HasSubstr("prompt is too long: 64 tokens > 63 maximum"));
  EXPECT_THAT(Parse(R"({"model":"base","messages":[{"role":"user","content":")" +
                    std::string(64 * 128, 'x') + R"("}]})")
                  .error()
                  .message,
              HasSubstr("prompt is too long: "));
}

TEST(AnthropicMessages, GoOnWithTheAssistantsLast) {
  const std::string begun =
      R"({"model":"base","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"So"}])";
  EXPECT_EQ(PromptOf(Parse(begun + "}")), "u:Hi;a:So");
  for (const char* anew :
       {R"("continue_final_message":false)", R"("add_generation_prompt":true)"}) {
    EXPECT_EQ(PromptOf(Parse(StrCat(begun, ",", anew, "}"))), "u:Hi;a:So;a:");
  }
}

TEST(AnthropicMessages, SayWhetherThereIsToBeThinking) {
  const auto prompt = [](const std::string& members) { return PromptOf(ParseMembers(members)); };
  EXPECT_EQ(prompt(R"("thinking":{"type":"disabled"})"), "u:Hi;off;a:");
  EXPECT_EQ(prompt(R"("thinking":{"type":"between_tools"})"), "u:Hi;off;a:");
  EXPECT_EQ(prompt(R"("thinking":{"type":"enabled","budget_tokens":1024})"), "u:Hi;a:");
  EXPECT_EQ(prompt(R"("thinking":{"type":"adaptive"},"output_config":{"effort":"low"})"),
            "u:Hi;low;a:");
  EXPECT_EQ(prompt(R"("thinking":null,"output_config":{"effort":"none"})"), "u:Hi;none;off;a:");
  const auto is_shown = [](const std::string& display) {
    return ParseMembers(R"("thinking":{"type":"adaptive","display":")" + display + "\"}")
        .value()
        .reasoning->is_shown;
  };
  EXPECT_TRUE(is_shown("summarized"));
  EXPECT_FALSE(is_shown("omitted"));
}

TEST(AnthropicMessages, MayHaveAFormat) {
  for (
      const char* members :
      {R"("output_config":{"effort":null,"format":{"type":"json_schema","schema":{"type":"null"}}})",
       R"("output_format":{"type":"json_schema","schema":{"type":"null"}})",
       R"("structured_outputs":{"json":{"type":"null"}})"}) {
    const auto parsed = ParseMembers(members);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_EQ(parsed.value().common.format.source, R"({"type":"null"})");
  }
  EXPECT_TRUE(ParseMembers(R"("output_config":{"format":null})").value().common.format.is_text());
}

constexpr char kTools[] =
    R"("tools":[{"name":"add","description":"Adds","input_schema":{"type":"object","properties":{}},
                 "cache_control":{"type":"ephemeral"},"input_examples":[{}],"strict":true},
                {"type":"custom","name":"sub","input_schema":{"type":"object"},"description":null,
                 "allowed_callers":["direct"],"defer_loading":false}])";

TEST(AnthropicMessages, MayHaveTools) {
  const auto parsed = ParseMembers(kTools);
  EXPECT_EQ(PromptOf(parsed), "add,sub,u:Hi;a:");
  EXPECT_TRUE(parsed.value().tool_calls.has_value());
  EXPECT_EQ(PromptOf(ParseMembers(std::string(R"("tool_choice":{"type":"none"},)") + kTools)),
            "u:Hi;a:");
}

TEST(AnthropicMessages, ErrorsNameTheField) {
  EXPECT_THAT(ErrorOf(R"("max_tokens":0)"), HasSubstr("max_tokens "));
  EXPECT_THAT(ErrorOf(R"("stop_sequences":[""])"), HasSubstr("stop_sequences "));
  EXPECT_THAT(ErrorOf(R"("stop_sequences":7)"), HasSubstr("stop_sequences "));
  EXPECT_THAT(ErrorOf(R"("system":7)"), HasSubstr("system "));
  EXPECT_THAT(ErrorOf(R"("thinking":true)"), HasSubstr("thinking "));
  EXPECT_THAT(ErrorOf(R"("thinking":{})"), HasSubstr("thinking.type "));
  EXPECT_THAT(ErrorOf(R"("thinking":{"type":"enabled","budget_tokens":0})"),
              HasSubstr("thinking.budget_tokens "));
  EXPECT_THAT(ErrorOf(R"("thinking":{"type":"enabled","display":"x"})"),
              HasSubstr("thinking.display "));
  EXPECT_THAT(ErrorOf(R"("output_config":7)"), HasSubstr("output_config "));
  EXPECT_THAT(ErrorOf(R"("output_config":{"effort":7})"), HasSubstr("output_config.effort "));
  EXPECT_THAT(ErrorOf(R"("output_config":{"format":{"type":"text"}})"),
              HasSubstr("output_config.format "));
  EXPECT_THAT(ErrorOf(R"("output_config":{"format":{"type":"json_schema"}})"),
              HasSubstr("output_config.format "));
  EXPECT_THAT(ErrorOf(R"("output_format":{"type":"json_schema","schema":7})"),
              HasSubstr("output_format.schema "));
  EXPECT_THAT(ErrorOf(R"("response_format":{"type":"text"})"), HasSubstr("`output_config.format`"));
  EXPECT_THAT(ErrorOf(R"("tools":[{"type":"web_search_20250305","name":"web_search"}])"),
              HasSubstr("tools[0] `tools[0]` must be an object with a `name`"));
  EXPECT_THAT(ErrorOf(R"("tools":[{"name":"f","input_schema":{"type":"string"}}])"),
              HasSubstr("tools[0].input_schema "));
  EXPECT_THAT(ErrorOf(R"("tools":[{"input_schema":{}}])"), HasSubstr("tools[0].name "));
  EXPECT_THAT(ErrorOf(R"("tools":[{"name":"f","defer_loading":true}])"),
              HasSubstr("tools[0].defer_loading "));
  EXPECT_THAT(ErrorOf(R"("tools":[{"name":"f","allowed_callers":["code_execution_20250825"]}])"),
              HasSubstr("tools[0].allowed_callers "));
  EXPECT_THAT(ErrorOf(R"("tools":[{"name":"f"},{"name":"f"}])"), HasSubstr("tools[1].name "));
  const std::string tools = std::string(kTools) + ",";
  EXPECT_THAT(ErrorOf(tools + R"("tool_choice":"auto")"), HasSubstr("tool_choice "));
  EXPECT_THAT(ErrorOf(tools + R"("tool_choice":{})"), HasSubstr("tool_choice "));
  EXPECT_THAT(ErrorOf(tools + R"("tool_choice":{"type":"tool"})"), HasSubstr("tool_choice "));
  EXPECT_THAT(ErrorOf(tools + R"("tool_choice":{"type":"tool","name":"x"})"),
              HasSubstr("tool_choice "));
  EXPECT_THAT(ErrorOf(R"("tool_choice":{"type":"any"})"), HasSubstr("needs `tools`"));
  for (const char* field : {"input", "instructions", "stop", "max_completion_tokens",
                            "max_output_tokens", "reasoning_effort", "reasoning", "functions",
                            "logprobs", "top_logprobs", "mcp_servers", "container"}) {
    EXPECT_THAT(ErrorOf(StrCat('"', field, R"(":["x"])")), HasSubstr(StrCat(field, " `", field)));
    EXPECT_EQ(ErrorOf(StrCat('"', field, R"(":null)")), "");
  }
  EXPECT_THAT(ErrorOf(R"("n":2)"), HasSubstr("n `n` must be 1"));
  EXPECT_THAT(ErrorOf(R"("parallel_tool_calls":false)"), HasSubstr("parallel_tool_calls "));
  EXPECT_THAT(Parse(R"({"model":"base"})").error().param, "messages");
  EXPECT_THAT(Parse(R"({"messages":[{"role":"user","content":"Hi"}]})").error().param, "model");
  EXPECT_EQ(Parse("[]").error().status, 400);
}

}  // namespace
}  // namespace aril::gateway
