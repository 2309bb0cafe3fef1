// SPDX-License-Identifier: Apache-2.0
// What the recorder's tests ask of a capture and of the process.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fastprof/fastprof.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check.hpp"
#include "fastprof/capture/validate.hpp"

namespace recorder_checks {

namespace fp = fastprof;

using Options = fp::SessionOptions;

// Default options with other values: with(&Options::max_bytes, 65536, &Options::include_open,
// true).
inline Options with() {
  return {};
}
template <class Field, class Value, class... More>
Options with(Field field, Value value, More... more) {
  Options options = with(more...);
  options.*field = value;
  return options;
}

// Sites of ranges and async ranges of users.
constexpr fp::Site site_of_range(const char* name) {
  return fp::make_site(fp::SiteKind::range, fp::category::user, fp::RecordScope::USER_SCOPE, name,
                       __FILE__, "", __LINE__);
}
constexpr fp::Site site_of_async(const char* name) {
  return fp::make_site(fp::SiteKind::async_range, fp::category::async, fp::RecordScope::USER_SCOPE,
                       name, __FILE__, "", __LINE__);
}

// A session that is started where it is declared; its capture is validated.
struct FASTPROF_HIDDEN Running : fp::Session {
  explicit Running(Options options = {}) : Session(std::move(options)) { start(); }
  const fp::Capture& stop() {
    const fp::Capture& stopped = Session::stop();
    fp::validate_capture(stopped);
    return stopped;
  }
};

inline const std::string& name_of(const fp::Capture& capture, size_t row) {
  return capture.sites[capture.site[row]].name;
}
inline bool finished(const fp::Capture& capture, size_t row) {
  return (capture.flags[row] & fp::event_flag::finished) != 0;
}

// Rows with this name, in order.
inline std::vector<size_t> rows_named(const fp::Capture& capture, std::string_view name) {
  std::vector<size_t> rows;
  for (size_t i = 0; i < capture.size(); ++i)
    if (name_of(capture, i) == name) rows.push_back(i);
  return rows;
}
inline size_t count_named(const fp::Capture& capture, std::string_view name) {
  return rows_named(capture, name).size();
}

// Name of a row's parent, "" for none.
inline std::string parent_name(const fp::Capture& capture, size_t row) {
  const int32_t parent = capture.parent[row];
  return parent < 0 ? "" : name_of(capture, static_cast<size_t>(parent));
}

inline uint64_t dropped(const fp::Capture& capture, fp::DropCause cause) {
  return capture.dropped[static_cast<size_t>(cause)];
}

// Iterations of a stress test: `base` times FASTPROF_STRESS (default 1).
inline long scaled(long base) {
  const char* text = std::getenv("FASTPROF_STRESS");
  const double factor = text == nullptr ? 1.0 : std::atof(text);
  const auto scaled = static_cast<long>(static_cast<double>(base) * factor);
  return scaled < 1 ? 1 : scaled;
}

// Resident memory of the process, bytes.
inline uint64_t resident_bytes() {
  unsigned long long pages = 0, resident = 0;
  if (std::FILE* f = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(f, "%llu %llu", &pages, &resident) != 2) resident = 0;
    std::fclose(f);
  }
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// Replaces the process by `program`, with one argument unless it is null. Where tests run under an
// emulator, FASTPROF_TEST_EMULATOR holds its command, words divided by blanks: the kernel cannot
// start the program by itself.
[[noreturn]] inline void exec_program(const std::string& program, const char* argument) {
  std::vector<std::string> words;
  if (const char* emulator = std::getenv("FASTPROF_TEST_EMULATOR")) {
    std::string word;
    for (const char* at = emulator; *at != '\0'; ++at) {
      if (*at != ' ') {
        word += *at;
        continue;
      }
      words.push_back(word);
      word.clear();
    }
    if (!word.empty()) words.push_back(word);
  }
  words.push_back(program);
  if (argument != nullptr) words.emplace_back(argument);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

// Path of this executable; also under an emulator, which answers for the program it runs.
inline std::string own_program() {
  char path[4096] = {};
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path - 1);
  return length <= 0 ? std::string() : std::string(path, static_cast<size_t>(length));
}

// Runs this executable again with `variable`=`value` and returns its exit status (128 + signal when
// killed). Only the tests whose name contains `selection` run; SELECTION must not select the
// caller.
inline int run_again(const char* variable, const char* value, const char* selection) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv(variable, value, 1);
    exec_program(own_program(), selection);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Forks, runs f in the child, and returns its exit status: f's value through exit() (so that
// destructors and atexit handlers run), 128 + signal when killed.
template <class F>
int in_child(F f) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const int result = f();
#if FASTPROF_TSAN
    ::_exit(result);  // its exit handler reports the parent's threads as leaked
#else
    std::exit(result);
#endif
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace recorder_checks
