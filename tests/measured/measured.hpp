#pragma once

/// Published measurements of single devices (records.json, one spec each) beside the estimates.

#include <string>

/// The section of docs/accuracy.md: every record with its estimate, or with what is missing.
/// `folder` is tests/measured.
[[nodiscard]] std::string measured_section(const std::string& folder);
