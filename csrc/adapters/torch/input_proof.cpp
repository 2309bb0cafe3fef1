// SPDX-License-Identifier: Apache-2.0
// The trial of an input layout, and the readers that are used once it has passed: see
// input_proof.hpp.
#include "adapters/torch/input_proof.hpp"

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>

#include "adapters/torch/checked_memory.hpp"
#include "adapters/torch/op_inputs.hpp"
#include "adapters/torch/record_function_layout.hpp"
#include "fastprof/base/error.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

constexpr size_t kRoom = 8192;  // many times the size of any RecordFunction

uintptr_t g_undefined = 0;  // set before g_encode
std::atomic<EncodeInputs> g_encode{nullptr};

uint32_t encode_2_13(const void* record_function, uint64_t* words, uint32_t capacity) noexcept {
  DirectMemory memory;
  return encode_inputs(kInputLayout_2_13, g_undefined, record_function, memory, words, capacity);
}

struct Trial {
  const Functions* functions;
  const InputLayout* layout;
  std::vector<TriedOp> ops;
};
Trial* g_trial = nullptr;

std::unique_ptr<ObserverContextView> start_tried(const RecordFunctionView& record_function) {
  Trial& trial = *g_trial;
  CheckedMemory memory;
  TriedOp op{trial.functions->name(&record_function),
             trial.functions->overload_name(&record_function),
             std::vector<uint64_t>(kMaxInputWords)};
  const uint32_t used =
      encode_inputs(*trial.layout, reinterpret_cast<uintptr_t>(trial.functions->undefined_tensor),
                    &record_function, memory, op.words.data(), kMaxInputWords);
  op.words.resize(memory.failed() ? 0 : used);
  trial.ops.push_back(std::move(op));
  return nullptr;
}

// An empty std::unordered_map (libstdc++) in a RecordFunction without inputs: its table is the one
// bucket inside itself. Behind the inputs, which are null and none.
const char* wrong_about_empty_inputs(const Functions& f, const InputLayout& layout) {
  if (layout.inputs > kRoom - 256 || layout.kwinputs != layout.inputs + 16)
    return "the inputs are elsewhere";
  auto memory = std::make_unique<unsigned char[]>(kRoom + 64);
  unsigned char* rf = memory.get() + (64 - reinterpret_cast<uintptr_t>(memory.get()) % 64);
  std::memset(rf, 0xA5, kRoom);
  f.construct(rf, 0);
  const uintptr_t map = reinterpret_cast<uintptr_t>(rf) + layout.kwinputs;
  const char* wrong = nullptr;
  if (field<uint64_t>(rf, layout.inputs) != 0 || field<uint64_t>(rf, layout.inputs + 8) != 0)
    wrong = "the inputs are elsewhere";
  else if (field<uintptr_t>(rf, layout.kwinputs) != map + 48 ||
           field<uint64_t>(rf, layout.kwinputs + 8) != 1 ||
           field<uint64_t>(rf, layout.kwinputs + 16) != 0 ||
           field<uint64_t>(rf, layout.kwinputs + 24) != 0 ||
           field<float>(rf, layout.kwinputs + 32) != 1.0f)
    wrong = "the keyword inputs are elsewhere";
  f.destroy(rf);
  return wrong;
}

const Functions& functions_of_prepared() {
  const char* why = nullptr;
  const Functions* functions = find_functions(&why);
  if (functions == nullptr)
    raise<StateError>(std::string("inputs of torch ops cannot be read: ") + why);
  return *functions;
}

}  // namespace

std::vector<TriedOp> try_inputs(const InputLayout& layout, const std::function<void()>& work,
                                std::string* why) {
  static std::mutex one;
  const std::unique_lock<std::mutex> hold(one, std::try_to_lock);
  if (!hold.owns_lock()) raise<StateError>("another thread tries known ops: try again");
  const Functions& functions = functions_of_prepared();
  if (functions.undefined_tensor == nullptr) {
    *why = "libc10 lacks c10::UndefinedTensorImpl";
    return {};
  }
  if (const char* wrong = wrong_about_empty_inputs(functions, layout)) {
    *why = wrong;
    return {};
  }
  Trial trial{&functions, &layout, {}};
  g_trial = &trial;
  {
    const ThreadCallback trying(functions, callback_for_all(&start_tried, nullptr, true));
    work();
  }
  return std::move(trial.ops);
}

void trust_inputs(std::string_view version) {
  if (find_input_layout(version) != &kInputLayout_2_13)
    raise<StateError>("torch " + std::string(version) + " is not in the table of input layouts");
  g_undefined = reinterpret_cast<uintptr_t>(functions_of_prepared().undefined_tensor);
  g_encode.store(&encode_2_13, std::memory_order_release);
}

EncodeInputs trusted_encoder() noexcept {
  return g_encode.load(std::memory_order_acquire);
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
