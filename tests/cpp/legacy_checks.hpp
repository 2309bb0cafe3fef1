// SPDX-License-Identifier: Apache-2.0
// What the tests of the exclusive profiler share: errors compared by text, and records made by
// hand.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

#include "check.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/legacy.hpp"

// The message of the E that `run` raises; "(nothing raised)" or "(another error: ...)" otherwise.
// Without exceptions a raise ends the process, so `run` is not run and `unbuilt` is the answer.
#if FASTPROF_EXCEPTIONS
template <class E, class F>
inline std::string message_of(F run) {
  try {
    run();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("(another error: ") + error.what() + ")";
  }
  return "(nothing raised)";
}
#define CHECK_MESSAGE(E, text, expression)                                                      \
  do {                                                                                          \
    const std::string check_message = message_of<E>([&] { (void)(expression); });               \
    if (check_message.find(text) == std::string::npos)                                          \
      check::fail(__FILE__, __LINE__,                                                           \
                  std::string(#expression ": expected '") + (text) + "' in: " + check_message); \
  } while (0)
#else
#define CHECK_MESSAGE(E, text, expression) \
  do {                                     \
  } while (0)
#endif

inline fastprof::LegacyEvent make_event(fastprof::LegacyEventKind kind, const std::string& name,
                                        uint64_t handle, int64_t cpu_ns, uint64_t thread_id = 1) {
  fastprof::LegacyEvent event;
  event.kind = kind;
  event.name = name;
  event.handle = handle;
  event.cpu_ns = cpu_ns;
  event.thread_id = thread_id;
  return event;
}

// Collects what is written to stderr while it lives.
class FASTPROF_HIDDEN CapturedStderr {
 public:
  CapturedStderr() : file_(std::tmpfile()), saved_(::dup(2)) {
    std::fflush(stderr);
    ::dup2(::fileno(file_), 2);
  }
  ~CapturedStderr() {
    std::fflush(stderr);
    ::dup2(saved_, 2);
    ::close(saved_);
    std::fclose(file_);
  }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;

  std::string text() const {
    std::fflush(stderr);
    std::string all;
    char buffer[512];
    std::rewind(file_);
    while (const size_t got = std::fread(buffer, 1, sizeof buffer, file_)) all.append(buffer, got);
    return all;
  }

 private:
  std::FILE* file_;
  int saved_;
};
