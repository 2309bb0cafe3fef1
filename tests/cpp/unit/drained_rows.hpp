// SPDX-License-Identifier: Apache-2.0
// Rows as a drain leaves them, made by hand with exact stamps, and captures as text. Without knots,
// a tick is a nanosecond after the epoch.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "fastprof/session/assemble.hpp"

namespace drained_rows {

namespace fp = fastprof;

constexpr uint64_t kT0 = 1000, kT1 = 2000;

// A session of all categories in [kT0, kT1).
inline fp::Snapshot whole_session() {
  fp::Snapshot snapshot;
  snapshot.t0 = kT0;
  snapshot.t1 = kT1;
  snapshot.session_id = 1;
  snapshot.mask = fp::category::all;
  return snapshot;
}

// Rows of threads that were recorded in [kT0, kT1).
struct Drained {
  fp::DrainedRows rows;
  fp::Snapshot snapshot = whole_session();

  // Makes a track named "t<id>", to which the functions below add.
  void track(uint32_t id) {
    rows.tracks.emplace_back();
    fp::TrackInfo& info = rows.tracks.back().info;
    info.id = id;
    info.pid = 42;
    info.tid = 100 + id;
    info.name = "t" + std::to_string(id);
  }
  uint32_t site(const std::string& name, fp::EventKind kind = fp::EventKind::range) {
    for (size_t i = 0; i < rows.table.sites.size(); ++i)
      if (rows.table.sites[i].name == name) return static_cast<uint32_t>(i);
    fp::SiteInfo made;
    made.name = name;
    made.kind = kind;
    rows.table.sites.push_back(made);
    return static_cast<uint32_t>(rows.table.sites.size() - 1);
  }
  void row(const std::string& name, uint64_t begin, uint64_t end,
           fp::EventKind kind = fp::EventKind::range, uint8_t flags = 0) {
    rows.tracks.back().add(begin, end, site(name, kind), kind, fp::kNoPayload, flags);
  }
  // The end of a range or async range of track `origin`, recorded by track `ending`.
  void end(const std::string& name, uint32_t origin, uint32_t ending, uint64_t begin, uint64_t at,
           bool end_only = false) {
    rows.ends.push_back(fp::EndRecord{fp::RecordTag::cross_thread_end, site(name), origin, ending,
                                      begin, at, end_only});
  }
  // From `at` on, the thread runs task `id`; 0: none.
  void task(uint64_t at, uint32_t id, const std::string& name = "", uint32_t number = 0,
            bool ended = false, bool in_session = true) {
    uint32_t named = 0;
    for (; named < rows.task_names.sites.size(); ++named)
      if (rows.task_names.sites[named].name == name) break;
    if (named == rows.task_names.sites.size()) {
      rows.task_names.sites.emplace_back();
      rows.task_names.sites.back().name = name;
      rows.task_names.sites.back().mask = fp::category::task;
      rows.task_names.sites.back().kind = fp::EventKind::mark;
    }
    fp::TaskWord word;
    word.id = id;
    word.number = number;
    word.ended = ended;
    rows.tracks.back().switches.push_back({at, word.packed(), named, in_session});
  }

  fp::Capture assemble(const std::vector<fp::PlacedActivities>& activities = {}) {
    return fp::assemble(std::move(rows), snapshot, activities);
  }
};

// Lines of text; a check that fails shows them.
struct Lines : std::vector<std::string> {
  using std::vector<std::string>::vector;
  friend std::ostream& operator<<(std::ostream& out, const Lines& lines) {
    for (const std::string& line : lines) out << "\n  " << line;
    return out;
  }
};

// "track: name [start, end) <parent's name flags" of each row; flags as a number.
inline Lines lines(const fp::Capture& capture) {
  Lines all;
  for (size_t row = 0; row < capture.size(); ++row) {
    const int32_t parent = capture.parent[row];
    all.push_back(
        capture.tracks[capture.track[row]].name + ": " + capture.sites[capture.site[row]].name +
        " [" + std::to_string(capture.start_ns[row]) + ", " + std::to_string(capture.end_ns[row]) +
        ") <" + (parent < 0 ? "" : capture.sites[capture.site[static_cast<size_t>(parent)]].name) +
        " " + std::to_string(capture.flags[row]));
  }
  return all;
}

}  // namespace drained_rows
