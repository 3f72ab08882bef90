#include "trace/log_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "trace/log_text.hpp"

namespace membudget::trace {

TraceSeries& LogState::series(const std::string& name, int device) {
    const auto [at, is_new] = index_.try_emplace(name, all.size());
    if (is_new) all.push_back({name, device, {}});
    return all[at->second];
}

void LogState::note(std::string_view text) {
    if (std::find(notes.begin(), notes.end(), text) == notes.end()) notes.emplace_back(text);
}

namespace {

constexpr std::string_view kMegatron = "memory (MB)";

std::optional<std::int64_t> size_after(std::string_view text, std::string_view anchor,
                                       std::int64_t unit) {
    const auto found = number_after(text, anchor);
    return found ? bytes_of(found->value, unit) : std::nullopt;
}

int device_of(std::int64_t rank) {
    return rank >= 0 && rank < std::numeric_limits<int>::max() ? static_cast<int>(rank) : 0;
}

/// The rank that a launcher puts before a line ("[rank3]:", "[Rank 3]"); 0 when it names none.
std::int64_t rank_before(std::string_view line) {
    if (const auto rank = last_whole_after(line, "[Rank")) return *rank;
    return last_whole_after(line, "[rank").value_or(0);
}

TraceSeries& rank_series(LogState& into, std::int64_t rank) {
    return into.series(fmt::format("rank {}", rank), device_of(rank));
}

/// One report of one rank. Ranks print without waiting for each other, so that one line may hold the
/// reports of several.
void read_megatron(std::string_view line, LogState& into) {
    into.note("Megatron's MB are MiB: it divides by 1024 * 1024");
    std::size_t begin = 0;
    for (std::size_t at = line.find(kMegatron); at != std::string_view::npos;) {
        const std::size_t next = line.find(kMegatron, at + kMegatron.size());
        const std::string_view before = line.substr(begin, at - begin);
        const std::string_view after = line.substr(at, next == std::string_view::npos
                                                           ? std::string_view::npos
                                                           : next - at);
        TraceSample sample;
        sample.step = last_whole_after(before, "after");
        sample.allocated = size_after(after, "| allocated:", kMiB);
        sample.max_allocated = size_after(after, "| max allocated:", kMiB);
        sample.reserved = size_after(after, "| reserved:", kMiB);
        sample.max_reserved = size_after(after, "| max reserved:", kMiB);
        if (sample.allocated || sample.reserved)
            rank_series(into, rank_before(before)).samples.push_back(std::move(sample));
        begin = at + kMegatron.size();
        at = next;
    }
}

/// The label stands on a line of its own before the figures.
void read_deepspeed_label(std::string_view line, LogState& into) {
    constexpr std::string_view kAnchor = "see_memory_usage] ";
    const std::string_view text = trimmed(line.substr(line.find(kAnchor) + kAnchor.size()));
    if (!text.starts_with("MA ") && !text.starts_with("CPU Virtual")) into.label = text;
}

void read_deepspeed(std::string_view line, LogState& into) {
    read_deepspeed_label(line, into);
    if (line.find("] MA ") == std::string_view::npos) return;
    into.note("DeepSpeed's GB are GiB, to two decimals; Max_CA is rounded to whole GiB");
    TraceSample sample;
    sample.phase = std::exchange(into.label, {});
    sample.allocated = size_after(line, "] MA", kGiB);
    sample.max_allocated = size_after(line, "Max_MA", kGiB);
    sample.reserved = size_after(line, " CA", kGiB);
    sample.max_reserved = size_after(line, "Max_CA", kGiB);
    rank_series(into, rank_before(line)).samples.push_back(std::move(sample));
}

void read_deepspeed_timer(std::string_view line, LogState& into) {
    into.note("DeepSpeed's GB are GiB, to two decimals");
    TraceSample sample;
    sample.step = last_whole_after(line, "global_step=");
    sample.allocated = size_after(line, " MemAllocated=", kGiB);
    sample.max_allocated = size_after(line, "MaxMemAllocated=", kGiB);
    rank_series(into, rank_before(line)).samples.push_back(std::move(sample));
}

void read_torchtitan(std::string_view line, LogState& into) {
    const std::size_t at = line.find("memory:");
    const auto used = number_after(line, "memory:");
    const auto step = last_whole_after(line.substr(0, at), "step:");
    if (!step || !used || !trimmed(used->rest).starts_with("GiB")) return;
    into.note("torchtitan's memory is the highest reserved since the line before, not allocated");
    TraceSample sample;
    sample.step = step;
    sample.max_reserved = bytes_of(used->value, kGiB);
    const auto share = number_after(used->rest, "GiB(");
    if (share && share->value > 0) {
        sample.device_total = bytes_of(used->value / share->value * 100, kGiB);
        into.note("capacity is computed from torchtitan's rounded share of it");
    }
    rank_series(into, rank_before(line)).samples.push_back(std::move(sample));
}

void read_nanotron(std::string_view line, LogState& into) {
    TraceSample sample;
    sample.step = into.step;
    sample.allocated = size_after(line, "Memory usage:", kMiB);
    sample.max_allocated = size_after(line, "Peak allocated", kMiB);
    sample.max_reserved = size_after(line, "Peak reserved:", kMiB);
    rank_series(into, rank_before(line)).samples.push_back(std::move(sample));
}

void read_iteration(std::string_view line, LogState& into) {
    if (const auto step = last_whole_after(line, "iteration:")) into.step = step;
}

/// "Step 12 | loss:1.23 peak_memory_active:38.1 peak_memory_alloc:37.1 peak_memory_reserved:40.2", and
/// the same keys as a dictionary. Kept figures are the highest since the last reset.
void read_torchtune(std::string_view line, LogState& into) {
    const auto value = [&](std::string_view key) -> std::optional<std::int64_t> {
        const std::size_t at = line.find(key);
        if (at == std::string_view::npos) return std::nullopt;
        std::string_view rest = line.substr(at + key.size());
        rest.remove_prefix(std::min(rest.find_first_not_of("'\":= "), rest.size()));
        const auto found = number_at(rest);
        return found ? bytes_of(found->value, kGiB) : std::nullopt;
    };
    into.note("torchtune's figures are GiB: the highest since the start or the last reset");
    TraceSample sample;
    sample.step = last_whole_after(line, "Step ");
    sample.max_allocated = value("peak_memory_alloc");
    if (!sample.max_allocated) sample.max_allocated = value("peak_memory_active");
    sample.max_reserved = value("peak_memory_reserved");
    if (sample.max_allocated || sample.max_reserved)
        rank_series(into, rank_before(line)).samples.push_back(std::move(sample));
}

/// "train_mem_gpu_alloc_delta = 693MB", or as a dictionary in bytes. The Trainer reports by how much a
/// stage changed what is allocated, and how far its peak was above its end.
void read_trainer(std::string_view line, LogState& into) {
    static constexpr std::string_view kStages[] = {"init", "train", "eval", "test"};
    const auto value = [&](const std::string& key) -> std::optional<std::int64_t> {
        const std::size_t at = line.find(key);
        if (at == std::string_view::npos) return std::nullopt;
        std::string_view rest = line.substr(at + key.size());
        rest.remove_prefix(std::min(rest.find_first_not_of("'\":= "), rest.size()));
        const auto found = number_at(rest);
        if (!found) return std::nullopt;
        const std::int64_t unit = trimmed(found->rest).starts_with("MB") ? kMiB : 1;
        const auto bytes = bytes_of(std::abs(found->value), unit);
        return bytes ? std::optional(found->value < 0 ? -*bytes : *bytes) : std::nullopt;
    };
    into.note("the Trainer's MB are MiB, rounded down; its figures are differences, added up here");
    TraceSeries& series = rank_series(into, 0);
    if (const auto before = value("before_init_mem_gpu")) into.base = *before;
    for (const std::string_view stage : kStages) {
        const std::string prefix = fmt::format("{}_mem_gpu_", stage);
        if (const auto delta = value(prefix + "alloc_delta")) {
            into.base = into.base.value_or(0) + *delta;
            TraceSample sample;
            sample.phase = stage;
            sample.allocated = std::max(std::int64_t{0}, *into.base);
            sample.max_allocated = sample.allocated;
            series.samples.push_back(std::move(sample));
        }
        if (const auto peaked = value(prefix + "peaked_delta"))
            if (!series.samples.empty() && series.samples.back().phase == stage)
                series.samples.back().max_allocated =
                    std::max(std::int64_t{0}, into.base.value_or(0) + *peaked);
    }
}

/// One of the lines that name a moment and a figure: "allocated (MiB) 66/106/146; reserved ...".
void read_figures(std::string_view line, LogState& into) {
    const auto list = [&](std::string_view name) {
        std::vector<std::int64_t> out;
        const std::size_t at = line.find(name);
        if (at == std::string_view::npos) return out;
        std::string_view rest = line.substr(at + name.size());
        std::string digits;
        for (std::size_t i = 0; i <= rest.size(); ++i) {
            const char c = i < rest.size() ? rest[i] : ';';
            if ((c >= '0' && c <= '9') || c == '.') {
                digits += c;
            } else if (c == ',' && !digits.empty()) {
                continue;
            } else {
                const auto found = number_at(digits);
                const auto bytes = found ? bytes_of(found->value, kMiB) : std::nullopt;
                if (bytes) out.push_back(*bytes);
                digits.clear();
                if (c != '/' && c != ' ') break;
            }
        }
        return out;
    };
    const auto allocated = list("allocated (MiB)"), reserved = list("reserved (MiB)");
    for (std::size_t i = 0; i < std::max(allocated.size(), reserved.size()); ++i) {
        TraceSample sample;
        sample.step = static_cast<std::int64_t>(i);
        if (i < allocated.size()) sample.allocated = allocated[i];
        if (i < reserved.size()) sample.reserved = reserved[i];
        rank_series(into, 0).samples.push_back(std::move(sample));
    }
}

constexpr LogLine kLines[] = {
    {"megatron", "allocated and reserved, now and highest, per rank", kMegatron, read_megatron,
     "NVIDIA/Megatron-LM megatron/training/utils.py report_memory"},
    {"deepspeed", "MA, Max_MA, CA, Max_CA: allocated and reserved, now and highest",
     "see_memory_usage] ", read_deepspeed, "deepspeedai/DeepSpeed deepspeed/runtime/utils.py"},
    {"deepspeed-timer", "allocated now and highest", "MaxMemAllocated=", read_deepspeed_timer,
     "deepspeedai/DeepSpeed deepspeed/utils/timer.py"},
    {"torchtitan", "highest reserved since the line before", "memory:", read_torchtitan,
     "pytorch/torchtitan torchtitan/components/metrics.py"},
    {"nanotron", "allocated, highest allocated, highest reserved", "Peak allocated", read_nanotron,
     "huggingface/nanotron src/nanotron/helpers.py log_memory"},
    {"iteration", "the step that later lines belong to", "iteration:", read_iteration,
     "huggingface/nanotron src/nanotron/trainer.py"},
    {"torchtune", "highest allocated and reserved", "peak_memory_", read_torchtune,
     "pytorch/torchtune torchtune/training/memory.py get_memory_stats"},
    {"trainer", "differences of allocated per stage", "_mem_gpu", read_trainer,
     "huggingface/transformers src/transformers/trainer_utils.py TrainerMemoryTracker"},
    {"figures", "lists of figures of equal moments", "allocated (MiB)", read_figures,
     "as people write them into reports"},
};
static_assert(names_are_unique(kLines));

}  // namespace

Table<LogLine> log_lines() { return Table<LogLine>(kLines); }

}  // namespace membudget::trace
