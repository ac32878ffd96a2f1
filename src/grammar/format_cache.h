// The automata of the formats that were asked for last.

#ifndef ARIL_GRAMMAR_FORMAT_CACHE_H_
#define ARIL_GRAMMAR_FORMAT_CACHE_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/status.h"
#include "grammar/token_automaton.h"
#include "grammar/token_table.h"
#include "wire/output_format.h"

namespace aril::grammar {

// Thread-safe; what it returns is not (TokenAutomaton).
class FormatCache {
 public:
  // Formats that are kept, used or not: when another one comes, what is too many and not used goes.
  static constexpr size_t kMaxKept = 32;

  // Null: there is no vocabulary, and every format is refused.
  explicit FormatCache(std::shared_ptr<const TokenTable> table,
                       std::shared_ptr<FormatMemory> memory = std::make_shared<FormatMemory>())
      : table_(std::move(table)), memory_(std::move(memory)) {}

  // The errors of Compile; FailedPrecondition without a vocabulary; Unavailable while those in use
  // leave no room for its grammar.
  StatusOr<std::shared_ptr<TokenAutomaton>> Get(const wire::OutputFormat& format);

 private:
  struct Entry {
    wire::OutputFormat format;
    std::shared_ptr<TokenAutomaton> automaton;
  };

  // All that are not used, unless so few are kept.
  void DropUnused(size_t max_kept);

  const std::shared_ptr<const TokenTable> table_;
  const std::shared_ptr<FormatMemory> memory_;
  std::mutex mutex_;
  std::vector<Entry> entries_;  // the one used last at the end
};

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_FORMAT_CACHE_H_
