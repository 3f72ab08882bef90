#include <algorithm>
#include <charconv>

#include "diagnosis/oom_text.hpp"
#include "membudget/diagnosis.hpp"

/// Wordings of out-of-memory messages. PyTorch's are those of c10/cuda/CUDACachingAllocator.cpp
/// through its versions, its relatives for other back ends copy them; XLA's are those of
/// tsl/framework/bfc_allocator.cc and of the TPU compiler.

namespace membudget {
namespace {

using namespace diagnosis;

void parse_device(std::string_view text, OomMessage& into) {
    for (const std::string_view name : {"GPU ", "NPU ", "XPU ", "on device "}) {
        const std::size_t at = text.find(name);
        if (at == std::string_view::npos) continue;
        if ((into.device = number_after(text.substr(at), name))) return;
    }
}

/// "(GPU 0; T total capacity; A already allocated; F free; R reserved in total by PyTorch)", before
/// 1.4 "C cached". Ascend adds "X current active".
void parse_pytorch_1(std::string_view text, OomMessage& into) {
    parse_device(text, into);
    into.requested = size_after(text, "Tried to allocate");
    into.capacity = size_before(text, " total capacity");
    into.allocated = size_before(text, " already allocated");
    into.active = size_before(text, " current active");
    into.free = size_before(text, " free");
    into.reserved = size_before(text, " reserved in total by");
    into.cached = size_before(text, " cached");
}

void parse_processes(std::string_view text, OomMessage& into) {
    for (std::size_t at = text.find("Process "); at != std::string_view::npos;
         at = text.find("Process ", at + 1)) {
        const std::string_view rest = text.substr(at);
        const auto pid = number_after(rest, "Process ");
        const auto used = size_after(rest, " has ");
        const std::size_t has = rest.find(" has ");
        if (!pid || has == std::string_view::npos || has > 30) continue;
        // 2^64 bytes, printed by WSL where the driver gives no number.
        if (!used) into.notes.push_back("the memory of another process is unknown to the driver");
        else into.processes.push_back({*pid, *used});
    }
    constexpr std::string_view kThis = "this process has ";
    into.this_process = size_after(text, kThis);
    const bool said = text.find(kThis) != std::string_view::npos;
    if (said && (!into.this_process || into.this_process->bytes == Bytes(0))) {
        into.notes.push_back("the driver gave no figure for this process (a container, or WSL)");
        into.this_process.reset();
    }
}

/// "GPU 0 has a total capacity of T of which F is free. ... Of the allocated memory A is allocated by
/// PyTorch, and U is reserved by PyTorch but unallocated."
void parse_pytorch_2(std::string_view text, OomMessage& into) {
    parse_device(text, into);
    into.requested = size_after(text, "Tried to allocate");
    into.capacity = size_after(text, "total capacity of");
    if (!into.capacity) into.capacity = size_after(text, "total capacty of");
    into.free = size_after(text, "of which");
    into.allowed = size_before(text, " allowed");
    into.allocated = size_after(text, "Of the allocated memory");
    into.private_pools = size_before(text, " allocated in private pools");
    into.unallocated = size_before(text, " is reserved by");
    parse_processes(text, into);
}

/// The block of cudaMallocAsync.
void parse_async(std::string_view text, OomMessage& into) {
    parse_device(text, into);
    into.requested = size_after(text, "Requested");
    into.capacity = size_after(text, "Device limit");
    into.allocated = size_after(text, "Currently allocated");
    into.free = size_after(text, "Free (according to CUDA)");
    into.allowed = size_after(text, "memory fraction)");  // 2^64 when there is none: then absent
}

/// "MPS backend out of memory (MPS allocated: A, other allocations: O, max allowed: M)."
void parse_mps(std::string_view text, OomMessage& into) {
    into.requested = size_after(text, "Tried to allocate");
    into.allocated = size_after(text, "MPS allocated");
    into.other_allocations = size_after(text, "other allocations");
    into.allowed = size_after(text, "max allowed");
}

/// The table of torch.cuda.memory_summary(): current, peak, total allocated, total freed.
void parse_summary(std::string_view text, OomMessage& into) {
    into.ooms = number_after(text, "CUDA OOMs");
    into.retries = number_after(text, "cudaMalloc retries");
    constexpr std::string_view kAllocated = "Allocated memory";
    into.allocated = size_after(text, kAllocated);
    const std::size_t row = text.find(kAllocated);
    if (row != std::string_view::npos) {
        const std::size_t first = text.find('|', row);
        const std::size_t second =
            first == std::string_view::npos ? first : text.find('|', first + 1);
        if (second != std::string_view::npos)
            into.peak_allocated = size_after(text.substr(second), "|");
    }
    into.reserved = size_after(text, "GPU reserved memory");
}

/// "Ran out of memory in memory space hbm. Used 63.80G of 30.75G hbm."
void parse_tpu(std::string_view text, OomMessage& into) {
    into.allocated = size_after(text, "hbm. Used");
    into.capacity = size_after(text, " of ");
    const std::size_t used = text.find("hbm. Used");
    if (used != std::string_view::npos) into.capacity = size_after(text.substr(used), " of ");
    for (std::size_t at = text.find("Shape: "); at != std::string_view::npos;
         at = text.find("Shape: ", at + 1)) {
        const std::size_t open = text.find('[', at), close = text.find(']', at);
        if (open == std::string_view::npos || close == std::string_view::npos || close < open ||
            close - at > 120)
            continue;
        XlaBuffer buffer;
        buffer.shape = text.substr(at + 7, close + 1 - (at + 7));
        for (std::size_t i = open + 1; i < close;) {
            std::int64_t extent = 0;
            const auto end = std::from_chars(text.data() + i, text.data() + close, extent);
            if (end.ec == std::errc()) buffer.extents.push_back(extent);
            i = std::min(text.find(',', i), close) + 1;
        }
        const std::size_t size = text.rfind("Size: ", at);
        if (size != std::string_view::npos)
            if (const auto found = size_after(text.substr(size), "Size:")) buffer.size = *found;
        into.buffers.push_back(std::move(buffer));
    }
}

/// "Out of memory while trying to allocate N bytes", with the statistics of the BFC allocator when
/// the log holds them.
void parse_bfc(std::string_view text, OomMessage& into) {
    into.requested = size_after(text, "while trying to allocate");
    const auto exact = [&](std::string_view anchor) -> std::optional<PrintedSize> {
        const auto number = number_after(text, anchor);
        if (!number || *number < 0) return std::nullopt;
        return PrintedSize{Bytes(*number), Bytes(0)};
    };
    into.capacity = exact("Limit:");
    into.allocated = exact(" InUse:");
    into.peak_allocated = exact("MaxInUse:");
    into.largest_free = exact("LargestFreeBlock:");
    if (into.capacity && into.allocated && into.capacity->bytes >= into.allocated->bytes)
        into.free = PrintedSize{into.capacity->bytes - into.allocated->bytes, Bytes(0)};
}

void parse_plain(std::string_view text, OomMessage& into) {
    into.requested = size_after(text, "Tried to allocate");
    if (!into.requested) into.requested = size_after(text, "failing allocation is always");
    parse_device(text, into);
}

/// The first whose anchor a text holds wins, so the particular ones stand before the general ones.
constexpr OomWording kWordings[] = {
    {"mps", "Metal: allocated, other allocations, max allowed", "MPS backend out of memory",
     parse_mps},
    {"pytorch-2", "PyTorch 2.1 and later, ROCm and XPU", "has a total capac", parse_pytorch_2},
    {"pytorch-1", "PyTorch 1.0 to 2.0, Ascend", " total capacity;", parse_pytorch_1},
    {"pytorch-async", "the cudaMallocAsync back end", "would exceed allowed memory", parse_async},
    {"pytorch-summary", "torch.cuda.memory_summary()", "cudaMalloc retries", parse_summary},
    {"xla-tpu", "the TPU compiler: used of capacity", "in memory space hbm", parse_tpu},
    {"xla-bfc", "XLA's BFC allocator", "while trying to allocate", parse_bfc},
    {"plain", "any text that speaks of a lack of memory, without totals", "", parse_plain},
};
static_assert(names_are_unique(kWordings));

/// Words that tell where a program was. In a traceback the last one counts: it is the innermost.
struct Clue {
    std::string_view text;
    OomMoment moment;
};
constexpr Clue kClues[] = {
    {"_multi_tensor_", OomMoment::optimizer_temporaries},
    {"_foreach_", OomMoment::optimizer_temporaries},
    {"state['exp_avg", OomMoment::optimizer_states},
    {"state[\"exp_avg", OomMoment::optimizer_states},
    {"state['momentum_buffer", OomMoment::optimizer_states},
    {"optimizer.step", OomMoment::optimizer_step},
    {"optimizer_step", OomMoment::optimizer_step},
    {"loss.backward", OomMoment::backward},
    {"run_backward", OomMoment::backward},
    {"cross_entropy", OomMoment::loss},
    {"evaluat", OomMoment::evaluation},
    {"validat", OomMoment::evaluation},
    {"from_pretrained", OomMoment::loading},
    {"load_state_dict", OomMoment::loading},
    {"gpu_memory_utilization", OomMoment::serving},
};

OomMoment moment_in(std::string_view text) {
    OomMoment moment = OomMoment::unknown;
    std::size_t last = 0;
    for (const Clue& clue : kClues) {
        const std::size_t at = text.rfind(clue.text);
        if (at == std::string_view::npos || (moment != OomMoment::unknown && at <= last)) continue;
        last = at;
        moment = clue.moment;
    }
    return moment;
}

std::string backend_of(std::string_view text, std::string_view wording) {
    if (wording == "mps") return "MPS";
    if (wording.starts_with("xla")) return "XLA";
    for (const std::string_view name : {"HIP", "NPU", "XPU", "CUDA", "cuda"}) {
        const std::size_t at = text.find(name);
        if (at != std::string_view::npos && text.substr(at).find("out of memory") < 40)
            return name == "cuda" ? "CUDA" : std::string(name);
    }
    // The runtimes' names of the error, where nothing else is printed.
    if (text.find("hipError") != std::string_view::npos) return "HIP";
    if (text.find("cudaError") != std::string_view::npos || text.find("CUDA_ERROR") != std::string_view::npos)
        return "CUDA";
    return wording.starts_with("pytorch") ? "CUDA" : "";
}

/// Where messages begin. Several anchors of one message stand close together.
std::vector<std::size_t> anchors_in(std::string_view text) {
    std::vector<std::size_t> out;
    for (const std::string_view anchor :
         {"out of memory", "OutOfMemoryError", "RESOURCE_EXHAUSTED", "cudaMalloc retries",
          "would exceed allowed memory", "raises OOM", "OOM at", "hipErrorOutOfMemory",
          "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY"})
        for (std::size_t at = find_ignoring_case(text, anchor); at != std::string_view::npos;
             at = find_ignoring_case(text, anchor, at + anchor.size()))
            out.push_back(at);
    std::sort(out.begin(), out.end());
    constexpr std::size_t kOneMessage = 120;
    std::vector<std::size_t> begins;
    std::size_t last = 0;
    for (const std::size_t at : out) {
        if (begins.empty() || at - last > kOneMessage) begins.push_back(at);
        last = at;
    }
    return begins;
}

bool same_facts(const OomMessage& a, const OomMessage& b) {
    return a.wording == b.wording && a.device == b.device && a.requested == b.requested &&
           a.capacity == b.capacity && a.free == b.free && a.allocated == b.allocated &&
           a.reserved == b.reserved && a.unallocated == b.unallocated && a.allowed == b.allowed &&
           a.this_process == b.this_process && a.processes == b.processes && a.moment == b.moment;
}

}  // namespace

Table<OomWording> oom_wordings() { return Table<OomWording>(kWordings); }

std::string_view name_of(OomMoment moment) {
    constexpr std::string_view kNames[] = {"unknown",          "forward",
                                           "loss",             "backward",
                                           "optimizer_step",   "optimizer_states",
                                           "optimizer_temporaries", "evaluation",
                                           "loading",          "serving"};
    return kNames[static_cast<std::size_t>(moment)];
}

std::vector<OomMessage> parse_oom(std::string_view text) {
    const std::string line = as_one_line(text);
    const std::string_view whole = line;
    const auto begins = anchors_in(whole);
    // A message reaches to the next one. What stands before it is its traceback and its statistics.
    constexpr std::size_t kMostAfter = 6000, kMostBefore = 20000;
    std::vector<OomMessage> out;
    std::size_t previous_end = 0;
    for (std::size_t i = 0; i < begins.size(); ++i) {
        const std::size_t next = i + 1 < begins.size() ? begins[i + 1] : whole.size();
        const std::size_t end = std::min(next, begins[i] + kMostAfter);
        const std::size_t start =
            std::max(previous_end, begins[i] > kMostBefore ? begins[i] - kMostBefore : 0);
        previous_end = std::min(end, begins[i] + 200);
        // From a little before the anchor: "CUDA out of memory", "Process 1 has ...".
        const std::size_t near = std::max(start, begins[i] > 60 ? begins[i] - 60 : 0);
        const std::string_view message = whole.substr(near, end - near);
        const std::string_view with_before = whole.substr(start, end - start);

        const auto* wording =
            std::find_if(std::begin(kWordings), std::end(kWordings), [&](const OomWording& row) {
                return find_ignoring_case(message, row.anchor) != std::string_view::npos;
            });
        OomMessage found;
        found.wording = wording->name;
        const bool statistics_before =
            wording->parse == parse_bfc || wording->parse == parse_summary;
        wording->parse(statistics_before ? with_before : message, found);
        found.backend = backend_of(message, found.wording);
        found.moment = moment_in(with_before);
        if (std::none_of(out.begin(), out.end(),
                         [&](const OomMessage& other) { return same_facts(other, found); }))
            out.push_back(std::move(found));
    }
    return out;
}

std::optional<Bytes> reserved_of(const OomMessage& message) {
    if (message.reserved) return message.reserved->bytes;
    if (!message.allocated) return std::nullopt;
    if (message.unallocated) return message.allocated->bytes + message.unallocated->bytes;
    if (message.cached) return message.allocated->bytes + message.cached->bytes;
    return std::nullopt;
}

std::optional<Bytes> outside_of(const OomMessage& message) {
    const auto reserved = reserved_of(message);
    if (!message.capacity || !message.free || !reserved) return std::nullopt;
    return message.capacity->bytes - message.free->bytes - *reserved;
}

}  // namespace membudget
