#include <string>

#include "catch.hpp"
#include "membudget/allocator.hpp"

namespace membudget {
namespace {

constexpr std::int64_t kMiB = 1024 * 1024;

TEST_CASE("the text of PYTORCH_ALLOC_CONF", "[allocator]") {
    const auto settings = parse_allocator_settings(
        " expandable_segments:True, max_split_size_mb:128,garbage_collection_threshold:0.8,"
        "roundup_power2_divisions:[256:1,512:2,1024:4,>:8],pinned_use_background_threads:True,");
    REQUIRE(settings.ok());
    CHECK(settings->expandable_segments);
    CHECK(settings->max_split_size == 128 * kMiB);
    CHECK(settings->garbage_collection_threshold == 0.8);
    const std::array<std::int64_t, 16> divisions{1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8};
    CHECK(settings->roundup_power2_divisions == divisions);
    CHECK(parse_allocator_settings("").value() == AllocatorSettings{});
    CHECK(parse_allocator_settings("per_process_memory_fraction:0.5")->memory_fraction == 0.5);
}

TEST_CASE("settings that PyTorch refuses are refused", "[allocator]") {
    struct Case {
        const char* text;
        const char* message;
    };
    const Case cases[] = {
        {"max_split_size_mb:19", "max_split_size_mb: expected a number of MiB of at least 20; got '19'"},
        {"large_segment_size_mb:64,max_split_size_mb:32",
         "max_split_size_mb: expected a number of MiB of at least 64; got '32'"},
        {"max_split_size_mb", "max_split_size_mb: expected a value after ':'; got 'max_split_size_mb'"},
        {"garbage_collection_threshold:1.0",
         "garbage_collection_threshold: expected a share between 0 and 1; got '1.0'"},
        {"garbage_collection_threshold:nan",
         "garbage_collection_threshold: expected a share between 0 and 1; got 'nan'"},
        {"roundup_power2_divisions:3",
         "roundup_power2_divisions: expected a power of two, or a list such as [256:1,512:2,>:4]; got '3'"},
        {"roundup_power2_divisions:[3:2]",
         "roundup_power2_divisions: expected a power of two, or a list such as [256:1,512:2,>:4]; got '3:2'"},
        {"expandable_segments:1", "expandable_segments: expected True or False; got '1'"},
        {"backend:cudaMallocAsync", "backend: expected native; got 'cudaMallocAsync'"},
        {"max_split_size:32", "unknown allocator setting 'max_split_size'"},
    };
    for (const Case& row : cases) {
        INFO(row.text);
        const auto settings = parse_allocator_settings(row.text);
        REQUIRE_FALSE(settings.ok());
        CHECK(settings.errors().list().front().message == row.message);
    }
    CHECK(parse_allocator_settings("max_split_size:32").errors().list().front().hint ==
          "did you mean 'max_split_size_mb'?");
}

}  // namespace
}  // namespace membudget
