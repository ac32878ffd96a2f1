#include "jinja/iterate.h"

#include "base/strings.h"
#include "base/utf8.h"
#include "jinja/print.h"
#include "jinja/runtime.h"

namespace aril::jinja {
namespace {

using MaybeValue = std::optional<Value>;

class EmptyIterator final : public Iterator {
  StatusOr<MaybeValue> Produce(Runtime*) override { return MaybeValue(); }
};

class SequenceIterator final : public Iterator {
 public:
  explicit SequenceIterator(Value sequence) : sequence_(std::move(sequence)) {}

 private:
  StatusOr<MaybeValue> Produce(Runtime*) override {
    const auto& items = sequence_.AsSequence()->items;
    return pos_ < items.size() ? MaybeValue(items[pos_++]) : MaybeValue();
  }

  const Value sequence_;
  size_t pos_ = 0;
};

class StringIterator final : public Iterator {
 public:
  explicit StringIterator(Value string) : string_(std::move(string)) {}

 private:
  StatusOr<MaybeValue> Produce(Runtime* runtime) override {
    const std::string& text = string_.AsString()->text;
    if (pos_ == text.size()) return MaybeValue();
    const size_t begin = pos_;
    NextCodePoint(text, &pos_);
    ASSIGN_OR_RETURN(Value c, runtime->NewString(text.substr(begin, pos_ - begin)));
    return MaybeValue(std::move(c));
  }

  const Value string_;
  size_t pos_ = 0;
};

class DictIterator final : public Iterator {
 public:
  DictIterator(Value dict, DictView::Kind kind) : dict_(std::move(dict)), kind_(kind) {}

 private:
  StatusOr<MaybeValue> Produce(Runtime* runtime) override {
    const Dict::Entries& entries = dict_.AsDict()->entries;
    if (pos_ == entries.size()) return MaybeValue();
    const auto& [key, value] = entries[pos_++];
    if (kind_ == DictView::Kind::kKeys) return MaybeValue(key);
    if (kind_ == DictView::Kind::kValues) return MaybeValue(value);
    ASSIGN_OR_RETURN(Value item, runtime->NewTuple({key, value}));
    return MaybeValue(std::move(item));
  }

  const Value dict_;
  const DictView::Kind kind_;
  size_t pos_ = 0;
};

class RangeIterator final : public Iterator {
 public:
  explicit RangeIterator(std::shared_ptr<const Range> range) : range_(std::move(range)) {}

 private:
  StatusOr<MaybeValue> Produce(Runtime*) override {
    return pos_ < *range_->Length() ? MaybeValue(Value(range_->At(pos_++))) : MaybeValue();
  }

  const std::shared_ptr<const Range> range_;
  int64_t pos_ = 0;
};

}  // namespace

// Goes on where others have left the generator.
class GeneratorIterator final : public Iterator {
 public:
  explicit GeneratorIterator(std::shared_ptr<const Generator> generator)
      : generator_(std::move(generator)) {}

 private:
  StatusOr<MaybeValue> Produce(Runtime* runtime) override {
    return generator_->iterator_->Next(runtime);
  }

  const std::shared_ptr<const Generator> generator_;
};

IteratorPtr Iterate(const Value& value) {
  if (value.AsSequence() != nullptr) return std::make_unique<SequenceIterator>(value);
  if (value.AsString() != nullptr) return std::make_unique<StringIterator>(value);
  if (value.AsDict() != nullptr) {
    return std::make_unique<DictIterator>(value, DictView::Kind::kKeys);
  }
  if (Object* object = value.AsObject()) return object->Iterate();
  if (value.is_undefined()) return std::make_unique<EmptyIterator>();
  return nullptr;
}

StatusOr<IteratorPtr> IterateOrFail(const Value& value) {
  IteratorPtr iterator = Iterate(value);
  if (iterator != nullptr) return iterator;
  return FailedPrecondition(StrCat("'", value.TypeName(), "' object is not iterable"));
}

StatusOr<std::vector<Value>> ToVector(Runtime* runtime, const Value& value) {
  ASSIGN_OR_RETURN(const IteratorPtr iterator, IterateOrFail(value));
  std::vector<Value> items;
  while (true) {
    ASSIGN_OR_RETURN(MaybeValue item, iterator->Next(runtime));
    if (!item) return items;
    RETURN_IF_ERROR(runtime->budget().ChargeBytes(sizeof(Value)));
    items.push_back(*std::move(item));
  }
}

std::optional<int64_t> Length(const Value& value) {
  if (const String* s = value.AsString()) return static_cast<int64_t>(s->length);
  if (const Sequence* s = value.AsSequence()) return static_cast<int64_t>(s->items.size());
  if (const Dict* d = value.AsDict()) return static_cast<int64_t>(d->entries.size());
  if (const Object* o = value.AsObject()) return o->Length();
  if (value.is_undefined()) return 0;
  return std::nullopt;
}

IteratorPtr Generator::Iterate() {
  return std::make_unique<GeneratorIterator>(
      std::static_pointer_cast<const Generator>(shared_from_this()));
}

std::string DictView::TypeName() const {
  if (kind_ == Kind::kKeys) return "dict_keys";
  return kind_ == Kind::kValues ? "dict_values" : "dict_items";
}

Status DictView::AppendRepr(Runtime* runtime, int level, std::string* out) {
  ASSIGN_OR_RETURN(std::vector<Value> items, ToVector(runtime, Value(shared_from_this())));
  ASSIGN_OR_RETURN(const Value list, runtime->NewList(std::move(items)));
  RETURN_IF_ERROR(AppendText(runtime, TypeName() + "(", out));
  RETURN_IF_ERROR(jinja::AppendRepr(runtime, list, level + 1, out));
  return AppendText(runtime, ")", out);
}

std::optional<int64_t> DictView::Length() const { return jinja::Length(dict_); }

IteratorPtr DictView::Iterate() { return std::make_unique<DictIterator>(dict_, kind_); }

Status Range::AppendRepr(Runtime* runtime, int, std::string* out) {
  const std::string step = step_ == 1 ? "" : StrCat(", ", step_);
  return AppendText(runtime, StrCat("range(", start_, ", ", stop_, step, ")"), out);
}

StatusOr<std::optional<Value>> Range::GetItem(Runtime*, const Value& key) {
  int64_t index = 0;
  if (!key.AsIntegral(&index)) return MaybeValue();
  if (index < 0) index += length_;
  return index >= 0 && index < length_ ? MaybeValue(Value(At(index))) : MaybeValue();
}

IteratorPtr Range::Iterate() {
  return std::make_unique<RangeIterator>(std::static_pointer_cast<const Range>(shared_from_this()));
}

bool Range::EqualTo(const Object& other) const {
  const auto* range = dynamic_cast<const Range*>(&other);
  if (range == nullptr || range->length_ != length_) return false;
  return length_ == 0 || (range->start_ == start_ && (length_ == 1 || range->step_ == step_));
}

}  // namespace aril::jinja
