// What a sentencepiece `tokenizer.model` file holds, as plain structs.
// Source: github.com/google/sentencepiece, src/sentencepiece_model.proto (field numbers, defaults).

#ifndef ARIL_TOKENIZER_SENTENCEPIECE_PROTO_H_
#define ARIL_TOKENIZER_SENTENCEPIECE_PROTO_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace aril {

struct SentencePiece {
  enum class Type {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6,
  };
  std::string piece;
  float score = 0;
  Type type = Type::kNormal;
};

struct SentencePieceProto {
  enum class ModelType { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };

  std::vector<SentencePiece> pieces;  // the index is the id

  // trainer_spec
  ModelType model_type = ModelType::kUnigram;
  bool treat_whitespace_as_suffix = false;
  bool byte_fallback = false;
  std::string unk_surface = " \xE2\x81\x87 ";
  std::string bos_piece = "<s>";
  std::string eos_piece = "</s>";

  // normalizer_spec
  std::string precompiled_charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;

  // denormalizer_spec
  bool has_denormalizer = false;
};

// InvalidArgument if `file` is no such protocol buffer.
StatusOr<SentencePieceProto> ParseSentencePieceProto(std::string_view file);

}  // namespace aril

#endif  // ARIL_TOKENIZER_SENTENCEPIECE_PROTO_H_
