#pragma once

/// The events of a step, one record each.

#include <cstdint>
#include <functional>
#include <string>

#include "membudget/ledger.hpp"

namespace membudget::report {

/// An event in words. `bytes` is signed; `live` counts what is allocated after it.
struct EventRecord {
    std::int64_t index = 0;
    Phase phase = Phase::forward;
    std::string_view pass;
    std::int64_t micro_batch = kNoMicroBatch;
    std::string op;      ///< under way; may be empty
    std::string_view term;
    std::string made_by; ///< op that made the tensor; may be empty
    std::string_view tensor;
    std::int64_t bytes = 0, rounding = 0;  ///< of one copy
    std::int64_t copies = 1;
    std::int64_t live = 0;
};
void for_each_event(const Timeline& timeline, const std::function<void(const EventRecord&)>& visit);

}  // namespace membudget::report
