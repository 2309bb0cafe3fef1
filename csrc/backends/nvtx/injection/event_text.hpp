// SPDX-License-Identifier: Apache-2.0
// Reads the message and the attributes of an NVTX event.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include "backends/annotations/annotation_sites.hpp"
#include "backends/annotations/domain.hpp"
#include "backends/annotations/wide_text.hpp"
#include "backends/nvtx/nvtx_abi.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace nvtx {

constexpr std::string_view kNoMessage = "(no message)";

// The text of a message. Owns it only if it had to be converted.
class EventText {
 public:
  explicit EventText(const char* text) noexcept : text_(text != nullptr ? text : kNoMessage) {}
  explicit EventText(const wchar_t* text) noexcept { convert(text); }
  EventText(MessageType type, const Message& message) noexcept : text_(kNoMessage) {
    if (FASTPROF_LIKELY(type == MessageType::registered)) {
      // Every handle that the program has was returned by register_text(), or is null.
      if (message.registered != nullptr)
        text_ = static_cast<const annotations::RegisteredText*>(message.registered)->text;
    } else if (type == MessageType::ascii) {
      if (message.ascii != nullptr) text_ = message.ascii;
    } else if (type == MessageType::unicode) {
      convert(message.unicode);
    }
  }
  EventText(const EventText&) = delete;
  EventText& operator=(const EventText&) = delete;

  std::string_view view() const noexcept { return text_; }

 private:
  void convert(const wchar_t* text) noexcept {
    text_ = kNoMessage;
    if (text == nullptr) return;
    try {
      owned_ = annotations::utf8_of(text);
      text_ = owned_;
    } catch (const std::bad_alloc&) {
      text_ = "<no memory>";
    }
  }

  std::string_view text_;
  std::string owned_;
};

// Returns whether the program's struct has all the fields that are read, as it has since NVTX 2.
FASTPROF_ALWAYS_INLINE bool is_complete(const EventAttributes* event) noexcept {
  return event != nullptr && event->size >= sizeof(EventAttributes);
}

// Reads the attributes of an event. Payloads of the extension are read by payload_reader.hpp.
FASTPROF_ALWAYS_INLINE annotations::Attributes attributes_of(
    annotations::Domain& domain, const EventAttributes& event) noexcept {
  annotations::Attributes read;
  read.domain = domain.name();
  if (event.category != 0) read.category = domain.category(event.category);
  if (event.color_type == ColorType::argb) {
    read.has_color = true;
    read.color = event.color;
  }
  if (event.payload_type == PayloadType::unknown) return read;
  const auto put = [&read](annotations::PayloadType type, uint64_t word) {
    read.payload_type = type;
    read.payload = word;
  };
  const auto bits = [](double value) {
    uint64_t word;
    std::memcpy(&word, &value, sizeof word);
    return word;
  };
  switch (event.payload_type) {
    case PayloadType::uint64:
      put(annotations::PayloadType::unsigned_integer, event.payload.uint64);
      break;
    case PayloadType::uint32:
      put(annotations::PayloadType::unsigned_integer, event.payload.uint32);
      break;
    case PayloadType::int64:
      put(annotations::PayloadType::integer, static_cast<uint64_t>(event.payload.int64));
      break;
    case PayloadType::int32:
      put(annotations::PayloadType::integer,
          static_cast<uint64_t>(static_cast<int64_t>(event.payload.int32)));
      break;
    case PayloadType::float64:
      put(annotations::PayloadType::real, bits(event.payload.float64));
      break;
    case PayloadType::float32:
      put(annotations::PayloadType::real, bits(static_cast<double>(event.payload.float32)));
      break;
    case PayloadType::unknown:
      break;
  }
  return read;
}

}  // namespace nvtx
FASTPROF_NAMESPACE_END
