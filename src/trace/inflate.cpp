#include "trace/inflate.hpp"

#include <zlib.h>

#include <limits>
#include <new>
#include <string>
#include <vector>

namespace membudget {

namespace {

constexpr std::size_t kOutput = std::size_t{1} << 18;
/// Windows of any size, and gzip's header and trailer around each member.
constexpr int kGzipWindow = MAX_WBITS + 16;

class GzipSource final : public ByteSource {
public:
    explicit GzipSource(std::unique_ptr<ByteSource> packed) : packed_(std::move(packed)) {
        if (inflateInit2(&stream_, kGzipWindow) != Z_OK) throw std::bad_alloc();
    }
    ~GzipSource() override { inflateEnd(&stream_); }
    GzipSource(const GzipSource&) = delete;
    GzipSource& operator=(const GzipSource&) = delete;

    [[nodiscard]] std::string_view next() override {
        stream_.next_out = reinterpret_cast<Bytef*>(out_.data());
        stream_.avail_out = static_cast<uInt>(out_.size());
        while (!done_ && stream_.avail_out > 0) advance();
        return {out_.data(), out_.size() - stream_.avail_out};
    }
    [[nodiscard]] const std::string& error() const override { return error_; }

private:
    void advance() {
        if (stream_.avail_in == 0 && !refill()) {
            // Only between two members may the stream end.
            if (in_member_) fail("the stream ends early");
            done_ = true;
            return;
        }
        if (!in_member_) {
            // Padding after a member, as tapes and some tools leave it, is no member.
            done_ = *stream_.next_in == 0;
            if (done_) return;
            inflateReset(&stream_);
            in_member_ = true;
        }
        const int result = inflate(&stream_, Z_NO_FLUSH);
        if (result == Z_STREAM_END)
            in_member_ = false;
        else if (result != Z_OK && result != Z_BUF_ERROR)
            fail(stream_.msg != nullptr ? stream_.msg : "the stream is damaged");
    }

    /// More packed bytes; false at their end.
    bool refill() {
        if (rest_.empty()) rest_ = packed_->next();
        const std::string_view part = rest_.substr(0, std::numeric_limits<uInt>::max());
        rest_.remove_prefix(part.size());
        // zlib reads through this pointer, and never writes.
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
        stream_.avail_in = static_cast<uInt>(part.size());
        return !part.empty();
    }

    void fail(std::string_view what) {
        error_ = packed_->error().empty() ? "gzip: " + std::string(what) : packed_->error();
        done_ = true;
    }

    std::unique_ptr<ByteSource> packed_;
    std::string_view rest_;
    z_stream stream_{};
    bool in_member_ = true, done_ = false;
    std::string error_;
    std::vector<char> out_ = std::vector<char>(kOutput);
};

}  // namespace

bool is_gzip(std::string_view head) { return head.starts_with("\x1f\x8b\x08"); }

std::unique_ptr<ByteSource> gunzip(std::unique_ptr<ByteSource> packed) {
    return std::make_unique<GzipSource>(std::move(packed));
}

}  // namespace membudget
