// SPDX-License-Identifier: Apache-2.0
// Counters of ITT: name, type, and the current sum of those that are incremented.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>

#include "backends/itt/itt_abi.hpp"
#include "fastprof/recorder/hot_path/intern.hpp"
#include "fastprof/recorder/hot_path/range_args.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace itt {

// Created by the program and never freed: handles are used until the process ends. sum: relaxed,
// since only its value matters.
struct Counter {
  std::string name;
  ValueType type = ValueType::uint64;
  std::atomic<int64_t> sum{0};
};

inline constexpr CounterSite integer_counter("<counter>", "", "", 0, ArgType::int64);
inline constexpr CounterSite unsigned_counter("<counter>", "", "", 0, ArgType::uint64);
inline constexpr CounterSite real_counter("<counter>", "", "", 0, ArgType::float64);

inline void record_sample(const Counter& counter, const Site& like, uint64_t word) noexcept {
  NameUse use;
  record_instant(*session_site(use, like, counter.name), word);
}

template <class T>
T read_value(const void* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Records a sample. value: points to a value of the counter's type.
inline void record_value(const Counter& counter, const void* value) noexcept {
  const auto integer = [&](int64_t number) {
    record_sample(counter, integer_counter.site, static_cast<uint64_t>(number));
  };
  const auto natural = [&](uint64_t number) {
    record_sample(counter, unsigned_counter.site, number);
  };
  const auto real = [&](double number) {
    record_sample(counter, real_counter.site, arg_word(number));
  };
  switch (counter.type) {
    case ValueType::int64:
      return integer(read_value<int64_t>(value));
    case ValueType::int32:
      return integer(read_value<int32_t>(value));
    case ValueType::int16:
      return integer(read_value<int16_t>(value));
    case ValueType::uint32:
      return natural(read_value<uint32_t>(value));
    case ValueType::uint16:
      return natural(read_value<uint16_t>(value));
    case ValueType::float32:
      return real(static_cast<double>(read_value<float>(value)));
    case ValueType::float64:
      return real(read_value<double>(value));
    case ValueType::uint64:
    case ValueType::unknown:
      return natural(read_value<uint64_t>(value));
  }
}

// Adds `delta` to the counter and records the sum.
inline void record_sum(Counter& counter, int64_t delta) noexcept {
  const int64_t sum = counter.sum.fetch_add(delta, std::memory_order_relaxed) + delta;
  if (may_record(category::counter))
    record_sample(counter, integer_counter.site, static_cast<uint64_t>(sum));
}

}  // namespace itt
FASTPROF_NAMESPACE_END
