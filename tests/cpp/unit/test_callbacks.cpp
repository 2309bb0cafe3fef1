// SPDX-License-Identifier: Apache-2.0
// Registration of callbacks: handles, global and thread-local sets, order, sampling, and the
// switches.
#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "fastprof/fastprof.hpp"
#include "fastprof/primitives/record_function.hpp"

using namespace fastprof;

namespace {

std::vector<std::string> log_;
std::atomic<int> started{0}, ended{0};

template <char Name>
std::unique_ptr<ObserverContext> start(const RecordFunction&) {
  log_.push_back(std::string(1, Name));
  return nullptr;
}
template <char Name>
void end(const RecordFunction&, ObserverContext*) {
  log_.push_back(std::string("/") + Name);
}
std::unique_ptr<ObserverContext> count_start(const RecordFunction&) {
  ++started;
  return nullptr;
}
void count_end(const RecordFunction&, ObserverContext*) {
  ++ended;
}

void call(RecordScope scope = RecordScope::FUNCTION) {
  RecordFunction function(scope);
  function.before("f");
}
std::string take_log() {
  std::string text;
  for (const std::string& entry : log_) text += entry + " ";
  log_.clear();
  return text;
}
bool mask_shows_callbacks() {
  return (effective_mask(state()) & mask_bit::callbacks) != 0;
}

}  // namespace

TEST(callbacks_run_in_registration_order_at_both_ends) {
  const CallbackHandle a = add_thread_local_callback(RecordFunctionCallback(start<'a'>, end<'a'>));
  const CallbackHandle b = add_global_callback(RecordFunctionCallback(start<'b'>, end<'b'>));
  const CallbackHandle c = add_thread_local_callback(RecordFunctionCallback(start<'c'>, end<'c'>));
  CHECK(a != kInvalidCallbackHandle);
  CHECK(a < b && b < c);
  call();
  CHECK_EQ(take_log(), "a b c /a /b /c ");
  remove_callback(a);
  call();
  CHECK_EQ(take_log(), "b c /b /c ");
  clear_callbacks();
  call();
  CHECK_EQ(take_log(), "");
  CHECK(!mask_shows_callbacks());
}

TEST(disable_keeps_the_place) {
  const CallbackHandle a = add_global_callback(RecordFunctionCallback(start<'a'>, end<'a'>));
  add_thread_local_callback(RecordFunctionCallback(start<'b'>, end<'b'>));
  disable_callback(a);
  CHECK(!has_global_callbacks());
  CHECK(has_thread_local_callbacks());
  call();
  CHECK_EQ(take_log(), "b /b ");
  reenable_callback(a);
  CHECK(has_global_callbacks());
  call();
  CHECK_EQ(take_log(), "a b /a /b ");
  clear_callbacks();
}

TEST(unknown_handles_change_nothing) {
  const CallbackHandle a = add_global_callback(RecordFunctionCallback(start<'a'>));
  remove_callback(kInvalidCallbackHandle);
  disable_callback(a + 1000);
  reenable_callback(a + 1000);
  CHECK(has_global_callbacks());
  remove_callback(a);
  remove_callback(a);
  CHECK(!has_callbacks());
}

TEST(a_callback_removed_in_between_still_ends) {
  const CallbackHandle a = add_global_callback(RecordFunctionCallback(start<'a'>, end<'a'>));
  {
    RecordFunction function;
    function.before("f");
    remove_callback(a);
  }
  CHECK_EQ(take_log(), "a /a ");
}

TEST(thread_local_callbacks_stay_on_their_thread_and_global_ones_reach_all) {
  started = ended = 0;
  add_thread_local_callback(RecordFunctionCallback(count_start, count_end));
  std::thread([] {
    CHECK(!has_thread_local_callbacks());
    call();
  }).join();
  CHECK_EQ(started.load(), 0);
  clear_thread_local_callbacks();
  const CallbackHandle handle = add_global_callback(RecordFunctionCallback(count_start, count_end));
  std::thread([&] {
    call();
    CHECK_EQ(started.load(), 1);
    remove_callback(handle);
    call();
  }).join();
  call();
  CHECK_EQ(started.load(), 1);
  CHECK_EQ(ended.load(), 1);
}

TEST(a_thread_that_ends_takes_its_callbacks_along) {
  std::thread([] {
    add_thread_local_callback(RecordFunctionCallback(count_start));
    CHECK(mask_shows_callbacks());
  }).join();
  CHECK(!mask_shows_callbacks());
}

TEST(scopes_filter) {
  started = 0;
  const CallbackHandle handle =
      add_global_callback(RecordFunctionCallback(count_start)
                              .scopes({RecordScope::USER_SCOPE, RecordScope::BACKWARD_FUNCTION}));
  call(RecordScope::FUNCTION);
  CHECK_EQ(started.load(), 0);
  call(RecordScope::USER_SCOPE);
  call(RecordScope::BACKWARD_FUNCTION);
  CHECK_EQ(started.load(), 2);
  remove_callback(handle);
  RecordFunctionCallback all(count_start);
  CHECK(all.scopes({}).check_scope(RecordScope::LITE_INTERPRETER));
  CHECK_THROWS(ValueError, all.scopes({static_cast<RecordScope>(10)}));
}

TEST(more_callbacks_than_fit_inline) {
  started = ended = 0;
  for (int i = 0; i < 9; ++i) add_global_callback(RecordFunctionCallback(count_start, count_end));
  call();
  CHECK_EQ(started.load(), 9);
  CHECK_EQ(ended.load(), 9);
  StepCallbacks steps = step_callbacks(RecordScope::FUNCTION);
  CHECK_EQ(steps.size(), 9u);
  StepCallbacks moved(std::move(steps));
  StepCallbacks assigned;
  assigned = std::move(moved);
  {
    RecordFunction function(std::move(assigned));
    function.before("f");
  }
  CHECK_EQ(ended.load(), 18);
  // With one of them that runs for a share of the calls.
  add_global_callback(RecordFunctionCallback(count_start, count_end).sampling_probability(0.5));
  for (int i = 0; i < 1000; ++i) call();
  CHECK_EQ(started.load(), ended.load());
  CHECK(started.load() > 9018 + 300 && started.load() < 9018 + 700);
  clear_global_callbacks();
}

TEST(step_callbacks_tell_what_is_needed) {
  add_global_callback(RecordFunctionCallback(count_start).needs_inputs(true));
  add_global_callback(
      RecordFunctionCallback(count_start).needs_ids(true).scopes({RecordScope::USER_SCOPE}));
  const StepCallbacks steps = step_callbacks(RecordScope::FUNCTION);
  CHECK_EQ(steps.size(), 1u);
  CHECK(steps.needs_inputs());
  CHECK(!steps.needs_outputs());
  CHECK(!steps.needs_ids());
  CHECK_EQ(steps.thread_id(), current_thread_id());
  CHECK(step_callbacks_unless_empty(RecordScope::USER_SCOPE)->needs_ids());
  clear_callbacks();
  add_global_callback(RecordFunctionCallback(count_start).needs_ids(true));
  CHECK(!step_callbacks(RecordScope::FUNCTION).needs_inputs());
  clear_callbacks();
}

// --- sampling

TEST(probabilities_are_checked) {
  RecordFunctionCallback callback(count_start);
  CHECK_THROWS(ValueError, callback.sampling_probability(1.5));
  CHECK_THROWS(ValueError, callback.sampling_probability(-0.1));
  CHECK_THROWS(ValueError, callback.sampling_probability(std::nan("")));
}

namespace {
// Which of n calls were sampled, with one callback of this probability.
std::vector<int> sampled_calls(double probability, uint64_t seed, int n) {
  add_thread_local_callback(
      RecordFunctionCallback(count_start, count_end).sampling_probability(probability));
  set_sampling_seed(seed);
  std::vector<int> calls;
  for (int i = 1; i <= n; ++i) {
    const int before = started;
    call();
    if (started != before) calls.push_back(i);
  }
  clear_thread_local_callbacks();
  return calls;
}
}  // namespace

TEST(sampling_is_a_reproducible_geometric_countdown) {
  started = ended = 0;
  const std::vector<int> first = sampled_calls(0.1, 42, 2000);
  CHECK(first == sampled_calls(0.1, 42, 2000));
  CHECK(first != sampled_calls(0.1, 43, 2000));
  CHECK_EQ(started.load(), ended.load());
}

TEST(countdowns_have_the_geometric_mean_and_variance) {
  for (const double p : {0.5, 0.1, 0.001}) {
    SamplingGenerator generator{7};
    const int n = 200000;
    double sum = 0, squares = 0;
    for (int i = 0; i < n; ++i) {
      const auto trials = static_cast<double>(generator.trials(p));
      CHECK(trials >= 1);
      sum += trials;
      squares += trials * trials;
    }
    const double mean = sum / n, variance = squares / n - mean * mean;
    CHECK(std::fabs(mean * p - 1) < 0.02);
    CHECK(std::fabs(variance * p * p / (1 - p) - 1) < 0.04);
  }
}

// --- switches

TEST(record_functions_can_be_switched_off_per_thread) {
  started = 0;
  add_global_callback(RecordFunctionCallback(count_start));
  CHECK(is_record_function_enabled());
  enable_record_function(false);
  CHECK(!is_record_function_enabled());
  call();
  CHECK_EQ(started.load(), 0);
  std::thread([] {
    CHECK(is_record_function_enabled());
    call();
  }).join();
  CHECK_EQ(started.load(), 1);
  enable_record_function(true);
  {
    const DisableRecordFunctionGuard off;
    call();
    {
      const RecordFunctionGuard on;
      call();
      CHECK_EQ(started.load(), 2);
    }
    CHECK(!is_record_function_enabled());
  }
  call();
  CHECK_EQ(started.load(), 3);
  clear_callbacks();
}

TEST(many_threads_while_the_set_changes) {
  started = ended = 0;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      while (!stop) call();
    });
  for (int i = 0; i < 200; ++i) {
    const CallbackHandle a = add_global_callback(RecordFunctionCallback(count_start, count_end));
    const CallbackHandle b = add_global_callback(
        RecordFunctionCallback(count_start, count_end).sampling_probability(0.5));
    disable_callback(a);
    reenable_callback(a);
    remove_callback(b);
    remove_callback(a);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(started.load(), ended.load());
  CHECK(!has_callbacks());
  CHECK(!mask_shows_callbacks());
}
