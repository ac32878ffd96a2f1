#include "apps/batch_lines.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/strings.h"
#include "gateway/json_fields.h"

namespace aril {
namespace {

constexpr size_t kMaxIdBytes = 512;
constexpr std::string_view kPaths[] = {"/v1/chat/completions", "/v1/completions", "/v1/responses",
                                       "/v1/messages",         "/v1/embeddings",  "/v1/classify"};

// The whole line must be as OpenAI has it: what is mistyped would be passed over.
void Read(const Json& json, BatchRequest* request) {
  constexpr std::string_view kFields[] = {"custom_id", "method", "url", "body"};
  gateway::JsonFields fields(json);
  request->custom_id = fields.GetString("custom_id", "");
  const bool has_id = !request->custom_id.empty() && request->custom_id.size() <= kMaxIdBytes;
  if (!has_id) {
    request->custom_id.clear();
    fields.Fail("custom_id", StrCat("must be a text of 1 to ", kMaxIdBytes, " bytes"));
  }
  if (fields.GetString("method", "") != "POST") fields.Fail("method", "must be \"POST\"");
  request->path = fields.GetString("url", "");
  if (std::ranges::find(kPaths, request->path) == std::end(kPaths)) {
    fields.Fail("url", StrCat("must be one of ", Join(kPaths, ", ")));
  }
  const Json* body = fields.Find("body");
  if (body == nullptr || body->AsObject() == nullptr) {
    fields.Fail("body", "must be an object");
  } else if (const Json* stream = body->Find("stream");
             stream != nullptr && stream->AsBool() != nullptr && *stream->AsBool()) {
    fields.Fail("body", "must not have `stream`: answers are whole here");
  } else {
    request->body = body->Dump();
  }
  fields.AllowOnly(kFields);
  if (!fields.ok()) request->error = fields.error()->message;
}

std::string Head(const BatchRequest& request) {
  return StrCat(R"({"id":"batch_req_)", request.line, R"(","custom_id":)",
                request.custom_id.empty() ? "null" : JsonQuote(request.custom_id));
}

}  // namespace

bool BatchReader::ReadLine(std::string* line, bool* is_too_long) {
  line->clear();
  *is_too_long = false;
  std::streambuf& from = *in_.rdbuf();
  constexpr int kEnd = std::char_traits<char>::eof();
  int c = from.sbumpc();
  if (c == kEnd) return false;
  for (; c != kEnd && c != '\n'; c = from.sbumpc()) {
    *is_too_long = line->size() == max_line_bytes_;
    if (!*is_too_long) line->push_back(static_cast<char>(c));
  }
  ++num_lines_;
  return true;
}

std::optional<BatchRequest> BatchReader::Next() {
  std::string line;
  bool is_too_long = false;
  do {
    if (!ReadLine(&line, &is_too_long)) return std::nullopt;
  } while (line.find_first_not_of(" \t\r") == std::string::npos);
  BatchRequest request = {.line = num_lines_};
  if (is_too_long) {
    request.error = StrCat("the line has more than ", max_line_bytes_, " bytes");
    return request;
  }
  const auto json = Json::Parse(line);
  if (json.ok() && json->AsObject() != nullptr) {
    Read(*json, &request);
  } else {
    request.error = json.ok() ? "the line is no JSON object" : Message(json.status());
  }
  return request;
}

std::string AnswerLine(const BatchRequest& request, int status, std::string_view body) {
  return StrCat(Head(request), R"(,"response":{"status_code":)", status,
                R"(,"request_id":"batch_req_)", request.line, R"(","body":)", body,
                R"(},"error":null})", "\n");
}

std::string ErrorLine(const BatchRequest& request) {
  return StrCat(Head(request), R"(,"response":null,"error":{"code":"invalid_request","message":)",
                JsonQuote(StrCat("line ", request.line, ": ", request.error)), "}}\n");
}

std::optional<std::string> AnsweredId(std::string_view line) {
  const auto json = Json::Parse(line);
  if (!json.ok()) return std::nullopt;
  const Json* id = json->Find("custom_id");
  const Json* response = json->Find("response");
  const Json* status = response == nullptr ? nullptr : response->Find("status_code");
  const bool is_answered = id != nullptr && id->AsString() != nullptr && status != nullptr &&
                           status->AsInt() != nullptr && *status->AsInt() == 200;
  return is_answered ? std::optional(*id->AsString()) : std::nullopt;
}

}  // namespace aril
