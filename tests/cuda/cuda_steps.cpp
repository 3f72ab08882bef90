/// Simulated CUDA steps beside memory snapshots of real ones, allocation by allocation, and the page that
/// says what they confirm (docs/cuda.md). The snapshots belong to other projects and are read from the folder
/// that MEMBUDGET_CORPUS names; without it there is nothing to compare.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "align.hpp"
#include "gpt_on_tape.hpp"
#include "membudget/membudget.hpp"
#include "recorded.hpp"

using namespace membudget;
using namespace cuda_test;

namespace {

const std::string kSource = MEMBUDGET_SOURCE_DIR;
constexpr int kSkipped = 77;

// --- whole steps on the tape ---------------------------------------------------------------------

/// A recorded step of the assignments' GPT.
struct Recording {
    const char* name;
    const char* file;
    const char* source;
    GptShape shape;
};

const GptShape kMedium128;
const GptShape kMedium256{.sequence = 256};
const GptShape kMedium1024{.sequence = 1024, .autocast = &dtype::bf16};
const GptShape kLarge128{.layers = 32, .hidden = 2560, .heads = 32, .feed_forward = 10240, .indexed_positions = true};

const std::vector<Recording> kRecordings{
    {"medium, 4 x 128, fp32, steady step", "Wedsonlin+assignment2-systems/results_medium_128_training_memory_snapshot.pickle",
     "Wedsonlin/assignment2-systems@87b08641 results/medium_128_training_memory_snapshot.pickle", kMedium128},
    {"medium, 4 x 256, fp32, steady step", "Wedsonlin+assignment2-systems/results_medium_256_training_memory_snapshot.pickle",
     "Wedsonlin/assignment2-systems@87b08641 results/medium_256_training_memory_snapshot.pickle", kMedium256},
    {"medium, 4 x 1024, bf16 autocast, steady step",
     "Wedsonlin+assignment2-systems/results_medium_1024_training_memory_snapshot.pickle",
     "Wedsonlin/assignment2-systems@87b08641 results/medium_1024_training_memory_snapshot.pickle", kMedium1024},
    {"2.7b, 4 x 128, fp32, first step", "sidsoc12+spring2024-assignment2-systems/cs336_systems__mem_snapshot_ctx128_fp32_train.pickle",
     "sidsoc12/spring2024-assignment2-systems cs336_systems/mem_snapshot_ctx128_fp32_train.pickle", kLarge128},
};

/// The events of forward, loss and backward of the recorded step. Left out: what index_put sorts with in the
/// gradient of the embedding, which is no op of ours; cuBLAS workspaces, which stay; frees of what an earlier
/// step left.
std::vector<RecordedEvent> step_of(const std::vector<RecordedEvent>& all, const Recording& recording) {
    std::vector<RecordedEvent> out;
    const std::int64_t rows = 4 * recording.shape.batch * recording.shape.sequence * recording.shape.hidden;
    std::size_t begin = all.size();
    for (std::size_t i = 0; i < all.size(); ++i) {
        const RecordedEvent& event = all[i];
        if (begin == all.size() && event.bytes == rows && event.op == "index_Tensor") begin = i;
        if (i < begin) continue;
        if (event.in_optimizer) break;
        const bool sorting = event.op.starts_with("IndexBackward0") && event.op != "IndexBackward0 new_zeros";
        const bool older = event.bytes < 0 && (event.made == kOlder || event.made < begin);
        if (!sorting && !older && event.op != kWorkspace) out.push_back(event);
    }
    return out;
}

struct Count {
    std::int64_t events = 0, equal = 0;
};

/// Compares one whole step; prints the first disagreement of each part. Adds to `parts`.
bool compare(const Recording& recording, const std::string& corpus, std::map<std::string, Count>& parts,
             std::string& page) {
    const std::vector<RecordedEvent> real = step_of(recorded(corpus + "/traces/" + recording.file), recording);
    if (real.empty()) {
        fmt::print("{}: no step in {}\n", recording.name, recording.file);
        return false;
    }
    const std::vector<Event> ours = gpt_step(recording.shape);
    std::vector<std::int64_t> a, b;
    for (const Event& event : ours) a.push_back(event.bytes);
    for (const RecordedEvent& event : real) b.push_back(event.bytes);
    const Alignment alignment = align(a, b);
    std::map<std::string, bool> told;
    for (std::size_t i = 0; i < ours.size(); ++i) {
        const std::string part(name_of(static_cast<Part>(ours[i].label.op)));
        ++parts[part].events;
        parts[part].equal += alignment.first[i];
        if (alignment.first[i] || told[part]) continue;
        told[part] = true;
        fmt::print("{}: event {} of {}, {} '{}' ({}): {:+} is not in the trace, which goes on with {:+} ({})\n",
                   recording.name, i, ours.size(), part, ours[i].label.what, i, a[i], i < b.size() ? b[i] : 0,
                   i < real.size() ? real[i].op : "");
    }
    page += fmt::format("| {} | {} | {} | {} | {} |\n", recording.name, real.size(), ours.size(), alignment.equal,
                        recording.source);
    return alignment.equal == ours.size() && alignment.equal == real.size();
}

// --- a step of transformers beside the timeline of its spec -----------------------------------------

/// Workspaces of cuBLAS that the snapshots show being made.
std::string workspaces(const std::string& corpus) {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(corpus + "/traces"))
        if (entry.path().extension() == ".pickle") files.push_back(entry.path().string());
    std::sort(files.begin(), files.end());
    std::string page = "| snapshot | workspaces | bytes of each |\n|---|--:|--:|\n";
    for (const std::string& file : files) {
        std::map<std::int64_t, int> sizes;
        for (const RecordedEvent& event : recorded(file))
            if (event.op == kWorkspace && event.bytes > 0) ++sizes[event.bytes];
        for (const auto& [bytes, count] : sizes)
            page += fmt::format("| {} | {} | {} |\n", file.substr(corpus.size() + 8), count, bytes);
    }
    return page;
}

constexpr const char* kQlora = "cranberrii+ftcourse/memory_snapshot.pickle";

/// "base_model.model.model.layers.3.self_attn.q_proj" -> "self_attn.q_proj"
std::string module_of(const std::string& op) {
    std::string out;
    std::stringstream parts(op);
    for (std::string part; std::getline(parts, part, '.');) {
        if (part == "base_model" || part == "model" || part == "layers") continue;
        if (std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; })) continue;
        out += (out.empty() ? "" : ".") + part;
    }
    return out;
}

std::string qlora_table(const std::string& corpus) {
    const auto document = read_document(kSource + "/tests/cuda/tinyllama-qlora.json");
    MEMBUDGET_ENSURE(document.ok(), "the spec of the recorded step is valid");
    const auto job = resolve_document(*document);
    MEMBUDGET_ENSURE(job.ok(), "the job of the recorded step is valid");
    const Timeline timeline = make_timeline(*job);
    std::vector<std::int64_t> a, b;
    std::vector<std::string> modules;
    for_each_stretch(timeline, MicroBatches::all, [&](const Stretch& stretch) {
        if (std::string_view(stretch.leaf->pass) == "start" || stretch.leaf->phase == Phase::optimizer_step) return;
        for (const Event& event : stretch.leaf->events)
            for (std::int32_t i = 0; i < event.count; ++i) {
                a.push_back(event.bytes);
                modules.push_back(module_of(op_name(timeline.model.get(), *stretch.leaf, stretch.layer, event.label.op)));
            }
    });
    const std::vector<RecordedEvent> real = recorded(corpus + "/traces/" + kQlora);
    for (const RecordedEvent& event : real) b.push_back(event.bytes);
    const Alignment alignment = align(a, b);
    std::map<std::string, Count> counts;
    for (std::size_t i = 0; i < a.size(); ++i) {
        ++counts[modules[i]].events;
        counts[modules[i]].equal += alignment.first[i];
    }
    std::string page = "| module | simulated events | equal |\n|---|--:|--:|\n";
    for (const auto& [module, count] : counts)
        page += fmt::format("| {} | {} | {} |\n", module.empty() ? "(between blocks)" : module, count.events, count.equal);
    page += fmt::format("| all, of {} recorded | {} | {} |\n", real.size(), a.size(), alignment.equal);
    return page;
}

std::string read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

}  // namespace

int main(int argc, char** argv) {
    const char* const corpus = std::getenv("MEMBUDGET_CORPUS");
    if (corpus == nullptr) return kSkipped;
    bool good = true;
    std::map<std::string, Count> parts;
    std::string steps = "| step | recorded events | simulated | equal, in order | source |\n|---|--:|--:|--:|---|\n";
    for (const Recording& recording : kRecordings) good = compare(recording, corpus, parts, steps) && good;
    std::string ops = "| part of the step | events | equal |\n|---|--:|--:|\n";
    for (const auto& [part, count] : parts) ops += fmt::format("| {} | {} | {} |\n", part, count.events, count.equal);

    std::string page = read_file(kSource + "/tests/cuda/page.md");
    const auto fill = [&](const std::string& place, const std::string& table) {
        const std::size_t at = page.find(place);
        MEMBUDGET_ENSURE(at != std::string::npos, "the page has a place for each table");
        page.replace(at, place.size(), table);
    };
    fill("{steps}\n", steps);
    fill("{ops}\n", ops);
    fill("{workspaces}\n", workspaces(corpus));
    fill("{qlora}\n", qlora_table(corpus));
    const std::string path = kSource + "/docs/cuda.md";
    if (argc > 1 && std::string_view(argv[1]) == "--update") {
        std::ofstream(path, std::ios::binary) << page;
        return 0;
    }
    if (read_file(path) != page) {
        fmt::print("docs/cuda.md is not what the program does now: rebuild target update_cuda and review the diff\n");
        good = false;
    }
    return good ? 0 : 1;
}
