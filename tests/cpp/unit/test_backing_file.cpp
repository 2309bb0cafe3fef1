// SPDX-License-Identifier: Apache-2.0
// Backing files: the records of a killed process are read; memory of the pool moves into the file
// and out of it; full disks, forks, and threads that recorded before the file existed.
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "backing_file_checks.hpp"
#include "threads_in_children.hpp"

using namespace recorder_checks;
using namespace backing_file_checks;

TEST(a_killed_process_is_read) {
  const Folder folder;
  CHECK_EQ(killed([&] {
             fp::SessionOptions options = backed(folder.file());
             options.backing_metadata = {{"rank", "3"}, {"name", "worker"}};
             Running session(options);
             fp::set_thread_name("the only one");
             for (int i = 0; i < 10000; ++i) {
               FASTPROF_RANGE_ARGS("outer", "i", i, "square", int64_t{i} * i);
               FASTPROF_RANGE("inner");
             }
             FASTPROF_RANGE("open");
             FASTPROF_RANGE("open too");
             ::raise(SIGKILL);
           }),
           SIGKILL);
  const fp::Recovered found = fp::recover(folder.file());
  const fp::Capture& capture = found.capture;
  fp::validate_capture(capture);
  CHECK_EQ(capture.size(), 20002);
  CHECK_EQ(found.open_ranges, 2);
  CHECK(!found.ended);
  CHECK_EQ(found.unread_chunks + found.unknown_texts + found.damaged + found.names_lost, 0);
  CHECK_EQ(found.fallback_slabs, 0);
  CHECK_EQ(found.parent_pid, ::getpid());
  CHECK(found.process_start != 0);
  CHECK(capture.pid != ::getpid());
  CHECK_EQ(capture.tracks.size(), 1);
  CHECK_EQ(capture.tracks[0].name, "the only one");
  CHECK_EQ(capture.tracks[0].tid, capture.pid);
  CHECK_EQ(found.metadata.size(), 2);
  CHECK_EQ(found.metadata[0].second, "3");
  const std::vector<size_t> rows = rows_named(capture, "outer");
  for (size_t i = 0; i < rows.size(); ++i) {
    CHECK_EQ(capture.payload_words[capture.payload[rows[i]]], i);
    CHECK_EQ(capture.payload_words[capture.payload[rows[i]] + 1], i * i);
    CHECK(finished(capture, rows[i]));
  }
  CHECK(!finished(capture, rows_named(capture, "open")[0]));
  CHECK_EQ(parent_name(capture, rows_named(capture, "open too")[0]), "open");
}

// The file contains what stop() returns: sites, arguments, details, parents, times.
TEST(the_file_says_what_the_session_says) {
  for (const bool local : {false, true}) {
    const Folder folder;
    fp::SessionOptions options = backed(folder.file(), true);
    options.record_shapes = true;
    options.thread_local_only = local;
    Running session(options);
    work(1500);
    std::thread([] { work(300); }).join();
    fp::AsyncHandle crossing = FASTPROF_ASYNC_BEGIN("crossing");
    std::thread([&] { fp::end_async(crossing); }).join();
    session.stop();
    const fp::Recovered found = fp::recover(folder.file());
    const fp::Capture& kept = session.capture();
    const fp::Capture& read = found.capture;
    fp::validate_capture(read);
    CHECK(found.ended);
    CHECK_EQ(found.unread_chunks + found.unknown_texts + found.damaged, 0);
    CHECK_EQ(read.size(), kept.size());
    CHECK_EQ(read.pid, kept.pid);
    CHECK_EQ(read.process_name, kept.process_name);
    CHECK_EQ(read.cross_thread_end_row.size(), kept.cross_thread_end_row.size());
    for (size_t i = 0; i < read.size() && i < kept.size(); ++i) {
      if (line(read, i) != line(kept, i)) {
        CHECK_EQ(line(read, i), line(kept, i));
        break;
      }
      CHECK(std::abs(read.start_ns[i] - kept.start_ns[i]) < 20000);
      CHECK(std::abs((read.end_ns[i] - read.start_ns[i]) - (kept.end_ns[i] - kept.start_ns[i])) <
            20000);
    }
  }
}

TEST(a_file_holds_more_names_than_a_segment) {
  const Folder folder;
  const std::string longest(200, 'n');  // 5 MB of them, 2 MB a segment
  Running session(backed(folder.file(), true));
  for (int i = 0; i < 20000; ++i) {
    FASTPROF_RANGE_DYNAMIC(longest + std::to_string(i));
  }
  session.stop();
  const fp::Recovered found = fp::recover(folder.file());
  fp::validate_capture(found.capture);
  CHECK_EQ(found.names_lost + found.unknown_texts + found.damaged, 0);
  CHECK_EQ(session.dropped_events(), 0);
  CHECK_EQ(session.capture().size(), 20000);
  CHECK_EQ(found.unread_chunks, 0);
  CHECK_EQ(found.capture.size(), 20000);
  for (size_t i = 0; i < found.capture.size(); ++i)
    CHECK_EQ(name_of(found.capture, i), longest + std::to_string(i));
}

TEST(the_file_is_private_and_removed) {
  const Folder folder;
  struct stat facts;
  CHECK_EQ(::stat(folder.path().c_str(), &facts), 0);
  CHECK_EQ(facts.st_mode & 0777, 0700);
  Running session(backed(folder.file()));
  CHECK_EQ(::stat(folder.file().c_str(), &facts), 0);
  CHECK_EQ(facts.st_mode & 0777, 0600);
  CHECK(session.backing_report().opened);
  { FASTPROF_RANGE("range"); }
  CHECK_EQ(fp::recover(folder.file()).capture.size(), 1);  // a process that still runs
  session.stop();
  CHECK(!exists(folder.file()));
  CHECK(session.backing_report().problem.empty());
  {
    Running discarded(backed(folder.file()));
    CHECK(exists(folder.file()));
  }
  CHECK(!exists(folder.file()));
}

TEST(a_program_that_is_started_inherits_no_descriptor) {
  const Folder folder;
  Running session(backed(folder.file()));
  const fp::BackingReader reader(folder.file(), uint64_t{1} << 30);
  struct stat facts;
  CHECK_EQ(::stat(folder.file().c_str(), &facts), 0);
  int descriptors = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    struct stat found;
    if (::fstat(fd, &found) != 0 || found.st_ino != facts.st_ino || found.st_dev != facts.st_dev)
      continue;
    ++descriptors;
    CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(descriptors > 0);
  session.stop();
}

TEST(errors) {
  const Folder folder;
  Running first(backed(folder.file()));
  fp::Session second(backed(folder.file("b")));
  CHECK_THROWS(fp::StateError, second.start());
  CHECK(!exists(folder.file("b")));
  first.stop();
  second.start();
  second.stop();
  fp::Session nowhere(backed("/no/such/folder/file"));
  CHECK_THROWS(fp::IoError, nowhere.start());
  const int taken = ::open(folder.file().c_str(), O_CREAT | O_WRONLY, 0600);
  ::close(taken);
  CHECK_THROWS(fp::IoError, first.start());
  CHECK(exists(folder.file()));
  fp::SessionOptions spilling = backed(folder.file("b"));
  spilling.overflow = fp::OverflowPolicy::spill_to_file;
  fp::Session both(spilling);
  CHECK_THROWS(fp::ValueError, both.start());
  CHECK_THROWS(fp::FormatError, fp::recover(folder.file()));
  CHECK_THROWS(fp::IoError, fp::recover(folder.file("c")));
  CHECK_THROWS(fp::IoError, fp::recover(folder.path()));
}

// A thread that recorded before has a current chunk outside the file; it moves with its next
// record.
TEST(threads_that_recorded_before_move_into_the_file) {
  long complete = 0;
  for (long round = 0; round < scaled(20); ++round) {
    const Folder folder;
    std::atomic<int> go{0}, done{0};
    std::vector<std::thread> threads;
    Running earlier;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        { FASTPROF_RANGE("before"); }
        done.fetch_add(1);
        // Half of the threads record while the session with the file starts.
        while (go.load() == 0) {
          if (t % 2 == 0) {
            FASTPROF_RANGE("meanwhile");
          }
        }
        for (int i = 0; i < 10; ++i) {
          FASTPROF_RANGE("after");
        }
        done.fetch_add(1);
      });
    { FASTPROF_RANGE("before"); }
    while (done.load() < 4) std::this_thread::yield();
    Running session(backed(folder.file()));
    go.store(1);
    for (int i = 0; i < 10; ++i) {
      FASTPROF_RANGE("after");
    }
    while (done.load() < 8) std::this_thread::yield();
    const fp::Recovered found = fp::recover(folder.file());
    for (std::thread& thread : threads) thread.join();
    session.stop();
    earlier.stop();
    CHECK_EQ(count_named(found.capture, "before"), 0);
    CHECK_EQ(count_named(session.capture(), "after"), 50);
    CHECK_EQ(count_named(earlier.capture(), "after"), 50);
    CHECK_EQ(count_named(earlier.capture(), "before"), 5);
    CHECK_EQ(session.dropped_events() + earlier.dropped_events(), 0);
    // Where threads spin on fewer CPUs, one may stand still inside the recorder for over 2 ms. It
    // is counted, and what it writes next may lie outside the file.
    if (found.threads_outside != 0) continue;
    ++complete;
    CHECK_EQ(count_named(found.capture, "after"), 50);
    // Of each thread that records meanwhile, the range that it was beginning may be in memory only.
    CHECK(found.capture.size() <= session.capture().size());
    CHECK(found.capture.size() + 2 >= session.capture().size());
  }
  CHECK(complete > 0);
}

// RLIMIT_FSIZE stands for a full disk: the kernel would kill the process that extends the file.
TEST(no_room_falls_back_to_anonymous_memory) {
  const Folder folder;
  for (const rlim_t limit : {rlim_t{1} << 20, rlim_t{3} << 20}) {
    CHECK_EQ(in_child([&] {
               const rlimit bound{limit, limit};
               if (::setrlimit(RLIMIT_FSIZE, &bound) != 0) return 1;
               Running session(backed(folder.file()));
               for (int i = 0; i < 100000; ++i) {
                 FASTPROF_RANGE("range");
               }
               session.stop();
               if (session.capture().size() != 100000) return 2;
               const fp::BackingReport& report = session.backing_report();
               if (report.problem.empty()) return 3;
               if (report.opened != (limit > fp::kSlabBytes)) return 4;
               if (report.opened && report.fallback_slabs == 0) return 5;
               return exists(folder.file()) ? 6 : 0;
             }),
             0);
  }
}

TEST(a_forked_child_leaves_the_file_alone) {
  const Folder folder;
  Running session(backed(folder.file()));
  {
    FASTPROF_RANGE("around");
    { FASTPROF_RANGE("before"); }
    CHECK_EQ(killed([&] {
               { FASTPROF_RANGE("in the child"); }
               Running own(backed(folder.file("b")));
               { FASTPROF_RANGE("child"); }
               ::raise(SIGKILL);
             }),
             SIGKILL);
    CHECK_EQ(in_child([&] {
               Running own(backed(folder.file("c")));
               { FASTPROF_RANGE("child"); }
               own.stop();
               return own.capture().size() == 1 && !exists(folder.file("c")) ? 0 : 1;
             }),
             0);
    CHECK(exists(folder.file()));
    const fp::Recovered parents = fp::recover(folder.file());
    CHECK_EQ(parents.capture.size(), 2);
    CHECK_EQ(parents.open_ranges, 1);
    CHECK_EQ(parents.capture.pid, ::getpid());
  }
  const fp::Recovered childs = fp::recover(folder.file("b"));
  CHECK_EQ(childs.capture.size(), 1);
  CHECK_EQ(childs.parent_pid, ::getpid());
  session.stop();
  CHECK_EQ(session.capture().size(), 2);
  for (size_t i = 0; i < 2; ++i) CHECK(finished(session.capture(), i));
}

// Files of several processes share one clock: what the child did lies inside the parent's range.
TEST(files_of_one_machine_share_a_clock) {
  const Folder folder;
  Running session(backed(folder.file(), true));
  {
    FASTPROF_RANGE("around");
    CHECK_EQ(killed([&] {
               Running own(backed(folder.file("b")));
               { FASTPROF_RANGE("child"); }
               ::raise(SIGKILL);
             }),
             SIGKILL);
  }
  session.stop();
  const fp::Recovered parent = fp::recover(folder.file()), child = fp::recover(folder.file("b"));
  CHECK_EQ(parent.boot_id, child.boot_id);
  const auto monotonic = [](const fp::Recovered& of, int64_t ns) { return ns - of.unix_offset_ns; };
  CHECK(monotonic(child, child.capture.start_ns[0]) >
        monotonic(parent, parent.capture.start_ns[0]));
  CHECK(monotonic(child, child.capture.end_ns[0]) < monotonic(parent, parent.capture.end_ns[0]));
  CHECK(child.opened_monotonic_ns > parent.opened_monotonic_ns);
}
