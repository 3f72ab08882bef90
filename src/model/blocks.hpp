#pragma once

/// Builders of blocks: each method appends the parameters of a module and the ops of its forward at
/// once, so that what is counted and what is computed cannot drift apart.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "membudget/model.hpp"

namespace membudget {

/// Why there is no step of a model whose parameters alone are known.
inline constexpr std::string_view kCountedOnly = "only the parameters of this family are modelled yet";

/// Where tensors of a module are booked, and to which component its parameters belong.
struct Place {
    std::string_view term;
    Component component = Component::other;
};

namespace place {
inline constexpr Place embedding{"activations/embedding", Component::embedding};
inline constexpr Place attention{"activations/attention", Component::attention};
inline constexpr Place mlp{"activations/mlp", Component::mlp};
inline constexpr Place router{"activations/mlp", Component::router};
inline constexpr Place experts{"activations/mlp", Component::experts};
inline constexpr Place norm{"activations/norm", Component::norm};
inline constexpr Place residual{"activations/residual", Component::other};
inline constexpr Place head{"activations/logits", Component::head};
inline constexpr Place loss{"activations/loss", Component::head};
inline constexpr Place vision{"activations/vision", Component::vision};
inline constexpr Place other{"activations/other", Component::other};
}  // namespace place

/// The same place in the ledger for a vision tower: its parameters are the vision's.
[[nodiscard]] constexpr Place in_vision(Place place) { return {place.term, Component::vision}; }

/// Which normalisation a family uses, and which parameters it has.
struct Norm {
    OpKind kind = OpKind::rms_norm;
    NormStyle style = NormStyle::plain;
    bool weight = true;
    bool bias = false;
};
namespace norms {
inline constexpr Norm rms{};
inline constexpr Norm rms_one_plus{OpKind::rms_norm, NormStyle::one_plus, true, false};
inline constexpr Norm rms_wide_product{OpKind::rms_norm, NormStyle::wide_product, true, false};
inline constexpr Norm rms_t5{OpKind::rms_norm, NormStyle::t5, true, false};
inline constexpr Norm layer{OpKind::layer_norm, NormStyle::plain, true, true};
inline constexpr Norm layer_no_bias{OpKind::layer_norm, NormStyle::plain, true, false};
inline constexpr Norm layer_unfused{OpKind::layer_norm, NormStyle::centred, true, false};
inline constexpr Norm layer_divided{OpKind::layer_norm, NormStyle::divided, true, true};
inline constexpr Norm layer_no_parameters{OpKind::layer_norm, NormStyle::no_weight, false, false};
}  // namespace norms

/// Joins module paths with a dot; an empty part adds nothing.
[[nodiscard]] std::string join(std::string_view path, std::string_view name);

/// Builds one `Block`. Tensors and parameters are named by their indices. The whole block is one
/// function of the framework: its first scope.
class BlockBuilder {
public:
    explicit BlockBuilder(std::string name);

    /// The tensor that comes from the block before. Its caller's loop variable holds it until the
    /// block returns, so it belongs to the whole block.
    int input(std::int64_t width, Rows rows = Rows::tokens);
    /// Tensor `index` of `Model::shared`: the same storage in every block that names it.
    int shared(int index, const Tensor& tensor);
    int shared(int index, const std::vector<Tensor>& all) { return shared(index, all[static_cast<std::size_t>(index)]); }
    /// Makes a tensor of this block that one.
    void share(int tensor, int index, const Tensor& as);
    void share(int tensor, int index, const std::vector<Tensor>& all) {
        share(tensor, index, all[static_cast<std::size_t>(index)]);
    }
    /// A tensor that an op of this block makes.
    int tensor(std::string name, std::int64_t width, Rows rows = Rows::tokens);
    /// The value keeps a name until the innermost function around its op returns.
    int hold(int tensor);
    /// The value keeps no name beyond its last reader.
    int release(int tensor);
    /// The value keeps a name of the function that runs the blocks.
    int hold_until_model_end(int tensor);
    /// The value keeps a name of the model's own forward.
    int hold_until_return(int tensor);
    /// The value is the input of a layer within this block, which outputs alone read.
    void set_of_checkpoint(int tensor) { block_.tensors[static_cast<std::size_t>(tensor)].of_checkpoint = true; }
    void set_rows(int tensor, Rows rows);
    void set_times(int tensor, std::int64_t times);
    void set_most(int tensor, std::int64_t most);
    [[nodiscard]] std::int64_t width(int tensor) const { return at(tensor).width; }
    [[nodiscard]] Rows rows(int tensor) const { return at(tensor).rows; }
    [[nodiscard]] std::int64_t times(int tensor) const { return at(tensor).times; }
    /// Linear weights are [in, out] from now on (`Conv1D` of GPT-2).
    void transpose_linears() { transposed_ = true; }
    /// Linears are `x @ weight.T`, then `+ bias`, from now on (Falcon).
    void write_out_linears() { written_out_ = true; }

    /// A function of the framework within the block: from construction to destruction.
    class [[nodiscard]] ScopeGuard {
    public:
        explicit ScopeGuard(BlockBuilder& builder);
        ScopeGuard(const ScopeGuard&) = delete;
        ScopeGuard& operator=(const ScopeGuard&) = delete;
        ~ScopeGuard();

    private:
        BlockBuilder& builder_;
        std::size_t scope_;
    };
    ScopeGuard scope() { return ScopeGuard(*this); }

    // --- parameters alone; one that is there already is used again -----------------------------------------------------------------------
    int parameter(std::string name, std::vector<std::int64_t> shape, Component component);
    /// Parameters of `nn.Linear`: weight [out, in] and bias [out].
    std::vector<int> linear_weights(std::string_view name, std::int64_t in, std::int64_t out,
                                    bool bias, Component component);
    std::vector<int> norm_weights(std::string_view name, std::int64_t width, const Norm& norm,
                                  Component component = Component::norm);
    /// The parameter of that name, which must exist.
    [[nodiscard]] Parameter& parameter_named(std::string_view name);

    // --- parameters with their ops; `x` and the results are tensors -------------------------------
    int linear(int x, std::string_view name, std::int64_t out, bool bias, Place place);
    int norm(int x, std::string_view name, const Norm& norm, Place place = place::norm);
    /// The last norm works on each of `heads` heads apart, with weights of `shape`.
    void normalise_heads(std::int64_t heads, std::vector<std::int64_t> shape);
    int dropout(int x, std::string_view name, double probability, Place place);
    int activation(int x, std::string_view name, Act act, Place place);
    int gated_activation(int gate, int up, std::string_view name, Act act, Place place);
    int add(int a, int b, std::string_view name, Place place = place::residual);
    int scale(int x, std::string_view name, Place place);
    int embedding(std::string_view name, std::int64_t rows, std::int64_t width,
                  OpKind kind = OpKind::embedding);
    std::vector<int> split(int x, std::string_view name, std::initializer_list<std::int64_t> widths,
                           Place place);

    [[nodiscard]] Op& last_op() { return block_.ops.back(); }
    /// Any op; outputs are tensors made before with `tensor` or `shared`.
    Op& op(OpKind kind, std::string name, Place place, std::vector<int> inputs,
           std::vector<int> outputs, std::vector<int> parameters = {});

    /// Marks the end of the base model's function, in the head of a language model.
    void end_base_model() { block_.base_model_end = static_cast<int>(block_.ops.size()); }
    void set_checkpointable() { block_.checkpointable = true; }
    void set_by_keyword() { block_.by_keyword = true; }
    [[nodiscard]] Block finish(int output) &&;

private:
    [[nodiscard]] const Tensor& at(int tensor) const {
        return block_.tensors[static_cast<std::size_t>(tensor)];
    }
    /// One input, one output of the same shape.
    int unary(OpKind kind, int x, std::string_view name, Place place);

    Block block_;
    bool transposed_ = false;
    bool written_out_ = false;
};

/// A sequence of layer kinds as the shortest list of repeated patterns: `0 1 0 1 0 1 0` becomes
/// `(0 1) x 3, (0) x 1`. Kinds are indices into `Model::blocks`.
[[nodiscard]] std::vector<Section> sections_of(const std::vector<int>& kinds,
                                               std::string_view prefix);

/// Appends a block, and `count` copies of it as a section of their own.
void add_section(Model& model, std::string prefix, Block block, std::int64_t count);

/// Appends a tensor to `Model::shared`; returns its index there.
int declare_tensor(std::vector<Tensor>& shared, std::string name, std::int64_t width, Rows rows);

}  // namespace membudget
