#include "gateway/output_format_fields.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "wire/limits.h"
#include "wire/output_format.h"

namespace aril::gateway {
namespace {

using Kind = wire::OutputFormat::Kind;

constexpr size_t kMaxChoices = 1024;
constexpr size_t kMaxSchemaName = 64;  // OpenAI's
// Of a field's name that a request brings into a message.
constexpr size_t kMaxShownField = 64;

constexpr char kAnyObject[] = R"({"type":"object"})";

// Where servers take grammars and the like. Ignoring one would give a client text that breaks what
// it relies on.
constexpr std::string_view kUnsupported[] = {"guided_grammar", "guided_whitespace_pattern",
                                             "grammar", "structural_tag"};

// A format and the field that asks for it.
struct Asked {
  std::string field;
  wire::OutputFormat format;
};

struct Reading {
  JsonFields& fields;  // of the request; errors stay there
  std::vector<Asked> asked = {};
};

// Reads the value, which is not null, of a field.
using ReadValue = void (*)(const std::string& field, const Json& value, Reading& reading);

struct NamedReader {
  std::string_view name;
  ReadValue read;
};

bool IsAsciiAlnum(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

void Add(const std::string& field, Kind kind, std::string source, Reading& reading) {
  reading.asked.push_back({field, {.kind = kind, .source = std::move(source)}});
}

void ReadSchema(const std::string& field, const Json& value, Reading& reading) {
  if (value.AsObject() == nullptr) {
    return reading.fields.Fail(field, "must be an object, a JSON Schema, not " + value.KindName());
  }
  Add(field, Kind::kJsonSchema, value.Dump(), reading);
}

// vLLM takes a schema as a text, too.
void ReadSchemaOrText(const std::string& field, const Json& value, Reading& reading) {
  const std::string* text = value.AsString();
  if (text == nullptr) return ReadSchema(field, value, reading);
  const StatusOr<Json> schema = Json::Parse(*text, {.max_bytes = wire::kMaxOutputFormatBytes});
  if (!schema.ok()) {
    return reading.fields.Fail(field, "is a text that is no schema: " + Message(schema.status()));
  }
  ReadSchema(field, *schema, reading);
}

void ReadRegex(const std::string& field, const Json& value, Reading& reading) {
  const std::string* text = value.AsString();
  if (text == nullptr) {
    return reading.fields.Fail(field, "must be a string, not " + value.KindName());
  }
  Add(field, Kind::kRegex, *text, reading);
}

// Nothing if one of them is no string, or empty, or if there are too many or none.
std::optional<std::vector<std::string>> ReadTexts(const Json& value) {
  const Json::Array* list = value.AsArray();
  if (list == nullptr || list->empty() || list->size() > kMaxChoices) return std::nullopt;
  std::vector<std::string> texts;
  for (const Json& item : *list) {
    const std::string* text = item.AsString();
    if (text == nullptr || text->empty()) return std::nullopt;
    texts.push_back(*text);
  }
  return texts;
}

void ReadChoice(const std::string& field, const Json& value, Reading& reading) {
  const auto texts = ReadTexts(value);
  if (!texts) {
    return reading.fields.Fail(
        field, StrCat("must be an array of 1 to ", kMaxChoices, " strings that are not empty"));
  }
  Add(field, Kind::kRegex, RegexOfChoices(*texts), reading);
}

void ReadJsonObject(const std::string& field, const Json& value, Reading& reading) {
  if (value.AsBool() == nullptr) {
    return reading.fields.Fail(field, "must be a boolean, not " + value.KindName());
  }
  if (*value.AsBool()) Add(field, Kind::kJsonSchema, kAnyObject, reading);
}

constexpr NamedReader kOfStructuredOutputs[] = {{"json", ReadSchemaOrText},
                                                {"regex", ReadRegex},
                                                {"choice", ReadChoice},
                                                {"json_object", ReadJsonObject}};

// Null and false ask for nothing; which backend is not to be used matters where there are several.
bool IsEmptyMember(std::string_view name, const Json& value) {
  return value.is_null() || (value.AsBool() != nullptr && !*value.AsBool()) ||
         name == "disable_fallback";
}

void ReadStructuredOutputs(const std::string& field, const Json& value, Reading& reading) {
  if (value.AsObject() == nullptr) {
    return reading.fields.Fail(field, "must be an object, not " + value.KindName());
  }
  const size_t num_before = reading.asked.size();
  for (const auto& [name, member] : *value.AsObject()) {
    if (IsEmptyMember(name, member)) continue;
    const auto known = std::ranges::find(kOfStructuredOutputs, name, &NamedReader::name);
    const std::string where = StrCat(field, ".", name.substr(0, kMaxShownField));
    if (known != std::end(kOfStructuredOutputs)) {
      known->read(where, member, reading);
    } else {
      reading.fields.Fail(where,
                          "is not supported; this server takes json, regex, choice or json_object");
    }
  }
  if (reading.asked.size() == num_before) {
    reading.fields.Fail(field, "must have one of json, regex, choice and json_object");
  }
}

bool IsSchemaName(std::string_view name) {
  const auto fits = [](char c) { return IsAsciiAlnum(c) || c == '_' || c == '-'; };
  return !name.empty() && name.size() <= kMaxSchemaName && std::ranges::all_of(name, fits);
}

// OpenAI's wrapping of a schema. `strict` changes nothing: the schema is always kept to.
void ReadNamedSchema(const std::string& field, const Json& value, Reading& reading) {
  JsonFields inner(value, field + ".");
  if (!IsSchemaName(inner.GetString("name", ""))) {
    inner.Fail("name", StrCat("is required, and has 1 to ", kMaxSchemaName,
                              " of the characters a-z A-Z 0-9 _ -"));
  }
  inner.GetString("description", "");
  inner.GetBool("strict", true);
  const Json* schema = inner.Find("schema");
  if (schema == nullptr) inner.Fail("schema", "is required");
  reading.fields.Take(inner);
  if (schema != nullptr) ReadSchema(field + ".schema", *schema, reading);
}

void ReadResponseFormat(const std::string& field, const Json& value, Reading& reading) {
  const auto member = [&](std::string_view name) {
    const Json* found = value.Find(name);
    return found == nullptr || found->is_null() ? nullptr : found;
  };
  const Json* type = member("type");
  const std::string* name = type == nullptr ? nullptr : type->AsString();
  if (name != nullptr && *name == "text") return;
  if (name != nullptr && *name == "json_object") {
    // llama-server's.
    const Json* schema = member("schema");
    if (schema != nullptr) return ReadSchema(field + ".schema", *schema, reading);
    return Add(field, Kind::kJsonSchema, kAnyObject, reading);
  }
  if (name != nullptr && *name == "json_schema") {
    const Json* schema = member("json_schema");
    if (schema != nullptr && schema->AsObject() != nullptr) {
      return ReadNamedSchema(field + ".json_schema", *schema, reading);
    }
    return reading.fields.Fail(field + ".json_schema", "must be an object with name and schema");
  }
  reading.fields.Fail(field,
                      "must be an object whose type is \"text\", \"json_object\" or "
                      "\"json_schema\"; others are not supported");
}

// The same of /v1/responses, where what a schema is wrapped in has its type, too.
void ReadTextFormat(const std::string& field, const Json& value, Reading& reading) {
  if (IsText(value.Find("type"), "json_schema")) return ReadNamedSchema(field, value, reading);
  ReadResponseFormat(field, value, reading);
}

void ReadText(const std::string& field, const Json& value, Reading& reading) {
  if (value.AsObject() == nullptr) {
    return reading.fields.Fail(field, "must be an object, not " + value.KindName());
  }
  JsonFields inner(value, field + ".");
  const std::string verbosity = inner.GetString("verbosity", "medium");
  if (verbosity != "medium") {
    inner.Fail("verbosity", "must be \"medium\": no chat template is told another");
  }
  reading.fields.Take(inner);
  const Json* format = inner.Find("format");
  if (format != nullptr) ReadTextFormat(field + ".format", *format, reading);
}

void RefuseResponseFormat(const std::string& field, const Json&, Reading& reading) {
  reading.fields.Fail(field, "is `text.format` here");
}

// Anthropic's, which has no name.
void ReadSchemaFormat(const std::string& field, const Json& value, Reading& reading) {
  const Json* schema = value.Find("schema");
  if (!IsText(value.Find("type"), "json_schema") || schema == nullptr) {
    return reading.fields.Fail(field, "must be {\"type\": \"json_schema\", \"schema\": …}");
  }
  ReadSchema(field + ".schema", *schema, reading);
}

void ReadOutputConfig(const std::string& field, const Json& value, Reading& reading) {
  if (value.AsObject() == nullptr) {
    return reading.fields.Fail(field, "must be an object, not " + value.KindName());
  }
  const Json* format = value.Find("format");
  if (format != nullptr && !format->is_null()) {
    ReadSchemaFormat(field + ".format", *format, reading);
  }
}

void RefuseOpenAiFormat(const std::string& field, const Json&, Reading& reading) {
  reading.fields.Fail(field, "is `output_config.format` here");
}

constexpr NamedReader kOfRequest[] = {{"structured_outputs", ReadStructuredOutputs},
                                      {"guided_json", ReadSchemaOrText},
                                      {"guided_regex", ReadRegex},
                                      {"guided_choice", ReadChoice},
                                      {"json_schema", ReadSchema}};
// Besides these.
constexpr NamedReader kOfCompletions[] = {{"response_format", ReadResponseFormat}};
constexpr NamedReader kOfResponses[] = {{"text", ReadText},
                                        {"response_format", RefuseResponseFormat}};
constexpr NamedReader kOfMessages[] = {{"output_config", ReadOutputConfig},
                                       {"output_format", ReadSchemaFormat},  // its older name
                                       {"response_format", RefuseOpenAiFormat}};

std::span<const NamedReader> ReadersOf(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kCompletions:
    case Endpoint::kChat:
    case Endpoint::kEmbeddings:  // which has none
    case Endpoint::kClassify:    // likewise
      return kOfCompletions;
    case Endpoint::kResponses:
      return kOfResponses;
    case Endpoint::kMessages:
      return kOfMessages;
  }
  CHECK(false);
}

void ReadAll(std::span<const NamedReader> readers, Reading& reading) {
  for (const NamedReader& field : readers) {
    const Json* value = reading.fields.Find(field.name);
    if (value != nullptr) field.read(std::string(field.name), *value, reading);
  }
}

void RefuseUnsupported(JsonFields& fields) {
  for (const std::string_view name : kUnsupported) {
    if (fields.Find(name) == nullptr) continue;
    fields.Fail(
        name,
        "is not supported; this server takes JSON schemas, regular expressions and choices "
        "(`response_format`, of responses `text.format`, of messages `output_config.format`, and "
        "`structured_outputs`)");
  }
}

void AppendEscaped(std::string_view text, std::string* out) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) {
      *out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
      continue;
    }
    if (byte < 0x7F && byte != ' ' && !IsAsciiAlnum(c)) *out += '\\';
    *out += c;
  }
}

}  // namespace

const char* ExcludedByFormats(const wire::SequenceRequest& request) {
  if (request.min_tokens > 0) return "min_tokens";
  if (!request.sampling.allowed_token_ids.empty()) return "allowed_token_ids";
  if (!request.sampling.bad_words.empty()) return "bad_words";
  return nullptr;
}

std::string ReadOutputFormat(JsonFields& fields, Endpoint endpoint, wire::SequenceRequest* common) {
  RefuseUnsupported(fields);
  Reading reading = {.fields = fields};
  ReadAll(ReadersOf(endpoint), reading);
  ReadAll(kOfRequest, reading);
  if (!fields.ok() || reading.asked.empty()) return "";
  Asked& first = reading.asked.front();
  if (reading.asked.size() > 1) {
    fields.Fail(reading.asked[1].field,
                StrCat("excludes `", first.field, "`: an output has one format"));
  }
  if (const char* excluded = ExcludedByFormats(*common)) {
    fields.Fail(excluded, StrCat("excludes `", first.field, "`", kWhyExcluded));
  }
  common->format = std::move(first.format);
  return std::move(first.field);
}

void CheckOutputFormat(const std::string& field, const wire::OutputFormat& format,
                       const ServedModel& model, const ModelText& text, JsonFields& fields) {
  if (format.is_text()) return;
  const Status status = text.keeps_formats.ok() ? model.check_format(format) : text.keeps_formats;
  // Nothing is wrong with the request: whoever runs it says so, if that still holds then.
  if (status.code() == StatusCode::kUnavailable) return;
  if (!status.ok()) fields.Fail(field, "cannot be kept to: " + Message(status));
}

std::string RegexOfChoices(const std::vector<std::string>& choices) {
  std::string regex;
  for (const std::string& choice : choices) {
    if (!regex.empty()) regex += '|';
    AppendEscaped(choice, &regex);
  }
  return regex;
}

}  // namespace aril::gateway
