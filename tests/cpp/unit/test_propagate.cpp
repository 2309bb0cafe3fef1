// SPDX-License-Identifier: Apache-2.0
// propagate: callables of every kind, on other threads.
#include <functional>
#include <future>
#include <memory>
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

}  // namespace

// Each of two threads runs tasks with and without what was set, in turn.
TEST(tasks_see_what_was_set_at_their_launch) {
  std::vector<std::function<int()>> with;
  for (int i = 0; i < 50; ++i) {
    const DebugInfoGuard guard(DebugInfoKind::INFERENCE_CONTEXT, std::make_shared<Request>(i));
    with.emplace_back(propagate([] { return request(); }));
  }
  std::vector<std::thread> threads;
  for (size_t first = 0; first < 2; ++first)
    threads.emplace_back([&with, first] {
      for (size_t i = first; i < with.size(); i += 2) {
        CHECK_EQ(with[i](), static_cast<int>(i));
        CHECK_EQ(request(), -1);
      }
    });
  for (std::thread& thread : threads) thread.join();
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

TEST(exceptions_pass_and_the_state_is_restored) {
  ThreadLocalState empty;
  const DebugInfoGuard guard(DebugInfoKind::INFERENCE_CONTEXT, std::make_shared<Request>(1));
  const auto throws = propagate([]() -> int { throw std::runtime_error("through"); });
  std::thread([&] {
    CHECK_THROWS(std::runtime_error, throws());
    CHECK_EQ(request(), -1);
  }).join();
}
