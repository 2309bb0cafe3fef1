// SPDX-License-Identifier: Apache-2.0
// Encodes counters and native stacks as detail blocks of a record (recorder/state/site.hpp), at the
// begin and end of a range.
//
// Words of a record's variable part, in this order, padded with 0 to a multiple of three:
//   DetailHeader
//   counters_begin   if counters are requested: up to kMaxCounters values, time enabled, time
//                    running
//   counters_end     the same, 0 until the end
//   cpp_stack        if stacks are requested: return addresses, innermost first
//   python_stack     if joined stacks are requested and the thread has one: its id
//
// DetailBlock::reserved holds detail_flag bits, in bits 8-15 the counter generation, and from bit
// 16 the errno of counters that could not be opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "fastprof/base/config.hpp"
#include "fastprof/payload/native_stack/unwind_cache.hpp"
#include "fastprof/payload/perf_counters/perf_counters.hpp"
#include "fastprof/recorder/state/detail_blocks.hpp"
#include "fastprof/recorder/state/site.hpp"
#include "fastprof/recorder/state/slot.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace detail_flag {
constexpr uint32_t written = 1;      // counters: the values are valid
constexpr uint32_t unavailable = 2;  // counters: could not be opened or read on this thread
constexpr uint32_t truncated = 4;    // stack: more frames existed
}  // namespace detail_flag

// Per-thread state for details: open counters and stack bounds. Plain data in the caller's memory;
// all zeros is "not opened". Owning thread only.
struct ThreadDetail {
  ThreadCounters counters;
  DetailOptions opened_for;  // options of the open (or failed) counters
  StackBounds stack;
  uint32_t ready;       // 0: not opened, 1: opened, 2: being opened
  uint32_t generation;  // of the open counters; values of different generations are not comparable
};
static_assert(std::is_trivially_copyable<ThreadDetail>::value, "it lies in shared memory");

// Opens the counters that `options` requests on the calling thread, after closing those opened for
// other options; does nothing if they are already open or failed to open. Slow path: makes system
// calls, and once calls pthread_getattr_np, which may allocate.
FASTPROF_COLD inline void open_thread_detail(ThreadDetail* detail, const DetailOptions& options,
                                             const PerfSystem* system = &kPerfSystem) noexcept {
  const bool same_counters =
      detail->ready == 1 && detail->opened_for.counter_count == options.counter_count &&
      std::memcmp(&detail->opened_for.counters, &options.counters, sizeof options.counters) == 0;
  const uint32_t before = detail->ready;
  detail->ready = 2;
  if (before == 0) detail->stack = thread_stack_bounds();
  if (!same_counters) {
    close_thread_counters(&detail->counters);
    if (options.counter_count != 0) open_thread_counters(&detail->counters, options, system);
    ++detail->generation;
  }
  detail->opened_for = options;
  detail->ready = 1;
}

// Closes the descriptors; they can be opened again. Called at thread exit (by the thread), in a
// forked child (by the thread that forked), and when no session records details any more.
inline void close_thread_detail(ThreadDetail* detail) noexcept {
  const uint32_t generation = detail->generation;
  close_thread_counters(&detail->counters);
  *detail = ThreadDetail{};
  detail->generation = generation;
}

namespace detail_words {

// The counter generation, as it is stored in DetailBlock::reserved.
inline uint32_t generation_bits(const ThreadDetail& detail) noexcept {
  return (detail.generation & 255) << 8;
}

// Writes a block of counter words: values, time enabled, time running. If they could not be read:
// zeros and the errno.
inline void write_counters(uint64_t* words, DetailType type, const ThreadDetail& detail,
                           uint32_t requested) noexcept {
  CounterSample sample;
  const bool read = read_thread_counters(&detail.counters, &sample);
  for (uint32_t i = 0; i < requested; ++i) store_relaxed(&words[1 + i], sample.values[i]);
  store_relaxed(&words[1 + requested], sample.enabled_ns);
  store_relaxed(&words[2 + requested], sample.running_ns);
  const uint32_t flags =
      read ? detail_flag::written
           : detail_flag::unavailable | static_cast<uint32_t>(detail.counters.error & 0xFFFF) << 16;
  store_relaxed(&words[0], detail_block_word(type, requested + 2, flags | generation_bits(detail)));
}

// The number of counters and of frames that the options request, limited to what a block can hold.
inline uint32_t counters_requested(const DetailOptions& options) noexcept {
  return options.counter_count <= kMaxCounters ? options.counter_count : kMaxCounters;
}
inline uint32_t frames_requested(const DetailOptions& options) noexcept {
  if (!options.cpp_stack) return 0;
  return options.max_frames <= kMaxCppFrames ? options.max_frames : kMaxCppFrames;
}

}  // namespace detail_words

// Upper bound of the words that encode_detail_begin writes, a multiple of 3: for any options, and
// for these.
constexpr size_t kMaxDetailWords =
    (1 + 2 * (1 + kMaxCounters + 2) + 1 + kMaxCppFrames + 2 + 2) / 3 * 3;
inline size_t max_detail_words(const DetailOptions& options) noexcept {
  size_t words = 1;
  if (const uint32_t requested = detail_words::counters_requested(options))
    words += 2 * (1 + size_t{requested} + 2);
  if (options.cpp_stack) words += 1 + size_t{detail_words::frames_requested(options)};
  if (options.joined_stack) words += 2;
  return (words + 2) / 3 * 3;
}

// Writes the variable part of a range that begins on the calling thread, including the header.
// Returns the number of words: a multiple of 3, at most `capacity`, or 0 if header and counters do
// not fit (max_detail_words() always suffices). If the capacity is short, frames are dropped and
// detail_flag::truncated is set. `first`: where the stack starts, see capture_cpp_stack. Counters
// are read last, so that they exclude the stack walk. `words` may be chunk memory or a buffer.
// joined_stack: id of the thread's joined stack; 0: none. It is left out if there is no room.
inline size_t encode_detail_begin(uint64_t* words, size_t capacity, const DetailOptions& options,
                                  ThreadDetail* detail, const void* first = nullptr,
                                  const PerfSystem* system = &kPerfSystem,
                                  uint64_t joined_stack = 0) noexcept {
  if (FASTPROF_UNLIKELY(detail->ready != 1 ||
                        std::memcmp(&detail->opened_for, &options, sizeof options) != 0)) {
    if (detail->ready == 2) return 0;  // nested in the opening, from a malloc hook
    open_thread_detail(detail, options, system);
  }
  if (first == nullptr) first = __builtin_return_address(0);
  capacity = capacity / 3 * 3;
  const uint32_t requested = detail_words::counters_requested(options);
  const size_t counter_words = requested != 0 ? 1 + size_t{requested} + 2 : 0;
  size_t used = 1 + 2 * counter_words;
  if (capacity < used + (options.cpp_stack ? 1 : 0)) return 0;
  if (options.cpp_stack) {
    uint64_t frames[kMaxCppFrames];
    uint32_t most = detail_words::frames_requested(options);
    if (most > capacity - used - 1) most = static_cast<uint32_t>(capacity - used - 1);
    const CppStack stack =
        capture_cpp_stack(frames, most, first, options.stack_method, detail->stack);
    store_relaxed(&words[used], detail_block_word(DetailType::cpp_stack, stack.count,
                                                  stack.truncated ? detail_flag::truncated : 0));
    for (uint32_t i = 0; i < stack.count; ++i) store_relaxed(&words[used + 1 + i], frames[i]);
    used += 1 + stack.count;
  }
  if (joined_stack != 0 && capacity - used >= 2) {
    store_relaxed(&words[used++], detail_block_word(DetailType::python_stack, 1, 0));
    store_relaxed(&words[used++], joined_stack);
  }
  while (used % 3 != 0) store_relaxed(&words[used++], uint64_t{0});
  store_relaxed(&words[0], static_cast<uint64_t>(used - 1));  // DetailHeader{words, 0}
  if (requested != 0) {
    uint64_t* end = words + 1 + counter_words;
    for (size_t i = 1; i < counter_words; ++i) store_relaxed(&end[i], uint64_t{0});
    store_relaxed(&end[0], detail_block_word(DetailType::counters_end, requested + 2, 0));
    detail_words::write_counters(words + 1, DetailType::counters_begin, *detail, requested);
  }
  return used;
}

// Completes the variable part of a range that ends, on the thread that began it, before the range's
// end is stored with release. Must not be called for a recycled slot (slot->begin differs from the
// range's begin), nor on another thread, whose counters are different: the block then has no end.
inline void encode_detail_end(uint64_t* words, const ThreadDetail* detail) noexcept {
  const auto total = static_cast<uint32_t>(load_relaxed(&words[0]));
  if (total < 1) return;
  const DetailBlock begin = detail_block_of(load_relaxed(&words[1]));
  if (begin.type != DetailType::counters_begin || begin.count < 2 || begin.count > kMaxCounters + 2)
    return;
  if (total < 2 * (1u + begin.count)) return;
  uint64_t* end = words + 1 + 1 + begin.count;
  if (begin.count - 2u != detail_words::counters_requested(detail->opened_for) ||
      (begin.reserved & 0xFF00) != detail_words::generation_bits(*detail))
    return;  // the counters were reopened meanwhile: the block has no end values
  detail_words::write_counters(end, DetailType::counters_end, *detail, begin.count - 2u);
}

FASTPROF_NAMESPACE_END
