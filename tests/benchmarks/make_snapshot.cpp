// A memory snapshot of any size, shaped like a real one: the events, stacks and mix of opcodes follow
// a training run of a small GPT on PyTorch 2.11 (Wedsonlin/assignment2-systems,
// results/medium_128_training_memory_snapshot.pickle: 19,136 events in 3.1 MB, 170 stacks of 47 frames
// on average, 48 opcodes per event, two of three events with a list of frames of their own).
//
//     make_snapshot BYTES > FILE

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr std::uint64_t kBase = 0x7f0000000000;
constexpr std::size_t kFrames = 629, kStacks = 170, kTensors = 735;
constexpr std::int64_t kStartUs = 1'783'874'495'857'807;

/// Writes opcodes as CPython's pickler does at protocol 4, in frames of 64 KiB.
class Pickle {
public:
    Pickle() { raw("\x80\x04", 2); }
    void op(char code) { frame_ += code; }
    void bytes(std::uint64_t value, int n) {
        for (int i = 0; i < n; ++i) frame_ += static_cast<char>(value >> (8 * i));
    }
    std::uint32_t memoize() {
        op('\x94');
        flush_if_full();
        return memo_++;
    }
    void get(std::uint32_t index) {
        if (index < 256) {
            op('h');
            bytes(index, 1);
        } else {
            op('j');
            bytes(index, 4);
        }
    }
    std::uint32_t text(const std::string& value) {
        op('\x8c');
        bytes(value.size(), 1);
        frame_ += value;
        return memoize();
    }
    void integer(std::int64_t value) {
        const auto bits = static_cast<std::uint64_t>(value);
        if (value < 256) {
            op('K');
            bytes(bits, 1);
        } else if (value < 65536) {
            op('M');
            bytes(bits, 2);
        } else if (value < INT32_MAX) {
            op('J');
            bytes(bits, 4);
        } else {
            const int n = value < (std::int64_t{1} << 39) ? 5 : value < (std::int64_t{1} << 47) ? 6 : 7;
            op('\x8a');
            bytes(static_cast<std::uint64_t>(n), 1);
            bytes(bits, n);
        }
    }
    void finish() {
        op('.');
        flush();
    }
    [[nodiscard]] std::uint64_t written() const { return written_ + frame_.size(); }

private:
    void raw(const char* data, std::size_t n) {
        if (std::fwrite(data, 1, n, stdout) != n) std::exit(1);
        written_ += n;
    }
    void flush_if_full() {
        if (frame_.size() >= 65536) flush();
    }
    void flush() {
        char head[9] = {'\x95'};
        for (int i = 0; i < 8; ++i) head[i + 1] = static_cast<char>(frame_.size() >> (8 * i));
        raw(head, sizeof head);
        raw(frame_.data(), frame_.size());
        frame_.clear();
    }

    std::string frame_;
    std::uint32_t memo_ = 0;
    std::uint64_t written_ = 0;
};

class Snapshot {
public:
    void write(std::uint64_t size) {
        make_stacks();
        open_dict();
        key("segments");
        segments();
        key("device_traces");
        out_.op(']');
        out_.memoize();
        out_.op(']');
        out_.memoize();
        out_.op('(');
        for (std::size_t step = 0; out_.written() + 4096 < size; ++step)
            for (std::size_t tensor = 0; tensor < kTensors && out_.written() + 4096 < size; ++tensor)
                life(tensor);
        out_.op('e');
        out_.op('a');
        out_.op('u');
        out_.finish();
    }

private:
    struct Tensor {
        std::uint64_t address;
        std::int64_t size;
        std::size_t stack;
    };

    void make_stacks() {
        std::mt19937_64 random(7);
        for (std::size_t i = 0; i < kStacks; ++i) {
            std::vector<std::size_t> stack;
            // The outer frames are common to all, the inner ones are not.
            const std::size_t depth = 32 + random() % 31;
            for (std::size_t k = 0; k < depth; ++k)
                stack.push_back(k < 20 ? (random() % (kFrames - 60)) + 60 : k);
            stacks_.push_back(stack);
        }
        std::uint64_t address = kBase;
        for (std::size_t i = 0; i < kTensors; ++i) {
            const auto size = static_cast<std::int64_t>(512 * (1 + random() % (i % 5 == 0 ? 20000 : 60)));
            tensors_.push_back({address, size, random() % kStacks});
            address += static_cast<std::uint64_t>(size);
        }
        end_ = address;
    }

    void key(const std::string& name) {
        for (std::size_t i = 0; i < words_.size(); ++i)
            if (words_[i] == name) return out_.get(word_memo_[i]);
        words_.push_back(name);
        word_memo_.push_back(out_.text(name));
    }
    void open_dict() {
        out_.op('}');
        out_.memoize();
        out_.op('(');
    }

    void segments() {
        const auto size = static_cast<std::int64_t>(end_ - kBase);
        out_.op(']');
        out_.memoize();
        open_dict();
        key("device"), out_.integer(0);
        key("address"), out_.integer(static_cast<std::int64_t>(kBase));
        key("total_size"), out_.integer(size);
        key("stream"), out_.integer(0);
        key("segment_type"), key("large");
        key("blocks");
        out_.op(']');
        out_.memoize();
        open_dict();
        key("address"), out_.integer(static_cast<std::int64_t>(kBase));
        key("size"), out_.integer(size);
        key("requested_size"), out_.integer(0);
        key("state"), key("inactive");
        out_.op('u');
        out_.op('a');
        out_.op('u');
        out_.op('a');
    }

    void life(std::size_t tensor) {
        for (const char* action : {"alloc", "free_requested", "free_completed"}) event(action, tensors_[tensor]);
    }

    void event(const char* action, const Tensor& tensor) {
        if (count_ > 0 && count_ % 1000 == 0) {
            out_.op('e');
            out_.op('(');
        }
        ++count_;
        open_dict();
        key("action"), key(action);
        key("addr"), out_.integer(static_cast<std::int64_t>(tensor.address));
        key("size"), out_.integer(tensor.size);
        key("stream"), out_.integer(0);
        key("time_us"), out_.integer(kStartUs + static_cast<std::int64_t>(count_ * 11));
        key("compile_context"), key("N/A");
        key("user_metadata"), out_.text("");
        key("frames");
        if (count_ % 3 == 0 && last_list_ != 0)
            out_.get(last_list_);
        else
            frames(tensor.stack);
        out_.op('u');
    }

    void frames(std::size_t stack) {
        out_.op(']');
        last_list_ = out_.memoize();
        out_.op('(');
        for (const std::size_t frame : stacks_[stack]) {
            if (frame_memo_[frame] != 0) {
                out_.get(frame_memo_[frame]);
                continue;
            }
            out_.op('}');
            frame_memo_[frame] = out_.memoize();
            out_.op('(');
            key("name"), out_.text("function_" + std::to_string(frame));
            key("filename"), out_.text("/home/user/project/module_" + std::to_string(frame % 40) + ".py");
            key("line"), out_.integer(static_cast<std::int64_t>(frame * 13 + 1));
            out_.op('u');
        }
        out_.op('e');
    }

    Pickle out_;
    std::vector<std::string> words_;
    std::vector<std::uint32_t> word_memo_;
    std::vector<std::vector<std::size_t>> stacks_;
    std::vector<Tensor> tensors_;
    std::vector<std::uint32_t> frame_memo_ = std::vector<std::uint32_t>(kFrames, 0);
    std::uint64_t end_ = kBase;
    std::uint32_t last_list_ = 0;
    std::uint64_t count_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    const std::uint64_t size = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
    if (size < 100'000) {
        std::fputs("usage: make_snapshot BYTES > FILE   (from 100000 on)\n", stderr);
        return 2;
    }
    Snapshot().write(size);
    return 0;
}
