#include "catch.hpp"
#include "membudget/spec.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "spec/shown.hpp"

using namespace membudget;

namespace {

/// A folder of its own that goes when the test does.
class Folder {
public:
    Folder() {
        std::string pattern = std::filesystem::temp_directory_path() / "membudget-XXXXXX";
        path_ = ::mkdtemp(pattern.data());
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() { std::filesystem::remove_all(path_); }
    [[nodiscard]] std::string operator/(const std::string& name) const {
        return (path_ / name).string();
    }

private:
    std::filesystem::path path_;
};

std::string error_of(const std::string& path, ReadLimits limits = {}) {
    const Result<std::string> text = read_text(path, limits);
    REQUIRE_FALSE(text.ok());
    CHECK(text.errors().list().front().file == path);
    return shown(text.errors());
}

}  // namespace

TEST_CASE("read_text reads a whole file, whatever is in it", "[spec]") {
    const Folder folder;
    const std::string text(200'001, '\0');
    std::ofstream(folder / "zeros") << text;
    std::ofstream(folder / "empty");
    CHECK(read_text(folder / "zeros").value() == text);
    CHECK(read_text(folder / "empty").value().empty());
}

TEST_CASE("read_text says why it cannot", "[spec]") {
    const Folder folder;
    std::ofstream(folder / "four") << "1234";
    CHECK(error_of(folder / "none") == "error: expected a file; there is none of this name\n");
    CHECK(error_of(folder / "four" + "/x") ==
          "error: expected a file; a part of its path is no directory\n");
    CHECK(error_of(folder / "") == "error: expected a file; got a directory\n");
    CHECK(error_of("") == "error: expected the path of a file; got ''\n");
    CHECK(error_of(std::string("a\0b", 3)) ==
          "error: expected the path of a file; got 'a\\x00b'\n");
    CHECK(error_of(folder / "four", {.bytes = 3}) == "error: expected at most 3 bytes; got more\n");
    CHECK(read_text(folder / "four", {.bytes = 4}).ok());
    CHECK(error_of("/dev/zero") == "error: expected at most 67108864 bytes; got more\n");
}

TEST_CASE("read_text names a missing permission", "[spec]") {
    if (::geteuid() == 0) {
        WARN("skipped: the superuser may read everything");
        return;
    }
    const Folder folder;
    std::ofstream(folder / "secret") << "1";
    ::chmod((folder / "secret").c_str(), 0);
    CHECK(error_of(folder / "secret") ==
          "error: expected a readable file; permission denied\n");
}

TEST_CASE("read_text waits for a pipe's writer while there is one", "[spec]") {
    const Folder folder;
    const std::string pipe = folder / "pipe";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    std::thread writer([&pipe] {
        std::ofstream out(pipe);
        out << "first " << std::flush;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        out << "second";
    });
    CHECK(read_text(pipe).value() == "first second");
    writer.join();
}

TEST_CASE("read_text gives a pipe without a writer up", "[spec]") {
    const Folder folder;
    const std::string pipe = folder / "pipe";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    CHECK(read_text(pipe).value().empty());  // and does not wait forever
}
