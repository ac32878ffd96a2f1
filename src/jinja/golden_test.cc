// Small templates, one or more for each feature, against Python's jinja2: testdata/goldens.json,
// made by tools/goldens_jinja.py.

#include <string>

#include "base/file.h"
#include "base/json.h"
#include "base/strings.h"
#include "base/test_paths.h"
#include "gtest/gtest.h"
#include "jinja/template.h"

namespace aril::jinja {
namespace {

const Json& Goldens() {
  static const Json goldens = [] {
    const auto text = ReadFile(SourcePath("src/jinja/testdata/goldens.json"), 1 << 20);
    return text.ok() ? Json::Parse(*text).value_or(Json()) : Json();
  }();
  return goldens;
}

StatusOr<std::string> Render(const std::string& source) {
  ASSIGN_OR_RETURN(const Template parsed, Template::Parse(source));
  return parsed.Render(*Goldens().Find("variables")->AsObject(),
                       {.now_unix_seconds = *Goldens().Find("now_unix_seconds")->AsInt()});
}

// Messages of Jinja itself are the same here; those of Python's types only where they help.
bool IsMessageOfJinja(const std::string& error) {
  return error.starts_with("UndefinedError: ") || error.starts_with("TemplateError: ") ||
         error.starts_with("TemplateRuntimeError: ");
}

void ExpectGolden(const Json& golden) {
  const std::string& source = *golden.Find("template")->AsString();
  SCOPED_TRACE(source);
  const auto rendered = Render(source);
  if (const Json* expected = golden.Find("expected")) {
    ASSERT_TRUE(rendered.ok()) << rendered.status() << "\nexpected " << *expected->AsString();
    EXPECT_EQ(*rendered, *expected->AsString());
    return;
  }
  const std::string& error = *golden.Find("error")->AsString();
  ASSERT_FALSE(rendered.ok()) << "expected " << error << "\ngot " << *rendered;
  if (IsMessageOfJinja(error)) {
    const std::string message = error.substr(error.find(": ") + 2);
    EXPECT_NE(Message(rendered.status()).find(message), std::string::npos)
        << rendered.status() << "\nexpected " << error;
  }
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, Section) {
  const Json* cases = Goldens().Find("sections")->Find(GetParam());
  ASSERT_NE(cases, nullptr);
  ASSERT_FALSE(cases->AsArray()->empty());
  for (const Json& golden : *cases->AsArray()) ExpectGolden(golden);
}

std::vector<std::string> SectionNames() {
  std::vector<std::string> names;
  for (const auto& [name, cases] : *Goldens().Find("sections")->AsObject()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Jinja2, Golden, testing::ValuesIn(SectionNames()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace aril::jinja
