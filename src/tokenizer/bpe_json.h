// The BPE model of Hugging Face files: the `model` of a tokenizer.json, or vocab.json + merges.txt.

#ifndef ARIL_TOKENIZER_BPE_JSON_H_
#define ARIL_TOKENIZER_BPE_JSON_H_

#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "tokenizer/bpe.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/vocabulary.h"

namespace aril {

struct BpeWithVocabulary {
  std::unique_ptr<Vocabulary> vocabulary;
  std::unique_ptr<BpeModel> model;  // refers to the vocabulary
};

// Reads a `model` object of type BPE. Unigram, WordPiece, WordLevel, subword prefixes and suffixes,
// and dropout are Unimplemented.
StatusOr<BpeWithVocabulary> ReadBpe(const JsonFields& fields);

// {"token": id, …}
StatusOr<std::unique_ptr<Vocabulary>> ReadVocabulary(const JsonFields& fields);

// Adds one merge; `where` names it in errors. Both halves and their concatenation must be tokens.
Status AddMerge(std::string_view left, std::string_view right, size_t rank,
                const std::string& where, const Vocabulary& vocabulary, BpeModel* model);

// Adds "left right".
Status AddMergeLine(std::string_view line, size_t rank, const std::string& where,
                    const Vocabulary& vocabulary, BpeModel* model);

}  // namespace aril

#endif  // ARIL_TOKENIZER_BPE_JSON_H_
