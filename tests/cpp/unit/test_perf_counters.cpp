// SPDX-License-Identifier: Apache-2.0
// Perf counters: the real kernel where it offers them, a double of its calls for everything it may
// refuse.
#include <sys/wait.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "check.hpp"
#include "fake_perf_system.hpp"
#include "fastprof/payload/perf_counters/counter_probe.hpp"
#include "fastprof/payload/perf_counters/perf_counters.hpp"
#include "text_checks.hpp"

using namespace fastprof;
using namespace fastprof_test;
using text_checks::has;

static CounterSurroundings plain_machine() {
  CounterSurroundings facts;
  facts.has_paranoid = true;
  facts.paranoid = 2;
  facts.has_cpu_pmu = true;
  facts.fd_limit = 1024;
  return facts;
}

static std::string reason_of(const std::string& name, int error, const CounterSurroundings& facts) {
  fake = Fake{};
  fake.fail_at = 0;
  fake.fail_error = error;
  const CounterProbe probe = probe_counter(name, &kFake, &facts);
  CHECK(!probe.available);
  CHECK_EQ(fake.close_count, 0);
  return probe.reason;
}

TEST(names_and_modifiers) {
  CounterConfig config;
  CHECK(find_counter("cycles", &config));
  CHECK_EQ(config.type, uint32_t{PERF_TYPE_HARDWARE});
  CHECK_EQ(config.excludes, counter_exclude::kernel | counter_exclude::hypervisor);
  CHECK(find_counter("cycles:uk", &config));
  CHECK_EQ(config.excludes, counter_exclude::hypervisor);
  CHECK(find_counter("instructions:k", &config));
  CHECK_EQ(config.excludes, counter_exclude::user | counter_exclude::hypervisor);
  CHECK(find_counter("context-switches", &config));
  CHECK_EQ(config.excludes, counter_exclude::hypervisor);
  CHECK(find_counter("cs:u", &config));
  CHECK_EQ(config.excludes & counter_exclude::kernel, counter_exclude::kernel);
  CHECK(find_counter("r01c2", &config));
  CHECK_EQ(config.type, uint32_t{PERF_TYPE_RAW});
  CHECK_EQ(config.config, uint64_t{0x1c2});
  CHECK(find_counter("L1-dcache-load-misses", &config));
  CHECK_EQ(config.config, uint64_t{0x10000});
  for (const char* wrong :
       {"", "r", "rxyz", "cycle", "cycles:", "cycles:x", "r11112222333344445", ":u"})
    CHECK(!find_counter(wrong, &config));
}

TEST(group_is_opened_hardware_first_and_read_in_the_order_asked) {
  fake = Fake{};
  const DetailOptions options =
      options_for({"task-clock", "cycles", "page-faults", "instructions"});
  ThreadCounters counters{};
  CHECK(open_thread_counters(&counters, options, &kFake));
  CHECK_EQ(fake.open_count, 4);
  CHECK_EQ(fake.seen[0].type, uint32_t{PERF_TYPE_HARDWARE});
  CHECK_EQ(fake.seen[0].config, uint64_t{PERF_COUNT_HW_CPU_CYCLES});
  CHECK_EQ(fake.group_seen[0], -1);
  CHECK_EQ(fake.group_seen[3], 100);
  CHECK(fake.seen[0].disabled == 1);  // the leader waits for all, they start together
  CHECK(fake.seen[1].disabled == 0);
  CHECK_EQ(fake.enabled_fd, 100);
  CHECK(fake.seen[0].exclude_kernel == 1);
  fake.values[0] = 70;  // group order: cycles, instructions, task-clock, page-faults
  fake.values[1] = 71;
  fake.values[2] = 72;
  fake.values[3] = 73;
  fake.running = 5;
  fake.interrupts = 2;
  CounterSample sample;
  errno = 17;
  CHECK(read_thread_counters(&counters, &sample));
  CHECK_EQ(errno, 17);
  CHECK_EQ(sample.values[0], uint64_t{72});
  CHECK_EQ(sample.values[1], uint64_t{70});
  CHECK_EQ(sample.values[2], uint64_t{73});
  CHECK_EQ(sample.values[3], uint64_t{71});
  CHECK_EQ(sample.enabled_ns, uint64_t{10});
  CHECK_EQ(sample.running_ns, uint64_t{5});
  fake.read_fails = true;
  CHECK(!read_thread_counters(&counters, &sample));
  CHECK_EQ(sample.values[1], uint64_t{0});
  close_thread_counters(&counters);
  CHECK_EQ(fake.close_count, 4);
  close_thread_counters(&counters);  // again: nothing
  CHECK_EQ(fake.close_count, 4);
  CHECK(!read_thread_counters(&counters, &sample));
}

TEST(a_group_that_does_not_start_leaves_nothing_open) {
  fake = Fake{};
  fake.enable_error = EIO;
  ThreadCounters counters{};
  CHECK(!open_thread_counters(&counters, options_for({"cycles", "instructions"}), &kFake));
  CHECK_EQ(counters.error, EIO);
  CHECK_EQ(fake.close_count, 2);
}

TEST(descriptors_are_left_to_the_program) {
  fake = Fake{};
  fake.limit = 134;  // the third would be number 102 = 134 - 32
  ThreadCounters counters{};
  CHECK(!open_thread_counters(&counters, options_for({"cycles", "instructions", "cache-misses"}),
                              &kFake));
  CHECK_EQ(counters.error, EMFILE);
  CHECK_EQ(fake.close_count, 3);
  CHECK(open_thread_counters(&counters, options_for({"cycles"}), &kFake) == false);  // 103
  CHECK(has(reason_of("cycles", EMFILE, plain_machine()), "ulimit -n"));
}

TEST(a_counter_is_read_by_instruction_where_the_kernel_allows_it) {
  fake = Fake{};
  perf_event_mmap_page pages[2];
  std::memset(pages, 0, sizeof pages);
  for (int i = 0; i < 2; ++i) {
    pages[i].cap_user_rdpmc = 1;
    pages[i].index = static_cast<uint32_t>(i + 3);
    pages[i].pmc_width = 48;
    pages[i].offset = 1000;
    pages[i].time_enabled = pages[i].time_running = 44;
    fake.pages[i] = &pages[i];
  }
  fake.pmc[2] = 5;
  fake.pmc[3] = 0xFFFFFFFFFFFFull;  // -1 in 48 bits
  ThreadCounters counters{};
  CHECK(open_thread_counters(&counters, options_for({"cycles", "instructions"}), &kFake));
  CHECK_EQ(counters.user_readable, 1u);
  CounterSample sample;
  CHECK(read_thread_counters(&counters, &sample));
  CHECK_EQ(fake.read_count, 0);
  CHECK_EQ(fake.pmc_reads, 2);
  CHECK_EQ(sample.values[0], uint64_t{1005});
  CHECK_EQ(sample.values[1], uint64_t{999});
  CHECK_EQ(sample.enabled_ns, uint64_t{44});
  pages[1].index = 0;  // off the CPU just now: the system call knows
  CHECK(read_thread_counters(&counters, &sample));
  CHECK_EQ(fake.read_count, 1);
  CHECK_EQ(sample.values[0], uint64_t{1});
  pages[1].index = 4;
  pages[0].time_running = 40;  // was multiplexed: so too
  CHECK(read_thread_counters(&counters, &sample));
  CHECK_EQ(fake.read_count, 2);
  close_thread_counters(&counters);
  CHECK_EQ(fake.unmap_count, 2);
  // One page that cannot be used: none is kept.
  fake.open_count = fake.map_count = fake.unmap_count = 0;
  fake.next_fd = 100;
  pages[1].cap_user_rdpmc = 0;
  CHECK(open_thread_counters(&counters, options_for({"cycles", "instructions"}), &kFake));
  CHECK_EQ(counters.user_readable, 0u);
  CHECK_EQ(fake.unmap_count, 2);
  close_thread_counters(&counters);
  CHECK_EQ(fake.unmap_count, 2);
}

TEST(reasons_name_the_cause_and_the_remedy) {
  CounterSurroundings facts = plain_machine();
  facts.paranoid = 4;
  CHECK(has(reason_of("task-clock", EACCES, facts), "perf_event_paranoid is 4"));
  facts.paranoid = 2;
  CHECK(has(reason_of("context-switches", EACCES, facts), "counts in the kernel"));
  facts.seccomp = 2;
  CHECK(has(reason_of("cycles", EPERM, facts), "seccomp"));
  CHECK(has(reason_of("cycles", ENOSYS, facts), "seccomp"));
  facts.seccomp = 0;
  CHECK(has(reason_of("cycles", EPERM, facts), "security module"));
  CHECK(has(reason_of("cycles", ENOSYS, facts), "no perf events"));
  CHECK(has(reason_of("cycles", ENOENT, facts), "this CPU does not count"));
  CHECK(has(reason_of("task-clock", ENOENT, facts), "this kernel does not count"));
  facts.has_cpu_pmu = false;
  CHECK(has(reason_of("cycles", ENOENT, facts), "no driver"));
  facts.virtual_machine = true;
  CHECK(has(reason_of("cycles", ENOENT, facts), "virtual PMU"));
  CHECK(has(reason_of("LLC-loads", EOPNOTSUPP, facts), "virtual PMU"));
  CHECK(has(reason_of("r1ff", EINVAL, facts), "does not know"));
  CHECK(has(reason_of("cycles", EBUSY, facts), "watchdog"));
  CHECK(has(reason_of("cycles", ENOMEM, facts), "memory"));
  CHECK(has(reason_of("cycles", ENOSPC, facts), "hardware breakpoint"));
  CHECK(has(reason_of("cycles", EIO, facts), std::strerror(EIO)));
  CHECK(has(probe_counter("cycels").reason, "unknown counter 'cycels'"));
  CHECK(has(probe_counters({}).reason, "list of counters is empty"));
  CHECK(has(
      probe_counters({"cycles", "instructions", "branches", "branch-misses", "task-clock"}).reason,
      "at most 4"));
}

TEST(the_event_to_blame_is_named_and_groups_that_do_not_fit) {
  const CounterSurroundings facts = plain_machine();
  fake = Fake{};
  fake.fail_type = PERF_TYPE_RAW;
  fake.fail_error = EINVAL;
  CounterProbe probe = probe_counters({"cycles", "r1ff"}, nullptr, &kFake, &facts);
  CHECK(!probe.available);
  CHECK(probe.reason.rfind("r1ff: ", 0) == 0);
  fake = Fake{};
  fake.max_group = 2;
  probe = probe_counters({"cycles", "instructions", "branches"}, nullptr, &kFake, &facts);
  CHECK(!probe.available);
  CHECK(has(probe.reason, "these 3 events in one group"));
  fake = Fake{};
  fake.running = 0;
  probe = probe_counters({"cycles"}, nullptr, &kFake, &facts);
  CHECK(!probe.available);
  CHECK(has(probe.reason, "does not count"));
  fake = Fake{};
  fake.read_fails = true;
  probe = probe_counters({"cycles", "branches"}, nullptr, &kFake, &facts);
  CHECK(!probe.available && has(probe.reason, "cannot count these 2 events together"));
  CHECK_EQ(fake.close_count, 2);
  fake = Fake{};
  DetailOptions options{};
  probe = probe_counters({"cycles", "branches"}, &options, &kFake, &facts);
  CHECK(probe.available);
  CHECK(probe.reason.empty());
  CHECK_EQ(options.counter_count, 2u);
  CHECK_EQ(fake.close_count, 2);
}

// From here on: the real kernel. Where it refuses, the reason must be given.
static bool real(const std::vector<std::string>& names, DetailOptions* options) {
  const CounterProbe probe = probe_counters(names, options);
  if (!probe.available) {
    std::printf("not on this machine: %s\n", probe.reason.c_str());
    CHECK(!probe.reason.empty());
  }
  return probe.available;
}

TEST(real_child_does_not_read_its_parents_counters) {
  DetailOptions options{};
  if (!real({"task-clock"}, &options)) return;
  ThreadCounters counters{};
  CHECK(open_thread_counters(&counters, options));
  CounterSample sample;
  CHECK(read_thread_counters(&counters, &sample));
  const pid_t child = ::fork();
  if (child == 0) {
    CounterSample mine;
    int status = 0;
    if (read_thread_counters(&counters, &mine)) status |= 1;
    if (mine.values[0] != 0) status |= 2;
    const int inherited = counters.fds[0];
    close_thread_counters(&counters);
    if (::fcntl(inherited, F_GETFD) != -1) status |= 4;
    if (!open_thread_counters(&counters, options)) status |= 8;
    if (!read_thread_counters(&counters, &mine)) status |= 16;
    close_thread_counters(&counters);
    ::_exit(status);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK_EQ(WEXITSTATUS(status), 0);
  CHECK(read_thread_counters(&counters, &sample));  // the parent's still count
  close_thread_counters(&counters);
}

TEST(real_threads_open_and_close_without_leaking_descriptors) {
  DetailOptions options{};
  if (!real({"task-clock", "page-faults", "minor-faults", "major-faults"}, &options)) return;
  const int before = ::dup(0);
  ::close(before);
  std::atomic<int> bad{0};
  for (int round = 0; round < 20; ++round) {
    std::thread threads[4];
    for (std::thread& thread : threads)
      thread = std::thread([&] {
        ThreadCounters counters{};
        CounterSample sample;
        if (!open_thread_counters(&counters, options) || !read_thread_counters(&counters, &sample))
          ++bad;
        close_thread_counters(&counters);
      });
    for (std::thread& thread : threads) thread.join();
  }
  CHECK_EQ(bad.load(), 0);
  const int after = ::dup(0);
  ::close(after);
  CHECK_EQ(after, before);
}

TEST(real_every_known_name_is_available_or_has_a_reason) {
  for (const CounterName& known : kCounterNames) {
    const CounterProbe probe = probe_counter(known.name);
    CHECK(probe.available == probe.reason.empty());
  }
}
