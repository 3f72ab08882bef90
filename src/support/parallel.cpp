#include "membudget/support.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace membudget {

namespace {
/// A start costs about as much as a tenth of a millisecond's work: more would not pay.
constexpr std::size_t kMostThreads = 4;
}  // namespace

void for_each_index(std::size_t count, const std::function<void(std::size_t)>& work) {
    std::atomic<std::size_t> next{0};
    std::vector<std::exception_ptr> thrown(count);
    const auto take = [&] {
        for (std::size_t i = next++; i < count; i = next++) {
            try {
                work(i);
            } catch (...) {
                thrown[i] = std::current_exception();
            }
        }
    };
    const std::size_t wanted = std::min({count, kMostThreads, std::size_t{std::thread::hardware_concurrency()}});
    std::vector<std::jthread> others;
    try {
        while (others.size() + 1 < wanted) others.emplace_back(take);
    } catch (const std::system_error&) {
        // No thread to be had: those that run do its work.
    }
    take();
    others.clear();  // joins them
    for (const std::exception_ptr& exception : thrown)
        if (exception) std::rethrow_exception(exception);
}

}  // namespace membudget
