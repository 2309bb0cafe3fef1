// SPDX-License-Identifier: Apache-2.0
// What tests of backing files share: a folder for them, processes that are killed, events of every
// kind, as text.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdio>
#include <fastprof/recover.hpp>
#include <string>

#include "recorder_checks.hpp"

namespace backing_file_checks {

namespace fp = recorder_checks::fp;
using recorder_checks::parent_name;

// A private folder, removed with the files in it.
class Folder {
 public:
  Folder() : path_(fp::make_private_folder("fastprof-test-")) {}
  ~Folder() {
    for (const char* name : {"a", "b", "c"}) ::unlink(file(name).c_str());
    ::rmdir(path_.c_str());
  }
  std::string file(const char* name = "a") const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline fp::SessionOptions backed(const std::string& path, bool keep = false) {
  fp::SessionOptions options;
  options.backing_file = path;
  options.keep_backing_file = keep;
  return options;
}

inline bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

// What the file takes on its file system, in bytes; -1 if there is no such file.
inline int64_t stored_bytes(const std::string& path) {
  struct stat facts;
  return ::stat(path.c_str(), &facts) == 0 ? int64_t{facts.st_blocks} * 512 : -1;
}

constexpr fp::Site async_site = recorder_checks::site_of_async("async");

// Forks, runs f in the child, which must not return from it, and waits until it is dead.
template <class F>
int killed(F f) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    f();
    ::raise(SIGKILL);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return -1;
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

// One of each kind of event, with texts from all stores.
inline void work(int rounds) {
  for (int i = 0; i < rounds; ++i) {
    FASTPROF_RANGE_ARGS("outer", "i", i, "half", i * 0.5, "text",
                        std::string("t") + std::to_string(i % 3));
    FASTPROF_MARK("mark");
    FASTPROF_COUNTER("counter", i);
    { FASTPROF_RANGE_DYNAMIC(std::string("dynamic ") + std::to_string(i % 4)); }
    FASTPROF_FLOW_BEGIN(i);
    const fp::AsyncHandle handle = FASTPROF_ASYNC_BEGIN("async");
    FASTPROF_RECORD_FUNCTION("function", fp::inputs(i, 2.0, "three"), fp::sequence_number(7));
    fp::report_memory_usage(&rounds, 64, 64, 128, {fp::DeviceType::CPU, -1});
    FASTPROF_ASYNC_END(handle);
    FASTPROF_FLOW_END(i);
  }
}

// The text of an event for comparison: name, kind, flags, parent's name, arguments.
inline std::string line(const fp::Capture& capture, size_t row) {
  const fp::SiteInfo& site = capture.sites[capture.site[row]];
  std::string text = site.name + "|" + site.category + "|" + site.file + ":" +
                     std::to_string(site.line) + "|" + std::to_string(int(capture.kind[row])) +
                     "|" + std::to_string(int(capture.flags[row])) + "|" +
                     parent_name(capture, row) + "|" + capture.tracks[capture.track[row]].name;
  if (capture.payload[row] == fp::kNoPayload) return text;
  for (size_t i = 0; i < fp::payload_words_of(site); ++i) {
    const uint64_t word = capture.payload_words[capture.payload[row] + i];
    const bool is_text = i < site.arg_types.size() && site.arg_types[i] == fp::ArgType::string;
    text += "|" + (is_text ? capture.strings[word] : std::to_string(word));
  }
  const fp::RowDetails details = fp::details_of(capture, row);
  fp::for_each_block(details.words, details.room, [&](fp::DetailBlock block, const uint64_t* at) {
    text += "|" + std::to_string(int(block.type)) + ":";
    for (size_t i = 0; i < block.count; ++i)
      text += (fp::is_text(block.type) && i == 0 ? capture.strings[at[i]] : std::to_string(at[i])) +
              ",";
  });
  return text;
}

}  // namespace backing_file_checks
