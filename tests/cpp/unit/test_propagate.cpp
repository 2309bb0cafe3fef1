// SPDX-License-Identifier: Apache-2.0
// propagate: callables of every kind, on a thread pool.
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <queue>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "check.hpp"
#include "fastprof/fastprof.hpp"
#include "fastprof/primitives/propagate.hpp"

using namespace fastprof;

namespace {

struct Request : DebugInfoBase {
  explicit Request(int n) : id(n) {}
  int id;
};
int request() {
  DebugInfoBase* found = ThreadLocalDebugInfo::get(DebugInfoKind::INFERENCE_CONTEXT);
  return found != nullptr ? static_cast<Request*>(found)->id : -1;
}

// A pool of two threads. Tasks may be move-only.
class Pool {
 public:
  Pool() {
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Pool() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      done_ = true;
    }
    ready_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  template <class F>
  auto submit(F task) {
    std::packaged_task<std::invoke_result_t<F>()> packaged(std::move(task));
    auto future = packaged.get_future();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      tasks_.push(std::packaged_task<void()>([inner = std::move(packaged)]() mutable { inner(); }));
    }
    ready_.notify_one();
    return future;
  }

 private:
  void work() {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      ready_.wait(lock, [this] { return done_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      std::packaged_task<void()> task = std::move(tasks_.front());
      tasks_.pop();
      lock.unlock();
      task();
    }
  }
  std::mutex mutex_;
  std::condition_variable ready_;
  std::queue<std::packaged_task<void()>> tasks_;
  bool done_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

TEST(tasks_of_a_pool_see_what_was_set_at_their_launch) {
  Pool pool;
  std::vector<std::future<int>> with, without;
  for (int i = 0; i < 50; ++i) {
    const DebugInfoGuard guard(DebugInfoKind::INFERENCE_CONTEXT, std::make_shared<Request>(i));
    with.push_back(pool.submit(propagate([] { return request(); })));
    without.push_back(pool.submit([] { return request(); }));
  }
  for (int i = 0; i < 50; ++i) {
    CHECK_EQ(with[static_cast<size_t>(i)].get(), i);
    CHECK_EQ(without[static_cast<size_t>(i)].get(), -1);
  }
}

TEST(any_callable_arguments_and_results) {
  const DebugInfoGuard guard(DebugInfoKind::INFERENCE_CONTEXT, std::make_shared<Request>(1));
  auto owner = std::make_unique<int>(5);
  auto move_only = propagate([p = std::move(owner)](int x) { return *p + x + request(); });
  static_assert(!std::is_copy_constructible_v<decltype(move_only)>);
  auto moved = std::move(move_only);
  CHECK_EQ(std::async(std::launch::async, [&] { return moved(10); }).get(), 16);

  int calls = 0;
  auto counting = propagate([&calls, n = 0]() mutable { return calls += ++n; });
  counting();
  counting();
  CHECK_EQ(calls, 3);

  std::string text = "a";
  const auto by_reference = propagate([](std::string& s) -> std::string& { return s += "b"; });
  std::string& same = by_reference(text);
  CHECK(&same == &text);
  CHECK_EQ(text, "ab");

  const auto member = propagate(&std::string::size);
  CHECK_EQ(member(text), 2u);
  CHECK_EQ(propagate([](std::unique_ptr<int> p) { return *p; })(std::make_unique<int>(3)), 3);
  const std::function<int()> erased = propagate([] { return request(); });
  CHECK_EQ(std::async(std::launch::async, erased).get(), 1);
}

#if FASTPROF_EXCEPTIONS
TEST(exceptions_pass_and_the_state_is_restored) {
  ThreadLocalState empty;
  const DebugInfoGuard guard(DebugInfoKind::INFERENCE_CONTEXT, std::make_shared<Request>(1));
  const auto throws = propagate([]() -> int { throw std::runtime_error("through"); });
  std::thread([&] {
    CHECK_THROWS(std::runtime_error, throws());
    CHECK_EQ(request(), -1);
  }).join();
}
#endif
