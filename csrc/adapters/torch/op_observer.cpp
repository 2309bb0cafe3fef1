// SPDX-License-Identifier: Apache-2.0
// The observer: callbacks of at::RecordFunction that record ranges. See op_observer.hpp.
#include "adapters/torch/op_observer.hpp"

#include <cstring>
#include <functional>
#include <mutex>
#include <optional>

#include "adapters/torch/collective_metadata.hpp"
#include "adapters/torch/input_proof.hpp"
#include "adapters/torch/memory_reporter.hpp"
#include "adapters/torch/module_hierarchy.hpp"
#include "adapters/torch/op_inputs.hpp"
#include "adapters/torch/overload_sites.hpp"
#include "adapters/torch/self_test.hpp"
#include "adapters/torch/session_travel.hpp"
#include "adapters/torch/stack_capture.hpp"
#include "adapters/torch/thread_numbers.hpp"
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
uint64_t (*g_current_thread_id)() = nullptr;
const char* (*g_overload_name)(const RecordFunctionView*) = nullptr;
Layout g_layout{};

// Reads inputs while somebody wants them, else null. Written under Observers::lock.
EncodeInputs g_encode_inputs = nullptr;

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

bool same_overload(const Site* site, const char* overload) noexcept {
  return std::strcmp(site->function != nullptr ? site->function : "", overload) == 0;
}

FASTPROF_COLD const Site* intern_name(ThreadOps* ops, ThreadOps::Name& entry, const char* name,
                                      size_t length, uint8_t scope, const char* overload) noexcept {
  const Site* site = intern_site(site_with_overload(scope_site(scope_of(scope)), overload),
                                 std::string_view(name, length));
  // Tables full: the shared site has no name of its own, and the next look may fare better.
  if (site->name[0] == '\0') return site;
  entry = {name, site};
  ops->text_entry(name, length) = {length, site};
  return site;
}

FASTPROF_HOT FASTPROF_NOINLINE const Site* site_of_text(
    ThreadOps* ops, ThreadOps::Name& entry, const char* name, uint8_t scope,
    const RecordFunctionView& record_function) noexcept {
  const size_t length = std::strlen(name);
  const char* overload = g_overload_name(&record_function);
  const ThreadOps::Text& text = ops->text_entry(name, length);
  if (FASTPROF_LIKELY(text.site != nullptr && text.length == length &&
                      static_cast<uint8_t>(text.site->scope) == scope &&
                      std::memcmp(text.site->name, name, length) == 0 &&
                      same_overload(text.site, overload)))
    return text.site;
  return intern_name(ops, entry, name, length, scope, overload);
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
// need the long way. `words`: a header that is not filled in, then `count` words of blocks.
FASTPROF_COLD OpContext* begin_op_slow(State* s, ThreadOps* ops, const Site* site, const char* name,
                                       bool is_async, const uint64_t* words,
                                       uint32_t count) noexcept {
  ThreadBlock* block = thread_block();
  if (!wanted(s, block, site->mask)) return nullptr;
  auto* context = new (ops) OpContext;
  if (context == nullptr) return nullptr;
  if (is_async) site = intern_site(async_sites.of[static_cast<size_t>(site->scope)], name);
  const OpenRange open = begin_detailed(s, block, site, nullptr, words + 1, count);
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

// `words`: a header, filled in, then `count` words of blocks, then zeros to a whole unit.
FASTPROF_ALWAYS_INLINE OpContext* begin_op(State* s, uint32_t mask, ThreadOps* ops,
                                           const Site* site, const char* name, bool is_async,
                                           const uint64_t* words, uint32_t count) noexcept {
  if (FASTPROF_UNLIKELY((mask & kColdBits) != 0 || is_async))
    return begin_op_slow(s, ops, site, name, is_async, words, count);
  ThreadBlock* block = static_thread_block();
  if ((mask & site->mask) == 0 && (block->mask & site->mask) == 0) return nullptr;
  auto* context = new (ops) OpContext;
  if (FASTPROF_UNLIKELY(context == nullptr)) return nullptr;
  const uint32_t units = count == 0 ? 1 : 1 + (count + 3) / 3;
  Slot* slot = reserve(s, block, units, site->mask);
  if (FASTPROF_UNLIKELY(slot == nullptr)) {
    delete context;
    return nullptr;
  }
  // Work of another kind lies between two ops, so that the processor does not see where this goes.
  __builtin_prefetch(slot + units + 8, 1);
  __builtin_prefetch(slot + units + 11, 1);
  RecordTag tag = RecordTag::slot;
  if (count != 0) {
    write_args(slot, words, (units - 1) * 3);
    tag = RecordTag::detailed;
  }
  context->slot = slot;
  context->site = site;
  context->track = block->track->id;
  context->begin = stamp_slot(slot, 0, site_word(site, tag));
  return context;
}

// The op that encloses others must be one of libtorch's own, which lives on the C stack: a user's
// range is begun by one Python call and ended by another, and what called it may be gone meanwhile.
// Stacks grow downwards, so that what began before lies above.
FASTPROF_ALWAYS_INLINE uint64_t op_stack(ThreadOps* ops, CaptureStack capture,
                                         const void* rf) noexcept {
  EnclosingStack& enclosing = ops->enclosing;
  if (enclosing.op != nullptr && std::less<const void*>()(enclosing.op, rf))
    enclosing.op = nullptr;  // its end came to another thread
  return capture(enclosing);
}

// The same with the Python stack, the modules and the op's inputs as blocks behind those of `op`;
// what is asked for each may be null.
FASTPROF_HOT FASTPROF_NOINLINE OpContext* begin_op_with_blocks(
    State* s, uint32_t mask, ThreadOps* ops, const Site* site, const char* name, bool is_async,
    const OpWords& op, CaptureStack capture_stack, ModuleHierarchy module_hierarchy,
    EncodeInputs encode, const void* rf) noexcept {
  uint64_t words[sizeof op.words / sizeof op.words[0] + 5 + kMaxInputWords + 3];
  uint32_t count = op.count;
  for (uint32_t i = 1; i <= count; ++i) words[i] = op.words[i];
  const uint64_t stack = capture_stack != nullptr ? op_stack(ops, capture_stack, rf) : 0;
  const auto put = [&words, &count](DetailType type, uint64_t word) {
    words[count + 1] = static_cast<uint64_t>(type) | uint64_t{1} << 16;
    words[count + 2] = word;
    count += 2;
  };
  if (stack != 0) put(DetailType::python_stack, stack);
  // Not of backward functions, as in PyTorch: they run outside of the interpreter.
  const char* modules = module_hierarchy != nullptr && site->scope != RecordScope::BACKWARD_FUNCTION
                            ? module_hierarchy()
                            : nullptr;
  if (modules != nullptr) put(DetailType::modules, reinterpret_cast<uintptr_t>(modules));
  uint64_t* const block = words + count + 2;
  uint32_t inputs = encode == nullptr ? 0 : encode(rf, block, kMaxInputWords);
  if (is_collective(name))
    inputs = append_collective_metadata(*static_cast<const RecordFunctionView*>(rf), block, inputs,
                                        kMaxInputWords);
  if (inputs != 0) {
    words[count + 1] = static_cast<uint64_t>(DetailType::shapes) | uint64_t{inputs} << 16;
    count += 1 + inputs;
  }
  if (count == 0) return begin_op(s, mask, ops, site, name, is_async, words, 0);
  words[count + 1] = words[count + 2] = 0;       // padding
  words[0] = (count + 3) / 3 * uint64_t{3} - 1;  // DetailHeader
  OpContext* context = begin_op(s, mask, ops, site, name, is_async, words, count);
  if (stack != 0 && context != nullptr && ops->enclosing.op == nullptr && !is_async &&
      site->scope != RecordScope::USER_SCOPE) {
    ops->enclosing.op = rf;
    context->encloses = true;
  }
  return context;
}

FASTPROF_HOT std::unique_ptr<ObserverContextView> start_op(
    const RecordFunctionView& record_function) noexcept {
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
  if (FASTPROF_UNLIKELY(ops->paused)) return nullptr;
  if (FASTPROF_UNLIKELY((mask & (mask_bit::local | mask_bit::dynamic)) != 0)) take_up_sessions(ops);
  const char* name = g_name(&record_function);
  const auto scope = field<uint8_t>(rf, g_layout.scope);
  ThreadOps::Name& entry = ops->name_entry(name);
  const Site* site = entry.site;
  if (FASTPROF_UNLIKELY(entry.pointer != name || static_cast<uint8_t>(site->scope) != scope ||
                        std::strcmp(site->name, name) != 0))
    site = site_of_text(ops, entry, name, scope, record_function);
  if ((mask & (site->mask | mask_bit::special)) == 0) return nullptr;

  uint64_t forward_thread = field<uint64_t>(rf, g_layout.forward_thread_id);
  if (FASTPROF_UNLIKELY(!ops->track_known)) ops->track_known = note_thread(g_current_thread_id());
  if (forward_thread != 0) {
    if (FASTPROF_UNLIKELY(ops->forward_thread != forward_thread || ops->forward_track == 0)) {
      ops->forward_track = track_of(forward_thread);
      ops->forward_thread = forward_thread;
    }
    forward_thread = ops->forward_track;
  }
  const OpWords op = op_words(field<int64_t>(rf, g_layout.sequence_nr), forward_thread,
                              field<uint64_t>(rf, g_layout.handle));
  const auto is_async = field<uint8_t>(rf, g_layout.is_async) != 0;
  const EncodeInputs encode = load_relaxed(&g_encode_inputs);
  const CaptureStack capture_stack = load_relaxed(&g_capture_stack);
  const ModuleHierarchy module_hierarchy = load_relaxed(&g_module_hierarchy);
  if (encode != nullptr || capture_stack != nullptr || module_hierarchy != nullptr ||
      is_collective(name))
    return std::unique_ptr<ObserverContextView>(begin_op_with_blocks(
        s, mask, ops, site, name, is_async, op, capture_stack, module_hierarchy, encode, rf));
  return std::unique_ptr<ObserverContextView>(
      begin_op(s, mask, ops, site, name, is_async, op.words, op.count));
}

FASTPROF_HOT void end_op(const RecordFunctionView& record_function,
                         ObserverContextView* observer_context) noexcept {
  if (observer_context == nullptr) return;
  const auto* context = static_cast<const OpContext*>(observer_context);
  if (context->encloses) {
    ThreadOps* ops = t_ops;
    if (ops != nullptr && ops->enclosing.op == &record_function) ops->enclosing.op = nullptr;
  }
  if (FASTPROF_UNLIKELY(context->is_async)) {
    const uint64_t begin = (context->begin >> 63) != 0 ? ~context->begin : context->begin;
    end_async(AsyncHandle{begin, context->site, context->track});
    return;
  }
  end_range(RangeHandle{context->slot, context->begin, context->site, context->track});
}

std::unique_ptr<ObserverContextView> start_nothing(const RecordFunctionView&) noexcept {
  return nullptr;
}

struct Observers {
  std::mutex lock;
  const Functions* functions = nullptr;  // once prepared
  uint64_t count = 0;
  uint64_t handle = 0;
  bool handle_has_inputs = false;
  uint64_t inputs_count = 0;   // of those who want inputs
  uint64_t inputs_handle = 0;  // a callback that only asks for inputs, where `handle` does not
};
Observers& observers() noexcept {
  static Observers& all = *new Observers;
  return all;
}

}  // namespace

std::string prepare(std::string_view version, bool cxx11_abi, const Layout* given) {
  Observers& all = observers();
  const std::lock_guard<std::mutex> hold(all.lock);
  if (all.functions != nullptr) return {};
  const Layout* layout = given != nullptr ? given : find_layout(version, cxx11_abi);
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
  g_current_thread_id = functions->current_thread_id;
  g_overload_name = functions->overload_name;
  prepare_collective_metadata();
  all.functions = functions;
  return {};
}

std::optional<Prepared> prepared() {
  Observers& all = observers();
  const std::lock_guard<std::mutex> hold(all.lock);
  if (all.functions == nullptr) return std::nullopt;
  return Prepared{all.functions, g_layout};
}

void start_observing(bool inputs) {
  Observers& all = observers();
  const std::lock_guard<std::mutex> hold(all.lock);
  if (all.functions == nullptr)
    raise<StateError>("torch ops cannot be observed before prepare() has succeeded");
  if (inputs && trusted_encoder() == nullptr)
    raise<StateError>("inputs of torch ops cannot be read before trust_inputs() has succeeded");
  const auto add = all.functions->add_global_callback;
  if (all.count++ == 0) {
    all.handle = add(callback_for_all(&start_op, &end_op, inputs));
    all.handle_has_inputs = inputs;
  }
  if (!inputs || all.inputs_count++ != 0) return;
  // libtorch hands inputs to all callbacks when one asks for them.
  if (!all.handle_has_inputs)
    all.inputs_handle = add(callback_for_all(&start_nothing, nullptr, true));
  store_relaxed(&g_encode_inputs, trusted_encoder());
}

void stop_observing(bool inputs) noexcept {
  Observers& all = observers();
  const std::lock_guard<std::mutex> hold(all.lock);
  if (all.count == 0) return;
  if (inputs && --all.inputs_count == 0) {
    store_relaxed(&g_encode_inputs, EncodeInputs{nullptr});
    if (all.inputs_handle != 0) all.functions->remove_callback(all.inputs_handle);
    all.inputs_handle = 0;
  }
  if (--all.count != 0) return;
  all.functions->remove_callback(all.handle);
}

void forget_observers_in_child() noexcept {
  // The lock is not taken: another thread of the parent may have held it, and none of them is here.
  Observers& all = observers();
  new (&all.lock) std::mutex;
  renew_thread_numbers_in_child();
  renew_overload_sites_in_child();
  if (all.count == 0) return;
  all.count = all.inputs_count = 0;
  g_encode_inputs = nullptr;
  if (all.inputs_handle != 0) all.functions->remove_callback(all.inputs_handle);
  all.inputs_handle = 0;
  all.functions->remove_callback(all.handle);
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
