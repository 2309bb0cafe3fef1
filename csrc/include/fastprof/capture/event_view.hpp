// SPDX-License-Identifier: Apache-2.0
// Events: iterating over a capture row by row, for programs that would rather not think in columns.
//
//   for (const fastprof::EventView event : session.events())
//     if (event.is_range()) use(event.name(), event.start_ns(), event.duration_ns());
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/capture.hpp"

FASTPROF_NAMESPACE_BEGIN

// One row of a capture. A view: valid while the capture is.
class EventView {
 public:
  EventView(const Capture& capture, size_t row) noexcept : capture_(&capture), row_(row) {}

  size_t row() const noexcept { return row_; }
  const std::string& name() const noexcept { return site().name; }
  const std::string& category() const noexcept { return site().category; }
  const SiteInfo& site() const noexcept { return capture_->sites[capture_->site[row_]]; }
  const TrackInfo& track() const noexcept { return capture_->tracks[capture_->track[row_]]; }
  EventKind kind() const noexcept { return capture_->kind[row_]; }
  bool is_range() const noexcept { return kind() == EventKind::range; }
  // Unix time in nanoseconds; an unfinished event ends at the session's stop, an instant where it
  // starts.
  int64_t start_ns() const noexcept { return capture_->start_ns[row_]; }
  int64_t end_ns() const noexcept { return capture_->end_ns[row_]; }
  int64_t duration_ns() const noexcept { return end_ns() - start_ns(); }
  bool finished() const noexcept { return (capture_->flags[row_] & event_flag::finished) != 0; }
  // Row of the enclosing range of its thread, or kNoParent.
  int32_t parent() const noexcept { return capture_->parent[row_]; }

  size_t arg_count() const noexcept { return has_args() ? site().arg_names.size() : 0; }
  const std::string& arg_name(size_t i) const noexcept { return site().arg_names[i]; }
  ArgType arg_type(size_t i) const noexcept { return site().arg_types[i]; }
  // The argument as a number; 0 for strings.
  double arg_number(size_t i) const noexcept {
    const uint64_t word = capture_->payload_words[capture_->payload[row_] + i];
    switch (arg_type(i)) {
      case ArgType::int64:
        return static_cast<double>(static_cast<int64_t>(word));
      case ArgType::float64: {
        double value;
        std::memcpy(&value, &word, sizeof value);
        return value;
      }
      case ArgType::string:
        return 0;
      case ArgType::uint64:
      case ArgType::boolean:
      case ArgType::pointer:
        break;
    }
    return static_cast<double>(word);
  }
  // A string argument's text; empty for other types.
  std::string arg_text(size_t i) const {
    if (arg_type(i) != ArgType::string) return {};
    const uint64_t word = capture_->payload_words[capture_->payload[row_] + i];
    return word < capture_->strings.size() ? capture_->strings[word] : std::string();
  }

 private:
  bool has_args() const noexcept {
    const EventKind k = kind();
    const bool typed = k == EventKind::range || k == EventKind::async_range ||
                       k == EventKind::mark || k == EventKind::counter;
    return typed && capture_->payload[row_] != kNoPayload;
  }

  const Capture* capture_;
  size_t row_;
};

// The rows of a capture as a range of EventViews.
class Events {
 public:
  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = EventView;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = EventView;

    iterator(const Capture& capture, size_t row) noexcept : capture_(&capture), row_(row) {}
    EventView operator*() const noexcept { return {*capture_, row_}; }
    iterator& operator++() noexcept {
      ++row_;
      return *this;
    }
    iterator operator++(int) noexcept {
      iterator before = *this;
      ++row_;
      return before;
    }
    bool operator==(const iterator& other) const noexcept { return row_ == other.row_; }
    bool operator!=(const iterator& other) const noexcept { return row_ != other.row_; }

   private:
    const Capture* capture_;
    size_t row_;
  };

  explicit Events(const Capture& capture) noexcept : capture_(&capture) {}
  iterator begin() const noexcept { return {*capture_, 0}; }
  iterator end() const noexcept { return {*capture_, capture_->size()}; }
  size_t size() const noexcept { return capture_->size(); }
  EventView operator[](size_t row) const noexcept { return {*capture_, row}; }

 private:
  const Capture* capture_;
};

FASTPROF_NAMESPACE_END
