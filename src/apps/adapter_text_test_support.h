// What reads adapters' text in tests, where the base model's tokenizer does not matter.

#ifndef ARIL_APPS_ADAPTER_TEXT_TEST_SUPPORT_H_
#define ARIL_APPS_ADAPTER_TEXT_TEST_SUPPORT_H_

#include <memory>
#include <utility>

#include "apps/adapter_text.h"
#include "base/check.h"
#include "base/test_paths.h"
#include "tokenizer/tokenizer_folder.h"

namespace aril {

// The demo's tokenizer, of 1,024 tokens, with a chat template that says nothing, of a model with
// some to spare.
inline constexpr int64_t kVocabSize = 1100;
inline std::shared_ptr<const AdapterTextReader> MakeAdapterTextReader(
    int64_t vocab_size = kVocabSize) {
  auto tokenizer = LoadTokenizer(SourcePath("models/demo/base"));
  CHECK(tokenizer.ok());
  auto chat_template = ChatTemplate::Parse("base", {});
  CHECK(chat_template.ok());
  return std::make_shared<const AdapterTextReader>(
      *std::move(tokenizer), Json::Object(),
      std::make_shared<const gateway::ChatDialect>(*std::move(chat_template)), vocab_size);
}

}  // namespace aril

#endif  // ARIL_APPS_ADAPTER_TEXT_TEST_SUPPORT_H_
