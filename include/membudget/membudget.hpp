#pragma once

/// The whole in one call, for programs that use the library.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "membudget/job.hpp"
#include "membudget/ledger.hpp"
#include "membudget/scenario.hpp"
#include "membudget/spec.hpp"

namespace membudget {

/// A document that describes a job, read and parsed, with the files it refers to.
struct Document {
    std::string file;       ///< as the user named it
    KeyTree tree;           ///< the spec's key tree (made up for a bare model config)
    std::shared_ptr<const KeyTree> config;  ///< the model config that it refers to; null: none
    std::string config_file;
    std::shared_ptr<const KeyTree> adapter; ///< the adapter_config.json that it refers to; null: none
    std::string adapter_file;
    std::string scenario;   ///< the scenario that was applied; empty: none
    /// What `/model` builds, where that is known already: changes of other keys need not build it again.
    std::shared_ptr<const Model> model;
    /// Shape of the file before the first patch: stated activations refer to it.
    std::optional<std::int64_t> base_micro_batch_size, base_sequence_length;
};

/// Reads `path` (or "-"): a spec, or a bare model config that becomes `{"membudget": 1, "model": ...}`.
/// A `path` that is no existing file may be the name of a model of the catalogue.
[[nodiscard]] Result<Document> read_document(const std::string& path);

/// The same from text already at hand; paths in it are relative to the folder of `file`.
[[nodiscard]] Result<Document> read_document_text(const std::string& text, const std::string& file);

/// `document` with an RFC 7396 merge patch applied; a config that the patch names is read.
[[nodiscard]] Result<Document> with_patch(const Document& document, const KeyTree& patch);

/// The scenario `name` applied: one that the spec holds, or a built-in technique. A scenario
/// changes a valid job: mistakes of the document itself are reported as its own, those that the
/// scenario brings point to `/scenarios/NAME`. The result holds no scenarios.
[[nodiscard]] Result<Document> with_scenario(const Document& document, std::string_view name);

/// Names of the scenarios that a spec holds, in their order.
[[nodiscard]] std::vector<std::string> scenario_names(const Document& document);

/// spec tree -> Spec -> Job: the estimate's first half.
[[nodiscard]] Result<Job> resolve_document(const Document& document);

/// spec tree -> Spec -> Model: for questions about the network alone.
[[nodiscard]] Result<Model> resolve_document_model(const Document& document);

/// The weight files that a spec names, their paths relative to the working folder.
[[nodiscard]] std::vector<std::string> weight_files(const Document& document);

/// One estimated job.
struct Estimate {
    Job job;
    Ledger ledger;
};

/// spec tree -> Spec -> Job -> Ledger. Every mistake of the document in one run. A `budget` counts
/// instead of the device's capacity. Totals beyond 2^53 - 1 bytes are an error. Weight files that the
/// spec names are checked against the model: what does not match is a warning.
[[nodiscard]] Result<Estimate> estimate(const Document& document,
                                        const std::optional<Bytes>& budget = std::nullopt,
                                        BookOptions options = {});

/// The techniques that apply to this job, each with what it saves, largest saving at the peak first.
struct TechniqueSaving {
    const Technique* technique = nullptr;
    /// The technique's own, or, where that is not live, the one of its others which it lowers most.
    std::string_view term;
    /// Bytes of its term at the peak: what it addresses.
    Bytes term_bytes;
    /// Found by estimating the changed job; absent where it cannot be derived (stated terms).
    std::optional<Bytes> term_saves, peak_saves;
    bool helps_at_peak = true;   ///< false: its term is not live there, or the peak stays
    std::string change;          ///< the knobs that were turned, for people
    std::string note;            ///< why a saving is absent, or why it does not help; may be empty
};
[[nodiscard]] std::vector<TechniqueSaving> technique_savings(const Document& document,
                                                             const Estimate& estimate);

/// An estimate, and what each technique would do for it.
struct AdvisedEstimate {
    Estimate estimate;
    std::vector<TechniqueSaving> savings;
};

/// `estimate` and `technique_savings` in one: changed jobs are tried while the ledger is made.
[[nodiscard]] Result<AdvisedEstimate> advised_estimate(const Document& document,
                                                       const std::optional<Bytes>& budget = std::nullopt,
                                                       BookOptions options = {});
/// The same on a team that is there already.
[[nodiscard]] Result<AdvisedEstimate> advised_estimate(const Document& document, Team& team,
                                                       const std::optional<Bytes>& budget = std::nullopt,
                                                       BookOptions options = {});

/// Name and version of this program.
[[nodiscard]] std::string_view version();

}  // namespace membudget
