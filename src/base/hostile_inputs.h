// For tests: what attackers write where a name or a path is expected, built from tables.

#ifndef ARIL_BASE_HOSTILE_INPUTS_H_
#define ARIL_BASE_HOSTILE_INPUTS_H_

#include <string>
#include <vector>

#include "base/strings.h"

namespace aril {

// The way to the `depth`th parent folder and from there to `target`, in all spellings that one or
// the other decoder takes for "../".
inline std::vector<std::string> HostileTraversals(int depth, const std::string& target) {
  std::vector<std::string> result;
  for (const char* dots : {"..", "%2e%2e", "%2E.", "%252e%252e", "%c0%ae%c0%ae",  // overlong
                           "\xC0\xAE\xC0\xAE", "\xE0\x80\xAE\xE0\x80\xAE",
                           "\uFF0E\uFF0E",  // full width
                           "....", ".. ", "..;"}) {
    for (const char* slash : {"/", "//", "/./", "\\", "%2f", "%252F", "%5c", "%c0%af", "\xC0\xAF",
                              "\u2215", "\uFF0F"}) {  // division slash, full width
      std::string path;
      for (int i = 0; i < depth; ++i) path += StrCat(dots, slash);
      result.push_back(path + target);
    }
  }
  return result;
}

// What makes a server fetch for others: every scheme with every way to write a host that only the
// server reaches.
inline std::vector<std::string> HostileUrls() {
  std::vector<std::string> result;
  for (const char* scheme :
       {"http://",     "https://",         "HTTP://",   "ftp://",    "file://", "s3://",  "gs://",
        "hf://",       "hdfs://",          "gopher://", "dict://",   "ldap://", "smb://", "unix://",
        "jar:http://", "data:text/plain,", "http:/",    "http:\\\\", "//",      "\\\\"}) {
    for (const char* host :
         {"169.254.169.254", "2852039166", "0xA9FEA9FE", "0251.0376.0251.0376", "169.254.43518",
          "[::1]", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "localhost", "127.1", "0",
          "good.example@169.254.169.254", "169.254.169.254#@good.example", "u:p@localhost:22",
          "metadata.google.internal.", "\u2460\u2461\u2466.\u24EA.\u24EA.\u2460", ""}) {
      result.push_back(StrCat(scheme, host, "/latest/meta-data"));
    }
  }
  return result;
}

// Strings that are no path and no URL, and that some program on the way may take for more than
// text.
inline std::vector<std::string> HostileStrings() {
  std::vector<std::string> result = {
      "",
      " ",
      "a b",
      " a",
      "a ",
      "a,b",
      "a;b",
      "a=b",
      "a\"b",
      "a'b",
      "a`id`",
      "$(id)",
      "${HOME}",
      "~",
      "~root",
      "-rf",
      "--help",
      "*",
      "a?",
      "[a]",
      "{a,b}",
      "a|b",
      "a&b",
      "a<b>",
      "%",
      "%s%n",
      "%zz",
      "a%00.b",
      "{{7*7}}",
      "{0.__class__}",
      "a\r\nSet-Cookie: b",
      "a\n00:00:00.000 I adapter b is loaded",
      "a\",\"source\":\"b",
      "' OR '1'='1",
      "a'; DROP TABLE adapters; --",
      "a\" UNION SELECT * FROM adapters --",
      "<script>alert(1)</script>",
      "a\"} 1\naril_fake{model=\"b",  // of metrics
      "C:\\Windows\\win.ini",
      "\\\\?\\C:\\a",
      "CON ",
      "NUL:$DATA*",
      "COM1\\a",
      "a::$INDEX_ALLOCATION~",
      "b\u0430se",         // Cyrillic a
      "\uFF41",            // full-width a
      "ba\u017Fe",         // long s, which folds to s
      "\u212Aa",           // Kelvin sign, which folds to k
      "a\u200Bb",          // zero-width space
      "a\u00ADb",          // soft hyphen
      "\u202Ea",           // right to left from here
      "e\u0301",           // combining accent
      "\uFEFFa",           // byte order mark
      "\xED\xA0\x80",      // surrogate in UTF-8
      "\xF4\x90\x80\x80",  // beyond Unicode
      "\xC1\xA1",          // overlong a
      "a\x80",
      "\xFF\xFE\x61",
      "\xE2\x82",
  };
  for (char c = 0; c < ' '; ++c) result.push_back(StrCat("a", c, "b"));
  result.push_back("a\x7F");
  for (const size_t size : {129, 256, 4096, 5000}) {
    result.push_back(std::string(size, 'a'));
    result.push_back("a" + std::string(size, '/') + ".");
  }
  return result;
}

}  // namespace aril

#endif  // ARIL_BASE_HOSTILE_INPUTS_H_
