// A text on its way through the pre-tokenizers: one buffer, cut into pieces.

#ifndef ARIL_TOKENIZER_PIECES_H_
#define ARIL_TOKENIZER_PIECES_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace aril {

// What a pre-tokenizer does with the matches of its pattern; the names of tokenizer.json.
enum class SplitBehavior {
  kRemoved,             // "a--b" by "-": a, b
  kIsolated,            // a, -, -, b
  kMergedWithPrevious,  // a-, -, b
  kMergedWithNext,      // a, -, -b
  kContiguous,          // a, --, b
};

// A match of a pattern, or what lies between two.
struct Stretch {
  size_t begin;
  size_t end;
  bool is_match;
};

// Applies a behavior to the stretches of one text, which follow one another without gap: merges
// them, drops what is removed. (The rules of tokenizers/src/tokenizer/normalizer.rs, `split`.)
std::vector<Stretch> ApplyBehavior(SplitBehavior behavior, std::vector<Stretch> stretches);

class Pieces {
 public:
  // Never empty.
  struct Piece {
    size_t begin;
    size_t end;
  };

  // One piece, or none if `text` is empty. `starts_text`: it begins what the user wrote.
  Pieces(std::string text, bool starts_text);

  const std::vector<Piece>& pieces() const { return pieces_; }
  std::string_view View(const Piece& piece) const {
    return std::string_view(text_).substr(piece.begin, piece.end - piece.begin);
  }

  // Cuts every piece: `find(view)` returns its stretches.
  template <typename Find>
  void Split(SplitBehavior behavior, const Find& find) {
    std::vector<Piece> cut;
    for (const Piece& piece : pieces_) {
      for (const Stretch& part : ApplyBehavior(behavior, find(View(piece)))) {
        if (part.begin < part.end)
          cut.push_back({piece.begin + part.begin, piece.begin + part.end});
      }
    }
    pieces_ = std::move(cut);
  }

  // Replaces the text of every piece: `rewrite(view, starts_text, &out)` appends what it becomes.
  template <typename Rewriter>
  void Rewrite(const Rewriter& rewrite) {
    std::string text;
    text.reserve(text_.size() + text_.size() / 4);
    bool starts_text = false;
    std::vector<Piece> rewritten;
    rewritten.reserve(pieces_.size());
    for (const Piece& piece : pieces_) {
      const size_t begin = text.size();
      const bool starts = starts_text_ && piece.begin == 0;
      rewrite(View(piece), starts, &text);
      if (text.size() == begin) continue;
      rewritten.push_back({begin, text.size()});
      starts_text = starts_text || starts;
    }
    text_ = std::move(text);
    pieces_ = std::move(rewritten);
    starts_text_ = starts_text;
  }

 private:
  std::string text_;
  std::vector<Piece> pieces_;
  bool starts_text_;  // the buffer begins where the user's text does
};

}  // namespace aril

#endif  // ARIL_TOKENIZER_PIECES_H_
