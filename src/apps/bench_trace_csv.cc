// The traces that are CSV with a header: our own, azure, vidur and Alibaba's two.

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

#include "apps/bench_lengths.h"
#include "apps/bench_numbers.h"
#include "apps/bench_trace_formats.h"
#include "apps/text_table.h"
#include "base/strings.h"

namespace aril {
namespace {

constexpr size_t kMaxColumns = 64;
constexpr int64_t kMaxSeconds = 1'000'000'000;

// A format and the columns it is known by; nullptr: it has none for this.
struct CsvFormat {
  const char* name;
  const char* time = nullptr;
  const char* seconds = nullptr;  // a time, too
  const char* prompt = nullptr;
  const char* output = nullptr;
  const char* tenant = nullptr;  // with the number of LoRAs that the request uses
  const char* num_loras = nullptr;
  const char* loras = nullptr;    // a list of them
  const char* adapter = nullptr;  // empty: the base model
};

constexpr CsvFormat kFormats[] = {
    {.name = "aril",
     .seconds = "arrival_s",
     .prompt = "prompt_tokens",
     .output = "output_tokens",
     .adapter = "adapter"},
    {.name = "azure", .time = "TIMESTAMP", .prompt = "ContextTokens", .output = "GeneratedTokens"},
    {.name = "vidur", .prompt = "num_prefill_tokens", .output = "num_decode_tokens"},
    {.name = "alibaba", .time = "gmt_create", .tenant = "groupId", .num_loras = "num_lora"},
    {.name = "alibaba-lora", .loras = "lora_args"}};

// The fields of a line. A field may be quoted; a quote in it is then doubled (RFC 4180).
StatusOr<std::vector<std::string>> SplitCsv(std::string_view line) {
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && is_quoted && line.substr(i + 1, 1) == "\"") {
      fields.back() += line[++i];
    } else if (c == '"') {
      is_quoted = !is_quoted;
    } else if (c == ',' && !is_quoted) {
      if (fields.size() == kMaxColumns) return InvalidArgument("too many columns");
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  if (is_quoted) return InvalidArgument("a quote is not closed");
  return fields;
}

// Digits of a fixed width at `at`.
bool FixedInt(std::string_view text, size_t at, size_t width, int64_t* value) {
  const std::string_view digits = text.substr(std::min(at, text.size()), width);
  return digits.size() == width &&
         digits.find_first_not_of("0123456789") == std::string_view::npos &&
         ParseInt(digits, value);
}

// "2023-11-16 18:17:03.9799600" since 1970, with any number of decimals or none.
bool ParseTimestamp(std::string_view text, Duration* time) {
  int64_t year = 0, month = 0, day = 0, hour = 0, minute = 0;
  double seconds = 0;
  const bool has_shape = text.size() >= 19 && text[4] == '-' && text[7] == '-' && text[10] == ' ' &&
                         text[13] == ':' && text[16] == ':' && FixedInt(text, 0, 4, &year) &&
                         FixedInt(text, 5, 2, &month) && FixedInt(text, 8, 2, &day) &&
                         FixedInt(text, 11, 2, &hour) && FixedInt(text, 14, 2, &minute) &&
                         ParseNumber(text.substr(17), &seconds);
  if (!has_shape || hour > 23 || minute > 59 || seconds < 0 || seconds >= 61) return false;
  const std::chrono::year_month_day date(std::chrono::year(static_cast<int>(year)),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day)));
  if (!date.ok() || year < 1970 || year > 2200) return false;
  *time = std::chrono::sys_days(date).time_since_epoch() + std::chrono::hours(hour) +
          std::chrono::minutes(minute) + ToDuration(seconds);
  return true;
}

// The value of the first 'modelVersionId' of a Python list of dictionaries; "" for an empty list.
bool FirstLora(std::string_view list, std::string* lora) {
  static constexpr std::string_view kKey = "'modelVersionId': '";
  lora->clear();
  if (list == "[]") return true;
  const size_t key = list.find(kKey);
  if (key == std::string_view::npos) return false;
  const std::string_view value = list.substr(key + kKey.size());
  *lora = value.substr(0, value.find('\''));
  return !lora->empty() && lora->size() < value.size();
}

class CsvParser {
 public:
  CsvParser(std::string_view text, const TraceOptions& options) : lines_(text), options_(options) {}

  StatusOr<Trace> Parse() {
    RETURN_IF_ERROR(ReadHeader());
    Trace trace = {.format = format_->name,
                   .has_arrivals = format_->time != nullptr || format_->seconds != nullptr,
                   .has_adapters = format_->tenant != nullptr || format_->loras != nullptr ||
                                   format_->adapter != nullptr,
                   .has_lengths = format_->prompt != nullptr,
                   .requests = {}};
    std::string_view line;
    while (static_cast<int64_t>(trace.requests.size()) < options_.max_requests &&
           lines_.Next(&line)) {
      if (line.empty()) continue;
      RETURN_IF_ERROR(ReadFields(line));
      ASSIGN_OR_RETURN(const TraceRequest request, ReadRequest());
      trace.requests.push_back(request);
    }
    return trace;
  }

 private:
  Status ReadFields(std::string_view line) {
    auto fields = SplitCsv(line);
    if (!fields.ok()) return lines_.Error(Message(fields.status()));
    fields_ = *std::move(fields);
    return OkStatus();
  }

  Status ReadHeader() {
    std::string_view line;
    lines_.Next(&line);
    RETURN_IF_ERROR(ReadFields(line));
    for (size_t i = 0; i < fields_.size(); ++i) columns_.emplace(fields_[i], i);
    for (const CsvFormat& format : kFormats) {
      if (HasColumns(format)) {
        format_ = &format;
        return OkStatus();
      }
    }
    return lines_.Error(
        "this is none of the known traces: expected the header of aril (arrival_s,adapter,"
        "prompt_tokens,output_tokens), azure (TIMESTAMP,ContextTokens,GeneratedTokens), vidur "
        "(num_prefill_tokens,num_decode_tokens) or alibaba (gmt_create, "
        "groupId, num_lora; or lora_args), a line of servegen's, or JSON lines of mooncake's or "
        "LLMServingSim's");
  }

  bool HasColumns(const CsvFormat& format) const {
    const char* const names[] = {format.time,   format.seconds,   format.prompt, format.output,
                                 format.tenant, format.num_loras, format.loras,  format.adapter};
    return std::all_of(std::begin(names), std::end(names), [&](const char* name) {
      return name == nullptr || columns_.count(name) > 0;
    });
  }

  StatusOr<TraceRequest> ReadRequest() {
    TraceRequest request;
    if (format_->time != nullptr) {
      ASSIGN_OR_RETURN(const std::string text, Field(format_->time));
      if (!ParseTimestamp(text, &request.arrival)) {
        return Bad(format_->time, text, "a time like 2023-11-16 18:17:03.97");
      }
    }
    if (format_->seconds != nullptr) {
      ASSIGN_OR_RETURN(const std::string text, Field(format_->seconds));
      double seconds = 0;
      if (!ParseNumber(text, &seconds) || !(seconds >= 0 && seconds <= kMaxSeconds)) {
        return Bad(format_->seconds, text, StrCat("seconds from 0 to ", kMaxSeconds));
      }
      request.arrival = ToDuration(seconds);
    }
    if (format_->prompt != nullptr) {
      ASSIGN_OR_RETURN(request.prompt_tokens, Tokens(format_->prompt));
      ASSIGN_OR_RETURN(request.output_tokens, Tokens(format_->output));
    }
    ASSIGN_OR_RETURN(request.adapter, Adapter());
    return request;
  }

  StatusOr<std::string> Field(const char* column) const {
    const size_t idx = columns_.find(column)->second;
    if (idx < fields_.size()) return fields_[idx];
    return lines_.Error(StrCat("it has ", fields_.size(), " columns, too few for ", column));
  }

  Status Bad(const char* column, const std::string& text, const std::string& expected) const {
    return lines_.Error(StrCat(column, " is `", text.substr(0, 80), "`, expected ", expected));
  }

  StatusOr<int64_t> Tokens(const char* column) const {
    ASSIGN_OR_RETURN(const std::string text, Field(column));
    int64_t count = 0;
    if (ParseInt(text, &count) && count >= 0 && count <= kMaxRequestTokens) {
      return std::max<int64_t>(count, 1);
    }
    return Bad(column, text, StrCat("a number of tokens up to ", kMaxRequestTokens));
  }

  StatusOr<int64_t> Adapter() {
    if (format_->tenant != nullptr) {
      ASSIGN_OR_RETURN(const std::string text, Field(format_->num_loras));
      int64_t num_loras = 0;
      if (!ParseInt(text, &num_loras)) return Bad(format_->num_loras, text, "a number");
      ASSIGN_OR_RETURN(const std::string tenant, Field(format_->tenant));
      return num_loras > 0 ? Number(tenant) : -1;
    }
    if (format_->adapter != nullptr) {
      ASSIGN_OR_RETURN(const std::string name, Field(format_->adapter));
      return name.empty() ? -1 : Number(name);
    }
    if (format_->loras == nullptr) return -1;
    ASSIGN_OR_RETURN(const std::string list, Field(format_->loras));
    std::string lora;
    if (!FirstLora(list, &lora)) return Bad(format_->loras, list, "a list with modelVersionId");
    return lora.empty() ? -1 : Number(lora);
  }

  int64_t Number(const std::string& adapter) {
    return numbers_.emplace(adapter, static_cast<int64_t>(numbers_.size())).first->second;
  }

  LineReader lines_;
  const TraceOptions& options_;
  const CsvFormat* format_ = nullptr;
  std::map<std::string, size_t> columns_;
  std::vector<std::string> fields_;  // of the current line
  std::map<std::string, int64_t> numbers_;
};

}  // namespace

std::string ToCsv(const std::vector<TraceRequest>& requests) {
  std::string csv = "arrival_s,adapter,prompt_tokens,output_tokens\n";
  for (const TraceRequest& request : requests) {
    const std::string adapter = request.adapter < 0 ? "" : std::to_string(request.adapter);
    csv += StrCat(Decimal(ToSeconds(request.arrival), 6), ",", adapter, ",", request.prompt_tokens,
                  ",", request.output_tokens, "\n");
  }
  return csv;
}

StatusOr<Trace> ParseCsvTrace(std::string_view text, const TraceOptions& options) {
  return CsvParser(text, options).Parse();
}

}  // namespace aril
