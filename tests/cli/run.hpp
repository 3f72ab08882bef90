#pragma once

/// Runs command lines in this process.

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "membudget/cli.hpp"

struct Ran {
    int exit = 0;
    std::string out, err;
};

inline Ran run(const std::vector<std::string>& arguments) {
    std::ostringstream out, err;
    membudget::Streams streams{.out = out, .err = err};
    const auto code = membudget::run_cli(arguments, streams);
    return {static_cast<int>(code), out.str(), err.str()};
}

/// A folder of its own for the files of one test.
class Folder {
public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "membudget-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) FAIL("no temporary folder");
        path_ = name;
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    [[nodiscard]] std::string path(const std::string& name) const { return (path_ / name).string(); }
    std::string write(const std::string& name, const std::string& text) const {
        std::ofstream(path(name)) << text;
        return path(name);
    }
    [[nodiscard]] std::string read(const std::string& name) const {
        std::ifstream file(path(name));
        return {std::istreambuf_iterator<char>(file), {}};
    }
    [[nodiscard]] std::size_t files() const {
        return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_),
                                                      std::filesystem::directory_iterator()));
    }

private:
    std::filesystem::path path_;
};

inline constexpr const char* kNineGB = R"({
    "membudget": 1, "name": "nine",
    "training": {"optimizer": "adam"},
    "terms": {"parameters": "1GB", "gradients": "1GB", "optimizer_states": "4GB",
              "activations": "2GB", "temporaries": "1GB"},
    "scenarios": {
        "checkpointing": {"training": {"activation_checkpointing": "full"},
                          "terms": {"activations": "1GB"}},
        "sharded": {"parallelism": {"data": 4, "sharding": "zero1"}}}})";
