#include "apps/speculative_config.h"

#include <algorithm>
#include <optional>

#include "base/json.h"
#include "base/strings.h"

namespace aril {
namespace {

constexpr int64_t kDefaultTokens = 8;
constexpr int64_t kMaxTokens = kMaxDraftRows - 1;  // a row is the last token's
constexpr int64_t kMaxMatch = 32;

StatusOr<int64_t> ReadCount(const std::string& key, const Json& value, int64_t least,
                            int64_t most) {
  const int64_t* const count = value.AsInt();
  if (count != nullptr && *count >= least && *count <= most) return *count;
  return InvalidArgument(
      StrCat("`", key, "` must be an integer from ", least, " to ", most, ", not ", value.Dump()));
}

// `[ngram]` is what vLLM's older releases call the model.
bool IsNgram(const Json& value) {
  const std::string* const name = value.AsString();
  return name != nullptr && (*name == "ngram" || *name == "[ngram]");
}

}  // namespace

DraftOptions PredictionsOnly() { return {.max_tokens = kDefaultTokens, .looks_back = false}; }

StatusOr<DraftOptions> ParseSpeculativeConfig(const std::string& text) {
  auto json = Json::Parse(text);
  if (!json.ok()) return Annotate(json.status(), "not JSON");
  if (json->AsObject() == nullptr) {
    return InvalidArgument("must be a JSON object, e.g. {\"method\": \"ngram\"}");
  }
  DraftOptions options{.max_tokens = kDefaultTokens};
  std::optional<int64_t> min_match;
  std::optional<int64_t> max_match;
  bool has_method = false;
  for (const auto& [key, value] : *json->AsObject()) {
    if (key == "method" || key == "model") {
      if (!IsNgram(value)) {
        return InvalidArgument(StrCat("`", key, "` must be \"ngram\": there are no other drafts"));
      }
      has_method = true;
    } else if (key == "num_speculative_tokens") {
      ASSIGN_OR_RETURN(options.max_tokens, ReadCount(key, value, 0, kMaxTokens));
    } else if (key == "prompt_lookup_max") {
      ASSIGN_OR_RETURN(max_match, ReadCount(key, value, 1, kMaxMatch));
    } else if (key == "prompt_lookup_min") {
      ASSIGN_OR_RETURN(min_match, ReadCount(key, value, 1, kMaxMatch));
    } else {
      return InvalidArgument(
          StrCat("unknown key ", JsonQuote(key),
                 "; there are method, num_speculative_tokens, prompt_lookup_min and "
                 "prompt_lookup_max"));
    }
  }
  if (!has_method) return InvalidArgument("`method` is missing; give {\"method\": \"ngram\"}");
  options.max_match = max_match.value_or(std::max(options.max_match, min_match.value_or(1)));
  options.min_match = min_match.value_or(std::min(options.min_match, options.max_match));
  if (options.min_match > options.max_match) {
    return InvalidArgument(StrCat("`prompt_lookup_min` (", options.min_match,
                                  ") is more than `prompt_lookup_max` (", options.max_match, ")"));
  }
  return options;
}

}  // namespace aril
