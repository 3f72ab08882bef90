// PyTorch memory snapshots as JSON: json.dump() of the same dict. The parser's events drive the same
// builder as the opcodes of a pickle, so nothing is kept as a tree.

#include <limits>
#include <streambuf>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "trace/readers.hpp"
#include "trace/snapshot_builder.hpp"

namespace membudget {

namespace {

/// An input as a stream for the parser.
class InputBuffer final : public std::streambuf {
public:
    explicit InputBuffer(TraceInput& input) : input_(input) {}

private:
    int_type underflow() override {
        const std::string_view more = input_.next();
        if (more.empty()) return traits_type::eof();
        char* from = const_cast<char*>(more.data());  // never written: there is no overflow()
        setg(from, from, from + more.size());
        return traits_type::to_int_type(*from);
    }
    TraceInput& input_;
};

/// A list hands its items over in batches, as a pickle does.
constexpr std::size_t kBatch = 1000;

class Handler final : public nlohmann::json_sax<nlohmann::json> {
public:
    explicit Handler(SnapshotBuilder& builder) : builder_(builder) {}

    bool null() override {
        builder_.push(ValueKind::none);
        return item();
    }
    bool boolean(bool value) override {
        builder_.push(ValueKind::boolean, value ? 1 : 0);
        return item();
    }
    bool number_integer(number_integer_t value) override {
        builder_.integer(value);
        return item();
    }
    bool number_unsigned(number_unsigned_t value) override {
        builder_.push(value > std::numeric_limits<std::int64_t>::max() ? ValueKind::unsigned_integer
                                                                       : ValueKind::integer,
                      value);
        return item();
    }
    bool number_float(number_float_t value, const string_t&) override {
        builder_.real(value);
        return item();
    }
    bool string(string_t& value) override {
        builder_.text(value);
        return item();
    }
    bool binary(binary_t&) override { return false; }
    bool key(string_t& value) override {
        builder_.text(value);
        return true;
    }
    bool start_object(std::size_t) override { return begin(ValueKind::empty_dict); }
    bool start_array(std::size_t) override { return begin(ValueKind::empty_list); }
    bool end_object() override {
        builder_.set_items();
        lists_.pop_back();
        return item();
    }
    bool end_array() override {
        builder_.appends();
        lists_.pop_back();
        return item();
    }
    bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
        throw SnapshotError(fmt::format("not valid JSON at byte {}", position));
    }

private:
    bool begin(ValueKind kind) {
        builder_.push(kind);
        builder_.mark();
        lists_.push_back(kind == ValueKind::empty_list);
        return true;
    }
    bool item() {
        if (!lists_.empty() && lists_.back() && builder_.above_mark() >= kBatch) {
            builder_.appends();
            builder_.mark();
        }
        return true;
    }

    SnapshotBuilder& builder_;
    std::vector<bool> lists_;   ///< of the containers that are open: is it a list
};

}  // namespace

bool recognise_snapshot_json(std::string_view head) {
    const std::size_t first = head.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos || (head[first] != '{' && head[first] != '[')) return false;
    if (head.find("\"traceEvents\"") != std::string_view::npos) return false;
    return head.find("\"segments\"") != std::string_view::npos ||
           head.find("\"total_size\"") != std::string_view::npos ||
           head.find("\"device_traces\"") != std::string_view::npos;
}

Result<Trace> read_snapshot_json(TraceInput& input) {
    InputBuffer buffer(input);
    std::istream stream(&buffer);
    SnapshotBuilder builder;
    try {
        Handler handler(builder);
        nlohmann::json::sax_parse(stream, &handler);
        if (!input.error().empty()) throw SnapshotError(input.error());
        return builder.finish();
    } catch (const SnapshotError& why) {
        return Diagnostic{Trouble::invalid, input.name(), "", why.what(),
                          "expected the dict of torch.cuda.memory._snapshot() as JSON"};
    }
}

}  // namespace membudget
