// SPDX-License-Identifier: Apache-2.0
// Declares at::RecordFunction without libtorch's headers: its functions, looked up at run time, and
// its field offsets by version and string ABI. Facts from libtorch's public header
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

// at::RecordFunction and c10::FunctionSchema: opaque, accessed only through Layout.
struct RecordFunctionView;
struct FunctionSchemaView;

// Mirrors at::ObserverContext: returned by a start callback, passed by libtorch to the end
// callback, and deleted through its virtual destructor. Only the polymorphic base with a virtual
// destructor is visible in the ABI.
struct ObserverContextView {
  virtual ~ObserverContextView() = default;
};

// Mirrors at::RecordFunctionCallback, passed by value to addGlobalCallback. Trivially copyable in
// both.
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

// Returns a callback for all scopes without sampling.
inline CallbackView callback_for_all(CallbackView::Start start, CallbackView::End end,
                                     bool needs_inputs, bool needs_ids = false) noexcept {
  CallbackView callback{start, end, 1.0, {}, needs_inputs, false, needs_ids};
  for (bool& scope : callback.scopes) scope = true;
  return callback;
}

// Size and field offsets of at::RecordFunction, in bytes.
struct Layout {
  uint32_t size;
  uint32_t thread_id;          // uint64: logical id of the thread that began it
  uint32_t scope;              // uint8: RecordScope
  uint32_t sequence_nr;        // int64: -1 for none
  uint32_t forward_thread_id;  // uint64: 0 for none
  uint32_t handle;             // uint64: 0 unless a callback needs ids
  uint32_t is_async;           // bool
  // std::variant<std::string, reference to a FunctionSchema (which begins with its name)>; 0 if the
  // type differs: then libtorch is queried.
  uint32_t name;
};

// c10::string_view before it became an alias of std::string_view.
struct OlderTextView {
  const char* text;
  size_t length;
};

// libtorch's functions in the loaded library. All are set, except where noted.
struct Functions {
  using Name = std::variant<std::string_view, std::reference_wrapper<const FunctionSchemaView>>;
  using OlderName = std::variant<OlderTextView, std::reference_wrapper<const FunctionSchemaView>>;

  uint64_t (*add_global_callback)(CallbackView);
  uint64_t (*add_thread_local_callback)(CallbackView);
  void (*remove_callback)(uint64_t);
  uint64_t (*current_thread_id)();
  const char* (*name)(const RecordFunctionView*);
  // Returns "" if there is no schema; always "" if libtorch lacks the function.
  const char* (*overload_name)(const RecordFunctionView*);
  const void* undefined_tensor;  // the singleton of c10::UndefinedTensorImpl
  bool (*is_async)(const RecordFunctionView*);
  // For the self-test only.
  void (*construct)(void*, uint8_t scope);
  void (*destroy)(void*);
  void begin(void* record_function, std::string_view text, int64_t sequence_nr) const;
  // at::RecordFunction::before: exactly one of these is set. Versions differ in the type of the
  // name.
  void (*before)(void*, Name, int64_t sequence_nr);
  void (*before_with_older_view)(void*, OlderName, int64_t sequence_nr);
  void (*before_with_c_string)(void*, const char* name, int64_t sequence_nr);
  void (*end)(void*);
  void (*set_async)(void*);
};

// Registers a callback on the calling thread for a scope.
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

// Returns the layout of a version ("2.13.0+cpu") with the C++11 string ABI or the older one; null
// if it is not in the table, which lists only versions on which the self-test was run.
const Layout* find_layout(std::string_view version, bool cxx11_abi) noexcept;
// Returns the versions of the table, for messages.
const char* known_versions() noexcept;

// Looks the functions up in the loaded libtorch_cpu, which is never loaded from here and stays
// loaded afterwards. Returns null and sets `*why` if the library or a function is missing. Any
// thread.
const Functions* find_functions(const char** why) noexcept;

// Returns whether a callback of all threads is registered in the loaded libtorch, as an observer of
// its ops has; true if that cannot be found out. Any thread.
bool has_global_callbacks() noexcept;

// Reads the field at `offset` of an at::RecordFunction.
template <class T>
FASTPROF_ALWAYS_INLINE T field(const void* record_function, uint32_t offset) noexcept {
  T value;
  __builtin_memcpy(&value, static_cast<const char*>(record_function) + offset, sizeof value);
  return value;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
