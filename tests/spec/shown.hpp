#pragma once

#include <string>

#include "membudget/support.hpp"

/// Diagnostics as a person reads them, one "error:" or "unsupported:" line each, with the hint
/// below: so that tests hold exact texts.
inline std::string shown(const membudget::Diagnostics& diagnostics) {
    std::string out;
    for (const membudget::Diagnostic& one : diagnostics.list()) {
        out += one.trouble == membudget::Trouble::invalid ? "error: " : "unsupported: ";
        if (!one.pointer.empty()) out += one.pointer + ": ";
        out += one.message + "\n";
        if (!one.hint.empty()) out += "  hint: " + one.hint + "\n";
    }
    return out;
}
