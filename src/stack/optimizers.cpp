#include "membudget/stack.hpp"
#include "stack/optimizer_sizes.hpp"

/// The optimizers: one row each, with what its framework keeps per parameter and allocates during a
/// step. "Measured" temporaries are live bytes beyond parameters, gradients and states while step()
/// runs, recorded at every operator of PyTorch 2.13.0 (the C++ kernels' own scratch is not in them).
///
/// Adding one: a row in `optimizers()` with its slots and implementations above; a size rule that is
/// not there yet goes to optimizer_sizes.cpp.

namespace membudget {

namespace {

using Slots = std::span<const StateSlot>;
using Implementations = std::span<const OptimizerImplementation>;

constexpr std::string_view kFull = "numel x dtype";
/// From this many elements on, bitsandbytes pages a state tensor [optim/optimizer.py
/// get_state_buffer].
constexpr std::int64_t kPagedFrom = 100'000;
/// Values of the codes of one 8-bit state, shared by all tensors [optim/optimizer.py name2qmap].
constexpr std::int64_t kCodeTable = 256 * 4;

constexpr StateSlot keeps(std::string_view name) {
    return {.name = name, .size = sizes::full, .rule = kFull};
}

// --- states --------------------------------------------------------------------------------------

constexpr StateSlot kMomentum[] = {keeps("momentum_buffer")};
constexpr StateSlot kExpAvg[] = {keeps("exp_avg")};
constexpr StateSlot kAdam[] = {keeps("exp_avg"), keeps("exp_avg_sq")};
constexpr StateSlot kAmsgrad[] = {keeps("exp_avg"), keeps("exp_avg_sq"), keeps("max_exp_avg_sq")};
constexpr StateSlot kAdamax[] = {keeps("exp_avg"), keeps("exp_inf")};
constexpr StateSlot kAdadelta[] = {keeps("square_avg"), keeps("acc_delta")};
constexpr StateSlot kAdagrad[] = {keeps("sum")};
constexpr StateSlot kRmsprop[] = {keeps("square_avg")};
constexpr StateSlot kRmspropMomentum[] = {keeps("square_avg"), keeps("momentum_buffer")};
constexpr StateSlot kRmspropCentered[] = {keeps("square_avg"), keeps("grad_avg")};
constexpr StateSlot kRmspropBoth[] = {keeps("square_avg"), keeps("momentum_buffer"), keeps("grad_avg")};
constexpr StateSlot kScheduleFree[] = {keeps("z"), keeps("exp_avg_sq")};
constexpr StateSlot kShampoo[] = {
    keeps("momentum_buffer"),
    {.name = "pre_cond", .size = sizes::shampoo_matrices, .rule = "sum of dimension^2 x dtype"},
    {.name = "inv_pre_cond", .size = sizes::shampoo_matrices, .rule = "sum of dimension^2 x dtype"}};
constexpr StateSlot kAdafactor[] = {
    {.name = "row_var", .size = sizes::row_factor, .rule = "matrices: numel / last dimension x dtype"},
    {.name = "col_var",
     .size = sizes::column_factor,
     .rule = "matrices: numel / last dimension but one x dtype"},
    {.name = "variance", .size = sizes::vectors_only, .rule = "vectors: numel x dtype"}};
constexpr StateSlot kAdamMini[] = {
    {.name = "m", .size = sizes::full, .rule = kFull},
    {.name = "vmean", .size = sizes::per_row, .rule = "one per row of a matrix, one per vector x dtype"}};
constexpr StateSlot kGalore[] = {
    {.name = "projector",
     .size = sizes::galore_projector,
     .rule = "rank x smaller dimension x dtype; fp32: smaller dimension^2, of which it is a view"},
    {.name = "exp_avg", .size = sizes::galore_moment, .rule = "rank x larger dimension x dtype"},
    {.name = "exp_avg_sq", .size = sizes::galore_moment, .rule = "rank x larger dimension x dtype"}};

constexpr std::string_view kAo8Rule =
    "numel x 1 B + 4 B per block + 1 KiB; below 4096 elements or not divisible: numel x dtype";
constexpr StateSlot kAo8[] = {
    {.name = "exp_avg", .size = sizes::ao_state<8, 256>, .rule = kAo8Rule, .quantized = true},
    {.name = "exp_avg_sq", .size = sizes::ao_state<8, 256>, .rule = kAo8Rule, .quantized = true}};
constexpr std::string_view kAoFp8Rule =
    "numel x 1 B + 4 B per block; below 4096 elements or not divisible: numel x dtype";
constexpr StateSlot kAoFp8[] = {
    {.name = "exp_avg", .size = sizes::ao_state<8, 0>, .rule = kAoFp8Rule, .quantized = true},
    {.name = "exp_avg_sq", .size = sizes::ao_state<8, 0>, .rule = kAoFp8Rule, .quantized = true}};
constexpr std::string_view kAo4Rule =
    "numel x 0.5 B + 4 B per block + 64 B; below 4096 elements or not divisible: numel x dtype";
constexpr StateSlot kAo4[] = {
    {.name = "exp_avg", .size = sizes::ao_state<4, 16>, .rule = kAo4Rule, .quantized = true},
    {.name = "exp_avg_sq", .size = sizes::ao_state<4, 16>, .rule = kAo4Rule, .quantized = true}};

// The slots whose type does not follow the parameter refer to element types of another translation
// unit: no constants, so they are made on first use.

Slots soap_slots() {
    static const StateSlot slots[] = {
        keeps("exp_avg"),
        keeps("exp_avg_sq"),
        {.name = "GG", .dtype = &dtype::fp32, .size = sizes::soap_matrices,
         .rule = "matrices: sum of dimension^2 x dtype, without dimensions above max_precondition_dim"},
        {.name = "Q", .dtype = &dtype::fp32, .size = sizes::soap_matrices,
         .rule = "matrices: sum of dimension^2 x dtype, without dimensions above max_precondition_dim"}};
    return slots;
}

Slots adafactor_hf_slots(bool first_moment) {
    static const StateSlot slots[] = {
        {.name = "exp_avg", .dtype = &dtype::fp32, .size = sizes::full, .rule = kFull},
        {.name = "exp_avg_sq_row", .dtype = &dtype::fp32, .size = sizes::row_factor,
         .rule = "matrices: numel / last dimension x dtype"},
        {.name = "exp_avg_sq_col", .dtype = &dtype::fp32, .size = sizes::column_factor,
         .rule = "matrices: numel / last dimension but one x dtype"},
        {.name = "exp_avg_sq", .dtype = &dtype::fp32, .size = sizes::vectors_only,
         .rule = "vectors: numel x dtype"}};
    return first_moment ? Slots(slots) : Slots(slots).subspan(1);
}

/// Adam's two moments, in fp32 whatever the parameters are.
Slots fp32_adam_slots() {
    static const StateSlot slots[] = {
        {.name = "exp_avg", .dtype = &dtype::fp32, .size = sizes::full, .rule = kFull},
        {.name = "exp_avg_sq", .dtype = &dtype::fp32, .size = sizes::full, .rule = kFull}};
    return slots;
}

/// bitsandbytes' names: state1 is the first moment, state2 the second.
Slots bnb32_slots(bool paged) {
    static const StateSlot slots[][2] = {
        {{.name = "state1", .dtype = &dtype::fp32, .size = sizes::full, .rule = kFull},
         {.name = "state2", .dtype = &dtype::fp32, .size = sizes::full, .rule = kFull}},
        {{.name = "state1", .dtype = &dtype::fp32, .size = sizes::full, .rule = kFull,
          .paged_from = kPagedFrom},
         {.name = "state2", .dtype = &dtype::fp32, .size = sizes::full, .rule = kFull,
          .paged_from = kPagedFrom}}};
    return slots[paged ? 1 : 0];
}

/// The same with 8-bit codes: `states` moments, each with its block maxima.
Slots bnb8_slots(std::size_t states, bool paged) {
    constexpr std::string_view kCodes = "numel x dtype; fp32 below min_8bit_size elements";
    constexpr std::string_view kMaxima = "one per 256 elements x dtype, if the state is 8-bit";
    const auto code = [&](std::string_view name, std::int64_t paged_from) {
        return StateSlot{.name = name, .dtype = &dtype::uint8, .size = sizes::bnb_codes, .rule = kCodes,
                         .paged_from = paged_from, .quantized = true};
    };
    const auto maxima = [&](std::string_view name) {
        return StateSlot{.name = name, .dtype = &dtype::fp32, .size = sizes::bnb_absmax, .rule = kMaxima};
    };
    static const StateSlot slots[][4] = {
        {code("state1", 0), maxima("absmax1"), code("state2", 0), maxima("absmax2")},
        {code("state1", kPagedFrom), maxima("absmax1"), code("state2", kPagedFrom), maxima("absmax2")}};
    return Slots(slots[paged ? 1 : 0]).first(states * 2);
}

Slots adalomo_slots() {
    static const StateSlot slots[] = {
        {.name = "exp_avg_sq_row", .dtype = &dtype::fp32, .size = sizes::row_factor,
         .rule = "matrices: rows x dtype"},
        {.name = "exp_avg_sq_col", .dtype = &dtype::fp32, .size = sizes::column_factor,
         .rule = "matrices: columns x dtype"},
        {.name = "exp_avg_sq", .dtype = &dtype::fp32, .size = sizes::vectors_only,
         .rule = "vectors: numel x dtype"}};
    return slots;
}

// --- temporaries -----------------------------------------------------------------------------------

/// `lists` whole lists live at once, and one of what `beside` says.
constexpr OptimizerImplementation foreach_with(int lists, std::string_view source, StateSize beside = nullptr) {
    return {.name = "foreach", .list_copies_tenths = lists * 10, .list_copies_tenths_first = lists * 10,
            .list_beside = beside, .source = source};
}
constexpr OptimizerImplementation loop_with(StateSize scratch, StateSize carried, std::string_view source) {
    return {.name = "for-loop", .tensor_scratch = scratch, .tensor_carried = carried, .source = source};
}
/// One kernel that reads and writes everything; `scalar_bytes` of step counters on the device.
constexpr OptimizerImplementation fused(std::int64_t scalar_bytes, std::string_view source) {
    return {.name = "fused", .device_scalar_bytes = scalar_bytes, .source = source};
}

constexpr OptimizerImplementation kSgdSteps[] = {
    foreach_with(0, "pytorch 2.13 torch/optim/sgd.py _multi_tensor_sgd; measured: none without weight "
                    "decay, one list with it"),
    fused(0, "pytorch 2.13 torch/optim/sgd.py _fused_sgd; measured: none"),
    loop_with(nullptr, nullptr,
              "pytorch 2.13 torch/optim/sgd.py _single_tensor_sgd; measured: none without weight decay "
              "and Nesterov momentum, one tensor with one of them")};
constexpr OptimizerImplementation kSgdDecaySteps[] = {
    foreach_with(1, "pytorch 2.13 torch/optim/sgd.py _multi_tensor_sgd; measured: one list of decayed "
                    "gradients"),
    fused(0, "pytorch 2.13 torch/optim/sgd.py _fused_sgd; measured: none"),
    loop_with(sizes::full, nullptr,
              "pytorch 2.13 torch/optim/sgd.py _single_tensor_sgd; measured: one decayed gradient")};
constexpr OptimizerImplementation kAdamSteps[] = {
    foreach_with(1, "pytorch 2.13 torch/optim/adam.py _multi_tensor_adam; measured: one list of square "
                    "roots, with weight decay or amsgrad too"),
    fused(4, "pytorch 2.13 torch/optim/adam.py _fused_adam: the step counters are fp32 scalars on the "
             "device; measured: no temporaries"),
    loop_with(sizes::copies<2>, sizes::copies<1>,
              "pytorch 2.13 torch/optim/adam.py _single_tensor_adam; measured: square root and "
              "quotient, the quotient bound until the next one; L2 weight decay adds one")};
constexpr OptimizerImplementation kNadamSteps[] = {
    foreach_with(1, "pytorch 2.13 torch/optim/nadam.py; measured: one list, two with L2 weight decay"),
    loop_with(sizes::copies<2>, sizes::copies<1>, "pytorch 2.13 torch/optim/nadam.py; measured")};
constexpr OptimizerImplementation kRadamSteps[] = {
    foreach_with(1, "pytorch 2.13 torch/optim/radam.py; measured"),
    loop_with(sizes::copies<2>, nullptr, "pytorch 2.13 torch/optim/radam.py; measured")};
constexpr OptimizerImplementation kAdamaxSteps[] = {
    foreach_with(1, "pytorch 2.13 torch/optim/adamax.py; measured"),
    loop_with(sizes::copies<1>, nullptr, "pytorch 2.13 torch/optim/adamax.py; measured")};
constexpr OptimizerImplementation kAdadeltaSteps[] = {
    foreach_with(2, "pytorch 2.13 torch/optim/adadelta.py; measured"),
    loop_with(sizes::copies<2>, sizes::copies<1>,
              "pytorch 2.13 torch/optim/adadelta.py; measured on tensors of one size: the two names are "
              "bound anew one after the other")};
constexpr OptimizerImplementation kAdagradSteps[] = {
    foreach_with(2, "pytorch 2.13 torch/optim/adagrad.py; measured"),
    fused(4, "pytorch 2.13 torch/optim/adagrad.py _fused_adagrad: step counters on the device; measured"),
    loop_with(sizes::copies<1>, sizes::copies<1>, "pytorch 2.13 torch/optim/adagrad.py; measured")};
constexpr OptimizerImplementation kRmspropSteps[] = {
    foreach_with(1, "pytorch 2.13 torch/optim/rmsprop.py; measured, centered and with momentum too"),
    loop_with(sizes::copies<1>, sizes::copies<1>, "pytorch 2.13 torch/optim/rmsprop.py; measured")};
constexpr OptimizerImplementation kAdafactorSteps[] = {
    foreach_with(1, "pytorch 2.13 torch/optim/_adafactor.py _multi_tensor_adafactor; measured: the list "
                    "of variance estimates becomes the update; the means of row_var, one of each matrix",
                 sizes::per_matrix),
    loop_with(sizes::adafactor_scratch, sizes::copies<1>,
              "pytorch 2.13 torch/optim/_adafactor.py _single_tensor_adafactor; measured")};
constexpr OptimizerImplementation kAdafactorHfSteps[] = {
    loop_with(sizes::adafactor_hf_scratch, sizes::one_fp32,
              "transformers 5.24.0 optimization.py Adafactor.step; measured: the square and its sum with "
              "eps, fp32 copies of 16-bit gradient and parameter; the update stays bound")};
constexpr OptimizerImplementation kAdafactorHfMomentumSteps[] = {
    loop_with(sizes::adafactor_hf_scratch, nullptr,
              "transformers 5.24.0 optimization.py Adafactor.step; measured: as without beta1, but the "
              "update that stays bound is the state")};
constexpr OptimizerImplementation kLionSteps[] = {
    loop_with(sizes::copies<2>, nullptr,
              "lion-pytorch 0.2.5 lion_pytorch.py update_fn; measured: a clone and its interpolation"),
    foreach_with(1, "lion-pytorch 0.2.5 foreach.py; measured: clones of all moments")};
constexpr OptimizerImplementation kLambSteps[] = {
    fused(0, "apex @6424da3b apex/optimizers/fused_lamb.py: multi-tensor kernels update in place"),
    foreach_with(1, "pytorch-optimizer 4.1.0 optimizer/lamb.py _step_foreach; measured"),
    loop_with(sizes::copies<1>, nullptr, "pytorch-optimizer 4.1.0 optimizer/lamb.py update; measured")};
constexpr OptimizerImplementation kMuonSteps[] = {
    loop_with(sizes::muon_scratch, nullptr,
              "pytorch 2.13 torch/optim/_muon.py _zeropower_via_newtonschulz; measured")};
constexpr OptimizerImplementation kSoapSteps[] = {
    loop_with(sizes::soap_scratch, nullptr,
              "pytorch-optimizer 4.1.0 optimizer/soap.py; measured in a step that renews the bases "
              "(every precondition_frequency-th), without the workspace of the QR solver")};
constexpr OptimizerImplementation kShampooSteps[] = {
    loop_with(sizes::shampoo_scratch, nullptr,
              "pytorch-optimizer 4.1.0 optimizer/shampoo.py; measured, without the workspace of the SVD "
              "solver")};
constexpr OptimizerImplementation kAdamMiniSteps[] = {
    loop_with(sizes::adam_mini_scratch, nullptr, "adam-mini 1.1.1 adam_mini.py step; measured")};
constexpr OptimizerImplementation kGaloreSteps[] = {
    loop_with(sizes::galore_scratch, nullptr,
              "galore-torch 1.0 galore_projector.py; measured in a step that renews the projection (every "
              "update_proj_gap-th), without the workspace of the SVD solver")};
constexpr OptimizerImplementation kScheduleFreeSteps[] = {
    foreach_with(1, "schedulefree 1.4.1 adamw_schedulefree.py step; measured: the list of denominators"),
    loop_with(sizes::copies<1>, sizes::copies<1>, "schedulefree 1.4.1 adamw_schedulefree.py; measured")};
constexpr OptimizerImplementation kBnbSteps[] = {
    fused(0, "bitsandbytes 0.50.2 optim/optimizer.py update_step: one kernel per tensor in place; "
             "measured on its CPU backend")};
constexpr OptimizerImplementation kAoSteps[] = {
    {.name = "compiled",
     .source = "torchao 0.18.0 optim/adam.py single_param_adam under torch.compile; the peaks in its "
               "README (Llama-2-7B: 39.1 and 33.2 against 51.6 for AdamW) leave no room for scratch"}};
constexpr OptimizerImplementation kApexSteps[] = {
    fused(0, "apex @6424da3b apex/optimizers/fused_adam.py: multi-tensor kernels, step kept in the group")};
constexpr OptimizerImplementation kLomoSteps[] = {
    {.name = "in-backward",
     .tensor_scratch = sizes::lomo_scratch,
     .source = "lomo-optim 0.1.1 lomo.py fuse_update; measured: fp32 copies of gradient and parameter"}};
constexpr OptimizerImplementation kAdalomoSteps[] = {
    {.name = "in-backward",
     .tensor_scratch = sizes::adalomo_scratch,
     .source = "lomo-optim 0.1.1 adalomo.py fuse_update; measured"}};

// --- options and what a row handles ----------------------------------------------------------------

constexpr OptimizerOption kBnbOptions[] = {
    {"min_8bit_size", 4096, "tensors with fewer elements keep fp32 states"}};
constexpr OptimizerOption kBlock256[] = {{"block_size", 256, "elements that share one scale"}};
constexpr OptimizerOption kBlock128[] = {{"block_size", 128, "elements that share one scale"}};
constexpr OptimizerOption kGaloreOptions[] = {{"rank", 128, "rank of the projected gradient"}};
constexpr OptimizerOption kSoapOptions[] = {
    {"max_precondition_dim", 10'000, "larger dimensions get no matrix"}};

/// Muon is for the matrices of hidden layers.
bool is_hidden_matrix(Component component, Shape shape) {
    return shape.size() == 2 && component != Component::embedding && component != Component::head;
}
/// The Trainer of transformers keeps the states of nn.Embedding at 32 bits.
bool is_no_embedding(Component component, Shape) { return component != Component::embedding; }
/// The usual target modules of GaLore: attention and MLP.
bool is_block_matrix(Component component, Shape shape) {
    return shape.size() == 2 && (component == Component::attention || component == Component::mlp ||
                                 component == Component::experts);
}

}  // namespace

Table<Optimizer> optimizers() {
    static const Optimizer rows[] = {
        {.name = "adamw", .doc = "torch.optim.AdamW: two moments", .slots = kAdam,
         .implementations = kAdamSteps, .source = "pytorch 2.13 torch/optim/adamw.py"},
        {.name = "adam", .doc = "torch.optim.Adam: two moments", .slots = kAdam,
         .implementations = kAdamSteps, .source = "pytorch 2.13 torch/optim/adam.py"},
        {.name = "adamw-amsgrad", .doc = "torch.optim.AdamW(amsgrad=True): two moments and a maximum",
         .slots = kAmsgrad, .implementations = kAdamSteps, .source = "pytorch 2.13 torch/optim/adamw.py"},
        {.name = "adam-amsgrad", .doc = "torch.optim.Adam(amsgrad=True): two moments and a maximum",
         .slots = kAmsgrad, .implementations = kAdamSteps, .source = "pytorch 2.13 torch/optim/adam.py"},
        {.name = "nadam", .doc = "torch.optim.NAdam: two moments", .slots = kAdam,
         .implementations = kNadamSteps, .source = "pytorch 2.13 torch/optim/nadam.py"},
        {.name = "radam", .doc = "torch.optim.RAdam: two moments", .slots = kAdam,
         .implementations = kRadamSteps, .source = "pytorch 2.13 torch/optim/radam.py"},
        {.name = "adamax", .doc = "torch.optim.Adamax: a moment and an infinity norm", .slots = kAdamax,
         .implementations = kAdamaxSteps, .source = "pytorch 2.13 torch/optim/adamax.py"},
        {.name = "adadelta", .doc = "torch.optim.Adadelta: two averages", .slots = kAdadelta,
         .implementations = kAdadeltaSteps, .source = "pytorch 2.13 torch/optim/adadelta.py"},
        {.name = "adagrad", .doc = "torch.optim.Adagrad: a sum, made at construction", .slots = kAdagrad,
         .implementations = kAdagradSteps, .states_at_construction = true,
         .source = "pytorch 2.13 torch/optim/adagrad.py"},
        {.name = "rmsprop", .doc = "torch.optim.RMSprop: one average", .slots = kRmsprop,
         .implementations = kRmspropSteps, .source = "pytorch 2.13 torch/optim/rmsprop.py"},
        {.name = "rmsprop-momentum", .doc = "torch.optim.RMSprop(momentum>0)", .slots = kRmspropMomentum,
         .implementations = kRmspropSteps, .source = "pytorch 2.13 torch/optim/rmsprop.py"},
        {.name = "rmsprop-centered", .doc = "torch.optim.RMSprop(centered=True)",
         .slots = kRmspropCentered, .implementations = kRmspropSteps,
         .source = "pytorch 2.13 torch/optim/rmsprop.py"},
        {.name = "rmsprop-centered-momentum", .doc = "torch.optim.RMSprop(centered=True, momentum>0)",
         .slots = kRmspropBoth, .implementations = kRmspropSteps,
         .source = "pytorch 2.13 torch/optim/rmsprop.py"},
        {.name = "sgd", .doc = "torch.optim.SGD without momentum: no states",
         .implementations = kSgdSteps, .source = "pytorch 2.13 torch/optim/sgd.py"},
        {.name = "sgd-momentum", .doc = "torch.optim.SGD(momentum>0): one buffer, at first a clone of "
                                        "the gradient",
         .slots = kMomentum, .implementations = kSgdSteps, .source = "pytorch 2.13 torch/optim/sgd.py"},
        {.name = "sgd-weight-decay", .doc = "torch.optim.SGD(weight_decay>0) without momentum: no states, "
                                            "a decayed copy of gradients",
         .implementations = kSgdDecaySteps, .source = "pytorch 2.13 torch/optim/sgd.py"},
        {.name = "adafactor", .doc = "torch.optim.Adafactor: factored second moment, no first",
         .slots = kAdafactor, .implementations = kAdafactorSteps,
         .source = "pytorch 2.13 torch/optim/_adafactor.py"},
        {.name = "adafactor-hf", .doc = "transformers Adafactor: factored second moment in fp32, no first",
         .slots = adafactor_hf_slots(false), .implementations = kAdafactorHfSteps,
         .source = "transformers 5.24.0 optimization.py Adafactor"},
        {.name = "adafactor-hf-momentum", .doc = "transformers Adafactor(beta1): and a first moment",
         .slots = adafactor_hf_slots(true), .implementations = kAdafactorHfMomentumSteps,
         .source = "transformers 5.24.0 optimization.py Adafactor"},
        {.name = "lion", .doc = "lion-pytorch: one moment", .slots = kExpAvg,
         .implementations = kLionSteps, .source = "lion-pytorch 0.2.5 lion_pytorch.py"},
        {.name = "lamb", .doc = "LAMB (Apex FusedLAMB): two moments", .slots = kAdam,
         .implementations = kLambSteps, .source = "apex @6424da3b apex/optimizers/fused_lamb.py:190-192"},
        {.name = "muon",
         .doc = "torch.optim.Muon: one buffer for the matrices of hidden layers; AdamW for embeddings, "
                "head and vectors",
         .slots = kMomentum, .implementations = kMuonSteps, .handles = is_hidden_matrix,
         .fallback = "adamw", .source = "pytorch 2.13 torch/optim/_muon.py"},
        {.name = "soap", .doc = "SOAP: Adam in Shampoo's eigenbasis; two square matrices per dimension",
         .slots = soap_slots(), .implementations = kSoapSteps, .options = kSoapOptions,
         .source = "nikhilvyas/SOAP soap.py:133-137,215-238"},
        {.name = "shampoo",
         .doc = "Shampoo without blocking: two square matrices per dimension, of vectors too",
         .slots = kShampoo, .implementations = kShampooSteps,
         .source = "pytorch-optimizer 4.1.0 optimizer/shampoo.py (Gupta et al., arXiv:1802.09568)"},
        {.name = "adam-mini",
         .doc = "Adam-mini: one second moment per row; queries and keys, with one per head, are counted "
                "per row",
         .slots = kAdamMini, .implementations = kAdamMiniSteps, .source = "adam-mini 1.1.1 adam_mini.py"},
        {.name = "galore-adamw",
         .doc = "GaLore AdamW: moments of projected gradients for matrices of attention and MLP; AdamW "
                "for the rest",
         .slots = kGalore, .implementations = kGaloreSteps, .options = kGaloreOptions,
         .handles = is_block_matrix, .fallback = "adamw", .fallback_implementation = "for-loop",
         .source = "galore-torch 1.0 adamw.py, galore_projector.py (type std)"},
        {.name = "schedule-free-adamw", .doc = "schedulefree AdamWScheduleFree: z and a second moment",
         .slots = kScheduleFree, .implementations = kScheduleFreeSteps,
         .source = "schedulefree 1.4.1 adamw_schedulefree.py"},
        {.name = "adamw-8bit", .doc = "bitsandbytes AdamW8bit: codes in blocks of 256",
         .slots = bnb8_slots(2, false), .implementations = kBnbSteps, .options = kBnbOptions,
         .constant_bytes = 2 * kCodeTable, .source = "bitsandbytes 0.50.2 optim/adamw.py, optimizer.py"},
        {.name = "adam-8bit", .doc = "bitsandbytes Adam8bit: codes in blocks of 256",
         .slots = bnb8_slots(2, false), .implementations = kBnbSteps, .options = kBnbOptions,
         .constant_bytes = 2 * kCodeTable, .source = "bitsandbytes 0.50.2 optim/adam.py, optimizer.py"},
        {.name = "lion-8bit", .doc = "bitsandbytes Lion8bit: codes in blocks of 256",
         .slots = bnb8_slots(1, false), .implementations = kBnbSteps, .options = kBnbOptions,
         .constant_bytes = kCodeTable, .source = "bitsandbytes 0.50.2 optim/lion.py, optimizer.py"},
        {.name = "paged-adamw-8bit",
         .doc = "bitsandbytes PagedAdamW8bit: states from 1e5 elements on in unified memory",
         .slots = bnb8_slots(2, true), .implementations = kBnbSteps, .options = kBnbOptions, .paged = true,
         .constant_bytes = 2 * kCodeTable,
         .source = "bitsandbytes 0.50.2 optim/optimizer.py get_state_buffer, functional.py get_paged"},
        {.name = "paged-lion-8bit",
         .doc = "bitsandbytes PagedLion8bit: states from 1e5 elements on in unified memory",
         .slots = bnb8_slots(1, true), .implementations = kBnbSteps, .options = kBnbOptions, .paged = true,
         .constant_bytes = kCodeTable,
         .source = "bitsandbytes 0.50.2 optim/optimizer.py get_state_buffer, functional.py get_paged"},
        {.name = "paged-adamw-32bit",
         .doc = "bitsandbytes PagedAdamW32bit: fp32 states, from 1e5 elements on in unified memory",
         .slots = bnb32_slots(true), .implementations = kBnbSteps, .paged = true,
         .source = "bitsandbytes 0.50.2 optim/optimizer.py get_state_buffer, functional.py get_paged"},
        {.name = "adamw-bnb-32bit", .doc = "bitsandbytes AdamW32bit: fp32 states whatever the parameters",
         .slots = bnb32_slots(false), .implementations = kBnbSteps,
         .source = "bitsandbytes 0.50.2 optim/optimizer.py init_state"},
        {.name = "adamw-8bit-hf",
         .doc = "transformers Trainer, adamw_bnb_8bit: AdamW8bit, but 32 bits for embeddings",
         .slots = bnb8_slots(2, false), .implementations = kBnbSteps, .options = kBnbOptions,
         .constant_bytes = 2 * kCodeTable, .handles = is_no_embedding, .fallback = "adamw-bnb-32bit",
         .source = "transformers 5.24.0 trainer.py register_module_override; bitsandbytes 0.50.2"},
        {.name = "paged-adamw-8bit-hf",
         .doc = "transformers Trainer, paged_adamw_8bit: PagedAdamW8bit, but 32 bits for embeddings",
         .slots = bnb8_slots(2, true), .implementations = kBnbSteps, .options = kBnbOptions, .paged = true,
         .constant_bytes = 2 * kCodeTable, .handles = is_no_embedding, .fallback = "paged-adamw-32bit",
         .source = "transformers 5.24.0 trainer.py register_module_override; bitsandbytes 0.50.2"},
        {.name = "ao-adamw-8bit", .doc = "torchao AdamW8bit: codes in blocks of 256", .slots = kAo8,
         .implementations = kAoSteps, .options = kBlock256,
         .source = "torchao 0.18.0 optim/adam.py _new_buffer, subclass_8bit.py"},
        {.name = "ao-adamw-4bit", .doc = "torchao AdamW4bit: codes in blocks of 128", .slots = kAo4,
         .implementations = kAoSteps, .options = kBlock128,
         .source = "torchao 0.18.0 optim/adam.py _new_buffer, subclass_4bit.py"},
        {.name = "ao-adamw-fp8", .doc = "torchao AdamWFp8: fp8 in blocks of 256", .slots = kAoFp8,
         .implementations = kAoSteps, .options = kBlock256,
         .source = "torchao 0.18.0 optim/adam.py _new_buffer, subclass_fp8.py"},
        {.name = "adamw-apex-fused",
         .doc = "Apex (Megatron, DeepSpeed) FusedAdam: two moments in fp32 whatever the parameters",
         .slots = fp32_adam_slots(), .implementations = kApexSteps,
         .source = "apex @6424da3b apex/optimizers/fused_adam.py:208-210"},
        {.name = "lomo", .doc = "LOMO: SGD inside backward, no states, one gradient at a time",
         .implementations = kLomoSteps, .fused_in_backward = true, .source = "lomo-optim 0.1.1 lomo.py"},
        {.name = "adalomo", .doc = "AdaLomo: factored second moment in fp32, updates inside backward",
         .slots = adalomo_slots(), .implementations = kAdalomoSteps, .states_at_construction = true,
         .fused_in_backward = true, .source = "lomo-optim 0.1.1 adalomo.py"},
    };
    return Table<Optimizer>(rows);
}

}  // namespace membudget
