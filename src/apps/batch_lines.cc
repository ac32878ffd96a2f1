#include "apps/batch_lines.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/strings.h"
#include "gateway/json_extent.h"
#include "gateway/json_fields.h"

namespace aril {
namespace {

constexpr size_t kMaxIdBytes = 512;
constexpr std::string_view kPaths[] = {"/v1/chat/completions", "/v1/completions", "/v1/responses",
                                       "/v1/messages",         "/v1/embeddings",  "/v1/classify"};
// What stands before the body of an answer, and in no string: there quotes are escaped.
constexpr std::string_view kBody = R"(,"body":)";

void Read(const Json& json, BatchRequest* request) {
  gateway::JsonFields fields(json);
  request->custom_id = fields.GetString("custom_id", "");
  if (request->custom_id.empty() || request->custom_id.size() > kMaxIdBytes) {
    request->custom_id.clear();
    fields.Fail("custom_id", StrCat("must be a text of 1 to ", kMaxIdBytes, " bytes"));
  }
  if (fields.GetString("method", "") != "POST") fields.Fail("method", "must be \"POST\"");
  request->path = fields.GetString("url", "");
  if (std::ranges::find(kPaths, request->path) == std::end(kPaths)) {
    fields.Fail("url", StrCat("must be one of ", Join(kPaths, ", ")));
  }
  const Json* body = fields.Find("body");
  const Json* stream = body == nullptr ? nullptr : body->Find("stream");
  if (body == nullptr || body->AsObject() == nullptr) {
    fields.Fail("body", "must be an object");
  } else if (stream != nullptr && stream->AsBool() != nullptr && *stream->AsBool()) {
    fields.Fail("body", "must not have `stream`: answers are whole here");
  } else {
    request->body = body->Dump();
  }
  if (!fields.ok()) request->error = fields.error()->message;
}

std::string Head(const BatchRequest& request, std::string_view id) {
  return StrCat(R"({"id":)", JsonQuote(id), R"(,"custom_id":)",
                request.custom_id.empty() ? "null" : JsonQuote(request.custom_id));
}

}  // namespace

std::optional<BatchReader::Line> BatchReader::ReadLine() {
  constexpr int kEnd = std::char_traits<char>::eof();
  Line line;
  int c = in_.get();
  if (c == kEnd) return std::nullopt;
  for (; c != kEnd && c != '\n'; c = in_.get()) {
    line.is_too_long = line.text.size() == max_line_bytes_;
    if (!line.is_too_long) line.text.push_back(static_cast<char>(c));
  }
  ++num_lines_;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (num_lines_ == 1 && line.text.starts_with(kByteOrderMark)) {
    line.text.erase(0, kByteOrderMark.size());
  }
  return line;
}

std::optional<BatchRequest> BatchReader::Next() {
  std::optional<Line> line;
  do {
    line = ReadLine();
    if (!line || in_.bad()) return std::nullopt;
  } while (line->text.find_first_not_of(" \t\r") == std::string::npos);
  BatchRequest request = {.line = num_lines_};
  if (line->is_too_long) {
    request.error = StrCat("the line has more than ", max_line_bytes_, " bytes");
    return request;
  }
  JsonLimits limits;
  ++limits.max_depth;  // than a body by itself
  const auto json = Json::Parse(line->text, limits);
  if (json.ok() && json->AsObject() != nullptr) {
    Read(*json, &request);
  } else {
    request.error = json.ok() ? "the line is no JSON object" : Message(json.status());
  }
  return request;
}

std::string AnswerLine(const BatchRequest& request, std::string_view id, int status,
                       std::string_view body) {
  return StrCat(Head(request, id), R"(,"response":{"status_code":)", status, R"(,"request_id":)",
                JsonQuote(id), kBody, body, R"(},"error":null})", "\n");
}

std::string ErrorLine(const BatchRequest& request, std::string_view id) {
  return StrCat(Head(request, id),
                R"(,"response":null,"error":{"code":"invalid_request","message":)",
                JsonQuote(StrCat("line ", request.line, ": ", request.error)), "}}\n");
}

std::optional<BatchOutcome> ReadOutcome(std::string_view line) {
  const size_t body = line.find(kBody);
  const bool has_body = body != std::string_view::npos;
  const auto json = Json::Parse(has_body ? StrCat(line.substr(0, body), "}}") : std::string(line));
  if (!json.ok()) return std::nullopt;
  const Json* id = json->Find("custom_id");
  const Json* response = json->Find("response");
  if (id == nullptr || response == nullptr) return std::nullopt;
  const Json* status = response->Find("status_code");
  if (has_body && (status == nullptr || status->AsInt() == nullptr)) return std::nullopt;
  return BatchOutcome{.custom_id = id->AsString() == nullptr ? "" : *id->AsString(),
                      .is_answered = has_body && *status->AsInt() == 200};
}

int64_t NumGeneratedTokens(std::string_view body) {
  constexpr std::string_view kUsage = R"("usage":)";
  const size_t begin = body.rfind(kUsage);  // in no string
  if (begin == std::string_view::npos) return 0;
  const std::string_view rest = body.substr(begin + kUsage.size());
  const auto usage = Json::Parse(rest.substr(0, gateway::JsonExtent().Append(rest)));
  if (!usage.ok()) return 0;
  for (const char* name : {"completion_tokens", "output_tokens"}) {
    const Json* tokens = usage->Find(name);
    if (tokens != nullptr && tokens->AsInt() != nullptr) return *tokens->AsInt();
  }
  return 0;
}

}  // namespace aril
