#include "jinja/globals.h"

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "jinja/compare.h"
#include "jinja/iterate.h"
#include "jinja/namespace.h"
#include "jinja/print.h"
#include "jinja/runtime.h"
#include "jinja/strftime.h"

namespace aril::jinja {
namespace {

// The sandbox's MAX_RANGE.
constexpr int64_t kMaxRange = 100000;

StatusOr<int64_t> RangeLength(int64_t start, int64_t stop, int64_t step) {
  if (step == 0) return FailedPrecondition("range() arg 3 must not be zero");
  if (step > 0 ? start >= stop : start <= stop) return 0;
  // Unsigned, as the distance may be more than the largest integer.
  const auto low = static_cast<uint64_t>(step > 0 ? start : stop);
  const auto high = static_cast<uint64_t>(step > 0 ? stop : start);
  const uint64_t stride =
      step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  const uint64_t length = (high - low - 1) / stride + 1;
  if (length > static_cast<uint64_t>(kMaxRange)) {
    return FailedPrecondition(StrCat(
        "Range too big. The sandbox blocks ranges larger than MAX_RANGE (", kMaxRange, ")."));
  }
  return static_cast<int64_t>(length);
}

StatusOr<Value> MakeRange(Runtime* runtime, const Value&, const CallArguments& arguments) {
  for (size_t i = 0; i < 3; ++i) {
    if (arguments.Has(i) && arguments[i].is_none()) {
      return FailedPrecondition("'NoneType' object cannot be interpreted as an integer");
    }
  }
  ASSIGN_OR_RETURN(int64_t start, arguments.Int(0, 0));
  ASSIGN_OR_RETURN(int64_t stop, arguments.Int(1, start));
  ASSIGN_OR_RETURN(const int64_t step, arguments.Int(2, 1));
  if (!arguments.Has(1)) start = 0;
  ASSIGN_OR_RETURN(const int64_t length, RangeLength(start, stop, step));
  return runtime->NewObject(std::make_shared<Range>(start, stop, step, length));
}

// What dict() and namespace() accept: a dict or pairs, then keywords.
StatusOr<Dict::Entries> CollectEntries(Runtime* runtime, const Arguments& arguments) {
  if (arguments.positional.size() > 1) {
    return FailedPrecondition(
        StrCat("dict expected at most 1 argument, got ", arguments.positional.size()));
  }
  Dict::Entries entries;
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (const Dict* dict = source.AsDict()) {
      RETURN_IF_ERROR(
          runtime->budget().ChargeBytes(dict->entries.size(), sizeof(Dict::Entries::value_type)));
      entries = dict->entries;
    } else {
      ASSIGN_OR_RETURN(const std::vector<Value> pairs, ToVector(runtime, source));
      for (const Value& pair : pairs) {
        ASSIGN_OR_RETURN(std::vector<Value> items, ToVector(runtime, pair));
        if (items.size() != 2) {
          return FailedPrecondition(StrCat("dictionary update sequence element has length ",
                                           items.size(), "; 2 is required"));
        }
        RETURN_IF_ERROR(SetKey(runtime, std::move(items[0]), std::move(items[1]), &entries));
      }
    }
  }
  for (const auto& [name, value] : arguments.keyword) {
    ASSIGN_OR_RETURN(Value key, runtime->NewString(name));
    RETURN_IF_ERROR(SetKey(runtime, std::move(key), value, &entries));
  }
  return entries;
}

StatusOr<Value> MakeDict(Runtime* runtime, const Value&, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(Dict::Entries entries, CollectEntries(runtime, arguments.rest()));
  return runtime->NewDict(std::move(entries));
}

StatusOr<Value> MakeNamespace(Runtime* runtime, const Value&, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const Dict::Entries entries, CollectEntries(runtime, arguments.rest()));
  const auto made = std::make_shared<Namespace>();
  runtime->Adopt(made);
  for (const auto& [key, value] : entries) {
    // A key that is no name cannot be read again.
    if (key.AsString() == nullptr) continue;
    RETURN_IF_ERROR(made->Set(runtime, key.AsString()->text, value));
  }
  return runtime->NewObject(made);
}

StatusOr<Value> MakeCycler(Runtime* runtime, const Value&, const CallArguments& arguments) {
  if (arguments.rest().positional.empty() || !arguments.rest().keyword.empty()) {
    return FailedPrecondition("at least one item has to be provided");
  }
  return runtime->NewObject(std::make_shared<Cycler>(arguments.rest().positional));
}

StatusOr<Value> MakeJoiner(Runtime* runtime, const Value&, const CallArguments& arguments) {
  Value separator = arguments.Has(0) ? arguments[0] : Value::UnchargedString(", ");
  return runtime->NewObject(std::make_shared<Joiner>(std::move(separator)));
}

StatusOr<Value> RaiseException(Runtime* runtime, const Value&, const CallArguments& arguments) {
  std::string message;
  RETURN_IF_ERROR(AppendStr(runtime, arguments[0], &message));
  return InvalidArgument(message);
}

StatusOr<Value> StrftimeNow(Runtime* runtime, const Value&, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string_view format, arguments.Text(0));
  // The longest that a directive of two bytes prints.
  RETURN_IF_ERROR(runtime->budget().ChargeBytes(format.size(), 50));
  ASSIGN_OR_RETURN(std::string text, Strftime(format, runtime->now_unix_seconds()));
  return runtime->NewString(std::move(text));
}

constexpr std::array kGlobals = {
    Function{"range", MakeRange, {"start", "stop", "step"}, 1},
    Function{.name = "dict", .body = MakeDict, .is_variadic = true},
    Function{.name = "namespace", .body = MakeNamespace, .is_variadic = true},
    Function{.name = "cycler", .body = MakeCycler, .is_variadic = true},
    Function{"joiner", MakeJoiner, {"sep"}},
    Function{"raise_exception", RaiseException, {"message"}, 1},
    Function{"strftime_now", StrftimeNow, {"format"}, 1},
};

}  // namespace

const Function* FindGlobal(std::string_view name) {
  for (const Function& function : kGlobals) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

}  // namespace aril::jinja
