#include "tokenizer/protobuf_reader.h"

#include <bit>

#include "base/strings.h"

namespace aril {

float ProtobufField::AsFloat() const {
  return type == Type::kFixed32 ? std::bit_cast<float>(static_cast<uint32_t>(value)) : 0;
}

Status ProtobufReader::Malformed(const char* what) const {
  return InvalidArgument(
      StrCat("malformed protocol buffer: ", what, " at byte ", pos_, " of ", message_.size()));
}

StatusOr<uint64_t> ProtobufReader::ReadVarint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (pos_ == message_.size()) return Malformed("a number is cut off");
    const uint8_t byte = static_cast<uint8_t>(message_[pos_++]);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  return Malformed("a number has more than ten bytes");
}

StatusOr<uint64_t> ProtobufReader::ReadFixed(size_t size_bytes) {
  if (message_.size() - pos_ < size_bytes) return Malformed("a number is cut off");
  uint64_t value = 0;
  for (size_t i = 0; i < size_bytes; ++i) {
    value |= uint64_t{static_cast<uint8_t>(message_[pos_ + i])} << (8 * i);
  }
  pos_ += size_bytes;
  return value;
}

StatusOr<std::optional<ProtobufField>> ProtobufReader::Next() {
  if (pos_ == message_.size()) return std::optional<ProtobufField>();
  ASSIGN_OR_RETURN(const uint64_t tag, ReadVarint());
  ProtobufField field;
  if (tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF) return Malformed("no such field number");
  field.number = static_cast<uint32_t>(tag >> 3);
  switch (tag & 7) {
    case 0: {
      ASSIGN_OR_RETURN(field.value, ReadVarint());
      break;
    }
    case 1: {
      field.type = ProtobufField::Type::kFixed64;
      ASSIGN_OR_RETURN(field.value, ReadFixed(8));
      break;
    }
    case 2: {
      field.type = ProtobufField::Type::kBytes;
      ASSIGN_OR_RETURN(const uint64_t size_bytes, ReadVarint());
      if (size_bytes > message_.size() - pos_) return Malformed("a field is cut off");
      field.bytes = message_.substr(pos_, size_bytes);
      pos_ += size_bytes;
      break;
    }
    case 5: {
      field.type = ProtobufField::Type::kFixed32;
      ASSIGN_OR_RETURN(field.value, ReadFixed(4));
      break;
    }
    default:
      return Malformed("unknown wire type");
  }
  return std::optional<ProtobufField>(field);
}

}  // namespace aril
