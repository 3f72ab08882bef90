// The steps of a job as a PyTorch memory snapshot, so that prediction and run can be looked at in the
// same viewer.

#include "membudget/trace.hpp"
#include "report/writers.hpp"

namespace membudget::report {

std::string write_pickle(const ReportData& data, const WriteOptions&) {
    return write_snapshot(trace_of_job(data.reports.front().estimate->job));
}

}  // namespace membudget::report
