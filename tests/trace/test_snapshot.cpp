#include <fstream>
#include <iterator>
#include <string>

#include "catch.hpp"
#include "membudget/trace.hpp"

namespace membudget {
namespace {

constexpr std::uint64_t kBase = 0x7f0000000000;

std::string text_of(const TraceStacks& stacks, StackId id) {
    std::string out;
    for (const std::uint32_t index : stacks.frames_of(id)) {
        const TraceFrame& frame = stacks.frame_at(index);
        out += std::string(stacks.text_of(frame.file)) + ":" + std::to_string(frame.line) + " " +
               std::string(stacks.text_of(frame.function)) + ";";
    }
    return out;
}

Result<Trace> read(std::string_view bytes) {
    TraceInput input("x", source_of(bytes));
    return read_trace(input);
}

std::string message_of(std::string_view bytes) {
    const auto trace = read(bytes);
    return trace.ok() ? "read" : trace.errors().list().front().message;
}

TEST_CASE("one snapshot in every form", "[trace]") {
    for (const char* file : {"protocol_2.pickle", "protocol_3.pickle", "protocol_4.pickle",
                             "protocol_5.pickle", "gzipped.pickle.gz", "snapshot.json"}) {
        INFO(file);
        const auto trace = read_trace_file(std::string("tests/trace/data/") + file);
        REQUIRE(trace.ok());
        REQUIRE(trace->devices.size() == 1);
        const TraceDevice& device = trace->devices.front();
        REQUIRE(device.segments.size() == 1);
        const TraceSegment& segment = device.segments.front();
        CHECK(segment.address == kBase);
        CHECK(segment.size == 2097152);
        CHECK_FALSE(segment.large);
        CHECK(segment.pool_id == 1);
        REQUIRE(segment.blocks.size() == 3);
        CHECK(segment.blocks[0].requested == 1000);
        CHECK(text_of(trace->stacks, segment.blocks[0].stack) == "a.py:3 f;b.py:70000 g;");
        CHECK(segment.blocks[1].state == BlockState::pending_free);
        CHECK(segment.blocks[2].requested == 0);

        REQUIRE(device.events.size() == 4);
        CHECK(device.events[0].action == TraceAction::segment_alloc);
        CHECK(device.events[1].time_us == 1700000000000005);
        CHECK(device.events[1].stack == segment.blocks[0].stack);
        CHECK(device.events[2].action == TraceAction::oom);
        CHECK(device.events[2].address == std::uint64_t{1} << 33U);
        CHECK(device.events[2].time_us == -1);
        CHECK(device.events[3].stream == (std::uint64_t{1} << 63U) + 5);

        REQUIRE(trace->settings);
        CHECK(trace->settings->garbage_collection_threshold == 0.5);
        CHECK(trace->settings->roundup_power2_divisions[15] == 4);
        CHECK(trace->settings->max_split_size == AllocatorSettings{}.max_split_size);
        REQUIRE(trace->markers.size() == 1);
        CHECK(trace->markers[0].name == "step");
        CHECK(trace->markers[0].end_us == 9);

        const TraceReplay levels = replay(device);
        CHECK(levels.complete);
        CHECK(levels.start.live == 0);
        CHECK(levels.peak.live == 1400);
        CHECK(levels.reserved_peak == 2097152);
        REQUIRE(levels.oom);
        CHECK(levels.oom->live == 1000);
        CHECK(live_after(device, 1).size() == 1);
        CHECK(live_after(device, 9).size() == 2);
    }
}

TEST_CASE("a bare list of segments, and the form before PyTorch 2.1", "[trace]") {
    const auto bare = read_trace_file("tests/trace/data/bare_list.pickle");
    REQUIRE(bare.ok());
    CHECK(bare->devices.at(0).segments.at(0).blocks.size() == 3);
    CHECK(bare->devices.at(0).events.empty());

    const auto old = read_trace_file("tests/trace/data/old.pickle");
    REQUIRE(old.ok());
    const auto& blocks = old->devices.at(0).segments.at(0).blocks;
    REQUIRE(blocks.size() == 3);
    CHECK(blocks[1].address == kBase + 1024);
    CHECK(text_of(old->stacks, blocks[0].stack) == "a.py:3 f;b.py:70000 g;");
    CHECK(old->devices.at(0).events[0].action == TraceAction::snapshot);
}

TEST_CASE("pickles that do more than hold data are refused", "[trace]") {
    using namespace std::literals;
    CHECK(message_of("\x80\x04\x8c\x02os\x8c\x06system\x93."sv) ==
          "byte 15: expected plain data; got pickle opcode 0x93, which could import or call something");
    CHECK(message_of("\x80\x02"
                     "cos\nsystem\n."sv) ==
          "byte 3: expected plain data; got pickle opcode 0x63, which could import or call something");
    for (const char code : {'R', 'b', 'i', 'o', '\x81', '\x92', 'P', 'Q', '\x82', 'B', '\x97'}) {
        const std::string bytes = std::string("\x80\x04N") + code + ".";
        CHECK(message_of(bytes).find("expected plain data") != std::string::npos);
    }
}

TEST_CASE("the same references are the same stack until they are given a new meaning", "[trace]") {
    using namespace std::literals;
    const auto text = [](std::string_view t) {
        return std::string("\x8c") + static_cast<char>(t.size()) + std::string(t);
    };
    // A frame of this name, memoized as number 0; then lists of it, and of references to it.
    const auto frame = [&](std::string_view name) {
        return "}q\x00("s + text("filename") + text("a.py") + text("name") + text(name) + text("line") + "K\x01u";
    };
    const auto event = [&](const std::string& frames) {
        return "}(" + text("action") + text("alloc") + text("size") + "K\x01" + text("frames") + "](" + frames + "eu";
    };
    const std::string once = "h\x00"s, twice = once + once;
    std::string events;
    for (const std::string& frames : {frame("first"), once, twice, once, twice, frame("second"), once, twice, twice})
        events += event(frames);
    const std::string bytes = "\x80\x02}(" + text("segments") + "]" + text("device_traces") + "](](" + events + "eeu.";
    const auto trace = read(bytes);
    REQUIRE(trace.ok());
    std::vector<std::string> stacks;
    for (std::size_t i = 0; i < trace->devices.at(0).events.size(); ++i) {
        std::string names;
        for (const std::uint32_t index : trace->stacks.frames_of(trace->devices[0].events[i].stack))
            names += std::string(trace->stacks.text_of(trace->stacks.frame_at(index).function)) + " ";
        stacks.push_back(names);
    }
    CHECK(stacks == std::vector<std::string>{"first ", "first ", "first first ", "first ", "first first ", "second ",
                                             "second ", "second second ", "second second "});
}

TEST_CASE("broken and hostile snapshots are refused", "[trace]") {
    using namespace std::literals;
    CHECK(message_of("") == "expected a memory trace; the file is empty");
    CHECK(message_of("\x80\x06."sv) == "byte 2: expected pickle protocol 2 to 5; got 6");
    CHECK(message_of("\x80\x04."sv) == "byte 3: ends in the middle of a value");
    CHECK(message_of("\x80\x04N."sv) ==
          "byte 4: expected a memory snapshot: a dict with 'segments', or a list of them");
    CHECK(message_of("\x80\x04]\x94h\x07."sv) == "byte 6: refers to a value that is not there");
    CHECK(message_of("\x80\x04Nr\xff\xff\xff\xff."sv) == "byte 8: memoizes under a number that is out of order");
    CHECK(message_of("\x80\x04X\xff\xff\xff\x7f"sv) == "byte 7: a text is longer than any in a snapshot");
    CHECK(message_of("\x80\x04]("sv) == "byte 4: the file ends early");
    CHECK(message_of("\x80\x04" + std::string(5000, '(') + ".") == "byte 4099: values are nested too deep");
    CHECK(message_of("\x80\x04" + std::string(2'000'000, ']') + ".") ==
          "byte 1048579: values are nested or listed too deep");
    // A list that holds itself.
    CHECK(message_of("\x80\x04]\x94h\x00" "a."sv).find("expected a memory snapshot") != std::string::npos);
    // Sizes below zero, and beyond 2^53.
    const std::string open = "\x80\x04}(X\x06\x00\x00\x00" "actionX\x05\x00\x00\x00" "allocX\x04\x00\x00\x00size"s;
    CHECK(message_of(open + "J\xff\xff\xff\xffu."s) == "byte 40: size: expected a number of bytes; got -1");
    CHECK(message_of(open + "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00u."s) ==
          "byte 46: size: expected an integer below 2^63; got a larger one");
    CHECK(message_of(open + "\x8a\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01u."s) ==
          "byte 46: an integer is beyond 64 bits");
}

TEST_CASE("a snapshot cut anywhere is an error, and so is a flipped bit or it reads", "[trace]") {
    for (const char* name : {"protocol_2.pickle", "protocol_4.pickle"}) {
        std::ifstream file(std::string("tests/trace/data/") + name, std::ios::binary);
        const std::string bytes(std::istreambuf_iterator<char>(file), {});
        REQUIRE(bytes.size() > 1000);
        for (std::size_t length = 2; length < bytes.size(); ++length) {
            INFO(length);
            CHECK_FALSE(read(std::string_view(bytes).substr(0, length)).ok());
        }
        for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
            std::string flipped = bytes;
            flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
            const auto trace = read(flipped);
            if (!trace) continue;
            for (const TraceDevice& device : trace->devices) {
                const TraceReplay levels = replay(device);
                CHECK(levels.peak.live >= levels.start.live);
                (void)live_after(device, 2);
            }
        }
    }
}

}  // namespace
}  // namespace membudget
