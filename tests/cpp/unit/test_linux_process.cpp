// SPDX-License-Identifier: Apache-2.0
// What Linux says of a process and its limits: files of /proc and of cgroups, on either side of
// each limit. fopen() is replaced, so that files of /sys are looked for in a folder of the test.
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "fastprof/platform/linux/process.hpp"
#include "fastprof/platform/linux/tick_counter.hpp"
#include "recorder_checks.hpp"

namespace {

char folder_of_sys[64];           // empty: files of /sys are the system's
long pages_of_memory = LONG_MAX;  // LONG_MAX: what the system says
long bytes_of_a_page = LONG_MAX;

}  // namespace

extern "C" std::FILE* fopen(const char* path, const char* mode) {
  using Open = std::FILE* (*)(const char*, const char*);
  static const Open open = reinterpret_cast<Open>(::dlsym(RTLD_NEXT, "fopen"));
  if (folder_of_sys[0] == 0 || std::strncmp(path, "/sys/", 5) != 0) return open(path, mode);
  return open((std::string(folder_of_sys) + path).c_str(), mode);
}

// Sanitizers ask for the size of a page before anything can be looked up.
#if FASTPROF_ASAN || FASTPROF_TSAN
constexpr bool kReplacesSysconf = false;
#else
constexpr bool kReplacesSysconf = true;
extern "C" long sysconf(int which) {
  using Ask = long (*)(int);
  static const Ask ask = reinterpret_cast<Ask>(::dlsym(RTLD_NEXT, "sysconf"));
  if (which == _SC_PHYS_PAGES && pages_of_memory != LONG_MAX) return pages_of_memory;
  if (which == _SC_PAGESIZE && bytes_of_a_page != LONG_MAX) return bytes_of_a_page;
  return ask(which);
}
#endif

namespace {

namespace platform = fastprof::platform;

// A folder that stands for the root while it lives: of files of /sys.
class Root {
 public:
  Root() {
    char name[] = "/tmp/fastprof-root-XXXXXX";
    if (::mkdtemp(name) == nullptr) check::fail(__FILE__, __LINE__, "no folder");
    std::strcpy(folder_of_sys, name);
  }
  ~Root() {
    clear();
    ::rmdir(folder_of_sys);
    folder_of_sys[0] = 0;
  }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  // Writes a file, with the folders above it.
  std::string write(const std::string& path, const std::string& text) {
    const std::string whole = folder_of_sys + path;
    for (size_t at = std::strlen(folder_of_sys) + 1;
         (at = whole.find('/', at)) != std::string::npos; ++at)
      ::mkdir(whole.substr(0, at).c_str(), 0700);
    std::ofstream(whole) << text;
    return whole;
  }
  void clear() {
    const std::string command = std::string("rm -rf ") + folder_of_sys + "/*";
    if (std::system(command.c_str()) != 0) check::fail(__FILE__, __LINE__, "not removed");
  }
};

std::string first_line(const char* path) {
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  return line;
}

// What stat holds of a process that began at 22, if fields are numbered from 1.
std::string stat_of(const std::string& name, const std::string& state, int last) {
  std::string text = "7 (" + name + ") " + state;
  for (int field = 4; field <= last; ++field) text += " " + std::to_string(field);
  return text;
}

}  // namespace

TEST(a_line_is_cut_to_the_room_for_it) {
  Root root;
  const std::string path = root.write("/line", "abcdef\nsecond");
  char text[16];
  const auto read = [&](size_t size) {
    std::memset(text, 'x', sizeof text);
    return platform::read_line(path.c_str(), text, size);
  };
  CHECK_EQ(read(16), 6u);
  CHECK_EQ(std::string(text), std::string("abcdef"));
  CHECK_EQ(read(4), 3u);
  CHECK_EQ(std::string(text), std::string("abc"));
  CHECK_EQ(text[4], 'x');
  root.write("/line", "abc");
  CHECK_EQ(read(16), 3u);
  CHECK_EQ(std::string(text), std::string("abc"));
  root.write("/line", "");
  CHECK_EQ(read(16), 0u);
  CHECK_EQ(text[0], 0);
  std::memset(text, 'x', sizeof text);
  CHECK_EQ(platform::read_line("/nowhere/at/all", text, sizeof text), 0u);
  CHECK_EQ(text[0], 0);
}

TEST(a_process_knows_its_boot_its_name_and_its_program) {
  char text[4096];
  platform::read_boot_id(text, sizeof text);
  CHECK_EQ(std::string(text), first_line("/proc/sys/kernel/random/boot_id"));
  platform::read_process_name(text, sizeof text);
  CHECK_EQ(std::string(text), first_line("/proc/self/comm"));
  const std::string program = recorder_checks::own_program();
  CHECK_EQ(platform::read_program_path(text, sizeof text), program.size());
  CHECK_EQ(std::string(text), program);
  std::memset(text, 'x', sizeof text);
  CHECK_EQ(platform::read_program_path(text, 5), 4u);
  CHECK_EQ(std::string(text), program.substr(0, 4));
  CHECK_EQ(text[5], 'x');
  CHECK_EQ(platform::read_program_path(text, 1), 0u);  // no room for any of it
  CHECK_EQ(text[0], 0);
}

TEST(the_start_of_a_process_is_field_22) {
  Root root;
  const auto start = [&root](const std::string& text) {
    return platform::start_in(root.write("/stat", text).c_str());
  };
  CHECK_EQ(start(stat_of("name", "S", 52)), 22u);
  CHECK_EQ(start(stat_of("a) (b", "R", 22) + "\n"), 22u);
  CHECK_EQ(start(stat_of("name", "S", 21)), 0u);
  CHECK_EQ(start(stat_of("name", "Z", 52)), 0u);
  CHECK_EQ(start(stat_of("name", "X", 52)), 0u);
  CHECK_EQ(start("7 name S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23"), 0u);
  CHECK_EQ(start("7 (name)S 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23"), 0u);
  CHECK_EQ(start("7 (name"), 0u);
  CHECK_EQ(start(""), 0u);
  CHECK_EQ(platform::start_in("/nowhere/at/all"), 0u);
}

TEST(processes_that_run_have_a_start) {
  const uint64_t own = platform::process_start();
  CHECK(own > 0);
  CHECK_EQ(platform::process_start(::getpid()), own);
  CHECK_EQ(platform::process_start(INT_MAX), 0u);  // beyond the numbers of processes
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  int status = 0;
  CHECK_EQ(::waitpid(child, &status, 0), child);
  CHECK_EQ(platform::process_start(child), 0u);
}

TEST(memory_is_limited_by_the_smaller_cgroup) {
  Root root;
  const uint64_t all = platform::memory_limit_bytes();
  CHECK(all > uint64_t{64} << 20);
  const auto limit = [&root](const char* v2, const char* v1) {
    root.clear();
    if (v2 != nullptr) root.write("/sys/fs/cgroup/memory.max", v2);
    if (v1 != nullptr) root.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", v1);
    return platform::memory_limit_bytes();
  };
  CHECK_EQ(limit("max\n", nullptr), all);
  CHECK_EQ(limit("1048576\n", nullptr), 1048576u);
  CHECK_EQ(limit(nullptr, "2097152\n"), 2097152u);
  CHECK_EQ(limit("1048576\n", "2097152\n"), 1048576u);
  CHECK_EQ(limit("2097152\n", "1048576\n"), 1048576u);
  CHECK_EQ(limit(nullptr, "9223372036854771712\n"), all);  // version 1 has this for none
  CHECK_EQ(limit("1\n", nullptr), 1u);
  CHECK_EQ(limit("0\n", nullptr), all);
  CHECK_EQ(limit("", ""), all);
}

TEST(memory_of_unknown_size_counts_as_4_gib) {
  if (!kReplacesSysconf) SKIP("sysconf() is the system's under a sanitizer");
  Root root;
  const auto limit = [](long pages, long page) {
    pages_of_memory = pages;
    bytes_of_a_page = page;
    const uint64_t got = platform::memory_limit_bytes();
    pages_of_memory = bytes_of_a_page = LONG_MAX;
    return got;
  };
  CHECK_EQ(limit(1000, 4096), 4096000u);
  CHECK_EQ(limit(1, 4096), 4096u);
  CHECK_EQ(limit(1000, 1), 1000u);
  CHECK_EQ(limit(-1, 4096), 4294967296u);
  CHECK_EQ(limit(0, 4096), 4294967296u);
  CHECK_EQ(limit(1000, -1), 4294967296u);
  CHECK_EQ(limit(1000, 0), 4294967296u);
}

TEST(the_quota_of_cgroups_of_version_2) {
  Root root;
  CHECK_EQ(platform::quota_cpus(), 1e6);  // no file
  const auto quota = [&root](const char* text) {
    root.write("/sys/fs/cgroup/cpu.max", text);
    return platform::quota_cpus();
  };
  CHECK_EQ(quota("150000 100000\n"), 1.5);
  CHECK_EQ(quota("max 100000\n"), 1e6);
  CHECK_EQ(quota("1 1\n"), 1.0);
  CHECK_EQ(quota("0 100000\n"), 1e6);
  CHECK_EQ(quota("100000 0\n"), 1e6);
  CHECK_EQ(quota("100000\n"), 1e6);
  CHECK_EQ(quota(""), 1e6);
  // It comes before version 1.
  root.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n");
  root.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  CHECK_EQ(quota("150000 100000\n"), 1.5);
}

TEST(the_quota_of_cgroups_of_version_1) {
  Root root;
  const auto quota = [&root](const char* quota_us, const char* period_us) {
    root.clear();
    if (quota_us != nullptr) root.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota_us);
    if (period_us != nullptr) root.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period_us);
    return platform::quota_cpus();
  };
  CHECK_EQ(quota("250000\n", "100000\n"), 2.5);
  CHECK_EQ(quota("-1\n", "100000\n"), 1e6);
  CHECK_EQ(quota("1\n", "1\n"), 1.0);
  CHECK_EQ(quota("0\n", "100000\n"), 1e6);
  CHECK_EQ(quota("250000\n", "0\n"), 1e6);
  CHECK_EQ(quota("none\n", "100000\n"), 1e6);
  CHECK_EQ(quota("250000\n", "none\n"), 1e6);
  CHECK_EQ(quota(nullptr, "100000\n"), 1e6);
  CHECK_EQ(quota("250000\n", nullptr), 1e6);
}

TEST(clock_sources_that_follow_a_demoted_tick_counter) {
  Root root;
  CHECK(!platform::tick_counter_demoted());  // no file
  const auto demoted = [&root](const char* text) {
    root.write("/sys/devices/system/clocksource/clocksource0/current_clocksource", text);
    return platform::tick_counter_demoted();
  };
  for (const char* source : {"hpet\n", "acpi_pm\n", "jiffies\n", "refined-jiffies\n"})
    CHECK(demoted(source));
  for (const char* source : {"tsc\n", "kvm-clock\n", "arch_sys_counter\n", "hyperv_clocksource\n",
                             "hpe\n", "acpi_p\n", "jiffie\n", "refine\n", "\n", ""})
    CHECK(!demoted(source));
}
