// Reads the wire format of protocol buffers, enough for sentencepiece's model files.
// Source: protobuf.dev/programming-guides/encoding.

#ifndef ARIL_TOKENIZER_PROTOBUF_READER_H_
#define ARIL_TOKENIZER_PROTOBUF_READER_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/status.h"

namespace aril {

// One field of a message. Which member counts depends on its wire type.
struct ProtobufField {
  enum class Type { kVarint, kFixed64, kBytes, kFixed32 };
  uint32_t number = 0;
  Type type = Type::kVarint;
  uint64_t value = 0;      // varint, fixed64 or fixed32
  std::string_view bytes;  // a string, bytes or a message; points into the message read

  bool AsBool() const { return value != 0; }
  // A float field; 0 if it is not of wire type fixed32.
  float AsFloat() const;
};

// Walks over the fields of one message, in the order of the file. Messages inside are read by a
// reader of their own.
class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view message) : message_(message) {}

  // The next field, nullopt at the end. InvalidArgument, with the offset within this message, if it
  // is cut off or malformed; groups, long deprecated, count as malformed.
  StatusOr<std::optional<ProtobufField>> Next();

 private:
  StatusOr<uint64_t> ReadVarint();
  StatusOr<uint64_t> ReadFixed(size_t size_bytes);
  Status Malformed(const char* what) const;

  std::string_view message_;
  size_t pos_ = 0;
};

}  // namespace aril

#endif  // ARIL_TOKENIZER_PROTOBUF_READER_H_
