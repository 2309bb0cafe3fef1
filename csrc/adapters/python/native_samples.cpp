// SPDX-License-Identifier: Apache-2.0
// StackSampler: the samples of threads whose native stacks are read.
//
// A thread on a CPU is stopped by a signal, so that both parts of its stack belong together. One
// off the CPU is not: its stack does not change, and the signal would interrupt its system call.
// While a thread is stopped it may hold any lock, so only memory is copied; it runs on after 2 ms
// in any case. Frames are found later, and joined by the interpreter's loops (native_stacks.cpp).
#include <algorithm>

#include "adapters/python/stack_sampler.hpp"
#include "fastprof/platform/clock.hpp"
#include "fastprof/platform/threads.hpp"
#include "fastprof/sampling/stack_requests.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

constexpr int64_t kListedForNs = 10000000;  // new threads without Python are found so often

}  // namespace

void StackSampler::list_native_threads(int64_t now_ns) {
  if (listed_ns_ == 0 || now_ns - listed_ns_ >= kListedForNs) {
    listed_ns_ = now_ns;
    platform::list_threads(&tids_);
    for (const uint32_t tid : tids_) {
      const auto [own, added] = is_own_.emplace(tid, false);
      if (added) own->second = is_own_thread_name(platform::thread_name_of(tid));
    }
  }
  native_tids_.clear();
  const auto& threads = others_.threads();
  for (const uint32_t tid : tids_)
    if (!is_own_[tid] && std::none_of(threads.begin(), threads.end(),
                                      [tid](const ThreadWords& t) { return t.tid == tid; }))
      native_tids_.push_back(tid);
}

int32_t StackSampler::joined_node(const PythonPart& part) {
  int32_t at = -1;
  native_->join(part, [this, &at](uint32_t code, int line) { at = child(at, code, line); });
  ++counts_.native_stacks;
  return at;
}

// Reads the stack of a thread that is off the CPU; false if it ran meanwhile.
bool StackSampler::read_off_cpu(const Wanted& wanted) {
  Known& known = *wanted.known;
  const uint32_t tid = wanted.thread.tid;
  platform::CopiedStack stack;
  int64_t before_ns = 0;
  int64_t after_ns = 0;
  if (!platform::read_thread_cpu_ns(tid, &before_ns) ||
      !native_->copy_waiting(pid_, tid, known.extent, &stack) ||
      !read_python(wanted.thread, &part_) || !platform::read_thread_cpu_ns(tid, &after_ns) ||
      before_ns != after_ns)
    return false;
  native_->walk(stack, &known.extent);
  known.node = joined_node(part_);
  known.truncated = part_.truncated;
  return known.is_current = true;
}

void StackSampler::sample_wanted(int64_t now_ns, uint64_t number) {
  native_->refresh();
  size_t running = 0;
  for (const Wanted& wanted : wanted_) {
    Known& known = *wanted.known;
    if (!wanted.has_clock || !read_off_cpu(wanted)) {
      if (wanted.has_clock && !known.blocked.hold_at(number)) {
        wanted_[running++] = wanted;
        continue;
      }
      read_without_native(wanted);
    }
    finish(wanted, now_ns, number);
  }
  wanted_.resize(running);
  for (size_t first = 0; first < running; first += platform::ThreadStops::kSlots)
    sample_stopped(first, std::min(running - first, platform::ThreadStops::kSlots), now_ns, number);
}

void StackSampler::read_without_native(const Wanted& wanted) {
  Known& known = *wanted.known;
  ++counts_.without_native;
  known.is_current = read_node(wanted.thread, &known.node, &known.truncated);
}

// Requests the stacks of some of the wanted threads. While threads are stopped, only memory of the
// process is copied: they may hold any lock.
void StackSampler::sample_stopped(size_t first, size_t count, int64_t now_ns, uint64_t number) {
  enum class Answer : uint8_t { none, torn, complete };
  platform::ThreadStops& stops = native_->stops;
  Answer answers[platform::ThreadStops::kSlots] = {};
  stops.take_turn();
  size_t asked = 0;
  uint64_t is_asked = 0;
  for (size_t i = 0; i < count; ++i) {
    const Wanted& wanted = wanted_[first + i];
    if (!stops.ask(i, wanted.thread.tid, wanted.known->extent, true)) continue;
    is_asked |= uint64_t{1} << i;
    ++asked;
  }
  const int64_t deadline_ns = platform::monotonic_ns() + longest_answer_ns(period_ns_);
  while (asked != 0) {
    const int slot = stops.next(deadline_ns, true);
    if (slot < 0) break;
    const auto at = static_cast<size_t>(slot);
    if ((is_asked >> at & 1) == 0) {  // an answer to a withdrawn request
      stops.release(at);
      continue;
    }
    const bool is_whole = read_python(wanted_[first + at].thread, &parts_[at]);
    answers[at] = stops.release(at) && is_whole ? Answer::complete : Answer::torn;
    --asked;
  }
  for (size_t i = 0; i < count; ++i) {
    const Wanted& wanted = wanted_[first + i];
    Known& known = *wanted.known;
    if (answers[i] == Answer::none) {
      const bool is_withdrawn = (is_asked >> i & 1) != 0 && stops.cancel(i);
      known.blocked.missed(is_withdrawn && platform::blocks_stops(wanted.thread.tid), known.cpu_ns,
                           number);
      if (!read_off_cpu(wanted)) read_without_native(wanted);  // it was preempted
    } else {
      known.blocked.answered();
      known.is_current = answers[i] == Answer::complete;
      if (known.is_current) {
        native_->walk(stops.stack(i), &known.extent);
        known.node = joined_node(parts_[i]);
        known.truncated = parts_[i].truncated;
      }
    }
    finish(wanted, now_ns, number);
  }
  stops.end_turn();
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
