// SPDX-License-Identifier: Apache-2.0
// Cached unwind rules: how they are packed, which address they belong to, and which frames of a
// walk are kept.
#include <alloca.h>
#include <signal.h>

#include <cstring>
#include <vector>

#include "check.hpp"
#include "fastprof/payload/native_stack/unwind_cache.hpp"

using namespace fastprof;
using namespace fastprof::unwind_detail;
using Cfa = UnwindRule::Cfa;
using Frames = std::vector<uint64_t>;
using Addresses = std::vector<uintptr_t>;

namespace {

bool same(const UnwindRule& a, const UnwindRule& b) {
  return a.cfa == b.cfa && a.frame_pointer_saved == b.frame_pointer_saved &&
         a.cfa_offset == b.cfa_offset && a.frame_pointer_below_cfa == b.frame_pointer_below_cfa &&
         a.return_address_below_cfa == b.return_address_below_cfa;
}
bool packs(const UnwindRule& rule) {
  return same(unpack_rule(pack_rule(rule)), rule);
}
bool is_refused(const UnwindRule& rule) {
  return pack_rule(rule) == 1 && unpack_rule(1).cfa == Cfa::unsupported;
}

__attribute__((noinline)) uintptr_t some_return_address() {
  return reinterpret_cast<uintptr_t>(__builtin_return_address(0));
}

// The frames from the caller on.
__attribute__((noinline)) Frames by_tables() {
  uint64_t frames[kMaxCppFrames];
  const CppStack stack = capture_cpp_stack(frames, kMaxCppFrames, __builtin_return_address(0),
                                           StackMethod::unwind_tables, thread_stack_bounds());
  return Frames(frames, frames + stack.count);
}

}  // namespace

TEST(rules_have_places_in_a_word) {
#if defined(__aarch64__)
  CHECK_EQ(pack_rule({Cfa::stack_pointer, true, 32, 32, 24}), 2u | 4u << 3 | 5u << 15);
  CHECK(packs({Cfa::stack_pointer, true, 32760, 32752, 32744}));
  CHECK(is_refused({Cfa::stack_pointer, true, 32768, 32, 24}));
  CHECK(is_refused({Cfa::stack_pointer, true, 32760, 32760, 32752}));
  CHECK(is_refused({Cfa::stack_pointer, true, 32, 32, 16}));  // not saved as a pair
  CHECK(is_refused({Cfa::stack_pointer, false, 32, 0, 24}));
  CHECK(packs({Cfa::frame_pointer, true, 16, 16, 8}));
#else
  CHECK_EQ(pack_rule({Cfa::frame_pointer, true, 16, 24, 8}), 3u | 2u << 3 | 4u << 15 | 1u << 22);
  CHECK_EQ(pack_rule({Cfa::stack_pointer, false, 8, 0, 16}), 2u | 1u << 3 | 2u << 22);
  CHECK(packs({Cfa::stack_pointer, false, 0, 0, 0}));
  CHECK(packs({Cfa::stack_pointer, true, 32760, 1008, 504}));
  CHECK(packs({Cfa::frame_pointer, true, 16, 0, 8}));
  CHECK(packs({Cfa::saved_in_frame, true, 8, 0, 8}));
  CHECK(is_refused({Cfa::stack_pointer, true, 32768, 16, 8}));
  CHECK(is_refused({Cfa::stack_pointer, true, 16, 1016, 8}));
  CHECK(is_refused({Cfa::stack_pointer, true, 16, 16, 512}));
#endif
  CHECK_EQ(pack_rule(UnwindRule{Cfa::outermost, false, 0, 0, 0}), 5u);
  CHECK(unpack_rule(5).cfa == Cfa::outermost);
}

TEST(a_cached_rule_is_of_one_address) {
  const uintptr_t here = some_return_address();
  const UnwindRule rule = find_unwind_rule(here);
  CHECK(rule.cfa != Cfa::unsupported);
  for (int pass = 0; pass < 2; ++pass) CHECK(same(cached_unwind_rule(here), rule));
  // Addresses that share its place in the cache.
  for (unsigned bit = 12; bit < 48; ++bit) {
    const uintptr_t other = here ^ uintptr_t { 1 } << bit;
    const UnwindRule of_other = unpack_rule(pack_rule(find_unwind_rule(other)));
    CHECK(same(cached_unwind_rule(other), of_other));
    CHECK(same(cached_unwind_rule(here), rule));
  }
  for (unsigned bit = 48; bit < 64; ++bit)
    CHECK(cached_unwind_rule(here | uintptr_t{1} << bit).cfa == Cfa::unsupported);
  CHECK(same(cached_unwind_rule(here), rule));
}

TEST(a_cached_rule_is_used_until_the_cache_is_cleared) {
  const uintptr_t here = some_return_address();
#if defined(__aarch64__)
  const UnwindRule other{Cfa::frame_pointer, true, 32760, 32752, 32744};
#else
  const UnwindRule other{Cfa::saved_in_frame, true, 32760, 1008, 504};
#endif
  CHECK(cache_entry(here) == &g_unwind_cache[here & 4095]);
  *cache_entry(here) = (here >> 12) << 28 | pack_rule(other);
  CHECK(same(cached_unwind_rule(here), other));
  clear_unwind_cache();
  for (const uint64_t entry : g_unwind_cache) CHECK_EQ(entry, 0u);
  CHECK(same(cached_unwind_rule(here), find_unwind_rule(here)));
  CHECK_EQ(*cache_entry(here) >> 28, here >> 12);
}

TEST(words_of_the_stack_are_read_within_its_bounds) {
  CHECK(readable_stack_word(1000, 1000, 1016));
  CHECK(readable_stack_word(1008, 1000, 1016));
  CHECK(!readable_stack_word(1016, 1000, 1016));
  CHECK(!readable_stack_word(1012, 1000, 1016));
  CHECK(!readable_stack_word(992, 1000, 1016));
  CHECK(!readable_stack_word(1001, 1000, 1016));
}

TEST(rules_are_used_on_the_stack_of_the_bounds_only) {
  const StackBounds bounds = thread_stack_bounds();
  for (const StackBounds& elsewhere :
       {StackBounds{0, 0}, StackBounds{0, bounds.low}, StackBounds{bounds.high, ~uintptr_t{0}}}) {
    uint64_t frames[kMaxCppFrames];
    FrameSink sink(frames, kMaxCppFrames, nullptr);
    CHECK(walk_unwind_cache(elsewhere, &sink) != 0);
    CHECK_EQ(sink.count(), 0u);
  }
}

// Frames are kept from `first` on if it is among the first eight.
TEST(frames_before_the_first_one_are_left_out) {
  uint64_t frames[20] = {};
  for (const uintptr_t first : Addresses{1, 2, 8}) {
    FrameSink sink(frames, 20, reinterpret_cast<const void*>(first));
    for (uintptr_t address = 1; address <= 12; ++address) CHECK(sink.push(address));
    sink.finish();
    CHECK_EQ(sink.count(), 13 - first);
    CHECK_EQ(frames[0], first);
    CHECK_EQ(sink.last(), 12u);
    CHECK(!sink.truncated());
  }
  FrameSink late(frames, 20, reinterpret_cast<const void*>(uintptr_t{9}));
  for (uintptr_t address = 1; address <= 12; ++address) CHECK(late.push(address));
  late.finish();
  CHECK_EQ(late.count(), 12u);
  for (uint64_t i = 0; i < 12; ++i) CHECK_EQ(frames[i], i + 1);
}

TEST(a_walk_that_ends_before_the_first_frame_keeps_all) {
  uint64_t frames[20] = {};
  FrameSink sink(frames, 20, reinterpret_cast<const void*>(uintptr_t{9}));
  CHECK_EQ(sink.last(), 0u);
  for (const uintptr_t address : Addresses{3, 4, 5}) CHECK(sink.push(address));
  CHECK_EQ(sink.count(), 0u);
  sink.finish();
  CHECK_EQ(sink.count(), 3u);
  CHECK(frames[0] == 3 && frames[1] == 4 && frames[2] == 5);
  sink.finish();  // once
  CHECK_EQ(sink.count(), 3u);
}

TEST(a_full_sink_ends_the_walk) {
  uint64_t frames[4] = {};
  FrameSink all(frames, 3, nullptr);
  for (uintptr_t address = 1; address <= 3; ++address) CHECK(all.push(address));
  CHECK(!all.truncated());
  CHECK(!all.push(4));
  CHECK(all.truncated());
  CHECK_EQ(frames[3], 0u);
  // Those that were left out at first do not fit either.
  FrameSink searching(frames, 3, reinterpret_cast<const void*>(uintptr_t{99}));
  for (uintptr_t address = 1; address <= 7; ++address) CHECK(searching.push(address));
  CHECK(!searching.push(8));
  CHECK(searching.truncated());
  CHECK_EQ(searching.count(), 3u);
  CHECK_EQ(frames[3], 0u);
}

TEST(a_walk_starts_again) {
  uint64_t frames[4] = {};
  FrameSink sink(frames, 2, reinterpret_cast<const void*>(uintptr_t{5}));
  for (const uintptr_t address : Addresses{4, 5, 6}) CHECK(sink.push(address));
  CHECK(!sink.push(7));
  sink.restart();
  CHECK(!sink.truncated());
  CHECK_EQ(sink.count(), 0u);
  CHECK(sink.push(3));
  CHECK_EQ(sink.count(), 0u);  // looks for the first frame again
  CHECK(sink.push(5));
  CHECK(sink.count() == 1 && frames[0] == 5);
  FrameSink plain(frames, 2, nullptr);
  CHECK(plain.push(1));
  plain.restart();
  CHECK(plain.push(2));
  CHECK(plain.count() == 1 && frames[0] == 2);
  // Frames that were left out before are forgotten.
  FrameSink forgets(frames, 4, reinterpret_cast<const void*>(uintptr_t{5}));
  CHECK(forgets.push(1));
  forgets.restart();
  CHECK(forgets.push(2));
  forgets.finish();
  CHECK(forgets.count() == 1 && frames[0] == 2);
}

TEST(frames_lie_above_each_other_within_the_bounds) {
  uintptr_t memory[8] = {};
  const auto low = reinterpret_cast<uintptr_t>(memory);
  const auto walk = [&](size_t first, uintptr_t from, uintptr_t to) {
    uint64_t frames[8];
    FrameSink sink(frames, 8, nullptr);
    walk_frame_pointers(low + 8 * first, StackBounds{low + from, low + to}, &sink);
    return Frames(frames, frames + sink.count());
  };
  memory[0] = low + 16;
  memory[1] = 0x1111;
  memory[2] = low + 48;
  memory[3] = 0x2222;
  memory[6] = low + 40;  // below
  memory[7] = 0x3333;
  CHECK(walk(0, 0, 64) == (Frames{0x1111, 0x2222, 0x3333}));
  CHECK(walk(0, 0, 63) == (Frames{0x1111, 0x2222}));
  CHECK(walk(0, 8, 64).empty());
  CHECK(walk(2, 16, 32) == (Frames{0x2222}));
  memory[2] = low + 16;  // itself
  CHECK(walk(0, 0, 64) == (Frames{0x1111, 0x2222}));
  memory[2] = low + 24;  // overlaps
  CHECK(walk(0, 0, 64) == (Frames{0x1111, 0x2222}));
  memory[2] = low + 33;  // not aligned
  CHECK(walk(0, 0, 64) == (Frames{0x1111, 0x2222}));
  memory[0] = low + 16;
  memory[3] = 0;  // no caller
  CHECK(walk(0, 0, 64) == (Frames{0x1111}));
}

namespace {

// Two functions that keep a frame pointer in any build, because the size of their frames is not
// known. (At -O1, g++'s AddressSanitizer takes what an alloca hands out for variables of frames
// that were left before.)
__attribute__((no_sanitize_address)) __attribute__((noinline)) Frames inner_of_two(
    size_t bytes, StackMethod method, const StackBounds& bounds) {
  auto* memory = static_cast<volatile char*>(alloca(bytes));
  memory[0] = 1;
  uint64_t frames[kMaxCppFrames];
  const CppStack stack = capture_cpp_stack(frames, kMaxCppFrames, nullptr, method, bounds);
  memory[bytes - 1] = 2;
  return Frames(frames, frames + stack.count);
}
__attribute__((no_sanitize_address)) __attribute__((noinline)) Frames outer_of_two(
    size_t bytes, StackMethod method, const StackBounds& bounds) {
  auto* memory = static_cast<volatile char*>(alloca(bytes));
  memory[0] = 1;
  Frames frames = inner_of_two(bytes, method, bounds);
  memory[bytes - 1] = 2;
  return frames;
}

}  // namespace

TEST(frame_pointers_and_tables_find_the_same_frames) {
  const StackBounds bounds = thread_stack_bounds();
  volatile size_t bytes = 64;  // not known to the compiler, nor is the method
  volatile uint8_t method = 0;
  const Frames tables = outer_of_two(bytes, static_cast<StackMethod>(method), bounds);
  method = 1;
  const Frames pointers = outer_of_two(bytes, static_cast<StackMethod>(method), bounds);
  CHECK(tables.size() >= 3 && pointers.size() >= 2);
  for (size_t i = 0; i < 2 && i < pointers.size(); ++i) CHECK_EQ(pointers[i], tables[i]);
  for (const StackBounds& elsewhere : {StackBounds{0, 0}, StackBounds{bounds.high - 8, bounds.high},
                                       StackBounds{bounds.high, bounds.high + 4096}})
    CHECK(outer_of_two(bytes, static_cast<StackMethod>(method), elsewhere).empty());
}

namespace {

Frames left_with;
[[noreturn]] __attribute__((noinline)) void leave() {
  left_with = by_tables();
  throw 1;
}
// Its last instruction is the call: the address behind it belongs to another function.
__attribute__((noinline)) void ends_with_a_call() {
  leave();
}

}  // namespace

TEST(a_call_may_be_the_last_instruction) {
  for (int pass = 0; pass < 2; ++pass) {
    try {
      ends_with_a_call();
    } catch (int) {
    }
    const Frames here = by_tables();
    CHECK(left_with.size() > here.size() && here.size() > 1);
    // From the caller of this test on they are the same.
    const size_t more = left_with.size() - here.size();
    for (size_t i = 1; i < here.size(); ++i) CHECK_EQ(left_with[i + more], here[i]);
  }
  CHECK(cached_unwind_rule(static_cast<uintptr_t>(left_with[1])).cfa != Cfa::unsupported);
}

namespace {

StackBounds handler_bounds;
uint32_t handler_counts[2];
bool as_many_as_asked_for = true;
uint32_t count_of(uint32_t most) {
  uint64_t frames[kMaxCppFrames];
  return capture_cpp_stack(frames, most, nullptr, StackMethod::unwind_tables, handler_bounds).count;
}
void on_signal(int) {
  clear_unwind_cache();
  for (uint32_t& count : handler_counts) {
    count = count_of(kMaxCppFrames);
    for (uint32_t most = 0; most < count; ++most)
      if (count_of(most) != most) as_many_as_asked_for = false;
  }
}

}  // namespace

// The rules end at the handler's frame; that is not the outermost one, even if no more were asked.
TEST(a_signal_frame_is_not_taken_for_the_outermost) {
  handler_bounds = thread_stack_bounds();
  struct sigaction action, before;
  std::memset(&action, 0, sizeof action);
  action.sa_handler = &on_signal;
  sigaction(SIGUSR1, &action, &before);
  raise(SIGUSR1);
  sigaction(SIGUSR1, &before, nullptr);
  CHECK(handler_counts[0] > 4);
  CHECK_EQ(handler_counts[0], handler_counts[1]);
  CHECK(as_many_as_asked_for);
}

#if defined(__x86_64__) && defined(__linux__)
// Calls its argument; has no unwind table.
extern "C" void fastprof_test_call_without_table(void (*function)());
__asm__(
    ".text\n"
    ".local fastprof_test_call_without_table\n"
    ".type fastprof_test_call_without_table, @function\n"
    "fastprof_test_call_without_table:\n"
    "  push %rbp\n"
    "  call *%rdi\n"
    "  pop %rbp\n"
    "  ret\n"
    ".size fastprof_test_call_without_table, . - fastprof_test_call_without_table\n");

namespace {

Frames without_table;
void capture_without_table() {
  without_table = by_tables();
}

}  // namespace

TEST(code_without_tables_is_remembered_as_the_outermost_frame) {
  clear_unwind_cache();
  fastprof_test_call_without_table(&capture_without_table);
  const Frames first = without_table;
  CHECK(first.size() >= 2);
  const auto code = reinterpret_cast<uintptr_t>(&fastprof_test_call_without_table);
  CHECK(first.back() > code && first.back() < code + 8);
  CHECK(find_unwind_rule(first.back()).cfa == Cfa::unsupported);
  CHECK(cached_unwind_rule(first.back()).cfa == Cfa::outermost);
  fastprof_test_call_without_table(&capture_without_table);
  CHECK(without_table == first);
}
#endif
