// Sources of the formats: AutoGPTQ (nn_modules/qlinear), AutoAWQ (modules/linear/gemm.py),
// compressed-tensors (compressors/pack_quantized).

#include "spec/int4_checkpoint.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/json.h"
#include "base/strings.h"
#include "spec/module_tensors.h"

namespace aril {
namespace {

using Layout = Int4View::Layout;

constexpr int64_t kPerWord = 8;
constexpr int64_t kMaxDim = int64_t{1} << 30;  // products of two fit int64

// What a module's tensors are called, after its name.
struct Parts {
  std::string_view words;
  std::string_view scales;
  std::string_view zeros;
  std::string_view order;  // the group of each input
  std::string_view shape;  // of the matrix; empty: not said
};

Parts PartsOf(Layout layout) {
  if (layout == Layout::kCompressed) {
    return {".weight_packed", ".weight_scale", ".weight_zero_point", ".weight_g_idx",
            ".weight_shape"};
  }
  return {".qweight", ".scales", ".qzeros", ".g_idx", ""};
}

// Takes one module's tensors.
class ModuleReader {
 public:
  ModuleReader(const Int4Spec& spec, const std::string& module, TensorMap* tensors)
      : spec_(spec), parts_(PartsOf(spec.layout)), tensors_(module, parts_.words, tensors) {}

  StatusOr<Int4View> Read() {
    Int4View view{.layout = spec_.layout, .zero_addend = spec_.zeros_less_one ? 0x11111111u : 0};
    ASSIGN_OR_RETURN(view.words, tensors_.Take(parts_.words, {DType::kI32}));
    if (view.words.shape.size() != 2)
      return tensors_.OtherShape(parts_.words, view.words, "a matrix");
    RETURN_IF_ERROR(ReadSize(&view));
    const int64_t n = view.rows, groups = view.groups();
    const bool is_by_output = spec_.layout == Layout::kCompressed;
    const Shape scales = is_by_output ? Shape{n, groups} : Shape{groups, n};
    ASSIGN_OR_RETURN(view.scales,
                     Take(parts_.scales, {DType::kF16, DType::kBF16, DType::kF32}, scales));
    RETURN_IF_ERROR(ReadZeros(&view));
    RETURN_IF_ERROR(ReadOrder(&view));
    return view;
  }

 private:
  StatusOr<TensorView> Take(std::string_view part, const std::vector<DType>& dtypes,
                            const Shape& shape) {
    const std::string groups = spec_.group_size ? StrCat(*spec_.group_size) : "all inputs";
    return tensors_.Take(part, dtypes, shape, " with groups of " + groups);
  }

  Status ReadSize(Int4View* view) {
    const int64_t first = view->words.shape[0], second = view->words.shape[1];
    if (first <= 0 || second <= 0 || std::max(first, second) > kMaxDim / kPerWord) {
      return tensors_.OtherShape(parts_.words, view->words, "a matrix of a model's size");
    }
    switch (spec_.layout) {
      case Layout::kGptq:
        view->cols = first * kPerWord;
        view->rows = second;
        break;
      case Layout::kAwq:
        view->cols = first;
        view->rows = second * kPerWord;
        break;
      case Layout::kCompressed:
        ASSIGN_OR_RETURN(const TensorView shape,
                         Take(parts_.shape, {DType::kI64, DType::kI32}, {2}));
        view->rows = IntegerAt(shape, 0);
        view->cols = IntegerAt(shape, 1);
        if (view->rows != first || view->cols <= 0 || view->cols > kMaxDim ||
            CeilDiv(view->cols, kPerWord) != second) {
          return tensors_.OtherShape(
              parts_.words, view->words,
              StrCat("that of ", tensors_.Quoted(parts_.shape), ", [", view->rows, ", ", view->cols,
                     "], with ", kPerWord, " inputs in one"));
        }
        break;
    }
    view->group_size = spec_.group_size.value_or(view->cols);
    return OkStatus();
  }

  Status ReadZeros(Int4View* view) {
    if (!spec_.has_zeros && tensors_.Find(parts_.zeros) == nullptr) return OkStatus();
    const int64_t n = view->rows, groups = view->groups();
    if (spec_.layout != Layout::kCompressed) {
      ASSIGN_OR_RETURN(view->zeros,
                       Take(parts_.zeros, {DType::kI32}, {groups, CeilDiv(n, kPerWord)}));
      return spec_.zeros_less_one && !spec_.zeros_borrow ? CheckNoneBorrows(*view) : OkStatus();
    }
    const TensorView* const zeros = tensors_.Find(parts_.zeros);
    const bool is_packed = zeros == nullptr || zeros->dtype != DType::kI8;
    ASSIGN_OR_RETURN(view->zeros,
                     Take(parts_.zeros, {DType::kI32, DType::kI8},
                          is_packed ? Shape{CeilDiv(n, kPerWord), groups} : Shape{n, groups}));
    return is_packed ? OkStatus() : CheckBytesFit(*view);
  }

  // Of 0 less 1, some programs write −1 as 15 and spoil those above it, others borrow from the
  // next; and what reads 15 takes it for 16, for 0, or for a carry.
  Status CheckNoneBorrows(const Int4View& view) const {
    Int4View stored = view;
    stored.zero_addend = 0;
    for (int64_t row = 0; row < view.rows; ++row) {
      for (int64_t group = 0; group < view.groups(); ++group) {
        if (stored.Zero(row, group) != 15) continue;
        return Unimplemented(StrCat(
            "tensor ", tensors_.Quoted(parts_.zeros), " has 15 for output ", row,
            ", a zero point less 1 that programs take for different ones; save the model with ",
            R"("checkpoint_format": "gptq_v2")"));
      }
    }
    return OkStatus();
  }

  Status CheckBytesFit(const Int4View& view) const {
    for (int64_t row = 0; row < view.rows; ++row) {
      for (int64_t group = 0; group < view.groups(); ++group) {
        const int zero = view.Zero(row, group);
        if (zero >= 0 && zero <= 15) continue;
        return InvalidArgument(StrCat("tensor ", tensors_.Quoted(parts_.zeros),
                                      " has the zero point ", zero - 8, " for output ", row,
                                      ", expected -8 to 7"));
      }
    }
    return OkStatus();
  }

  // An order that puts neighbours into a group is as good as none.
  Status ReadOrder(Int4View* view) {
    if (!spec_.has_order && tensors_.Find(parts_.order) == nullptr) return OkStatus();
    ASSIGN_OR_RETURN(view->order, Take(parts_.order, {DType::kI32, DType::kI64}, {view->cols}));
    if (IsUnset(view->order)) {
      view->order = {};
      return OkStatus();
    }
    std::vector<int64_t> sizes(static_cast<size_t>(view->groups()));
    bool are_neighbours = true;
    for (int64_t input = 0; input < view->cols; ++input) {
      const int64_t group = view->GroupOf(input);
      if (group < 0 || group >= view->groups()) return NoGroup(input, group, "there is none");
      if (++sizes[static_cast<size_t>(group)] > view->GroupSize(group)) {
        return NoGroup(input, group, StrCat("it has ", view->GroupSize(group), " already"));
      }
      are_neighbours &= group == input / view->group_size;
    }
    if (are_neighbours) view->order = {};
    return OkStatus();
  }

  // compressed-tensors: −1 for each where no order was made.
  bool IsUnset(const TensorView& order) const {
    if (spec_.layout != Layout::kCompressed) return false;
    for (int64_t input = 0; input < order.shape[0]; ++input) {
      if (IntegerAt(order, input) != -1) return false;
    }
    return true;
  }

  Status NoGroup(int64_t input, int64_t group, const std::string& why) const {
    return InvalidArgument(StrCat("tensor ", tensors_.Quoted(parts_.order), " says that input ",
                                  input, " is of group ", group, ", but ", why));
  }

  const Int4Spec& spec_;
  const Parts parts_;
  ModuleTensors tensors_;
};

}  // namespace

StatusOr<Int4Map> TakeInt4Matrices(const Int4Spec& spec, TensorMap* tensors) {
  const std::string_view words = PartsOf(spec.layout).words;
  Int4Map matrices;
  for (const std::string& module : ModulesWith(words, *tensors)) {
    ASSIGN_OR_RETURN(Int4View view, ModuleReader(spec, module, tensors).Read());
    std::string name = module + ".weight";
    if (tensors->contains(name)) {
      return InvalidArgument(StrCat("tensor ", JsonQuote(module + std::string(words)),
                                    " stands for ", JsonQuote(name),
                                    ", which is there without it, too"));
    }
    matrices.emplace(std::move(name), std::move(view));
  }
  return matrices;
}

}  // namespace aril
