// What one render shares: the budget, the time, and the making of values.

#ifndef ARIL_JINJA_RUNTIME_H_
#define ARIL_JINJA_RUNTIME_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "jinja/budget.h"
#include "jinja/value.h"

namespace aril::jinja {

class Namespace;

class Runtime {
 public:
  Runtime(const RenderLimits& limits, int64_t now_unix_seconds)
      : budget_(limits), now_unix_seconds_(now_unix_seconds) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime();

  Budget& budget() { return budget_; }
  int64_t now_unix_seconds() const { return now_unix_seconds_; }

  // New values. What may grow beyond its sources is charged by its maker before it is built; these
  // charge what they are given, so that every value is paid for at least once.
  StatusOr<Value> NewString(std::string text);
  StatusOr<Value> NewList(std::vector<Value> items);
  StatusOr<Value> NewTuple(std::vector<Value> items);
  StatusOr<Value> NewGroup(Value grouper, Value list);
  // `entries` have unique keys.
  StatusOr<Value> NewDict(Dict::Entries entries);
  StatusOr<Value> NewObject(std::shared_ptr<Object> object);
  StatusOr<Value> FromJson(const Json& json);

  // Namespaces may refer to themselves; all are emptied when the render ends.
  void Adopt(std::shared_ptr<Namespace> name_space);

 private:
  StatusOr<Value> NewSequence(std::vector<Value> items, Sequence::Kind kind);
  StatusOr<Value> NewArray(const Json::Array& array);
  StatusOr<Value> NewDictFrom(const Json::Object& object);

  Budget budget_;
  const int64_t now_unix_seconds_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

}  // namespace aril::jinja

#endif  // ARIL_JINJA_RUNTIME_H_
