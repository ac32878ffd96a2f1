#include "tokenizer/normalizer.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/pattern.h"
#include "tokenizer/unicode.h"

namespace aril {
namespace {

using NormalizerPtr = std::unique_ptr<Normalizer>;

class FormNormalizer : public Normalizer {
 public:
  explicit FormNormalizer(NormalForm form) : form_(form) {}
  std::string Normalize(std::string text, bool) const override { return ToNormalForm(text, form_); }

 private:
  const NormalForm form_;
};

class LowercaseNormalizer : public Normalizer {
 public:
  std::string Normalize(std::string text, bool) const override { return ToLowerCase(text); }
};

class StripAccentsNormalizer : public Normalizer {
 public:
  std::string Normalize(std::string text, bool) const override {
    std::string out;
    for (size_t pos = 0; pos < text.size();) {
      const char32_t c = NextCodePoint(text, &pos);
      if (!IsMark(c)) AppendUtf8(c, &out);
    }
    return out;
  }
};

class StripNormalizer : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}

  std::string Normalize(std::string text, bool) const override {
    size_t first = text.size();  // of the first and the end of the last that is not white space
    size_t end = 0;
    for (size_t pos = 0; pos < text.size();) {
      const size_t begin = pos;
      if (IsWhitespace(NextCodePoint(text, &pos))) continue;
      first = std::min(first, begin);
      end = pos;
    }
    if (end == 0) return left_ || right_ ? "" : text;
    if (!left_) first = 0;
    if (!right_) end = text.size();
    return text.substr(first, end - first);
  }

 private:
  const bool left_;
  const bool right_;
};

class ReplaceNormalizer : public Normalizer {
 public:
  ReplaceNormalizer(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  std::string Normalize(std::string text, bool) const override {
    std::string out;
    out.reserve(text.size() + text.size() / 4);
    for (const Stretch& stretch : Pattern::Finder(pattern_).Find(text)) {
      if (stretch.is_match) {
        out += content_;
      } else {
        out.append(text, stretch.begin, stretch.end - stretch.begin);
      }
    }
    return out;
  }

 private:
  const Pattern pattern_;
  const std::string content_;
};

class PrependNormalizer : public Normalizer {
 public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string Normalize(std::string text, bool) const override {
    return text.empty() ? text : prefix_ + text;
  }

 private:
  const std::string prefix_;
};

class ByteLevelNormalizer : public Normalizer {
 public:
  std::string Normalize(std::string text, bool) const override {
    std::string out;
    AppendInAlphabet(text, &out);
    return out;
  }
};

class SequenceNormalizer : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<NormalizerPtr> parts) : parts_(std::move(parts)) {}
  std::string Normalize(std::string text, bool starts_text) const override {
    for (const NormalizerPtr& part : parts_) text = part->Normalize(std::move(text), starts_text);
    return text;
  }

 private:
  const std::vector<NormalizerPtr> parts_;
};

std::optional<NormalForm> FormOf(const std::string& type) {
  if (type == "NFC") return NormalForm::kNfc;
  if (type == "NFD") return NormalForm::kNfd;
  if (type == "NFKC") return NormalForm::kNfkc;
  if (type == "NFKD") return NormalForm::kNfkd;
  return std::nullopt;
}

StatusOr<NormalizerPtr> ReadSequence(const JsonFields& fields) {
  ASSIGN_OR_RETURN(const Json::Array* list, fields.Array("normalizers"));
  std::vector<NormalizerPtr> parts;
  for (size_t i = 0; i < list->size(); ++i) {
    // The depth of the recursion is the depth of the JSON, which its parser bounds.
    ASSIGN_OR_RETURN(NormalizerPtr part,
                     ReadNormalizer((*list)[i], ElementPath(fields.PathOf("normalizers"), i)));
    parts.push_back(std::move(part));
  }
  return NormalizerPtr(new SequenceNormalizer(std::move(parts)));
}

StatusOr<NormalizerPtr> ReadReplace(const JsonFields& fields) {
  ASSIGN_OR_RETURN(Pattern pattern, Pattern::Read(fields, "pattern"));
  ASSIGN_OR_RETURN(std::string content, fields.String("content"));
  return NormalizerPtr(new ReplaceNormalizer(std::move(pattern), std::move(content)));
}

StatusOr<NormalizerPtr> ReadStrip(const JsonFields& fields) {
  ASSIGN_OR_RETURN(const bool left, fields.Bool("strip_left", false));
  ASSIGN_OR_RETURN(const bool right, fields.Bool("strip_right", false));
  return NormalizerPtr(new StripNormalizer(left, right));
}

}  // namespace

StatusOr<NormalizerPtr> ReadNormalizer(const Json& json, const std::string& where) {
  if (json.is_null()) return NormalizerPtr(new SequenceNormalizer({}));
  ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(json, where));
  ASSIGN_OR_RETURN(const std::string type, fields.String("type"));
  if (const auto form = FormOf(type)) return NormalizerPtr(new FormNormalizer(*form));
  if (type == "Sequence") return ReadSequence(fields);
  if (type == "Replace") return ReadReplace(fields);
  if (type == "Strip") return ReadStrip(fields);
  if (type == "Lowercase") return NormalizerPtr(new LowercaseNormalizer());
  if (type == "StripAccents") return NormalizerPtr(new StripAccentsNormalizer());
  if (type == "ByteLevel") return NormalizerPtr(new ByteLevelNormalizer());
  if (type == "Prepend") {
    ASSIGN_OR_RETURN(std::string prefix, fields.String("prepend"));
    return NormalizerPtr(new PrependNormalizer(std::move(prefix)));
  }
  return Unimplemented(StrCat(where, ": the normalizer ", JsonQuote(type), " is not implemented"));
}

}  // namespace aril
