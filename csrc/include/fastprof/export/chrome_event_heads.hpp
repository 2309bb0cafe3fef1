// SPDX-License-Identifier: Apache-2.0
// ChromeEventHeads: the beginnings of Chrome trace events, up to the time: what is the same for all
// events of a site or of a lane is formatted once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/json_escape.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/export/byte_buffer.hpp"
#include "fastprof/export/decimal.hpp"
#include "fastprof/export/trace_names.hpp"
#include "fastprof/export/track_layout.hpp"

FASTPROF_NAMESPACE_BEGIN

// Of one file. The capture must be validated.
class ChromeEventHeads {
 public:
  // Room behind the write position that begin() returns, in bytes.
  static constexpr size_t kTail = 256;

  // Formats `,\n{"ph":PH,"cat":C,"name":N` by site and `,"pid":P,"tid":T,"ts":` by lane. base_ns:
  // origin of all "ts", in Unix nanoseconds.
  ChromeEventHeads(const Capture& capture, const TrackLayout& layout, ByteBuffer& out,
                   int64_t base_ns)
      : capture_(capture), layout_(layout), out_(out), base_ns_(base_ns) {
    for (const SiteInfo& site : capture.sites) {
      const ShownSite shown = shown_site(site);
      std::string text = ",\n{";
      switch (site.kind) {
        case EventKind::range:
        case EventKind::async_range:
          text += "\"ph\":\"X\"";
          break;
        case EventKind::counter:
          text += "\"ph\":\"C\"";
          break;
        case EventKind::flow_begin:
          text += "\"ph\":\"s\"";
          break;
        case EventKind::flow_end:
          text += "\"ph\":\"f\",\"bp\":\"e\"";
          break;
        case EventKind::memory:
        case EventKind::out_of_memory:
          text += "\"ph\":\"i\",\"s\":\"t\"";
          break;
        case EventKind::mark:
        case EventKind::session_membership:
          text += "\"ph\":\"i\",\"s\":\"t\"";
          break;
      }
      text += ",\"cat\":";
      append_json_string(text, shown.category);
      text += ",\"name\":";
      append_json_string(text, shown.name);
      site_texts_.emplace_back(text);
    }
    for (const TraceLane& lane : layout.lanes()) {
      lane_texts_.emplace_back(",\"pid\":" + std::to_string(capture.tracks[lane.track].pid) +
                               ",\"tid\":" + std::to_string(lane.tid) + ",\"ts\":");
    }
  }

  // The beginning of a row's event.
  FASTPROF_ALWAYS_INLINE char* begin(size_t row) {
    return begin(row, site_texts_[capture_.site[row]]);
  }
  // Writes `site` (a text such as those by site), the row's lane and its time. Returns the write
  // position.
  FASTPROF_ALWAYS_INLINE char* begin(size_t row, const ByteBlock& site) {
    const ByteBlock& lane = lane_texts_[layout_.lane_of(row)];
    if (FASTPROF_LIKELY(site.size() + lane.size() + kTail + 32 <= ByteBuffer::kMinRoom)) {
      char* at = out_.room(ByteBuffer::kMinRoom);
      at = lane.copy(site.copy(at));
      return time_.put(at, capture_.start_ns[row] - base_ns_);
    }
    return begin_long(row, site, lane);
  }

 private:
  // Formats timestamps. Most share all but their last digits, so the text of the milliseconds is
  // cached.
  class TimeText {
   public:
    FASTPROF_ALWAYS_INLINE char* put(char* out, int64_t ns) noexcept {
      const int64_t ms = ns / 1000000;
      if (FASTPROF_UNLIKELY(ms != ms_)) {
        if (ms <= 0) return put_microseconds(out, ns);
        ms_ = ms;
        size_ = static_cast<size_t>(put_decimal(text_, static_cast<uint64_t>(ms)) - text_);
      }
      std::memcpy(out, text_, 16);
      const auto rest = static_cast<uint32_t>(ns - ms * 1000000);
      out = put_three(out + size_, rest / 1000);
      *out = '.';
      return put_three(out + 1, rest % 1000);
    }

   private:
    int64_t ms_ = INT64_MIN;  // milliseconds in text_; values <= 0 are never cached
    size_t size_ = 0;
    char text_[32] = {};
  };

  FASTPROF_NOINLINE char* begin_long(size_t row, const ByteBlock& site, const ByteBlock& lane) {
    scratch_.resize(site.size() + 16);
    site.copy(&scratch_[0]);
    out_.append(scratch_.data(), site.size());
    char* const at = lane.copy(out_.room(ByteBuffer::kMinRoom));
    return time_.put(at, capture_.start_ns[row] - base_ns_);
  }

  const Capture& capture_;
  const TrackLayout& layout_;
  ByteBuffer& out_;
  const int64_t base_ns_;
  TimeText time_;
  std::vector<ByteBlock> site_texts_;
  std::vector<ByteBlock> lane_texts_;
  std::string scratch_;
};

FASTPROF_NAMESPACE_END
