#include "tokenizer/post_processor.h"

#include <algorithm>

#include "base/strings.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/json_fields.h"

namespace aril {
namespace {

Status TooMany(const std::string& where) {
  return InvalidArgument(StrCat(where, " has more than ", kMaxTokensAround, " items"));
}

// special_tokens: {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}
Status AppendTemplateToken(const JsonFields& special_tokens, const std::string& name,
                           std::vector<int32_t>* ids) {
  ASSIGN_OR_RETURN(const JsonFields token, special_tokens.Object(name));
  ASSIGN_OR_RETURN(const Json::Array* list, token.Array("ids"));
  if (ids->size() + list->size() > kMaxTokensAround) return TooMany(token.PathOf("ids"));
  for (size_t i = 0; i < list->size(); ++i) {
    ASSIGN_OR_RETURN(const int32_t id,
                     ReadTokenId((*list)[i], ElementPath(token.PathOf("ids"), i)));
    ids->push_back(id);
  }
  return OkStatus();
}

// single: [{"SpecialToken": {"id": "<s>", …}}, {"Sequence": {"id": "A", …}}, …]
StatusOr<PostProcessor> ReadTemplate(const JsonFields& fields) {
  ASSIGN_OR_RETURN(const Json::Array* single, fields.Array("single"));
  if (single->size() > kMaxTokensAround) return TooMany(fields.PathOf("single"));
  PostProcessor result;
  int num_texts = 0;
  for (size_t i = 0; i < single->size(); ++i) {
    ASSIGN_OR_RETURN(const JsonFields item,
                     JsonFields::Of((*single)[i], ElementPath(fields.PathOf("single"), i)));
    if (item.Has("Sequence")) {
      ++num_texts;
      continue;
    }
    ASSIGN_OR_RETURN(const JsonFields special, item.Object("SpecialToken"));
    ASSIGN_OR_RETURN(const std::string name, special.String("id"));
    ASSIGN_OR_RETURN(const JsonFields tokens, fields.Object("special_tokens"));
    RETURN_IF_ERROR(
        AppendTemplateToken(tokens, name, num_texts == 0 ? &result.prefix : &result.suffix));
  }
  if (num_texts != 1) {
    return Unimplemented(StrCat(fields.PathOf("single"), " has the text ", num_texts,
                                " times; only once is implemented"));
  }
  return result;
}

// cls: ["<s>", 0], sep: ["</s>", 2]
StatusOr<int32_t> ReadNamedId(const JsonFields& fields, std::string_view key) {
  ASSIGN_OR_RETURN(const Json::Array* pair, fields.Array(key));
  if (pair->size() != 2) {
    return InvalidArgument(StrCat(fields.PathOf(key), " must be [token, id]"));
  }
  return ReadTokenId((*pair)[1], ElementPath(fields.PathOf(key), 1));
}

StatusOr<PostProcessor> ReadBert(const JsonFields& fields) {
  ASSIGN_OR_RETURN(const int32_t cls, ReadNamedId(fields, "cls"));
  ASSIGN_OR_RETURN(const int32_t sep, ReadNamedId(fields, "sep"));
  return PostProcessor{.prefix = {cls}, .suffix = {sep}};
}

// Each processor works on what the one before it made.
StatusOr<PostProcessor> ReadSequence(const JsonFields& fields) {
  ASSIGN_OR_RETURN(const Json::Array* list, fields.Array("processors"));
  if (list->size() > kMaxTokensAround) return TooMany(fields.PathOf("processors"));
  PostProcessor result;
  for (size_t i = 0; i < list->size(); ++i) {
    // The depth of the recursion is the depth of the JSON, which its parser bounds.
    ASSIGN_OR_RETURN(const PostProcessor outer,
                     ReadPostProcessor((*list)[i], ElementPath(fields.PathOf("processors"), i)));
    result.prefix.insert(result.prefix.begin(), outer.prefix.begin(), outer.prefix.end());
    result.suffix.insert(result.suffix.end(), outer.suffix.begin(), outer.suffix.end());
    if (std::max(result.prefix.size(), result.suffix.size()) > kMaxTokensAround) {
      return TooMany(fields.PathOf("processors"));
    }
  }
  return result;
}

}  // namespace

StatusOr<PostProcessor> ReadPostProcessor(const Json& json, const std::string& where) {
  if (json.is_null()) return PostProcessor{};
  ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(json, where));
  ASSIGN_OR_RETURN(const std::string type, fields.String("type"));
  if (type == "ByteLevel") return PostProcessor{};
  if (type == "TemplateProcessing") return ReadTemplate(fields);
  if (type == "BertProcessing" || type == "RobertaProcessing") return ReadBert(fields);
  if (type == "Sequence") return ReadSequence(fields);
  return Unimplemented(
      StrCat(where, ": the post-processor ", JsonQuote(type), " is not implemented"));
}

}  // namespace aril
