// SPDX-License-Identifier: Apache-2.0
// The observer: callbacks of at::RecordFunction that record ranges. See op_observer.hpp.
#include "adapters/torch/op_observer.hpp"

#include <cstring>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "adapters/torch/memory_reporter.hpp"
#include "adapters/torch/self_test.hpp"
#include "adapters/torch/thread_ops.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/primitives/scope_site.hpp"
#include "fastprof/process/attach.hpp"
#include "fastprof/recorder/detailed_range.hpp"
#include "fastprof/recorder/intern.hpp"
#include "fastprof/recorder/thread.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

// Set once by prepare(), before any callback exists.
const char* (*g_name)(const RecordFunctionView*) = nullptr;
Layout g_layout{};

// Which of our threads libtorch calls by which number. Grows with the threads that have run ops in
// a profile.
struct Threads {
  std::mutex lock;
  std::unordered_map<uint64_t, uint32_t> track_of;
};
Threads& threads() noexcept {
  static Threads& all = *new Threads;
  return all;
}

FASTPROF_COLD void note_thread(ThreadOps* ops, uint64_t thread_id) noexcept {
  const Track* track = current_track();
  if (track == nullptr) return;
  ops->track_known = true;
  Threads& all = threads();
  const std::lock_guard<std::mutex> hold(all.lock);
  all.track_of[thread_id] = track->id;
}

// 0 for a thread that has run no op in a profile.
FASTPROF_COLD uint32_t track_of(uint64_t thread_id) noexcept {
  Threads& all = threads();
  const std::lock_guard<std::mutex> hold(all.lock);
  const auto found = all.track_of.find(thread_id);
  return found == all.track_of.end() ? 0 : found->second;
}

constexpr uint64_t op_block(uint64_t count) noexcept {
  return static_cast<uint64_t>(DetailType::op) | count << 16;
}

struct AsyncSites {
  Site of[kNumRecordScopes];
};
constexpr AsyncSites make_async_sites() noexcept {
  AsyncSites sites{};
  for (size_t i = 0; i < kNumRecordScopes; ++i) {
    sites.of[i] = scope_sites[i];
    sites.of[i].kind = SiteKind::async_range;
  }
  return sites;
}
constexpr AsyncSites async_sites = make_async_sites();

RecordScope scope_of(uint8_t scope) noexcept {
  return scope < kNumRecordScopes ? static_cast<RecordScope>(scope) : RecordScope::FUNCTION;
}

FASTPROF_COLD const Site* intern_name(ThreadOps* ops, ThreadOps::Name& entry, const char* name,
                                      size_t length, uint8_t scope) noexcept {
  const Site* site = intern_site(scope_site(scope_of(scope)), std::string_view(name, length));
  // Tables full: the shared site has no name of its own, and the next look may fare better.
  if (site->name[0] == '\0') return site;
  entry = {name, site};
  ops->text_entry(name, length) = {length, site};
  return site;
}

FASTPROF_NOINLINE const Site* site_of_text(ThreadOps* ops, ThreadOps::Name& entry, const char* name,
                                           uint8_t scope) noexcept {
  const size_t length = std::strlen(name);
  const ThreadOps::Text& text = ops->text_entry(name, length);
  if (FASTPROF_LIKELY(text.site != nullptr && text.length == length &&
                      static_cast<uint8_t>(text.site->scope) == scope &&
                      std::memcmp(text.site->name, name, length) == 0))
    return text.site;
  return intern_name(ops, entry, name, length, scope);
}

// The op block of a record: nothing without a sequence number and ids; one unit with a sequence
// number; else two.
struct OpWords {
  uint64_t words[6];
  uint32_t count;  // 0, or words without the header and padding
};
FASTPROF_ALWAYS_INLINE OpWords op_words(int64_t sequence_nr, uint64_t forward_thread,
                                        uint64_t handle) noexcept {
  if (forward_thread == 0 && handle == 0) {
    if (sequence_nr < 0) return {{}, 0};
    return {{2, op_block(1), static_cast<uint64_t>(sequence_nr)}, 2};
  }
  return {{5, op_block(3), static_cast<uint64_t>(sequence_nr), forward_thread, handle, 0}, 4};
}

// Async ops, and every op while counters, stacks, a slow clock or a thread block at no fixed offset
// need the long way.
FASTPROF_COLD OpContext* begin_op_slow(State* s, ThreadOps* ops, const Site* site, const char* name,
                                       bool is_async, const OpWords& op) noexcept {
  ThreadBlock* block = thread_block();
  if (!wanted(s, block, site->mask)) return nullptr;
  auto* context = new (ops) OpContext;
  if (context == nullptr) return nullptr;
  if (is_async) site = intern_site(async_sites.of[static_cast<size_t>(site->scope)], name);
  const OpenRange open = begin_detailed(s, block, site, nullptr, op.words + 1, op.count);
  if (open.slot == nullptr) {
    delete context;
    return nullptr;
  }
  context->slot = open.slot;
  context->begin = open.begin;
  context->site = site;
  context->track = thread_block()->track->id;
  context->is_async = is_async;
  return context;
}

std::unique_ptr<ObserverContextView> start_op(const RecordFunctionView& record_function) noexcept {
  const void* rf = &record_function;
  State* s = state();
  const uint32_t mask = load_relaxed(&s->mask);
  if ((mask & (category::op | category::user | mask_bit::special)) == 0) return nullptr;
  report_memory_here();
  ThreadOps* ops = t_ops;
  if (FASTPROF_UNLIKELY(ops == nullptr)) {
    ops = make_thread_ops();
    if (ops == nullptr) return nullptr;
  }
  const char* name = g_name(&record_function);
  const auto scope = field<uint8_t>(rf, g_layout.scope);
  ThreadOps::Name& entry = ops->name_entry(name);
  const Site* site = entry.site;
  if (FASTPROF_UNLIKELY(entry.pointer != name || static_cast<uint8_t>(site->scope) != scope ||
                        std::strcmp(site->name, name) != 0))
    site = site_of_text(ops, entry, name, scope);
  if ((mask & (site->mask | mask_bit::special)) == 0) return nullptr;

  uint64_t forward_thread = field<uint64_t>(rf, g_layout.forward_thread_id);
  if (FASTPROF_UNLIKELY(!ops->track_known))
    note_thread(ops, field<uint64_t>(rf, g_layout.thread_id));
  if (forward_thread != 0) {
    if (FASTPROF_UNLIKELY(ops->forward_thread != forward_thread || ops->forward_track == 0)) {
      ops->forward_track = track_of(forward_thread);
      ops->forward_thread = forward_thread;
    }
    forward_thread = ops->forward_track;
  }
  const OpWords op = op_words(field<int64_t>(rf, g_layout.sequence_nr), forward_thread,
                              field<uint64_t>(rf, g_layout.handle));
  const auto is_async = field<uint8_t>(rf, g_layout.is_async);
  if (FASTPROF_UNLIKELY((mask & kColdBits) != 0 || is_async != 0))
    return std::unique_ptr<ObserverContextView>(
        begin_op_slow(s, ops, site, name, is_async != 0, op));

  ThreadBlock* block = static_thread_block();
  if ((mask & site->mask) == 0 && (block->mask & site->mask) == 0) return nullptr;
  auto* context = new (ops) OpContext;
  if (FASTPROF_UNLIKELY(context == nullptr)) return nullptr;
  const uint32_t units = 1 + (op.count + 1) / 2;
  Slot* slot = reserve(s, block, units, site->mask);
  if (FASTPROF_UNLIKELY(slot == nullptr)) {
    delete context;
    return nullptr;
  }
  RecordTag tag = RecordTag::slot;
  if (op.count != 0) {
    write_args(slot, op.words, (units - 1) * 3);
    tag = RecordTag::detailed;
  }
  context->slot = slot;
  context->site = site;
  context->track = block->track->id;
  context->begin = stamp_slot(slot, 0, site_word(site, tag));
  return std::unique_ptr<ObserverContextView>(context);
}

void end_op(const RecordFunctionView&, ObserverContextView* observer_context) noexcept {
  if (observer_context == nullptr) return;
  const auto* context = static_cast<const OpContext*>(observer_context);
  if (FASTPROF_UNLIKELY(context->is_async)) {
    const uint64_t begin = (context->begin >> 63) != 0 ? ~context->begin : context->begin;
    end_async(AsyncHandle{begin, context->site, context->track});
    return;
  }
  end_range(RangeHandle{context->slot, context->begin, context->site, context->track});
}

struct Observers {
  std::mutex lock;
  const Functions* functions = nullptr;  // once prepared
  uint64_t count = 0;
  uint64_t handle = 0;
};
Observers& observers() noexcept {
  static Observers& all = *new Observers;
  return all;
}

std::vector<SeenOp>* g_seen = nullptr;  // of the observe() in progress

std::unique_ptr<ObserverContextView> start_seen(const RecordFunctionView& record_function) {
  const void* rf = &record_function;
  g_seen->push_back({g_name(&record_function), field<uint8_t>(rf, g_layout.scope),
                     field<int64_t>(rf, g_layout.sequence_nr),
                     field<uint64_t>(rf, g_layout.thread_id),
                     field<uint64_t>(rf, g_layout.forward_thread_id)});
  return nullptr;
}

}  // namespace

std::string prepare(std::string_view version, bool cxx11_abi) {
  Observers& all = observers();
  const std::lock_guard<std::mutex> hold(all.lock);
  if (all.functions != nullptr) return {};
  const Layout* layout = find_layout(version, cxx11_abi);
  if (layout == nullptr)
    return "this build of fastprof does not know the layout of torch " + std::string(version) +
           (cxx11_abi ? "" : " with the older string ABI") + "; it knows " + known_versions() +
           ": install one of these, or a newer fastprof";
  const char* why = nullptr;
  const Functions* functions = find_functions(&why);
  if (functions != nullptr) why = self_test(*functions, *layout);
  if (why != nullptr)
    return "torch " + std::string(version) + " is not laid out as its version says (" + why +
           "): install an official build of it";
  g_layout = *layout;
  g_name = functions->name;
  all.functions = functions;
  return {};
}

void start_observing() {
  Observers& all = observers();
  const std::lock_guard<std::mutex> hold(all.lock);
  if (all.functions == nullptr)
    raise<StateError>("torch ops cannot be observed before prepare() has succeeded");
  if (all.count++ != 0) return;
  CallbackView callback{&start_op, &end_op, 1.0, {}, false, false, false};
  for (bool& scope : callback.scopes) scope = true;
  all.handle = all.functions->add_global_callback(callback);
}

void stop_observing() noexcept {
  Observers& all = observers();
  const std::lock_guard<std::mutex> hold(all.lock);
  if (all.count == 0 || --all.count != 0) return;
  all.functions->remove_callback(all.handle);
}

void forget_observers_in_child() noexcept {
  // The lock is not taken: another thread of the parent may have held it, and none of them is here.
  Observers& all = observers();
  new (&all.lock) std::mutex;
  new (&threads().lock) std::mutex;
  if (all.count == 0) return;
  all.count = 0;
  all.functions->remove_callback(all.handle);
}

Observed observe(const std::function<void()>& work) {
  static std::mutex one;
  // Not waited for: its holder may wait for something of the caller's, as the GIL.
  const std::unique_lock<std::mutex> hold(one, std::try_to_lock);
  if (!hold.owns_lock()) raise<StateError>("another thread observes known ops: try again");
  const Functions* functions = observers().functions;
  if (functions == nullptr)
    raise<StateError>("torch ops cannot be observed before prepare() has succeeded");
  Observed result{{}, functions->current_thread_id()};
  struct Guard {
    const Functions* functions;
    uint64_t handle;
    ~Guard() {
      functions->remove_callback(handle);
      g_seen = nullptr;
    }
  };
  CallbackView callback{&start_seen, nullptr, 1.0, {}, false, false, false};
  for (bool& scope : callback.scopes) scope = true;
  g_seen = &result.ops;
  const Guard guard{functions, functions->add_thread_local_callback(callback)};
  work();
  return result;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
