// The chat templates of real models against reference renderings: jinja2's, huggingface.js's and
// llama.cpp's. The data lie outside of the repository; without them the tests skip.

#include <string>

#include "base/file.h"
#include "base/json.h"
#include "base/strings.h"
#include "base/test_paths.h"
#include "gtest/gtest.h"
#include "jinja/template.h"

namespace aril::jinja {
namespace {

const std::string kData = SharedPath("data/chat_templates");
// 2025-07-10 12:00:00, which the references took for now.
constexpr int64_t kNow = 1752148800;

#define SKIP_WITHOUT(path)                                                   \
  do {                                                                       \
    if (!FileExists(path)) GTEST_SKIP() << (path) << " is not present here"; \
  } while (false)

std::string ReadAll(const std::string& path) {
  auto text = ReadFile(path, 16 << 20);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *std::move(text) : "";
}

Json ReadJson(const std::string& name) {
  auto json = Json::Parse(ReadAll(kData + "/" + name));
  EXPECT_TRUE(json.ok()) << json.status();
  return json.value_or(Json());
}

const std::string& TextOf(const Json& object, std::string_view key) {
  static const std::string empty;
  const Json* member = object.Find(key);
  return member == nullptr || member->AsString() == nullptr ? empty : *member->AsString();
}

void Set(Json::Object* variables, const std::string& name, Json value) {
  for (auto& [key, old] : *variables) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  variables->emplace_back(name, std::move(value));
}

StatusOr<std::string> Render(const std::string& source, const Json::Object& variables) {
  ASSIGN_OR_RETURN(const Template parsed, Template::Parse(source));
  return parsed.Render(variables, {.now_unix_seconds = kNow});
}

std::string TemplateSource(const std::string& name) {
  const std::string path = StrCat(kData, "/templates/", name, ".jinja");
  return ReadAll(FileExists(path) ? path
                                  : StrCat(kData, "/from_tokenizer_configs/", name, ".jinja"));
}

TEST(ChatTemplateJudge, AsJinja2) {
  SKIP_WITHOUT(kData + "/expected_jinja2.json");
  const Json contexts = ReadJson("contexts.json");
  const Json golden = ReadJson("expected_jinja2.json");
  ASSERT_GT(golden.Find("cases")->AsArray()->size(), 100u);
  for (const Json& test : *golden.Find("cases")->AsArray()) {
    SCOPED_TRACE(TextOf(test, "template") + " with " + TextOf(test, "context"));
    Json::Object variables = *contexts.Find(TextOf(test, "context"))->AsObject();
    Set(&variables, "bos_token", TextOf(test, "bos_token"));
    Set(&variables, "eos_token", TextOf(test, "eos_token"));
    const auto rendered = Render(TemplateSource(TextOf(test, "template")), variables);
    if (test.Find("error") != nullptr) {
      ASSERT_EQ(rendered.status().code(), StatusCode::kInvalidArgument);
      EXPECT_EQ("TemplateError: " + Message(rendered.status()), TextOf(test, "error"));
    } else {
      ASSERT_TRUE(rendered.ok()) << rendered.status();
      EXPECT_EQ(*rendered, TextOf(test, "expected"));
    }
  }
}

TEST(ChatTemplateJudge, AsHuggingFaceJs) {
  SKIP_WITHOUT(kData + "/expected_huggingfacejs_e2e.json");
  const Json golden = ReadJson("expected_huggingfacejs_e2e.json");
  ASSERT_GT(golden.Find("cases")->AsArray()->size(), 20u);
  for (const Json& test : *golden.Find("cases")->AsArray()) {
    SCOPED_TRACE(TextOf(test, "name"));
    const auto rendered = Render(TextOf(test, "chat_template"), *test.Find("context")->AsObject());
    ASSERT_TRUE(rendered.ok()) << rendered.status();
    // It prints a list, as JSON there and with single quotes in Python (SOURCES.md).
    if (TextOf(test, "name") == "MadeAgents/Hammer2.1") continue;
    EXPECT_EQ(*rendered, TextOf(test, "expected"));
  }
}

TEST(ChatTemplateJudge, AsLlamaCpp) {
  SKIP_WITHOUT(kData + "/expected_llamacpp_test_chat_template.json");
  const Json golden = ReadJson("expected_llamacpp_test_chat_template.json");
  ASSERT_GT(golden.AsArray()->size(), 15u);
  for (const Json& test : *golden.AsArray()) {
    SCOPED_TRACE(TextOf(test, "name"));
    Json::Object variables;
    for (const char* name : {"messages", "add_generation_prompt", "bos_token", "eos_token"}) {
      variables.emplace_back(name, *test.Find(name));
    }
    const auto rendered = Render(TextOf(test, "chat_template"), variables);
    const std::string& expected = TextOf(test, "hf_jinja2_render");
    if (expected.starts_with("ERR ")) {
      EXPECT_FALSE(rendered.ok()) << *rendered;
    } else {
      ASSERT_TRUE(rendered.ok()) << rendered.status();
      EXPECT_EQ(*rendered, expected);
    }
  }
}

}  // namespace
}  // namespace aril::jinja
