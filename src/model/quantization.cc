#include "model/quantization.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "base/log.h"
#include "base/strings.h"
#include "kernels/gemm/gemm_tile.h"
#include "tensor/nf4.h"

namespace aril {

std::string_view Name(Quantization quantization) {
  switch (quantization) {
    case Quantization::kNone:
      return "none";
    case Quantization::kInt8:
      return "int8";
    case Quantization::kInt4:
      return "int4";
    case Quantization::kNf4:
      return "nf4";
  }
  return "";
}

void RoundLayers(const ModelSpec& spec, Quantization quantization, Checkpoint* checkpoint) {
  if (quantization != Quantization::kNf4) return;
  TensorMap tensors = checkpoint->tensors();
  MatrixMap quantized = checkpoint->matrices();
  const auto round = [&](const std::vector<MatrixPart>& parts) {
    for (const MatrixPart& part : parts) {
      const std::string name = part.module + ".weight";
      const auto numbers = tensors.find(name);
      if (numbers == tensors.end() || !checkpoint->Get(name, numbers->second.shape).ok() ||
          numbers->second.shape.size() != 2) {
        continue;
      }
      quantized.emplace(name, Codebook4View::Nf4Of(numbers->second));
      tensors.erase(numbers);
    }
  };
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    for (const ProjectionGroup group : ProjectionGroupsOf(spec, layer)) {
      round(PartsOf(spec, layer, group));
    }
  }
  checkpoint->ShowAs(std::move(tensors), std::move(quantized));
}

namespace {

// What has numbers is rounded to, if anything.
std::optional<kernels::WeightFormat> RoundedFormat(MatrixRole role, Quantization quantization) {
  using kernels::WeightFormat;
  if (role == MatrixRole::kLayer && quantization == Quantization::kInt8) return WeightFormat::kInt8;
  if (role == MatrixRole::kLayer && quantization == Quantization::kInt4) return WeightFormat::kInt4;
  const bool is_head_in_bytes = quantization == Quantization::kInt4;
  if (role == MatrixRole::kLmHead && is_head_in_bytes) return WeightFormat::kInt8;
  return std::nullopt;
}

}  // namespace

kernels::WeightFormat FormatFor(MatrixRole role, DType dtype, Quantization quantization) {
  if (role == MatrixRole::kLayer && quantization == Quantization::kNf4) {
    return kernels::WeightFormat::kCodebook4;
  }
  return RoundedFormat(role, quantization).value_or(kernels::FormatOf(dtype));
}

std::optional<kernels::WeightFormat> QuantizedFormatOf(
    MatrixRole role, const std::vector<std::vector<WeightView>>& matrices,
    Quantization quantization) {
  using kernels::WeightFormat;
  const bool rounds_to_bytes = role == MatrixRole::kLayer && quantization == Quantization::kInt8;
  if (!rounds_to_bytes) {
    if (std::ranges::all_of(matrices, kernels::AreInt4)) return WeightFormat::kInt4;
    if (std::ranges::all_of(matrices, kernels::AreFloat8)) return WeightFormat::kFloat8;
    for (const WeightFormat codes : {WeightFormat::kCodebook4, WeightFormat::kCodebook4By32}) {
      const auto are_codes = [&](const auto& parts) { return kernels::AreCodebook4(parts, codes); };
      if (std::ranges::all_of(matrices, are_codes)) return codes;
    }
  }
  if (std::ranges::all_of(matrices, kernels::AreInt8)) return WeightFormat::kInt8;
  const std::optional<WeightFormat> format = RoundedFormat(role, quantization);
  // What is quantized is not rounded to four bits once more.
  const bool cannot_be_int4 = std::ranges::any_of(matrices, [](const auto& parts) {
    return std::ranges::any_of(parts, [](const WeightView& part) {
      const auto* const int4 = std::get_if<Int4View>(&part);
      return int4 != nullptr ? int4->order.data != nullptr : IsQuantized(part);
    });
  });
  if (format == WeightFormat::kInt4 && cannot_be_int4) return std::nullopt;
  return format;
}

void LogWidened(int64_t num_widened, DType dtype) {
  if (num_widened == 0) return;
  LogInfo(StrCat("keeping ", num_widened, " quantized matrices in ", dtype,
                 ", which takes more memory: what is multiplied together with them is not "
                 "quantized, has its inputs in other groups, or has more of them than bytes can "
                 "be added up; or they are codes of four bits, of several codebooks or with inputs "
                 "or blocks that are no multiple of ",
                 kernels::Codebook4GroupSize(kernels::WeightFormat::kCodebook4By32)));
}

StatusOr<Quantization> ChooseQuantization(const std::string& option, const ModelSpec& spec) {
  constexpr std::array kAll = {Quantization::kNone, Quantization::kInt8, Quantization::kInt4,
                               Quantization::kNf4};
  const auto* const chosen =
      std::ranges::find(kAll, option, [](Quantization quantization) { return Name(quantization); });
  if (chosen == kAll.end()) {
    return InvalidArgument(
        StrCat("--quantization ", option,
               " is unknown; use none, int8, int4 or nf4 (as bitsandbytes rounds)"));
  }
  const auto check_depth = [&](std::string_view matrix, int64_t inputs) {
    if (inputs <= kernels::kMaxInt8Depth) return OkStatus();
    return InvalidArgument(StrCat("--quantization ", option, " takes matrices of at most ",
                                  kernels::kMaxInt8Depth, " inputs, and ", matrix, " has ", inputs,
                                  "; use none"));
  };
  std::vector<Projection> projections;  // that layers have
  for (const ProjectionGroup group : ProjectionGroupsWithExperts(spec)) {
    const auto of_group = ProjectionsOf(group);
    projections.insert(projections.end(), of_group.begin(), of_group.end());
  }
  if (*chosen == Quantization::kInt8) {
    for (const Projection projection : projections) {
      RETURN_IF_ERROR(check_depth(Name(projection), spec.InFeatures(projection)));
    }
  } else if (*chosen == Quantization::kInt4) {
    RETURN_IF_ERROR(check_depth("lm_head", spec.hidden_size));
  } else if (*chosen == Quantization::kNf4 && spec.experts) {
    return InvalidArgument(
        "--quantization nf4 of a mixture of experts could be one of several models, as "
        "bitsandbytes rounds other parts of it with other versions of transformers: save the "
        "model with bitsandbytes, or use int4");
  } else if (*chosen == Quantization::kNf4) {
    for (const Projection projection : projections) {
      const int64_t inputs = spec.InFeatures(projection);
      if (inputs % kNf4BlockSize == 0) continue;
      return InvalidArgument(StrCat("--quantization nf4 takes matrices of a multiple of ",
                                    kNf4BlockSize, " inputs, and ", Name(projection), " has ",
                                    inputs, "; use int4"));
    }
  }
  return *chosen;
}

}  // namespace aril
