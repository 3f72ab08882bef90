// Replays a corpus through a fuzz target without libFuzzer, so that every compiler and every test
// run sees the inputs that once mattered.
//
//     replay_NAME FOLDER|FILE...

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

std::set<fs::path> inputs_at(const fs::path& path) {
    std::set<fs::path> out;
    if (!fs::is_directory(path)) return {path};
    for (const auto& entry : fs::directory_iterator(path)) out.insert(entry.path());
    return out;
}

bool replay(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    if (!in) return false;
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    std::printf("%s\n", file.c_str());
    std::fflush(stdout);  // so that a crash leaves its input as the last line
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    std::size_t replayed = 0;
    for (int i = 1; i < argc; ++i)
        for (const fs::path& file : inputs_at(argv[i])) {
            if (!replay(file)) {
                std::fprintf(stderr, "cannot read %s\n", file.c_str());
                return 1;
            }
            ++replayed;
        }
    if (replayed == 0) {
        std::fputs("no inputs\n", stderr);
        return 1;
    }
    return 0;
}
