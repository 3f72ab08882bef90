#pragma once

/// Flags that change the job: each is a value at a place of the spec.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/App.hpp>

#include "membudget/membudget.hpp"

namespace membudget::cli {

/// The flags of one command line, as they were given.
class JobFlags {
public:
    void add_to(CLI::App& app);

    /// `document` with the flags applied; a mistake in a flag is reported under the flag's name.
    [[nodiscard]] Result<Document> apply(const Document& document) const;
    /// The same for the document at `path`.
    [[nodiscard]] Result<Document> read(const std::string& path) const;
    /// `estimate` of a document that has the flags applied, its mistakes blamed.
    [[nodiscard]] Result<Estimate> estimate(const Document& document) const;
    /// `advised_estimate`, likewise.
    [[nodiscard]] Result<AdvisedEstimate> advised_estimate(const Document& document, Team& team,
                                                           const std::optional<Bytes>& capacity,
                                                           BookOptions options) const;
    /// Names the flag instead of the file where a flag brought the mistake, and tells which flag
    /// gives a value that is missing.
    [[nodiscard]] Diagnostics blame(const Diagnostics& errors, const Document& document) const;

private:
    struct Change {
        std::string flag, pointer, value;
    };
    [[nodiscard]] Result<std::vector<std::pair<Change, KeyTree>>> changes() const;

    std::vector<std::optional<std::string>> values_;  ///< by row of the flags
    std::vector<std::string> sets_;                   ///< of --set
};

/// `--budget`, `--strict`.
struct JudgeFlags {
    std::optional<std::string> budget;
    bool strict = false;

    void add_to(CLI::App& app);
    /// The bytes of `--budget`; absent when it was not given.
    [[nodiscard]] Result<std::optional<Bytes>> capacity() const;
};

/// What the report calls the job of `document`.
[[nodiscard]] std::string display_name(const Document& document);

}  // namespace membudget::cli
