// SPDX-License-Identifier: Apache-2.0
// Hand-made captures for tests: rows are added in begin order, track by track; parents come from
// the tree kernel.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/capture/capture.hpp"
#include "fastprof/capture/nesting.hpp"
#include "fastprof/capture/validate.hpp"

// Unnamed: a class with default visibility may not hold one of fastprof's hidden types without a
// warning.
namespace fastprof_test {
namespace {

inline uint64_t word_of(double value) {
  uint64_t word;
  std::memcpy(&word, &value, sizeof word);
  return word;
}

class CaptureBuilder {
 public:
  explicit CaptureBuilder(int64_t t0_ns = 1'700'000'000'000'000'000,
                          int64_t window_ns = 1'000'000'000) {
    capture.t0_ns = t0_ns;
    capture.t1_ns = t0_ns + window_ns;
    capture.pid = 4242;
    capture.process_name = "trainer";
  }

  uint32_t site(std::string name, fastprof::EventKind kind = fastprof::EventKind::range,
                std::string category = "user_annotation",
                std::vector<std::pair<std::string, fastprof::ArgType>> args = {}) {
    fastprof::SiteInfo info;
    info.name = std::move(name);
    info.category = std::move(category);
    info.kind = kind;
    info.file = "train.cpp";
    info.function = "train";
    info.line = 40 + static_cast<uint32_t>(capture.sites.size());
    for (auto& arg : args) {
      info.arg_names.push_back(arg.first);
      info.arg_types.push_back(arg.second);
    }
    capture.sites.push_back(info);
    return static_cast<uint32_t>(capture.sites.size() - 1);
  }

  uint32_t track(int64_t tid, std::string name) {
    fastprof::TrackInfo info;
    info.id = static_cast<uint32_t>(capture.tracks.size() + 1);
    info.pid = capture.pid;
    info.tid = tid;
    info.name = std::move(name);
    capture.tracks.push_back(info);
    return static_cast<uint32_t>(capture.tracks.size() - 1);
  }

  uint64_t string(std::string text) {
    capture.strings.push_back(std::move(text));
    return capture.strings.size() - 1;
  }

  // A row [start, end) in nanoseconds after t0, on the track made last. end < 0: unfinished.
  // Returns its number.
  size_t row(uint32_t site, int64_t start, int64_t end, const std::vector<uint64_t>& words = {},
             uint8_t flags = 0) {
    const bool finished = end >= 0;
    capture.start_ns.push_back(capture.t0_ns + start);
    capture.end_ns.push_back(finished ? capture.t0_ns + end : capture.t1_ns);
    capture.site.push_back(site);
    capture.track.push_back(static_cast<uint32_t>(capture.tracks.size() - 1));
    capture.parent.push_back(fastprof::kNoParent);
    capture.payload.push_back(words.empty() ? fastprof::kNoPayload
                                            : static_cast<uint32_t>(capture.payload_words.size()));
    capture.payload_words.insert(capture.payload_words.end(), words.begin(), words.end());
    capture.kind.push_back(capture.sites[site].kind);
    capture.flags.push_back(
        static_cast<uint8_t>(flags | (finished ? fastprof::event_flag::finished : 0)));
    return capture.size() - 1;
  }
  size_t instant(uint32_t site, int64_t at, const std::vector<uint64_t>& words = {}) {
    return row(site, at, at, words);
  }

  // Marks a row as ended on another track.
  void ended_on(size_t row, uint32_t track) {
    capture.flags[row] |= fastprof::event_flag::cross_thread_end;
    capture.cross_thread_end_row.push_back(static_cast<uint32_t>(row));
    capture.cross_thread_end_track.push_back(track);
  }

  // Computes the parents as the drain does, and returns the capture.
  fastprof::Capture& finish() {
    fastprof::NestingWalk<int64_t> walk;
    for (size_t row = 0; row < capture.size(); ++row) {
      if (row == 0 || capture.track[row] != capture.track[row - 1]) walk.reset();
      const bool open = (capture.flags[row] & fastprof::event_flag::finished) == 0;
      capture.parent[row] =
          fastprof::is_nesting_range(capture, row)
              ? walk.enter(static_cast<int32_t>(row), capture.start_ns[row],
                           open ? fastprof::kOpenEnd<int64_t> : capture.end_ns[row])
              : walk.at(capture.start_ns[row]);
    }
    return capture;
  }

  fastprof::Capture capture;
};

}  // namespace
}  // namespace fastprof_test
