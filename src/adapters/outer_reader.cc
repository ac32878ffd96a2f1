// Source: peft, utils/save_and_load.py (get_peft_model_state_dict) and utils/other.py.

#include "adapters/outer_reader.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "base/strings.h"

namespace aril {
namespace {

// Where a module's matrix stands: as training left it, or beneath what was trained.
constexpr const char* kMatrixNames[] = {".weight", ".base_layer.weight",
                                        ".token_adapter.base_layer.weight"};
// A module's rows of tokens (spec/token_rows.h).
constexpr const char* kRowsName = ".token_adapter.trainable_tokens_delta";

// Rows that differ are a rank each: worth it while they take much less than the matrix, and are no
// more ranks than most adapters have.
constexpr int64_t kMostDifferingRows = 64;
constexpr int64_t kComparedElements = 1 << 16;

// What training may have made of numbers that it left alone, by loading the model in another dtype.
std::vector<DType> RoundingsOf(DType own) {
  if (own == DType::kF32) return {DType::kF16, DType::kBF16};
  return {own};
}

bool HaveEqualBytes(const TensorView& a, const TensorView& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         std::memcmp(a.data, b.data, a.size_bytes()) == 0;
}

// Of a matrix with another, row by row.
class RowComparison {
 public:
  RowComparison(const TensorView& own, const WeightView& base, int64_t width)
      : own_(own), base_(base), width_(width), rounded_(static_cast<size_t>(width)) {}

  // Calls differs(row) for each of the first `count` rows that is not the base's, rounded perhaps,
  // in order, while it returns true.
  template <typename Differs>
  void Run(int64_t count, const Differs& differs) {
    const int64_t rows_each = std::max<int64_t>(1, kComparedElements / width_);
    for (int64_t first = 0; first < count; first += rows_each) {
      const int64_t rows = std::min(rows_each, count - first);
      if (AreSameBytes(first, rows)) continue;
      Load(first, rows);
      for (int64_t r = 0; r < rows; ++r) {
        if (!IsTheBases(r) && !differs(first + r)) return;
      }
    }
  }

 private:
  bool AreSameBytes(int64_t first, int64_t rows) const {
    const auto* const numbers = std::get_if<TensorView>(&base_);
    if (numbers == nullptr || numbers->dtype != own_.dtype) return false;
    return HaveEqualBytes(own_.Rows(first, rows), numbers->Rows(first, rows));
  }
  void Load(int64_t first, int64_t rows) {
    for (std::vector<float>* values : {&own_values_, &base_values_}) {
      values->resize(static_cast<size_t>(rows * width_));
    }
    CopyAsFloat(own_, first * width_, rows * width_, own_values_.data());
    CopyAsFloat(base_, first * width_, rows * width_, base_values_.data());
  }
  // Of those loaded.
  bool IsTheBases(int64_t row) {
    const auto width = static_cast<size_t>(width_);
    const auto first = static_cast<size_t>(row) * width;
    const std::span own = std::span(own_values_).subspan(first, width);
    const std::span base = std::span(base_values_).subspan(first, width);
    if (std::ranges::equal(own, base)) return true;
    return std::ranges::any_of(RoundingsOf(own_.dtype), [&](DType dtype) {
      Round(base, dtype);
      return std::ranges::equal(own, rounded_);
    });
  }
  void Round(std::span<const float> values, DType dtype) {
    const TensorView exact{
        reinterpret_cast<const std::byte*>(values.data()), DType::kF32, {width_}};
    std::vector<std::byte> bytes(values.size() * SizeOf(dtype));
    CopyElements(exact, 0, width_, dtype, bytes.data());
    CopyAsFloat(TensorView{bytes.data(), dtype, {width_}}, 0, width_, rounded_.data());
  }

  const TensorView& own_;
  const WeightView& base_;
  const int64_t width_;
  std::vector<float> own_values_, base_values_;
  std::vector<float> rounded_;
};

class OuterReader {
 public:
  OuterReader(AdapterTensors& tensors, const ModelSpec& base, int64_t base_vocab, LoraSpec& spec)
      : tensors_(tensors),
        base_(base),
        base_vocab_(base_vocab),
        spec_(spec),
        uses_lm_head_(base.has_lm_head && !spec.is_classifier) {}

  StatusOr<OuterTensors> Read() {
    const ModuleNaming& naming = tensors_.naming();
    const Module embedding = {
        naming.Embedding(), kTextNaming.Embedding(),  true,
        spec_.embedding,    spec_.replaces_embedding, spec_.token_rows.embedding};
    const Module lm_head = {
        std::string(naming.lm_head), std::string(kTextNaming.lm_head), false, spec_.lm_head,
        spec_.replaces_lm_head,      spec_.token_rows.lm_head};
    ASSIGN_OR_RETURN(std::optional<Table> embeddings, FindTable(embedding));
    std::optional<Table> heads;
    if (!lm_head.name.empty()) {
      ASSIGN_OR_RETURN(heads, FindTable(lm_head));
    }
    if (uses_lm_head_ && base_.tie_word_embeddings) Tie(&embeddings, &heads);
    if (base_.vocab_size != base_vocab_) {
      RETURN_IF_ERROR(CheckHas(embeddings, embedding));
      if (uses_lm_head_) RETURN_IF_ERROR(CheckHas(heads, lm_head));
    }
    OuterTensors outer;
    RETURN_IF_ERROR(Resolve(embedding, embeddings, &outer.embedding, &outer.embedding_table));
    RETURN_IF_ERROR(Resolve(lm_head, heads, &outer.lm_head, &outer.lm_head_table));
    outer.unused_bytes = copies_bytes_ + UnusedBytes(embeddings, outer);
    if (!embeddings || !heads || heads->view.data != embeddings->view.data) {
      outer.unused_bytes += UnusedBytes(heads, outer);
    }
    return outer;
  }

 private:
  // The embedding or lm_head; and what the spec says of it.
  struct Module {
    std::string name;  // in the file
    std::string base_name;
    bool is_embedding;
    LoraModule& lora;
    bool& is_replaced;             // "modules_to_save" names it; then: it is
    std::vector<int32_t>& tokens;  // with rows of their own: those trained; then: all
  };
  // Of a module, [vocab, hidden].
  struct Table {
    TensorView view;
    bool is_named;  // by "modules_to_save"
  };

  static int64_t UnusedBytes(const std::optional<Table>& table, const OuterTensors& outer) {
    if (!table) return 0;
    for (const auto& used : {outer.embedding_table, outer.lm_head_table}) {
      if (used && used->data == table->view.data) return 0;
    }
    return static_cast<int64_t>(table->view.size_bytes());
  }

  Shape TableShape() const { return {base_.vocab_size, base_.hidden_size}; }

  // PEFT writes one if the config names the module in modules_to_save, but also beside other
  // modules where they are adapted, or where the vocabulary was resized, as it was in training.
  StatusOr<std::optional<Table>> FindTable(const Module& module) {
    if (module.is_replaced) {
      Table table = {.view = {}, .is_named = true};
      ASSIGN_OR_RETURN(table.view, tensors_.Take(module.name + ".weight", TableShape()));
      RETURN_IF_ERROR(TakeCopies(module, table.view));
      return table;
    }
    for (const char* suffix : kMatrixNames) {
      if (tensors_.Find(module.name + suffix) == nullptr) continue;
      Table table = {.view = {}, .is_named = false};
      ASSIGN_OR_RETURN(table.view, tensors_.Take(module.name + suffix, TableShape()));
      return table;
    }
    return std::nullopt;
  }

  // Where the vocabulary was resized, PEFT writes all that a module in modules_to_save consists of.
  Status TakeCopies(const Module& module, const TensorView& table) {
    const std::string copy = module.name + ".modules_to_save.weight";
    if (tensors_.Find(copy) != nullptr) {
      ASSIGN_OR_RETURN(const TensorView view, tensors_.Take(copy, TableShape()));
      if (!HaveEqualBytes(view, table)) {
        return InvalidArgument(StrCat("tensor ", AdapterTensors::FullName(copy), " differs from ",
                                      AdapterTensors::FullName(module.name), ".weight"));
      }
      copies_bytes_ += static_cast<int64_t>(view.size_bytes());
    }
    const std::string original = module.name + ".original_module.weight";  // which is not in use
    if (tensors_.Find(original) == nullptr) return OkStatus();
    ASSIGN_OR_RETURN(const TensorView view, tensors_.Take(original, TableShape()));
    copies_bytes_ += static_cast<int64_t>(view.size_bytes());
    return OkStatus();
  }

  // Of one matrix, what the file says of it is said of both; last of lm_head, as PEFT loads it.
  static void Tie(std::optional<Table>* embeddings, std::optional<Table>* heads) {
    const auto may_be_both = [](const std::optional<Table>& table) {
      return table && !table->is_named;
    };
    if (may_be_both(*heads) && (!*embeddings || !(*embeddings)->is_named)) {
      *embeddings = *heads;
    } else if (may_be_both(*embeddings) && !*heads) {
      *heads = *embeddings;
    }
  }

  Status CheckHas(const std::optional<Table>& table, const Module& module) const {
    if (table) return OkStatus();
    const std::string name = module.name.empty() ? module.base_name : module.name;
    return InvalidArgument(StrCat(
        "the file has a vocabulary of ", base_.vocab_size, " tokens, other than the base model's ",
        base_vocab_, " (resize_token_embeddings), and lacks ", AdapterTensors::FullName(name),
        ".weight of it: let target_modules or modules_to_save name both the embedding and "
        "lm_head, or neither, and save the adapter with save_embedding_layers"));
  }

  Status Resolve(const Module& module, const std::optional<Table>& table,
                 std::optional<LoraPair>* pair, std::optional<TensorView>* own) {
    const bool is_adapted = module.lora.rank > 0 && module.tokens.empty();
    if (is_adapted) {
      ASSIGN_OR_RETURN(*pair, TakePair(module));
    }
    ASSIGN_OR_RETURN(std::vector<OwnRow> rows, TakeTrainedRows(module));
    const bool has_trained = !rows.empty();
    const size_t num_trained = rows.size();
    bool are_few = true;
    if (table) {
      ASSIGN_OR_RETURN(are_few, AddDiffering(module, *table, &rows));
    }
    module.is_replaced = !are_few || (is_adapted && rows.size() > num_trained);
    if (module.is_replaced && has_trained) {
      return Unimplemented(StrCat("\"trainable_token_indices\" of ", module.name,
                                  ", of which the file has more than ", MostDiffering(),
                                  " other rows that differ from the base model's, is not "
                                  "supported"));
    }
    if (module.is_replaced) *own = table->view;
    if (module.is_replaced || rows.empty()) return OkStatus();
    ASSIGN_OR_RETURN(*pair, MakePair(module, rows));
    module.lora = {.rank = std::ssize(rows), .scale = 1};
    module.tokens.clear();
    for (const OwnRow& row : rows) module.tokens.push_back(row.token);
    return OkStatus();
  }

  StatusOr<LoraPair> TakePair(const Module& module) {
    if (spec_.use_dora && base_.vocab_size != base_vocab_) {
      return Unimplemented(StrCat("DoRA on ", module.name,
                                  " of another vocabulary than the base model's "
                                  "(resize_token_embeddings) is not supported"));
    }
    const int64_t in = module.is_embedding ? base_.vocab_size : base_.hidden_size;
    const int64_t out = module.is_embedding ? base_.hidden_size : base_.vocab_size;
    ASSIGN_OR_RETURN(const LoraTensors tensors,
                     tensors_.TakeModule(module.name, module.lora.rank, in, out));
    return tensors_.MakePair(tensors, module.lora, module.base_name,
                             {base_vocab_, base_.hidden_size});
  }

  // Of tokens that the config names; of one matrix, what the file may have twice is the same.
  StatusOr<std::vector<OwnRow>> TakeTrainedRows(const Module& module) {
    std::vector<OwnRow> rows;
    if (module.tokens.empty()) return rows;
    const Shape shape = {std::ssize(module.tokens), base_.hidden_size};
    const bool has_the_embeddings =
        !module.is_embedding && spec_.token_rows.lm_head_has_the_embeddings;
    const std::string owner = has_the_embeddings ? tensors_.naming().Embedding() : module.name;
    ASSIGN_OR_RETURN(const TensorView trained, tensors_.Take(owner + kRowsName, shape));
    if (has_the_embeddings && tensors_.Find(module.name + kRowsName) != nullptr) {
      ASSIGN_OR_RETURN(const TensorView copy, tensors_.Take(module.name + kRowsName, shape));
      if (!HaveEqualBytes(copy, trained)) {
        return InvalidArgument(StrCat("tensor ", AdapterTensors::FullName(module.name), kRowsName,
                                      " differs from the embedding's, which is the same matrix"));
      }
    }
    for (size_t i = 0; i < module.tokens.size(); ++i) {
      rows.push_back({module.tokens[i], trained.Rows(static_cast<int64_t>(i), 1)});
    }
    return rows;
  }

  int64_t MostDiffering() const { return std::min(kMostDifferingRows, base_.hidden_size / 4); }

  // Whether a matrix differs from the base's in no more rows than that: then these, but for what
  // is there already. If the base's weights are not known, a matrix that the config does not name
  // is the base's own as far as that goes.
  StatusOr<bool> AddDiffering(const Module& module, const Table& table, std::vector<OwnRow>* rows) {
    ASSIGN_OR_RETURN(const std::optional<std::vector<int32_t>> differing,
                     FindDiffering(module, table));
    if (!differing) return false;
    std::unordered_set<int32_t> known;
    for (const OwnRow& row : *rows) known.insert(row.token);
    for (const int32_t token : *differing) {
      if (!known.contains(token)) rows->push_back({token, table.view.Rows(token, 1)});
    }
    return std::ssize(*rows) <= kMaxLoraRank;
  }

  // None if they are more.
  StatusOr<std::optional<std::vector<int32_t>>> FindDiffering(const Module& module,
                                                              const Table& table) {
    if (compared_ == table.view.data) return differing_;  // of what is tied
    std::vector<int32_t> differing;
    const auto add = [&](int64_t row) {
      differing.push_back(static_cast<int32_t>(row));
      return std::ssize(differing) <= MostDiffering();
    };
    if (tensors_.weights() == nullptr) {
      if (table.is_named) return std::nullopt;
    } else {
      ASSIGN_OR_RETURN(const WeightView base, BaseMatrix(module));
      RowComparison(table.view, base, base_.hidden_size)
          .Run(std::min(base_vocab_, base_.vocab_size), add);
    }
    for (int64_t row = base_vocab_; row < base_.vocab_size && add(row);) ++row;
    compared_ = table.view.data;
    differing_.reset();
    if (std::ssize(differing) <= MostDiffering()) differing_ = std::move(differing);
    return differing_;
  }

  StatusOr<LoraPair> MakePair(const Module& module, const std::vector<OwnRow>& rows) const {
    std::optional<WeightView> weight;
    if (tensors_.weights() != nullptr) {
      ASSIGN_OR_RETURN(weight, BaseMatrix(module));
    }
    auto deltas = std::make_shared<const TokenDeltas>(rows, weight ? &*weight : nullptr,
                                                      base_.vocab_size, module.is_embedding);
    LoraPair pair{.a = deltas->a(), .b = deltas->b()};
    pair.tokens = std::move(deltas);
    return pair;
  }

  StatusOr<WeightView> BaseMatrix(const Module& module) const {
    return tensors_.BaseMatrix(module.base_name, {base_vocab_, base_.hidden_size});
  }

  AdapterTensors& tensors_;
  const ModelSpec& base_;
  const int64_t base_vocab_;
  LoraSpec& spec_;
  const bool uses_lm_head_;
  int64_t copies_bytes_ = 0;
  // The matrix that was compared last, and what was found.
  const std::byte* compared_ = nullptr;
  std::optional<std::vector<int32_t>> differing_;
};

}  // namespace

StatusOr<int64_t> FindVocabSize(const TensorMap& tensors, const ModuleNaming& naming,
                                const ModelSpec& base) {
  std::vector<std::pair<std::string, Shape>> tables;
  for (const std::string& module : {naming.Embedding(), std::string(naming.lm_head)}) {
    for (const char* suffix : kMatrixNames) {
      const auto table = tensors.find(AdapterTensors::FullName(module + suffix));
      if (table == tensors.end()) continue;
      const Shape& shape = table->second.shape;
      if (shape.size() != 2 || shape[1] != base.hidden_size) continue;
      tables.emplace_back(table->first, shape);
    }
  }
  int64_t size = base.vocab_size;
  for (const auto& [name, shape] : tables) {
    const bool is_near = shape[0] <= base.vocab_size + kMaxAddedTokens &&
                         shape[0] >= std::max<int64_t>(1, base.vocab_size - kMaxRemovedTokens);
    if (!is_near) {
      return InvalidArgument(StrCat(
          "tensor ", name, " has shape ", ToString(shape), ", and the base model a vocabulary of ",
          base.vocab_size, ": one that was resized (resize_token_embeddings) may have up to ",
          kMaxAddedTokens, " tokens more, or ", kMaxRemovedTokens,
          " fewer. Was the adapter trained for another base model?"));
    }
    if (shape[0] != tables[0].second[0]) {
      return InvalidArgument(StrCat("tensor ", name, " has shape ", ToString(shape), ", and ",
                                    tables[0].first, " has ", ToString(tables[0].second),
                                    ": both are of one vocabulary"));
    }
    size = shape[0];
  }
  return size;
}

StatusOr<OuterTensors> ReadOuter(AdapterTensors& tensors, const ModelSpec& base, int64_t base_vocab,
                                 LoraSpec* spec) {
  return OuterReader(tensors, base, base_vocab, *spec).Read();
}

}  // namespace aril
