// Texts as protobuf takes them, for the conversions of codec_bodies.h.

#ifndef ARIL_CLUSTER_FIELD_WRITER_H_
#define ARIL_CLUSTER_FIELD_WRITER_H_

#include <string>
#include <string_view>

#include "base/utf8.h"

namespace aril::cluster {

// Every text of a frame goes through one of these: a frame with one that is not UTF-8 is read by
// nobody. Names of tenants and adapters, sources, and what errors quote come from outside.
inline std::string WireText(std::string_view text) { return LossyUtf8(text); }

// For people, who get the beginning of what is longer than `max` bytes.
inline std::string WireText(std::string_view text, size_t max) {
  std::string valid = LossyUtf8(text);
  if (valid.size() <= max) return valid;
  valid.resize(max);
  valid.resize(max - TruncatedTailBytes(valid));
  return valid;
}

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_FIELD_WRITER_H_
