// SPDX-License-Identifier: Apache-2.0
// Another part of a libtorch_cpu: at::RecordFunction as older versions have it, which is told its
// name as a C string, or with NAME_IS_A_VIEW as a view of their own, and knows no overload names.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

namespace c10 {
struct FunctionSchema;
template <class Char>
struct basic_string_view {
  const Char* begin;
  size_t size;
};
}  // namespace c10

namespace at {

enum class RecordScope : uint8_t { FUNCTION };

struct ObserverContext {
  virtual ~ObserverContext() = default;
};

struct RecordFunction;

class RecordFunctionCallback {
 public:
  std::unique_ptr<ObserverContext> (*start)(const RecordFunction&);
  void (*end)(const RecordFunction&, ObserverContext*);
  double probability;
  bool scopes[10], needs_inputs, needs_outputs, needs_ids;
};

struct RecordFunction {
  using Schema = std::reference_wrapper<const c10::FunctionSchema>;
  using View = std::variant<c10::basic_string_view<char>, Schema>;

  explicit RecordFunction(RecordScope scope);
  virtual ~RecordFunction();
#ifdef NAME_IS_A_VIEW
  void before(View name, int64_t sequence_nr);
#else
  void before(const char* name, int64_t sequence_nr);
#endif
  void begin(std::string name, int64_t sequence_nr);
  void end();
  const char* name() const;
  bool isAsync() const;
  void _setAsync();
  static uint64_t currentThreadId();

  std::vector<RecordFunctionCallback> callbacks;
  std::vector<std::unique_ptr<ObserverContext>> contexts;
  uint64_t thread_id;
  RecordScope scope;
  std::variant<std::string, Schema> text;
  int64_t sequence_nr = -1;
  const void* inputs = nullptr;
  size_t inputs_count = 0;
  std::unordered_map<std::string, int> keywords;
  uint64_t forward_thread_id = 0;
  uint64_t handle = 0;
  bool is_async = false;
  int64_t last = -1;
};

namespace {

struct Callbacks {
  std::unordered_map<uint64_t, RecordFunctionCallback> all;
  uint64_t last = 0;

  uint64_t add(const RecordFunctionCallback& callback) {
    all.emplace(++last, callback);
    return last;
  }
};
Callbacks callbacks;  // one thread at a time, in the test

}  // namespace

uint64_t addGlobalCallback(RecordFunctionCallback callback) {
  return callbacks.add(callback);
}
uint64_t addThreadLocalCallback(RecordFunctionCallback callback) {
  return callbacks.add(callback);
}
void removeCallback(uint64_t handle) {
  callbacks.all.erase(handle);
}

RecordFunction::RecordFunction(RecordScope of) : thread_id(currentThreadId()), scope(of) {
  for (const auto& [handle, callback] : at::callbacks.all) callbacks.push_back(callback);
}
RecordFunction::~RecordFunction() {
  end();
}
#ifdef NAME_IS_A_VIEW
void RecordFunction::before(View name, int64_t number) {
  const auto& view = std::get<0>(name);
  begin(std::string(view.begin, view.size), number);
}
#else
void RecordFunction::before(const char* name, int64_t number) {
  begin(name, number);
}
#endif
void RecordFunction::begin(std::string name, int64_t number) {
  text = std::move(name);
  sequence_nr = number;
  handle = 77;
  for (const RecordFunctionCallback& callback : callbacks)
    contexts.push_back(callback.start(*this));
}
void RecordFunction::end() {
  for (size_t i = 0; i < contexts.size(); ++i)
    if (callbacks[i].end != nullptr) callbacks[i].end(*this, contexts[i].get());
  contexts.clear();
  callbacks.clear();
}
const char* RecordFunction::name() const {
  return std::get<0>(text).c_str();
}
bool RecordFunction::isAsync() const {
  return is_async;
}
void RecordFunction::_setAsync() {
  is_async = true;
}
uint64_t RecordFunction::currentThreadId() {
  return 5;
}

}  // namespace at

extern "C" void run_op(const char* name, int64_t sequence_nr) {
  at::RecordFunction op(at::RecordScope::FUNCTION);
#ifdef NAME_IS_A_VIEW
  op.before(c10::basic_string_view<char>{name, __builtin_strlen(name)}, sequence_nr);
#else
  op.before(name, sequence_nr);
#endif
}

// In the order of fastprof.adapters.torch.layout.FIELDS.
extern "C" void layout(uint32_t* to) {
  using Op = at::RecordFunction;
  const size_t numbers[] = {sizeof(Op),
                            offsetof(Op, thread_id),
                            offsetof(Op, scope),
                            offsetof(Op, sequence_nr),
                            offsetof(Op, forward_thread_id),
                            offsetof(Op, handle),
                            offsetof(Op, is_async),
                            offsetof(Op, text)};
  for (const size_t number : numbers) *to++ = static_cast<uint32_t>(number);
}
