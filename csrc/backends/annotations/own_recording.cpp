// SPDX-License-Identifier: Apache-2.0
// The injection library's own recording: see own_recording.hpp.
#include "backends/annotations/own_recording.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <string>

#include "fastprof/chrome_trace.hpp"
#include "fastprof/perfetto_trace.hpp"
#include "fastprof/session.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace annotations {
namespace {

struct OwnRecording {
  std::string path;
  pid_t pid = 0;
  timespec started{};
  Session session;
};
OwnRecording* g_recording = nullptr;  // never freed: threads record until the process ends

bool ends_with(const std::string& text, const char* suffix) {
  const std::string end(suffix);
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Returns the path to write: with "%p" replaced, or with the process id appended if a file there is
// newer than this recording.
std::string path_to_write(const OwnRecording& recording) {
  std::string path = recording.path;
  const std::string pid = std::to_string(recording.pid);
  const size_t mark = path.find("%p");
  if (mark != std::string::npos) return path.replace(mark, 2, pid);
  struct stat there {};
  if (::stat(path.c_str(), &there) != 0) return path;
  const bool younger = there.st_mtim.tv_sec > recording.started.tv_sec ||
                       (there.st_mtim.tv_sec == recording.started.tv_sec &&
                        there.st_mtim.tv_nsec > recording.started.tv_nsec);
  if (!younger) return path;
  const size_t name = path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/') + 1;
  const size_t dot = path.find('.', name);
  return path.insert(dot == std::string::npos || dot == name ? path.size() : dot, "." + pid);
}

void write_at_exit() noexcept {
  if (g_recording == nullptr || g_recording->pid != ::getpid()) return;  // a forked child
  try {
    g_recording->session.stop();
    const std::string path = path_to_write(*g_recording);
    if (ends_with(path, ".pftrace"))
      g_recording->session.write_perfetto_trace(path);
    else
      g_recording->session.write_chrome_trace(path);
    std::fprintf(stderr, "fastprof: wrote %s\n", path.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fastprof: cannot write the trace of FASTPROF_INJECTION_OUTPUT: %s\n",
                 error.what());
  }
}

bool start() noexcept {
  const char* path = std::getenv("FASTPROF_INJECTION_OUTPUT");
  if (path == nullptr || path[0] == '\0') return false;
  try {
    g_recording = new OwnRecording;
    g_recording->path = path;
    g_recording->pid = ::getpid();
    ::clock_gettime(CLOCK_REALTIME, &g_recording->started);
    g_recording->session.start();
    return std::atexit(&write_at_exit) == 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fastprof: cannot start the recording of FASTPROF_INJECTION_OUTPUT: %s\n",
                 error.what());
    return false;
  }
}

}  // namespace

void start_own_recording() noexcept {
  static const bool started = start();
  (void)started;
}

}  // namespace annotations
FASTPROF_NAMESPACE_END
