// A compiled regular expression over valid UTF-8, on PCRE2 with its JIT compiler.

#ifndef ARIL_BASE_REGEX_H_
#define ARIL_BASE_REGEX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;

namespace aril {

// Immutable and thread-safe; every thread brings its own Matcher.
class Regex {
 public:
  struct Range {
    size_t begin;
    size_t end;
  };

  struct Options {
    bool multiline = false;   // ^ and $ match at lines, too
    bool whole_text = false;  // a match must be all of the subject (Python's re.fullmatch)
    // One search may backtrack this often, by default about a second of work.
    uint32_t max_steps = 20'000'000;
  };

  // `pattern` in PCRE2's syntax; classes (\w, \d, …) are Unicode's. Patterns come from model and
  // adapter files; at most kMaxPatternBytes.
  static StatusOr<Regex> Compile(std::string_view pattern, const Options& options);
  static constexpr size_t kMaxPatternBytes = 1 << 16;

  Regex(Regex&&) = default;
  Regex& operator=(Regex&&) = default;

  // Working memory for one thread; the regex must outlive it.
  class Matcher {
   public:
    explicit Matcher(const Regex& regex);

    // The first match in `subject` (valid UTF-8) at or after `from`, which is at a code point;
    // lookbehind sees what stands before. A search that exceeds max_steps, or the memory limit of
    // regex.cc, counts as no match and shows in exhausted().
    std::optional<Range> Find(std::string_view subject, size_t from);

    // True if the last search was given up.
    bool exhausted() const { return exhausted_; }

   private:
    struct Deleter {
      void operator()(pcre2_real_match_data_8* data) const;
    };
    const Regex& regex_;
    std::unique_ptr<pcre2_real_match_data_8, Deleter> data_;
    bool exhausted_ = false;
  };

 private:
  struct Deleter {
    void operator()(pcre2_real_code_8* code) const;
    void operator()(pcre2_real_match_context_8* context) const;
  };

  Regex() = default;

  std::unique_ptr<pcre2_real_code_8, Deleter> code_;
  std::unique_ptr<pcre2_real_match_context_8, Deleter> limits_;
  bool has_jit_ = false;
};

}  // namespace aril

#endif  // ARIL_BASE_REGEX_H_
