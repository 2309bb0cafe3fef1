// SPDX-License-Identifier: Apache-2.0
// What Linux does for threads and their memory: names, stacks, CPUs, waiting for a word, advice on
// mapped pages; and what it says of counters.
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "fastprof/platform/linux/memory.hpp"
#include "fastprof/platform/linux/perf_events.hpp"
#include "fastprof/platform/linux/thread_block.hpp"
#include "fastprof/platform/linux/threads.hpp"
#include "fastprof/platform/linux/wait_word.hpp"
#include "recorder_checks.hpp"

namespace {

namespace platform = fastprof::platform;

void pause_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

// Waits for a condition, for two minutes at most.
template <class Condition>
bool comes_true(Condition condition) {
  for (int i = 0; i < 120000; ++i) {
    if (condition()) return true;
    pause_ms(1);
  }
  return false;
}

// How many threads wait for a word: the kernel counts those that it moves to another word, and
// back.
long waiters(uint32_t* word) {
  static uint32_t other = 0;
  const auto move = [](uint32_t* from, uint32_t* to) {
    return ::syscall(SYS_futex, from, FUTEX_REQUEUE | FUTEX_PRIVATE_FLAG, 0,
                     reinterpret_cast<const timespec*>(uintptr_t{INT_MAX}), to, 0);
  };
  const long moved = move(word, &other);
  move(&other, word);
  return moved;
}

std::string text_of(const char* path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A page of anonymous memory that begins with "data".
struct Page {
  Page() : bytes(static_cast<size_t>(::sysconf(_SC_PAGESIZE))) {
    void* mapped =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory = static_cast<char*>(mapped);
    std::memcpy(memory, "data", 5);
  }
  ~Page() { ::munmap(memory, bytes); }
  size_t bytes;
  char* memory;
};

}  // namespace

TEST(threads_have_names) {
  CHECK_EQ(platform::kThreadNameBytes, 17u);
  std::thread([] {
    char name[17];
    for (const char* each : {"short", "fifteen letters", ""}) {
      std::memset(name, 'x', sizeof name);
      platform::name_this_thread(each);
      platform::read_thread_name(name);
      CHECK_EQ(std::string(name), std::string(each));
      CHECK_EQ(name[16], 0);
    }
  }).join();
}

TEST(threads_exist_until_they_end) {
  const auto pid = static_cast<uint32_t>(::getpid());
  const uint32_t own = platform::thread_id();
  CHECK_EQ(own, static_cast<uint32_t>(::syscall(SYS_gettid)));
  CHECK(platform::thread_exists(pid, own));
  CHECK(!platform::thread_exists(pid, INT_MAX));
  std::atomic<uint32_t> other{0};
  std::atomic<bool> leave{false};
  std::thread thread([&] {
    other = platform::thread_id();
    while (!leave) pause_ms(1);
  });
  CHECK(comes_true([&] { return other != 0; }));
  CHECK(other != own);
  CHECK(platform::thread_exists(pid, other));
  leave = true;
  thread.join();
  CHECK(comes_true([&] { return !platform::thread_exists(pid, other); }));
}

TEST(usable_cpus_are_those_of_the_thread) {
  std::thread([] {
    cpu_set_t all;
    CPU_ZERO(&all);
    CHECK_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
    CHECK_EQ(platform::usable_cpus(), CPU_COUNT(&all));
    cpu_set_t some;
    CPU_ZERO(&some);
    for (int cpu = 0, chosen = 0; cpu < CPU_SETSIZE && chosen < 2; ++cpu) {
      if (!CPU_ISSET(cpu, &all)) continue;
      CPU_SET(cpu, &some);
      ++chosen;
      if (::sched_setaffinity(0, sizeof some, &some) == 0)
        CHECK_EQ(platform::usable_cpus(), chosen);
    }
  }).join();
}

TEST(stacks_of_threads) {
  struct Stack {
    uintptr_t low = 0, high = 0;
    bool holds_frame = false;
  };
  const auto look = [](void* argument) -> void* {
    auto* const found = static_cast<Stack*>(argument);
    CHECK(platform::find_thread_stack(&found->low, &found->high));
    const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    found->holds_frame = found->low < here && here < found->high;
    return nullptr;
  };
  Stack own;
  look(&own);
  CHECK(own.holds_frame);
  // A thread on memory of ours.
  constexpr size_t kBytes = size_t{1} << 20;
  void* const memory =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_attr_t attributes;
  CHECK_EQ(::pthread_attr_init(&attributes), 0);
  CHECK_EQ(::pthread_attr_setstack(&attributes, memory, kBytes), 0);
  Stack other;
  pthread_t thread;
  CHECK_EQ(::pthread_create(&thread, &attributes, look, &other), 0);
  ::pthread_join(thread, nullptr);
  ::pthread_attr_destroy(&attributes);
  ::munmap(memory, kBytes);
  CHECK(other.holds_frame);
  CHECK_EQ(other.low, reinterpret_cast<uintptr_t>(memory));
  CHECK_EQ(other.high, reinterpret_cast<uintptr_t>(memory) + kBytes);
}

TEST(blocks_of_threads_are_apart) {
  intptr_t offset = 0;
  CHECK(platform::probe_thread_block(offset));  // the program's is at a fixed offset
  CHECK_EQ(platform::find_thread_block(), static_cast<void*>(fastprof::thread_pointer() + offset));
  void* const own = platform::find_thread_block();
  std::thread([own, offset] {
    CHECK(platform::find_thread_block() != own);
    CHECK_EQ(platform::find_thread_block(),
             static_cast<void*>(fastprof::thread_pointer() + offset));
  }).join();
  CHECK_EQ(platform::find_thread_block(), own);
}

TEST(a_wait_ends_when_the_word_differs_or_the_time_is_over) {
  uint32_t word = 7;
  CHECK(!platform::wait_word(&word, 8, int64_t{600} * 1000000000));
  CHECK(!platform::wait_word(&word, 7, 1000000));
  platform::wake_one(&word);  // nobody waits
  platform::wake_all(&word);
}

TEST(one_waiter_or_all_are_woken) {
  static uint32_t word;
  word = 3;
  std::atomic<int> woken{0}, returned{0};
  std::thread threads[3];
  for (std::thread& each : threads)
    each = std::thread([&] {
      // A limit with both seconds and nanoseconds.
      woken += platform::wait_word(&word, 3, int64_t{600000000599}) ? 1 : 0;
      ++returned;
    });
  CHECK(comes_true([] { return waiters(&word) == 3; }));
  platform::wake_one(&word);
  CHECK(comes_true([&] { return returned == 1; }));
  CHECK_EQ(waiters(&word), 2);
  platform::wake_all(&word);
  CHECK(comes_true([&] { return returned == 3; }));
  for (std::thread& each : threads) each.join();
  CHECK_EQ(woken.load(), 3);
}

TEST(pages_are_wiped_discarded_and_populated) {
  CHECK(platform::kWipesInChildren);
  Page page;
  platform::want_huge_pages(page.memory, page.bytes);
  CHECK_EQ(std::string(page.memory), std::string("data"));
  // 23: MADV_POPULATE_WRITE, which needs Linux 5.14.
  CHECK_EQ(platform::populate_pages(page.memory, page.bytes),
           ::madvise(page.memory, page.bytes, 23) == 0);
  CHECK(!platform::populate_pages(page.memory + 1, page.bytes));  // not the address of a page
  CHECK_EQ(std::string(page.memory), std::string("data"));
  CHECK(!platform::wipe_in_children(page.memory + 1, page.bytes));
  CHECK_EQ(recorder_checks::in_child([&] { return page.memory[0] == 'd' ? 0 : 1; }), 0);
  if (platform::wipe_in_children(page.memory, page.bytes))
    CHECK_EQ(recorder_checks::in_child([&] { return page.memory[0] == 0 ? 0 : 1; }), 0);
  else
    CHECK(::madvise(page.memory, page.bytes, 18) != 0);  // MADV_WIPEONFORK: Linux 4.14
  CHECK_EQ(std::string(page.memory), std::string("data"));
  platform::discard_pages(page.memory, page.bytes);
  CHECK_EQ(page.memory[0], 0);
}

TEST(small_files_are_read_up_to_64_kib) {
  char path[] = "/tmp/fastprof-small-XXXXXX";
  const int fd = ::mkstemp(path);
  CHECK(fd >= 0);
  ::close(fd);
  for (const size_t bytes : {0u, 1u, 4095u, 4096u, 4097u, 65535u, 65536u}) {
    std::ofstream(path) << std::string(bytes, 'a');
    CHECK_EQ(fastprof::probe_detail::read_small_file(path), std::string(bytes, 'a'));
  }
  std::ofstream(path) << std::string(100000, 'a');
  CHECK_EQ(fastprof::probe_detail::read_small_file(path).size(), 65536u);
  ::unlink(path);
  CHECK(fastprof::probe_detail::read_small_file(path).empty());
}

TEST(what_the_machine_says_of_counters) {
  const fastprof::CounterSurroundings facts = fastprof::read_counter_surroundings();
  const std::string paranoid = text_of("/proc/sys/kernel/perf_event_paranoid");
  CHECK_EQ(facts.has_paranoid, !paranoid.empty());
  CHECK_EQ(facts.paranoid, paranoid.empty() ? 0 : std::stoi(paranoid));
  const bool hypervisor = text_of("/proc/cpuinfo").find(" hypervisor") != std::string::npos;
  if (hypervisor) CHECK(facts.virtual_machine);
  if (!hypervisor && text_of("/sys/hypervisor/type").empty()) CHECK(!facts.virtual_machine);
  if (!text_of("/sys/bus/event_source/devices/cpu/type").empty()) CHECK(facts.has_cpu_pmu);
  if (text_of("/sys/bus/event_source/devices/software/type").empty()) CHECK(!facts.has_cpu_pmu);
  rlimit files;
  CHECK_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  CHECK_EQ(facts.fd_limit, static_cast<uint64_t>(files.rlim_cur));
}

TEST(a_filter_of_system_calls_is_noticed) {
  const int result = recorder_checks::in_child([] {
    const int before = fastprof::read_counter_surroundings().seccomp;
    sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    sock_fprog program = {};
    program.len = 1;
    program.filter = allow;
    if (before == 2 || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
      return 77;
    const int after = fastprof::read_counter_surroundings().seccomp;
    return before == 0 && after == 2 ? 0 : 1;
  });
  if (result == 77) SKIP("a filter is installed already, or none can be");
  CHECK_EQ(result, 0);
}
