// SPDX-License-Identifier: Apache-2.0
// What is known of at::RecordFunction without its headers: its functions, found at run time, and
// where its fields lie, by version and string ABI. Facts of libtorch's public header
// ATen/record_function.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <variant>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// at::RecordFunction and c10::FunctionSchema: never looked into but through Layout.
struct RecordFunctionView;
struct FunctionSchemaView;

// at::ObserverContext: what a start callback returns, libtorch hands to the end callback, and
// destroys by its virtual destructor. Polymorphic with a virtual destructor and nothing else, which
// is all that the ABI sees.
struct ObserverContextView {
  virtual ~ObserverContextView() = default;
};

// at::RecordFunctionCallback, passed by value to addGlobalCallback. Trivially copyable there as
// here.
struct CallbackView {
  using Start = std::unique_ptr<ObserverContextView> (*)(const RecordFunctionView&);
  using End = void (*)(const RecordFunctionView&, ObserverContextView*);
  Start start;
  End end;
  double sampling_probability;
  bool scopes[10];
  bool needs_inputs;
  bool needs_outputs;
  bool needs_ids;
};
static_assert(sizeof(CallbackView) == 40, "as in libtorch");

// A callback for all scopes and every call.
inline CallbackView callback_for_all(CallbackView::Start start, CallbackView::End end,
                                     bool needs_inputs, bool needs_ids = false) noexcept {
  CallbackView callback{start, end, 1.0, {}, needs_inputs, false, needs_ids};
  for (bool& scope : callback.scopes) scope = true;
  return callback;
}

// Offsets of fields in at::RecordFunction and its size, in bytes.
struct Layout {
  uint32_t size;
  uint32_t thread_id;          // uint64: logical id of the thread that began it
  uint32_t scope;              // uint8: RecordScope
  uint32_t sequence_nr;        // int64: -1 for none
  uint32_t forward_thread_id;  // uint64: 0 for none
  uint32_t handle;             // uint64: 0 unless a callback needs ids
  uint32_t is_async;           // bool
  // std::variant<std::string, reference to a FunctionSchema, which begins with its name>; 0 where
  // it is another: then libtorch is asked.
  uint32_t name;
};

// c10::string_view as it was before it became std::string_view.
struct OlderTextView {
  const char* text;
  size_t length;
};

// libtorch's own functions, from the library that the process has loaded. All or none are set.
struct Functions {
  using Name = std::variant<std::string_view, std::reference_wrapper<const FunctionSchemaView>>;
  using OlderName = std::variant<OlderTextView, std::reference_wrapper<const FunctionSchemaView>>;

  uint64_t (*add_global_callback)(CallbackView);
  uint64_t (*add_thread_local_callback)(CallbackView);
  void (*remove_callback)(uint64_t);
  uint64_t (*current_thread_id)();
  const char* (*name)(const RecordFunctionView*);
  // "" for what has no schema, and for all where libtorch does not tell.
  const char* (*overload_name)(const RecordFunctionView*);
  const void* undefined_tensor;  // c10::UndefinedTensorImpl's one instance
  bool (*is_async)(const RecordFunctionView*);
  // For the self-test only.
  void (*construct)(void*, uint8_t scope);
  void (*destroy)(void*);
  void begin(void* record_function, std::string_view text, int64_t sequence_nr) const;
  // at::RecordFunction::before: one of these is set. Versions before the first had the others.
  void (*before)(void*, Name, int64_t sequence_nr);
  void (*before_with_older_view)(void*, OlderName, int64_t sequence_nr);
  void (*before_with_c_string)(void*, const char* name, int64_t sequence_nr);
  void (*end)(void*);
  void (*set_async)(void*);
};

// A callback of the calling thread while in scope.
class ThreadCallback {
 public:
  ThreadCallback(const Functions& functions, const CallbackView& callback)
      : functions_(functions), handle_(functions.add_thread_local_callback(callback)) {}
  ~ThreadCallback() { functions_.remove_callback(handle_); }
  ThreadCallback(const ThreadCallback&) = delete;
  ThreadCallback& operator=(const ThreadCallback&) = delete;

 private:
  const Functions& functions_;
  uint64_t handle_;
};

// The layout of a version ("2.13.0+cpu") with the C++11 string ABI or the older one; null when it
// is not in the table, which lists only what the self-test was run on.
const Layout* find_layout(std::string_view version, bool cxx11_abi) noexcept;
// The versions of the table, as text for messages.
const char* known_versions() noexcept;

// Finds the functions in the libtorch_cpu that the process has loaded, which is never loaded from
// here. Null and `*why` when there is none or one is missing. The library is kept loaded from then
// on. Any thread.
const Functions* find_functions(const char** why) noexcept;

template <class T>
FASTPROF_ALWAYS_INLINE T field(const void* record_function, uint32_t offset) noexcept {
  T value;
  __builtin_memcpy(&value, static_cast<const char*>(record_function) + offset, sizeof value);
  return value;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
