// SPDX-License-Identifier: Apache-2.0
// Groups of perf counters on a double of the kernel: what is asked of it, limits, failed reads, and
// counters that are read by instruction.
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "check.hpp"
#include "fake_perf_system.hpp"
#include "fastprof/payload/perf_counters/counter_probe.hpp"

using namespace fastprof;
using namespace fastprof_test;

namespace {

bool starts_with(const std::string& text, const char* part) {
  return text.rfind(part, 0) == 0;
}

// One event that the kernel lets this thread read.
struct ReadablePage {
  perf_event_mmap_page page;
  ReadablePage() {
    fake = Fake{};
    std::memset(&page, 0, sizeof page);
    page.cap_user_rdpmc = 1;
    page.index = 1;
    page.pmc_width = 64;
    page.time_enabled = page.time_running = 30;
    fake.pages[0] = &page;
    fake.pmc[0] = uint64_t{1} << 63 | 5;
  }
};

}  // namespace

TEST(an_event_is_described_to_the_kernel) {
  struct Case {
    const char* name;
    bool user, kernel;  // left out
  };
  for (const Case& c :
       {Case{"r1c2", false, true}, Case{"r1c2:k", true, false}, Case{"r1c2:uk", false, false}}) {
    fake = Fake{};
    ThreadCounters counters{};
    CHECK(open_thread_counters(&counters, options_for({c.name}), &kFake));
    const perf_event_attr& seen = fake.seen[0];
    CHECK_EQ(seen.size, sizeof seen);
    CHECK_EQ(seen.type, 4u);
    CHECK_EQ(seen.config, 0x1C2u);
    CHECK_EQ(seen.exclude_user == 1, c.user);
    CHECK_EQ(seen.exclude_kernel == 1, c.kernel);
    CHECK(seen.exclude_hv == 1);
    CHECK_EQ(seen.read_format, 11u);  // times enabled and running, as a group
    close_thread_counters(&counters);
  }
  CounterConfig config{4, 0, 1};
  CHECK(perf_detail::attributes_of(config).exclude_hv == 0);
}

TEST(no_counters_are_no_failure) {
  fake = Fake{};
  ThreadCounters counters{};
  CHECK(open_thread_counters(&counters, DetailOptions{}, &kFake));
  CHECK(fake.open_count == 0 && fake.enabled_fd == -1);
  CounterSample sample;
  CHECK(!read_thread_counters(&counters, &sample));
}

TEST(at_most_four_counters_are_opened) {
  fake = Fake{};
  DetailOptions options = options_for({"cycles", "instructions", "branches", "branch-misses"});
  options.counter_count = 5;
  ThreadCounters counters{};
  CHECK(open_thread_counters(&counters, options, &kFake));
  CHECK_EQ(counters.count, 4u);
  CHECK_EQ(fake.open_count, 4);
  close_thread_counters(&counters);
}

// 32 descriptors are left where there are more than 64.
TEST(a_low_limit_of_descriptors_is_not_divided) {
  struct Case {
    uint64_t limit;
    int fd;
    bool opens;
  };
  for (const Case& c : {Case{64, 63, true}, Case{65, 32, true}, Case{65, 33, false},
                        Case{65, 0, true}, Case{UINT64_MAX, 5000, true}}) {
    fake = Fake{};
    fake.limit = c.limit;
    fake.next_fd = c.fd;
    ThreadCounters counters{};
    CHECK_EQ(open_thread_counters(&counters, options_for({"cycles"}), &kFake), c.opens);
    CHECK_EQ(counters.error, c.opens ? 0 : EMFILE);
    CHECK_EQ(fake.close_count, c.opens ? 0 : 1);
    close_thread_counters(&counters);
    CHECK_EQ(fake.close_count, 1);
  }
}

TEST(a_read_that_fails_gives_zeros) {
  fake = Fake{};
  ThreadCounters counters{};
  CHECK(open_thread_counters(&counters, options_for({"cycles"}), &kFake));
  CounterSample sample;
  const auto refused = [&] {
    fake.read_count = 0;
    errno = 17;
    CHECK(!read_thread_counters(&counters, &sample));
    CHECK_EQ(errno, 17);
    CHECK_EQ(fake.read_count, 1);
    CHECK(sample.values[0] == 0 && sample.enabled_ns == 0 && sample.running_ns == 0);
  };
  fake.read_error = EIO;
  refused();
  fake.read_error = 0;
  fake.more_counted = 1;
  refused();
  fake.more_counted = 0;
  CHECK(read_thread_counters(&counters, &sample));
  CHECK(sample.values[0] == 1 && sample.values[1] == 0);
  ++counters.process_mark;  // of another process
  CHECK(!read_thread_counters(&counters, &sample));
  CHECK_EQ(sample.values[0], 0u);
  close_thread_counters(&counters);
}

TEST(a_page_that_the_kernel_updates_is_read_again) {
  ReadablePage readable;
  uint64_t value = 0, enabled = 0;
  const auto read = [&](int updates) {
    fake.pmc_reads = 0;
    fake.updates = updates;
    return perf_detail::read_page(&kFake, &readable.page, &value, &enabled);
  };
  CHECK(read(0));
  CHECK_EQ(fake.pmc_reads, 1);
  CHECK_EQ(value, uint64_t{1} << 63 | 5);  // all 64 bits
  CHECK_EQ(enabled, 30u);
  CHECK(read(7));
  CHECK_EQ(fake.pmc_reads, 8);
  CHECK(!read(8));
  CHECK_EQ(fake.pmc_reads, 8);
}

TEST(a_page_without_a_count_is_not_read) {
  const auto refused = [](auto&& change) {
    ReadablePage readable;
    change(readable.page);
    uint64_t value = 77, enabled = 78;
    CHECK(!perf_detail::read_page(&kFake, &readable.page, &value, &enabled));
    CHECK(value == 77 && enabled == 78 && fake.pmc_reads == 0);
  };
  refused([](perf_event_mmap_page& page) { page.index = 0; });
  refused([](perf_event_mmap_page& page) { page.pmc_width = 0; });
  refused([](perf_event_mmap_page& page) { page.pmc_width = 65; });
  refused([](perf_event_mmap_page& page) { page.time_running = 29; });
  refused([](perf_event_mmap_page& page) { page.time_enabled = 31; });
}

TEST(pages_are_kept_if_all_can_be_read) {
  const auto page_bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const auto kept = [&](auto&& change) {
    ReadablePage readable;
    change(readable.page);
    ThreadCounters counters{};
    CHECK(open_thread_counters(&counters, options_for({"cycles"}), &kFake));
    CHECK_EQ(fake.map_count, 1);
    CHECK_EQ(fake.map_bytes, page_bytes);
    const bool maps = fake.pages[0] != nullptr, all = counters.user_readable == 1;
    CHECK_EQ(counters.pages[0] != nullptr, all);
    CHECK_EQ(fake.unmap_count, maps && !all ? 1 : 0);
    close_thread_counters(&counters);
    CHECK_EQ(fake.unmap_count, maps ? 1 : 0);
    CHECK_EQ(fake.unmap_bytes, maps ? page_bytes : 0);
    return all;
  };
  CHECK(kept([](perf_event_mmap_page&) {}));
  CHECK(!kept([](perf_event_mmap_page& page) { page.cap_user_rdpmc = 0; }));
  CHECK(!kept([](perf_event_mmap_page& page) { page.index = 0; }));
  CHECK(!kept([](perf_event_mmap_page&) { fake.pages[0] = nullptr; }));
  // The pages of another process are not this one's to unmap.
  ReadablePage readable;
  ThreadCounters counters{};
  CHECK(open_thread_counters(&counters, options_for({"cycles"}), &kFake));
  ++counters.process_mark;
  close_thread_counters(&counters);
  CHECK_EQ(fake.unmap_count, 0);
  CHECK_EQ(fake.close_count, 1);
  // Where there is no such instruction, nothing is mapped.
  PerfSystem without = kFake;
  without.read_pmc = nullptr;
  fake.map_count = 0;
  CHECK(open_thread_counters(&counters, options_for({"cycles"}), &without));
  CHECK_EQ(fake.map_count, 0);
  close_thread_counters(&counters);
}

TEST(what_was_read_by_instruction_is_dropped_if_a_later_event_is_not) {
  ReadablePage readable;
  perf_event_mmap_page second = readable.page;
  second.index = 2;
  fake.pages[1] = &second;
  ThreadCounters counters{};
  CHECK(open_thread_counters(&counters, options_for({"cycles", "instructions"}), &kFake));
  second.index = 0;
  fake.more_counted = 1;
  CounterSample sample;
  CHECK(!read_thread_counters(&counters, &sample));
  CHECK(sample.values[0] == 0 && sample.enabled_ns == 0);
  fake.more_counted = 0;
  second.index = 2;
  CHECK(read_thread_counters(&counters, &sample));
  CHECK(sample.enabled_ns == 30 && sample.running_ns == 30);
  close_thread_counters(&counters);
}

TEST(a_probe_reads_what_it_opens) {
  const CounterSurroundings facts{};
  fake = Fake{};
  DetailOptions options{};
  CounterProbe probe = probe_counters({"cycles", "instructions", "branches", "branch-misses"},
                                      &options, &kFake, &facts);
  CHECK(probe.available && probe.reason.empty());
  CHECK_EQ(options.counter_count, 4u);
  CHECK_EQ(options.counters[3].config, 5u);
  CHECK_EQ(probe.config.config, 0u);
  CHECK_EQ(fake.close_count, 4);
  CHECK(probe_counters({"cycles"}, nullptr, &kFake, &facts).available);
  fake.running = 0;
  CHECK(!probe_counters({"cycles"}, nullptr, &kFake, &facts).available);
  fake.enabled = 0;  // no time has passed
  CHECK(probe_counters({"cycles"}, nullptr, &kFake, &facts).available);
  fake.read_fails = true;
  options = DetailOptions{};
  probe = probe_counters({"cycles", "branches"}, &options, &kFake, &facts);
  CHECK(!probe.available);
  CHECK(probe.reason.find("cannot be read: the CPU cannot count these 2 events") !=
        std::string::npos);
  CHECK_EQ(options.counter_count, 0u);
}

TEST(a_probe_that_fails_names_the_event_or_the_group) {
  CounterSurroundings facts{};
  facts.has_cpu_pmu = true;
  fake = Fake{};
  fake.fail_type = PERF_TYPE_RAW;
  fake.fail_error = EINVAL;
  CounterProbe probe = probe_counters({"cycles", "instructions", "r1ff"}, nullptr, &kFake, &facts);
  CHECK(starts_with(probe.reason, "r1ff: the kernel does not know this event"));
  CHECK_EQ(probe.config.config, 0x1FFu);
  CHECK_EQ(fake.open_count, 6);   // three together, then each alone
  CHECK_EQ(fake.close_count, 4);  // two of the group, two alone
  fake.open_count = 0;
  probe = probe_counter("r1ff", &kFake, &facts);
  CHECK(starts_with(probe.reason, "r1ff: the kernel does not know this event"));
  CHECK_EQ(fake.open_count, 1);  // once is enough
  fake = Fake{};
  fake.max_group = 1;
  probe = probe_counters({"cycles", "branches"}, nullptr, &kFake, &facts);
  CHECK(starts_with(probe.reason, "the CPU cannot count these 2 events in one group"));
  CHECK_EQ(probe.config.config, 0u);
}
