// SPDX-License-Identifier: Apache-2.0
// Activities: what a device and its runtime did while a session recorded. A backend collects them
// and hands them to Session::add_activities(); the stop gives them rows beside those of threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/capture/capture.hpp"

FASTPROF_NAMESPACE_BEGIN

// Where an activity took place.
struct ActivityPlace {
  // Index of the device if this is one of its queues (a CUDA stream); -1 for a thread of this
  // process, whose calls of the runtime are recorded.
  int32_t device_index = -1;
  int64_t id = 0;    // kernel's id of the thread, or number of the queue
  std::string name;  // of the queue; a thread has its name from the recorder
  // Kind of the device, as TrackInfo::device_kind.
  std::string device_kind;
};

// One activity. Stamps are ticks of the recorder's clock (ticks()).
struct Activity {
  uint64_t begin = 0;
  uint64_t end = 0;  // >= begin; equal for activities without a duration
  // Joins the call of a runtime and the work on a device that it started; 0: none. Unique within
  // Activities for calls; a call may have started any number of works.
  uint32_t correlation = 0;
  uint32_t site = 0;   // index into Activities::sites
  uint32_t place = 0;  // index into Activities::places
  // JSON object with further arguments, as index into Activities::texts; kNoPayload: none. For
  // arguments that many activities share, such as the configuration of a launch.
  uint32_t text = kNoPayload;
  uint64_t words = 0;  // index in Activities::words of its first argument
};

// Activities and what they refer to. Sites are ranges whose mask is category::runtime (calls, on
// places that are threads) or category::device (work, on queues); their device_type and
// device_index say of which device. Ranges that the program has told the device's tool are on
// threads with category::user, and may be async ranges. The arguments of an activity are one word
// each, typed by its site.
struct Activities {
  std::vector<Activity> rows;
  std::vector<SiteInfo> sites;
  std::vector<ActivityPlace> places;
  std::vector<uint64_t> words;
  std::vector<std::string> texts;
  uint64_t dropped = 0;  // activities that are missing because the device's buffers were full
  // Whether each user range gets a row on each queue that ran work launched within it, from the
  // first begin to the last end of that work (gpu_user_annotation).
  bool annotates = false;
};

// Throws ValueError, naming the activity, if an index is out of range, a stamp is zero or beyond
// 2^63, or a site is of another category than its place.
inline void check_activities(const Activities& given) {
  const auto wrong = [](size_t row, const char* what) {
    raise<ValueError>("activity " + std::to_string(row) + ": " + what);
  };
  for (size_t i = 0; i < given.rows.size(); ++i) {
    const Activity& row = given.rows[i];
    if (row.site >= given.sites.size()) wrong(i, "its site must be an index into sites");
    if (row.place >= given.places.size()) wrong(i, "its place must be an index into places");
    const SiteInfo& site = given.sites[row.site];
    const bool on_device = given.places[row.place].device_index >= 0;
    const bool is_reported = !on_device && site.mask == category::user;
    if ((site.kind != EventKind::range && !(is_reported && site.kind == EventKind::async_range)) ||
        (!is_reported && site.mask != (on_device ? category::device : category::runtime)))
      wrong(i,
            "its site must be a range of category::runtime on a thread, of category::device on a "
            "queue; or one of category::user on a thread, which may be async");
    if (row.begin == 0 || (row.begin | row.end) >> 63 != 0)
      wrong(i, "its stamps must be ticks of the recorder, from 1 to 2^63 - 1");
    if (row.text != kNoPayload && row.text >= given.texts.size())
      wrong(i, "its text must be an index into texts, or kNoPayload");
    const size_t arguments = site.arg_types.size();
    if (arguments > given.words.size() || row.words > given.words.size() - arguments ||
        site.arg_names.size() != site.arg_types.size())
      wrong(i, "its words must hold one word for each argument of its site, each with a name");
    for (const ArgType type : site.arg_types)
      if (type == ArgType::string)
        wrong(i, "an argument must not be a string: pass it in its text");
  }
}

// Activities that a session has accepted.
struct PlacedActivities {
  Activities from;
  std::vector<uint32_t> track_ids;  // by place: id for a new track, if the place has none yet
};

FASTPROF_NAMESPACE_END
