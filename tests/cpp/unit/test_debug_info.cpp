// SPDX-License-Identifier: Apache-2.0
// ThreadLocalDebugInfo: kinds, the shared chain, push, pop and guards, memory reports.
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>

#include "check.hpp"
#include "fastprof/fastprof.hpp"
#include "fastprof/primitives/debug_info.hpp"
#include "fastprof/primitives/memory_reporting.hpp"
#include "text_checks.hpp"

using namespace fastprof;

namespace {

struct Info : DebugInfoBase {
  explicit Info(int n) : number(n) {}
  int number;
};
std::shared_ptr<Info> info(int n) {
  return std::make_shared<Info>(n);
}
int number(DebugInfoKind kind) {
  DebugInfoBase* found = ThreadLocalDebugInfo::get(kind);
  return found != nullptr ? static_cast<Info*>(found)->number : -1;
}

constexpr std::string_view request_text = "request";
constexpr std::string_view other_text = "request";
constexpr DebugInfoKind REQUEST{&request_text};
constexpr DebugInfoKind OTHER{&other_text};

}  // namespace

TEST(kinds_are_identified_by_number_address_or_text) {
  CHECK(DebugInfoKind::TEST_INFO == DebugInfoKind::TEST_INFO);
  CHECK(DebugInfoKind::TEST_INFO != DebugInfoKind::TEST_INFO_2);
  CHECK(REQUEST == DebugInfoKind{&request_text});
  CHECK(REQUEST != OTHER);  // the same text at another address
  CHECK(REQUEST != DebugInfoKind::named("request"));
  const std::string copy = "acme.tenant";
  CHECK(DebugInfoKind::named("acme.tenant") == DebugInfoKind::named(copy));
  CHECK(DebugInfoKind::named("TEST_INFO") != DebugInfoKind::TEST_INFO);
  const std::set<DebugInfoKind> ordered{REQUEST,
                                        OTHER,
                                        DebugInfoKind::TEST_INFO,
                                        REQUEST,
                                        DebugInfoKind::named("a"),
                                        DebugInfoKind::named("b")};
  CHECK_EQ(ordered.size(), 5u);
  const std::unordered_set<DebugInfoKind> hashed{REQUEST, DebugInfoKind::named("a"), REQUEST};
  CHECK_EQ(hashed.size(), 2u);
  std::ostringstream out;
  out << DebugInfoKind::PROFILER_STATE << " " << REQUEST;
  CHECK_EQ(out.str(), "PROFILER_STATE request");
  const std::string_view* null = nullptr;
  CHECK_THROWS(ValueError, DebugInfoKind{null});
}

TEST(chains_share_nodes_and_are_equal_by_identity) {
  const DebugInfoChain empty;
  CHECK(empty.empty() && !empty);
  CHECK(empty == DebugInfoChain() && !(empty != DebugInfoChain()));
  CHECK(empty.get(DebugInfoKind::TEST_INFO) == nullptr);
  CHECK(empty.get_shared(DebugInfoKind::TEST_INFO) == nullptr);
  const std::shared_ptr<Info> one = info(1), two = info(2);
  const DebugInfoChain chain = empty.with(DebugInfoKind::TEST_INFO, one);
  const DebugInfoChain longer = chain.with(REQUEST, two);
  CHECK(!chain.empty() && chain);
  CHECK(DebugInfoChain(chain) == chain && !(DebugInfoChain(chain) != chain));
  CHECK(chain != longer && !(chain == longer) && chain != empty);
  CHECK(longer.get(DebugInfoKind::TEST_INFO) == one.get());
  CHECK(longer.get_shared(REQUEST) == two);
  CHECK(longer.get_shared(DebugInfoKind::TEST_INFO) == one);
  CHECK(chain.get(REQUEST) == nullptr && chain.get_shared(REQUEST) == nullptr);
  CHECK_EQ(one.use_count(), 2);  // here and in the one node that both chains share
  const std::shared_ptr<DebugInfoBase> plain = one;
  CHECK(plain->memory_reporting() == nullptr && plain->profiler_state() == nullptr);
}

TEST(errors_of_push_and_pop_name_what_is_newest) {
  CHECK(ThreadLocalDebugInfo::current().empty());
  const auto message = [] {
    return text_checks::message_of<StateError>(
        [] { ThreadLocalDebugInfo::pop(DebugInfoKind::TEST_INFO); });
  };
  const std::string begin =
      "ThreadLocalDebugInfo::pop(TEST_INFO): the newest debug info of this "
      "thread is ";
  CHECK_EQ(message(), begin + "none; push and pop must nest on one thread");
  const DebugInfoGuard guard(REQUEST, info(1));
  CHECK_EQ(message(), begin + "request; push and pop must nest on one thread");
}

TEST(push_peek_and_pop_nest) {
  CHECK(ThreadLocalDebugInfo::current().empty());
  ThreadLocalDebugInfo::push(DebugInfoKind::TEST_INFO, info(1));
  ThreadLocalDebugInfo::push(REQUEST, info(2));
  CHECK_EQ(number(DebugInfoKind::TEST_INFO), 1);
  CHECK_EQ(number(REQUEST), 2);
  CHECK_THROWS(StateError, ThreadLocalDebugInfo::pop(DebugInfoKind::TEST_INFO));
  CHECK_THROWS(StateError, ThreadLocalDebugInfo::peek(DebugInfoKind::TEST_INFO));
  CHECK_EQ(number(REQUEST), 2);
  CHECK_EQ(static_cast<Info*>(ThreadLocalDebugInfo::peek(REQUEST).get())->number, 2);
  CHECK_EQ(static_cast<Info*>(ThreadLocalDebugInfo::pop(REQUEST).get())->number, 2);
  CHECK_EQ(number(REQUEST), -1);
  CHECK_EQ(static_cast<Info*>(ThreadLocalDebugInfo::pop(DebugInfoKind::TEST_INFO).get())->number,
           1);
  CHECK_THROWS(StateError, ThreadLocalDebugInfo::pop(DebugInfoKind::TEST_INFO));
  CHECK(ThreadLocalDebugInfo::current().empty());
}

TEST(guards_shadow_and_restore) {
  const DebugInfoGuard outer(DebugInfoKind::TEST_INFO, info(1));
  {
    const DebugInfoGuard second(DebugInfoKind::TEST_INFO_2, info(2));
    const DebugInfoGuard inner(DebugInfoKind::TEST_INFO, info(3));
    CHECK_EQ(number(DebugInfoKind::TEST_INFO), 3);
    CHECK_EQ(number(DebugInfoKind::TEST_INFO_2), 2);
  }
  CHECK_EQ(number(DebugInfoKind::TEST_INFO), 1);
  CHECK_EQ(number(DebugInfoKind::TEST_INFO_2), -1);
}

TEST(null_guards_do_nothing) {
  const DebugInfoGuard outer(DebugInfoKind::TEST_INFO, info(1));
  const DebugInfoGuard null(DebugInfoKind::TEST_INFO, nullptr);
  const DebugInfoGuard empty((DebugInfoChain()));
  CHECK_EQ(number(DebugInfoKind::TEST_INFO), 1);
}

TEST(a_chain_moves_to_another_thread_and_stays_immutable) {
  DebugInfoChain chain;
  {
    const DebugInfoGuard guard(DebugInfoKind::TEST_INFO, info(1));
    chain = ThreadLocalDebugInfo::current();
  }
  CHECK_EQ(number(DebugInfoKind::TEST_INFO), -1);
  std::thread([&] {
    CHECK_EQ(number(DebugInfoKind::TEST_INFO), -1);
    const DebugInfoGuard whole(chain);
    CHECK_EQ(number(DebugInfoKind::TEST_INFO), 1);
    const DebugInfoGuard more(DebugInfoKind::TEST_INFO, info(2));
    CHECK_EQ(number(DebugInfoKind::TEST_INFO), 2);
  }).join();
  CHECK_EQ(static_cast<Info*>(chain.get(DebugInfoKind::TEST_INFO))->number, 1);
  CHECK(ThreadLocalDebugInfo::current().empty());
}

TEST(long_chains_are_freed_without_recursion) {
  DebugInfoChain chain;
  for (int i = 0; i < 200000; ++i) chain = chain.with(DebugInfoKind::TEST_INFO, nullptr);
  CHECK(!chain.empty());
}

namespace {

struct MemoryProfiler : MemoryReportingInfoBase {
  void report_memory_usage(void*, int64_t bytes, uint64_t allocated, uint64_t,
                           Device device) noexcept override {
    total += bytes;
    last_allocated = allocated;
    last_device = device;
  }
  void report_out_of_memory(int64_t bytes, uint64_t, uint64_t, Device) noexcept override {
    failed = bytes;
  }
  bool memory_profiling_enabled() const noexcept override { return enabled; }
  bool enabled = true;
  int64_t total = 0, failed = 0;
  uint64_t last_allocated = 0;
  Device last_device;
};

}  // namespace

TEST(memory_reports_reach_the_nearest_profiler_state_only) {
  report_memory_usage(nullptr, 64, 64, 128, {DeviceType::CPU, -1});  // no observer exists
  auto profiler = std::make_shared<MemoryProfiler>();
  {
    const DebugInfoGuard elsewhere(DebugInfoKind::TEST_INFO, profiler);
    report_memory_usage(nullptr, 64, 64, 128, {DeviceType::CPU, -1});
    CHECK_EQ(profiler->total, 0);
  }
  const DebugInfoGuard guard(DebugInfoKind::PROFILER_STATE, profiler);
  CHECK(memory_profiler() == profiler.get());
  report_memory_usage(nullptr, 64, 1000, 2000, {DeviceType::CUDA, 1});
  report_memory_usage(nullptr, -16, 984, 2000, {DeviceType::CUDA, 1});
  report_out_of_memory(1 << 30, 984, 2000, {DeviceType::CUDA, 1});
  CHECK_EQ(profiler->total, 48);
  CHECK_EQ(profiler->last_allocated, 984u);
  CHECK(profiler->last_device == (Device{DeviceType::CUDA, 1}));
  CHECK_EQ(profiler->failed, 1 << 30);
  profiler->enabled = false;
  report_memory_usage(nullptr, 64, 1000, 2000, {DeviceType::CUDA, 1});
  CHECK_EQ(profiler->total, 48);
  const DebugInfoGuard not_memory(DebugInfoKind::PROFILER_STATE, info(1));
  report_memory_usage(nullptr, 64, 1000, 2000, {DeviceType::CUDA, 1});
  CHECK_EQ(profiler->total, 48);
}

TEST(memory_reports_reach_a_session) {
  Session session;
  session.start();
  int target = 0;
  report_memory_usage(&target, 4096, 5000, 6000, {DeviceType::CPU, -1});
  report_out_of_memory(1 << 20, 5000, 6000, {DeviceType::CPU, -1});
  session.stop();
  int allocations = 0, failures = 0;
  const Capture& capture = session.capture();
  for (const EventKind kind : capture.kind) {
    allocations += kind == EventKind::memory;
    failures += kind == EventKind::out_of_memory;
  }
  CHECK_EQ(allocations, 1);
  CHECK_EQ(failures, 1);
}
