// SPDX-License-Identifier: Apache-2.0
// Sessions that find no memory: each allocation of a stop, a drain, a start and a destructor fails
// in turn. Whatever happens, a session is over as a whole or runs as a whole, and nothing of the
// recorder stays with it.
#include <fcntl.h>

#include <cerrno>
#include <memory>
#include <new>
#include <thread>

#include "fastprof/recover.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

// Allocations of this thread that still succeed; negative: all do.
thread_local long allocations_left = -1;
thread_local bool fails_once = true;

[[maybe_unused]] bool allocation_fails() noexcept {
  if (allocations_left < 0) return false;
  if (allocations_left > 0) {
    --allocations_left;
    return false;
  }
  if (fails_once) allocations_left = -1;
  errno = ENOMEM;
  return true;
}

}  // namespace

// Replaces the C library's allocator, to call allocation_fails(). Sanitizers have their own.
#if FASTPROF_ASAN || FASTPROF_TSAN
constexpr bool kReplaced = false;
#else
constexpr bool kReplaced = true;
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void* malloc(size_t size) {
  return allocation_fails() ? nullptr : __libc_malloc(size);
}
int posix_memalign(void** memory, size_t alignment, size_t size) {
  if (allocation_fails()) return ENOMEM;
  *memory = __libc_memalign(alignment, size);
  return *memory != nullptr ? 0 : ENOMEM;
}
}
#endif

// Replaces the C library's function, for file systems that have none.
namespace {
int fallocations_refused = -1;  // negative: none are
}
extern "C" int fallocate(int fd, int, off_t offset, off_t size) {
  if (fallocations_refused < 0) return (errno = ::posix_fallocate(fd, offset, size)) == 0 ? 0 : -1;
  ++fallocations_refused;
  errno = EOPNOTSUPP;
  return -1;
}

namespace {

constexpr size_t kRanges = 6000;  // some chunks

struct Case {
  const char* name;
  fp::SessionOptions options;
};

struct Folder {
  ~Folder() { ::rmdir(path.c_str()); }
  std::string path = fp::make_private_folder();
};

std::vector<Case> cases() {
  std::vector<Case> all(6);
  all[0].name = "plain";
  all[1] = {"with stacks", {}};
  all[1].options.cpp_stacks = true;
  all[2] = {"overwriting", {}};
  all[2].options.overflow = fp::OverflowPolicy::overwrite_oldest;
  all[3] = {"spilling", {}};
  all[3].options.overflow = fp::OverflowPolicy::spill_to_file;
  all[4] = {"thread-local", {}};
  all[4].options.thread_local_only = true;
  all[5] = {"with a backing file", {}};
  static const Folder folder;
  all[5].options.backing_file = folder.path + "/records";
  all[5].options.backing_metadata = {{"role", "a process whose memory is short, of many ranges"}};
  return all;
}

void record(size_t ranges) {
  for (size_t i = 0; i < ranges; ++i) {
    FASTPROF_RANGE("range");
  }
  FASTPROF_RANGE_ARGS("with words", "text", std::string("of this run"), "number", ranges);
  FASTPROF_RANGE_DYNAMIC(std::string("made at run time"));
  FASTPROF_COUNTER("counter", ranges);
}

void record_on_two_threads(const fp::SessionOptions& options) {
  record(kRanges);
  if (!options.thread_local_only) std::thread([] { record(100); }).join();
}

size_t expected(const fp::SessionOptions& options) {
  return kRanges + (options.thread_local_only ? 0 : 100);
}

// The recorder contains nothing of any session, and no backing file is left.
void check_nothing_is_held() {
  const fp::State* s = fp::state();
  CHECK_EQ(s->session_bits, 0);
  CHECK_EQ(s->keep_bits, 0);
  CHECK_EQ(s->local_bits, 0);
  CHECK_EQ(s->detail_users, 0);
  CHECK_EQ(s->max_chunks, 0);
  CHECK(!fp::file_in_force(s));
  CHECK(::access(cases().back().options.backing_file.c_str(), F_OK) != 0);
  for (const fp::SessionSlot& slot : s->sessions) {
    CHECK_EQ(slot.id, 0);
    CHECK_EQ(slot.pinned_chunks, 0);
  }
  for (const fp::Track* track = s->tracks; track != nullptr; track = track->next)
    for (const fp::Chunk* chunk = track->oldest; chunk != nullptr; chunk = chunk->next) {
      CHECK_EQ(chunk->pins, 0);
      CHECK_EQ(chunk->counted, 0);
    }
}

// Runs `act` with each of its allocations failing in turn, until all succeed; returns how many
// failures there were. before: makes what it acts on. after(failed): looks at it.
template <class Before, class Act, class After>
long fail_each(Before before, Act act, After after) {
  for (long n = 0;; ++n) {
    before();
    bool failed = false;
    allocations_left = n;
    try {
      act();
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    const bool reached = allocations_left < 0;
    allocations_left = -1;
    after(failed);
    if (!reached) return n;
  }
}

}  // namespace

TEST(a_stop_that_fails_can_be_repeated) {
  if (!kReplaced) SKIP("the allocator is the sanitizer's");
  for (const Case& each : cases()) {
    std::unique_ptr<fp::Session> session;
    size_t failures = 0;
    const long allocations = fail_each(
        [&] {
          session = std::make_unique<fp::Session>(each.options);
          session->start();
          record_on_two_threads(each.options);
        },
        [&] { session->stop(); },
        [&](bool failed) {
          failures += failed ? 1 : 0;
          CHECK_EQ(session->running(), failed);
          if (failed) {
            record(5);  // no longer
            session->stop();
          }
          CHECK_EQ(count_named(session->capture(), "range"), expected(each.options));
          fp::validate_capture(session->capture());
          check_nothing_is_held();
          // It may be used again.
          CHECK_THROWS(fp::StateError, session->stop());
          session->start();
          record(10);
          CHECK_EQ(count_named(session->stop(), "range"), 10);
        });
    std::printf("%s: %zu of %ld failures ended a stop\n", each.name, failures, allocations);
    CHECK(failures > 5);
  }
}

TEST(a_drain_leaves_what_it_could_not_read) {
  if (!kReplaced) SKIP("the allocator is the sanitizer's");
  for (const Case& each : cases()) {
    if (each.options.overflow == fp::OverflowPolicy::spill_to_file) continue;
    std::unique_ptr<fp::Session> session;
    size_t failures = 0;
    fail_each(
        [&] {
          session = std::make_unique<fp::Session>(each.options);
          session->start();
          record_on_two_threads(each.options);
        },
        [&] { session->drain(); },
        [&](bool failed) {
          failures += failed ? 1 : 0;
          CHECK(session->running());
          record(7);
          const fp::Capture& capture = session->stop();
          CHECK_EQ(count_named(capture, "range"), expected(each.options) + 7);
          CHECK_EQ(capture.dropped_total(), 0);
          fp::validate_capture(capture);
          check_nothing_is_held();
        });
    CHECK(failures > 3);
  }
}

TEST(a_backing_file_needs_no_fallocate) {
  fp::SessionOptions options = cases().back().options;
  options.keep_backing_file = true;
  fallocations_refused = 0;
  Running session(options);
  record_on_two_threads(options);
  CHECK_EQ(count_named(session.stop(), "range"), expected(options));
  CHECK(fallocations_refused > 1);
  fallocations_refused = -1;
  CHECK(session.backing_report().opened);
  CHECK_EQ(session.backing_report().problem, "");
  CHECK_EQ(count_named(fp::recover(options.backing_file).capture, "range"), expected(options));
  ::unlink(options.backing_file.c_str());
}

TEST(a_start_is_whole_or_not_at_all) {
  if (!kReplaced) SKIP("the allocator is the sanitizer's");
  for (const Case& each : cases()) {
    std::unique_ptr<fp::Session> session;
    fail_each([&] { session = std::make_unique<fp::Session>(each.options); },
              [&] { session->start(); },
              [&](bool failed) {
                CHECK_EQ(session->running(), !failed);
                if (failed) {
                  check_nothing_is_held();
                  session->start();
                }
                record(3);
                CHECK_EQ(count_named(session->stop(), "range"), 3);
                check_nothing_is_held();
              });
  }
}

TEST(a_destructor_needs_no_memory) {
  if (!kReplaced) SKIP("the allocator is the sanitizer's");
  fails_once = false;
  for (const Case& each : cases()) {
    auto session = std::make_unique<fp::Session>(each.options);
    session->start();
    record_on_two_threads(each.options);
    allocations_left = 0;
    session.reset();
    allocations_left = -1;
    check_nothing_is_held();
  }
  fails_once = true;
}
