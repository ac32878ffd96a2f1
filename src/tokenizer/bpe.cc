#include "tokenizer/bpe.h"

#include <algorithm>
#include <cstdio>
#include <functional>

#include "base/check.h"
#include "base/utf8.h"

namespace aril {
namespace {

constexpr int32_t kNone = -1;
constexpr char32_t kBmpEnd = 0x10000;

// `text` as one code point, if it is exactly one.
std::optional<char32_t> SingleCodePoint(std::string_view text) {
  if (text.empty() || text.size() > 4) return std::nullopt;
  const Utf8Unit unit = ReadUtf8(text, 0);
  if (unit.kind != Utf8Unit::Kind::kValid || unit.size_bytes != text.size()) return std::nullopt;
  return unit.code_point;
}

std::array<int32_t, 256> FindByteTokens(const Vocabulary& vocabulary) {
  std::array<int32_t, 256> tokens;
  for (unsigned byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", byte);
    tokens[byte] = vocabulary.Find(name).value_or(kNone);
  }
  return tokens;
}

}  // namespace

BpeModel::BpeModel(const BpeOptions& options, const Vocabulary* vocabulary)
    : options_(options),
      vocabulary_(vocabulary),
      num_words_(static_cast<int32_t>(vocabulary->size())),
      symbol_of_bmp_(kBmpEnd, kNone),
      byte_tokens_(FindByteTokens(*vocabulary)),
      first_hidden_(static_cast<int32_t>(Vocabulary::kMaxIds)) {
  for (int32_t id = 0; id < vocabulary->size(); ++id) {
    const std::string* token = vocabulary->Token(id);
    const auto code_point = token ? SingleCodePoint(*token) : std::nullopt;
    if (!code_point) continue;
    (*code_point < kBmpEnd ? symbol_of_bmp_[*code_point] : symbol_of_others_[*code_point]) = id;
  }
}

int32_t BpeModel::SymbolOf(char32_t code_point) const {
  if (code_point < kBmpEnd) return symbol_of_bmp_[code_point];
  const auto entry = symbol_of_others_.find(code_point);
  return entry == symbol_of_others_.end() ? kNone : entry->second;
}

int32_t BpeModel::AddHidden(char32_t code_point) {
  const int32_t symbol = first_hidden_ + static_cast<int32_t>(hidden_.size());
  AppendUtf8(code_point, &hidden_.emplace_back());
  (code_point < kBmpEnd ? symbol_of_bmp_[code_point] : symbol_of_others_[code_point]) = symbol;
  return symbol;
}

void BpeModel::CutBefore(char32_t code_point) {
  const int32_t symbol = SymbolOf(code_point);
  if (symbol == kNone || symbol >= first_hidden_) return;
  std::string start;
  AppendUtf8(code_point, &start);
  bool joined = false;
  merges_.ForEach([&](const MergeTable::Merge& merge) {
    const std::string_view token = *vocabulary_->Token(merge.merged);
    size_t content = 0;
    while (token.substr(content).starts_with(start)) content += start.size();
    joined = joined || token.find(start, content) != std::string_view::npos;
  });
  if (!joined) word_start_ = start;
}

void BpeModel::Encode(std::string_view word, Scratch* scratch, std::vector<int32_t>* ids) const {
  if (options_.ignore_merges) {
    if (const auto id = vocabulary_->Find(word); id && *id < num_words_) {
      ids->push_back(*id);
      return;
    }
  }
  size_t begin = 0;
  if (!unmergeable_.empty()) {
    for (size_t pos = 0; pos < word.size();) {
      const PrefixMatcher::Match match = unmergeable_.LongestAt(word, pos);
      if (match.size_bytes == 0) {
        NextCodePoint(word, &pos);
        continue;
      }
      EncodeMergeable(word.substr(begin, pos - begin), scratch, ids);
      ids->push_back(match.value);
      pos += match.size_bytes;
      begin = pos;
    }
  }
  EncodeMergeable(word.substr(begin), scratch, ids);
}

// Cuts before each run of word starts: within a run ("▁▁▁▁") pieces may well join.
void BpeModel::EncodeMergeable(std::string_view text, Scratch* scratch,
                               std::vector<int32_t>* ids) const {
  size_t begin = 0;
  while (!word_start_.empty() && begin < text.size()) {
    size_t content = begin;
    while (text.substr(content).starts_with(word_start_)) content += word_start_.size();
    const size_t end = text.find(word_start_, content);
    if (end == std::string_view::npos) break;
    EncodePiece(text.substr(begin, end - begin), scratch, ids);
    begin = end;
  }
  EncodePiece(text.substr(begin), scratch, ids);
}

void BpeModel::EncodePiece(std::string_view text, Scratch* scratch,
                           std::vector<int32_t>* ids) const {
  Split(text, scratch);
  Merge(scratch);
  Emit(*scratch, ids);
}

template <typename Sink>
void BpeModel::ForEachUnknownId(std::string_view code_point, const Sink& sink) const {
  const auto token_of = [this](char c) { return byte_tokens_[static_cast<uint8_t>(c)]; };
  if (options_.byte_fallback && std::all_of(code_point.begin(), code_point.end(),
                                            [&](char c) { return token_of(c) != kNone; })) {
    for (const char c : code_point) sink(token_of(c));
  } else if (options_.unk_id) {
    sink(*options_.unk_id);
  }
}

void BpeModel::Split(std::string_view text, Scratch* scratch) const {
  auto& symbols = scratch->symbols;
  symbols.clear();
  const auto add = [&symbols](int32_t id) {
    const int32_t index = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, index - 1, index + 1, {0, kNone}});
  };
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const int32_t symbol = SymbolOf(NextCodePoint(text, &pos));
    if (symbol != kNone) {
      add(symbol);
    } else {
      ForEachUnknownId(text.substr(begin, pos - begin), add);
    }
  }
  if (!symbols.empty()) symbols.back().next = kNone;
}

// Looks up whether the symbol at `left` merges with the one after it, and queues the pair if so.
void BpeModel::Offer(int32_t left, Scratch* scratch) const {
  auto& symbol = scratch->symbols[left];
  symbol.with_next.merged = kNone;
  if (symbol.next == kNone) return;
  const auto* merge = merges_.Find(symbol.id, scratch->symbols[symbol.next].id);
  if (merge == nullptr) return;
  symbol.with_next = *merge;
  scratch->queue.push_back(uint64_t{merge->rank} << 32 | static_cast<uint32_t>(left));
}

void BpeModel::Merge(Scratch* scratch) const {
  auto& queue = scratch->queue;
  queue.clear();
  const int32_t num_symbols = static_cast<int32_t>(scratch->symbols.size());
  for (int32_t i = 0; i < num_symbols; ++i) Offer(i, scratch);
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const uint64_t top = queue.back();
    queue.pop_back();
    const int32_t left = static_cast<int32_t>(top & 0xFFFFFFFF);
    const MergeTable::Merge merge = scratch->symbols[left].with_next;
    // An entry is stale if either symbol has merged with another since it was queued.
    if (merge.merged == kNone || merge.rank != top >> 32) continue;
    Join(left, scratch);
  }
}

// Replaces the symbol at `left` and its next by what they merge into, and queues the new pairs.
void BpeModel::Join(int32_t left, Scratch* scratch) const {
  auto& symbols = scratch->symbols;
  auto& queue = scratch->queue;
  auto& symbol = symbols[left];
  auto& right = symbols[symbol.next];
  symbol.id = symbol.with_next.merged;
  symbol.next = right.next;
  if (right.next != kNone) symbols[right.next].previous = left;
  right.with_next.merged = kNone;
  for (const int32_t changed : {symbol.previous, left}) {
    if (changed == kNone) continue;
    const size_t size = queue.size();
    Offer(changed, scratch);
    if (queue.size() > size) std::push_heap(queue.begin(), queue.end(), std::greater<>());
  }
}

void BpeModel::Emit(const Scratch& scratch, std::vector<int32_t>* ids) const {
  bool after_unknown = false;
  const auto emit = [&](int32_t id) {
    const bool unknown = options_.unk_id == id;
    if (!(unknown && after_unknown && options_.fuse_unk)) ids->push_back(id);
    after_unknown = unknown;
  };
  if (scratch.symbols.empty()) return;
  for (int32_t i = 0; i != kNone; i = scratch.symbols[i].next) {
    const int32_t id = scratch.symbols[i].id;
    if (id < first_hidden_) {
      emit(id);
    } else {
      ForEachUnknownId(hidden_[id - first_hidden_], emit);
    }
  }
}

}  // namespace aril
