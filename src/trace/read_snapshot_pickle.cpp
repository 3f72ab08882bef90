// PyTorch memory snapshots as pickle, protocols 2 to 5. Of the pickle machine only the opcodes that
// carry data exist here: those that import or call something are refused, so nothing in a file is
// ever executed.

#include <bit>
#include <cstring>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "trace/readers.hpp"
#include "trace/snapshot_builder.hpp"

namespace membudget {

namespace {

/// Opcodes by their byte [CPython Lib/pickle.py].
namespace opcode {
constexpr unsigned char mark = '(', stop = '.', none = 'N', new_true = 0x88, new_false = 0x89;
constexpr unsigned char binint = 'J', binint1 = 'K', binint2 = 'M', long1 = 0x8a, binfloat = 'G';
constexpr unsigned char short_binunicode = 0x8c, binunicode = 'X', binunicode8 = 0x8d;
constexpr unsigned char empty_list = ']', append = 'a', appends = 'e', list = 'l';
constexpr unsigned char empty_dict = '}', set_item = 's', set_items = 'u', dict = 'd';
constexpr unsigned char empty_tuple = ')', tuple = 't', tuple1 = 0x85, tuple2 = 0x86, tuple3 = 0x87;
constexpr unsigned char binput = 'q', long_binput = 'r', memoize = 0x94;
constexpr unsigned char binget = 'h', long_binget = 'j', proto = 0x80, frame = 0x95;
}  // namespace opcode

constexpr std::size_t kLongestText = std::size_t{1} << 20;

/// The bytes of an input with a window that slides over them: what one opcode needs is contiguous.
class Window {
public:
    explicit Window(TraceInput& input) : input_(input) {}

    /// At least `n` bytes from `at`, or a `SnapshotError`.
    const unsigned char* need(std::size_t n) {
        if (static_cast<std::size_t>(end_ - at_) < n) refill(n);
        return at_;
    }
    void skip(std::size_t n) { at_ += n; }
    /// What is at hand from here on.
    [[nodiscard]] std::span<const unsigned char> rest() const { return {at_, end_}; }
    unsigned char byte() {
        const unsigned char value = *need(1);
        ++at_;
        return value;
    }
    template <class T>
    T little_endian() {
        const unsigned char* from = need(sizeof(T));
        T value{};
        for (std::size_t i = 0; i < sizeof(T); ++i)
            value = static_cast<T>(value | static_cast<T>(static_cast<T>(from[i]) << (8 * i)));
        at_ += sizeof(T);
        return value;
    }
    std::string_view text(std::size_t length) {
        if (length > kLongestText) throw SnapshotError("a text is longer than any in a snapshot");
        const auto* from = reinterpret_cast<const char*>(need(length));
        at_ += length;
        return {from, length};
    }
    [[nodiscard]] std::uint64_t position() const {
        return consumed_ - static_cast<std::uint64_t>(end_ - at_);
    }

private:
    void refill(std::size_t n) {
        std::string rest(at_, end_);
        while (rest.size() < n) {
            const std::string_view more = input_.next();
            if (more.empty())
                throw SnapshotError(input_.error().empty() ? "the file ends early" : input_.error());
            consumed_ += more.size();
            // A whole chunk is used where it lies; what straddles two is copied.
            if (rest.empty() && more.size() >= n) return use(more);
            rest += more;
        }
        joined_ = std::move(rest);
        use(joined_);
    }
    void use(std::string_view bytes) {
        at_ = reinterpret_cast<const unsigned char*>(bytes.data());
        end_ = at_ + bytes.size();
    }

    TraceInput& input_;
    std::string joined_;
    const unsigned char* at_ = nullptr;
    const unsigned char* end_ = nullptr;
    std::uint64_t consumed_ = 0;
};

/// LONG1: little-endian two's complement of 0 to 9 bytes; addresses from 2^63 on need nine.
void push_long(SnapshotBuilder& builder, Window& in) {
    const std::size_t length = in.byte();
    const unsigned char* bytes = in.need(length);
    in.skip(length);
    if (length > 9 || (length == 9 && bytes[8] != 0))
        throw SnapshotError("an integer is beyond 64 bits");
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < length && i < 8; ++i) value |= std::uint64_t{bytes[i]} << (8 * i);
    const bool negative = length > 0 && length <= 8 && (bytes[length - 1] & 0x80U) != 0;
    if (negative && length < 8) value |= ~std::uint64_t{0} << (8 * length);
    builder.push(length == 9 && (value >> 63U) != 0 ? ValueKind::unsigned_integer : ValueKind::integer,
                 value);
}

void push_float(SnapshotBuilder& builder, Window& in) {
    const unsigned char* bytes = in.need(8);
    std::uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits = (bits << 8U) | bytes[i];
    in.skip(8);
    builder.real(std::bit_cast<double>(bits));
}

void check_protocol(unsigned version) {
    if (version < 2 || version > 5)
        throw SnapshotError(fmt::format("expected pickle protocol 2 to 5; got {}", version));
}

[[noreturn]] void refuse(unsigned code) {
    throw SnapshotError(fmt::format(
        "expected plain data; got pickle opcode 0x{:02x}, which could import or call something", code));
}

/// How many of `bytes`, from the first on, are references: most opcodes of a file are.
std::size_t length_of_gets(std::span<const unsigned char> bytes) {
    std::size_t at = 0;
    while (bytes.size() - at >= 5) {
        if (bytes[at] == opcode::long_binget)
            at += 5;
        else if (bytes[at] == opcode::binget)
            at += 2;
        else
            break;
    }
    return at;
}

/// The references that are the first `length` bytes ahead.
void get_run(SnapshotBuilder& builder, Window& in, std::size_t length) {
    const std::span<const unsigned char> run = in.rest().first(length);
    for (std::size_t at = 0; at < length;) {
        if (run[at] == opcode::binget) {
            builder.get(run[at + 1]);
            at += 2;
        } else {
            std::uint32_t index = 0;
            for (std::size_t i = 0; i < 4; ++i) index |= std::uint32_t{run[at + 1 + i]} << (8 * i);
            builder.get(index);
            at += 5;
        }
    }
    in.skip(length);
}

/// MARK. What follows a new list is often a stack: references and nothing else, up to APPENDS.
void mark(SnapshotBuilder& builder, Window& in) {
    const std::span<const unsigned char> ahead = in.rest();
    const std::size_t length = builder.begins_list() ? length_of_gets(ahead) : 0;
    if (length == 0 || length == ahead.size() || ahead[length] != opcode::appends) return builder.mark();
    const std::string_view run(reinterpret_cast<const char*>(ahead.data()), length);
    if (builder.repeat_stack(run)) return in.skip(length + 1);
    builder.mark();
    get_run(builder, in, length);
    in.skip(1);
    builder.appends();
    builder.made_by(run);
}

/// Runs opcodes up to STOP.
void run(SnapshotBuilder& builder, Window& in) {
    for (;;) {
        const unsigned char code = in.byte();
        switch (code) {
            case opcode::binget: builder.get(in.byte()); break;
            case opcode::long_binget: builder.get(in.little_endian<std::uint32_t>()); break;
            case opcode::memoize: builder.memoize(); break;
            case opcode::mark: mark(builder, in); break;
            case opcode::binint1: builder.integer(in.byte()); break;
            case opcode::binint2: builder.integer(in.little_endian<std::uint16_t>()); break;
            case opcode::binint:
                builder.integer(static_cast<std::int32_t>(in.little_endian<std::uint32_t>()));
                break;
            case opcode::long1: push_long(builder, in); break;
            case opcode::short_binunicode: builder.text(in.text(in.byte())); break;
            case opcode::binunicode: builder.text(in.text(in.little_endian<std::uint32_t>())); break;
            case opcode::binunicode8: builder.text(in.text(in.little_endian<std::uint64_t>())); break;
            case opcode::empty_dict: builder.push(ValueKind::empty_dict); break;
            case opcode::set_items: builder.set_items(); break;
            case opcode::set_item: builder.set_item(); break;
            case opcode::empty_list: builder.push(ValueKind::empty_list); break;
            case opcode::appends: builder.appends(); break;
            case opcode::append: builder.append(); break;
            case opcode::new_true: builder.push(ValueKind::boolean, 1); break;
            case opcode::new_false: builder.push(ValueKind::boolean, 0); break;
            case opcode::none: builder.push(ValueKind::none); break;
            case opcode::binfloat: push_float(builder, in); break;
            case opcode::tuple1: builder.tuple(1); break;
            case opcode::tuple2: builder.tuple(2); break;
            case opcode::tuple3: builder.tuple(3); break;
            case opcode::empty_tuple: builder.tuple(0); break;
            case opcode::tuple: builder.tuple(); break;
            case opcode::list: builder.collect(ValueKind::empty_list); break;
            case opcode::dict: builder.collect(ValueKind::empty_dict); break;
            case opcode::binput: builder.put(in.byte()); break;
            case opcode::long_binput: builder.put(in.little_endian<std::uint32_t>()); break;
            case opcode::proto: check_protocol(in.byte()); break;
            case opcode::frame: static_cast<void>(in.little_endian<std::uint64_t>()); break;
            case opcode::stop: return;
            default: refuse(code);
        }
    }
}

}  // namespace

bool recognise_snapshot_pickle(std::string_view head) {
    // PROTO, then a dict or a list, perhaps inside a frame. Any other pickle is told what it lacks.
    return head.size() >= 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 32;
}

Result<Trace> read_snapshot_pickle(TraceInput& input) {
    Window in(input);
    SnapshotBuilder builder;
    try {
        run(builder, in);
        return builder.finish();
    } catch (const SnapshotError& why) {
        return Diagnostic{Trouble::invalid, input.name(), "",
                          fmt::format("byte {}: {}", in.position(), why.what()),
                          "expected what torch.cuda.memory._dump_snapshot() writes"};
    }
}

}  // namespace membudget
