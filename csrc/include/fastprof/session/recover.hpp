// SPDX-License-Identifier: Apache-2.0
// recover: reads the records of a process from its backing file (SessionOptions::backing_file),
// whether the process was killed, ended or still runs.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/capture/validate.hpp"
#include "fastprof/recorder/process/clock_choice.hpp"
#include "fastprof/recorder/state/detail_blocks.hpp"
#include "fastprof/session/activities.hpp"
#include "fastprof/session/assemble.hpp"
#include "fastprof/session/backing_reader.hpp"
#include "fastprof/session/chunk_buffer.hpp"
#include "fastprof/session/drain.hpp"

FASTPROF_NAMESPACE_BEGIN

// Options of recover().
struct RecoverOptions {
  // Id of the session to read; 0: the one that asked for the file.
  uint64_t session_id = 0;
  // Largest size of the file on its file system, in bytes.
  uint64_t max_bytes = uint64_t{16} << 30;
  // What devices did for the process, each of one backend; stamps are those of the file's records.
  std::vector<Activities> activities{};
};

// What a backing file contains.
struct Recovered {
  Capture capture;
  uint64_t session_id = 0;  // 0: the file contains no session
  bool ended = false;       // the session was stopped; else its process was killed, or still runs

  // What is incomplete or missing. Rows of open ranges have no flag `finished` and end at t1_ns,
  // the last stamp in the file.
  uint64_t open_ranges = 0;
  uint64_t unread_chunks = 0;    // cut short: damaged, or a record whose site is not in the file
  uint64_t unknown_texts = 0;    // arguments whose text is not in the file: "<unknown text>"
  uint64_t python_stacks = 0;    // of ranges, without a text in the file
  uint64_t damaged = 0;          // headers and directory entries
  uint64_t names_lost = 0;       // sites and texts for which the file had no room
  uint64_t fallback_slabs = 0;   // slabs of 2 MB that were not in the file, for want of room
  uint32_t threads_outside = 0;  // threads that may have written up to 2700 records elsewhere

  // The process, for merging files of several: stamps of one boot share one monotonic clock.
  int64_t parent_pid = 0;
  uint64_t process_start = 0;  // since boot, in 1/100 s; identifies the process with its pid
  int64_t opened_monotonic_ns = 0;
  int64_t unix_offset_ns = 0;  // capture times minus CLOCK_MONOTONIC
  std::string boot_id;
  std::vector<std::pair<std::string, std::string>> metadata;
};

namespace recovering {

// Stamps further than this from the session's start are taken for damage: 18 years.
constexpr double kMostNs = 5.8e17;

// Rebuilds the sites and texts that records refer to, at addresses of this process, and makes the
// records of a chunk safe to read: what a record claims is checked against the chunk and the file.
class RecordRepair {
 public:
  RecordRepair(const BackingReader& file, Recovered& result, uint64_t horizon)
      : file_(file), result_(result), horizon_(horizon) {}

  // Returns the end of the records in `chunk`, whose bytes are the file's.
  const Slot* repair(Chunk* chunk) {
    Slot* slot = chunk_slots(chunk);
    const uint64_t used = chunk->used_bytes / sizeof(Slot);
    const Slot* last =
        slot + (chunk->place == ChunkPlace::full && used < kChunkCapacity ? used : kChunkCapacity);
    while (slot < last && slot->begin >= chunk->open_ticks) {
      const uint32_t units = repair_record(slot, static_cast<size_t>(last - slot));
      if (units == 0) {
        ++result_.unread_chunks;
        break;
      }
      slot += units;
    }
    return slot;
  }

  uint64_t last_stamp() const noexcept { return last_stamp_; }

 private:
  // A Site whose texts are those of the file.
  struct Rebuilt {
    Site site{};
    std::vector<const char*> names;
  };

  const Site* site_at(uint64_t address) {
    const auto [at, fresh] = sites_.try_emplace(address, nullptr);
    if (!fresh) return at->second == nullptr ? nullptr : &at->second->site;
    const auto known = file_.sites().find(address);
    if (known == file_.sites().end()) return nullptr;
    const FileSite& from = known->second;
    auto rebuilt = std::make_unique<Rebuilt>();
    for (const std::string& name : from.info.arg_names) rebuilt->names.push_back(name.c_str());
    Site& site = rebuilt->site;
    site.mask = from.info.mask;
    site.kind = from.info.kind;
    site.scope = from.info.scope;
    site.arg_count = static_cast<uint8_t>(from.info.arg_types.size());
    site.arg_units = from.arg_units;
    site.name = from.info.name.c_str();
    site.category_name = from.info.category.c_str();
    site.file = from.info.file.c_str();
    site.function = from.info.function.c_str();
    site.line = from.info.line;
    site.color = from.info.color;
    site.arg_names = rebuilt->names.data();
    site.arg_types = from.info.arg_types.data();
    site.device_type = from.info.device_type;
    site.device_index = from.info.device_index;
    at->second = std::move(rebuilt);
    return &at->second->site;
  }

  void repair_text(uint64_t* word) {
    if (*word == 0) return;  // the drain reads null as an empty text
    const auto known = file_.texts().find(*word);
    if (known == file_.texts().end()) ++result_.unknown_texts;
    const char* text = known == file_.texts().end() ? "<unknown text>" : known->second.c_str();
    *word = reinterpret_cast<uintptr_t>(text);
  }

  // Updates last_stamp(); returns false for a stamp that cannot be real.
  bool accept_stamp(uint64_t stamp) noexcept {
    if (stamp > horizon_) return false;
    if (stamp > last_stamp_) last_stamp_ = stamp;
    return true;
  }

  // Returns the record's units, or 0 if it cannot be read. `room`: units to the end of the chunk.
  uint32_t repair_record(Slot* slot, size_t room) {
    const auto tag = tag_of(slot->site);
    const Site* site = site_at(slot->site & kSiteMask);
    if (site == nullptr || tag > RecordTag::detailed || !accept_stamp(slot->begin)) return 0;
    auto* words = reinterpret_cast<uint64_t*>(slot + 1);
    uint32_t units = 2;
    if (tag == RecordTag::slot || tag == RecordTag::detailed) {
      units = 1u + site->arg_units;
      if (units > room) return 0;
      if (tag == RecordTag::detailed) {
        const size_t detail_room = (room - units) * 3;
        if (detail_room == 0) return 0;
        uint64_t* detail = words + site->arg_units * 3u;
        const uint64_t count = static_cast<uint32_t>(*detail);  // DetailHeader::words
        if (count >= detail_room || !repair_blocks(detail, detail_room)) return 0;
        units += static_cast<uint32_t>((count + 1 + 2) / 3);
        if (units > room) return 0;
      }
      if (site->kind == SiteKind::range && slot->end != 0 && !accept_stamp(slot->end))
        slot->end = 0;
      if (site->arg_units != 0)
        for (unsigned i = 0; i < site->arg_count; ++i)
          if (site->arg_types[i] == ArgType::string) repair_text(&words[i]);
    } else {
      // {stamp, begin, site} + {origin track, ending track, end}
      if (units > room || !accept_stamp(slot->end) || !accept_stamp(words[2])) return 0;
    }
    slot->site = with_site(slot->site, site);
    return units;
  }

  bool repair_blocks(uint64_t* detail, size_t room) {
    return for_each_block(detail, room, [this](DetailBlock block, uint64_t* contents) {
      if (block.type == DetailType::python_stack) {
        if (block.count != 0 && file_.stacks().count(*contents) != 0) return;
        contents[-1] = detail_block_word(DetailType::nothing, block.count);
        ++result_.python_stacks;
      } else if (block.type == DetailType::op_inputs_ref) {  // exists in captures only
        contents[-1] = detail_block_word(DetailType::nothing, block.count);
      } else if (is_text(block.type) && block.count != 0) {
        repair_text(contents);
      }
    });
  }

  const BackingReader& file_;
  Recovered& result_;
  uint64_t horizon_;
  uint64_t last_stamp_ = 0;
  std::unordered_map<uint64_t, std::unique_ptr<Rebuilt>> sites_;
};

// The knots for converting stamps. A killed process's last knot may be a second old; on the same
// boot, this process's clock is the same, and adds one.
inline std::vector<ClockKnot> knots_of(const BackingReader& file) {
  std::vector<ClockKnot> knots = file.knots();
  if (knots.empty()) return knots;
  const ClockKnot last = knots.back();
  if (file.header().slow_clock != 0) {
    // Stamps are 1/256 ns of the monotonic clock.
    if (knots.size() == 1)
      knots.push_back(ClockKnot{last.ticks + (uint64_t{1000000000} << 8),
                                last.monotonic_ns + 1000000000, 0, last.suspended_ns});
    return knots;
  }
  char boot_id[40];
  platform::read_boot_id(boot_id, sizeof boot_id);
  if (boot_id[0] == 0 || std::strcmp(boot_id, file.header().boot_id) != 0 || !tick_counter_usable())
    return knots;
  ClockKnot now = take_clock_knot(32);
  now.suspended_ns = last.suspended_ns;  // no stamp is affected by a suspend after the last one
  if (now.ticks > last.ticks && now.monotonic_ns > last.monotonic_ns) {
    const double slope = static_cast<double>(now.monotonic_ns - last.monotonic_ns) /
                         static_cast<double>(now.ticks - last.ticks);
    if (slope > 1e-3 && slope < 1e3) knots.push_back(now);
  }
  return knots;
}

// The steepest slope of the map from ticks to ns, in ns per tick.
inline double most_ns_per_tick(const std::vector<ClockKnot>& knots) noexcept {
  double most = knots.size() < 2 ? 1 : 0;
  for (size_t i = 1; i < knots.size(); ++i)
    most = std::max(most, static_cast<double>(knots[i].monotonic_ns - knots[i - 1].monotonic_ns) /
                              static_cast<double>(knots[i].ticks - knots[i - 1].ticks));
  return most;
}

// The session to read; null if there is none.
inline const FileSession* find_session(const BackingReader& file, uint64_t id) noexcept {
  const FileSession* found = nullptr;
  for (const FileSession& session : file.sessions()) {
    if (session.id == 0 || (id != 0 && session.id != id)) continue;
    if (found == nullptr || session.owner > found->owner ||
        (session.owner == found->owner && session.id < found->id))
      found = &session;
  }
  return found;
}

// Reads all chunks into rows, tracks and sequences ascending. Stamps from `horizon` on are taken
// for damage. Returns the last stamp.
inline uint64_t read_chunks(const BackingReader& file, Recovered& result, Drain& drain,
                            const Snapshot& snapshot, uint64_t horizon) {
  const ChunkBuffer memory = make_chunk_buffer();
  if (memory == nullptr) raise<StateError>("out of memory: cannot read a backing file");
  Chunk* chunk = memory.get();
  std::vector<const FileChunk*> order;
  for (const FileChunk& each : file.chunks()) order.push_back(&each);
  std::sort(order.begin(), order.end(), [](const FileChunk* a, const FileChunk* b) {
    return a->header.track_id != b->header.track_id ? a->header.track_id < b->header.track_id
                                                    : a->header.sequence < b->header.sequence;
  });
  RecordRepair records(file, result, horizon - 1);
  for (size_t first = 0; first < order.size();) {
    size_t last = first;
    TrackInfo info;
    info.id = order[first]->header.track_id;
    info.pid = file.header().pid;
    info.alive = false;
    for (; last < order.size() && order[last]->header.track_id == info.id; ++last) {
      info.tid = order[last]->header.tid;
      if (!order[last]->thread.empty()) info.name = order[last]->thread;
      if (order[last]->header.place == ChunkPlace::current) info.alive = true;
    }
    if (info.name.empty()) info.name = "thread " + std::to_string(info.id);
    for (; first < last; ++first) {
      if (!file.read_chunk(*order[first], chunk)) {
        ++result.unread_chunks;
        continue;
      }
      // The header as it was read first: a process that still runs may have handed the chunk on.
      std::memcpy(static_cast<void*>(chunk), &order[first]->header, sizeof(Chunk));
      const Slot* end = records.repair(chunk);
      drain.read_spilled(snapshot, info,
                         PinnedRun{chunk, end, true, false, chunk->part_bytes != 0});
    }
  }
  return records.last_stamp();
}

// Assigns track ids above those of the drain to the activities' places. `last`: the last stamp of
// the records; raised to the end of the last call, unless that lies beyond `horizon`.
inline std::vector<PlacedActivities> place_activities(const std::vector<Activities>& given,
                                                      const DrainedRows& rows, uint64_t horizon,
                                                      uint64_t& last) {
  uint32_t next_id = 0;
  for (const TrackRows& track : rows.tracks) next_id = std::max(next_id, track.info.id);
  std::vector<PlacedActivities> placed;
  for (const Activities& each : given) {
    check_activities(each);
    placed.emplace_back();
    placed.back().from = each;
    for (size_t i = 0; i < each.places.size(); ++i) placed.back().track_ids.push_back(++next_id);
    for (const Activity& row : each.rows)
      if (each.places[row.place].device_index < 0 && row.end <= horizon)
        last = std::max(last, row.end);
  }
  return placed;
}

}  // namespace recovering

// Reads the backing file at `path`. Any thread; the process that wrote the file may be gone. Throws
// IoError if the file cannot be read, FormatError (with the offset) if it is no backing file or
// damaged beyond use, ValueError if it has no session of the given id. What is missing is counted
// in the result.
inline Recovered recover(const std::string& path, const RecoverOptions& options = {}) {
  const BackingReader file(path, options.max_bytes);
  const BackingHeader& header = file.header();
  Recovered result;
  result.parent_pid = header.parent_pid;
  result.process_start = header.process_start;
  result.opened_monotonic_ns = header.opened_monotonic_ns;
  result.unix_offset_ns = header.unix_offset_ns;
  result.boot_id = header.boot_id;
  result.metadata = file.metadata();
  result.damaged = file.damaged();
  result.names_lost = header.names_lost;
  result.fallback_slabs = header.fallback_slabs;
  result.threads_outside = header.threads_outside;

  const FileSession* session = recovering::find_session(file, options.session_id);
  if (session == nullptr && options.session_id != 0)
    raise<ValueError>(path + ": contains no session " + std::to_string(options.session_id) +
                      "; pass session_id 0 for the one that asked for the file");
  Snapshot snapshot;
  snapshot.knots = recovering::knots_of(file);
  snapshot.unix_offset_ns = header.unix_offset_ns;
  Drain drain;
  std::vector<PlacedActivities> activities;
  if (session != nullptr) {
    const double slope = recovering::most_ns_per_tick(snapshot.knots);
    const ClockKnot base = snapshot.knots.empty() ? ClockKnot{} : snapshot.knots.front();
    const double from_base =
        (static_cast<double>(session->t0) - static_cast<double>(base.ticks)) * slope;
    if (session->t0 >> 62 != 0 || from_base > recovering::kMostNs ||
        from_base < -recovering::kMostNs)
      raise<FormatError>(path + ": offset " + std::to_string(kFileSessionsAt) +
                         ": the session began at a time that its clock cannot have");
    result.session_id = session->id;
    result.ended = session->t1 != UINT64_MAX;
    snapshot.session_id = session->id;
    snapshot.mask = session->mask;
    snapshot.local = session->local != 0;
    snapshot.keeps = session->policy != static_cast<uint8_t>(OverflowPolicy::overwrite_oldest);
    std::copy(std::begin(session->dropped), std::end(session->dropped), snapshot.dropped.begin());
    snapshot.t0 = session->t0;
    const double most_ticks = recovering::kMostNs / slope;
    const uint64_t window =
        most_ticks < 4.6e18 ? static_cast<uint64_t>(most_ticks) : uint64_t{1} << 62;
    const uint64_t horizon = snapshot.t0 + window;
    const auto end_at = [&](uint64_t t1) {
      snapshot.t1 = std::min(std::max(t1, snapshot.t0), horizon);
    };
    end_at(session->t1);  // other sessions may have recorded on after it
    uint64_t last = recovering::read_chunks(file, result, drain, snapshot, horizon);
    activities = recovering::place_activities(options.activities, drain.rows(), horizon, last);
    if (!result.ended) end_at(last + 1);
  }
  result.capture = assemble(std::move(drain.rows()), snapshot, activities);
  Capture& capture = result.capture;
  capture.pid = header.pid;
  capture.process_name = header.process_name;
  capture.node_id = header.node_id;
  for (TrackInfo& track : capture.tracks)
    if (!track.is_device()) track.pid = header.pid;
  for (const auto& [id, index] : capture.python_stacks) {
    const auto known = file.stacks().find(id);
    if (known != file.stacks().end()) capture.strings[index] = known->second;
  }
  capture.python_stacks.clear();
  for (const auto& [key, value] : result.metadata) {
    if (key != "counters") continue;
    for (size_t at = 0, next; (next = value.find('\n', at)) != std::string::npos; at = next + 1)
      capture.counter_names.push_back(value.substr(at, next - at));
  }
  result.open_ranges = capture.open_ranges();
  return result;
}

FASTPROF_NAMESPACE_END
