// SPDX-License-Identifier: Apache-2.0
// Stack unwinding at a few ns per frame: caches the rules of unwind_rule.hpp by return address.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/payload/native_stack/cpp_stack.hpp"
#include "fastprof/payload/native_stack/unwind_rule.hpp"
#include "fastprof/recorder/state/slot.hpp"

FASTPROF_NAMESPACE_BEGIN

// Direct-mapped table shared by all threads. An entry is one word, so it cannot be torn and relaxed
// loads and stores suffice: 36 bits of the return address (the low 12 are the index), 28 bits of
// the rule. 0: empty.
constexpr unsigned kUnwindCacheBits = 12;
inline uint64_t g_unwind_cache[size_t{1} << kUnwindCacheBits] = {};

namespace unwind_detail {

// Packed rule, 28 bits: kind + 1 (3), CFA offset / 8 (12), distance of the saved frame pointer
// below the CFA / 8 + 1, or 0 if not saved (7 or 12), distance of the return address below the CFA
// / 8 (6 or none). On aarch64 the two are saved as a pair, often at the bottom of the frame.
#if defined(__aarch64__)
constexpr unsigned kFpBits = 12, kRaBits = 0;
#else
constexpr unsigned kFpBits = 7, kRaBits = 6;
#endif
constexpr uint64_t kUnsupported = static_cast<uint64_t>(UnwindRule::Cfa::unsupported) + 1;
constexpr uint64_t kOutermost = static_cast<uint64_t>(UnwindRule::Cfa::outermost) + 1;

// Packs a rule into 28 bits; kUnsupported if a number is too large.
inline uint64_t pack_rule(const UnwindRule& rule) noexcept {
  if (rule.cfa == UnwindRule::Cfa::outermost) return kOutermost;
  const uint64_t kind = static_cast<uint64_t>(rule.cfa) + 1;
  const uint64_t cfa = rule.cfa_offset / 8;
  const uint64_t fp = rule.frame_pointer_saved ? rule.frame_pointer_below_cfa / 8 + 1 : 0;
  uint64_t ra = rule.return_address_below_cfa / 8;
  if (kRaBits == 0) {
    if (fp == 0 || ra != fp - 2) return kUnsupported;
    ra = 0;
  }
  if (cfa >> 12 != 0 || fp >> kFpBits != 0 || ra >> kRaBits != 0) return kUnsupported;
  return kind | cfa << 3 | fp << 15 | ra << (15 + kFpBits);
}

FASTPROF_ALWAYS_INLINE UnwindRule unpack_rule(uint64_t packed) noexcept {
  UnwindRule rule{};
  rule.cfa = static_cast<UnwindRule::Cfa>((packed & 7) - 1);
  rule.cfa_offset = static_cast<uint32_t>(packed >> 3 & 4095) * 8;
  const auto fp = static_cast<uint32_t>(packed >> 15 & ((1u << kFpBits) - 1));
  rule.frame_pointer_saved = fp != 0;
  rule.frame_pointer_below_cfa = fp != 0 ? (fp - 1) * 8 : 0;
  rule.return_address_below_cfa =
      kRaBits == 0 ? (fp - 2) * 8
                   : static_cast<uint32_t>(packed >> (15 + kFpBits) & ((1u << kRaBits) - 1)) * 8;
  return rule;
}

}  // namespace unwind_detail

// Empties the cache. Call when code was unloaded, because other code may be loaded at its
// addresses. A stale rule gives wrong frames, but never an invalid access. Any thread.
inline void clear_unwind_cache() noexcept {
  for (uint64_t& entry : g_unwind_cache) store_relaxed(&entry, uint64_t{0});
}

namespace unwind_detail {

FASTPROF_ALWAYS_INLINE uint64_t* cache_entry(uintptr_t return_address) noexcept {
  return &g_unwind_cache[return_address & ((1u << kUnwindCacheBits) - 1)];
}
FASTPROF_ALWAYS_INLINE uint64_t cache_tag(uintptr_t return_address) noexcept {
  return (return_address >> kUnwindCacheBits) << 28;
}

}  // namespace unwind_detail

// Returns the rule for a return address, from the cache or the unwind tables.
FASTPROF_ALWAYS_INLINE UnwindRule cached_unwind_rule(uintptr_t return_address) noexcept {
  using namespace unwind_detail;
  if (FASTPROF_UNLIKELY(return_address >> 48 != 0)) return UnwindRule{};
  uint64_t* entry = cache_entry(return_address);
  const uint64_t tag = cache_tag(return_address);
  const uint64_t found = load_relaxed(entry);
  if (FASTPROF_LIKELY(found != 0 && ((found ^ tag) >> 28) == 0))
    return unpack_rule(found & ((1u << 28) - 1));
  const uint64_t packed = pack_rule(find_unwind_rule(return_address));
  store_relaxed(entry, tag | packed);
  return unpack_rule(packed);
}

// Separate functions with by-value parameters: g++ does not apply the attribute to lambdas, and an
// instrumented lambda would read its captures from the frame of an uninstrumented function.
FASTPROF_NO_SANITIZE_STACK_READ inline bool readable_stack_word(uintptr_t address, uintptr_t low,
                                                                uintptr_t high) noexcept {
  return address >= low && address <= high - sizeof(uintptr_t) && address % sizeof(uintptr_t) == 0;
}
FASTPROF_NO_SANITIZE_STACK_READ inline uintptr_t load_stack_word(uintptr_t address) noexcept {
  return *reinterpret_cast<const uintptr_t*>(address);
}

// Walks the calling thread's stack by cached rules, reading only within the bounds. Returns 0 when
// complete. Otherwise returns the return address at which the rules ended (a signal frame, another
// stack, code without tables); the pushed frames are then incomplete.
FASTPROF_NO_SANITIZE_STACK_READ FASTPROF_NOINLINE inline uintptr_t walk_unwind_cache(
    const StackBounds& bounds, FrameSink* sink) noexcept {
  uintptr_t pc, sp, fp;
#if defined(__x86_64__)
  __asm__ __volatile__("lea 1f(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2\n1:"
                       : "=&r"(pc), "=&r"(sp), "=&r"(fp));
#else
  __asm__ __volatile__("adr %0, 1f\n\tmov %1, sp\n\tmov %2, x29\n1:"
                       : "=&r"(pc), "=&r"(sp), "=&r"(fp));
#endif
  if (sp < bounds.low || sp >= bounds.high) return pc;
  for (;;) {
    const UnwindRule rule = cached_unwind_rule(pc);
    uintptr_t cfa;
    if (FASTPROF_LIKELY(rule.cfa == UnwindRule::Cfa::stack_pointer)) {
      cfa = sp + rule.cfa_offset;
    } else if (rule.cfa == UnwindRule::Cfa::frame_pointer) {
      cfa = fp + rule.cfa_offset;
    } else if (rule.cfa == UnwindRule::Cfa::saved_in_frame) {
      if (!readable_stack_word(fp - rule.cfa_offset, sp, bounds.high)) return pc;
      cfa = load_stack_word(fp - rule.cfa_offset);
    } else {
      return rule.cfa == UnwindRule::Cfa::outermost ? 0 : pc;
    }
    const uintptr_t return_slot = cfa - rule.return_address_below_cfa;
    if (cfa <= sp || !readable_stack_word(return_slot, sp, bounds.high)) return pc;
    if (rule.frame_pointer_saved) {
      const uintptr_t slot =
          rule.cfa == UnwindRule::Cfa::saved_in_frame ? fp : cfa - rule.frame_pointer_below_cfa;
      if (!readable_stack_word(slot, sp, bounds.high)) return pc;
      fp = load_stack_word(slot);
    }
    pc = plain_code_address(load_stack_word(return_slot));
    sp = cfa;
    if (pc == 0) return 0;
    if (!sink->push(pc)) return 0;
  }
}

// Captures at most max_frames return addresses of the calling thread, innermost first. `first`: the
// return address to start with; a cold function passes its own __builtin_return_address(0) to omit
// the recorder's frames; null starts with the caller's. `bounds`: thread_stack_bounds() of this
// thread. Does not allocate. Safe on any stack and with any register contents; outside the bounds
// only the compiler's unwinder is used. 5 ns per frame once the rules are cached.
FASTPROF_NOINLINE inline CppStack capture_cpp_stack(uint64_t* frames, uint32_t max_frames,
                                                    const void* first, StackMethod method,
                                                    const StackBounds& bounds) noexcept {
  if (first == nullptr) first = __builtin_return_address(0);
  FrameSink sink(frames, max_frames, first);
  if (method == StackMethod::frame_pointers) {
    const auto frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    walk_frame_pointers(frame, StackBounds{frame < bounds.low ? bounds.high : frame, bounds.high},
                        &sink);
  } else if (const uintptr_t stopped_at = walk_unwind_cache(bounds, &sink)) {
    sink.restart();
    walk_unwind_tables(&sink);
    // The general unwinder finds no caller either: code without tables, at the bottom of every
    // stack of a static executable. Cache it as the outermost frame.
    if (!sink.truncated() && sink.last() == stopped_at && stopped_at >> 48 == 0)
      store_relaxed(unwind_detail::cache_entry(stopped_at),
                    unwind_detail::cache_tag(stopped_at) | unwind_detail::kOutermost);
  } else {
    sink.finish();
  }
  return CppStack{sink.count(), sink.truncated()};
}

FASTPROF_NAMESPACE_END
