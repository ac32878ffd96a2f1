#include "tokenizer/sentencepiece_proto.h"

#include <cmath>

#include "base/json.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "tokenizer/protobuf_reader.h"
#include "tokenizer/vocabulary.h"

namespace aril {
namespace {

// Calls `visit(field)` for each field of a message, until one returns an error.
template <typename Visit>
Status ForEachField(std::string_view message, const Visit& visit) {
  ProtobufReader reader(message);
  while (true) {
    ASSIGN_OR_RETURN(const auto field, reader.Next());
    if (!field) return OkStatus();
    RETURN_IF_ERROR(visit(*field));
  }
}

Status CheckPiece(const SentencePiece& piece) {
  if (piece.piece.empty()) return InvalidArgument("the piece is empty");
  if (!IsValidUtf8(piece.piece)) return InvalidArgument("the piece is not valid UTF-8");
  if (std::isnan(piece.score)) return InvalidArgument("the score is not a number");
  return OkStatus();
}

StatusOr<SentencePiece> ParsePiece(std::string_view message) {
  SentencePiece piece;
  RETURN_IF_ERROR(ForEachField(message, [&](const ProtobufField& field) {
    if (field.number == 1) piece.piece = std::string(field.bytes);
    if (field.number == 2) piece.score = field.AsFloat();
    if (field.number == 3) {
      if (field.value < 1 || field.value > 6) {
        return InvalidArgument(StrCat("there is no piece type ", field.value));
      }
      piece.type = static_cast<SentencePiece::Type>(field.value);
    }
    return OkStatus();
  }));
  RETURN_IF_ERROR(CheckPiece(piece));
  return piece;
}

Status ParseTrainerSpec(std::string_view message, SentencePieceProto* proto) {
  return ForEachField(message, [proto](const ProtobufField& field) {
    if (field.number == 3) {
      if (field.value < 1 || field.value > 4) {
        return InvalidArgument(StrCat("there is no model_type ", field.value));
      }
      proto->model_type = static_cast<SentencePieceProto::ModelType>(field.value);
    }
    if (field.number == 24) proto->treat_whitespace_as_suffix = field.AsBool();
    if (field.number == 35) proto->byte_fallback = field.AsBool();
    if (field.number == 44) proto->unk_surface = std::string(field.bytes);
    if (field.number == 46) proto->bos_piece = std::string(field.bytes);
    if (field.number == 47) proto->eos_piece = std::string(field.bytes);
    return OkStatus();
  });
}

Status ParseNormalizerSpec(std::string_view message, SentencePieceProto* proto) {
  return ForEachField(message, [proto](const ProtobufField& field) {
    if (field.number == 2) proto->precompiled_charsmap = std::string(field.bytes);
    if (field.number == 3) proto->add_dummy_prefix = field.AsBool();
    if (field.number == 4) proto->remove_extra_whitespaces = field.AsBool();
    if (field.number == 5) proto->escape_whitespaces = field.AsBool();
    return OkStatus();
  });
}

Status ParseDenormalizerSpec(std::string_view message, SentencePieceProto* proto) {
  return ForEachField(message, [proto](const ProtobufField& field) {
    if (field.number == 2 && !field.bytes.empty()) proto->has_denormalizer = true;
    return OkStatus();
  });
}

Status ParseField(const ProtobufField& field, SentencePieceProto* proto) {
  switch (field.number) {
    case 1: {
      const size_t id = proto->pieces.size();
      if (id == static_cast<size_t>(Vocabulary::kMaxIds)) {
        return InvalidArgument(StrCat("more than ", Vocabulary::kMaxIds, " pieces"));
      }
      auto piece = ParsePiece(field.bytes);
      if (!piece.ok()) return Annotate(piece.status(), StrCat("pieces[", id, "]"));
      proto->pieces.push_back(*std::move(piece));
      return OkStatus();
    }
    case 2:
      return Annotate(ParseTrainerSpec(field.bytes, proto), "trainer_spec");
    case 3:
      return Annotate(ParseNormalizerSpec(field.bytes, proto), "normalizer_spec");
    case 5:
      return Annotate(ParseDenormalizerSpec(field.bytes, proto), "denormalizer_spec");
    default:
      return OkStatus();
  }
}

}  // namespace

StatusOr<SentencePieceProto> ParseSentencePieceProto(std::string_view file) {
  SentencePieceProto proto;
  RETURN_IF_ERROR(
      ForEachField(file, [&](const ProtobufField& field) { return ParseField(field, &proto); }));
  if (proto.pieces.empty()) return InvalidArgument("there are no pieces");
  return proto;
}

}  // namespace aril
