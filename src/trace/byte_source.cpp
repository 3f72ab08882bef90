// Bytes of a file, front to back.

#include <fstream>

#include <fmt/format.h>

#include "trace/inflate.hpp"

namespace membudget {

namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;
constexpr std::size_t kHead = std::size_t{1} << 16;

class StreamSource final : public ByteSource {
public:
    StreamSource(std::istream& in, TraceProgress progress, std::uint64_t total)
        : in_(in), progress_(std::move(progress)), total_(total) {}

    [[nodiscard]] std::string_view next() override {
        in_.read(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
        if (in_.bad()) error_ = "cannot be read";
        const auto n = static_cast<std::size_t>(in_.gcount());
        done_ += n;
        if (progress_ && n > 0) progress_(done_, total_);
        return {buffer_.data(), n};
    }
    [[nodiscard]] const std::string& error() const override { return error_; }

private:
    std::istream& in_;
    TraceProgress progress_;
    std::uint64_t total_;
    std::uint64_t done_ = 0;
    std::string error_;
    std::vector<char> buffer_ = std::vector<char>(kBuffer);
};

class TextSource final : public ByteSource {
public:
    explicit TextSource(std::string_view bytes) : bytes_(bytes) {}
    [[nodiscard]] std::string_view next() override { return std::exchange(bytes_, {}); }
    [[nodiscard]] const std::string& error() const override { return error_; }

private:
    std::string_view bytes_;
    std::string error_;
};

/// What was read for a look, then the rest.
class AgainSource final : public ByteSource {
public:
    AgainSource(std::string first, std::unique_ptr<ByteSource> rest)
        : first_(std::move(first)), rest_(std::move(rest)) {}
    [[nodiscard]] std::string_view next() override {
        if (given_) return rest_->next();
        given_ = true;
        return first_.empty() ? rest_->next() : std::string_view(first_);
    }
    [[nodiscard]] const std::string& error() const override { return rest_->error(); }

private:
    std::string first_;
    bool given_ = false;
    std::unique_ptr<ByteSource> rest_;
};

std::unique_ptr<ByteSource> unpacked(std::unique_ptr<ByteSource> source) {
    const std::string_view first = source->next();
    const bool packed = is_gzip(first);
    std::unique_ptr<ByteSource> again =
        std::make_unique<AgainSource>(std::string(first), std::move(source));
    if (!packed) return again;
    return gunzip(std::move(again));
}

}  // namespace

std::unique_ptr<ByteSource> source_of(std::istream& in, TraceProgress progress, std::uint64_t total) {
    return unpacked(std::make_unique<StreamSource>(in, std::move(progress), total));
}

std::unique_ptr<ByteSource> source_of(std::string_view bytes) {
    return unpacked(std::make_unique<TextSource>(bytes));
}

TraceInput::TraceInput(std::string name, std::unique_ptr<ByteSource> source)
    : name_(std::move(name)), source_(std::move(source)) {
    while (head_.size() < kHead) {
        const std::string_view more = source_->next();
        if (more.empty()) break;
        head_ += more;
    }
}

std::string_view TraceInput::head() const { return std::string_view(head_).substr(0, kHead); }

std::string_view TraceInput::next() {
    if (!head_given_) {
        head_given_ = true;
        if (!head_.empty()) return head_;
    }
    return source_->next();
}

Result<std::string> TraceInput::read_all(std::size_t limit) {
    std::string all;
    for (std::string_view more = next(); !more.empty(); more = next()) {
        if (all.size() + more.size() > limit)
            return Diagnostic{Trouble::invalid, name_, "",
                              fmt::format("expected at most {} in a file of this kind",
                                          format_bytes(Bytes(limit), Units::binary)),
                              "cut the file to the steps in question"};
        all += more;
    }
    if (!error().empty()) return Diagnostic{Trouble::invalid, name_, "", error(), ""};
    return all;
}

}  // namespace membudget
