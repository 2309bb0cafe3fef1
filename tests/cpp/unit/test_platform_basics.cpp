// SPDX-License-Identifier: Apache-2.0
// The thin layer over the system: mapped memory, unnamed files, pipes, clocks, the barrier of all
// threads, objects that stay loaded, children of fork.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "fastprof/base/child_handler.hpp"
#include "fastprof/platform/common/mapped_memory.hpp"
#include "fastprof/platform/common/module_info.hpp"
#include "fastprof/platform/common/pin_object.hpp"
#include "fastprof/platform/common/segment.hpp"
#include "fastprof/platform/linux/clock.hpp"
#include "fastprof/platform/linux/fence.hpp"
#include "fastprof/platform/linux/files.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

const size_t kPage = static_cast<size_t>(::sysconf(_SC_PAGESIZE));

bool closes_on_exec(int fd) {
  return (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
}
int64_t system_ns(clockid_t id) {
  timespec now;
  ::clock_gettime(id, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

TEST(mapped_memory_is_blank_and_writable) {
  for (const bool blank : {false, true}) {
    auto* memory = static_cast<char*>(blank ? fp::platform::map_blank(kPage)
                                            : fp::platform::map_memory(kPage));
    CHECK(memory != nullptr);
    CHECK(memory[0] == 0 && memory[kPage - 1] == 0);
    memory[0] = 1;
    if (blank) {  // replaces what is mapped there
      CHECK(fp::platform::map_blank(kPage, memory) == memory);
      CHECK_EQ(memory[0], 0);
      memory[kPage - 1] = 1;
    }
    ::munmap(memory, kPage);
  }
  CHECK(fp::platform::map_memory(SIZE_MAX / 4) == nullptr);
  CHECK(fp::platform::map_blank(SIZE_MAX / 4) == nullptr);
  CHECK(fp::platform::reserve_addresses(SIZE_MAX / 4) == nullptr);
  auto* addresses = static_cast<char*>(fp::platform::reserve_addresses(4 * kPage));
  CHECK(addresses != nullptr);
  CHECK(fp::platform::map_blank(kPage, addresses + kPage) == addresses + kPage);
  addresses[kPage] = 1;
  ::munmap(addresses, 4 * kPage);
}

TEST(segments_and_modules_hold_their_addresses) {
  const fp::platform::Segment segment{100, 50, 40, 0, true, false, false};
  CHECK(segment.holds(100) && segment.holds(149));
  CHECK(!segment.holds(99) && !segment.holds(150));
  fp::ModuleInfo module;
  CHECK(module.base == 0 && !module.main && !module.vdso && module.loaded);
  CHECK(!module.contains(0));
  module.segments = {{100, 150}, {200, 201}};
  CHECK(module.contains(100) && module.contains(149) && module.contains(200));
  CHECK(!module.contains(99) && !module.contains(150) && !module.contains(201));
}

TEST(an_unnamed_file_may_get_a_name) {
  const char* temporary_files = std::getenv("TMPDIR");
  std::string folder = temporary_files != nullptr ? temporary_files : "/tmp";
  folder += "/fastprof-test-XXXXXX";
  CHECK(::mkdtemp(folder.data()) != nullptr);
  const std::string name = folder + "/named";
  const int fd = fp::platform::open_unnamed_file(folder.c_str(), true);
  if (fd < 0) {
    CHECK_EQ(errno, EOPNOTSUPP);
    ::rmdir(folder.c_str());
    SKIP("the file system has no unnamed files");
  }
  struct stat facts;
  CHECK_EQ(::fstat(fd, &facts), 0);
  CHECK_EQ(facts.st_mode & 07777 & ~mode_t{0600}, 0);
  CHECK(closes_on_exec(fd));
  char text[4] = {};
  CHECK(::pwrite(fd, "abc", 3, 0) == 3 && ::pread(fd, text, 3, 0) == 3);
  CHECK_EQ(std::string(text), "abc");
  CHECK_EQ(fp::platform::link_unnamed_file(fd, name.c_str()), 0);
  CHECK(::stat(name.c_str(), &facts) == 0 && facts.st_size == 3);
  CHECK_EQ(fp::platform::link_unnamed_file(fd, name.c_str()), -1);
  CHECK_EQ(errno, EEXIST);
  ::close(fd);
  ::unlink(name.c_str());
  const int other = fp::platform::open_unnamed_file(folder.c_str(), false);
  CHECK(other >= 0);
  CHECK_EQ(fp::platform::link_unnamed_file(other, name.c_str()), -1);
  ::close(other);
  std::string pattern = folder + "/temporary-XXXXXX";
  const int temporary = fp::platform::open_temporary_file(pattern.data());
  CHECK(temporary >= 0 && closes_on_exec(temporary));
  CHECK(pattern.substr(pattern.size() - 6) != "XXXXXX");
  CHECK_EQ(::unlink(pattern.c_str()), 0);
  ::close(temporary);
  CHECK_EQ(::rmdir(folder.c_str()), 0);
  CHECK_EQ(fp::platform::open_unnamed_file("/no/such/folder", false), -1);
  CHECK_EQ(errno, EOPNOTSUPP);  // so that another way is tried
  CHECK_EQ(fp::platform::open_unnamed_file("/dev/null/file", false), -1);
  CHECK_EQ(errno, ENOTDIR);
}

TEST(room_in_a_file_is_reserved_behind_its_end) {
  const int fd = ::memfd_create("fastprof_test", MFD_CLOEXEC);
  CHECK_EQ(fp::platform::reserve_in_file(fd, kPage, 2 * kPage), 0);
  struct stat facts;
  CHECK_EQ(::fstat(fd, &facts), 0);
  CHECK_EQ(facts.st_size, 3 * kPage);
  CHECK_EQ(facts.st_blocks * 512, 2 * kPage);
  ::close(fd);
  CHECK_EQ(fp::platform::reserve_in_file(-1, 0, kPage), EBADF);
}

TEST(pipes_do_not_wait) {
  int ends[2] = {-1, -1};
  CHECK(fp::platform::open_pipe(ends));
  CHECK(closes_on_exec(ends[0]) && closes_on_exec(ends[1]));
  char byte = 0;
  CHECK_EQ(::read(ends[0], &byte, 1), -1);
  CHECK_EQ(errno, EAGAIN);
  CHECK_EQ(::write(ends[1], "x", 1), 1);
  CHECK(::read(ends[0], &byte, 1) == 1 && byte == 'x');
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(the_folder_in_memory) {
  struct statfs facts;
  const bool exists = ::statfs("/dev/shm", &facts) == 0 && facts.f_type == TMPFS_MAGIC;
  const char* folder = fp::platform::folder_in_memory();
  CHECK_EQ(folder != nullptr, exists);
  CHECK(folder == nullptr || std::string(folder) == "/dev/shm");
}

TEST(clocks_are_the_systems) {
  int64_t before = system_ns(CLOCK_MONOTONIC);
  int64_t now = fp::platform::monotonic_ns();
  int64_t after = system_ns(CLOCK_MONOTONIC);
  CHECK(before <= now && now <= after);
  bool between = false;  // unless somebody sets the clock meanwhile
  for (int tries = 0; tries < 100 && !between; ++tries) {
    before = system_ns(CLOCK_REALTIME);
    now = fp::platform::unix_ns();
    after = system_ns(CLOCK_REALTIME);
    between = before <= now && now <= after;
  }
  CHECK(between);
  const int64_t boot_before = system_ns(CLOCK_BOOTTIME), before_all = system_ns(CLOCK_MONOTONIC);
  const int64_t suspended = fp::platform::suspended_ns();
  const int64_t boot_after = system_ns(CLOCK_BOOTTIME), after_all = system_ns(CLOCK_MONOTONIC);
  CHECK(suspended >= boot_before - after_all && suspended <= boot_after - before_all);
}

TEST(the_barrier_of_all_threads_works_where_the_kernel_has_it) {
  const long commands = ::syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  const bool exists = commands > 0 && (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0;
  CHECK_EQ(fp::platform::register_fence(), exists);
  CHECK_EQ(fp::platform::fence_all_threads(), exists);
}

TEST(a_pinned_library_stays) {
  const auto loaded = [](const char* path) {
    void* library = ::dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (library != nullptr) ::dlclose(library);
    return library != nullptr;
  };
  fp::pin_object(nullptr);
  fp::pin_object("");
  const char* found = nullptr;
  for (const char* name : {"libthread_db.so.1", "libnss_compat.so.2", "libresolv.so.2"}) {
    if (loaded(name)) continue;
    fp::pin_object(name);
    CHECK(!loaded(name));  // it was not, so it is not loaded
    void* library = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) continue;
    found = name;
    fp::pin_object(name);
    ::dlclose(library);
    CHECK(loaded(name));
    break;
  }
  if (found == nullptr) SKIP("no library of the system that is not loaded yet");
}

TEST(a_child_renews_what_another_thread_held) {
  static std::mutex held, free_one;
  struct Table {
    int rows = 7;
  };
  static Table guarded, other;
  guarded.rows = other.rows = 2;
  int ends[2];
  CHECK_EQ(::pipe(ends), 0);
  std::mutex order;
  order.lock();
  std::thread thread([&] {
    held.lock();
    CHECK_EQ(::write(ends[1], "x", 1), 1);
    order.lock();  // until the child is done
    held.unlock();
    order.unlock();
  });
  char byte = 0;
  CHECK_EQ(::read(ends[0], &byte, 1), 1);
  const int status = in_child([] {
    fp::renew_guarded(held, guarded);
    fp::renew_guarded(free_one, other);
    if (guarded.rows != 7 || other.rows != 2) return 1;
    return held.try_lock() && free_one.try_lock() ? 0 : 2;
  });
  CHECK_EQ(status, 0);
  order.unlock();
  thread.join();
  CHECK_EQ(guarded.rows, 2);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(a_child_handler_is_called_once_in_each_child) {
  static fp::ChildHandler handler;
  static int calls = 0;
  const auto renew = [] { ++calls; };
  CHECK(handler.install(renew, calls));
  CHECK(handler.install(renew, calls));
  CHECK_EQ(in_child([] { return calls; }), 1);
  CHECK_EQ(in_child([] { return calls; }), 1);
  CHECK_EQ(calls, 0);
}
