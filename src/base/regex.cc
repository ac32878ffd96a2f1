#include "base/regex.h"

#include "base/check.h"
#include "base/json.h"
#include "base/strings.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace aril {
namespace {

// What one search may use in the interpreter.
constexpr uint32_t kMaxHeapKiB = 64 << 10;
constexpr uint32_t kMaxNestedParentheses = 100;

std::string ErrorText(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

PCRE2_SPTR Bytes(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

void Regex::Deleter::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }
void Regex::Deleter::operator()(pcre2_real_match_context_8* context) const {
  pcre2_match_context_free(context);
}
void Regex::Matcher::Deleter::operator()(pcre2_real_match_data_8* data) const {
  pcre2_match_data_free(data);
}

StatusOr<Regex> Regex::Compile(std::string_view pattern, const Options& options) {
  if (pattern.size() > kMaxPatternBytes) {
    return InvalidArgument(
        StrCat("the pattern has ", pattern.size(), " bytes, more than ", kMaxPatternBytes));
  }
  struct ContextDeleter {
    void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  };
  const std::unique_ptr<pcre2_compile_context, ContextDeleter> context(
      pcre2_compile_context_create(nullptr));
  CHECK(context != nullptr);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), kMaxNestedParentheses);
  uint32_t flags = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
  if (options.multiline) flags |= PCRE2_MULTILINE;
  if (options.whole_text) flags |= PCRE2_ANCHORED | PCRE2_ENDANCHORED;
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  Regex regex;
  regex.code_.reset(
      pcre2_compile(Bytes(pattern), pattern.size(), flags, &error, &error_offset, context.get()));
  if (regex.code_ == nullptr) {
    return InvalidArgument(
        StrCat("the pattern ", JsonQuote(pattern), " does not compile: ", ErrorText(error)));
  }
  // Where the JIT compiler is not available the interpreter gives the same matches.
  regex.has_jit_ = pcre2_jit_compile(regex.code_.get(), PCRE2_JIT_COMPLETE) == 0;
  regex.limits_.reset(pcre2_match_context_create(nullptr));
  CHECK(regex.limits_ != nullptr);
  pcre2_set_match_limit(regex.limits_.get(), options.max_steps);
  pcre2_set_heap_limit(regex.limits_.get(), kMaxHeapKiB);
  return regex;
}

Regex::Matcher::Matcher(const Regex& regex)
    : regex_(regex), data_(pcre2_match_data_create_from_pattern(regex.code_.get(), nullptr)) {
  CHECK(data_ != nullptr);
}

std::optional<Regex::Range> Regex::Matcher::Find(std::string_view subject, size_t from) {
  // The subject was validated once, by the caller; checking again would cost its length each time.
  const uint32_t options = PCRE2_NO_UTF_CHECK;
  const pcre2_code* code = regex_.code_.get();
  int rc = PCRE2_ERROR_JIT_STACKLIMIT;
  if (regex_.has_jit_) {
    rc = pcre2_jit_match(code, Bytes(subject), subject.size(), from, options, data_.get(),
                         regex_.limits_.get());
  }
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {  // deep backtracking: the interpreter uses the heap
    rc = pcre2_match(code, Bytes(subject), subject.size(), from, options | PCRE2_NO_JIT,
                     data_.get(), regex_.limits_.get());
  }
  exhausted_ = rc < 0 && rc != PCRE2_ERROR_NOMATCH;
  if (rc < 0) return std::nullopt;
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data_.get());
  if (ends[0] > ends[1]) return std::nullopt;  // \K in a lookahead
  return Range{ends[0], ends[1]};
}

}  // namespace aril
