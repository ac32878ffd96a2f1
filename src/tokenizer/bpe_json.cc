#include "tokenizer/bpe_json.h"

#include "base/strings.h"

namespace aril {
namespace {

// sentencepiece's space; see BpeModel::CutBefore.
constexpr char32_t kLowerOneEighthBlock = 0x2581;

Status RefuseOtherModels(const JsonFields& fields) {
  ASSIGN_OR_RETURN(const auto type, fields.OptionalString("type"));
  // Files from before the type was written are BPE if they have merges.
  if (type.value_or(fields.Has("merges") ? "BPE" : "") != "BPE") {
    return Unimplemented(StrCat(fields.PathOf("type"), ": the model ",
                                JsonQuote(type.value_or("(none)")), " is not implemented"));
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    ASSIGN_OR_RETURN(const auto affix, fields.OptionalString(key));
    if (!affix.value_or("").empty()) {
      return Unimplemented(StrCat(fields.PathOf(key), ": ", JsonQuote(*affix),
                                  " is not implemented; only an empty one is"));
    }
  }
  const Json* dropout = fields.Find("dropout");
  double probability = 0;
  if (dropout != nullptr && !dropout->AsNumber(&probability)) {
    return fields.WrongType("dropout", *dropout, "a number");
  }
  if (probability != 0) {
    return Unimplemented(StrCat(fields.PathOf("dropout"), " is ", probability,
                                "; random tokenization is not implemented"));
  }
  return OkStatus();
}

StatusOr<BpeOptions> ReadOptions(const JsonFields& fields, const Vocabulary& vocabulary) {
  BpeOptions options;
  ASSIGN_OR_RETURN(options.fuse_unk, fields.Bool("fuse_unk", false));
  ASSIGN_OR_RETURN(options.byte_fallback, fields.Bool("byte_fallback", false));
  ASSIGN_OR_RETURN(options.ignore_merges, fields.Bool("ignore_merges", false));
  ASSIGN_OR_RETURN(const auto unk_token, fields.OptionalString("unk_token"));
  if (unk_token) {
    options.unk_id = vocabulary.Find(*unk_token);
    if (!options.unk_id) {
      return InvalidArgument(StrCat(fields.PathOf("unk_token"), " is ", JsonQuote(*unk_token),
                                    ", which the vocabulary does not have"));
    }
  }
  return options;
}

Status ReadMerges(const JsonFields& fields, const Vocabulary& vocabulary, BpeModel* model) {
  ASSIGN_OR_RETURN(const Json::Array* merges, fields.Array("merges"));
  const std::string path = fields.PathOf("merges");
  model->ReserveMerges(merges->size());
  for (size_t rank = 0; rank < merges->size(); ++rank) {
    const Json& merge = (*merges)[rank];
    const Json::Array* pair = merge.AsArray();
    if (const std::string* line = merge.AsString()) {
      RETURN_IF_ERROR(AddMergeLine(*line, rank, path, vocabulary, model));
    } else if (pair != nullptr && pair->size() == 2 && (*pair)[0].AsString() != nullptr &&
               (*pair)[1].AsString() != nullptr) {
      RETURN_IF_ERROR(
          AddMerge(*(*pair)[0].AsString(), *(*pair)[1].AsString(), rank, path, vocabulary, model));
    } else {
      return InvalidArgument(
          StrCat(ElementPath(path, rank), R"( must be "left right" or ["left", "right"])"));
    }
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<Vocabulary>> ReadVocabulary(const JsonFields& fields) {
  auto vocabulary = std::make_unique<Vocabulary>();
  for (const auto& [token, id] : fields.members()) {
    if (id.AsInt() == nullptr) return fields.WrongType(token, id, "a token id");
    if (Status added = vocabulary->Add(token, *id.AsInt()); !added.ok()) {
      return Annotate(added, fields.where());
    }
  }
  return vocabulary;
}

Status AddMerge(std::string_view left, std::string_view right, size_t rank,
                const std::string& where, const Vocabulary& vocabulary, BpeModel* model) {
  const auto left_id = vocabulary.Find(left);
  const auto right_id = vocabulary.Find(right);
  const auto merged_id = vocabulary.Find(std::string(left).append(right));
  if (!left_id || !right_id || !merged_id) {
    return InvalidArgument(StrCat(ElementPath(where, rank), " merges ", JsonQuote(left), " and ",
                                  JsonQuote(right), ", but the vocabulary has no token ",
                                  JsonQuote(!left_id    ? std::string(left)
                                            : !right_id ? std::string(right)
                                                        : std::string(left).append(right))));
  }
  model->AddMerge(*left_id, *right_id, static_cast<uint32_t>(rank), *merged_id);
  return OkStatus();
}

Status AddMergeLine(std::string_view line, size_t rank, const std::string& where,
                    const Vocabulary& vocabulary, BpeModel* model) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
    return InvalidArgument(StrCat(ElementPath(where, rank), " is ", JsonQuote(line.substr(0, 100)),
                                  ", not two tokens with one space between"));
  }
  return AddMerge(line.substr(0, space), line.substr(space + 1), rank, where, vocabulary, model);
}

StatusOr<BpeWithVocabulary> ReadBpe(const JsonFields& fields) {
  RETURN_IF_ERROR(RefuseOtherModels(fields));
  BpeWithVocabulary result;
  ASSIGN_OR_RETURN(const JsonFields vocab, fields.Object("vocab"));
  ASSIGN_OR_RETURN(result.vocabulary, ReadVocabulary(vocab));
  ASSIGN_OR_RETURN(const BpeOptions options, ReadOptions(fields, *result.vocabulary));
  result.model = std::make_unique<BpeModel>(options, result.vocabulary.get());
  RETURN_IF_ERROR(ReadMerges(fields, *result.vocabulary, result.model.get()));
  result.model->CutBefore(kLowerOneEighthBlock);
  return result;
}

}  // namespace aril
