// SPDX-License-Identifier: Apache-2.0
// State that packets of a Perfetto trace refer to: sequences, tracks and clocks. The caller reads
// the packets that change it and updates it here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/trace_proto/annotation_text.hpp"
#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace trace_proto {

// Destination of a track's rows: its stack of slices, and its track in the table.
struct Place {
  uint32_t stack = 0, track = 0;
  bool is_known = false;
};

enum class TextKind : uint8_t {
  category = 0,
  event_name = 1,
  annotation_name = 2,
  annotation_text = 3,
};
constexpr int kTextKinds = 4;

struct SequenceState final : InternedTexts {
  bool is_valid = false;    // the incremental state was cleared and no packet has been lost since
  uint64_t clock = 0;       // default clock of timestamps
  uint64_t track_uuid = 0;  // default track of events; 0: none
  Place place;              // of events without any track uuid
  std::unordered_map<uint64_t, std::string> texts[kTextKinds];  // JSON strings
  std::unordered_map<uint64_t, uint32_t> locations;             // numbers given by the caller

  std::string_view text(TextKind kind, uint64_t iid) const {
    const auto& known = texts[static_cast<int>(kind)];
    const auto found = known.find(iid);
    return found == known.end() ? std::string_view() : std::string_view(found->second);
  }
  std::string_view annotation_name(uint64_t iid) const override {
    return text(TextKind::annotation_name, iid);
  }
  std::string_view annotation_text(uint64_t iid) const override {
    return text(TextKind::annotation_text, iid);
  }
  void forget_texts() {
    for (auto& known : texts) known.clear();
    locations.clear();
  }
};

// A track whose counter is neither incremental nor has a unit.
struct CounterTrack {
  std::string name;  // JSON
  uint32_t track;    // of the table
};

// Conversion of a clock's timestamps to the trace's clock, valid in [first_ns, end_ns).
struct ClockState {
  int64_t unit_ns = 1;
  bool is_incremental = false;
  int64_t last_ns = 0;
  int64_t first_ns = 0, end_ns = 0, offset_ns = 0;

  // Converts a timestamp. Returns false if its time is outside the valid interval; otherwise
  // advances an incremental clock.
  bool convert(uint64_t timestamp, int64_t& time_ns) noexcept {
    int64_t own = static_cast<int64_t>(timestamp);
    if (__builtin_mul_overflow(own, unit_ns, &own)) return false;
    if (is_incremental && __builtin_add_overflow(own, last_ns, &own)) return false;
    if (own < first_ns || own >= end_ns || __builtin_add_overflow(own, offset_ns, &time_ns))
      return false;
    last_ns = own;
    return true;
  }
};

}  // namespace trace_proto
FASTPROF_NAMESPACE_END
