#pragma once

/// The halves of an estimate. Both may throw `OverflowError`, which `out_of_range` puts into words.

#include "membudget/membudget.hpp"

namespace membudget {

/// The job of `document`, compared with its weight files.
[[nodiscard]] Result<Job> checked_job(const Document& document);

/// Its ledger, if every number of it is exact in JSON; `point` is its step.
[[nodiscard]] Result<Ledger> checked_ledger(const Document& document, const Job& job, const Step& point,
                                            const std::optional<Bytes>& budget, BookOptions options);

[[nodiscard]] Diagnostic out_of_range(const Document& document, const OverflowError& error);

}  // namespace membudget
