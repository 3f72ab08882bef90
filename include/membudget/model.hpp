#pragma once

/// Part `model`: what is computed. A family row interprets the keys of a config and builds a
/// `Model`: stem + (block x count)... + head, each block with its parameter tensors and its ops.
/// Knows nothing of precision, sharding or time: kernels say *how* an op is computed.

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "membudget/quantity.hpp"
#include "membudget/spec.hpp"
#include "membudget/support.hpp"

namespace membudget {

/// Which part of a network a parameter belongs to: the tree that `inspect` prints.
enum class Component { embedding, attention, mlp, experts, router, norm, head, vision, other };
[[nodiscard]] std::string_view name_of(Component component);

/// What becomes of a parameter in training; with adapters, freezing or a quantized base the ledger
/// tells them apart.
enum class ParameterRole {
    weight,   ///< of the model itself
    adapter,  ///< beside a module of the model (LoRA)
};

struct Quantization;

/// A tensor that holds a quantized weight, or a part of what its dequantization needs.
struct StoredTensor {
    std::string name;             ///< after the module's path: "weight", "weight.absmax"
    const Dtype* dtype = nullptr;
    std::vector<std::int64_t> shape;
    bool codes = false;           ///< the weights' own codes; else scales, zero points, tables

    [[nodiscard]] Bytes bytes() const;
};

/// A parameter tensor of a block.
struct Parameter {
    /// Module path without the section's prefix: "self_attn.q_proj.weight".
    std::string name;
    std::vector<std::int64_t> shape;
    Component component = Component::other;
    /// Full name of the parameter whose storage this one shares; empty for an own storage. Its own full
    /// name: the same parameter, of which another block has the storage.
    std::string tied_to;
    /// Full name in published weight files where it differs, `{}` for the layer's index; else empty. It expands as in
    /// a shell where a file holds the tensor in pieces: `experts.{0..7}.{w1,w3}.weight` are slices of the first
    /// dimension, each the halves of the next one; without a range of experts the parts are of a matrix, or of each
    /// one of a stack. Tensors of one such name are pieces of it, in this order, along the first dimension.
    std::string checkpoint_name;
    /// False for a tensor that the class itself freezes (Whisper's sinusoids) or that training leaves
    /// as it is.
    bool trainable = true;
    /// Trained, but no gradient reaches it: autograd records what it is used for all the same.
    bool unreached = false;
    /// The class registers it behind all others, which the order of the optimizer follows.
    bool registered_last = false;
    ParameterRole role = ParameterRole::weight;
    /// Type in which it is held, whatever the job's precision; null: as the precision says. Of a
    /// quantized weight, the type into which it is dequantized.
    const Dtype* dtype = nullptr;
    /// The row by which it is quantized, and the tensors that hold it then; null: none.
    const Quantization* quantization = nullptr;
    std::vector<StoredTensor> stored;

    [[nodiscard]] Elements elements() const;
    /// Bytes in memory; `otherwise` is the type where the parameter has none of its own.
    [[nodiscard]] Bytes bytes(const Dtype& otherwise) const;
};

/// What the rows of an activation tensor run over; `step` knows how many there are of each.
enum class Rows {
    one,            ///< a scalar or a tensor that does not depend on the input
    batch,          ///< sequences (or images) of the micro-batch
    positions,      ///< sequence positions, shared by the batch (cos and sin of the rotation)
    tokens,         ///< batch x sequence length
    target_tokens,  ///< batch x target length (decoder of an encoder-decoder)
    target_positions,  ///< target positions, shared by the batch
    images,         ///< images of the micro-batch
    patches,        ///< rows of a vision tower: patches of all images, class tokens included
    image_tokens,   ///< tokens whose place the images of the micro-batch take, where their size decides
};

/// Until when the function that made a tensor refers to it by a local variable. The engine frees a
/// storage when no name and no saved tensor refers to it.
enum class Held {
    until_last_read,  ///< the name is rebound, or the value never had one
    until_scope_end,  ///< a local variable that lives until its function returns; of `Model::shared`: blocks get it by position
    until_model_end,  ///< in a stem: a local variable of the function that runs the blocks; it dies
                      ///< where the chain's last block says (`Block::base_model_end`), as `Model::shared` does
    until_return,  ///< of a stem or of `Model::shared`: a local variable of the model's own forward, which returns behind the loss
    until_outputs_end,  ///< of `Model::shared`: a field of the model's outputs, beside the logits
};

/// An activation tensor of a block: `rows x width` elements.
struct Tensor {
    std::string name;             ///< "self_attn.q_proj": for people
    Rows rows = Rows::tokens;
    std::int64_t width = 0;  ///< 0: the kernel of the op that makes it decides (attention masks)
    std::int64_t times = 1;  ///< so many times the rows
    std::int64_t most = 0;   ///< at most so many rows, however many they would be; 0: no limit
    Held held = Held::until_last_read;
    /// The input of a layer that outputs alone read: where layers are checkpointed, its checkpoint holds it.
    bool of_checkpoint = false;
    /// Of `Model::shared`: blocks find it in a dictionary, which they get by keyword. A reentrant checkpoint overlooks it.
    bool in_dictionary = false;
    /// Index into `Model::shared` for a tensor that the whole model shares; -1 otherwise.
    int shared = -1;
};

/// What an op computes. How it computes is the kernel's business (part `stack`).
enum class OpKind {
    embedding,         ///< ids -> hidden; parameters: weight
    position_embedding,///< learned positions; parameters: weight
    scale,             ///< x * number
    add,               ///< x + y (residual)
    multiply,          ///< x * y
    zero_padding,      ///< rows of padding become zero, in place
    layer_norm,        ///< parameters: [weight [, bias]]
    rms_norm,          ///< parameters: weight
    linear,            ///< parameters: weight [, bias]
    split,             ///< views of one tensor: one input, many outputs
    rotary,            ///< inputs q, k, cos, sin; outputs q, k; or one of them alone
    attention,         ///< inputs q, k, v [, mask]; output o
    activation,        ///< x -> act(x)
    gated_activation,  ///< gate, up -> act(gate) * up
    softcap,           ///< cap * tanh(x / cap)
    clip,              ///< x between two numbers
    pad,               ///< zeros around a grid of patches, in a new tensor
    roll,              ///< patches of a grid move around its edges
    window_mask,       ///< x -> which patches of a shifted window belong together, as numbers; its type is that of x
    window_bias,       ///< [mask] -> what is added to the scores of windows; parameters: table
    merge_patches,     ///< four neighbours of a grid side by side
    drop_path,         ///< stochastic depth: whole samples of a branch are dropped
    dropout,
    causal_lm_loss,    ///< logits -> loss: shifted cross-entropy over the vocabulary
    masked_lm_loss,    ///< logits -> loss: cross-entropy, labels not shifted
    pooler_loss,       ///< a loss over few numbers, of no weight: hidden -> scalar
    linear_loss,       ///< the head's product and the loss in one: hidden -> scalar, logits; parameters
                       ///< as of a linear
    span_loss,         ///< logits of two classes per token -> loss of the first and last token of an answer
    classification_loss,  ///< logits of few classes -> loss, as the problem's type asks for
    moe,               ///< router and experts as one op; parameters: router, experts
    conv_patches,      ///< images -> patches, a convolution without overlap; parameters: weight [, bias]
    concat,            ///< parameters, once for each image, before the inputs
    mean_patches,      ///< mean over an image's patches, without its class tokens
    average_pool,      ///< means over squares of neighbouring patches
    attention_pool,    ///< a learned query attends to an image's patches; parameters: query, weight and
                       ///< bias of the three projections, weight and bias of the output's
    pick_token,        ///< the hidden state of one token of each sequence, looked up by the ids
    contrastive_loss,  ///< embeddings of texts, of images -> loss over all pairs; parameters: scale [, bias]
    join_images,       ///< embeddings of tokens, features of images -> embeddings; then the features as one
                       ///< tensor, and the mask of the places that they take; parameters, where images are cut
                       ///< into tiles: newline
    add_images,        ///< hidden states, features of images -> the sum in the images' places; then the mask
    grid_positions,    ///< patches -> patches plus learned positions of their rows and columns; parameters: table
    pool_grid,         ///< patches -> means over squares of neighbours, scaled
    unfold,            ///< patches of each image -> squares of neighbours side by side
    ids,               ///< whole numbers that the model makes itself: positions, an order of tokens
    reorder,           ///< x, ids -> its rows in another order
    interpolate,       ///< ids -> a table's entries, weighted and summed; ids, weights; parameters: weight
    latent_expand,     ///< inputs keys-and-values, rotated key; outputs k, v (latent attention)
    sparse_mask,       ///< hidden states, latent queries, cos, sin, mask -> the mask of the keys that an indexer
                       ///< chooses; parameters: queries, keys, their norm, weights of the heads. Of blocks of keys:
                       ///< hidden states, cos, sin, mask; queries, keys, norms of both
    spread_streams,    ///< hidden states -> as many residual streams, all alike
    collapse_streams,  ///< streams -> weights of a result, of a mix, one hidden state; or this alone; parameters: weight,
                       ///< base, scale
    mix_streams,       ///< weights of a result, result, weights of a mix, streams -> streams
    altup,             ///< streams of Gemma 3n: see `Altup`
    sparsify,          ///< x -> the part of each row far above its mean
    compress,          ///< hidden states -> keys of windows of tokens [, their bias]; parameters: position bias, weights
                       ///< of keys, of gates, of the norm
    position_bias,     ///< what is added to scores, heads x queries x keys; parameters: [weight], else zeros
    transpose_heads,   ///< a copy that lies in memory head by head
    convolution,       ///< along the sequence, with overlap; parameters: weight [, bias]
    rotary_tables,     ///< cos and sin of the rotation, outside autograd
    attention_mask,    ///< the mask tensor, when the shape or the kernel needs one
};
[[nodiscard]] std::string_view name_of(OpKind kind);

/// Non-linearities by the names of `transformers.activations.ACT2FN`.
enum class Act {
    gelu, gelu_new, gelu_tanh, quick_gelu, silu, relu, relu2, tanh, sigmoid, bloom_gelu, xielu,
    swigluoai,  ///< of gpt-oss and MiniMax-M3, of a gate and a value: both clamped, (up + 1) * gate * sigmoid(a * gate)
};
[[nodiscard]] std::string_view name_of(Act act);

/// RMSNorm variants that differ in what they keep: see the kernels.
enum class NormStyle {
    plain,        ///< Llama: normalise in fp32, cast, times weight
    wide_product, ///< OLMo 2: normalise in fp32, times weight, cast
    centred,      ///< Cohere: a layer norm written out in fp32, times weight in fp32, cast
    one_plus,     ///< Gemma: normalise in fp32, times (1 + weight) in fp32, cast
    t5,           ///< T5: variance in fp32, product in the input's type
    no_weight,    ///< no parameters
    divided,      ///< DeBERTa: a layer norm written out in fp32, divided by the deviation, cast, times weight, plus bias
    wide_weight,  ///< Helium: as OLMo 2, of a weight that is cast to fp32 first
    unweighted,   ///< DeepSeek-V4: without a weight, the product in the input's type
    power,        ///< Gemma 4: the same with a power of the mean; without a weight where it has none
};

/// How a class writes the rotation of queries and keys.
enum class Rotation {
    halves,       ///< Llama, NeoX: the second half crosses with the first
    halves_named, ///< Phi: the same of a part of each head, all parts under names of the attention
    halves_joined,  ///< MiniMax, GPT-NeoX: the same of a part of each head; both are rotated before either is joined
    halves_wide,  ///< ModernBERT: the same in fp32
    halves_promoted,  ///< OLMo: the same with tables in fp32, then cast back
    halves_cast,  ///< Qwen2-VL's tower: the same in fp32, of one copy each
    pairs,        ///< GLM: neighbours cross; the tables are interleaved in each layer
    pairs_apart,  ///< GPT-J: before heads are transposed, with tables interleaved for each tensor
    pairs_apart_promoted,  ///< the same, with tables in fp32 (CodeGen)
    pairs_wide,   ///< Cohere: neighbours cross, in fp32
    pairs_cast,   ///< ERNIE 4.5: neighbours cross, then all is cast to fp32; the tables are fp32
    sinusoids,    ///< RoFormer: neighbours cross; both tables are made of one in each layer
    chunks,       ///< gpt-oss: halves, each a difference or a sum of products, concatenated
    latent,       ///< DeepSeek-V3: a part of each query head and the one key that all heads share
    latent_complex,  ///< DeepSeek-V2: the same as complex products in fp32
    latent_halves,   ///< MiniCPM3: the same with halves
    complex,      ///< Llama 4: complex products in fp32, before heads are transposed
    trailing,     ///< DeepSeek-V4: neighbours cross at the end of each head, in fp32; one tensor at a time
    of_patches,   ///< DINOv3: halves, but not of the tokens before the patches
    axial,        ///< Gemma 4's tower: halves of each half of a head; one tensor at a time
};

/// Steps of alternating updates, of streams of which the first is active (arXiv:2301.13310).
enum class Altup {
    spread,    ///< hidden states -> streams, the others of them, the last projection; parameters: a weight for each
    predict,   ///< streams, coefficients -> streams
    correct,   ///< predicted streams, active one, modalities -> streams; parameters: weight of the coefficients
    add,       ///< streams, one more -> all but the active one plus that, in place
    collapse,  ///< streams -> their mean; parameters: a weight for each but the active one
};

/// Who writes the attention of a class.
enum class AttentionForm {
    shared,   ///< the library's functions, one of which the user chooses
    indexed,  ///< the library's functions, always under a mask
    gptj,     ///< its own eager function: scores in fp32
    gpt_neo,  ///< no choice: scores in fp32, causal and local masks from a buffer
    bloom,    ///< no choice: ALiBi is added while scores are computed
    mpt,      ///< no choice: ALiBi in fp32, a boolean mask
    falcon,   ///< its own eager function; always under a mask
    disentangled,  ///< no choice: DeBERTa, scores of relative positions; inputs v, q, k, mask, then the
                   ///< projected positions for `by_key`, for `by_query`
    disentangled_joined,  ///< the same in its first version: inputs q, k, v, mask, then positions
    gpt_oss,  ///< no SDPA; a learned score per head is concatenated with those of the keys
    granite_swa,  ///< no SDPA; a learned score per head scales the result
    openai_gpt,   ///< no choice: scores are multiplied by a causal buffer
    xglm,         ///< no choice: batches of heads are laid out first
    returned,     ///< no choice: RoFormer, RemBERT, whose layers return the probabilities
    mpnet,        ///< no choice: a position bias is added in place
    blip,         ///< no choice: as RoFormer, but the layers keep the probabilities
    cosine,       ///< no choice: Swin v2, cosines of queries and keys; parameters: scale, weight and bias, then weight
                  ///< of the network that makes the bias of a window
    compressed,  ///< no SDPA: DeepSeek-V4, keys of windows beside those of tokens, one for all heads; inputs q, k, mask,
                 ///< cos, sin [, keys of windows, their bias]; parameters: sinks, weight of the grouped projection
    mimo,     ///< as `gpt_oss`, in the layers that have such scores; names are bound anew
};
/// How a class routes tokens to experts.
enum class RouterForm {
    mixtral,      ///< softmax in fp32, the best, normalised
    qwen,         ///< the same, normalised if the config says so, cast back
    granite,      ///< the best of fp32 logits, their softmax cast back
    gpt_oss,      ///< the best logits, their softmax in their type; experts clamp and interleave
    deepseek_v2,  ///< softmax in fp32 from fp32 inputs
    deepseek_v3,  ///< sigmoid in fp32 from fp32 inputs, groups of experts
    minimax,      ///< sigmoid of fp32 logits, normalised in place
    hunyuan,      ///< sigmoid in fp32 from fp32 inputs, divided by its sum
    afmoe,        ///< sigmoid of fp32 logits, divided by its sum
    cohere,       ///< the best logits, their softmax in fp32, cast back
    cohere_sigmoid,  ///< the best logits, their sigmoid, divided by its sum if the config says so
    ernie,        ///< softmax in fp32 outside autocast, divided by its sum, cast back
    llama4,       ///< sigmoid of the best logits among -inf; experts run over all tokens
    phimoe,       ///< sparsemixer: two experts, sampled one after the other
    gemma4,       ///< of its own input, normalised and scaled: softmax in fp32, normalised, times a number per expert
    deepseek_v4,  ///< square roots of softplus of the logits, divided by their sum; experts clamp
    deepseek_v4_hashed,  ///< the same of experts that the token's id tells
    dbrx,         ///< softmax in the logits' type, divided by its norm; three matrices, always one expert after the other
};
/// When a mixture runs its shared expert, and how it joins the others.
enum class SharedExpert {
    last,     ///< after them: x = routed + shared(x)
    first,    ///< before the router
    between,  ///< between the router and the experts
    wide,     ///< after them, added in fp32
    mean,     ///< after them, half the sum
};

/// What a classifier is trained for [transformers loss/loss_utils.py ForSequenceClassificationLoss].
enum class Problem {
    single_label,  ///< cross-entropy of one class
    multi_label,   ///< binary cross-entropy of each class
    regression,    ///< mean squared error
};

/// The class has this one function, whatever kernel is asked for.
[[nodiscard]] constexpr bool has_no_choice(AttentionForm form) {
    return form == AttentionForm::gpt_neo || form == AttentionForm::bloom ||
           form == AttentionForm::mpt || form == AttentionForm::gpt_oss || form == AttentionForm::mimo ||
           form == AttentionForm::disentangled || form == AttentionForm::disentangled_joined ||
           form == AttentionForm::granite_swa ||
           form == AttentionForm::openai_gpt || form == AttentionForm::xglm || form == AttentionForm::returned ||
           form == AttentionForm::mpnet || form == AttentionForm::compressed || form == AttentionForm::blip ||
           form == AttentionForm::cosine;
}

/// The numbers an op needs beyond its tensors. Only the fields of its kind mean something.
struct OpAttributes {
    std::int64_t heads = 0;          ///< query heads; of a norm: heads that are normalised apart
    std::int64_t kv_heads = 0;
    std::int64_t head_dim = 0;       ///< of queries and keys
    std::int64_t value_dim = 0;      ///< of values; 0: head_dim
    /// Dimensions that are sliced off, rotated and concatenated again; 0: the whole head is rotated,
    /// without slices.
    std::int64_t rotary_dim = 0;
    Rotation rotation = Rotation::halves;
    AttentionForm form = AttentionForm::shared;
    bool rotates = false;            ///< of an attention: its queries and keys come from a rotation
    /// Of an attention: `transpose_heads` has made its inputs; of a linear: its input lies channel by channel, as a
    /// convolution made it.
    bool transposed = false;
    bool head_major = false;         ///< queries and keys lie in memory head by head
    bool sliced = false;             ///< of a split: parts are sliced off one by one; of a join: the images are
    bool same = false;               ///< of a split: its output is its input, or a parameter, under another name
    /// Heads were cut before queries, keys and values were taken apart: their gradients are stacked from
    /// any layout.
    bool unbound = false;
    std::int64_t axes = 0;           ///< of rotary tables: positions in so many directions, of each token
    bool interleaved = false;        ///< of rotary tables: the directions take turns; of a sparse mask: neighbours cross
    std::int64_t chosen = 0;         ///< of a sparse mask: keys of each token, or blocks of them
    std::int64_t key_block = 0;      ///< of a sparse mask: so many keys are chosen together; 0: each by itself
    std::int64_t local_blocks = 0;   ///< of a sparse mask: so many blocks before each query are always chosen
    std::int64_t streams = 0;        ///< of a collapse
    std::int64_t iterations = 0;     ///< of a collapse: rows and columns of a mix are normalised so often
    std::int64_t rate = 0;           ///< tokens that become one key; 0: none
    bool overlaps = false;           ///< of a compression: each window reads the one before
    bool passed_on = false;          ///< of a sparse mask: the layer returns the choice, which the next one gets
    bool chosen_before = false;      ///< of a sparse mask: the choice is the one that the layer got, and returns
    bool returns_weights = false;    ///< of such an attention: the layer gets the probabilities of all images
    bool each_image = false;         ///< of an attention: one image, or window of it, after the other
    bool stored = false;             ///< of an attention: a dictionary of the model's keeps its keys and values
    bool packed = false;             ///< of an attention over patches: all images are one sequence
    bool scaled = false;             ///< of an embedding: its module also scales what it looks up, which is the next op;
                                     ///< of pixels: they are shifted and scaled
    bool hookless = false;           ///< of patches: the class does not say that they are its input embeddings
    std::int64_t windows = 0;        ///< of an attention over images: each is cut into so many; 0: into none
    std::int64_t image_window = 0;   ///< side of such a window in tokens of the text; 0: none
    bool masked = false;             ///< of a mean: over the tokens of each sequence that are no padding
    bool shifted = false;            ///< of a loss over words: each token's label is the next token
    bool smoothed = false;           ///< of such a loss: a part of each label is spread over all words
    bool widened = false;            ///< of a loss: the logits are cast to fp32 first; of an activation: so is its input, and the
                                     ///< result takes the type of a second one
    std::int64_t routers = 0;        ///< of a loss: so many routers' logits join it, to even out the experts' load
    bool wide_routers = false;       ///< of a loss: those logits are in fp32
    bool keeps_logits = false;       ///< of a mixture: its router's logits are a field of the model's outputs
    bool by_position = false;        ///< of a scale: by a number for each position, in fp32
    bool chunked = false;            ///< of a mask: its window is a chunk of each sequence
    bool in_place = false;           ///< of an add, a scale or a clip: writes its first input
    bool bagged = false;             ///< of an interpolation: entries are summed by `embedding_bag`, and added to the patches
    bool scattered = false;          ///< of a reordering: rows are added to zeros in fp32
    bool unfolded = false;           ///< of a linear: its input are the pixels of patches, column by column
    bool weight_copied = false;      ///< of a linear: autocast copies the weight at each use
    bool causal = true;
    Rows queries = Rows::positions, keys = Rows::positions;  ///< of a mask or a position bias
    bool cast_to_weight = false;     ///< of a linear: the input is cast to the weight's type first; of patches: the output is
    bool own_ids = false;            ///< of an embedding: the model makes the ids, which backward needs
    std::int64_t stride = 1;         ///< of a convolution
    std::int64_t window = 0;         ///< sliding window in tokens; 0: none
    double softcap = 0;              ///< of attention scores or logits; 0: none
    double dropout = 0;              ///< probability
    bool bias = false;               ///< scores get an additive bias (ALiBi, T5); of ids: they are its table
    bool strided = false;            ///< of a linear: its input is a slice with gaps; of a convolution: channels last
    bool by_id = false;              ///< of a picked token: it has an id of its own; else it is the largest
    bool listed = false;             ///< of a join or concatenation: features of images come as a list; of a
                                     ///< norm of heads: each has a module of its own
    bool of_keys = false;            ///< of a mask: a number for each key of each sequence, padding or not
    bool of_batch = false;           ///< of a position bias: written out for each sequence
    bool image_blocks = false;       ///< of a mask: the tokens of one image see each other
    bool by_key = false, by_query = false;  ///< relative positions meet queries as keys, and keys as queries
    bool softmax_in_dtype = false;   ///< the class's eager softmax keeps the scores' type (GPT-2, BERT)
    bool cast_to_values = false;     ///< its probabilities take the values' type before dropout (GPT-2)
    Act act = Act::silu;
    Altup altup = Altup::spread;
    NormStyle norm = NormStyle::plain;
    std::int64_t experts = 0, experts_per_token = 0, expert_width = 0, shared_width = 0;
    RouterForm router = RouterForm::mixtral;
    Problem problem = Problem::single_label;
    bool normalised = false;         ///< the weights of a token's experts sum to 1
    bool expert_bias = false;
    SharedExpert shared = SharedExpert::last;
    bool shared_gate = false;        ///< the shared expert has a gate
    bool jittered = false;           ///< of a mixture: noise multiplies its input in place
    bool shared_bias = false;        ///< the shared expert's modules have biases
    bool shared_fused = false;       ///< one projection makes its gate and its value
    bool bounded = false;            ///< of a gated activation or a mixture: act(gate) and up are clamped before their product
    bool looped = false;             ///< of a mixture: the class runs one expert after the other, whatever is asked for
    bool scales_routed = false;      ///< what the routed experts make is multiplied by a number
};

/// A low-rank adapter on a linear module or an embedding.
struct Adapter {
    std::int64_t rank = 0;
    double dropout = 0;
    /// Index into `Op::parameters` of the weight of its module, which is the op or one that the op runs.
    int weight = 0;
    /// Indices into `Op::parameters`; -1: none. `a` and `b` are the two factors.
    int a = -1, b = -1, bias = -1, magnitude = -1;
};

/// Low-rank factors that are folded into a parameter itself before its module runs: W + scale * B @ A
/// [peft tuners/lora/layer.py ParamWrapper].
struct ParameterAdapter {
    /// Indices into `Op::parameters`: the parameter, and its factors.
    int parameter = -1, a = -1, b = -1;
    std::int64_t rank = 0;
    bool scaled = true;   ///< the scale is not 1
    bool in_out = false;  ///< the matrices of a stack are in x out
};

/// What depends on the result of an op.
enum class Reader {
    loss,
    outputs,  ///< a field of the model's outputs alone, which keeps the graph behind it
    nobody,   ///< nothing; its part of the graph goes with it, or there is none
    dropped,  ///< nothing; its graph is recorded, and gone when it has run
};

/// One op of a block, in the order in which the model's forward runs it. Views and reshapes are none.
struct Op {
    OpKind kind = OpKind::add;
    std::string name;                 ///< module path: "self_attn.q_proj"
    std::string_view term;            ///< where its tensors are booked: "activations/attention"
    std::vector<int> inputs;          ///< indices into `Block::tensors`
    std::vector<int> outputs;
    std::vector<int> parameters;      ///< indices into `Block::parameters`
    OpAttributes attributes;
    /// Their parameters stand behind the op's own.
    std::optional<Adapter> adapter;
    std::vector<Adapter> inner_adapters;               ///< of linear modules that a mixture runs
    std::vector<ParameterAdapter> parameter_adapters;  ///< of the inmost wrapper first
    Reader reader = Reader::loss;
    bool within_layer = false;        ///< of a layer that its block runs beside other ops
};

/// A run of ops that is one function of the framework, or the life of one of its names. Scopes nest.
/// An `until_scope_end` tensor belongs to the innermost scope that holds the op which makes it and
/// goes on after it (what a scope's last op makes is its result, which the enclosing scope owns); a
/// block's input belongs to the whole block. It dies at the end of its scope.
struct Scope {
    int first_op = 0;
    int end_op = 0;  ///< one past the last
};

/// One distinct block: the embeddings, a decoder layer, the head with the loss.
struct Block {
    std::string name;                    ///< "decoder layer": for people
    std::vector<Parameter> parameters;
    std::vector<Tensor> tensors;
    std::vector<Op> ops;
    std::vector<Scope> scopes;
    int input = -1;                      ///< tensor that comes from the block before; -1 in a stem
    int output = -1;                     ///< tensor that goes on; -1 in a head, or at the end of a chain
    /// In the last block of a chain: how many of the first ops belong to the function that runs the
    /// blocks. After them its local variables die: `until_model_end`, and what of `Model::shared` the
    /// chain made.
    int base_model_end = 0;
    bool by_keyword = false;             ///< the class gives it its input by keyword, which a reentrant checkpoint overlooks
    bool checkpointable = false;         ///< a unit of activation checkpointing and of FSDP wrapping
};

/// A stretch of the model: `pattern` (indices into `Model::blocks`) repeated `count` times.
struct Section {
    /// Prefix of the parameter names of a copy; `{}` stands for the layer's index:
    /// "model.layers.{}." or "".
    std::string prefix;
    std::int64_t first_index = 0;
    std::vector<int> pattern;
    std::int64_t count = 1;
};

/// Facts of the config that reports show.
struct ModelFacts {
    std::int64_t hidden_size = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
    std::int64_t intermediate_size = 0, vocab_size = 0, max_positions = 0;
    std::string torch_dtype;   ///< as in the file; empty when absent
};

/// The images that a vision tower takes; without a tower all is 0.
struct ImageShape {
    std::int64_t channels = 0, height = 0, width = 0;
    std::int64_t rows = 0;      ///< rows of the tower per image: patches and class tokens
    std::int64_t patches = 0;   ///< of these, the patches
    std::int64_t tokens = 0;    ///< tokens of the text whose place an image takes
    /// Of a tower that takes images of any size: side of a patch in pixels, and how many patches a token of
    /// the text has on each side; else 0. Then the job says how large the images are.
    std::int64_t patch = 0, merge = 0;
    bool one_each = false;      ///< each sequence has one image
    /// Heights and widths, one of which an image of any size is fitted into and cut into tiles of `height` x
    /// `width`; one more tile is the whole image. Empty: none are cut.
    std::vector<std::pair<std::int64_t, std::int64_t>> grids{};
    std::int64_t tiles = 1;     ///< of an image
    /// Tokens of an image in rows and columns; of a cut one those of its tiles together, without padding.
    std::int64_t token_rows = 0, token_columns = 0;

    [[nodiscard]] bool any_size() const { return patch > 0 || !grids.empty(); }
    /// The image's sides are multiples of so many pixels.
    [[nodiscard]] std::int64_t cell() const { return grids.empty() ? patch * merge : 1; }
    /// Images of this size.
    void set_size(std::int64_t high, std::int64_t wide);

    [[nodiscard]] std::int64_t pixels() const { return channels * height * width; }
};

/// A tensor of the batch: it waits on the device before the step begins.
struct ModelInput {
    std::string_view name;         ///< in the plural: "token ids"
    Rows rows = Rows::tokens;
    std::int64_t width = 1;
    const Dtype* dtype = &dtype::int64;  ///< null: the type of the parameters
};

/// A network, independent of batch and sequence length. Its blocks form chains: a block without an input
/// begins one (the stem of an encoder, then that of the decoder), the next one's begins after its end.
/// What crosses from chain to chain, or skips blocks, is in `shared`.
struct Model {
    std::string family;        ///< row of the families table
    std::string architecture;  ///< class name: "LlamaForCausalLM"
    std::string source;        ///< where the structure was read
    std::vector<Block> blocks;       ///< distinct ones
    std::vector<Section> sections;   ///< in execution order
    /// Tensors that one block makes and others read: cos and sin, masks; with gradients the last hidden
    /// states of an encoder, or position biases.
    std::vector<Tensor> shared;
    /// Rows per sequence of an encoder that reads sequences of one length only; 0: the job says how long
    /// they are.
    std::int64_t source_positions = 0;
    std::vector<ModelInput> inputs;  ///< of one micro-batch
    ImageShape image;
    ModelFacts facts;
    /// Adapters, freezing or a quantized base have changed it.
    bool adapted = false;
    /// Why the training step cannot be simulated though parameters are known; empty: it can.
    std::string step_unsupported;
    /// Why its checkpoints cannot be simulated though its step can; empty: they can.
    std::string checkpointing_unsupported;
    /// Notes on keys that decided something, for the assumptions of the report.
    std::vector<std::string> notes;

    /// Calls `visit(full_name, parameter, copies)` once for each distinct parameter, in order; the
    /// name of a repeated one keeps `{}` for the layer's index.
    template <class Visit>
    void for_each_parameter(Visit&& visit) const;
};

/// Whether parameter `index` of the op's block is one of the op's.
[[nodiscard]] bool uses(const Op& op, std::size_t index);
/// The model's first op of this kind; null: it has none.
[[nodiscard]] const Op* find_op(const Model& model, OpKind kind);
[[nodiscard]] inline bool has_op(const Model& model, OpKind kind) { return find_op(model, kind) != nullptr; }
/// Whether the model caps the scores of its attention.
[[nodiscard]] inline bool caps_scores(const Model& model) {
    const Op* const attention = find_op(model, OpKind::attention);
    return attention != nullptr && attention->attributes.softcap > 0;
}

/// Counts over all parameters of a model.
struct ParameterCounts {
    Elements total;    ///< unique elements in memory: a tied tensor counts once
    Elements untied;   ///< as if nothing were tied
    Elements active;   ///< used for one token: all but the experts that are not routed to
    Elements trainable;
};
[[nodiscard]] ParameterCounts count_parameters(const Model& model);

/// A config's keys as its family reads them: nested `text_config`, synonyms, class defaults.
struct Family {
    std::string_view name;           ///< `model_type`
    std::string_view architectures;  ///< class names it builds, separated by spaces; first: default
    std::string_view doc;
    std::string_view source;         ///< where structure and defaults were read
    /// Builds the model of `architecture` (empty: what the config names, else the default).
    /// Pointers of diagnostics point into the config.
    Result<Model> (*build)(const Family& family, const KeyTree& config,
                           std::string_view architecture);
    /// Config keys that it reads, separated by spaces, each `name|synonym|...=default`: the default of
    /// the configuration class for a key that a file leaves out; none where it follows from others.
    std::string_view keys;
    /// Rules, separated by spaces and applied in this order, that make the full name of a tensor in a
    /// published file of its name in the class: `CLASS=FILE` replaces the first CLASS (`^CLASS` at the
    /// start only); `{E}` stands for the experts of a stack. Empty: the names are the same.
    std::string_view stored_names = {};
};
[[nodiscard]] Table<Family> families();

/// All names under which the family reads a key, synonyms included, in the order of `Family::keys`.
[[nodiscard]] std::vector<std::string_view> key_names(const Family& family);

/// Keys of a config written for `family` by hand that it does not read, with a suggestion. A published
/// config.json has many keys of no interest: it is not to be checked.
[[nodiscard]] Diagnostics unknown_keys(const Family& family, const KeyTree& config);

/// Builds the model that a config describes, by its `model_type` (or `architectures`).
/// `architecture` overrides the class that the config names; of a composite config it may be a class of its
/// `text_config`, which is built alone then. Unknown families are unsupported.
[[nodiscard]] Result<Model> build_model(const KeyTree& config, std::string_view architecture = {});

/// The class of a composite config's language model, where that is a causal one; empty: there is none.
[[nodiscard]] std::string_view language_model_class(const KeyTree& config);

/// A well-known model that needs no file: what its published config says.
struct CatalogueModel {
    std::string_view name;          ///< "llama-3.1-8b"
    std::string_view doc;           ///< where it is published: "meta-llama/Llama-3.1-8B"
    std::string_view family;        ///< a row of `families()`
    std::string_view architecture;  ///< the class that is built unless another is asked for
    std::int64_t parameters = 0;    ///< `ParameterCounts::total` of that class
    std::string_view source;        ///< where the keys and the count are from
    std::string_view keys;          ///< its config, as a JSON object: the keys that decide something

    /// The config, as `build_model` reads it.
    [[nodiscard]] KeyTree config() const;
};
[[nodiscard]] Table<CatalogueModel> catalogue();

// --- adapters, freezing, quantized bases ----------------------------------------------------------

/// Low-rank adapters as PEFT's `LoraConfig` describes them, with its defaults.
struct Lora {
    enum class Bias { none, all, lora_only };
    std::int64_t rank = 8;
    std::int64_t alpha = 8;
    double dropout = 0;
    /// Names of modules, whole or as a suffix after a dot. One name "all-linear" stands for all linear
    /// modules but the output embedding.
    std::vector<std::string> targets;
    std::string target_pattern;               ///< regular expression for whole names; empty: none
    /// Parameters that are adapted themselves, whole or as a suffix after a dot: stacks of experts.
    std::vector<std::string> target_parameters;
    std::vector<std::string> excluded;        ///< as `targets`
    std::string excluded_pattern;
    std::vector<std::string> modules_to_save; ///< suffixes of modules of which a copy is trained
    std::vector<std::int64_t> layers;         ///< indices of the layers that get adapters; empty: all
    std::vector<std::string> layer_patterns;  ///< names of the lists that these count; empty: any
    std::vector<std::pair<std::string, std::int64_t>> rank_patterns;  ///< regular expression -> rank
    Bias bias = Bias::none;
    bool dora = false;                        ///< a magnitude per output beside the direction
    bool lora_bias = false;                   ///< the second factor has a bias
    bool sequence_classification = false;     ///< PEFT's task type: spares the classifier
    const Dtype* dtype = nullptr;             ///< of the adapters; null: as the precision says
};
/// Freezes `model` and adds the adapters, under PEFT's names of modules and tensors. Without any
/// target those of the family are taken. Pointers of diagnostics point into the adapter's config.
[[nodiscard]] Result<Model> with_lora(Model model, const Lora& lora);
/// PEFT's targets for a family: names separated by spaces; empty where it knows none.
[[nodiscard]] std::string_view default_lora_targets(std::string_view family);

/// Freezes the parameters that a pattern matches: a module's path or a suffix of it after a dot stands
/// for everything in it; with `*` for any text, the pattern stands for names of parameters, whole or
/// after a dot. A pattern after `!` unfreezes; of several the last that matches counts. Pointers are
/// "/INDEX".
[[nodiscard]] Result<Model> with_frozen(Model model, const std::vector<std::string>& patterns);

/// The head's matrix product and the loss become one op, for losses that compute both. Unsupported
/// where the head does something that they do not know.
[[nodiscard]] Result<Model> with_linear_loss(Model model);

/// How a quantized weight is multiplied.
enum class QuantizedProduct {
    four_bit,  ///< dequantized as a whole in forward and again in backward; input not kept
    int8,      ///< the input is quantized too, and kept for backward in its own type
    gptq,      ///< unpacked by ops of the framework, and the unpacked weight kept for backward
    awq,       ///< unpacked in forward, and again for each sequence in backward; the input is kept
};

/// Numbers of a quantization that a spec may change.
struct QuantizationOptions {
    std::int64_t block_size = 64;   ///< weights that share a scale (bitsandbytes)
    std::int64_t group_size = 128;  ///< inputs that share a scale and a zero point; -1: all of them
    bool double_quant = false;      ///< the scales are quantized too
};

/// A way to store the weights of linear modules in few bits.
struct Quantization {
    std::string_view name;  ///< "nf4"
    std::string_view doc;
    int bits = 4;
    QuantizedProduct product = QuantizedProduct::four_bit;
    /// The tensors that hold a weight of `out` x `in`.
    std::vector<StoredTensor> (*store)(std::int64_t out, std::int64_t in,
                                       const QuantizationOptions& options) = nullptr;
    /// PEFT's preparation for k-bit training turns what is left in 16 bits to fp32.
    bool upcasts = false;
    std::string_view source;
};
[[nodiscard]] Table<Quantization> quantizations();

/// A quantized base.
struct QuantizedBase {
    const Quantization* row = nullptr;
    QuantizationOptions options;
    const Dtype* compute = nullptr;  ///< type into which weights are dequantized
    /// Modules that stay as they are, as path or suffix; absent: the output embedding, tied modules and
    /// the last one, as transformers does.
    std::optional<std::vector<std::string>> skipped;
    const Dtype* others = nullptr;   ///< type of all other parameters; null: as the precision says
};
/// Freezes `model` and quantizes its linear modules.
[[nodiscard]] Result<Model> with_quantized_base(Model model, const QuantizedBase& base);

// --- weight files ---------------------------------------------------------------------------------

/// Formats of weight files whose headers are read; the weights themselves never are.
enum class WeightFormat {
    safetensors,  ///< names, types and exact shapes
    index,        ///< `*.index.json` over shards: names and total bytes, no shapes
    gguf,         ///< names of llama.cpp, types and exact shapes
};
[[nodiscard]] std::string_view name_of(WeightFormat format);

/// A tensor of a weight file.
struct WeightTensor {
    std::string name;
    std::vector<std::int64_t> shape;  ///< in the framework's order; empty in an index
    std::string dtype;                ///< as the format names it ("BF16", "Q4_K"); empty in an index
    Elements elements;
    Bytes bytes;
    std::string shard;                ///< file that holds it; only in an index
};

/// What the header of a weight file says.
struct WeightFile {
    WeightFormat format = WeightFormat::safetensors;
    std::string file;                     ///< as the user named it
    std::vector<WeightTensor> tensors;    ///< in the order of the header
    std::optional<Bytes> total_bytes;     ///< of all tensors; an index need not say it
};

/// Reads the header of a safetensors file of `size` bytes from the start of `in`. Refuses what the
/// format forbids: a header over 100,000,000 bytes, repeated names, unknown types, data that
/// overlaps, leaves holes or does not end with the file. Reads no byte after the header.
/// Pointers of diagnostics point into the header's JSON.
[[nodiscard]] Result<WeightFile> read_safetensors_header(std::istream& in, std::int64_t size,
                                                         std::string_view file);
/// Reads the text of a `*.index.json`. Keys that it does not know are skipped.
[[nodiscard]] Result<WeightFile> read_safetensors_index(std::string_view text,
                                                        std::string_view file);
/// Reads the header of a GGUF file of `size` bytes, version 2 or 3, from the start of `in`.
/// Big-endian files and other versions are unsupported. Pointers of diagnostics are
/// `/metadata/KEY` and `/tensors/NAME`.
[[nodiscard]] Result<WeightFile> read_gguf_header(std::istream& in, std::int64_t size,
                                                  std::string_view file);
/// Reads the header of a weight file of any of these formats, which its content tells.
[[nodiscard]] Result<WeightFile> read_weights(const std::string& path);

/// One tensor in which a weight file and a model differ.
struct WeightDifference {
    std::string tensor;  ///< its name in the file, or in the model when the file lacks it
    std::string what;    ///< "expected shape [8, 4]; got [4, 8]", "in the file, not in the model", ...
    std::string reason;  ///< why that is no mistake ("buffer, not a parameter"); empty: unexplained
};

/// A weight file beside the model that a config describes.
struct WeightCheck {
    std::int64_t matched = 0;  ///< tensors of the file that are parameters of the model
    Elements parameters;       ///< of the model, a tied tensor once
    std::vector<WeightDifference> differences;
    /// Nothing is left unexplained.
    [[nodiscard]] bool ok() const;
};
/// Compares names and shapes, and of an index the total against parameters x bytes of the type. Names
/// may be those of the class or of published files; of a GGUF file they are llama.cpp's for decoders
/// in Llama's modules, and for other models only the number of elements is compared.
[[nodiscard]] WeightCheck check_weights(const Model& model, const WeightFile& weights);

/// Files that hold one set of weights, beside the model.
struct WeightReport {
    std::vector<std::string> files;     ///< more than one: shards
    WeightFormat format = WeightFormat::safetensors;
    std::int64_t tensors = 0;
    std::optional<Bytes> total_bytes;
    WeightCheck check;
};
/// Reads and checks weight files: those of one format are the shards of one set of weights, an index
/// speaks for itself. Every file that cannot be read is a diagnostic.
[[nodiscard]] Result<std::vector<WeightReport>> check_weight_files(
    const Model& model, const std::vector<std::string>& paths);

/// "291 of 291 tensors are the model's: the count matches", or what differs most.
[[nodiscard]] std::string verdict_of(const WeightReport& report);

// ------------------------------------------------------------------------------------------------

template <class Visit>
void Model::for_each_parameter(Visit&& visit) const {
    for (const Section& section : sections)
        for (const int index : section.pattern)
            for (const Parameter& parameter : blocks[static_cast<std::size_t>(index)].parameters)
                if (const std::string name = section.prefix + parameter.name; name != parameter.tied_to)
                    visit(name, parameter, section.count);
}

}  // namespace membudget
