// SPDX-License-Identifier: Apache-2.0
// Native stacks: the unwind rules must find what the compiler's unwinder finds, from any place, and
// survive garbage.
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "check.hpp"
#include "fastprof/payload/native_stack/unwind_cache.hpp"

using namespace fastprof;
#define NOINLINE __attribute__((noinline))

struct Both {
  std::vector<uint64_t> rules, tables;
  bool by_rules = false;  // the rules were sufficient
};

// Frames above this function's own, both ways. The two calls return to different addresses here:
// frame 0 is dropped.
NOINLINE static Both capture_both(const StackBounds& bounds) {
  Both both;
  uint64_t frames[kMaxCppFrames];
  {
    FrameSink sink(frames, kMaxCppFrames, __builtin_return_address(0));
    both.by_rules = walk_unwind_cache(bounds, &sink) == 0;
    sink.finish();
    both.rules.assign(frames, frames + sink.count());
  }
  {
    FrameSink sink(frames, kMaxCppFrames, __builtin_return_address(0));
    walk_unwind_tables(&sink);
    both.tables.assign(frames, frames + sink.count());
  }
  __asm__ volatile("" ::: "memory");
  return both;
}

static void check_same(const Both& both, size_t at_least) {
  CHECK(both.by_rules);
  CHECK(both.rules.size() >= at_least);
  CHECK_EQ(both.rules.size(), both.tables.size());
  CHECK(both.rules == both.tables);
}

template <class F>
NOINLINE static int nest(int depth, F&& f) {
  if (depth == 0) {
    f();
    return 0;
  }
  const int below = nest(depth - 1, f);
  __asm__ volatile("" ::: "memory");
  return below + 1;
}

// Learns the end of the stack, which static executables have no table for.
static void warm(const StackBounds& bounds) {
  uint64_t frames[kMaxCppFrames];
  capture_cpp_stack(frames, kMaxCppFrames, nullptr, StackMethod::unwind_tables, bounds);
}

TEST(rules_find_what_the_unwinder_finds) {
  const StackBounds bounds = thread_stack_bounds();
  CHECK(bounds.low < bounds.high);
  warm(bounds);
  for (int depth : {0, 1, 5, 60}) {
    Both both;
    nest(depth, [&] { both = capture_both(bounds); });
    check_same(both, static_cast<size_t>(depth) + 2);
  }
}

// At -O1, g++'s AddressSanitizer takes what an alloca hands out for variables of frames that were
// left before: the writes below are not checked.
__attribute__((no_sanitize_address)) NOINLINE static Both with_alloca(const StackBounds& bounds,
                                                                      size_t bytes) {
  auto* memory = static_cast<volatile char*>(alloca(bytes));
  memory[0] = 1;
  Both both = capture_both(bounds);
  memory[bytes - 1] = 2;
  return both;
}
NOINLINE static Both with_realigned_frame(const StackBounds& bounds, size_t bytes) {
  alignas(64) volatile char aligned[128];
  aligned[0] = static_cast<char>(bytes);
  Both both = with_alloca(bounds, bytes);
  aligned[127] = aligned[0];
  return both;
}
__attribute__((no_sanitize_address)) NOINLINE static Both with_realigned_alloca(
    const StackBounds& bounds, size_t bytes) {
  alignas(64) volatile char aligned[128];
  auto* memory = static_cast<volatile char*>(alloca(bytes));
  aligned[0] = memory[0] = 1;
  Both both = with_realigned_frame(bounds, bytes);
  memory[1] = aligned[0];
  return both;
}

TEST(frames_of_changing_size_and_alignment) {
  const StackBounds bounds = thread_stack_bounds();
  warm(bounds);
  for (size_t bytes : {16u, 100u, 5000u}) {
    check_same(with_alloca(bounds, bytes), 3);
    check_same(with_realigned_frame(bounds, bytes), 4);
    check_same(with_realigned_alloca(bounds, bytes), 5);
  }
}

static Both* sorted_both;
static const StackBounds* sorted_bounds;
NOINLINE static int compare_ints(const void* a, const void* b) {
  if (sorted_both->rules.empty()) *sorted_both = capture_both(*sorted_bounds);
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

TEST(through_the_c_library) {
  const StackBounds bounds = thread_stack_bounds();
  warm(bounds);
  Both both;
  sorted_both = &both;
  sorted_bounds = &bounds;
  int values[] = {5, 3, 1, 4};
  std::qsort(values, 4, sizeof(int), &compare_ints);
  check_same(both, 5);
}

static void* small_stack_thread(void* argument) {
  auto* both = static_cast<Both*>(argument);
  const StackBounds bounds = thread_stack_bounds();
  warm(bounds);
  nest(3, [&] { *both = capture_both(bounds); });
  return nullptr;
}

TEST(in_a_thread_with_the_smallest_stack) {
#if FASTPROF_TSAN
  return;  // the sanitizer itself does not fit
#endif
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  // Capture_both has 2 KB of its own.
  const auto least = static_cast<size_t>(PTHREAD_STACK_MIN) + 16 * 1024;
  CHECK_EQ(pthread_attr_setstacksize(&attributes, std::max<size_t>(least, 32 * 1024)), 0);
  Both both;
  pthread_t thread;
  CHECK_EQ(pthread_create(&thread, &attributes, &small_stack_thread, &both), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  check_same(both, 6);
}

TEST(depth_is_kept_and_the_recorders_own_frames_are_left_out) {
  const StackBounds bounds = thread_stack_bounds();
  uint64_t frames[kMaxCppFrames + 1];
  frames[10] = 0x5555;
  nest(40, [&] {
    const CppStack stack =
        capture_cpp_stack(frames, 10, nullptr, StackMethod::unwind_tables, bounds);
    CHECK_EQ(stack.count, 10u);
    CHECK(stack.truncated);
    CHECK_EQ(frames[10], uint64_t{0x5555});
    const CppStack none = capture_cpp_stack(frames, 0, nullptr, StackMethod::unwind_tables, bounds);
    CHECK_EQ(none.count, 0u);
    CHECK(none.truncated);
  });
  uint64_t first = 0;
  CppStack all{}, unknown{};
  auto inner = [&]() NOINLINE {
    const void* mine = __builtin_return_address(0);
    first = reinterpret_cast<uint64_t>(mine);
    all = capture_cpp_stack(frames, kMaxCppFrames, mine, StackMethod::unwind_tables, bounds);
    CHECK_EQ(frames[0], plain_code_address(first));
    // An address that is not on the stack: no frame is left out.
    unknown = capture_cpp_stack(frames, kMaxCppFrames, &first, StackMethod::unwind_tables, bounds);
  };
  inner();
  CHECK(!all.truncated);
  CHECK(unknown.count > all.count);
  nest(40, [&] {
    unknown = capture_cpp_stack(frames, kMaxCppFrames, &first, StackMethod::unwind_tables, bounds);
  });
  CHECK(unknown.count > 40u);
}

TEST(another_stack_is_left_to_the_unwinder) {
  // Bounds that do not hold: nothing is read by rule, and the frames are the same.
  const StackBounds bounds = thread_stack_bounds();
  uint64_t a[kMaxCppFrames], b[kMaxCppFrames];
  CppStack right{}, elsewhere{};
  for (int i = 0; i < 2; ++i) {
    const StackBounds& used = i == 0 ? bounds : StackBounds{0, 0};
    (i == 0 ? right : elsewhere) =
        capture_cpp_stack(i == 0 ? a : b, kMaxCppFrames, nullptr, StackMethod::unwind_tables, used);
  }
  CHECK_EQ(right.count, elsewhere.count);
  CHECK(right.count > 1);
  // The two calls return to different addresses in this function, when the loop is unrolled.
  CHECK(std::memcmp(a + 1, b + 1, (right.count - 1) * sizeof(uint64_t)) == 0);
}

static ucontext_t main_context, fiber_context;
static uint32_t fiber_frames;
static void fiber() {
  const StackBounds of_thread = thread_stack_bounds();
  uint64_t frames[kMaxCppFrames];
  nest(5, [&] {
    fiber_frames =
        capture_cpp_stack(frames, kMaxCppFrames, nullptr, StackMethod::unwind_tables, of_thread)
            .count;
    capture_cpp_stack(frames, kMaxCppFrames, nullptr, StackMethod::frame_pointers, of_thread);
  });
}

TEST(on_a_fiber) {
  std::vector<char> stack(256 * 1024);
  getcontext(&fiber_context);
  fiber_context.uc_stack.ss_sp = stack.data();
  fiber_context.uc_stack.ss_size = stack.size();
  fiber_context.uc_link = &main_context;
  makecontext(&fiber_context, &fiber, 0);
  swapcontext(&main_context, &fiber_context);
  CHECK(fiber_frames >= 6);
}

static std::atomic<uint32_t> handler_frames{0};
static StackBounds handler_bounds;
static void on_signal(int) {
  uint64_t frames[kMaxCppFrames];
  handler_frames =
      capture_cpp_stack(frames, kMaxCppFrames, nullptr, StackMethod::unwind_tables, handler_bounds)
          .count;
}

TEST(in_a_signal_handler_through_the_signal_frame) {
  handler_bounds = thread_stack_bounds();
  struct sigaction action;
  std::memset(&action, 0, sizeof action);
  action.sa_handler = &on_signal;
  sigaction(SIGUSR1, &action, nullptr);
  nest(20, [] { raise(SIGUSR1); });
  CHECK(handler_frames.load() > 22);
  static char alternate[65536];
  stack_t other{};
  other.ss_sp = alternate;
  other.ss_size = sizeof alternate;
  sigaltstack(&other, nullptr);
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, nullptr);
  handler_frames = 0;
  nest(20, [] { raise(SIGUSR1); });
  CHECK(handler_frames.load() > 22);
  other.ss_flags = SS_DISABLE;
  sigaltstack(&other, nullptr);
}

TEST(garbage_frame_pointers_end_the_walk) {
  // A made-up stack of random words, some of which point into it: the walk must stay inside, go up
  // only, and end.
  std::vector<uintptr_t> memory(4096);
  const auto low = reinterpret_cast<uintptr_t>(memory.data());
  const StackBounds bounds{low, low + memory.size() * sizeof(uintptr_t)};
  uint64_t seed = 12345;
  const auto random = [&] {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 20;
  };
  uint64_t frames[kMaxCppFrames];
  uint64_t total = 0;
  for (int round = 0; round < 3000; ++round) {
    for (int i = 0; i < 200; ++i) {
      const uint64_t kind = random() % 4;
      uintptr_t value = random() << 20;
      if (kind == 0) value = low + random() % (memory.size() * sizeof(uintptr_t) + 64) - 32;
      if (kind == 1) value = low + random() % memory.size() * sizeof(uintptr_t);
      memory[random() % memory.size()] = value;
    }
    const uintptr_t starts[] = {low + random() % memory.size() * 8,
                                low - 8,
                                bounds.high - 8,
                                bounds.high - 16,
                                bounds.high,
                                0,
                                ~uintptr_t{0} - 7,
                                static_cast<uintptr_t>(random())};
    for (const uintptr_t start : starts) {
      FrameSink sink(frames, kMaxCppFrames, nullptr);
      walk_frame_pointers(start, bounds, &sink);
      total += sink.count();
    }
  }
  CHECK(total > 1000);
  FrameSink sink(frames, kMaxCppFrames, nullptr);
  walk_frame_pointers(low, StackBounds{0, 0}, &sink);
  CHECK_EQ(sink.count(), 0u);
  walk_frame_pointers(0, StackBounds{0, 8}, &sink);
  CHECK_EQ(sink.count(), 0u);
}

TEST(frame_pointers_agree_where_they_are_kept) {
  // Three frames in a list, as the ABI lays them out.
  uintptr_t memory[16] = {};
  memory[2] = reinterpret_cast<uintptr_t>(&memory[6]);
  memory[3] = 0x1111;
  memory[6] = reinterpret_cast<uintptr_t>(&memory[10]);
  memory[7] = 0x2222;
  memory[10] = 0;
  memory[11] = 0x3333;
  const auto low = reinterpret_cast<uintptr_t>(memory);
  uint64_t frames[8];
  FrameSink sink(frames, 8, nullptr);
  walk_frame_pointers(low + 16, StackBounds{low, low + sizeof memory}, &sink);
  CHECK_EQ(sink.count(), 3u);
  CHECK_EQ(frames[2], uint64_t{0x3333});
  FrameSink two(frames, 2, nullptr);
  walk_frame_pointers(low + 16, StackBounds{low, low + sizeof memory}, &two);
  CHECK_EQ(two.count(), 2u);
  CHECK(two.truncated());
  FrameSink late(frames, 8, reinterpret_cast<const void*>(uintptr_t{0x2222}));
  walk_frame_pointers(low + 16, StackBounds{low, low + sizeof memory}, &late);
  CHECK_EQ(late.count(), 2u);
  CHECK_EQ(frames[0], uint64_t{0x2222});
}

// Sizes of pointers by their encoding: DWARF 5, section 7.27, and LSB Core 5.0, section 10.5.1.
TEST(common_entries_say_how_long_pointers_are) {
  using namespace unwind_detail;
  const auto read = [](const std::string& augmentation, uint8_t encoding) {
    std::string body = std::string(4, '\0') + '\1' + augmentation + '\0' + "\1\x78";
    body += static_cast<char>(kReturnAddress);
    if (!augmentation.empty() && augmentation[0] == 'z')
      body += {'\1', static_cast<char>(encoding)};
    const auto length = static_cast<uint32_t>(body.size());
    const std::string entry = std::string(reinterpret_cast<const char*>(&length), 4) + body;
    return read_common_entry(reinterpret_cast<const uint8_t*>(entry.data()));
  };
  const std::pair<int, unsigned> sizes[] = {{0x00, 8}, {0x1B, 4}, {0x03, 4}, {0x0A, 2}, {0x02, 2},
                                            {0x04, 8}, {0x9C, 8}, {0x01, 0}, {0x09, 0}};
  for (const auto& [encoding, bytes] : sizes) {
    const CommonEntry entry = read("zR", static_cast<uint8_t>(encoding));
    CHECK_EQ(entry.pointer_bytes, bytes);
    CHECK_EQ(entry.ok, bytes != 0);
    CHECK_EQ(entry.data_align, -8);
  }
  CHECK(!read("eh", 0).ok && !read("zS", 0).ok);
}

TEST(damaged_unwind_programs_give_no_rule_or_a_plain_one) {
  using namespace unwind_detail;
  uint64_t seed = 77;
  int plain = 0;
  for (int round = 0; round < 50000; ++round) {
    // def_cfa sp 8; offset ra 1; then anything.
    uint8_t program[24] = {0x0C, kStackPointer, 8, static_cast<uint8_t>(0x80 | kReturnAddress), 1};
    for (size_t i = round % 3 == 0 ? 0 : 5; i < sizeof program; ++i) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      program[i] = static_cast<uint8_t>(seed >> 40);
    }
    const std::vector<uint8_t> exact(program, program + 1 + (seed >> 33) % sizeof program);
    CommonEntry common;
    common.data_align = -8;
    Row row;
    if (!run_instructions(TableReader(exact.data(), exact.data() + exact.size()), common, 0, 40,
                          Row{}, &row))
      continue;
    const UnwindRule rule = rule_of_row(row);
    if (rule.cfa == UnwindRule::Cfa::unsupported || rule.cfa == UnwindRule::Cfa::outermost)
      continue;
    ++plain;
    CHECK(rule.cfa_offset % 8 == 0 && rule.return_address_below_cfa % 8 == 0);
    CHECK(rule.frame_pointer_below_cfa % 8 == 0);
  }
  CHECK(plain > 100);
}

TEST(threads_share_the_cache_while_it_is_cleared) {
  std::atomic<int> wrong{0};
  std::atomic<bool> stop{false};
  std::thread threads[3];
  for (int t = 0; t < 3; ++t)
    threads[t] = std::thread([&, t] {
      const StackBounds bounds = thread_stack_bounds();
      for (int i = 0; i < 2000; ++i)
        nest(t * 7 + i % 5, [&] {
          uint64_t a[kMaxCppFrames], b[kMaxCppFrames];
          CppStack by_rules{}, by_tables{};
          for (int pass = 0; pass < 2; ++pass)
            (pass == 0 ? by_rules : by_tables) = capture_cpp_stack(
                pass == 0 ? a : b, kMaxCppFrames, nullptr, StackMethod::unwind_tables,
                pass == 0 ? bounds : StackBounds{0, 0});
          if (by_rules.count != by_tables.count || by_rules.count < 2 ||
              std::memcmp(a + 1, b + 1, (by_rules.count - 1) * 8) != 0)
            ++wrong;
        });
    });
  std::thread clearing([&] {
    while (!stop) {
      clear_unwind_cache();
      std::this_thread::yield();
    }
  });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  clearing.join();
  CHECK_EQ(wrong.load(), 0);
}
