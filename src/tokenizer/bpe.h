// Byte pair encoding: a word becomes symbols, one per code point, and the neighbours of lowest rank
// merge, the leftmost first among equals, until none can.
//
// One algorithm serves all three kinds of files: Hugging Face's list of merges (rank: place in the
// list), sentencepiece's scores (every split of a piece merges, ranked by the piece's score) and
// tiktoken's ranks (the same, ranked by the token's rank).

#ifndef ARIL_TOKENIZER_BPE_H_
#define ARIL_TOKENIZER_BPE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "tokenizer/merge_table.h"
#include "tokenizer/prefix_matcher.h"
#include "tokenizer/vocabulary.h"

namespace aril {

struct BpeOptions {
  // What a code point outside of the vocabulary becomes. Without it, and without byte fallback,
  // such code points vanish, as they do in the reference.
  std::optional<int32_t> unk_id;
  bool fuse_unk = false;       // neighbouring unknown code points give one unk_id
  bool byte_fallback = false;  // unknown code points become the tokens <0x00> … <0xFF>
  bool ignore_merges = false;  // a word that is a token is not merged at all
};

class BpeModel {
 public:
  // Working memory of one thread; reused between words.
  struct Scratch {
    struct Symbol {
      int32_t id;
      int32_t previous;             // index, or -1
      int32_t next;                 // index, or -1
      MergeTable::Merge with_next;  // merged: -1 if these two do not merge
    };
    std::vector<Symbol> symbols;
    std::vector<uint64_t> queue;  // a min-heap of rank << 32 | index of the left symbol
  };

  // `vocabulary` outlives the model. What is added to it later never comes out of encoding.
  BpeModel(const BpeOptions& options, const Vocabulary* vocabulary);

  // The symbols `left` and `right` merge into the token `merged`.
  void AddMerge(int32_t left, int32_t right, uint32_t rank, int32_t merged) {
    merges_.Add(left, right, {rank, merged});
  }
  void ReserveMerges(size_t count) { merges_.Reserve(count); }

  // A symbol for a code point that is no token but part of one: sentencepiece merges it when its
  // neighbours allow, and treats it as unknown when they do not. Returns its symbol.
  int32_t AddHidden(char32_t code_point);

  // The symbol of a code point, or -1.
  int32_t SymbolOf(char32_t code_point) const;

  // Words that always stand for themselves and never merge (sentencepiece's user-defined pieces).
  void SetUnmergeable(PrefixMatcher words) { unmergeable_ = std::move(words); }

  // If `code_point` is a token and no merge joins it to a different one before it, texts are from
  // now on merged word by word, each word beginning with it: the same result, but from a queue that
  // fits the cache. Call after the last AddMerge.
  void CutBefore(char32_t code_point);

  // Appends the ids of `word` (valid UTF-8) to `*ids`. O(n log n) in the length of the word.
  void Encode(std::string_view word, Scratch* scratch, std::vector<int32_t>* ids) const;

 private:
  void EncodeMergeable(std::string_view text, Scratch* scratch, std::vector<int32_t>* ids) const;
  void EncodePiece(std::string_view text, Scratch* scratch, std::vector<int32_t>* ids) const;
  void Split(std::string_view text, Scratch* scratch) const;
  void Merge(Scratch* scratch) const;
  void Join(int32_t left, Scratch* scratch) const;
  void Offer(int32_t left, Scratch* scratch) const;
  void Emit(const Scratch& scratch, std::vector<int32_t>* ids) const;
  template <typename Sink>
  void ForEachUnknownId(std::string_view code_point, const Sink& sink) const;

  const BpeOptions options_;
  const Vocabulary* const vocabulary_;
  const int32_t num_words_;  // ids that count for ignore_merges
  MergeTable merges_;
  // The symbol of each code point of the basic multilingual plane, or -1; and of the others.
  std::vector<int32_t> symbol_of_bmp_;
  std::unordered_map<char32_t, int32_t> symbol_of_others_;
  std::array<int32_t, 256> byte_tokens_;  // -1 where there is none
  // Hidden symbols count from here, beyond every token.
  const int32_t first_hidden_;
  std::vector<std::string> hidden_;  // their code points in UTF-8
  PrefixMatcher unmergeable_;
  std::string word_start_;  // see CutBefore; empty: none
};

}  // namespace aril

#endif  // ARIL_TOKENIZER_BPE_H_
