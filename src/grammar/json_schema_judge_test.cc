// Texts that grammars of JSON Schemas allow, at random, judged by Python's jsonschema. Without it
// the test skips.

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/strings.h"
#include "base/test_dir.h"
#include "grammar/automaton.h"
#include "grammar/json_schema.h"
#include "gtest/gtest.h"

namespace aril::grammar {
namespace {

// Reads lines of {"schema": …, "texts": […]}; prints what is not valid.
constexpr char kJudge[] = R"py(
import datetime, json, sys
import jsonschema

def unique(pairs):
    named = [key for key, value in pairs if len(key) > 2]
    assert len(set(named)) == len(named), "duplicate names"
    return dict(pairs)

checker = jsonschema.FormatChecker()
for format, read in (("date", datetime.date.fromisoformat), ("time", datetime.time.fromisoformat),
                     ("date-time", datetime.datetime.fromisoformat)):
    checker.checks(format, ValueError)(lambda text, read=read: not isinstance(text, str) or bool(read(text)) or True)
for line in open(sys.argv[1], encoding="utf-8", newline="\n"):
    case = json.loads(line)
    jsonschema.Draft202012Validator.check_schema(case["schema"])
    validator = jsonschema.Draft202012Validator(case["schema"], format_checker=checker)
    for text in case["texts"]:
        try:
            value = json.loads(text, object_pairs_hook=unique)
            json.dumps(value, ensure_ascii=False).encode("utf-8")
            validator.validate(value)
        except Exception as error:
            print(json.dumps(case["schema"])[:200], repr(text), str(error)[:300])
)py";

// As pydantic 2 makes them of models, and OpenAI's documentation shows them; and small ones.
const std::vector<std::string> kSchemas = {
    R"({})",
    R"({"type":"object"})",
    R"({"type":"array"})",
    R"({"type":"integer"})",
    R"({"type":"number"})",
    R"({"type":"string"})",
    R"({"type":["null","boolean","integer"]})",
    R"({"type":["string","array","object","number"]})",
    R"({"type":"integer","minimum":-5,"maximum":1200})",
    R"({"type":"integer","exclusiveMinimum":99})",
    R"({"type":"integer","maximum":-1000})",
    R"({"type":"number","minimum":0,"maximum":1})",
    R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":100})",
    R"({"type":"number","exclusiveMinimum":-0.3,"maximum":1e-7})",
    R"({"type":"number","minimum":1234.5})",
    R"({"type":"number","exclusiveMaximum":9007199254740993})",
    R"({"type":"number","minimum":-9007199254740993,"maximum":-9007199254740991})",
    R"({"type":"string","minLength":3,"maxLength":5})",
    R"({"type":"string","maxLength":1})",
    R"({"type":"string","pattern":"^[A-Z]{2,3}-[0-9]+$"})",
    R"({"type":"string","pattern":"^[^a-z0-9]\"x"})",
    R"({"type":"string","pattern":"[^a-z0-9]{2}"})",
    R"({"type":"string","pattern":"^(a|b/c\\\\)*\\.[\u00e9-\u00ff]$"})",
    R"({"type":"string","pattern":"^.{2,4}$"})",
    R"({"type":"string","format":"date"})",
    R"({"type":"string","format":"time"})",
    R"({"type":"string","format":"date-time"})",
    R"({"type":"string","format":"duration"})",
    R"({"type":"string","format":"uuid"})",
    R"({"type":"string","format":"email"})",
    R"({"type":"string","format":"ipv4"})",
    R"({"type":"string","format":"ipv6"})",
    R"({"type":"string","format":"hostname"})",
    R"({"type":"string","format":"uri"})",
    R"({"enum":["a","b\"\\\n","\u00e9",1,-2.5,1e15,1e-9,null,true,[],{},[1,[2]],{"a":{"b":1}}]})",
    R"({"const":{"a":[1,2,{"b":null}]}})",
    R"({"enum":[1,"a",null,2.0],"type":["integer","null"]})",
    R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":5})",
    R"({"type":"array","prefixItems":[{"type":"null"},{"type":"boolean"}],"items":false})",
    R"({"type":"array","prefixItems":[{"type":"null"},{"type":"boolean"}],"minItems":1})",
    R"({"type":"array","prefixItems":[{"const":1}],"items":{"const":2},"maxItems":3})",
    R"({"type":"object","additionalProperties":{"type":"integer"}})",
    R"({"type":"object","properties":{"a":{"const":1},"ab":{"const":2},"\n/":{"const":3}},
        "additionalProperties":{"type":"null"}})",
    R"({"properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"},
        "d":{"type":"null"}},"required":["c"],"additionalProperties":{"const":1}})",
    R"({"properties":{"a":true,"b":false,"c":{"minLength":2},"d":{"minimum":3},"e":{"items":{}}}})",
    R"({"anyOf":[{"type":"integer"},{"type":"null"},{"type":"array","items":{"$ref":"#"}}]})",
    R"({"oneOf":[{"type":"number"},{"type":"string","maxLength":3},{"const":null}]})",
    R"({"oneOf":[{"const":"a"},{"enum":["b","c",3]},{"type":"array","maxItems":0}]})",
    R"({"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],"$defs":{
        "a":{"type":"object","properties":{"k":{"const":"x"},"v":{"type":"integer"}}},
        "b":{"type":"object","properties":{"v":{"type":"string"},"k":{"enum":["y","z"]}}}}})",
    R"({"$ref":"#/$defs/a~1b%25/anyOf/1","$defs":{"a/b%":{"anyOf":[true,{"const":2}]}}})",
    // Models: nested and optional ones, bounds, enumerations, dictionaries.
    R"({"$defs": {"Address": {"properties": {"street": {"title": "Street", "type": "string"}, "zip":
        {"pattern": "^\\d{5}(-\\d{4})?$", "title": "Zip", "type": "string"}, "country": {"default":
        "DE", "enum": ["DE", "FR"], "title": "Country", "type": "string"}}, "required": ["street",
        "zip"], "title": "Address", "type": "object"}, "Color": {"enum": ["red", "green"], "title":
        "Color", "type": "string"}, "Level": {"enum": [1, 3], "title": "Level", "type": "integer"}},
        "description": "A person.", "properties": {"name": {"maxLength": 40, "minLength": 1, "title":
        "Name", "type": "string"}, "age": {"exclusiveMaximum": 150, "minimum": 0, "title": "Age",
        "type": "integer"}, "email": {"anyOf": [{"type": "string"}, {"type": "null"}], "default":
        null, "title": "Email"}, "height": {"anyOf": [{"exclusiveMinimum": 0, "type": "number"},
        {"type": "null"}], "default": null, "title": "Height"}, "addresses": {"items": {"$ref":
        "#/$defs/Address"}, "maxItems": 3, "title": "Addresses", "type": "array"}, "color": {"$ref":
        "#/$defs/Color"}, "level": {"$ref": "#/$defs/Level", "default": 1}, "tags":
        {"additionalProperties": {"type": "integer"}, "default": {}, "title": "Tags", "type":
        "object"}, "kind": {"enum": ["a", "b", 3], "title": "Kind"}}, "required": ["name", "age",
        "addresses", "color", "kind"], "title": "Person", "type": "object"})",
    R"({"properties": {"id": {"format": "uuid", "title": "Id", "type": "string"}, "at": {"format":
        "date-time", "title": "At", "type": "string"}, "day": {"format": "date", "title": "Day",
        "type": "string"}, "t": {"format": "time", "title": "T", "type": "string"}, "d": {"format":
        "duration", "title": "D", "type": "string"}, "point": {"maxItems": 2, "minItems": 2,
        "prefixItems": [{"type": "number"}, {"type": "number"}], "title": "Point", "type": "array"},
        "ip": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}], "default": null,
        "title": "Ip"}}, "required": ["id", "at", "day", "t", "d", "point"], "title": "Event",
        "type": "object"})",
    R"({"$defs": {"Tree": {"properties": {"value": {"title": "Value", "type": "integer"}, "left":
        {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}], "default": null}, "right": {"anyOf":
        [{"$ref": "#/$defs/Tree"}, {"type": "null"}], "default": null}}, "required": ["value"],
        "title": "Tree", "type": "object"}}, "$ref": "#/$defs/Tree"})",
    R"({"$defs": {"Cat": {"properties": {"kind": {"const": "cat", "default": "cat", "title": "Kind",
        "type": "string"}, "lives": {"default": 9, "title": "Lives", "type": "integer"}}, "title":
        "Cat", "type": "object"}, "Dog": {"properties": {"kind": {"const": "dog", "default": "dog",
        "title": "Kind", "type": "string"}, "name": {"title": "Name", "type": "string"}}, "required":
        ["name"], "title": "Dog", "type": "object"}}, "properties": {"pet": {"discriminator":
        {"mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"}, "propertyName": "kind"}, "oneOf":
        [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}], "title": "Pet"}}, "required": ["pet"],
        "title": "Pet", "type": "object"})",
    R"({"additionalProperties": false, "properties": {"a": {"title": "A", "type": "boolean"}, "b":
        {"maximum": 1.0, "minimum": 0.0, "title": "B", "type": "number"}, "c": {"items": {"type":
        "integer"}, "maxItems": 4, "minItems": 2, "title": "C", "type": "array"}}, "required": ["a",
        "b", "c"], "title": "Strict", "type": "object"})",
    // pydantic 1.
    R"({"title":"M","type":"object","properties":{"c":{"title":"C","allOf":[{"$ref":
        "#/definitions/C"}],"default":"x"}},"definitions":{"C":{"enum":["x","y"],"type":"string"}}})",
    // Steps of a solution, an event of a calendar, a user interface, a linked list.
    R"({"type":"object","properties":{"steps":{"type":"array","items":{"type":"object","properties":
        {"explanation":{"type":"string"},"output":{"type":"string"}},"required":["explanation",
        "output"],"additionalProperties":false}},"final_answer":{"type":"string"}},"required":
        ["steps","final_answer"],"additionalProperties":false})",
    R"({"type":"object","properties":{"name":{"type":"string"},"date":{"type":"string"},
        "participants":{"type":"array","items":{"type":"string"}}},"required":["name","date",
        "participants"],"additionalProperties":false})",
    R"({"type":"object","properties":{"type":{"type":"string","description":"The type of a part",
        "enum":["div","button","header","section","field","form"]},"label":{"type":
        "string"},"children":{"type":"array","items":{"$ref":"#"}},"attributes":{"type":"array",
        "items":{"type":"object","properties":{"name":{"type":"string"},"value":{"type":"string"}},
        "additionalProperties":false,"required":["name","value"]}}},"required":["type","label",
        "children","attributes"],"additionalProperties":false})",
    R"({"type":"object","properties":{"linked_list":{"$ref":"#/$defs/linked_list_node"}},"$defs":
        {"linked_list_node":{"type":"object","properties":{"value":{"type":"number"},"next":{"anyOf":
        [{"$ref":"#/$defs/linked_list_node"},{"type":"null"}]}},"additionalProperties":false,
        "required":["next","value"]}},"additionalProperties":false,"required":["linked_list"]})",
    R"({"type":"object","properties":{"location":{"type":"string"},"unit":{"type":["string","null"],
        "enum":["C","F",null]}},"additionalProperties":false,"required":["location","unit"]})",
};

// One step of a walk: in the first `soft_limit` bytes any, with those that structure texts more
// often, and then what ends texts.
class Walker {
 public:
  explicit Walker(uint64_t seed) : random_(seed) {}

  // A text of the automaton; empty if it became too long.
  std::string Walk(Automaton& automaton) {
    constexpr size_t kMaxBytes = 2000;
    const size_t soft_limit = random_() % 200;
    std::string text;
    Automaton::State state = automaton.start();
    while (text.size() < kMaxBytes) {
      const bool may_stop = automaton.IsComplete(state);
      if (may_stop && (!automaton.HasNext(state) || random_() % 4 == 0)) return text;
      const uint8_t byte = Choose(automaton, state, text.size() < soft_limit);
      text.push_back(static_cast<char>(byte));
      state = automaton.Next(state, byte);
    }
    return "";
  }

 private:
  uint8_t Choose(Automaton& automaton, Automaton::State state, bool is_early) {
    std::vector<uint8_t> possible;
    for (int byte = 0; byte < 256; ++byte) {
      if (Automaton::IsState(automaton.Next(state, static_cast<uint8_t>(byte)))) {
        possible.push_back(static_cast<uint8_t>(byte));
      }
    }
    const bool is_structural = is_early ? random_() % 2 == 0 : random_() % 8 != 0;
    for (const char preferred : is_early ? Shuffled("{}[]\"\\,:.ue5") : "}]\"ntf1") {
      if (!is_structural) break;
      const auto byte = static_cast<uint8_t>(preferred);
      if (Automaton::IsState(automaton.Next(state, byte))) return byte;
    }
    EXPECT_FALSE(possible.empty()) << "a dead end";
    return possible.empty() ? 0 : possible[random_() % possible.size()];
  }

  std::string Shuffled(std::string text) {
    std::shuffle(text.begin(), text.end(), random_);
    return text;
  }

  std::mt19937_64 random_;
};

std::string OutputOf(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "no process";
  std::string output;
  for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) output.push_back(static_cast<char>(c));
  return pclose(pipe) == 0 ? output : StrCat(output, "failed");
}

TEST(JsonSchemaJudge, TextsAreValid) {
  if (!OutputOf("python3 -c 'import jsonschema' 2>&1").empty()) {
    GTEST_SKIP() << "python3 with jsonschema is not present here";
  }
  const TestDir dir;
  const std::string judge = dir.Write("judge.py", kJudge);
  constexpr uint64_t kSeed = 1;
  SCOPED_TRACE(StrCat("seed ", kSeed));
  Walker walker(kSeed);
  std::string cases;
  for (const std::string& schema : kSchemas) {
    SCOPED_TRACE(schema);
    auto grammar = JsonSchemaGrammar(schema);
    ASSERT_TRUE(grammar.ok()) << grammar.status();
    Automaton automaton(*std::move(grammar));
    Json::Array texts;
    for (int i = 0; i < 25; ++i) texts.emplace_back(walker.Walk(automaton));
    std::erase_if(texts, [](const Json& text) { return text.AsString()->empty(); });
    EXPECT_GT(texts.size(), 10u);
    ASSERT_TRUE(Automaton::IsState(automaton.start()));
    cases += Json(Json::Object{{"schema", Json::Parse(schema).value()}, {"texts", texts}}).Dump();
    cases += "\n";
  }
  EXPECT_EQ(OutputOf(StrCat("python3 ", judge, " ", dir.Write("cases", cases), " 2>&1")), "");
}

}  // namespace
}  // namespace aril::grammar
