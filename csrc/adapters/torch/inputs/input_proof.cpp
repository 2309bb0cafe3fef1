// SPDX-License-Identifier: Apache-2.0
// Verification of an input layout, and the encoders used afterwards: see input_proof.hpp.
#include "adapters/torch/inputs/input_proof.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>

#include "adapters/torch/inputs/op_inputs.hpp"
#include "adapters/torch/layout/checked_memory.hpp"
#include "adapters/torch/layout/record_function_layout.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/platform/symbols.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

constexpr size_t kScratchBytes = 8192;  // much larger than any RecordFunction

InputLayout g_layout{};  // g_layout and g_codes are set before g_encode
ScalarCodes g_codes{};
std::atomic<EncodeInputs> g_encode{nullptr};
std::atomic<uint32_t> g_storage{0};  // offset of a tensor's storage; 0: unknown

struct DiscoveredSource {
  static constexpr bool kStorages = false;
  static const InputLayout& layout() noexcept { return g_layout; }
  static const ScalarCodes& codes() noexcept { return g_codes; }
  static uintptr_t undefined() noexcept { return g_op_view.undefined_tensor; }
};

// As DiscoveredSource, with the storages of tensors.
struct StorageSource : DiscoveredSource {
  static constexpr bool kStorages = true;
  static uint32_t storage() noexcept { return g_storage.load(std::memory_order_relaxed); }
};

template <class Source>
FASTPROF_HOT uint32_t encode(const void* record_function, uint64_t* words,
                             uint32_t capacity) noexcept {
  return encode_inputs(record_function, Source{}, direct_memory, words, capacity);
}

// Includes storages while allocations are recorded: together they give the data flow that memory
// categories need. Without allocations, blocks stay equal from call to call and are stored once.
FASTPROF_HOT uint32_t encode_by_wants(const void* record_function, uint64_t* words,
                                      uint32_t capacity) noexcept {
  if ((load_relaxed(&g_op_view.wants) & op_extra::memory) != 0)
    return encode<StorageSource>(record_function, words, capacity);
  return g_encode.load(std::memory_order_relaxed)(record_function, words, capacity);
}

struct Trial {
  const Functions* functions;
  const InputLayout* layout;
  uint32_t storage;
  std::vector<TriedOp> ops;
};
Trial* g_trial = nullptr;

// Reads the string inputs by position.
std::vector<std::string> read_texts(const InputLayout& layout, const void* record_function,
                                    CheckedMemory& memory) {
  const auto rf = reinterpret_cast<uintptr_t>(record_function);
  const auto inputs = memory.load<uintptr_t>(rf + layout.inputs);
  const auto count = memory.load<uint64_t>(rf + layout.inputs + 8);
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < count && !memory.failed(); ++i) {
    const ValueView value = load_value(memory, inputs + i * sizeof(ValueView));
    if (value.tag != layout.tag_text) continue;
    const TextBounds bounds = StandardLibrary::load_text(memory, value.payload + layout.text);
    CheckedMemory::Scratch<char, kMaxInputTextBytes> room;
    const char* bytes = room.view(memory, bounds.text, bounds.length);
    if (bytes == nullptr) break;
    texts.emplace_back(bytes, bounds.length);
  }
  return texts;
}

std::unique_ptr<ObserverContextView> start_tried(const RecordFunctionView& record_function) {
  Trial& trial = *g_trial;
  CheckedMemory memory;
  TriedOp op{trial.functions->name(&record_function),
             trial.functions->overload_name(&record_function),
             std::vector<uint64_t>(kMaxInputWords),
             {}};
  const ScalarCodes codes(*trial.layout);
  const uint32_t used =
      encode_inputs(&record_function,
                    CandidateSource{*trial.layout, codes,
                                    reinterpret_cast<uintptr_t>(trial.functions->undefined_tensor),
                                    trial.storage},
                    memory, op.words.data(), kMaxInputWords);
  op.texts = read_texts(*trial.layout, &record_function, memory);
  op.words.resize(memory.failed() ? 0 : used & ~kInputsLeftOut);
  trial.ops.push_back(std::move(op));
  return nullptr;
}

// Checks a RecordFunction without inputs. Its inputs are null and 0, followed by an empty
// std::unordered_map.
const char* wrong_about_empty_inputs(const Functions& f, const InputLayout& layout) {
  if (layout.inputs > kScratchBytes - 256 || layout.kwinputs != layout.inputs + 16)
    return "the inputs lie at another offset";
  auto memory = std::make_unique<unsigned char[]>(kScratchBytes + 64);
  unsigned char* rf = memory.get() + (64 - reinterpret_cast<uintptr_t>(memory.get()) % 64);
  std::memset(rf, 0xA5, kScratchBytes);
  f.construct(rf, 0);
  const uintptr_t map = reinterpret_cast<uintptr_t>(rf) + layout.kwinputs;
  const char* wrong = nullptr;
  if (field<uint64_t>(rf, layout.inputs) != 0 || field<uint64_t>(rf, layout.inputs + 8) != 0)
    wrong = "the inputs lie at another offset";
  else if (!StandardLibrary::is_empty_map(direct_memory, map))
    wrong = "the keyword inputs lie at another offset";
  f.destroy(rf);
  return wrong;
}

// The undefined tensor is a plain TensorImpl, and its symbol has a size: compares it with
// size_bytes.
bool tensors_have_size(const Functions& f, uint32_t size_bytes) noexcept {
  return platform::symbol_size(f.undefined_tensor) == size_bytes;
}

// Rejects offsets beyond the end of a tensor, where memory may match by chance.
const char* wrong_about_tensor_fields(const InputLayout& layout) noexcept {
  const auto inside = [&layout](uint64_t at, uint64_t bytes) {
    return at + bytes <= layout.tensor_size;
  };
  if (inside(layout.sizes, 8 + 16 * uint64_t{layout.inline_dims}) && inside(layout.dtype, 2) &&
      inside(layout.key_set, 8) && inside(layout.symbolic, 1))
    return nullptr;
  return "a field of a tensor lies outside the tensor";
}

const Functions& functions_of_prepared() {
  const char* why = nullptr;
  const Functions* functions = find_functions(&why);
  if (functions == nullptr)
    raise<StateError>(std::string("inputs of torch ops cannot be read: ") + why);
  return *functions;
}

}  // namespace

std::vector<TriedOp> try_inputs(const InputLayout& layout, uint32_t storage,
                                const std::function<void()>& work, std::string* why) {
  static std::mutex one;
  const std::unique_lock<std::mutex> hold(one, std::try_to_lock);
  if (!hold.owns_lock())
    raise<StateError>("another thread is running the self-test of op inputs. Try again.");
  const Functions& functions = functions_of_prepared();
  if (functions.undefined_tensor == nullptr) {
    *why = "libc10 lacks c10::UndefinedTensorImpl";
    return {};
  }
  if (!tensors_have_size(functions, layout.tensor_size)) {
    *why = "the size of a tensor differs";
    return {};
  }
  const char* wrong = wrong_about_empty_inputs(functions, layout);
  if (wrong == nullptr) wrong = wrong_about_tensor_fields(layout);
  if (wrong != nullptr) {
    *why = wrong;
    return {};
  }
  Trial trial{&functions, &layout, storage, {}};
  g_trial = &trial;
  {
    const ThreadCallback trying(functions, callback_for_all(&start_tried, nullptr, true));
    work();
  }
  return std::move(trial.ops);
}

void adopt_input_layout(const InputLayout& layout) {
  static std::mutex one;
  const std::lock_guard<std::mutex> hold(one);
  if (g_encode.load(std::memory_order_relaxed) != nullptr) return;
  g_op_view.undefined_tensor =
      reinterpret_cast<uintptr_t>(functions_of_prepared().undefined_tensor);
  g_layout = layout;
  g_codes = ScalarCodes(layout);
  const bool known = numbers_of(layout) == numbers_of(kInputLayout_2_13);
  g_encode.store(known ? &encode<BuiltInSource> : &encode<DiscoveredSource>,
                 std::memory_order_release);
}

void adopt_storage_offset(uint32_t offset) noexcept {
  g_storage.store(offset, std::memory_order_relaxed);
}

EncodeInputs trusted_encoder() noexcept {
  return g_encode.load(std::memory_order_acquire);
}

EncodeInputs encoder_by_wants() noexcept {
  return trusted_encoder() == nullptr ? nullptr : &encode_by_wants;
}

std::optional<InputLayout> adopted_input_layout() noexcept {
  if (g_encode.load(std::memory_order_acquire) == nullptr) return std::nullopt;
  return g_layout;
}

bool trusted_source_is_known() noexcept {
  return trusted_encoder() == &encode<BuiltInSource>;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
