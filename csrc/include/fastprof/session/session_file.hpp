// SPDX-License-Identifier: Apache-2.0
// Sessions in the backing file: brings a file into force for the session that asks for one, and
// keeps the file's table of sessions.
#pragma once

#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/recorder/names/file_names.hpp"
#include "fastprof/recorder/names/module_sites.hpp"
#include "fastprof/recorder/store/move_threads.hpp"
#include "fastprof/recorder/store/open_backing_file.hpp"
#include "fastprof/session/backing_report.hpp"

FASTPROF_NAMESPACE_BEGIN

// The file that a session asks for.
struct FileRequest {
  std::string path;
  // Key and value pairs for the reader: the process's rank, its name, the names of counters.
  std::vector<std::pair<std::string, std::string>> metadata;
};

// Writes the session in slot `index` into the file in force, if there is one. `owner`: it asked for
// the file. State::lock held.
inline void write_file_session(State* s, unsigned index, bool owner) noexcept {
  if (!file_in_force(s)) return;
  FileSession* entry = file_session(s->backing_file, index);
  SessionSlot& slot = s->sessions[index];
  store_relaxed(&entry->id, uint64_t{0});
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  entry->t0 = slot.t0;
  entry->t1 = slot.t1;
  entry->mask = slot.mask;
  entry->local = slot.local;
  entry->policy = static_cast<uint8_t>(slot.policy);
  entry->owner = owner ? 1 : 0;
  for (size_t i = 0; i < kMaxDropCauses; ++i) entry->dropped[i] = load_relaxed(&slot.dropped[i]);
  store_release(&entry->id, slot.id);
  store_relaxed(&slot.dropped_in_file, entry->dropped);
}

// Writes the end of a session into the file, which goes out of force if the session asked for it.
// State::lock held.
inline void end_file_session(State* s, unsigned index) noexcept {
  if (!file_in_force(s)) return;
  BackingFile* file = s->backing_file;
  FileSession* entry = file_session(file, index);
  if (entry->id != s->sessions[index].id) return;
  copy_knots(s);
  store_release(&entry->t1, s->sessions[index].t1);
  if (file->owner == index) end_file(s);
}

// The text of a pair for the file's reader.
inline std::string metadata_text(const std::string& key, const std::string& value) {
  std::string text = key;
  text.push_back('\0');
  text += value;
  return text;
}

// Adds a text made by metadata_text(). State::lock held.
inline void add_file_metadata(BackingFile* file, const std::string& text) noexcept {
  add_text_entry(file, EntryType::metadata, nullptr, text.data(), text.size());
}

[[noreturn]] inline void raise_file_in_use() {
  raise<StateError>(
      "the records of this process lie in another session's backing file: stop that session first");
}

// Makes the file and brings it into force; the caller's session becomes its owner when it has a
// slot. Throws IoError if the file cannot be made, StateError if another session's is in force,
// std::bad_alloc with nothing changed. A
// file system without room is no error: the report says so, and the session goes on in anonymous
// memory.
inline BackingReport bring_file_into_force(State* s, const FileRequest& request) {
  BackingReport report;
  if (file_in_force(s)) raise_file_in_use();
  std::vector<std::string> metadata;  // made first: once the file is in force, nothing may throw
  for (const auto& [key, value] : request.metadata) metadata.push_back(metadata_text(key, value));
  const OpenedFile opened = open_backing_file(s, request.path.c_str());
  if (opened.no_room) {
    report.problem = "no room for the backing file " + request.path + " (" +
                     std::strerror(opened.error) +
                     "): its records are lost if the process is killed; choose another folder";
    return report;
  }
  if (opened.error != 0)
    raise<IoError>("cannot make the backing file " + request.path + ": " +
                   std::strerror(opened.error) +
                   "; choose a name that does not exist, in a folder that can be written");
  {
    StateLock hold(s);
    add_knot(s, 32);
    report.opened = enforce_file(s, opened, request.path.c_str(), kMaxSessions);
    if (report.opened) {
      copy_all_names(s);
      for (const std::string& text : metadata) add_file_metadata(s->backing_file, text);
      for (uint64_t rest = s->session_bits; rest != 0; rest &= rest - 1)
        write_file_session(s, static_cast<unsigned>(__builtin_ctzll(rest)), false);
    }
  }
  if (!report.opened) {  // another thread was faster, or memory is short
    ::close(opened.fd);
    ::munmap(opened.segment, kSlabBytes);
    ::unlink(request.path.c_str());
    raise_file_in_use();
  }
  copy_module_sites(s);
  move_threads_into_file(s);
  return report;
}

// Adds to the report what the file lacks, after its session has ended.
inline void finish_report(const State* s, BackingReport& report) {
  const BackingFile* file = s->backing_file;
  if (!report.opened || file == nullptr) return;
  report.fallback_slabs = file->fallback_slabs;
  report.names_lost = file->names_lost;
  report.threads_outside = file->threads_outside;
  if (report.fallback_slabs != 0)
    report.problem = "the backing file had no room (" +
                     std::string(std::strerror(file->fallback_error)) + ") for " +
                     std::to_string(report.fallback_slabs) +
                     " slabs of 2 MB, which lay in anonymous memory instead; choose a folder with "
                     "more room";
  else if (report.names_lost != 0)
    report.problem = "the backing file had no room for " + std::to_string(report.names_lost) +
                     " names; their records cannot be read from it";
}

FASTPROF_NAMESPACE_END
