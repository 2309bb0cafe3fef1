// SPDX-License-Identifier: Apache-2.0
// merge_captures: makes one Capture of those of several processes, on one clock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/capture/row_details.hpp"
#include "fastprof/capture/validate.hpp"
#include "fastprof/recorder/state/detail_blocks.hpp"

FASTPROF_NAMESPACE_BEGIN

// One process of merge_captures().
struct CapturePart {
  const Capture* capture = nullptr;
  // Added to all times of the capture. Processes measure their offset from CLOCK_MONOTONIC to Unix
  // time once each; the difference of two offsets puts both on one clock.
  int64_t shift_ns = 0;
  // Open ranges end here, after the shift, if that is later than their end: the process still ran.
  // INT64_MIN: they keep their end.
  int64_t open_until_ns = INT64_MIN;
  // Shown for the process; empty: the capture's process_name.
  std::string name{};
};

namespace merging {

// Returns a text that is equal for equal sites only.
inline std::string site_key(const SiteInfo& site) {
  std::string key;
  const auto add = [&key](const std::string& text) {
    key += std::to_string(text.size());
    key += ':';
    key += text;
  };
  add(site.name);
  add(site.category);
  add(site.file);
  add(site.function);
  for (const int64_t number : {int64_t{site.line}, int64_t{site.color}, int64_t{site.mask},
                               static_cast<int64_t>(site.kind), static_cast<int64_t>(site.scope),
                               int64_t{site.device_type}, int64_t{site.device_index}}) {
    key += std::to_string(number);
    key += ',';
  }
  for (const std::string& name : site.arg_names) add(name);
  key += '|';
  for (const ArgType type : site.arg_types) key += static_cast<char>('a' + static_cast<int>(type));
  return key;
}

// Calls use(row, id) for each flow row of a capture.
template <class Use>
inline void for_each_flow(const Capture& capture, const Use& use) {
  for (size_t row = 0; row < capture.size(); ++row)
    if ((capture.kind[row] == EventKind::flow_begin || capture.kind[row] == EventKind::flow_end) &&
        capture.payload[row] != kNoPayload)
      use(row, capture.payload_words[capture.payload[row]]);
}

// Renumbers flows where several processes use the same numbers, as a forked child does that
// continues its parent's count. A flow that begins and ends in one process gets a number of its own
// if an earlier part uses its number; any other flow keeps its number, since its other end may lie
// in another process.
class FlowNumbers {
 public:
  explicit FlowNumbers(const std::vector<CapturePart>& parts) {
    for (const CapturePart& part : parts)
      for_each_flow(*part.capture, [this](size_t, uint64_t id) { used_.insert(id); });
  }

  // Returns the new number of each number of the next part that changes.
  std::unordered_map<uint64_t, uint64_t> next_part(const Capture& capture) {
    std::unordered_map<uint64_t, unsigned> ends;  // bit 0: begins here, bit 1: ends here
    for_each_flow(capture, [&](size_t row, uint64_t id) {
      ends[id] |= capture.kind[row] == EventKind::flow_begin ? 1u : 2u;
    });
    std::unordered_map<uint64_t, uint64_t> changed;
    for (const auto& [id, which] : ends)
      if (which == 3 && earlier_.count(id) != 0) changed.emplace(id, fresh());
    for (const auto& [id, which] : ends) earlier_.insert(id);
    return changed;
  }

 private:
  uint64_t fresh() {
    while (!used_.insert(--last_).second) {
    }
    return last_;
  }

  std::unordered_set<uint64_t> used_, earlier_;
  uint64_t last_ = uint64_t{1} << 53;  // below: exact as a double, as readers of JSON need it
};

// Position of each argument of a site that is a correlation.
inline std::vector<size_t> correlation_arguments(const SiteInfo& site) {
  std::vector<size_t> found;
  if ((site.mask & (category::runtime | category::device)) == 0) return found;
  for (size_t i = 0; i < site.arg_names.size(); ++i)
    if (site.arg_names[i] == "correlation" ||
        site.arg_names[i] == "wait_on_cuda_event_record_corr_id")
      found.push_back(i);
  return found;
}

// Sets the name of a process. One that executed another program has a part for each program, and
// the name of the last.
inline void name_process(Capture& all, int64_t pid, const std::string& name) {
  if (pid == all.pid) return;
  for (auto& known : all.process_names)
    if (known.first == pid) {
      known.second = name;
      return;
    }
  all.process_names.emplace_back(pid, name);
}

}  // namespace merging

// Returns the rows of all parts as one capture, part after part, which keeps rows grouped by track.
// Parts must be valid (validate_capture), and no two rows of a part may share payload words other
// than shared blocks; parts are only read. Track ids and correlations are renumbered, so that no
// two processes share one. Equal sites become one, except those of counters, which belong to a
// process. t0, pid, process name and node id are those of the first part; process_names gets the
// others'; t1 is the latest of all. Native stacks of processes other than the first are cancelled,
// because their addresses have no meaning here. Raises ValueError for no parts and for more rows or
// payload words than a capture can have. O(rows).
inline Capture merge_captures(const std::vector<CapturePart>& parts) {
  if (parts.empty()) raise<ValueError>("there are no captures to merge: pass at least one part");
  size_t rows = 0, words = 0;
  for (const CapturePart& part : parts) {
    rows += part.capture->size();
    words += part.capture->payload_words.size();
  }
  if (rows > static_cast<size_t>(INT32_MAX) || words >= kNoPayload)
    raise<ValueError>(
        "the processes recorded more than one capture can hold: " + std::to_string(rows) +
        " rows, " + std::to_string(words) + " words; merge fewer, or record a shorter time");
  Capture all;
  const Capture& first = *parts.front().capture;
  all.t0_ns = first.t0_ns + parts.front().shift_ns;
  all.t1_ns = all.t0_ns;
  all.pid = first.pid;
  all.node_id = first.node_id;
  all.process_name = parts.front().name.empty() ? first.process_name : parts.front().name;
  all.process_names = first.process_names;
  all.start_ns.reserve(rows);
  all.end_ns.reserve(rows);
  all.site.reserve(rows);
  all.track.reserve(rows);
  all.parent.reserve(rows);
  all.payload.reserve(rows);
  all.kind.reserve(rows);
  all.flags.reserve(rows);
  all.payload_words.reserve(words);
  const bool has_lines = std::any_of(parts.begin(), parts.end(), [](const CapturePart& part) {
    return !part.capture->call_line.empty();
  });
  std::unordered_map<std::string, uint32_t> known_sites;
  merging::FlowNumbers flows(parts);
  uint64_t next_track_id = 0;
  uint32_t last_correlation = 0;
  for (const CapturePart& part : parts) {
    const Capture& from = *part.capture;
    const bool other = part.capture != &first;
    const auto row_offset = static_cast<int32_t>(all.size());
    const auto track_offset = static_cast<uint32_t>(all.tracks.size());
    const auto word_offset = static_cast<uint32_t>(all.payload_words.size());
    const auto string_offset = static_cast<uint64_t>(all.strings.size());
    const uint64_t id_offset = other ? next_track_id : 0;

    // Each process numbers its calls from 1, so its numbers are shifted behind those before.
    const uint32_t correlation_offset = last_correlation;
    std::vector<std::vector<size_t>> correlations;  // by site

    std::vector<uint32_t> site_at;
    site_at.reserve(from.sites.size());
    for (const SiteInfo& site : from.sites) {
      correlations.push_back(merging::correlation_arguments(site));
      const auto fresh = static_cast<uint32_t>(all.sites.size());
      const uint32_t at = site.kind == EventKind::counter
                              ? fresh
                              : known_sites.emplace(merging::site_key(site), fresh).first->second;
      if (at == fresh) all.sites.push_back(site);
      site_at.push_back(at);
    }
    for (TrackInfo track : from.tracks) {
      const uint64_t id = track.id + id_offset;
      if (id > UINT32_MAX) raise<ValueError>("the processes have more than 2^32 threads");
      next_track_id = std::max(next_track_id, id + 1);
      track.id = static_cast<uint32_t>(id);
      if (track.is_task()) track.thread_id += static_cast<int64_t>(id_offset);
      if (track.is_device() && from.pid != all.pid && track.pid < kFirstForeignDevicePid)
        track.pid = device_pid_in(from.pid, track.pid);
      all.tracks.push_back(std::move(track));
    }
    all.strings.insert(all.strings.end(), from.strings.begin(), from.strings.end());
    for (const auto& [id, index] : from.python_stacks)
      all.python_stacks.emplace_back(id, static_cast<uint32_t>(index + string_offset));

    all.payload_words.insert(all.payload_words.end(), from.payload_words.begin(),
                             from.payload_words.end());
    uint64_t* const all_words = all.payload_words.data() + word_offset;
    // An invalid index stays invalid.
    const auto moved_text = [&](uint64_t index) {
      return index < from.strings.size() ? index + string_offset : UINT64_MAX;
    };
    const std::unordered_map<uint64_t, uint64_t> renumbered = flows.next_part(from);
    for (size_t row = 0; row < from.size(); ++row) {
      const SiteInfo& site = from.sites[from.site[row]];
      const uint8_t flags = from.flags[row];
      const int64_t end_ns = from.end_ns[row] + part.shift_ns;
      const bool open = is_any_range(site.kind) && (flags & event_flag::finished) == 0;
      all.start_ns.push_back(from.start_ns[row] + part.shift_ns);
      all.end_ns.push_back(open ? std::max(end_ns, part.open_until_ns) : end_ns);
      all.t1_ns = std::max(all.t1_ns, all.end_ns.back());
      all.site.push_back(site_at[from.site[row]]);
      all.track.push_back(from.track[row] + track_offset);
      all.parent.push_back(from.parent[row] < 0 ? kNoParent : from.parent[row] + row_offset);
      all.kind.push_back(from.kind[row]);
      all.flags.push_back(flags);
      if (has_lines) all.call_line.push_back(from.call_line.empty() ? 0 : from.call_line[row]);
      const uint32_t payload = from.payload[row];
      all.payload.push_back(payload == kNoPayload ? kNoPayload : payload + word_offset);
      if (payload == kNoPayload) continue;
      uint64_t* const at = all_words + payload;
      if (is_any_range(site.kind) || site.kind == EventKind::mark ||
          site.kind == EventKind::counter) {
        for (size_t i = 0; i < site.arg_types.size(); ++i)
          if (site.arg_types[i] == ArgType::string) at[i] = moved_text(at[i]);
        for (const size_t i : correlations[from.site[row]])
          if (at[i] != 0 && at[i] != UINT64_MAX) at[i] += correlation_offset;
      } else if (site.kind == EventKind::flow_begin || site.kind == EventKind::flow_end) {
        const auto changed = renumbered.find(*at);
        if (changed != renumbered.end()) *at = changed->second;
      }
      if ((flags & event_flag::detail) == 0) continue;
      const size_t needed = payload_words_of(site);
      for_each_block(
          at + needed, from.payload_words.size() - payload - needed,
          [&](DetailBlock block, uint64_t* contents) {
            if ((is_text(block.type) || block.type == DetailType::python_stack) &&
                block.count != 0) {
              contents[0] = moved_text(contents[0]);
            } else if (block.type == DetailType::op && block.count > 1 && contents[1] != 0) {
              contents[1] += id_offset;  // the forward thread
            } else if (block.type == DetailType::op_inputs_ref) {
              contents[-1] =
                  detail_block_word(block.type, block.count, block.reserved + word_offset);
            } else if (block.type == DetailType::cpp_stack && other) {
              contents[-1] = detail_block_word(DetailType::nothing, block.count);
            }
          });
    }
    for (size_t i = 0; i < from.cross_thread_end_row.size(); ++i) {
      all.cross_thread_end_row.push_back(from.cross_thread_end_row[i] +
                                         static_cast<uint32_t>(row_offset));
      all.cross_thread_end_track.push_back(from.cross_thread_end_track[i] + track_offset);
    }
    for (DeviceLink link : from.device_links) {
      link.row += static_cast<uint32_t>(row_offset);
      if (link.call >= 0) link.call += row_offset;
      if (link.range >= 0) link.range += row_offset;
      if (link.correlation != 0) link.correlation += correlation_offset;
      last_correlation = std::max(last_correlation, link.correlation);
      all.device_links.push_back(link);
    }
    if (all.counter_names.empty()) all.counter_names = from.counter_names;
    if (other) {
      for (const auto& [pid, name] : from.process_names) merging::name_process(all, pid, name);
      merging::name_process(all, from.pid, part.name.empty() ? from.process_name : part.name);
    }
    all.t1_ns = std::max(all.t1_ns, from.t1_ns + part.shift_ns);
    all.clock_error_ns = std::max(all.clock_error_ns, from.clock_error_ns);
    all.exact_stop = all.exact_stop && from.exact_stop;
    all.clamped += from.clamped;
    for (size_t i = 0; i < kMaxDropCauses; ++i) all.dropped[i] += from.dropped[i];
  }
  return all;
}

FASTPROF_NAMESPACE_END
