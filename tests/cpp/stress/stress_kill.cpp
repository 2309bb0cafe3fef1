// SPDX-License-Identifier: Apache-2.0
// Kills processes that record into a backing file: SIGKILL at random times while 1 to 8 threads
// write nested ranges with arguments that check each other. Every file can be read, no record is
// torn, and each thread's finished ranges are all that it had finished, and a prefix of what it
// did.
//
// FASTPROF_KILLS: number of kills (200). FASTPROF_KILL_SEED: of the random numbers.
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <fastprof/recover.hpp>
#include <random>
#include <thread>

#include "recorder_checks.hpp"
#include "threads_in_children.hpp"

using namespace recorder_checks;

namespace {

constexpr int kMaxThreads = 8;
// Larger than what 8 threads write in the time they have: a full session would drop.
constexpr uint64_t kMaxBytes = uint64_t{512} << 20;
constexpr uint64_t kMostRounds = 200000;  // per thread

// Shared with the child: how many rounds each thread has finished, each stored after the round.
struct Progress {
  std::atomic<uint64_t> rounds[kMaxThreads];
  std::atomic<uint64_t> started;
};

uint64_t mixed(uint64_t thread, uint64_t round) {
  return (thread + 1) * 0x9E3779B97F4A7C15u ^ round * 0xBF58476D1CE4E5B9u;
}

void record_until_killed(uint64_t thread, Progress& progress) {
  for (uint64_t i = 0; i < kMostRounds; ++i) {
    {
      FASTPROF_RANGE_ARGS("outer", "thread", thread, "round", i, "check", mixed(thread, i));
      {
        FASTPROF_RANGE_ARGS("inner", "round", i, "text",
                            std::string_view("text 0 text 1 text 2 ").substr(i % 3 * 7, 6));
        { FASTPROF_RANGE("innermost"); }
      }
      if (i % 8 == 0) {
        FASTPROF_RANGE_DYNAMIC(std::string("dynamic ") + std::to_string(i % 64));
      }
    }
    progress.rounds[thread].store(i + 1, std::memory_order_release);
  }
  while (true) ::pause();
}

[[noreturn]] void child(const std::string& path, uint64_t threads, Progress& progress) {
  Running session(with(&Options::backing_file, path, &Options::max_bytes, kMaxBytes));
  progress.started.store(1);
  for (uint64_t t = 1; t < threads; ++t)
    std::thread([t, &progress] { record_until_killed(t, progress); }).detach();
  record_until_killed(0, progress);
  std::abort();
}

void wait_for_round(const Progress& progress) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (progress.rounds[0].load() == 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

struct Totals {
  uint64_t rows = 0, rounds = 0, open = 0, without_file = 0, before_start = 0, wrong = 0,
           missed = 0;
};

void wrong(Totals& totals, long kill, const char* what, uint64_t a, uint64_t b) {
  if (++totals.wrong <= 20)
    check::fail(__FILE__, __LINE__,
                "kill " + std::to_string(kill) + ": " + what + " " + std::to_string(a) + " " +
                    std::to_string(b));
}

// Compares what is in the file with what the threads had finished.
void compare(const fp::Recovered& found, const Progress& progress, uint64_t threads, long kill,
             Totals& totals) {
  const fp::Capture& capture = found.capture;
  fp::validate_capture(capture);
  if (found.damaged + found.unread_chunks + found.unknown_texts + found.fallback_slabs +
          found.names_lost !=
      0)
    wrong(totals, kill, "damaged, unread", found.damaged, found.unread_chunks);
  if (capture.dropped_total() != 0) wrong(totals, kill, "dropped", capture.dropped_total(), 0);
  totals.rows += capture.size();
  totals.open += found.open_ranges;
  uint64_t finished_rounds[kMaxThreads] = {}, next[kMaxThreads] = {}, open[kMaxThreads] = {};
  std::vector<int> thread_of(capture.tracks.size(), -1);
  for (size_t row = 0; row < capture.size(); ++row) {
    const std::string& name = name_of(capture, row);
    const uint64_t* words = capture.payload[row] == fp::kNoPayload
                                ? nullptr
                                : &capture.payload_words[capture.payload[row]];
    int& thread = thread_of[capture.track[row]];
    if (name == "outer") {
      if (thread < 0) thread = static_cast<int>(words[0]);
      if (words[0] >= threads || static_cast<int>(words[0]) != thread) {
        wrong(totals, kill, "thread", words[0], threads);
        return;
      }
      if (words[1] != next[thread]++) wrong(totals, kill, "round", words[1], next[thread] - 1);
      if (words[2] != mixed(words[0], words[1])) wrong(totals, kill, "torn", words[1], words[2]);
      if (finished(capture, row)) finished_rounds[thread] = words[1] + 1;
    } else if (thread < 0) {
      wrong(totals, kill, "no outer range first", row, 0);
      return;
    } else if (name == "inner") {
      if (words[0] != next[thread] - 1) wrong(totals, kill, "inner round", words[0], next[thread]);
      const std::string text = "text " + std::to_string(words[0] % 3) + " ";
      if (capture.strings[words[1]] != text.substr(0, 6)) wrong(totals, kill, "text", words[0], 0);
      if (parent_name(capture, row) != "outer") wrong(totals, kill, "parent", row, 0);
    } else if (name == "innermost") {
      if (parent_name(capture, row) != "inner") wrong(totals, kill, "parent", row, 1);
    } else if (name != "dynamic " + std::to_string((next[thread] - 1) % 64)) {
      wrong(totals, kill, "dynamic name", row, next[thread]);
    }
    if (!finished(capture, row) && ++open[thread] > 3) wrong(totals, kill, "open", row, 0);
  }
  for (uint64_t t = 0; t < threads; ++t) {
    const uint64_t told = progress.rounds[t].load();
    totals.rounds += finished_rounds[t];
    // A thread may have finished one more round than it told, and begun one more.
    if (finished_rounds[t] < told || finished_rounds[t] > told + 1)
      wrong(totals, kill, "finished rounds", finished_rounds[t], told);
    if (next[t] < told || next[t] > told + 1) wrong(totals, kill, "rounds", next[t], told);
  }
}

}  // namespace

TEST(killed_at_random_times) {
  const char* given = std::getenv("FASTPROF_KILLS");
  const long kills = given != nullptr ? std::atol(given) : scaled(200);
  const char* seed = std::getenv("FASTPROF_KILL_SEED");
  std::mt19937_64 random(seed != nullptr ? std::strtoull(seed, nullptr, 10) : 14);
  const std::string folder = fp::make_private_folder("fastprof-kill-");
  const std::string path = folder + "/records";
  auto* progress = static_cast<Progress*>(
      ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  Totals totals;
  for (long kill = 0; kill < kills; ++kill) {
    for (auto& rounds : progress->rounds) rounds.store(0);
    progress->started.store(0);
    const uint64_t threads = random() % kMaxThreads + 1;
    // Half of the kills hit the first 3 ms: the start of the session, of threads, the first chunks.
    // The others come after a round, however long the child takes to get there.
    const bool early = random() % 2 == 0;
    const uint64_t after_us = random() % (early ? 3000 : 20000);
    std::fflush(nullptr);
    const pid_t pid = ::fork();
    if (pid == 0) child(path, threads, *progress);
    if (!early) wait_for_round(*progress);
    std::this_thread::sleep_for(std::chrono::microseconds(after_us));
    ::kill(pid, SIGKILL);
    int status = 0;
    CHECK(::waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    if (::access(path.c_str(), F_OK) != 0) {
      ++totals.without_file;
      if (progress->started.load() != 0) wrong(totals, kill, "no file", 0, 0);
      continue;
    }
    if (progress->started.load() == 0) ++totals.before_start;
    try {
      compare(fp::recover(path), *progress, threads, kill, totals);
    } catch (const std::exception& error) {
      wrong(totals, kill, error.what(), 0, 0);
    }
    ::unlink(path.c_str());
  }
  ::rmdir(folder.c_str());
  CHECK_EQ(totals.wrong, 0);
  CHECK(totals.rounds > 0);
  std::printf(
      "%ld kills: %llu rows, %llu rounds finished, %llu open ranges; %llu kills before the "
      "file existed, %llu more before the session had started\n",
      kills, static_cast<unsigned long long>(totals.rows),
      static_cast<unsigned long long>(totals.rounds), static_cast<unsigned long long>(totals.open),
      static_cast<unsigned long long>(totals.without_file),
      static_cast<unsigned long long>(totals.before_start));
}
