#include "tokenizer/ranked_merges.h"

#include "base/utf8.h"

namespace aril {
namespace {

int32_t SymbolFor(std::string_view part, const std::function<int32_t(std::string_view)>& find,
                  BpeModel* model) {
  const int32_t id = find(part);
  if (id >= 0) return id;
  size_t pos = 0;
  const char32_t code_point = NextCodePoint(part, &pos);
  if (pos < part.size()) return id;  // several code points that are no token never come about
  const int32_t symbol = model->SymbolOf(code_point);
  return symbol >= 0 ? symbol : model->AddHidden(code_point);
}

}  // namespace

void AddSplitsOf(std::string_view token, int32_t id, uint32_t rank,
                 const std::function<int32_t(std::string_view)>& find, BpeModel* model) {
  size_t cut = 0;
  while (true) {
    NextCodePoint(token, &cut);
    if (cut == token.size()) return;
    const int32_t left = SymbolFor(token.substr(0, cut), find, model);
    if (left < 0) continue;
    const int32_t right = SymbolFor(token.substr(cut), find, model);
    if (right >= 0) model->AddMerge(left, right, rank, id);
  }
}

}  // namespace aril
