// What jinja2's renderings cannot show: the kinds of errors and where they are, limits, threads.

#include "jinja/template.h"

#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::jinja {
namespace {

using testing::HasSubstr;

StatusOr<std::string> Render(const std::string& source, const Json::Object& variables = {},
                             const RenderLimits& limits = {}) {
  ASSIGN_OR_RETURN(const Template parsed, Template::Parse(source));
  return parsed.Render(variables, {.now_unix_seconds = 0, .limits = limits});
}

std::string Repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

void ExpectError(const StatusOr<std::string>& rendered, StatusCode code,
                 const std::string& message) {
  ASSERT_FALSE(rendered.ok()) << rendered->substr(0, 200);
  EXPECT_EQ(rendered.status().code(), code) << rendered.status();
  EXPECT_THAT(Message(rendered.status()), HasSubstr(message));
}

TEST(TemplateErrors, NameTheLineOfTheSource) {
  ExpectError(Render("a\nb {{ 1\n+ }}"), StatusCode::kInvalidArgument,
              "line 3: unexpected 'end of print statement'");
  ExpectError(Render("a\n{% if x %}\n"), StatusCode::kInvalidArgument,
              "line 2: Unexpected end of template.");
  ExpectError(Render("{#\n#}\n{{ 'a\n' }}\n{{ x.y }}"), StatusCode::kFailedPrecondition,
              "line 5: 'x' is undefined");
  ExpectError(Render("{% macro m(x) %}\n{{ x + 1 }}\n{% endmacro %}\n{{ m('a') }}"),
              StatusCode::kFailedPrecondition, "line 2: can only concatenate str");
  ExpectError(Render("{{ 1 +\n\n 'a' }}"), StatusCode::kFailedPrecondition, "line 1: ");
}

TEST(TemplateErrors, RaiseExceptionIsTheMessageAlone) {
  const auto rendered = Render("\n{{ raise_exception('Conversation roles must alternate') }}");
  EXPECT_EQ(rendered.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(rendered.status()), "Conversation roles must alternate");
}

TEST(TemplateErrors, WhatIsNotSupportedSaysSo) {
  for (const char* source : {"{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}",
                             "{% from 'x' import y %}", "{% block b %}{% endblock %}",
                             "{% autoescape true %}{% endautoescape %}", "{{ 1|pprint }}"}) {
    ExpectError(Render(source), StatusCode::kUnimplemented, "line 1: the ");
  }
}

TEST(TemplateErrors, IntegersDoNotWrap) {
  for (const char* expression :
       {"9223372036854775807 + 1", "-9223372036854775807 - 2", "4611686018427387904 * 2",
        "10 ** 19", "(-9223372036854775807 - 1) // -1", "-(-9223372036854775807 - 1)",
        "(-9223372036854775807 - 1)|abs", "1e30|int", "9223372036854775807|round(-1)"}) {
    ExpectError(Render(StrCat("{{ ", expression, " }}")), StatusCode::kFailedPrecondition,
                "integer overflow");
  }
  EXPECT_EQ(*Render("{{ (-9223372036854775807 - 1) % -1 }}"), "0");
  ExpectError(Render("{{ 9223372036854775808 }}"), StatusCode::kInvalidArgument, "64 bits");
}

TEST(TemplateErrors, SourcesMustBeUtf8AndOfBoundedSize) {
  EXPECT_EQ(Template::Parse("a\xFFz").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Template::Parse("abc", {.max_source_bytes = 2}).status().code(),
            StatusCode::kInvalidArgument);
  ExpectError(Render("{{ '\\ud800' }}"), StatusCode::kInvalidArgument, "illegal Unicode");
  EXPECT_EQ(*Render("{{ x }}", {{"x", Json("a\xFFz")}}), "a\xEF\xBF\xBDz");
}

TEST(TemplateLimits, NestingOfTheSource) {
  constexpr int kMany = 60000;
  for (const auto& [open, close] :
       std::vector<std::pair<std::string, std::string>>{{"(", ")"},
                                                        {"[", "]"},
                                                        {"{1:", "}"},
                                                        {"not ", ""},
                                                        {"-", ""},
                                                        {"f(", ")"},
                                                        {"x[", "]"},
                                                        {"1 if 1 else ", ""},
                                                        {"1|default(", ")"},
                                                        {"1 is eq(", ")"}}) {
    const auto rendered =
        Render(StrCat("{{ ", Repeated(open, kMany), "1", Repeated(close, kMany), " }}"));
    ExpectError(rendered, StatusCode::kInvalidArgument, "nests deeper than 100 levels");
  }
  for (const char* chain : {" + 1", ".x", "[0]", "()", "|upper", " or 1", " is odd and 1", "**1"}) {
    ExpectError(Render(StrCat("{{ x", Repeated(chain, kMany), " }}")), StatusCode::kInvalidArgument,
                "");
  }
  ExpectError(Render(Repeated("{% if 1 %}", kMany)), StatusCode::kInvalidArgument, "nests deeper");
  ExpectError(Render(Repeated("{% for x in y %}", kMany)), StatusCode::kInvalidArgument, "deeper");
  ExpectError(Render("{% set " + Repeated("(", kMany) + "x" + Repeated(")", kMany) + " = 1 %}"),
              StatusCode::kInvalidArgument, "nests deeper");
  EXPECT_EQ(*Render("{{ " + Repeated("(", 90) + "1" + Repeated(")", 90) + " }}"), "1");
  EXPECT_EQ(*Render("{{ 1" + Repeated(" + 1", 190) + " }}"), "191");
  EXPECT_EQ(*Render(Repeated("{% if 1 %}", 95) + "{{ " + Repeated("[", 95) + Repeated("]", 95) +
                    "|string|length }}" + Repeated("{% endif %}", 95)),
            "190");
  EXPECT_EQ(*Render("{{ 1" + Repeated(" ~ 1", 5000) + " }}"), std::string(5001, '1'));
  EXPECT_EQ(*Render("{% if 0 %}" + Repeated("{% elif 0 %}", 5000) + "{% else %}x{% endif %}"), "x");
}

TEST(TemplateLimits, Steps) {
  const RenderLimits limits{.max_steps = 10000};
  const std::string loops = "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}";
  ExpectError(Render(loops + "{% endfor %}", {}, limits), StatusCode::kResourceExhausted,
              "more than the 10000 steps");
  for (const char* expression :
       {"range(99999)|list|length", "range(99999)|sum", "5 in range(99999)|map('string')",
        "range(99999)|map('string')|join|length", "range(99999)|select('odd')|list|last",
        "(range(9999)|list) == (range(9999)|list)", "range(20000)|sort|first",
        "range(20000)|unique|list|length", "range(99999)|batch(1)|list|length"}) {
    ExpectError(Render(StrCat("{{ ", expression, " }}"), {}, limits),
                StatusCode::kResourceExhausted, "");
  }
}

TEST(TemplateLimits, Bytes) {
  const RenderLimits limits{.max_bytes = 1 << 20};
  for (const char* expression : {"'x' * 1000000000000",
                                 "'xyz' * 400000",
                                 "[1] * 100000000",
                                 "(1, 2) * 100000000",
                                 "'x'|center(1000000000)",
                                 "'x'.ljust(1000000000)",
                                 "'x'.zfill(1000000000)",
                                 "'\\t'.expandtabs(1000000000)",
                                 "'%1000000000d' % 1",
                                 "'%*d' % (1000000000, 1)",
                                 "'{:1000000000}'.format(1)",
                                 "('x' * 2000).replace('x', 'y' * 2000)",
                                 "('x' * 2000).replace('', 'y' * 2000)",
                                 "('y' * 2000).join('x' * 2000)",
                                 "('x' * 2000)|join('y' * 2000)",
                                 "('\\n' * 2000)|indent(2000, true, true)",
                                 "'a'|indent(1000000000, true)",
                                 "[1]|batch(1000000000, 0)|list",
                                 "[]|slice(1000000000)|list",
                                 "[1]|tojson(indent=1000000000)",
                                 "(('x' * 900) ~ '%s' * 900) % ((('x' * 9000),) * 900)",
                                 "('{0}' * 900).format('x' * 9000)",
                                 "'x'|truncate(10)|center(99999999)"}) {
    ExpectError(Render(StrCat("{{ (", expression, ")|length }}"), {}, limits),
                StatusCode::kResourceExhausted, "");
  }
}

TEST(TemplateLimits, WhatDoublesAgainAndAgain) {
  const std::string namespaced =
      "{% set ns = namespace(x=START) %}{% for i in range(99999) %}{% set ns.x = GROW %}{% endfor "
      "%}";
  for (const auto& [start, grow] :
       std::vector<std::pair<std::string, std::string>>{{"'x'", "ns.x + ns.x"},
                                                        {"'x'", "ns.x ~ ns.x"},
                                                        {"'x'", "ns.x * 2"},
                                                        {"'x'", "'%s%s' % (ns.x, ns.x)"},
                                                        {"'x'", "'{0}{0}'.format(ns.x)"},
                                                        {"'x'", "ns.x|replace('x', 'xx')"},
                                                        {"[1]", "ns.x + ns.x"},
                                                        {"[1]", "[ns.x, ns.x]"},
                                                        {"[1]", "{'a': ns.x}"},
                                                        {"[1]", "ns.x|map('string')"},
                                                        {"'x'", "ns.x|tojson"},
                                                        {"'x'", "[ns.x]|string"}}) {
    std::string source = namespaced;
    source.replace(source.find("START"), 5, start);
    source.replace(source.find("GROW"), 4, grow);
    ExpectError(Render(source, {}, {.max_bytes = 8 << 20}), StatusCode::kResourceExhausted, "");
  }
}

TEST(TemplateLimits, DeepValuesThatShareTheirParts) {
  const std::string twins =
      "{% set ns = namespace(x=[]) %}{% for i in range(50) %}"
      "{% set ns.x = [ns.x, ns.x] %}{% endfor %}";
  const std::string tuples =
      "{% set ns = namespace(x=()) %}{% for i in range(50) %}"
      "{% set ns.x = (ns.x, ns.x) %}{% endfor %}";
  const RenderLimits limits{.max_steps = 1'000'000};
  for (const std::string& source :
       {twins + "{{ ns.x }}", twins + "{{ ns.x|tojson }}", tuples + "{{ {ns.x: 1}|length }}",
        twins + "{% set a = ns.x %}" + twins + "{{ a == ns.x }}"}) {
    ExpectError(Render(source, {}, limits), StatusCode::kResourceExhausted, "steps");
  }
}

TEST(TemplateLimits, Recursion) {
  const char* macro = "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}";
  ExpectError(Render(macro), StatusCode::kResourceExhausted, "line 1: the template nests deeper");
  ExpectError(Render("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}"
                     "{{ a() }}"),
              StatusCode::kResourceExhausted, "nests deeper");
  ExpectError(Render("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
              StatusCode::kResourceExhausted, "nests deeper");
  ExpectError(Render("{% macro m() %}{{ caller() }}{% endmacro %}{% macro n() %}{% call m() %}"
                     "{{ n() }}{% endcall %}{% endmacro %}{{ n() }}"),
              StatusCode::kResourceExhausted, "nests deeper");
  const std::string deep = "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}x{% endmacro %}";
  EXPECT_EQ(*Render(deep + "{{ m(60)|length }}"), "61");
}

TEST(TemplateLimits, NamespacesThatContainThemselves) {
  const std::string cycle =
      "{% set ns = namespace() %}{% set ns.x = [ns] %}{% set ns.y = {'z': ns} %}";
  EXPECT_EQ(*Render(cycle + "{{ ns }}"),
            "<Namespace {'x': [<Namespace {...}>], 'y': {'z': <Namespace {...}>}}>");
  EXPECT_EQ(*Render(cycle + "{{ ns == ns }}{{ ns.x == ns.x }}"), "TrueTrue");
  ExpectError(Render("{% set ns = namespace() %}{% for i in range(9999) %}"
                     "{% set m = namespace(x=ns.x) %}{% set ns.x = m %}{% endfor %}{{ ns }}"),
              StatusCode::kResourceExhausted, "printing goes deeper");
  EXPECT_EQ(*Render("{% set ns = namespace() %}{% macro m() %}{% endmacro %}{% set ns.m = m %}"
                    "{% set ns.ns = ns %}{{ ns.m() }}{{ ns.ns.ns.m() }}"),
            "");
}

TEST(TemplateLimits, LoopsAndMacrosMayOutliveTheirScopes) {
  EXPECT_EQ(*Render("{% set ns = namespace() %}{% macro f() %}{% set y = 5 %}"
                    "{% macro g() %}{{ y }}{% endmacro %}{% set ns.g = g %}{% endmacro %}"
                    "{{ f() }}{{ ns.g() }}"),
            "5");
  EXPECT_EQ(*Render("{% set ns = namespace() %}{% macro f() %}{% set y = 7 %}"
                    "{% for x in [1, 2, 3] if x < y recursive %}{{ y }}{% set ns.l = loop %}"
                    "{% if x == 1 %}{% break %}{% endif %}{% endfor %}{% endmacro %}"
                    "{{ f() }}{{ ns.l.nextitem }}{{ ns.l([9, 1]) }}"),
            "727");
}

TEST(TemplateLimits, SearchesDoNotTakeTheSquareOfTheirText) {
  const Json::Object variables = {{"hay", Json(std::string(200000, 'a'))},
                                  {"needle", Json(std::string(100000, 'a') + "b")}};
  EXPECT_EQ(*Render("{{ needle in hay }}{{ hay.find(needle) }}{{ hay|replace(needle, '') == hay }}"
                    "{{ hay.split(needle)|length }}{{ hay.count(needle) }}",
                    variables),
            "False-1True10");
  ExpectError(Render("{{ hay.rfind(needle) }}", variables), StatusCode::kResourceExhausted, "");
  ExpectError(Render("{{ hay.rsplit(needle) }}", variables), StatusCode::kResourceExhausted, "");
  ExpectError(Render("{{ hay.strip(needle) }}", variables), StatusCode::kResourceExhausted, "");
}

TEST(TemplateLimits, WorkOnLongTextsIsCharged) {
  const Json::Object variables = {{"b", Json(Repeated("é", 50000))}};
  for (const char* expression :
       {"b|wordcount", "b[49999]", "b.startswith('x', 49990)", "b.split()", "b is lower", "b|int",
        "b.isalpha()", "b is filter", "b == b ~ ''", "b.find('x')", "'x' in b", "none[b]", "{}[b]",
        "b.partition('x')|length", "b|title|length", "b.istitle()"}) {
    const auto rendered = Render(
        StrCat("{% for i in range(99999) %}{% if ", expression, " %}{% endif %}{% endfor %}"),
        variables, {.max_steps = 200'000, .max_bytes = 4 << 20});
    ExpectError(rendered, StatusCode::kResourceExhausted, "");
  }
}

TEST(Template, RendersInManyThreads) {
  const auto parsed = Template::Parse(
      "{% macro m(x) %}{{ x|upper }}{% endmacro %}"
      "{% for x in xs %}{{ m(x) }}{{ 'literal' ~ loop.index }}{% endfor %}");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const Json::Object variables = {{"xs", Json(Json::Array{Json("a"), Json("b")})}};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) {
        EXPECT_EQ(*parsed->Render(variables, {}), "Aliteral1Bliteral2");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace aril::jinja
