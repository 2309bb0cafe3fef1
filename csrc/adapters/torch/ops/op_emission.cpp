// SPDX-License-Identifier: Apache-2.0
// The callbacks that emit ops: see op_emission.hpp.
#include "adapters/torch/ops/op_emission.hpp"

#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <unordered_map>

#include "adapters/torch/inputs/input_proof.hpp"
#include "adapters/torch/inputs/op_tensors.hpp"
#include "adapters/torch/layout/checked_memory.hpp"
#include "adapters/torch/layout/direct_memory.hpp"
#include "adapters/torch/layout/op_name.hpp"
#include "adapters/torch/layout/op_view.hpp"
#include "adapters/torch/ops/op_observer.hpp"
#include "fastprof/base/child_handler.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/legacy/nvtx_text.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

// Set before a callback is registered, and kept after its removal, for ops that end later.
struct Emission {
  void (*push)(const char*) = nullptr;
  void (*pop)() = nullptr;
  uint64_t callback = 0;
};
Emission g_emissions[2];
Prepared g_torch{};
InputLayout g_layout{};

std::mutex g_emission_lock;

// The op that last returned a tensor, by the tensor's address.
struct Producers {
  std::mutex lock;
  std::unordered_map<uintptr_t, ProducerOp> by_tensor;
};
Producers& producers() noexcept {
  static Producers& all = *new Producers;
  return all;
}

std::string_view name_of(const RecordFunctionView& record_function) noexcept {
  if (g_op_view.name == 0) return g_torch.functions->name(&record_function);
  const NameView name =
      read_name(reinterpret_cast<uintptr_t>(&record_function), g_op_view.name, direct_memory);
  return {name.text, name.length};
}

void add_head(NvtxText& text, const RecordFunctionView& record_function) noexcept {
  text.add_head(name_of(record_function), field<int64_t>(&record_function, g_op_view.sequence_nr),
                field<uint64_t>(&record_function, g_op_view.handle));
}

void add_inputs(NvtxText& text, const RecordFunctionView& record_function, bool with_producers) {
  const uintptr_t undefined = g_op_view.undefined_tensor;
  if (field<uint64_t>(&record_function, g_layout.inputs + 8) == 0) return;
  text.open_sizes();
  for_each_input_tensor(
      &record_function, g_layout, direct_memory, undefined, true, [&](uintptr_t tensor) {
        const TensorSizes sizes = sizes_of(tensor, g_layout, direct_memory, undefined);
        text.add_shape(sizes.sizes, sizes.count);
      });
  text.close_list();
  if (!with_producers) return;
  text.open_producers();
  const std::lock_guard<std::mutex> hold(producers().lock);
  for_each_input_tensor(
      &record_function, g_layout, direct_memory, undefined, false, [&](uintptr_t tensor) {
        const auto found = producers().by_tensor.find(tensor);
        text.add_producer(found != producers().by_tensor.end() ? found->second : ProducerOp());
      });
  text.close_list();
}

std::unique_ptr<ObserverContextView> push_head(const RecordFunctionView& record_function) noexcept {
  NvtxText text;
  add_head(text, record_function);
  g_emissions[0].push(text.c_str());
  return nullptr;
}
template <bool with_producers>
std::unique_ptr<ObserverContextView> push_shapes(
    const RecordFunctionView& record_function) noexcept {
  NvtxText text;
  add_head(text, record_function);
  add_inputs(text, record_function, with_producers);
  g_emissions[0].push(text.c_str());
  return nullptr;
}
std::unique_ptr<ObserverContextView> push_name(const RecordFunctionView& record_function) noexcept {
  g_emissions[1].push(std::string(name_of(record_function)).c_str());
  return nullptr;
}

// An async op that ends on another thread cannot be popped there: it would end one of that
// thread's ranges.
bool ends_elsewhere(const RecordFunctionView& record_function) noexcept {
  return field<uint8_t>(&record_function, g_op_view.is_async) != 0 &&
         field<uint64_t>(&record_function, g_torch.layout.thread_id) !=
             g_torch.functions->current_thread_id();
}
template <int kind>
void pop(const RecordFunctionView& record_function, ObserverContextView*) noexcept {
  if (!ends_elsewhere(record_function)) g_emissions[kind].pop();
}
void pop_and_note_outputs(const RecordFunctionView& record_function,
                          ObserverContextView* context) noexcept {
  pop<0>(record_function, context);
  const auto handle = field<uint64_t>(&record_function, g_op_view.handle);
  const std::lock_guard<std::mutex> hold(producers().lock);
  for_each_output_tensor(&record_function, g_layout, direct_memory, g_op_view.undefined_tensor,
                         UINT64_MAX, [&](uint64_t index, uintptr_t tensor) {
                           try {
                             producers().by_tensor[tensor] = {handle, static_cast<int64_t>(index)};
                           } catch (const std::bad_alloc&) {
                             // Without memory, the producer stays unknown.
                           }
                         });
}

CallbackView callback_of(const EmissionRequest& request) noexcept {
  if (request.text == EmittedText::name_only) return callback_for_all(&push_name, &pop<1>, false);
  if (!request.shapes) return callback_for_all(&push_head, &pop<0>, false, true);
  if (!request.producers) return callback_for_all(&push_shapes<false>, &pop<0>, true, true);
  CallbackView callback = callback_for_all(&push_shapes<true>, &pop_and_note_outputs, true, true);
  callback.needs_outputs = true;
  return callback;
}

void renew_locks_in_child() noexcept {
  renew_lock(g_emission_lock);
  renew_guarded(producers().lock, producers().by_tensor);
}

InputLayout adopted_layout_or_raise() {
  const std::optional<InputLayout> layout = adopted_input_layout();
  if (!layout)
    raise<StateError>(
        "inputs of torch ops cannot be read before adopt_input_layout() has succeeded");
  return *layout;
}

Prepared prepared_or_raise() {
  const std::optional<Prepared> torch = prepared();
  if (!torch) raise<StateError>("torch ops cannot be observed before prepare() has succeeded");
  return *torch;
}

}  // namespace

void start_emitting_ops(const EmissionRequest& request) {
  static ChildHandler handler;
  handler.install(&renew_locks_in_child, producers());
  const std::lock_guard<std::mutex> hold(g_emission_lock);
  Emission& emission = g_emissions[static_cast<size_t>(request.text)];
  if (emission.callback != 0)
    raise<StateError>(
        "ops are already being emitted to this tool. Leave the other emission first.");
  g_torch = prepared_or_raise();
  if (request.shapes) g_layout = adopted_layout_or_raise();
  emission.push = request.push;
  emission.pop = request.pop;
  emission.callback = g_torch.functions->add_global_callback(callback_of(request));
}

void stop_emitting_ops(EmittedText text) noexcept {
  const std::lock_guard<std::mutex> hold(g_emission_lock);
  Emission& emission = g_emissions[static_cast<size_t>(text)];
  if (emission.callback == 0) return;
  g_torch.functions->remove_callback(emission.callback);
  emission.callback = 0;
  const std::lock_guard<std::mutex> hold_producers(producers().lock);
  if (text == EmittedText::nvtx) producers().by_tensor.clear();
}

namespace {

struct OutputTrial {
  TrialOutputs ops;
  Prepared torch;
  InputLayout layout;
};
OutputTrial* g_trial = nullptr;  // one at a time

void try_one(const RecordFunctionView& record_function, ObserverContextView*) {
  constexpr uint64_t kMostOutputs = 16;  // a wrong layout may claim any number
  CheckedMemory memory;
  std::vector<uint64_t> tensors;
  for_each_output_tensor(&record_function, g_trial->layout, memory,
                         reinterpret_cast<uintptr_t>(g_trial->torch.functions->undefined_tensor),
                         kMostOutputs,
                         [&](uint64_t, uintptr_t tensor) { tensors.push_back(tensor); });
  if (memory.failed()) tensors.clear();
  g_trial->ops.emplace_back(g_trial->torch.functions->name(&record_function), tensors);
}
std::unique_ptr<ObserverContextView> try_nothing(const RecordFunctionView&) {
  return nullptr;
}

}  // namespace

TrialOutputs try_outputs(const std::function<void()>& work) {
  OutputTrial trial{{}, prepared_or_raise(), adopted_layout_or_raise()};
  CallbackView callback = callback_for_all(&try_nothing, &try_one, false);
  callback.needs_outputs = true;
  g_trial = &trial;
  const ThreadCallback registered(*trial.torch.functions, callback);
  work();
  return std::move(trial.ops);
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
