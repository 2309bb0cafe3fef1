// SPDX-License-Identifier: Apache-2.0
// Activity rows: puts what devices did (activities.hpp) among the rows of a drain.
//
// A call of the runtime has stamps of the same clock as ranges, on a thread that is known, so that
// it nests among them like a range (link_device_rows.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/stable_order.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/capture/correlation_index.hpp"
#include "fastprof/capture/link_device_rows.hpp"
#include "fastprof/payload/blocks/detail_block.hpp"
#include "fastprof/session/activities.hpp"
#include "fastprof/session/drain.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace assembling {

// Adds activities to a drain's rows. Calls that began in the session belong to it, and the work
// that they started, even if it ended later. Work whose call is not known belongs to it if it began
// in the session; in a thread-local session it may be another thread's, and is left out.
class ActivityRows {
 public:
  ActivityRows(DrainedRows& drained, const Snapshot& snapshot)
      : drained_(drained), snapshot_(snapshot) {}

  // Adds the rows of one backend. track_ids: by place, for those that the drain has no track for.
  void add(const Activities& from, const std::vector<uint32_t>& track_ids) {
    if (from.rows.empty()) return;
    std::vector<uint32_t> site_index(from.sites.size(), UINT32_MAX);
    std::vector<size_t> correlation_at;  // by site
    for (const SiteInfo& site : from.sites)
      correlation_at.push_back(device_rows::correlation_argument(site));
    text_index_.assign(from.texts.size(), UINT32_MAX);
    const std::vector<uint8_t> kept = choose(from);
    std::vector<size_t> track_of(from.places.size(), SIZE_MAX);
    std::vector<size_t> rows_of(from.places.size());
    for (size_t i = 0; i < from.rows.size(); ++i) rows_of[from.rows[i].place] += kept[i];
    // Its arguments, and three words for a text.
    drained_.payload_words.reserve(drained_.payload_words.size() + from.words.size() +
                                   3 * from.rows.size());
    for (size_t i = 0; i < from.rows.size(); ++i) {
      if (!kept[i]) continue;
      const Activity& activity = from.rows[i];
      size_t& track = track_of[activity.place];
      if (track == SIZE_MAX) {
        track = track_of_place(from.places[activity.place], track_ids[activity.place]);
        const size_t most = drained_.tracks[track].size() + rows_of[activity.place];
        drained_.tracks[track].each_column([most](auto& column) { column.reserve(most); });
      }
      uint32_t& site = site_index[activity.site];
      if (site == UINT32_MAX) {
        site = static_cast<uint32_t>(drained_.table.sites.size());
        drained_.table.sites.push_back(from.sites[activity.site]);
      }
      TrackRows& rows = drained_.tracks[track];
      rows.add(activity.begin, std::max(activity.end, activity.begin), site,
               from.sites[activity.site].kind,
               add_payload(from, activity, correlation_at[activity.site]),
               activity.text == kNoPayload ? uint8_t{0} : event_flag::detail);
    }
    for (const Activity& activity : from.rows)
      highest_ = std::max(highest_, correlation_base_ + activity.correlation);
    correlation_base_ = highest_;
  }

 private:
  static bool is_call(const Activities& from, const Activity& activity) {
    return from.places[activity.place].device_index < 0;
  }

  // Returns by activity whether it belongs to the session.
  std::vector<uint8_t> choose(const Activities& from) const {
    const uint64_t t0 = snapshot_.t0, t1 = snapshot_.t1;
    std::vector<uint8_t> kept(from.rows.size());
    CorrelationIndex calls;  // of all calls -> 0 in the session, 1 outside
    for (size_t i = 0; i < from.rows.size(); ++i) {
      const Activity& activity = from.rows[i];
      if (!is_call(from, activity)) continue;
      const bool inside = activity.begin >= t0 && activity.begin < t1 &&
                          !(snapshot_.local && find_track(from.places[activity.place]) == SIZE_MAX);
      if (activity.correlation != 0) calls.add(activity.correlation, inside ? 0 : 1);
      kept[i] = inside && (from.sites[activity.site].mask & snapshot_.mask) != 0;
    }
    calls.finish();
    for (size_t i = 0; i < from.rows.size(); ++i) {
      const Activity& activity = from.rows[i];
      if (is_call(from, activity) || (from.sites[activity.site].mask & snapshot_.mask) == 0)
        continue;
      const uint32_t call =
          activity.correlation != 0 ? calls.find(activity.correlation) : CorrelationIndex::kNone;
      kept[i] = call != CorrelationIndex::kNone
                    ? call == 0
                    : !snapshot_.local && activity.begin >= t0 && activity.begin < t1;
    }
    return kept;
  }

  // Returns the index of the place's track, SIZE_MAX if it has none. Of several threads with the
  // same kernel id, the newest counts.
  size_t find_track(const ActivityPlace& place) const {
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < drained_.tracks.size(); ++i) {
      const TrackInfo& info = drained_.tracks[i].info;
      if (info.device_index != place.device_index || info.tid != place.id ||
          info.device_kind != place.device_kind)
        continue;
      if (found == SIZE_MAX || info.id > drained_.tracks[found].info.id) found = i;
    }
    return found;
  }

  // Returns the index of the place's track, which is made if it has none.
  size_t track_of_place(const ActivityPlace& place, uint32_t track_id) {
    const size_t known = find_track(place);
    if (known != SIZE_MAX) return known;
    TrackRows rows;
    rows.info.id = track_id;
    rows.info.tid = place.id;
    rows.info.name = place.name;
    rows.info.device_index = place.device_index;
    rows.info.device_kind = place.device_kind;
    rows.info.pid =
        place.device_index >= 0 ? pid_of_device(place) : static_cast<int64_t>(::getpid());
    drained_.tracks.push_back(std::move(rows));
    return drained_.tracks.size() - 1;
  }

  // Devices of different kinds with the same index are different processes in traces.
  int64_t pid_of_device(const ActivityPlace& place) {
    const auto known = std::find(device_kinds_.begin(), device_kinds_.end(), place.device_kind);
    const auto number = known - device_kinds_.begin();
    if (known == device_kinds_.end()) device_kinds_.push_back(place.device_kind);
    return 1000 * static_cast<int64_t>(number) + place.device_index;
  }

  // Appends an activity's arguments and text; returns their position. Backends number their calls
  // independently, but links are found by number in the whole capture, so the correlations of each
  // backend are shifted behind those of the backends before it.
  uint32_t add_payload(const Activities& from, const Activity& activity, size_t correlation_at) {
    Column<uint64_t>& words = drained_.payload_words;
    const size_t count = from.sites[activity.site].arg_types.size();
    if (count == 0 && activity.text == kNoPayload) return kNoPayload;
    const auto at = static_cast<uint32_t>(words.size());
    for (size_t i = 0; i < count; ++i) words.push_back(from.words[activity.words + i]);
    if (correlation_at < count && words[at + correlation_at] != 0)
      words[at + correlation_at] += correlation_base_;
    if (activity.text != kNoPayload) {
      words.push_back(2);  // DetailHeader: two words follow
      words.push_back(detail_block_word(DetailType::json, 1));
      words.push_back(text_index(from, activity.text));
    }
    return at;
  }

  uint32_t text_index(const Activities& from, uint32_t text) {
    uint32_t& index = text_index_[text];
    if (index == UINT32_MAX) {
      index = static_cast<uint32_t>(drained_.table.strings.size());
      drained_.table.strings.push_back(from.texts[text]);
    }
    return index;
  }

  DrainedRows& drained_;
  const Snapshot& snapshot_;
  std::vector<uint32_t> text_index_;
  uint32_t correlation_base_ = 0, highest_ = 0;
  std::vector<std::string> device_kinds_;  // that have tracks, in the order in which they came
};

}  // namespace assembling

FASTPROF_NAMESPACE_END
