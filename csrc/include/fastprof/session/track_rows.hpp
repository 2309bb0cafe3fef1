// SPDX-License-Identifier: Apache-2.0
// TrackRows: the rows that a drain has read from one track, as columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/capture/column.hpp"

FASTPROF_NAMESPACE_BEGIN

// A task switch that was read: from `at` (ticks) on, the thread runs the task of `word`.
struct TaskSwitch {
  uint64_t at;
  uint64_t word;    // TaskWord
  uint32_t site;    // index in DrainedRows::task_names
  bool in_session;  // of a thread-local session: the thread belonged to it
};

// Rows of one track, begin-ordered, in ticks (below 2^63).
struct TrackRows {
  TrackInfo info;
  std::vector<TaskSwitch> switches;  // of a thread, until assemble() has given tasks their tracks
  Column<int64_t> begin;
  Column<int64_t> end;  // 0: open
  Column<uint32_t> site;
  Column<uint32_t> payload;
  Column<EventKind> kind;
  Column<uint8_t> flags;

  size_t size() const noexcept { return begin.size(); }

  // Appends a row. Throws std::bad_alloc.
  void add(uint64_t row_begin, uint64_t row_end, uint32_t row_site, EventKind row_kind,
           uint32_t row_payload = kNoPayload, uint8_t row_flags = 0) {
    begin.push_back(static_cast<int64_t>(row_begin));
    end.push_back(static_cast<int64_t>(row_end));
    site.push_back(row_site);
    payload.push_back(row_payload);
    kind.push_back(row_kind);
    flags.push_back(row_flags);
  }

  // Calls each(column) for all columns.
  template <class Each>
  void each_column(Each&& each) {
    each(begin);
    each(end);
    each(site);
    each(payload);
    each(kind);
    each(flags);
  }
};

// Appends rows to columns that have room for `most` more. Resizes the columns only in its
// constructor and destructor.
class RowWriter {
 public:
  RowWriter(TrackRows& rows, size_t most) : rows_(rows), count_(rows.size()) {
    resize(count_ + most);
    begin_ = rows.begin.data();
    end_ = rows.end.data();
    site_ = rows.site.data();
    payload_ = rows.payload.data();
    kind_ = rows.kind.data();
    flags_ = rows.flags.data();
  }
  RowWriter(const RowWriter&) = delete;
  RowWriter& operator=(const RowWriter&) = delete;
  ~RowWriter() { resize(count_); }

  // Appends a row. At most `most` calls.
  void add(uint64_t begin, uint64_t end, uint32_t site, EventKind kind, uint32_t payload,
           uint8_t flags) noexcept {
    const size_t at = count_++;
    begin_[at] = static_cast<int64_t>(begin);
    end_[at] = static_cast<int64_t>(end);
    site_[at] = site;
    payload_[at] = payload;
    kind_[at] = kind;
    flags_[at] = flags;
  }

 private:
  void resize(size_t size) {
    rows_.each_column([size](auto& column) { column.resize(size); });
  }

  TrackRows& rows_;
  size_t count_;
  int64_t* begin_;
  int64_t* end_;
  uint32_t* site_;
  uint32_t* payload_;
  EventKind* kind_;
  uint8_t* flags_;
};

FASTPROF_NAMESPACE_END
