// SPDX-License-Identifier: Apache-2.0
// Numbers that programs, files and other libraries depend on: scopes, category bits and causes of
// lost events; and the names of the latter.
#include <array>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "check.hpp"
#include "fastprof/base/drop_cause_name.hpp"
#include "fastprof/base/scope.hpp"

using fastprof::DropCause;
using fastprof::RecordScope;

TEST(numbers_of_scopes_are_pytorchs) {
  CHECK_EQ(RecordScope::FUNCTION, RecordScope{0});
  CHECK_EQ(RecordScope::BACKWARD_FUNCTION, RecordScope{1});
  CHECK_EQ(RecordScope::TORCHSCRIPT_FUNCTION, RecordScope{2});
  CHECK_EQ(RecordScope::KERNEL_FUNCTION_DTYPE, RecordScope{3});
  CHECK_EQ(RecordScope::CUSTOM_CLASS, RecordScope{4});
  CHECK_EQ(RecordScope::BUILD_FEATURE, RecordScope{5});
  CHECK_EQ(RecordScope::LITE_INTERPRETER, RecordScope{6});
  CHECK_EQ(RecordScope::USER_SCOPE, RecordScope{7});
  CHECK_EQ(RecordScope::STATIC_RUNTIME_OP, RecordScope{8});
  CHECK_EQ(RecordScope::STATIC_RUNTIME_MODEL, RecordScope{9});
  CHECK_EQ(RecordScope::NUM_SCOPES, RecordScope{10});
  CHECK_EQ(fastprof::kNumRecordScopes, 10);
  std::unordered_map<RecordScope, int> by_scope;
  by_scope[RecordScope::USER_SCOPE] = 3;
  CHECK_EQ(by_scope.at(RecordScope::USER_SCOPE), 3);
  CHECK_EQ(std::hash<RecordScope>()(RecordScope::USER_SCOPE), 7);
}

TEST(category_bits) {
  namespace category = fastprof::category;
  CHECK_EQ(category::user, 0x1);
  CHECK_EQ(category::op, 0x2);
  CHECK_EQ(category::memory, 0x4);
  CHECK_EQ(category::counter, 0x8);
  CHECK_EQ(category::mark, 0x10);
  CHECK_EQ(category::flow, 0x20);
  CHECK_EQ(category::async, 0x40);
  CHECK_EQ(category::python_call, 0x80);
  CHECK_EQ(category::runtime, 0x100);
  CHECK_EQ(category::device, 0x200);
  CHECK_EQ(category::task, 0x400);
  CHECK_EQ(category::python_module, 0x800);
  CHECK_EQ(category::custom0, 0x10000);
  CHECK_EQ(category::all, 0xFFFFFF);
}

TEST(drop_causes_have_numbers_and_names) {
  const std::vector<std::pair<DropCause, std::string>> known = {
      {DropCause::bound, "bound"},
      {DropCause::overwritten, "overwritten"},
      {DropCause::in_flight, "in_flight"},
      {DropCause::reentrant, "reentrant"},
      {DropCause::thread_exit, "thread_exit"},
      {DropCause::clock, "clock"},
      {DropCause::spill_failed, "spill_failed"},
      {DropCause::names, "names"},
      {DropCause::ends, "ends"},
      {DropCause::device, "device"}};
  for (size_t i = 0; i < known.size(); ++i) {
    CHECK_EQ(static_cast<size_t>(known[i].first), i);
    CHECK_EQ(fastprof::drop_cause_name(known[i].first), known[i].second);
    CHECK_EQ(fastprof::is_missing(known[i].first), i != 7 && i != 8);
  }
  CHECK_EQ(fastprof::kNumDropCauses, 10);
  CHECK_EQ(fastprof::kMaxDropCauses, 16);
  for (size_t i = 10; i < 16; ++i) {
    CHECK_EQ(fastprof::drop_cause_name(DropCause(i)), "cause_" + std::to_string(i));
    CHECK(fastprof::is_missing(DropCause(i)));
  }
  CHECK_EQ(std::string(fastprof::drop_cause_name(DropCause(16))), "unknown");
  CHECK_EQ(std::string(fastprof::drop_cause_name(DropCause(255))), "unknown");
}

// Those that this header knows, and of others those that were counted.
TEST(each_drop_cause_is_visited) {
  std::array<uint64_t, 16> counts{};
  counts[0] = 5;
  counts[9] = 1;
  counts[11] = 7;
  counts[15] = 2;
  std::vector<std::pair<int, uint64_t>> seen;
  fastprof::for_each_drop_cause(counts, [&](DropCause cause, uint64_t count) {
    seen.emplace_back(static_cast<int>(cause), count);
  });
  CHECK_EQ(seen.size(), 12);
  for (size_t i = 0; i < 10 && i < seen.size(); ++i)
    CHECK(seen[i] == std::make_pair(static_cast<int>(i), counts[i]));
  CHECK(seen.size() == 12 && seen[10] == std::make_pair(11, uint64_t{7}) &&
        seen[11] == std::make_pair(15, uint64_t{2}));
}
