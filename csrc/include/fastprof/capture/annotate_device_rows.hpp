// SPDX-License-Identifier: Apache-2.0
// annotate_device_rows: projects user ranges onto the queues of devices, as rows of category
// gpu_user_annotation: from the first begin to the last end of the work that was launched in a
// range.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/capture.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace device_rows {

// The part of a user range that one queue ran.
struct Annotation {
  int32_t range;  // row of the user range
  uint32_t track;
  int16_t device_type;  // of the work
  int64_t start_ns, end_ns;
};

class Annotator {
 public:
  explicit Annotator(Capture& capture) : capture_(capture) {}

  void run() {
    collect();
    if (found_.empty()) return;
    extend_outer_ranges();
    std::sort(found_.begin(), found_.end(), [](const Annotation& a, const Annotation& b) {
      if (a.track != b.track) return a.track < b.track;
      if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
      if (a.end_ns != b.end_ns) return a.end_ns > b.end_ns;
      return a.range < b.range;  // the outer one first
    });
    insert();
  }

 private:
  bool is_user_range(size_t row) const {
    return capture_.kind[row] == EventKind::range &&
           (capture_.sites[capture_.site[row]].mask & category::user) != 0;
  }

  // The innermost user range that a row lies in or is; -1: none.
  int32_t user_range_of(int32_t row) const {
    while (row >= 0 && !is_user_range(static_cast<size_t>(row)))
      row = capture_.parent[static_cast<size_t>(row)];
    return row;
  }

  void extend(int32_t range, uint32_t track, int16_t device_type, int64_t start_ns,
              int64_t end_ns) {
    const uint64_t key = uint64_t{static_cast<uint32_t>(range)} << 32 | track;
    if (key != last_key_) {  // launches of a range mostly follow each other
      const auto [at, fresh] = index_.try_emplace(key, found_.size());
      if (fresh) found_.push_back({range, track, device_type, start_ns, end_ns});
      last_key_ = key;
      last_ = at->second;
    }
    Annotation& annotation = found_[last_];
    annotation.start_ns = std::min(annotation.start_ns, start_ns);
    annotation.end_ns = std::max(annotation.end_ns, end_ns);
  }

  // Finds the sites of a queue's work: kernels, copies and fills, but not waits and allocations.
  void find_work_sites() {
    for (const SiteInfo& site : capture_.sites)
      is_work_.push_back(site.category == "kernel" || site.category == "gpu_memcpy" ||
                         site.category == "gpu_memset");
  }

  // Makes an annotation of each innermost user range and queue with work launched in it.
  void collect() {
    find_work_sites();
    int32_t launching = -1, user = -1;
    for (const DeviceLink& link : capture_.device_links) {
      const uint32_t track = capture_.track[link.row];
      if (link.range < 0 || link.call < 0 || !capture_.tracks[track].is_device()) continue;
      if (!is_work_[capture_.site[link.row]]) continue;
      if (link.range != launching) {
        launching = link.range;
        user = user_range_of(launching);
      }
      if (user >= 0)
        extend(user, track, capture_.sites[capture_.site[link.row]].device_type,
               capture_.start_ns[link.row], capture_.end_ns[link.row]);
    }
  }

  // Extends the annotations of enclosing user ranges by those of the ranges inside. By descending
  // row: an inner range has a larger row than those around it.
  void extend_outer_ranges() {
    std::vector<std::pair<int32_t, size_t>> order;
    order.reserve(found_.size());
    for (size_t i = 0; i < found_.size(); ++i) order.emplace_back(found_[i].range, i);
    std::make_heap(order.begin(), order.end());
    while (!order.empty()) {
      std::pop_heap(order.begin(), order.end());
      const Annotation inner = found_[order.back().second];
      order.pop_back();
      const int32_t outer = user_range_of(capture_.parent[static_cast<size_t>(inner.range)]);
      if (outer < 0) continue;
      const size_t before = found_.size();
      extend(outer, inner.track, inner.device_type, inner.start_ns, inner.end_ns);
      if (found_.size() == before) continue;
      order.emplace_back(outer, before);
      std::push_heap(order.begin(), order.end());
    }
  }

  uint32_t site_of(const Annotation& annotation) {
    const int16_t device = static_cast<int16_t>(capture_.tracks[annotation.track].device_index);
    const uint32_t of_range = capture_.site[static_cast<size_t>(annotation.range)];
    const auto [at, fresh] =
        sites_.try_emplace(uint64_t{of_range} << 16 | static_cast<uint16_t>(device),
                           static_cast<uint32_t>(capture_.sites.size()));
    if (fresh) {
      SiteInfo site;
      site.name = capture_.sites[of_range].name;
      site.category = "gpu_user_annotation";
      site.kind = EventKind::range;
      site.mask = category::device;
      site.scope = RecordScope::USER_SCOPE;
      site.device_type = annotation.device_type;
      site.device_index = device;
      capture_.sites.push_back(std::move(site));
    }
    return at->second;
  }

  // Moves rows up to make room and writes the annotations: each before the first row of its track
  // that does not begin earlier.
  void insert() {
    const size_t count = found_.size(), size = capture_.size();
    std::vector<size_t> before(count);  // row that each one precedes
    std::vector<size_t> track_begin(capture_.tracks.size() + 1, size);
    for (size_t row = size; row-- > 0;) track_begin[capture_.track[row]] = row;
    for (size_t track = capture_.tracks.size(); track-- > 0;)
      track_begin[track] = std::min(track_begin[track], track_begin[track + 1]);
    for (size_t i = 0; i < count; ++i) {
      const auto rows = capture_.start_ns.begin();
      const auto first = rows + static_cast<int64_t>(track_begin[found_[i].track]);
      const auto last = rows + static_cast<int64_t>(track_begin[found_[i].track + 1]);
      before[i] = static_cast<size_t>(std::lower_bound(first, last, found_[i].start_ns) - rows);
    }
    const auto open_up = [&](auto& column) {
      column.resize(size + count);
      size_t end = size;
      for (size_t i = count; i-- > 0;) {
        std::move_backward(column.begin() + static_cast<int64_t>(before[i]),
                           column.begin() + static_cast<int64_t>(end),
                           column.begin() + static_cast<int64_t>(end + i + 1));
        end = before[i];
      }
    };
    open_up(capture_.start_ns);
    open_up(capture_.end_ns);
    open_up(capture_.site);
    open_up(capture_.track);
    open_up(capture_.parent);
    open_up(capture_.payload);
    open_up(capture_.kind);
    open_up(capture_.flags);
    if (!capture_.call_line.empty()) open_up(capture_.call_line);
    std::vector<DeviceLink> links;
    links.reserve(capture_.device_links.size() + count);
    size_t next = 0;
    const auto add_annotation = [&](size_t i) {
      const size_t row = before[i] + i;
      const Annotation& annotation = found_[i];
      capture_.start_ns[row] = annotation.start_ns;
      capture_.end_ns[row] = annotation.end_ns;
      capture_.site[row] = site_of(annotation);
      capture_.track[row] = annotation.track;
      capture_.parent[row] = kNoParent;
      capture_.payload[row] = kNoPayload;
      capture_.kind[row] = EventKind::range;
      capture_.flags[row] = event_flag::finished;
      if (!capture_.call_line.empty()) capture_.call_line[row] = 0;
      links.push_back({static_cast<uint32_t>(row), -1, annotation.range, 0});
    };
    for (DeviceLink link : capture_.device_links) {
      for (; next < count && before[next] <= link.row; ++next) add_annotation(next);
      link.row += static_cast<uint32_t>(next);  // those of devices alone: they come last
      links.push_back(link);
    }
    for (; next < count; ++next) add_annotation(next);
    capture_.device_links = std::move(links);
  }

  Capture& capture_;
  std::vector<bool> is_work_;  // by site
  std::vector<Annotation> found_;
  std::unordered_map<uint64_t, size_t> index_;    // range and track -> index in found_
  std::unordered_map<uint64_t, uint32_t> sites_;  // site of the range and device -> own site
  uint64_t last_key_ = ~uint64_t{0};
  size_t last_ = 0;
};

}  // namespace device_rows

// Adds the rows. Requires device_links, and all tracks of devices behind those of threads: rows of
// threads keep their numbers. A range has a row on each queue that ran work of its own or of a
// range inside (Kineto: of its own alone).
inline void annotate_device_rows(Capture& capture) {
  device_rows::Annotator(capture).run();
}

FASTPROF_NAMESPACE_END
