#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "cli/output_file.hpp"
#include "run.hpp"

using membudget::cli::OutputFile;

TEST_CASE("until it is committed, the old content stays") {
    const Folder folder;
    const std::string path = folder.write("report", "old");
    {
        auto file = OutputFile::open(path);
        REQUIRE(file.ok());
        CHECK(folder.read("report") == "old");
    }
    CHECK(folder.read("report") == "old");
    CHECK(folder.files() == 1);

    auto file = OutputFile::open(path);
    REQUIRE(file.ok());
    CHECK(file->commit("new").empty());
    CHECK(folder.read("report") == "new");
    CHECK(folder.files() == 1);
}

TEST_CASE("rights and symbolic links of the replaced file are kept") {
    const Folder folder;
    const std::string path = folder.write("report", "old");
    REQUIRE(chmod(path.c_str(), 0640) == 0);
    std::filesystem::create_symlink(path, folder.path("link"));
    auto file = OutputFile::open(folder.path("link"));
    REQUIRE(file.ok());
    CHECK(file->commit("new").empty());
    CHECK(std::filesystem::is_symlink(folder.path("link")));
    CHECK(folder.read("report") == "new");
    struct stat status {};
    REQUIRE(stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0640);
}

TEST_CASE("a path that cannot be written fails before any work") {
    const Folder folder;
    const auto absent = OutputFile::open(folder.path("no/such/folder"));
    REQUIRE_FALSE(absent.ok());
    CHECK(absent.errors().list().front().message == "cannot be written: No such file or directory");
    const auto directory = OutputFile::open(folder.path(""));
    REQUIRE_FALSE(directory.ok());
    CHECK(directory.errors().list().front().message == "cannot be written: Is a directory");
    CHECK(OutputFile::open("/dev/null").ok());
    CHECK(folder.files() == 0);
}
