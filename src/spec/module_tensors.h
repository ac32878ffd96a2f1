// The tensors that a quantized module consists of, as they are taken out of a checkpoint's.

#ifndef ARIL_SPEC_MODULE_TENSORS_H_
#define ARIL_SPEC_MODULE_TENSORS_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tensor/safetensors.h"

namespace aril {

// Of one module. Errors are InvalidArgument, and name the tensor. Not thread-safe; the arguments
// must outlive it.
class ModuleTensors {
 public:
  // `main`: the part beside which others are missing, if they are.
  ModuleTensors(const std::string& module, std::string_view main, TensorMap* tensors)
      : module_(module), main_(main), tensors_(*tensors) {}

  const TensorView* Find(std::string_view part) const;
  // Takes a part, which must be there and of one of these types; and of this shape, which follows
  // from the main part's (and from what `more` says of it).
  StatusOr<TensorView> Take(std::string_view part, const std::vector<DType>& dtypes);
  StatusOr<TensorView> Take(std::string_view part, const std::vector<DType>& dtypes,
                            const Shape& shape, const std::string& more = "");

  std::string Quoted(std::string_view part) const;
  Status OtherShape(std::string_view part, const TensorView& found,
                    const std::string& expected) const;

 private:
  const std::string& module_;
  const std::string_view main_;
  TensorMap& tensors_;
};

// The names of the modules that have a tensor called after them, and so.
std::vector<std::string> ModulesWith(std::string_view part, const TensorMap& tensors);

}  // namespace aril

#endif  // ARIL_SPEC_MODULE_TENSORS_H_
