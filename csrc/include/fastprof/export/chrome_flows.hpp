// SPDX-License-Identifier: Apache-2.0
// ChromeFlows: the arrows of a Chrome trace. Those of the program, those from forward ops to
// backward functions, and those from calls of a device's runtime to the work that they started.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "fastprof/base/config.hpp"
#include "fastprof/base/json_escape.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/export/byte_buffer.hpp"
#include "fastprof/export/chrome_event_heads.hpp"
#include "fastprof/export/decimal.hpp"
#include "fastprof/export/device_links.hpp"
#include "fastprof/export/forward_backward.hpp"

FASTPROF_NAMESPACE_BEGIN

// Of one file. Each function writes the end of an arrow at the begin of a row.
class ChromeFlows {
 public:
  ChromeFlows(const Capture& capture, const ForwardBackwardLinks& links,
              const DeviceLinks& device_links, ChromeEventHeads& heads, ByteBuffer& out)
      : capture_(capture), links_(links), device_links_(device_links), heads_(heads), out_(out) {
    // Viewers match the two ends of a flow by name and category, so the end uses those of the
    // begin.
    for (size_t row = 0; row < capture_.size(); ++row)
      if (capture_.kind[row] == EventKind::flow_begin && capture_.payload[row] != kNoPayload)
        begin_site_.emplace(capture_.payload_words[capture_.payload[row]], capture_.site[row]);
  }

  // Writes the flow events at the begins of both ranges, as Kineto does.
  void write_link(size_t row) {
    const ForwardBackwardLink link = links_.at(row);
    if (link.id == 0) return;
    char* at = heads_.begin(row, link.begins ? link_begin_text_ : link_end_text_);
    out_.advance(put_literal(put_decimal(put_literal(at, ",\"id\":"), link.id), "}"));
  }

  // Writes an arrow from the begin of a call to that of each work it started, as Kineto does.
  void write_launch(size_t row, const DeviceLink& link) {
    const uint64_t arrow = device_links_.arrow(link);
    if (arrow == 0) return;
    char* at = heads_.begin(row, link.call < 0 ? launch_begin_text_ : launch_end_text_);
    out_.advance(put_literal(put_decimal(put_literal(at, ",\"id\":"), arrow), "}"));
  }

  // Writes the event of a flow row.
  void write_flow(size_t row) {
    if (capture_.payload[row] == kNoPayload) return;
    const uint64_t id = capture_.payload_words[capture_.payload[row]];
    const auto begin =
        capture_.kind[row] == EventKind::flow_end ? begin_site_.find(id) : begin_site_.end();
    char* at = begin == begin_site_.end() ? heads_.begin(row)
                                          : heads_.begin(row, flow_end_text(begin->second));
    at = put_literal(at, ",\"id\":");
    if (id <= (uint64_t{1} << 53)) {
      at = put_decimal(at, id);
    } else {  // not exactly representable as a double
      at = put_literal(put_hex(put_literal(at, "\"0x"), id), "\"");
    }
    out_.advance(put_literal(at, "}"));
  }

 private:
  ByteBlock flow_end_text(uint32_t begin_site) const {
    std::string text = ",\n{\"ph\":\"f\",\"bp\":\"e\",\"cat\":";
    append_json_string(text, capture_.sites[begin_site].category);
    text += ",\"name\":";
    append_json_string(text, capture_.sites[begin_site].name);
    return ByteBlock(text);
  }

  const Capture& capture_;
  const ForwardBackwardLinks& links_;
  const DeviceLinks& device_links_;
  ChromeEventHeads& heads_;
  ByteBuffer& out_;
  std::unordered_map<uint64_t, uint32_t> begin_site_;  // by flow id: site of its begin
  const ByteBlock link_begin_text_{",\n{\"ph\":\"s\",\"cat\":\"fwdbwd\",\"name\":\"fwdbwd\""};
  const ByteBlock link_end_text_{
      ",\n{\"ph\":\"f\",\"bp\":\"e\",\"cat\":\"fwdbwd\",\"name\":\"fwdbwd\""};
  const ByteBlock launch_begin_text_{",\n{\"ph\":\"s\",\"cat\":\"ac2g\",\"name\":\"ac2g\""};
  const ByteBlock launch_end_text_{
      ",\n{\"ph\":\"f\",\"bp\":\"e\",\"cat\":\"ac2g\",\"name\":\"ac2g\""};
};

FASTPROF_NAMESPACE_END
