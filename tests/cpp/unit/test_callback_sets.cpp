// SPDX-License-Identifier: Apache-2.0
// What registrations are made of: options, lists of callbacks, sets chosen for one function,
// countdowns, reports of failures.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fastprof/fastprof.hpp"
#include "fastprof/primitives/callback_failure.hpp"
#include "fastprof/primitives/callback_list.hpp"
#include "fastprof/primitives/range_dispatch.hpp"
#include "fastprof/primitives/step_callbacks.hpp"
#include "record_function_checks.hpp"
#include "recorder_checks.hpp"

using namespace fastprof;
using namespace record_function_checks;

namespace {

std::string letters;

template <char Letter>
std::unique_ptr<ObserverContext> start(const RecordFunction&) {
  letters += Letter;
  return nullptr;
}
template <char Letter>
void end(const RecordFunction&, ObserverContext*) {
  letters += static_cast<char>(Letter - 'a' + 'A');
}
template <char Letter>
RecordFunctionCallback observer() {
  return RecordFunctionCallback(start<Letter>, end<Letter>);
}

// The letters of the callbacks that one function calls.
std::string called() {
  letters.clear();
  RecordFunction function;
  function.before("f");
  function.end();
  return letters;
}

CallbackEntry entry(CallbackHandle handle) {
  return make_callback_entry(RecordFunctionCallback(nullptr), handle);
}
std::vector<CallbackHandle> handles(const CallbackList& list) {
  std::vector<CallbackHandle> found;
  for (const CallbackEntry& one : list) found.push_back(one.handle);
  return found;
}

}  // namespace

TEST(options_of_an_observer_are_kept_one_by_one) {
  RecordFunctionCallback plain(start<'a'>, end<'a'>);
  CHECK(plain.start() == start<'a'> && plain.end() == end<'a'>);
  CHECK(!plain.needs_inputs() && !plain.needs_outputs() && !plain.needs_ids());
  CHECK_EQ(plain.needs(), 0);
  CHECK_EQ(plain.sampling_probability(), 1.0);
  CHECK_EQ(plain.scope_bits(), 1023);
  for (int bit = 0; bit < 3; ++bit) {
    RecordFunctionCallback one(nullptr);
    one.needs_inputs(bit == 0).needs_outputs(bit == 1).needs_ids(bit == 2);
    CHECK_EQ(one.needs(), 1 << bit);
    CHECK_EQ(one.needs_inputs(), bit == 0);
    CHECK_EQ(one.needs_outputs(), bit == 1);
    CHECK_EQ(one.needs_ids(), bit == 2);
    one.needs_inputs(true).needs_outputs(true).needs_ids(true);
    CHECK_EQ(one.needs(), 7);
    one.needs_inputs(bit != 0).needs_outputs(bit != 1).needs_ids(bit != 2);
    CHECK_EQ(one.needs(), 7 - (1 << bit));
  }
  plain.sampling_probability(0.0);
  CHECK_EQ(plain.sampling_probability(), 0.0);
  plain.sampling_probability(1.0);
  CHECK_EQ(plain.sampling_probability(), 1.0);
  plain.scopes({RecordScope::BACKWARD_FUNCTION, RecordScope::STATIC_RUNTIME_MODEL});
  CHECK_EQ(plain.scope_bits(), 2 + 512);
  CHECK(plain.check_scope(RecordScope::BACKWARD_FUNCTION));
  CHECK(!plain.check_scope(RecordScope::FUNCTION));
  CHECK_EQ(kInvalidCallbackHandle, 0u);
}

TEST(lists_stay_in_the_order_of_handles) {
  const CallbackList none;
  CHECK_EQ(none.size(), 0u);
  CHECK_EQ(none.enabled(), 0u);
  CHECK(none.begin() == none.end());
  const CallbackList list = none.with(entry(5)).with(entry(2)).with(entry(9)).with(entry(7));
  CHECK(handles(list) == (std::vector<CallbackHandle>{2, 5, 7, 9}));
  CHECK_EQ(list.enabled(), 4u);
  CHECK(list.contains(2) && list.contains(9) && !list.contains(3));
  CHECK(handles(list.without(5)) == (std::vector<CallbackHandle>{2, 7, 9}));
  CHECK_EQ(list.without(5).enabled(), 3u);
  CHECK(list.without(3).block() == list.block());
  CHECK_EQ(list.with_enabled(3, false).enabled(), 4u);
  const CallbackList off = list.with_enabled(7, false);
  CHECK_EQ(off.enabled(), 3u);
  CHECK(handles(off) == handles(list));
  CHECK_EQ(off.begin()[2].enabled, 0);
  CHECK_EQ(off.begin()[1].enabled, 1);
  CHECK_EQ(off.with_enabled(7, true).enabled(), 4u);
  CHECK(none.with(entry(4)).without(4).block() == nullptr);
  CHECK_EQ(list.enabled(), 4u);  // unchanged by all of that
}

TEST(lists_are_shared_by_reference) {
  CallbackList list = CallbackList().with(entry(1)).with(entry(2));
  CHECK_EQ(list.block()->references, 1u);
  CHECK_EQ(list.block()->count, 2u);
  CHECK_EQ(list.block()->entries()[1].handle, 2u);
  CHECK_EQ(list.block()->entries()[1].reserved, 0u);
  {
    const CallbackList copy = list;
    CHECK(copy.block() == list.block());
    CHECK_EQ(list.block()->references, 2u);
  }
  CHECK_EQ(list.block()->references, 1u);
  const CallbackList moved = std::move(list);
  CHECK_EQ(moved.block()->references, 1u);
}

TEST(sets_of_any_size_keep_what_is_appended) {
  for (uint32_t size = 0; size <= 9; ++size) {
    StepSet set;
    set.count = 0;
    set.needs = 5;
    set.scope = RecordScope::USER_SCOPE;
    set.thread_id = 17;
    std::vector<int> marks(size);
    for (int& mark : marks)
      append_step(&set, {nullptr, nullptr, nullptr, reinterpret_cast<ObserverContext*>(&mark)});
    StepSet taken;
    take_step(&taken, &set);
    CHECK_EQ(set.count, 0u);
    CHECK_EQ(taken.count, size);
    CHECK_EQ(taken.needs, 5);
    CHECK(taken.scope == RecordScope::USER_SCOPE);
    CHECK_EQ(taken.thread_id, 17u);
    CHECK_EQ(taken.end() - taken.begin(), static_cast<ptrdiff_t>(size));
    for (uint32_t i = 0; i < size; ++i)
      CHECK(taken.begin()[i].context == reinterpret_cast<ObserverContext*>(&marks[i]));
    free_step(&taken);
    CHECK_EQ(taken.count, 0u);
  }
}

TEST(callbacks_chosen_ahead_keep_what_they_are_when_moved) {
  const StepCallbacks none;
  CHECK(none.empty() && none.scope() == RecordScope::FUNCTION && none.thread_id() == 0);
  CHECK(!none.needs_inputs() && !none.needs_outputs() && !none.needs_ids());
  for (int count = 1; count <= 6; ++count) {
    add_thread_local_callback(observer<'a'>().needs_outputs(true));
    StepCallbacks steps = step_callbacks(RecordScope::USER_SCOPE);
    StepCallbacks moved(std::move(steps));
    CHECK(steps.empty());
    StepCallbacks assigned = step_callbacks(RecordScope::FUNCTION);
    assigned = std::move(moved);
    CHECK(moved.empty());
    StepCallbacks& same = assigned;
    assigned = std::move(same);
    CHECK_EQ(assigned.size(), static_cast<uint32_t>(count));
    CHECK(assigned.scope() == RecordScope::USER_SCOPE);
    CHECK_EQ(assigned.thread_id(), current_thread_id());
    CHECK(!assigned.needs_inputs() && assigned.needs_outputs() && !assigned.needs_ids());
    letters.clear();
    {
      RecordFunction function(std::move(assigned));
      CHECK(assigned.empty());
      function.before("f");
    }
    CHECK_EQ(letters, std::string(static_cast<size_t>(count), 'a') +
                          std::string(static_cast<size_t>(count), 'A'));
  }
  clear_callbacks();
}

TEST(each_need_of_the_chosen_is_told_apart) {
  for (int bit = 0; bit < 3; ++bit) {
    add_thread_local_callback(
        RecordFunctionCallback(nullptr).needs_inputs(bit == 0).needs_outputs(bit == 1).needs_ids(
            bit == 2));
    const StepCallbacks steps = step_callbacks(RecordScope::FUNCTION);
    CHECK_EQ(steps.needs_inputs(), bit == 0);
    CHECK_EQ(steps.needs_outputs(), bit == 1);
    CHECK_EQ(steps.needs_ids(), bit == 2);
    clear_callbacks();
  }
}

TEST(nothing_is_chosen_while_functions_are_off) {
  add_thread_local_callback(observer<'a'>());
  CHECK_EQ(step_callbacks(RecordScope::FUNCTION).size(), 1u);
  enable_record_function(false);
  CHECK(step_callbacks(RecordScope::FUNCTION).empty());
  CHECK(!step_callbacks_unless_empty(RecordScope::FUNCTION).has_value());
  enable_record_function();
  CHECK(is_record_function_enabled());
  CHECK_EQ(step_callbacks(RecordScope::FUNCTION).size(), 1u);
  clear_callbacks();
}

namespace {
uint32_t chosen_inside = 99;
}

TEST(nothing_is_chosen_inside_a_callback) {
  add_thread_local_callback(RecordFunctionCallback([](const RecordFunction&) {
    chosen_inside = step_callbacks(RecordScope::FUNCTION).size();
    return std::unique_ptr<ObserverContext>();
  }));
  called();
  CHECK_EQ(chosen_inside, 0u);
  clear_callbacks();
}

TEST(exactly_as_many_callbacks_as_fit_inline_and_one_more) {
  add_thread_local_callback(observer<'a'>());
  add_thread_local_callback(observer<'b'>());
  add_thread_local_callback(observer<'c'>());
  add_thread_local_callback(observer<'d'>());
  CHECK_EQ(called(), "abcdABCD");
  const CallbackHandle fifth = add_thread_local_callback(observer<'e'>());
  CHECK_EQ(called(), "abcdeABCDE");
  remove_callback(fifth);
  CHECK_EQ(called(), "abcdABCD");
  clear_callbacks();
}

TEST(many_sampled_callbacks_are_called_in_order) {
  add_thread_local_callback(observer<'a'>().sampling_probability(0.9));
  add_thread_local_callback(observer<'b'>().sampling_probability(0.9).needs_ids(true));
  add_thread_local_callback(observer<'c'>());
  add_thread_local_callback(observer<'d'>().sampling_probability(0.9));
  add_thread_local_callback(observer<'e'>().sampling_probability(0.9));
  add_thread_local_callback(observer<'f'>().sampling_probability(0.9));
  add_thread_local_callback(observer<'g'>());
  set_sampling_seed(3);
  bool all_at_once = false, few = false;
  for (int i = 0; i < 200; ++i) {
    const std::string text = called();
    const size_t half = text.size() / 2;
    CHECK_EQ(text.size(), 2 * half);
    for (size_t k = 0; k < half; ++k) {
      CHECK(k == 0 || text[k - 1] < text[k]);
      CHECK_EQ(static_cast<char>(text[k] - 'a' + 'A'), text[half + k]);
    }
    CHECK(text.find('c') < half && text.find('g') < half);
    all_at_once = all_at_once || half == 7;
    few = few || half <= 4;
  }
  CHECK(all_at_once && few);
  clear_callbacks();
}

TEST(sampled_callbacks_count_down_each_for_itself) {
  add_thread_local_callback(observer<'a'>().sampling_probability(0.3));
  add_thread_local_callback(observer<'b'>().sampling_probability(0.2));
  set_sampling_seed(9);
  SamplingGenerator generator{9};
  uint64_t a = generator.trials(0.3), b = generator.trials(0.2);
  for (int i = 0; i < 500; ++i) {
    std::string starts_of, ends_of;
    if (--a == 0) {
      starts_of += 'a', ends_of += 'A';
      a = generator.trials(0.3);
    }
    if (--b == 0) {
      starts_of += 'b', ends_of += 'B';
      b = generator.trials(0.2);
    }
    CHECK_EQ(called(), starts_of + ends_of);
  }
  clear_callbacks();
}

TEST(needs_of_sampled_callbacks_hold_when_they_are_called) {
  add_thread_local_callback(
      RecordFunctionCallback(nullptr).needs_outputs(true).sampling_probability(0.5));
  add_thread_local_callback(RecordFunctionCallback(nullptr).needs_ids(true));
  set_sampling_seed(1);
  SamplingGenerator generator{1};
  uint64_t left = generator.trials(0.5);
  for (int i = 0; i < 50; ++i) {
    const StepCallbacks steps = step_callbacks(RecordScope::FUNCTION);
    const bool due = --left == 0;
    if (due) left = generator.trials(0.5);
    CHECK_EQ(steps.size(), due ? 2u : 1u);
    CHECK_EQ(steps.needs_outputs(), due);
    CHECK(steps.needs_ids() && !steps.needs_inputs());
  }
  clear_callbacks();
}

TEST(countdowns_of_the_rarest_draws) {
  // The generator's next number is 0: the rarest of all.
  SamplingGenerator zero{0 - UINT64_C(0x9E3779B97F4A7C15)};
  CHECK_EQ(SamplingGenerator(zero).next(), 0u);
  CHECK_EQ(zero.trials(0.4), 72u);  // 1 + floor(53 ln 2 / -ln 0.6)
  SamplingGenerator any{5};
  CHECK_EQ(any.trials(1e-300), UINT64_C(9223372036854775808));
}

TEST(a_change_between_reading_and_writing_the_global_list_is_kept) {
  ProcessPrimitives* process = process_primitives();
  int tries = 0;
  callbacks_detail::change_global(process, [&](const CallbackList& list) {
    if (++tries == 1) add_global_callback(observer<'a'>());
    return list.with(make_callback_entry(observer<'b'>(), callbacks_detail::next_handle(process)));
  });
  CHECK_EQ(tries, 2);
  CHECK_EQ(called(), "abAB");
  clear_callbacks();
}

TEST(lists_with_enabled_callbacks_are_counted) {
  const auto users = [] { return load_relaxed(&state()->callbacks_users); };
  CHECK_EQ(users(), 0u);
  const CallbackHandle global = add_global_callback(observer<'a'>());
  CHECK_EQ(users(), 1u);
  add_global_callback(observer<'b'>());
  CHECK_EQ(users(), 1u);
  const CallbackHandle local = add_thread_local_callback(observer<'c'>());
  CHECK_EQ(users(), 2u);
  std::thread([&] {
    const CallbackHandle other = add_thread_local_callback(observer<'d'>());
    CHECK_EQ(users(), 3u);
    disable_callback(other);
    CHECK_EQ(users(), 2u);
    reenable_callback(other);
    CHECK_EQ(users(), 3u);
  }).join();
  CHECK_EQ(users(), 2u);
  disable_callback(local);
  CHECK_EQ(users(), 1u);
  remove_callback(global);
  CHECK_EQ(users(), 1u);
  clear_callbacks();
  CHECK_EQ(users(), 0u);
}

TEST(only_unknown_handles_are_told) {
  CallbackHandle local = 0, global = 0;
  const std::string known = stderr_of([&] {
    local = add_thread_local_callback(observer<'a'>());
    global = add_global_callback(observer<'b'>());
    for (const CallbackHandle handle : {local, global}) {
      disable_callback(handle);
      reenable_callback(handle);
      remove_callback(handle);
    }
  });
  CHECK_EQ(known, "");
  CHECK(!has_callbacks());
  const std::string unknown = stderr_of([&] {
    remove_callback(0);
    disable_callback(0);
    reenable_callback(0);
  });
  const std::string what = "(0): no such callback on this thread or globally; nothing changed\n";
  CHECK_EQ(unknown, "fastprof: remove_callback" + what + "fastprof: disable_callback" + what +
                        "fastprof: reenable_callback" + what);
}

TEST(the_first_failures_of_32_callbacks_are_reported) {
  CHECK_EQ(recorder_checks::in_child([] {
             static char places[40];
             const uint32_t before = process_primitives()->reported_count;
             uint32_t reported = 0;
             for (char& place : places) {
               const auto callback =
                   reinterpret_cast<void (*)()>(reinterpret_cast<uintptr_t>(&place));
               reported += first_callback_failure(callback);
               if (first_callback_failure(callback)) return 1;
             }
             return before + reported == 32 ? 0 : 2;
           }),
           0);
}

TEST(a_thread_keeps_the_memory_of_64_ranges) {
  static constexpr Site site = make_scope_site(RecordScope::USER_SCOPE, "kept");
  std::thread([] {
    CHECK(dispatch_begin(site, nullptr) == nullptr);  // nothing observes
    add_thread_local_callback(observer<'a'>());
    const auto* kept = head_of(thread_primitives());
    for (const size_t open : {size_t{3}, size_t{64}, size_t{65}, size_t{100}, size_t{2}}) {
      const uint64_t before = kept->storage_count;
      std::vector<void*> tokens;
      for (size_t i = 0; i < open; ++i) tokens.push_back(dispatch_begin(site, nullptr));
      CHECK_EQ(kept->storage_count, before > open ? before - open : 0);
      for (void* token : tokens) {
        CHECK(token != nullptr);
        dispatch_end(token);
      }
      CHECK_EQ(kept->storage_count, open < before ? before : open < 64 ? open : 64);
    }
    dispatch_end(nullptr);
    uint64_t nodes = 0;
    for (const RangeStorage* node = kept->free_storage; node != nullptr; node = node->next) ++nodes;
    CHECK_EQ(nodes, 64u);
  }).join();
}

TEST(numbers_that_libraries_share) {
  CHECK_EQ(callback_needs::inputs, 1);
  CHECK_EQ(callback_needs::outputs, 2);
  CHECK_EQ(callback_needs::ids, 4);
  CHECK_EQ(static_cast<int>(FunctionCalls::Recorder::none), 0);
  CHECK_EQ(static_cast<int>(FunctionCalls::Recorder::name), 1);
  CHECK_EQ(static_cast<int>(FunctionCalls::Recorder::details), 2);
  const FunctionDetails details;
  CHECK_EQ(details.size_bytes, 96u);
  CHECK_EQ(details.sequence_number, -1);
  CHECK_EQ(details.forward_thread_id, 0u);
  CHECK_EQ(details.handle, 0u);
  CHECK_EQ(details.node_id, -1);
  constexpr Site site = make_scope_site(RecordScope::FUNCTION, "op");
  CHECK_EQ(site.line, 0u);
  CHECK_EQ(site.mask, 2u);
  CHECK_EQ(make_scope_site(RecordScope::USER_SCOPE, "user").mask, 1u);
  CHECK_EQ(make_scope_site(RecordScope::FUNCTION, "op", nullptr, nullptr, 12).line, 12u);
}
