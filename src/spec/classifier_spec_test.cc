#include "spec/classifier_spec.h"

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = ClassifierSpec::Kind;

StatusOr<ClassifierSpec> Parse(const std::string& config) {
  return ParseClassifierSpec(*Json::Parse(config), {.vocab_size = 100});
}

std::string ErrorOf(const std::string& config) {
  const auto spec = Parse(config);
  EXPECT_FALSE(spec.ok()) << config;
  return std::string(Message(spec.status()));
}

TEST(ClassifierSpec, NamesLabelsByTheirNumbers) {
  const auto spec = Parse(R"({"id2label":{"0":"ham","2":"spam"},"hidden_size":64})");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->LabelOf(0), "ham");
  EXPECT_EQ(spec->LabelOf(1), "LABEL_1");
  EXPECT_EQ(spec->LabelOf(2), "spam");
  for (const char* none : {"{}", R"({"id2label":null})", R"({"id2label":{}})"}) {
    ASSERT_TRUE(Parse(none).ok()) << none;
    EXPECT_THAT(Parse(none)->labels, IsEmpty()) << none;
  }
}

TEST(ClassifierSpec, KnowsTheKindsOfTransformers) {
  for (const auto& [type, kind] : {std::pair("null", Kind::kOneIsRight),
                                   {R"("single_label_classification")", Kind::kOneIsRight},
                                   {R"("multi_label_classification")", Kind::kEachMayBeRight},
                                   {R"("regression")", Kind::kRegression}}) {
    const auto spec = Parse(StrCat(R"({"problem_type":)", type, "}"));
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->kind, kind) << type;
  }
  EXPECT_THAT(ErrorOf(R"({"problem_type":"ranking"})"),
              HasSubstr(R"("problem_type" is "ranking")"));
  EXPECT_THAT(ErrorOf(R"({"problem_type":1})"), HasSubstr(R"("problem_type" is 1)"));
}

TEST(ClassifierSpec, PadsWithATokenThatThereIs) {
  EXPECT_EQ(Parse(R"({"pad_token_id":99})")->pad_token_id, 99);
  for (const char* none : {"-1", "100", "null", R"("x")", "1.5"}) {
    EXPECT_EQ(Parse(StrCat(R"({"pad_token_id":)", none, "}"))->pad_token_id, std::nullopt) << none;
  }
}

TEST(ClassifierSpec, RefusesWhatIsNoName) {
  for (const std::string& names :
       {std::string(R"(["ham"])"), std::string(R"({"first":"ham"})"),
        std::string(R"({"-1":"ham"})"), std::string(R"({"1x":"ham"})"),
        std::string(R"({"01":"ham"})"), std::string(R"({"1024":"ham"})"), std::string(R"({"0":7})"),
        std::string(R"({"0":""})"), StrCat(R"({"0":")", std::string(257, 'x'), R"("})")}) {
    EXPECT_THAT(ErrorOf(StrCat(R"({"id2label":)", names, "}")), HasSubstr("\"id2label\" is"))
        << names;
  }
  EXPECT_TRUE(Parse(StrCat(R"({"id2label":{"1023":")", std::string(256, 'x'), R"("}})")).ok());
}

}  // namespace
}  // namespace aril
