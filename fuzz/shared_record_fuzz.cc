// The values of etcd that gateways share, on any text: what is taken is written as it was read.

#include <string>

#include "base/check.h"
#include "cluster/shared_records.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto row = aril::cluster::ReadRow(text); row.ok()) {
    const std::string written = ToText(*row);
    const auto again = aril::cluster::ReadRow(written);
    CHECK(again.ok());
    CHECK(ToText(*again) == written);
  }
  if (const auto generation = aril::cluster::ReadGeneration(text); generation.ok()) {
    const std::string written = ToText(*generation);
    const auto again = aril::cluster::ReadGeneration(written);
    CHECK(again.ok());
    CHECK(ToText(*again) == written);
  }
  return 0;
}
