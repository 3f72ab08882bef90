#pragma once

/// One builder for decoder-only transformers. A family fills in a `DecoderPlan` from its config: how
/// its blocks are arranged, how its modules are named, which of them have biases. What is one more
/// arrangement of known blocks is one more function that fills in a plan.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "membudget/model.hpp"
#include "model/blocks.hpp"
#include "model/config.hpp"

namespace membudget {

/// How a layer combines its input x with attention A and feed-forward M; n1.. are norms.
enum class Arrangement {
    pre_norm,      ///< h = x + A(n1 x);        out = h + M(n2 h)
    sandwich,      ///< h = x + n2 A(n1 x);     out = h + n4 M(n3 h)
    inner_norm,    ///< h = x + n1 A(x);        out = h + n2 M(h)
    post_norm,     ///< h = n1(x + A(x));       out = n2(h + M(h))
    parallel,      ///< out = x + A(n1 x) + M(n1 x)
    parallel_two,  ///< out = x + A(n1 x) + M(n2 x)
    adds_inside,   ///< h = A(n1 x, x); out = M(n2 h, h): the sublayers add the residual (BLOOM)
    mlp_adds,      ///< h = A(n1 x) + x; out = M(n2 h, h) (MPT)
    falcon,        ///< n1 x, n2 x; out = x + (M(n2 x) += A(n1 x)); with one norm n1 = n2
    mixer_only,    ///< out = x + A(n1 x)
};

/// Normalisation of queries and keys before the rotation.
enum class QkNorm {
    none,
    per_head,   ///< over each head, one weight [head_dim] for all heads
    each_head,  ///< over each head, a weight of its own: [heads, head_dim]
    listed,     ///< over each head, a module of its own: `norms.0.weight`, ...
    full,       ///< over all heads together, weight [heads * head_dim]
};

/// When queries and keys are normalised.
enum class NormTime {
    with_projection,    ///< each behind its projection
    after_projections,  ///< when queries, keys and values are there
    after_rotation,
};

/// Declares the parameters of a module whose ops are not modelled yet. Such a plan must say so in
/// `DecoderPlan::step_unsupported`.
using WeightsOnly = std::function<void(BlockBuilder& builder)>;

/// Builds an attention of its own from the norm's output, cos, sin and mask; returns the result.
using BuildAttention = std::function<int(BlockBuilder& builder, int x, int cos, int sin, int mask)>;

/// Builds a mask from the norm's output, the rotated queries, cos, sin and the model's mask.
using BuildMask = std::function<int(BlockBuilder& builder, int x, int query, int cos, int sin, int mask)>;

struct AttentionPlan {
    WeightsOnly weights;                 ///< set: instead of everything below
    BuildAttention build;                ///< set: instead of everything but heads and rotation
    BuildMask mask;                      ///< set: makes a mask of the layer's own of the model's
    std::string_view module = "self_attn";
    std::string_view q = "q_proj", k = "k_proj", v = "v_proj", o = "o_proj";
    std::string_view qkv;                ///< one fused projection instead of q, k, v
    std::int64_t heads = 1, kv_heads = 1, head_dim = 1;
    std::int64_t value_dim = 0;          ///< of each head's values; 0: head_dim
    bool bias = false;                   ///< of q, k, v
    bool output_bias = false;
    QkNorm qk_norm = QkNorm::none;
    Norm qk_norm_kind = norms::rms;
    std::string_view q_norm = "q_norm", k_norm = "k_norm";
    bool by_position = false;            ///< queries are multiplied by a number for each position
    NormTime norm_time = NormTime::with_projection;
    bool clips = false;                  ///< queries, keys and values are cut to a range (OLMo, DBRX)
    std::string_view result_norm;        ///< before the output projection; empty: none
    int rotary = 0;                      ///< which rotary tables; -1: none
    std::int64_t rotary_dim = 0;         ///< see `OpAttributes::rotary_dim`
    Rotation rotation = Rotation::halves;
    AttentionForm form = AttentionForm::shared;
    bool spreads_keys = false;           ///< keys and values are copied for all query heads (Falcon)
    bool sliced = false;                 ///< the fused projection is sliced, not split
    bool alibi = false;
    std::int64_t alibi_length = 0;       ///< of a table of biases for so many distances; 0: there is none
    bool sinks = false;                  ///< one learned score per head beside those of the keys
    bool gated = false;                  ///< the query projection also makes a gate of its width
    std::string_view gate;               ///< a projection whose sigmoid multiplies the heads' results; empty: none
    bool gate_per_head = false;          ///< it makes one number for each head
    bool scales_query = false;           ///< the query is scaled by an op of its own
    bool scales_values = false;          ///< the values are
    std::int64_t window = 0;
    bool chunked = false;                ///< the window is a chunk: see `OpAttributes::chunked`
    double softcap = 0;
    bool softmax_in_dtype = false;       ///< see `OpAttributes::softmax_in_dtype`
    bool cast_to_values = false;         ///< see `OpAttributes::cast_to_values`
    double dropout = 0;
    std::string_view output_dropout;     ///< module name; empty: none
    double output_dropout_p = 0;
};

/// A feed-forward network, or a mixture of them.
struct MlpPlan {
    WeightsOnly weights;                 ///< set: instead of everything below
    std::string_view module = "mlp";
    std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj", act_name = "act_fn";
    std::string_view gate_up;            ///< one fused projection instead of gate and up
    std::int64_t width = 1;
    bool gated = true;
    bool bias = false;
    Act act = Act::silu;
    bool bounded = false;                ///< see `OpAttributes::bounded`
    std::string_view inner_norm;         ///< before the last projection; empty: none
    std::string_view inner_dropout;      ///< likewise
    double inner_dropout_p = 0;
    std::string_view output_dropout;
    double output_dropout_p = 0;
    /// The layer calls the projections itself: no function whose arguments hold the norm's output.
    bool inlined = false;
    /// Mixture of experts: parameters are those of `build_experts`.
    struct Experts {
        std::int64_t count = 0, per_token = 0, width = 0;
        std::int64_t shared_width = 0;   ///< of the always active expert; 0: none
        bool shared_gate = false;        ///< the shared expert has a sigmoid gate
        bool shared_bias = false;        ///< the shared expert's modules have biases
        bool scaled = false;             ///< what the routed experts make is multiplied by a number
        RouterForm form = RouterForm::mixtral;
        SharedExpert sharing = SharedExpert::last;
        bool looped = false;             ///< see `OpAttributes::looped`
        bool jittered = false;           ///< see `OpAttributes::jittered`
        bool wide_router = false;        ///< the class keeps the router's weight in fp32
        bool normalised = false;         ///< see `OpAttributes::normalised`
        bool router_bias = false;
        bool router_last = false;        ///< the class registers the router behind the experts
        std::string_view correction;     ///< a parameter [1, count], or [count], that the class freezes; empty: none
        bool flat_correction = false;
        bool biased = false;
        bool transposed = false;         ///< weights [E, in, out] instead of [E, out, in]
        bool flat = false;               ///< three weights [E * width, hidden] instead of two (DBRX)
        std::string_view router = "gate";
        std::string_view experts = "experts";
        std::string_view shared = "shared_expert";
        std::string_view shared_gate_up; ///< one fused projection of the shared expert instead of gate and up
        std::string_view shared_gate_name = "shared_expert_gate";
    } experts;
};

/// Builds what runs beside the feed-forward network on the same input, and the sum of both results.
using BuildBeside = std::function<int(BlockBuilder& builder, int x, int result)>;

/// Builds a whole layer from its input, cos, sin and mask; returns the result.
using BuildLayer = std::function<int(BlockBuilder& builder, int x, int cos, int sin, int mask)>;

/// What a layer takes of a tensor of the model before it runs, as an argument of its own, and what it does with it.
struct LayerInput {
    std::function<int(BlockBuilder& builder)> take;
    BuildBeside use;                     ///< from the layer's result and the input: the result
};

struct LayerPlan {
    BuildLayer build;                    ///< set: instead of everything but what masks, tables and counts depend on
    Arrangement arrangement = Arrangement::pre_norm;
    std::string_view norms[4] = {"input_layernorm", "post_attention_layernorm", "", ""};
    AttentionPlan attention;
    MlpPlan mlp;
    BuildBeside beside_mlp;              ///< set: a second network beside `mlp`
    BuildBeside beside_residual;         ///< set: a network beside `mlp` that reads what is added to its result
    LayerInput input;                    ///< set: beside the hidden states
    bool scales_output = false;          ///< the layer's result is multiplied by a number in place
    WeightsOnly extra;                   ///< set: parameters of further modules
    /// The layer keeps the results of attention and feed-forward under names of their own until it
    /// returns (`attn_output = ...`), instead of rebinding `hidden_states`.
    bool names_results = false;
    bool names_norms = false;            ///< likewise the results of norms
    bool names_first_norm = false;       ///< of the first of them
    /// The results of attention and feed-forward are multiplied by a number before they are added.
    bool scales_results = false;
    std::string_view attention_dropout, mlp_dropout;  ///< dropout modules of the layer itself
    double dropout = 0;
};

/// What a tower makes, as indices into `Model::shared`.
struct TowerFeatures {
    int images = -1;         ///< what stands among the embeddings
    std::vector<int> deep;   ///< what joins the hidden states after the first layers
};

struct DecoderPlan {
    std::string_view base = "model";     ///< attribute of the base model in the class with a head
    std::string_view embedding = "embed_tokens";
    std::string_view positions;          ///< learned positions; empty: none
    std::int64_t position_rows = 0;
    bool positions_per_token = false;    ///< position ids are made per sequence of the batch
    bool positions_buffered = false;     ///< the table of positions is a buffer, not a parameter
    std::string_view embedding_norm;
    std::string_view embedding_dropout;
    double embedding_dropout_p = 0;
    bool embedding_scale = false;
    bool scales_outside = false;         ///< not in the embedding's own module
    bool keeps_embeddings = false;       ///< their name stays beside what a scale or norm makes of them
    std::string_view project_in, project_out;
    std::int64_t both_masks = 0;         ///< masks with this window and without one are made, used or not; 0: as used
    bool unused_tables = false;          ///< rotary tables are made though no layer rotates
    std::string_view stem_norm;          ///< behind the embeddings, whose own name stays; empty: none
    std::string_view layers = "layers";
    std::string_view final_norm = "norm";  ///< empty: none
    std::string_view head = "lm_head";
    bool head_bias = false;
    bool head_scale = false;
    bool head_input_scale = false;       ///< the hidden states are scaled before the head
    bool router_loss = false;            ///< the routers' logits are kept, and a loss of them is added
    double head_softcap = 0;
    bool base_has_head = false;          ///< the class without a head's name has the head all the same
    bool tied = false;
    Norm norm = norms::rms;
    bool transposed_linear = false;      ///< `Conv1D`: weights are [in, out]
    bool matmul_linear = false;          ///< FalconLinear: `x @ weight.T + bias`
    std::int64_t hidden = 1, vocabulary = 1;
    /// Set: how streams are made of hidden states, and collapsed; the latter's modules are under `base`.
    std::function<int(BlockBuilder& builder, int x)> spread;
    std::function<int(BlockBuilder& builder, const std::string& base, int x)> collapse;
    std::int64_t streams = 1;            ///< residual streams of a token, which `hc_head` collapses at the end
    std::int64_t embedding_rows = 0;     ///< rows of the embedding where it has more than the head
    std::int64_t embedding_width = 0;    ///< where a projection follows; 0: hidden
    /// Tensors that blocks of this family make and others read: the first of `Model::shared`.
    std::vector<Tensor> carried;
    /// What is made of the embedded words beside them.
    std::function<void(BlockBuilder& builder, int embeds)> beside_embeddings;
    std::vector<LayerPlan> kinds{LayerPlan{}};
    /// Kind of each layer; empty: `layer_count` layers of kind 0. See `assign_kinds`.
    std::vector<int> order;
    std::int64_t layer_count = 1;
    /// Layers that predict further tokens: blocks of kind 0 with parameters of their own for the join
    /// of hidden state and embedding.
    std::int64_t predictor_layers = 0;
    WeightsOnly predictor_weights;
    bool head_is_embedding = false;      ///< the head multiplies by the embedding itself: no tensor
    /// Images stand among the tokens: appends the blocks of a tower, which run between the embeddings and
    /// the layers.
    std::function<void(Model& model, const TowerFeatures& features)> tower;
    std::int64_t image_tokens = 0;       ///< of each image
    /// The tower takes images of any size, as patches of `pixel_width` numbers.
    bool any_image_size = false;
    std::int64_t pixel_width = 0;
    std::int64_t size_width = 0;         ///< numbers that say the size of an image; 0: none are given
    bool token_types = false;            ///< a second input tells images from words
    std::string_view newline;            ///< with tiles: the parameter that ends a row; empty: none
    std::int64_t deep_features = 0;      ///< features that join the hidden states after the first layers
    std::int64_t position_axes = 0;      ///< positions of each token in so many directions; 0: of all sequences
    bool interleaved_axes = false;       ///< see `OpAttributes::interleaved`
    /// The class's own forward joins images and words, and computes the loss from what the decoder with its head, a
    /// model by itself, returns (Llama 4).
    bool decoder_within = false;
    bool listed_images = false;          ///< their features come as a list
    bool picked_images = false;          ///< of which each was picked by its index
    /// The tokens of an image see each other; a second input tells them from words (`token_type_ids`).
    bool image_blocks = false;
    bool window_blocks = false;          ///< the same in layers with a window alone
    bool position_ids = false;           ///< an input says where each patch of an image is
    std::string step_unsupported;

    [[nodiscard]] LayerPlan& layer() { return kinds.front(); }
};

/// Sets the kind of every layer, and drops kinds that no layer has.
void assign_kinds(DecoderPlan& plan, std::vector<int> kinds);

/// Plans layers from what tells them apart: those with equal keys are of one kind, which `make(key)` plans.
template <class Key, class Make>
void plan_layers(DecoderPlan& plan, const std::vector<Key>& keys, Make&& make) {
    std::vector<Key> known;
    std::vector<int> kinds;
    plan.kinds.clear();
    for (const Key& key : keys) {
        const auto at = std::find(known.begin(), known.end(), key);
        kinds.push_back(static_cast<int>(at - known.begin()));
        if (at != known.end()) continue;
        known.push_back(key);
        plan.kinds.push_back(make(key));
    }
    assign_kinds(plan, std::move(kinds));
}

/// What a class of the family computes from the last hidden states.
enum class Task { causal_lm, base, classification };

/// Assembles the model of a plan. `task` decides the head.
[[nodiscard]] Model build_decoder(const DecoderPlan& plan, Task task, std::int64_t labels,
                                  Problem problem = Problem::single_label);

/// The class that a config (or the caller) asks for, checked against the family's list.
/// Reports an unknown one at `/architectures/0`.
[[nodiscard]] std::string choose_architecture(const Family& family, const KeyTree& config,
                                              std::string_view asked, Diagnostics& diagnostics);
/// Says in the model where it comes from, and adds the reader's notes.
void note_origin(Model& model, const Family& family, std::string_view architecture, const ConfigReader& reader);
/// Number of classes of a classifier: `len(id2label)`, else `num_labels`, else 2.
[[nodiscard]] std::int64_t label_count(const KeyTree& config);
/// What a classifier is trained for: `problem_type`; without it one label is a regression, and more
/// are classes of which each sample has one.
[[nodiscard]] Problem problem_of(const KeyTree& config, std::int64_t labels, Diagnostics& diagnostics);
/// The loss over a classifier's logits, the last op of a head.
void classification_loss(BlockBuilder& builder, int logits, Problem problem);
/// The labels of a classifier: a class, or a number for each label, of each of `rows`.
[[nodiscard]] ModelInput class_labels(Rows rows, std::int64_t labels, Problem problem);

/// LayerDrop (arXiv:1909.11556): a layer runs if a random number is above `key`. All are counted, and a note says so.
void note_layerdrop(ConfigReader& config, std::string_view key);

using ConfigureDecoder = void (*)(ConfigReader& config, DecoderPlan& plan);
[[nodiscard]] Result<Model> decoder_family(const Family& family, const KeyTree& config,
                                           std::string_view architecture,
                                           ConfigureDecoder configure);
/// `Family::build` of a decoder-only family.
template <ConfigureDecoder Configure>
Result<Model> build_decoder_family(const Family& family, const KeyTree& config,
                                   std::string_view architecture) {
    return decoder_family(family, config, architecture, Configure);
}

}  // namespace membudget
