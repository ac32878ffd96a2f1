#include "spec/module_tensors.h"

#include <algorithm>

#include "base/json.h"
#include "base/strings.h"

namespace aril {

std::string ModuleTensors::Quoted(std::string_view part) const {
  return JsonQuote(StrCat(module_, part));
}

Status ModuleTensors::OtherShape(std::string_view part, const TensorView& found,
                                 const std::string& expected) const {
  return InvalidArgument(StrCat("tensor ", Quoted(part), " has shape ", ToString(found.shape),
                                ", expected ", expected));
}

const TensorView* ModuleTensors::Find(std::string_view part) const {
  const auto found = tensors_.find(StrCat(module_, part));
  return found == tensors_.end() ? nullptr : &found->second;
}

StatusOr<TensorView> ModuleTensors::Take(std::string_view part, const std::vector<DType>& dtypes) {
  const auto found = tensors_.find(StrCat(module_, part));
  if (found == tensors_.end()) {
    return InvalidArgument(StrCat("tensor ", Quoted(part), " is missing beside ", Quoted(main_)));
  }
  TensorView tensor = found->second;
  if (std::ranges::find(dtypes, tensor.dtype) == dtypes.end()) {
    return InvalidArgument(StrCat("tensor ", Quoted(part), " has dtype ", tensor.dtype,
                                  ", expected ", Join(dtypes, " or ")));
  }
  tensors_.erase(found);
  return tensor;
}

StatusOr<TensorView> ModuleTensors::Take(std::string_view part, const std::vector<DType>& dtypes,
                                         const Shape& shape, const std::string& more) {
  ASSIGN_OR_RETURN(TensorView tensor, Take(part, dtypes));
  if (tensor.shape == shape) return tensor;
  return OtherShape(part, tensor, StrCat(ToString(shape), " as of ", Quoted(main_), more));
}

std::vector<std::string> ModulesWith(std::string_view part, const TensorMap& tensors) {
  std::vector<std::string> modules;
  for (const auto& [name, tensor] : tensors) {
    if (name.ends_with(part)) modules.push_back(name.substr(0, name.size() - part.size()));
  }
  return modules;
}

}  // namespace aril
