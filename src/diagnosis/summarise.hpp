#pragma once

#include "membudget/diagnosis.hpp"

namespace membudget::diagnosis {

[[nodiscard]] TraceSubject subject_of(const Trace& trace, const TraceDevice& device,
                                      std::size_t columns);
[[nodiscard]] TraceSubject subject_of(const TraceSeries& series, std::size_t columns);

}  // namespace membudget::diagnosis
