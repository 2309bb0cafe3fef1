// SPDX-License-Identifier: Apache-2.0
// The recorder on platforms with fewer features: without a static thread block, with clock_gettime
// as its clock, with a counter of 24 MHz, without membarrier. The other recorder tests run again in
// each of these modes; tests below check internals.
#include <thread>

#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

// Runs another recorder test of this folder with `variable`=`value`.
int run_sibling(const char* test, const char* variable, const char* value) {
  std::string program = own_program();
  // Builds put all tests into one folder; their names differ after the last "test_".
  const size_t at = program.rfind("test_recorder_modes");
  if (at == std::string::npos) return -1;
  program.replace(at, std::string("test_recorder_modes").size(), test);
  if (::access(program.c_str(), X_OK) != 0) return 77;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv(variable, value, 1);
    exec_program(program, nullptr);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void run_all_in(const char* variable, const char* value) {
  for (const char* test :
       {"test_recorder_sessions", "test_thread_local_sessions", "test_live_drain",
        "test_recorder_records", "test_recorder_exactness", "test_recorder_reservations"}) {
    const int status = run_sibling(test, variable, value);
    if (status == 77) SKIP(std::string(test) + " is not built");
    if (status != 0)
      std::fprintf(stderr, "%s with %s=%s: status %d\n", test, variable, value, status);
    CHECK_EQ(status, 0);
  }
}

// Only meaningful in a run that one of the tests below starts.
bool mode(const char* variable) {
  return std::getenv(variable) != nullptr;
}

}  // namespace

TEST(slow_clock) {
  CHECK_EQ(run_again("FASTPROF_CLOCK", "slow", "inner_slow"), 0);
  run_all_in("FASTPROF_CLOCK", "slow");
}

// A counter that many aarch64 machines have. Its steps are longer than a range, so that stamps
// differ only because the recorder makes them differ.
constexpr uint64_t kCoarseHz = 24000000;

TEST(coarse_clock) {
  CHECK_EQ(run_again("FASTPROF_CLOCK", "24000000", "inner_coarse"), 0);
  run_all_in("FASTPROF_CLOCK", "24000000");
}

TEST(only_whole_numbers_of_hz_are_taken) {
  CHECK_EQ(run_again("FASTPROF_CLOCK", "24MHz", "inner_ignored"), 0);
  CHECK_EQ(run_again("FASTPROF_CLOCK", "-24000000", "inner_ignored"), 0);
  CHECK_EQ(run_again("FASTPROF_CLOCK", "0", "inner_ignored"), 0);
  CHECK_EQ(run_again("FASTPROF_CLOCK", "99999999999999999999", "inner_ignored"), 0);
  CHECK_EQ(run_again("FASTPROF_CLOCK", "500000000", "inner_ignored"), 0);
}

TEST(dynamic_thread_block) {
  CHECK_EQ(run_again("FASTPROF_TLS", "dynamic", "inner_dynamic"), 0);
  run_all_in("FASTPROF_TLS", "dynamic");
}

TEST(no_membarrier) {
  CHECK_EQ(run_again("FASTPROF_NO_MEMBARRIER", "1", "inner_no_membarrier"), 0);
}

TEST(inner_slow) {
  if (!mode("FASTPROF_CLOCK") || fp::state()->simulated_counter_hz != 0)
    SKIP("runs with FASTPROF_CLOCK=slow");
  CHECK_EQ(fp::state()->slow_clock, 1);
  Running session;
  CHECK_EQ(fp::load_relaxed(&fp::state()->mask), fp::mask_bit::dynamic);
  const int64_t before = fp::clock_ns(CLOCK_MONOTONIC);
  {
    FASTPROF_RANGE("a");
    for (int i = 0; i < 10000; ++i) {
      FASTPROF_RANGE("b");
    }
    FASTPROF_MARK("m");
  }
  const int64_t took = fp::clock_ns(CLOCK_MONOTONIC) - before;
  const fp::Capture& capture = session.stop();
  CHECK_EQ(capture.size(), 10002);
  size_t children = 0;
  for (size_t i = 1; i < capture.size(); ++i) children += capture.parent[i] == 0 ? 1 : 0;
  CHECK_EQ(children, 10001);
  // The map is CLOCK_MONOTONIC itself.
  CHECK(capture.end_ns[0] - capture.start_ns[0] <= took + 1);
  CHECK_EQ(capture.clock_error_ns, 0);
}

TEST(inner_coarse) {
  fp::State* s = fp::state();
  if (s->simulated_counter_hz == 0) SKIP("runs with FASTPROF_CLOCK=24000000");
  CHECK_EQ(s->simulated_counter_hz, kCoarseHz);
  CHECK_EQ(s->slow_clock, 1);
  // The clock does not change between its steps, which are 41.7 ns apart.
  CHECK_EQ(fp::counter_step(1000, kCoarseHz), uint64_t{1000} << 8);
  CHECK_EQ(fp::counter_step(1041, kCoarseHz), uint64_t{1000} << 8);
  CHECK_EQ(fp::counter_step(1042, kCoarseHz), (uint64_t{1041} << 8) + 170);
  CHECK_EQ(fp::counter_step(7'999'999'999, kCoarseHz), (uint64_t{7'999'999'958} << 8) + 85);
  uint64_t last = 0, on_a_step = 0;
  for (int i = 0; i < 100000; ++i) {
    const uint64_t stamp = fp::slow_ticks(s);
    if (stamp <= last) CHECK(false);
    last = stamp;
    const uint64_t ns = (stamp >> 8) + 1;  // steps are not whole ns
    on_a_step += stamp == fp::counter_step(ns, kCoarseHz) ? 1 : 0;
  }
  CHECK(on_a_step > 0);

  Running session;
  constexpr size_t kPairs = 5000;
  for (size_t i = 0; i < kPairs; ++i) {
    FASTPROF_RANGE("outer");
    { FASTPROF_RANGE("first"); }
    { FASTPROF_RANGE("second"); }
  }
  const fp::Capture& capture = session.stop();
  CHECK_EQ(capture.size(), 3 * kPairs);
  CHECK_EQ(capture.dropped_total(), 0);
  for (size_t i = 0; i < capture.size(); ++i)
    CHECK_EQ(parent_name(capture, i), i % 3 == 0 ? "" : "outer");
}

TEST(inner_ignored) {
  if (!mode("FASTPROF_CLOCK")) SKIP("runs with FASTPROF_CLOCK");
  if (fp::state()->simulated_counter_hz != 0 ||
      std::strcmp(std::getenv("FASTPROF_CLOCK"), "slow") == 0)
    SKIP("runs with what is no number of Hz below 500 MHz");
  CHECK_EQ(fp::state()->slow_clock, fp::tick_counter_usable() ? 0 : 1);
}

TEST(inner_dynamic) {
  if (!mode("FASTPROF_TLS")) SKIP("runs with FASTPROF_TLS=dynamic");
  CHECK_EQ(fp::g_recorder.tls_static, 0);
  Running session;
  CHECK_EQ(fp::load_relaxed(&fp::state()->mask), fp::mask_bit::dynamic);
  CHECK(fp::recording(fp::category::user));
  { FASTPROF_RANGE("here"); }
  std::thread([] { FASTPROF_RANGE("there"); }).join();
  session.stop();
  CHECK(!fp::recording(fp::category::user));
  CHECK_EQ(session.capture().size(), 2);
}

TEST(inner_no_membarrier) {
  if (!mode("FASTPROF_NO_MEMBARRIER")) SKIP("runs with FASTPROF_NO_MEMBARRIER");
  Running session;
  { FASTPROF_RANGE("x"); }
  session.stop();
  CHECK(!session.capture().exact_stop);
  CHECK_EQ(session.capture().size(), 1);
}

TEST(the_usual_way_is_exact) {
  if (mode("FASTPROF_NO_MEMBARRIER")) return;
  Running session;
  session.stop();
  CHECK(session.capture().exact_stop);
}
