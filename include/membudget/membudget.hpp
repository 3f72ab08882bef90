#pragma once

/// The whole in one call, for programs that use the library.

#include <optional>
#include <string>

#include "membudget/job.hpp"
#include "membudget/ledger.hpp"
#include "membudget/scenario.hpp"
#include "membudget/spec.hpp"

namespace membudget {

/// A document that describes a job, read and parsed, with the files it refers to.
struct Document {
    std::string file;       ///< as the user named it
    KeyTree tree;           ///< the spec's key tree (made up for a bare model config)
    std::optional<KeyTree> config;  ///< the model config that it refers to
    std::string config_file;
};

/// Reads `path` (or "-"): a spec, or a bare model config that becomes `{"membudget": 1, "model": ...}`.
[[nodiscard]] Result<Document> read_document(const std::string& path);

/// The same from text already at hand; paths in it are relative to the folder of `file`.
[[nodiscard]] Result<Document> read_document_text(const std::string& text, const std::string& file);

/// One estimated job.
struct Estimate {
    Job job;
    Ledger ledger;
};

/// What a run overrides or adds.
struct EstimateOptions {
    std::optional<Bytes> budget;          ///< instead of the device's capacity
    std::string scenario;                 ///< name for diagnostics: pointers start at /scenarios/NAME
    /// The document before any scenario: stated activations refer to its shape.
    const KeyTree* base = nullptr;
};

/// spec tree -> Spec -> Job -> Ledger. Every mistake of the document in one run.
[[nodiscard]] Result<Estimate> estimate(const Document& document, const EstimateOptions& options = {});

/// The techniques that apply to this job, each with what it saves, largest saving at the peak first.
struct TechniqueSaving {
    const Technique* technique = nullptr;
    /// Bytes of its term at the peak: at most this can be saved.
    Bytes term_bytes;
    /// Found by estimating the changed job; absent where it cannot be derived (stated terms).
    std::optional<Bytes> term_saves, peak_saves;
    bool helps_at_peak = true;   ///< false: its term is not live, or not the peak's phase
    std::string note;
};
[[nodiscard]] std::vector<TechniqueSaving> technique_savings(const Document& document,
                                                             const Estimate& estimate);

/// Name and version of this program.
[[nodiscard]] std::string_view version();

}  // namespace membudget
