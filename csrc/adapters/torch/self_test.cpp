// SPDX-License-Identifier: Apache-2.0
// The self-test of a layout: see self_test.hpp.
#include "adapters/torch/self_test.hpp"

#include <cstring>
#include <string>
#include <thread>

#include "adapters/torch/op_name.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

constexpr size_t kRoom = 8192;  // many times the size of any RecordFunction
// One that std::string has in itself, and one that it has elsewhere. The other kind of names, of
// operators, is shown by a known op (seen_ops.hpp).
constexpr const char* kOpNames[] = {"self_test", "fastprof::self_test"};

struct Room {
  alignas(64) unsigned char bytes[kRoom];
};

struct ProbeContext final : ObserverContextView {
  explicit ProbeContext(int* count) : destroyed(count) {}
  ~ProbeContext() override { ++*destroyed; }
  int* destroyed;
};

// What the callbacks of the one probe that runs have seen.
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

// Bytes that the constructor writes: those that are the same whatever was there before.
size_t written_size(const Functions& f, Room* room) {
  auto first = std::make_unique<Room>();
  std::memset(room->bytes, 0xA5, kRoom);
  f.construct(room->bytes, 0);
  std::memcpy(first->bytes, room->bytes, kRoom);
  f.destroy(room->bytes);
  std::memset(room->bytes, 0x5A, kRoom);
  f.construct(room->bytes, 0);
  size_t size = 0;
  for (size_t i = 0; i < kRoom; ++i)
    if (first->bytes[i] != 0xA5 || room->bytes[i] != 0x5A) size = i + 1;
  f.destroy(room->bytes);
  return (size + 7) / 8 * 8;
}

const char* test_fields(const Functions& f, const Layout& layout, Room* room, uint8_t scope,
                        int64_t sequence_nr, const char* name) {
  unsigned char* rf = room->bytes;
  const uint64_t thread = f.current_thread_id();
  std::memset(rf, 0xA5, kRoom);
  f.construct(rf, scope);
  const char* wrong = nullptr;
  if (field<uint8_t>(rf, layout.scope) != scope) wrong = "the scope is elsewhere";
  if (field<uint64_t>(rf, layout.thread_id) != thread) wrong = "the thread id is elsewhere";
  if (field<int64_t>(rf, layout.sequence_nr) != -1) wrong = "the sequence number is elsewhere";
  if (field<uint64_t>(rf, layout.forward_thread_id) != 0)
    wrong = "the forward thread id is elsewhere";
  if (field<uint8_t>(rf, layout.is_async) != 0) wrong = "the async mark is elsewhere";
  const uint64_t handle = field<uint64_t>(rf, layout.handle);
  *seen = Seen{};
  seen->functions = &f;
  seen->layout = &layout;
  if (wrong == nullptr) {
    f.begin(rf, name, sequence_nr);
    if (field<int64_t>(rf, layout.sequence_nr) != sequence_nr)
      wrong = "the sequence number is elsewhere";
    else if (seen->begun != 1 || seen->address != rf)
      wrong = "the start callback was not called as expected";
    else if (seen->name != name)
      wrong = "the name is another";
    else if (layout.name != 0 && seen->read_name != name)
      wrong = "the name is elsewhere";
    else if (handle == 0 && field<uint64_t>(rf, layout.handle) == 0)
      wrong = "the record function id is elsewhere";
    else if (field<uint64_t>(rf, layout.forward_thread_id) != 0)
      wrong = "the forward thread id is elsewhere";
    else if (f.is_async(reinterpret_cast<RecordFunctionView*>(rf)))
      wrong = "the async mark is not clear";
  }
  if (wrong == nullptr) {
    auto before = std::make_unique<Room>();
    std::memcpy(before->bytes, rf, kRoom);
    f.set_async(rf);
    for (size_t i = 0; i < kRoom; ++i)
      if ((rf[i] != before->bytes[i]) != (i == layout.is_async))
        wrong = "the async mark is elsewhere";
    if (rf[layout.is_async] != 1 || !f.is_async(reinterpret_cast<RecordFunctionView*>(rf)))
      wrong = "the async mark is elsewhere";
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
    if (offset > kRoom - 64) return "an offset is out of range";
  auto room = std::make_unique<Room>();
  if (written_size(f, room.get()) != layout.size) return "the size is another";
  // The order of what no function sets alone: forward thread id, handle, async lie together, in
  // that order.
  if (layout.handle != layout.forward_thread_id + 8 || layout.is_async != layout.handle + 8)
    return "the forward thread id is elsewhere";

  Seen what;
  seen = &what;
  const ThreadCallback probe(f, callback_for_all(&probe_start, &probe_end, false, true));
  const char* wrong = nullptr;
  uint8_t scope = 0;
  for (const int64_t sequence_nr : {int64_t{0x1122334455667788}, int64_t{-1}, int64_t{7}}) {
    if (wrong == nullptr)
      wrong = test_fields(f, layout, room.get(), scope, sequence_nr, kOpNames[scope % 2]);
    scope = static_cast<uint8_t>(scope * 5 + 1);  // 0, 1, 6
  }
  return wrong;
}

}  // namespace

const char* self_test(const Functions& functions, const Layout& layout) noexcept {
  const char* wrong = "the self-test could not be run";
  try {
    std::thread thread([&] {
      try {
        wrong = test_all(functions, layout);
      } catch (...) {
        wrong = "libtorch refused the self-test";
      }
    });
    thread.join();
  } catch (...) {
  }
  return wrong;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
