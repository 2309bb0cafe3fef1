// SPDX-License-Identifier: Apache-2.0
// Conversion of timed ranges to Activities: see timed_ranges.hpp.
#include "backends/cuda/timed_ranges.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "backends/cuda/queue_names.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/leader/attach.hpp"
#include "fastprof/primitives/device.hpp"
#include "fastprof/recorder/hot_path/thread.hpp"
#include "fastprof/recorder/state/ticks.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cuda {
namespace {

constexpr auto kCuda = static_cast<int16_t>(DeviceType::CUDA);

// An event of a device, with the recorder's time at which it had completed.
struct Anchor {
  std::shared_ptr<RecordedEvent> event;
  uint64_t ticks;
};
using Anchors = std::map<int, Anchor>;  // by device

// Returns an anchor for each device of the ranges. The anchor of a device that failed has no event.
// Restores the current device.
Anchors anchors_of(EventPool& pool, const std::vector<std::shared_ptr<const TimedRange>>& ranges) {
  const EventRuntime& runtime = pool.runtime();
  Anchors anchors;
  int before = 0;
  if (ranges.empty() || runtime.get_device(&before) != kSuccess) return anchors;
  for (const auto& range : ranges) anchors.emplace(range->begin->device, Anchor{});
  for (auto& [device, anchor] : anchors) {
    if (runtime.set_device(device) != kSuccess || runtime.device_synchronize() != kSuccess)
      continue;
    int recorded_on = -1;
    anchor.event = pool.record(&recorded_on);
    if (anchor.event != nullptr && runtime.event_synchronize(anchor.event->event) != kSuccess)
      anchor.event = nullptr;
    anchor.ticks = ticks(state());
  }
  runtime.set_device(before);
  return anchors;
}

// A range on the time axis of its device, in ticks of the recorder.
struct PlacedRange {
  const TimedRange* range;
  double begin, end;
  double covered;  // end of the part that already has rows
  uint32_t correlation, place, site;
};

class RowMaker {
 public:
  RowMaker(EventPool& pool, const Anchors& anchors, double ticks_per_us,
           const devices::QueueNames& names)
      : pool_(pool), anchors_(anchors), ticks_per_us_(ticks_per_us), names_(names) {
    SiteInfo call;
    const RuntimeVendor& vendor = *pool.runtime().vendor;
    call.name = std::string(vendor.prefix) + "EventRecord";
    call.category = "cuda_runtime";
    call.kind = EventKind::range;
    call.mask = category::runtime;
    call.arg_names = {"cbid", "correlation"};
    call.arg_types = {ArgType::int64, ArgType::int64};
    found_.sites.push_back(std::move(call));
    found_.texts.push_back("{\"timed by\":\"" + std::string(vendor.backend) + "\"}");
  }

  // Adds ranges of one thread and queue, outer ranges before inner ones.
  void add(const std::vector<const TimedRange*>& ranges, std::vector<std::string>& problems) {
    std::vector<PlacedRange> open;
    const RecordedEvent* base = nullptr;  // the outermost range's begin: elapsed times are floats,
                                          // exact for short distances
    double base_ticks = 0;
    for (const TimedRange* range : ranges) {
      try {
        if (open.empty() || !is_inside(*range, open.front())) {
          close_all(open);
          base = range->begin.get();
          base_ticks = device_ticks(*range);
        }
        PlacedRange placed{};
        placed.range = range;
        placed.begin = base_ticks + pool_.elapsed_us(*base, *range->begin) * ticks_per_us_;
        placed.end = base_ticks + pool_.elapsed_us(*base, *range->end) * ticks_per_us_;
        while (!open.empty() && !is_inside(*range, open.back())) close(open);
        begin(placed, open.empty() ? nullptr : &open.back());
        open.push_back(placed);
      } catch (const Error& error) {
        ++found_.dropped;
        if (problems.empty() || problems.back() != error.what()) problems.push_back(error.what());
      }
    }
    close_all(open);
  }

  Activities take() { return std::move(found_); }

 private:
  // Ends are numbered in the order in which they were recorded, so an inner range's number is
  // smaller.
  static bool is_inside(const TimedRange& range, const PlacedRange& outer) {
    return range.end_order < outer.range->end_order;
  }

  // Returns the device's begin of a range in ticks; without an anchor, the time at which the begin
  // was recorded.
  double device_ticks(const TimedRange& range) const {
    const auto at = anchors_.find(range.begin->device);
    if (at == anchors_.end() || at->second.event == nullptr)
      return static_cast<double>(range.begin_ticks);
    // Not before it was recorded: the distance to the anchor is exact to 0.5 us only.
    return std::max(static_cast<double>(at->second.ticks) -
                        pool_.elapsed_us(*range.begin, *at->second.event) * ticks_per_us_,
                    static_cast<double>(range.begin_ticks) + 2);
  }

  void begin(PlacedRange& placed, PlacedRange* outer) {
    if (outer != nullptr) add_row(*outer, outer->covered, placed.begin);
    placed.covered = placed.begin;
    placed.correlation = ++last_correlation_;
    placed.place = place_of_queue(*placed.range->begin);
    placed.site = site_of(placed.range->name, placed.range->begin->device);
    // A call inside the range links its rows to the range, as a launch does.
    Activity call;
    call.begin = call.end = placed.range->begin_ticks + 1;
    call.correlation = placed.correlation;
    call.site = 0;
    call.place = place_of_thread(placed.range->thread);
    call.words = found_.words.size();
    found_.words.push_back(0);
    found_.words.push_back(placed.correlation);
    found_.rows.push_back(call);
  }

  void close(std::vector<PlacedRange>& open) {
    const PlacedRange placed = open.back();
    open.pop_back();
    add_row(placed, placed.covered, placed.end);
    if (!open.empty()) open.back().covered = std::max(open.back().covered, placed.end);
  }
  void close_all(std::vector<PlacedRange>& open) {
    while (!open.empty()) close(open);
  }

  void add_row(const PlacedRange& placed, double begin, double end) {
    if (begin < 1) begin = 1;
    if (end - begin < 1) return;
    Activity row;
    row.begin = static_cast<uint64_t>(begin);
    row.end = static_cast<uint64_t>(end);
    row.correlation = placed.correlation;
    row.site = placed.site;
    row.place = placed.place;
    row.text = 0;
    row.words = found_.words.size();
    for (const int64_t word : {int64_t{placed.range->begin->device}, int64_t{0},
                               found_.places[placed.place].id, int64_t{placed.correlation}})
      found_.words.push_back(static_cast<uint64_t>(word));
    found_.rows.push_back(row);
  }

  uint32_t place_of_queue(const RecordedEvent& event) {
    const auto [at, fresh] = queues_.try_emplace(std::make_pair(event.device, event.stream),
                                                 static_cast<uint32_t>(found_.places.size()));
    if (!fresh) return at->second;
    ActivityPlace place;
    place.device_index = event.device;
    // Events identify streams by handle; they are numbered in order of appearance.
    place.id = static_cast<int64_t>(++streams_[event.device]);
    place.name = "stream " + std::to_string(place.id) + " (by events)" +
                 names_.of_handle(event.device, event.stream);
    found_.places.push_back(std::move(place));
    return at->second;
  }
  uint32_t place_of_thread(uint32_t thread) {
    const auto [at, fresh] =
        threads_.try_emplace(thread, static_cast<uint32_t>(found_.places.size()));
    if (!fresh) return at->second;
    ActivityPlace place;
    place.id = thread;
    found_.places.push_back(std::move(place));
    return at->second;
  }
  uint32_t site_of(const std::string& name, int device) {
    const auto [at, fresh] = sites_.try_emplace(std::make_pair(name, device),
                                                static_cast<uint32_t>(found_.sites.size()));
    if (!fresh) return at->second;
    SiteInfo site;
    site.name = name;
    site.category = "kernel";
    site.kind = EventKind::range;
    site.mask = category::device;
    site.device_type = kCuda;
    site.device_index = static_cast<int16_t>(device);
    site.arg_names = {"device", "context", "stream", "correlation"};
    site.arg_types.assign(4, ArgType::int64);
    found_.sites.push_back(std::move(site));
    return at->second;
  }

  EventPool& pool_;
  const Anchors& anchors_;
  const double ticks_per_us_;
  const devices::QueueNames& names_;
  Activities found_;
  uint32_t last_correlation_ = 0;
  std::map<std::pair<int, Stream>, uint32_t> queues_;
  std::map<int, int> streams_;
  std::map<uint32_t, uint32_t> threads_;
  std::map<std::pair<std::string, int>, uint32_t> sites_;
};

}  // namespace

Activities activities_of(EventPool& pool,
                         const std::vector<std::shared_ptr<const TimedRange>>& ranges,
                         double ticks_per_us, std::vector<std::string>& problems) {
  std::map<std::tuple<uint32_t, int, Stream>, std::vector<const TimedRange*>> groups;
  for (const auto& range : ranges)
    groups[{range->thread, range->begin->device, range->begin->stream}].push_back(range.get());
  const Anchors anchors = anchors_of(pool, ranges);
  const devices::QueueNames names(problems);
  RowMaker maker(pool, anchors, ticks_per_us, names);
  for (auto& [group, members] : groups) {
    std::sort(members.begin(), members.end(), [](const TimedRange* a, const TimedRange* b) {
      return a->begin_ticks < b->begin_ticks;
    });
    maker.add(members, problems);
  }
  return maker.take();
}

}  // namespace cuda
FASTPROF_NAMESPACE_END
