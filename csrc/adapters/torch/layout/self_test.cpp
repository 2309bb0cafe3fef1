// SPDX-License-Identifier: Apache-2.0
// Self-test of a layout: see self_test.hpp.
#include "adapters/torch/layout/self_test.hpp"

#include <cstring>
#include <string>
#include <thread>

#include "adapters/torch/layout/op_name.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

constexpr size_t kScratchBytes = 8192;  // much larger than any RecordFunction
// A name that fits in std::string's internal buffer, and one that does not. Operator names are
// tested with a known op (seen_ops.hpp).
constexpr const char* kOpNames[] = {"self_test", "fastprof::self_test"};

struct Scratch {
  alignas(64) unsigned char bytes[kScratchBytes];
};

struct ProbeContext final : ObserverContextView {
  explicit ProbeContext(int* count) : destroyed(count) {}
  ~ProbeContext() override { ++*destroyed; }
  int* destroyed;
};

// What the callbacks of the current probe have recorded.
struct Seen {
  const void* address = nullptr;
  std::string name;
  std::string read_name;
  const void* context = nullptr;
  const void* ended_context = nullptr;
  int begun = 0;
  int ended = 0;
  int destroyed = 0;
  const Functions* functions = nullptr;
  const Layout* layout = nullptr;
};
Seen* seen = nullptr;

std::unique_ptr<ObserverContextView> probe_start(const RecordFunctionView& record_function) {
  ++seen->begun;
  seen->address = &record_function;
  if (const char* name = seen->functions->name(&record_function)) seen->name = name;
  if (const uint32_t at = seen->layout->name)
    seen->read_name = read_name_checked(record_function, at).value_or("");
  auto context = std::make_unique<ProbeContext>(&seen->destroyed);
  seen->context = context.get();
  return context;
}

void probe_end(const RecordFunctionView&, ObserverContextView* context) {
  ++seen->ended;
  seen->ended_context = context;
}

// Returns the number of bytes that the constructor writes: those equal after two different fills.
size_t written_size(const Functions& f, Scratch* scratch) {
  auto first = std::make_unique<Scratch>();
  std::memset(scratch->bytes, 0xA5, kScratchBytes);
  f.construct(scratch->bytes, 0);
  std::memcpy(first->bytes, scratch->bytes, kScratchBytes);
  f.destroy(scratch->bytes);
  std::memset(scratch->bytes, 0x5A, kScratchBytes);
  f.construct(scratch->bytes, 0);
  size_t size = 0;
  for (size_t i = 0; i < kScratchBytes; ++i)
    if (first->bytes[i] != 0xA5 || scratch->bytes[i] != 0x5A) size = i + 1;
  f.destroy(scratch->bytes);
  return (size + 7) / 8 * 8;
}

const char* test_fields(const Functions& f, const Layout& layout, Scratch* scratch, uint8_t scope,
                        int64_t sequence_nr, const char* name) {
  unsigned char* rf = scratch->bytes;
  const uint64_t thread = f.current_thread_id();
  std::memset(rf, 0xA5, kScratchBytes);
  f.construct(rf, scope);
  const char* wrong = nullptr;
  if (field<uint8_t>(rf, layout.scope) != scope) wrong = "the scope lies at another offset";
  if (field<uint64_t>(rf, layout.thread_id) != thread)
    wrong = "the thread id lies at another offset";
  if (field<int64_t>(rf, layout.sequence_nr) != -1)
    wrong = "the sequence number lies at another offset";
  if (field<uint64_t>(rf, layout.forward_thread_id) != 0)
    wrong = "the forward thread id lies at another offset";
  if (field<uint8_t>(rf, layout.is_async) != 0) wrong = "the async mark lies at another offset";
  const uint64_t handle = field<uint64_t>(rf, layout.handle);
  *seen = Seen{};
  seen->functions = &f;
  seen->layout = &layout;
  if (wrong == nullptr) {
    f.begin(rf, name, sequence_nr);
    if (field<int64_t>(rf, layout.sequence_nr) != sequence_nr)
      wrong = "the sequence number lies at another offset";
    else if (seen->begun != 1 || seen->address != rf)
      wrong = "the start callback was not called as expected";
    else if (seen->name != name)
      wrong = "the name differs";
    else if (layout.name != 0 && seen->read_name != name)
      wrong = "the name lies at another offset";
    else if (handle == 0 && field<uint64_t>(rf, layout.handle) == 0)
      wrong = "the record function id lies at another offset";
    else if (field<uint64_t>(rf, layout.forward_thread_id) != 0)
      wrong = "the forward thread id lies at another offset";
    else if (f.is_async(reinterpret_cast<RecordFunctionView*>(rf)))
      wrong = "the async mark is set in a new RecordFunction";
  }
  if (wrong == nullptr) {
    auto before = std::make_unique<Scratch>();
    std::memcpy(before->bytes, rf, kScratchBytes);
    f.set_async(rf);
    for (size_t i = 0; i < kScratchBytes; ++i)
      if ((rf[i] != before->bytes[i]) != (i == layout.is_async))
        wrong = "the async mark lies at another offset";
    if (rf[layout.is_async] != 1 || !f.is_async(reinterpret_cast<RecordFunctionView*>(rf)))
      wrong = "the async mark lies at another offset";
  }
  f.end(rf);
  f.destroy(rf);
  if (wrong == nullptr) {
    if (seen->ended != 1 || seen->ended_context != seen->context)
      wrong = "the end callback was not called as expected";
    else if (seen->destroyed != 1)
      wrong = "an observer context is not destroyed as expected";
  }
  return wrong;
}

const char* test_all(const Functions& f, const Layout& layout) {
  for (const uint32_t offset :
       {layout.thread_id, layout.scope, layout.sequence_nr, layout.forward_thread_id, layout.handle,
        layout.is_async, layout.name, layout.size})
    if (offset > kScratchBytes - 64) return "an offset is out of range";
  auto scratch = std::make_unique<Scratch>();
  if (written_size(f, scratch.get()) != layout.size) return "the size differs";
  // No single function sets forward thread id, handle and the async flag separately: check that
  // they are adjacent, in that order.
  if (layout.handle != layout.forward_thread_id + 8 || layout.is_async != layout.handle + 8)
    return "the forward thread id lies at another offset";

  Seen what;
  seen = &what;
  const ThreadCallback probe(f, callback_for_all(&probe_start, &probe_end, false, true));
  const char* wrong = nullptr;
  uint8_t scope = 0;
  for (const int64_t sequence_nr : {int64_t{0x1122334455667788}, int64_t{-1}, int64_t{7}}) {
    if (wrong == nullptr)
      wrong = test_fields(f, layout, scratch.get(), scope, sequence_nr, kOpNames[scope % 2]);
    scope = static_cast<uint8_t>(scope * 5 + 1);  // 0, 1, 6
  }
  return wrong;
}

}  // namespace

const char* self_test(const Functions& functions, const Layout& layout) noexcept {
  const char* wrong = "the self-test failed to start";
  try {
    std::thread thread([&] {
      try {
        wrong = test_all(functions, layout);
      } catch (...) {
        wrong = "libtorch raised an exception in the self-test";
      }
    });
    thread.join();
  } catch (...) {
  }
  return wrong;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
