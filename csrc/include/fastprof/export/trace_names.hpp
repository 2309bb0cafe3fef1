// SPDX-License-Identifier: Apache-2.0
// What traces list and name in the same way whatever their format: processes, devices and sites.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/capture.hpp"

FASTPROF_NAMESPACE_BEGIN

// Pids of the processes whose threads have tracks; the capture's own comes first.
inline std::vector<int64_t> processes_of(const Capture& capture) {
  std::vector<int64_t> pids = {capture.pid};
  for (const TrackInfo& track : capture.tracks)
    if (!track.is_device() && std::find(pids.begin(), pids.end(), track.pid) == pids.end())
      pids.push_back(track.pid);
  return pids;
}

// Returns the first track of each device, in the order of the tracks. A device's pid identifies it.
inline std::vector<const TrackInfo*> devices_of(const Capture& capture) {
  std::vector<const TrackInfo*> devices;
  for (const TrackInfo& track : capture.tracks)
    if (track.is_device() &&
        std::find_if(devices.begin(), devices.end(), [&track](const TrackInfo* known) {
          return known->pid == track.pid;
        }) == devices.end())
      devices.push_back(&track);
  return devices;
}

// "GPU 0", as in Kineto's traces; "npu 0" for a device of a plug-in.
inline std::string device_name(const TrackInfo& track) {
  return (track.device_kind.empty() ? "GPU" : track.device_kind) + " " +
         std::to_string(track.device_index);
}

// Name and category of a site's events in traces.
struct ShownSite {
  std::string_view name;
  std::string_view category;
};

// Returns the site's own, or for reports of allocators those of Kineto. Valid while the site
// exists.
inline ShownSite shown_site(const SiteInfo& site) noexcept {
  if (site.kind == EventKind::memory) return {"[memory]", "cpu_instant_event"};
  if (site.kind == EventKind::out_of_memory) return {"[OutOfMemory]", "cpu_instant_event"};
  return {site.name, site.category};
}

FASTPROF_NAMESPACE_END
