#include "membudget/support.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace membudget {

namespace {
/// A start costs about as much as a tenth of a millisecond's work: more would not pay.
constexpr std::size_t kMostThreads = 4;

/// Calls that threads take one by one.
class Calls {
public:
    Calls(std::size_t count, const std::function<void(std::size_t)>& work) : work_(work), thrown_(count) {}

    void take() {
        for (std::size_t i = next_++; i < thrown_.size(); i = next_++) {
            try {
                work_(i);
            } catch (...) {
                thrown_[i] = std::current_exception();
            }
        }
    }
    void rethrow() const {
        for (const std::exception_ptr& exception : thrown_)
            if (exception) std::rethrow_exception(exception);
    }

private:
    const std::function<void(std::size_t)>& work_;
    std::atomic<std::size_t> next_{0};
    std::vector<std::exception_ptr> thrown_;
};
}  // namespace

/// What a team and its threads share: it lives as long as the last of them, which nobody waits for.
struct Team::Shared {
    std::mutex mutex;
    std::condition_variable called, returned;
    Calls* calls = nullptr;    ///< to be taken; null: none
    std::size_t generation = 0;
    std::size_t busy = 0;      ///< threads that are at them
    bool over = false;

    void serve() {
        std::unique_lock lock(mutex);
        for (std::size_t seen = 0;;) {
            called.wait(lock, [&] { return over || (calls != nullptr && generation != seen); });
            if (over) return;
            seen = generation;
            Calls& mine = *calls;
            ++busy;
            lock.unlock();
            mine.take();
            lock.lock();
            if (--busy == 0) returned.notify_one();
        }
    }
};

Team::Team() : shared_(std::make_shared<Shared>()) {
    const std::size_t wanted = std::min(kMostThreads, std::size_t{std::thread::hardware_concurrency()});
    try {
        for (std::size_t threads = 1; threads < wanted; ++threads)
            std::thread([shared = shared_] { shared->serve(); }).detach();
    } catch (const std::system_error&) {
        // No thread to be had: those that run do its work.
    }
}

Team::~Team() {
    const std::lock_guard lock(shared_->mutex);
    shared_->over = true;
    shared_->called.notify_all();
}

void Team::for_each_index(std::size_t count, const std::function<void(std::size_t)>& work) {
    Calls calls(count, work);
    {
        const std::lock_guard lock(shared_->mutex);
        shared_->calls = &calls;
        ++shared_->generation;
    }
    shared_->called.notify_all();
    calls.take();
    {
        // Who has not woken up by now finds nothing to do.
        std::unique_lock lock(shared_->mutex);
        shared_->calls = nullptr;
        shared_->returned.wait(lock, [this] { return shared_->busy == 0; });
    }
    calls.rethrow();
}

}  // namespace membudget
