// SPDX-License-Identifier: Apache-2.0
// ThreadLocalState: snapshots, guards, the users' slots, and what a forked child keeps.
#include <atomic>
#include <memory>
#include <thread>

#include "check.hpp"
#include "fastprof/primitives/record_function.hpp"
#include "fastprof/primitives/thread_local_state.hpp"
#include "recorder_checks.hpp"

using namespace fastprof;
using recorder_checks::in_child;

namespace {

struct Info : DebugInfoBase {
  explicit Info(int n) : number(n) {}
  int number;
};
int number() {
  DebugInfoBase* found = ThreadLocalDebugInfo::get(DebugInfoKind::TEST_INFO);
  return found != nullptr ? static_cast<Info*>(found)->number : -1;
}

std::atomic<int> started{0};
std::unique_ptr<ObserverContext> count_start(const RecordFunction&) {
  ++started;
  return nullptr;
}
void call() {
  RecordFunction function;
  function.before("f");
}

thread_local int slot_value = 0;
thread_local std::string text;

}  // namespace

TEST(a_snapshot_carries_info_callbacks_and_switch) {
  started = 0;
  const DebugInfoGuard guard(DebugInfoKind::TEST_INFO, std::make_shared<Info>(1));
  const CallbackHandle handle = add_thread_local_callback(RecordFunctionCallback(count_start));
  enable_record_function(false);
  const ThreadLocalState off;
  enable_record_function(true);
  const ThreadLocalState on;
  std::thread([&] {
    call();
    CHECK_EQ(started.load(), 0);
    {
      const ThreadLocalStateGuard inside(on);
      CHECK_EQ(number(), 1);
      CHECK(has_thread_local_callbacks());
      call();
      CHECK_EQ(started.load(), 1);
      {
        const ThreadLocalStateGuard deeper(off);
        CHECK(!is_record_function_enabled());
        call();
        CHECK_EQ(started.load(), 1);
      }
      CHECK(is_record_function_enabled());
      call();
    }
    CHECK_EQ(number(), -1);
    CHECK(!has_thread_local_callbacks());
    call();
    CHECK_EQ(started.load(), 2);
  }).join();
  remove_callback(handle);
}

TEST(set_thread_local_state_stays) {
  const DebugInfoGuard guard(DebugInfoKind::TEST_INFO, std::make_shared<Info>(4));
  const ThreadLocalState snapshot;
  std::thread([&] {
    ThreadLocalState::set_thread_local_state(snapshot);
    CHECK_EQ(number(), 4);
  }).join();
}

TEST(users_slots_travel) {
  const SlotHandle handle = register_thread_local_slot(
      [] { return slot_value; }, [](const int& value) { slot_value = value; });
  const std::shared_ptr<int> tag = std::make_shared<int>(0);

  const SlotHandle stateful = register_thread_local_slot(
      [tag] { return text; }, [tag](const std::string& value) { ++*tag, text = value; });
  CHECK(handle != kInvalidSlotHandle && stateful != handle);
  slot_value = 5;
  text = "carried";
  const ThreadLocalState snapshot;
  slot_value = 6;
  std::thread([&] {
    slot_value = 1;
    {
      const ThreadLocalStateGuard inside(snapshot);
      CHECK_EQ(slot_value, 5);
      CHECK_EQ(text, "carried");
      slot_value = 99;
    }
    CHECK_EQ(slot_value, 1);
    CHECK_EQ(text, "");
  }).join();
  CHECK_EQ(slot_value, 6);
  CHECK(unregister_thread_local_slot(stateful));
  CHECK(!unregister_thread_local_slot(stateful));
  CHECK(unregister_thread_local_slot(handle));
  {
    const ThreadLocalStateGuard inside(snapshot);
    CHECK_EQ(slot_value, 6);  // an unregistered slot is left alone
  }
  slot_value = 0;
}

TEST(debug_info_destructors_may_use_the_thread_that_ends) {
  struct Curious : DebugInfoBase {
    ~Curious() override {
      CHECK_EQ(number(), -1);
      call();
      (void)ThreadLocalState();
    }
  };
  std::thread([] {
    ThreadLocalDebugInfo::push(DebugInfoKind::TEST_INFO_2, std::make_shared<Curious>());
  }).join();
  CHECK(!has_callbacks());
}

TEST(a_forked_child_drops_thread_local_callbacks) {
  started = 0;
  const CallbackHandle local = add_thread_local_callback(RecordFunctionCallback(count_start));
  const DebugInfoGuard guard(DebugInfoKind::TEST_INFO, std::make_shared<Info>(3));
  const int status = in_child([] {
    call();
    bool good = started == 0 && !has_callbacks() && number() == 3 &&
                (effective_mask(state()) & mask_bit::callbacks) == 0;
    const CallbackHandle global = add_global_callback(RecordFunctionCallback(count_start));
    call();
    good = good && started == 1;
    remove_callback(global);
    call();
    return good && started == 1 ? 0 : 1;
  });
  CHECK_EQ(status, 0);
  CHECK(has_thread_local_callbacks());
  remove_callback(local);
}

TEST(a_forked_child_keeps_global_callbacks) {
  started = 0;
  const CallbackHandle global = add_global_callback(RecordFunctionCallback(count_start));
  const int status = in_child([global] {
    call();
    bool good = started == 1 && load_relaxed(&state()->callbacks_users) == 1 &&
                (effective_mask(state()) & mask_bit::callbacks) != 0;
    remove_callback(global);
    good = good && load_relaxed(&state()->callbacks_users) == 0 &&
           (effective_mask(state()) & mask_bit::callbacks) == 0;
    return good ? 0 : 1;
  });
  CHECK_EQ(status, 0);
  remove_callback(global);
}
