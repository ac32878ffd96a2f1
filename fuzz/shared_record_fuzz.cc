// The values of etcd that gateways share, on any text: what is taken is written as it was read.

#include <string>

#include "base/check.h"
#include "cluster/shared_records.h"

using aril::cluster::ReadGeneration;
using aril::cluster::ReadRow;
using aril::cluster::ToText;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto row = ReadRow(text); row.ok()) {
    const std::string written = ToText(*row);
    const auto again = ReadRow(written);
    CHECK(again.ok());
    CHECK(ToText(*again) == written);
  }
  if (const auto generation = ReadGeneration(text); generation.ok()) {
    const std::string written = ToText(*generation);
    const auto again = ReadGeneration(written);
    CHECK(again.ok());
    CHECK(ToText(*again) == written);
  }
  return 0;
}
