#include "apps/bench_stream.h"

#include "base/json.h"
#include "base/strings.h"

namespace aril {
namespace {

constexpr size_t kMaxRawBytes = 500;

int64_t IntField(const Json& object, std::string_view name) {
  const Json* value = object.Find(name);
  return value != nullptr && value->AsInt() != nullptr ? *value->AsInt() : -1;
}

// A last chunk may bring only the reason for the end.
bool HasTokens(const Json& choice) {
  const Json* ids = choice.Find("token_ids");
  if (ids != nullptr && ids->AsArray() != nullptr) return !ids->AsArray()->empty();
  const Json* text = choice.Find("text");
  return text != nullptr && text->AsString() != nullptr && !text->AsString()->empty();
}

}  // namespace

void StreamReader::OnData(std::string_view bytes) {
  raw_.append(bytes.substr(0, kMaxRawBytes - raw_.size()));
  reader_.Append(bytes);
  while (const auto event = reader_.Next()) OnEvent(*event);
}

void StreamReader::OnEvent(const std::string& data) {
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const auto json = Json::Parse(data);
  if (!json.ok() || json->Find("error") != nullptr) {
    stream_error_ = data.substr(0, kMaxRawBytes);
    return;
  }
  if (const Json* usage = json->Find("usage"); usage != nullptr && !usage->is_null()) {
    record_->prompt_tokens = IntField(*usage, "prompt_tokens");
    record_->output_tokens = IntField(*usage, "completion_tokens");
  }
  const Json* choices = json->Find("choices");
  if (choices == nullptr || choices->AsArray() == nullptr || choices->AsArray()->empty()) return;
  if (HasTokens(choices->AsArray()->front())) record_->chunks.push_back(clock_.Now() - start_);
}

void StreamReader::Finish(const StatusOr<gateway::HttpResponse>& response,
                          const WorkloadRequest& asked) {
  record_->end = clock_.Now() - start_;
  record_->error = Judge(response, asked);
  record_->was_refused = WasRefused(response);
}

bool StreamReader::WasRefused(const StatusOr<gateway::HttpResponse>& response) const {
  if (!response.ok()) return false;
  if (response->status == 429 || response->status == 503) return true;
  return record_->chunks.empty() && stream_error_.find("overloaded_error") != std::string::npos;
}

std::string StreamReader::Judge(const StatusOr<gateway::HttpResponse>& response,
                                const WorkloadRequest& asked) const {
  if (!response.ok()) return Message(response.status());
  if (response->status != 200) return StrCat("status ", response->status, ": ", raw_);
  if (!stream_error_.empty()) return "the stream reported " + stream_error_;
  if (!done_) return "the stream ended without [DONE]";
  if (record_->prompt_tokens != asked.prompt_tokens ||
      record_->output_tokens != asked.output_tokens) {
    return StrCat("usage says ", record_->prompt_tokens, " + ", record_->output_tokens,
                  " tokens, asked for ", asked.prompt_tokens, " + ", asked.output_tokens);
  }
  return record_->chunks.empty() ? "the stream had no token" : "";
}

}  // namespace aril
