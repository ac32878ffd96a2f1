// For tests of families: config.json as published models have it, changed in one place.

#ifndef ARIL_SPEC_FAMILY_TEST_SUPPORT_H_
#define ARIL_SPEC_FAMILY_TEST_SUPPORT_H_

#include <string>

#include "base/json.h"
#include "gtest/gtest.h"

namespace aril {

// `text` with `from` replaced by `to`.
inline Json Parse(std::string text, const std::string& from = "", const std::string& to = "") {
  if (!from.empty()) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  }
  const auto json = Json::Parse(text);
  EXPECT_TRUE(json.ok()) << json.status();
  return *json;
}

}  // namespace aril

#endif  // ARIL_SPEC_FAMILY_TEST_SUPPORT_H_
