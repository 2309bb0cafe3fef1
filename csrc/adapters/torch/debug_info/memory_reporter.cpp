// SPDX-License-Identifier: Apache-2.0
// Implementation of the memory reporter: see memory_reporter.hpp.
#include "adapters/torch/debug_info/memory_reporter.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <vector>

#include "adapters/torch/debug_info/debug_info_links.hpp"
#include "adapters/torch/layout/op_view.hpp"
#include "fastprof/base/child_handler.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/leader/attach.hpp"
#include "fastprof/recorder/hot_path/memory.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

namespace {

// As record_memory, with the common case inline: called for every tensor allocation and free.
FASTPROF_ALWAYS_INLINE void record(void* ptr, int64_t size_bytes, size_t total_allocated_bytes,
                                   size_t total_reserved_bytes, DeviceView device) noexcept {
  State* s = state();
  const uint32_t mask = load_relaxed(&s->mask);
  if ((mask & (category::memory | mask_bit::special)) == 0) return;
  if (FASTPROF_UNLIKELY((mask & kColdBits) != 0)) {
    record_memory(ptr, size_bytes, total_allocated_bytes, total_reserved_bytes, device.type,
                  device.index);
    return;
  }
  ThreadBlock* block = static_thread_block();
  if ((mask & category::memory) == 0 && (block->mask & category::memory) == 0) return;
  Slot* slot = reserve(s, block, 1u + memory_site.arg_units, memory_site.mask);
  if (FASTPROF_UNLIKELY(slot == nullptr)) return;
  const uint64_t words[3] = {static_cast<uint64_t>(size_bytes), total_allocated_bytes,
                             pack_device(total_reserved_bytes, device.type, device.index)};
  write_args(slot, words, 3);
  stamp_slot(slot, reinterpret_cast<uintptr_t>(ptr), reinterpret_cast<uintptr_t>(&memory_site));
}

// libtorch casts the object in PROFILER_STATE to its own profiler state, which has one more virtual
// function and data members, to test whether a profiler runs. Spare functions returning 0 and
// zeroed memory make that test return "no profiler". Both are several times larger than needed.
struct Reporter : MemoryReportingView {
  void report_memory_usage(void* ptr, int64_t size_bytes, size_t total_allocated_bytes,
                           size_t total_reserved_bytes, DeviceView device) noexcept override {
    record(ptr, size_bytes, total_allocated_bytes, total_reserved_bytes, device);
  }
  void report_out_of_memory(int64_t size_bytes, size_t total_allocated_bytes,
                            size_t total_reserved_bytes, DeviceView device) noexcept override {
    record_out_of_memory(size_bytes, total_allocated_bytes, total_reserved_bytes, device.type,
                         device.index);
  }
  bool memory_profiling_enabled() const noexcept override {
    return (load_relaxed(&g_op_view.wants) & op_extra::memory) != 0;
  }
  virtual int64_t no_profiler_0() const noexcept { return 0; }
  virtual int64_t no_profiler_1() const noexcept { return 0; }
  virtual int64_t no_profiler_2() const noexcept { return 0; }
  virtual int64_t no_profiler_3() const noexcept { return 0; }
  virtual int64_t no_profiler_4() const noexcept { return 0; }
  virtual int64_t no_profiler_5() const noexcept { return 0; }
  virtual int64_t no_profiler_6() const noexcept { return 0; }
  virtual int64_t no_profiler_7() const noexcept { return 0; }

  alignas(64) unsigned char no_profiler_state[4096] = {};
};

struct TrialReporter final : Reporter {
  void report_memory_usage(void*, int64_t size_bytes, size_t, size_t,
                           DeviceView) noexcept override {
    if (count != sizes.size()) sizes[count++] = size_bytes;
  }
  bool memory_profiling_enabled() const noexcept override { return true; }

  std::array<int64_t, 16> sizes{};
  size_t count = 0;
};

thread_local bool t_hidden = false;

struct Reporting {
  std::mutex lock;
  const DebugInfoFunctions* functions = nullptr;  // set by prepare_memory(), then constant
  std::shared_ptr<Reporter> reporter;
  uint64_t count = 0;
  std::vector<std::weak_ptr<DebugInfoLink>> links;  // links that hold the reporter
  size_t tidy_at = 64;
};
Reporting& reporting() noexcept {
  static Reporting& all = *new Reporting;
  return all;
}

bool holds_reporter(const Reporting& all, const DebugInfoLink& link) noexcept {
  return all.functions->kind_of(link) == all.functions->profiler_state &&
         link.info.get() == all.reporter.get();
}

// Requires all.lock. The PROFILER_STATE entry must be free.
void push_reporter(Reporting& all) {
  const DebugInfoFunctions& f = *all.functions;
  drop_retired(f);
  if (all.links.size() >= all.tidy_at) {
    all.links.erase(std::remove_if(all.links.begin(), all.links.end(),
                                   [](const auto& link) { return link.expired(); }),
                    all.links.end());
    all.tidy_at = std::max<size_t>(64, all.links.size() * 2);
  }
  all.links.emplace_back();  // first, because it may throw
  f.push(f.profiler_state, all.reporter);
  all.links.back() = f.current();
}

// Requires all.lock.
bool withdraw_from_chain(Reporting& all) {
  return retire_from_chain(*all.functions,
                           [&](const DebugInfoLink& link) { return holds_reporter(all, link); });
}

}  // namespace

std::string prepare_memory(std::string_view version, const DebugInfoKinds* given) {
  Reporting& all = reporting();
  const std::lock_guard<std::mutex> hold(all.lock);
  if (all.functions != nullptr) return {};
  const DebugInfoKinds* kinds = given != nullptr ? given : find_debug_info_kinds(version);
  if (kinds == nullptr)
    return "this version of fastprof has no layout for the memory reports of torch " +
           std::string(version);
  const char* why = nullptr;
  const DebugInfoFunctions* functions = find_debug_info_functions(*kinds, &why);
  if (functions != nullptr) why = test_debug_info(*functions);
  if (why != nullptr)
    return std::string("its memory reports differ from those of the official build (") + why +
           "). Install an official build of torch.";
  all.reporter = std::make_shared<Reporter>();
  all.functions = functions;
  return {};
}

const DebugInfoFunctions* prepared_debug_info() {
  Reporting& all = reporting();
  const std::lock_guard<std::mutex> hold(all.lock);
  return all.functions;
}

std::vector<int64_t> try_reports(const std::function<void()>& work) {
  const DebugInfoFunctions* f = prepared_debug_info();
  if (f == nullptr) raise<StateError>("prepare_memory() has not succeeded");
  const auto reporter = std::make_shared<TrialReporter>();
  f->push(f->profiler_state, reporter);
  const auto end = [&] {
    retire_from_chain(*f, [&](const DebugInfoLink& link) {
      return f->kind_of(link) == f->profiler_state && link.info.get() == reporter.get();
    });
  };
  try {
    work();
  } catch (...) {
    end();
    throw;
  }
  end();
  return {reporter->sizes.begin(), reporter->sizes.begin() + reporter->count};
}

bool start_reporting() {
  Reporting& all = reporting();
  const std::lock_guard<std::mutex> hold(all.lock);
  if (all.functions == nullptr)
    raise<StateError>("torch's memory cannot be observed before prepare_memory() has succeeded");
  const DebugInfoFunctions& f = *all.functions;
  const DebugInfoView* holder = f.get(f.profiler_state);
  if (holder == nullptr) push_reporter(all);
  if (all.count++ == 0) want_with_ops(op_extra::memory, true);  // after all.functions is set
  return holder == nullptr || holder == all.reporter.get();
}

void stop_reporting() noexcept {
  Reporting& all = reporting();
  const std::lock_guard<std::mutex> hold(all.lock);
  if (all.count == 0 || --all.count != 0) return;
  want_with_ops(op_extra::memory, false);
  for (const auto& weak : all.links)
    if (const std::shared_ptr<DebugInfoLink> link = weak.lock())
      if (holds_reporter(all, *link)) retire(*all.functions, *link);
  all.links.clear();
  try {
    drop_retired(*all.functions);
  } catch (...) {  // the link stays in the chain, retired
  }
}

void report_from_thread() noexcept {
  Reporting& all = reporting();
  const DebugInfoFunctions* functions = all.functions;
  if (functions->get(functions->profiler_state) != nullptr) return;  // ours, or torch.profiler's
  if (t_hidden) return;
  try {
    const std::lock_guard<std::mutex> hold(all.lock);
    if (all.count != 0) push_reporter(all);
  } catch (...) {  // no memory for a link: the next op retries
  }
}

bool reporter_is_on_thread() noexcept {
  const Reporting& all = reporting();
  const DebugInfoFunctions* functions = all.functions;
  return functions != nullptr && functions->get(functions->profiler_state) == all.reporter.get();
}

void hide_memory_of_this_thread() noexcept {
  t_hidden = true;
}

bool withdraw_reporter() noexcept {
  Reporting& all = reporting();
  try {
    const std::lock_guard<std::mutex> hold(all.lock);
    return all.functions != nullptr && withdraw_from_chain(all);
  } catch (...) {
    return false;
  }
}

void forget_reporters_in_child() noexcept {
  Reporting& all = reporting();
  // Another thread of the parent may have held the lock and been modifying the data it guards.
  renew_lock(all.lock);
  new (&all.links) std::vector<std::weak_ptr<DebugInfoLink>>;
  all.count = 0;
  want_with_ops(op_extra::memory, false);
  withdraw_reporter();
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
