// SPDX-License-Identifier: Apache-2.0
// RecordFunction: one call of an operator, or one user scope, reported to observers and the
// recorder.
#pragma once

#include <cstdint>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/base/scope.hpp"
#include "fastprof/primitives/node_id.hpp"
#include "fastprof/primitives/scope_site.hpp"
#include "fastprof/primitives/step_set.hpp"
#include "fastprof/primitives/thread_identity.hpp"
#include "fastprof/primitives/value.hpp"
#include "fastprof/recorder/hot_path/range.hpp"

FASTPROF_NAMESPACE_BEGIN

class StepCallbacks;

// The name passed to RecordFunction::before. A const char* is borrowed and must outlive the
// RecordFunction (a literal does). std::string and std::string_view are copied, and only if a
// callback or the recorder is active.
class FunctionName {
 public:
  FunctionName(const char* name) noexcept
      : data_(name != nullptr ? name : ""), size_(kUnknownSize), borrowed_(true) {}
  FunctionName(std::string_view name) noexcept
      : data_(name.data()), size_(name.size()), borrowed_(false) {}
  template <class Text, std::enable_if_t<std::is_class_v<Text> &&
                                             std::is_convertible_v<const Text&, std::string_view>,
                                         int> = 0>
  FunctionName(const Text& name) noexcept : FunctionName(static_cast<std::string_view>(name)) {}

 private:
  friend class RecordFunction;
  static constexpr size_t kUnknownSize = static_cast<size_t>(-1);
  const char* data_;
  size_t size_;
  bool borrowed_;
};

// Reports one call. Use: construct (selects the callbacks and draws samples), before(...) (calls
// the start callbacks), the work, end() or the destructor (calls the end callbacks, in registration
// order). Without callbacks and recording it costs one load and one branch. Not copyable, not
// movable. May be ended by another thread than began it, but not used by two at once. Exceptions of
// callbacks are caught. The layout is ABI: observers in other libraries read it.
class RecordFunction {
 public:
  explicit RecordFunction(RecordScope scope = RecordScope::FUNCTION) noexcept {
    if (FASTPROF_UNLIKELY(
            (load_relaxed(&state()->mask) & (scope_category(scope) | mask_bit::special)) != 0))
      activate(scope, scope_category(scope));
  }
  // Takes the scope and category of a site; for before(site).
  explicit RecordFunction(const Site& site) noexcept {
    if (FASTPROF_UNLIKELY((load_relaxed(&state()->mask) & (site.mask | mask_bit::special)) != 0))
      activate(site.scope, site.mask);
  }
  // Uses callbacks selected earlier by step_callbacks (step_callbacks.hpp).
  explicit RecordFunction(StepCallbacks&& steps) noexcept;
  ~RecordFunction() {
    if (FASTPROF_UNLIKELY(is_active())) functions()->close_function(this);
  }
  RecordFunction(const RecordFunction&) = delete;
  RecordFunction& operator=(const RecordFunction&) = delete;

  // Calls the start callbacks and begins the recorded range. A second call does nothing. Inputs are
  // borrowed for the call. sequence_number links forward and backward operators; -1: none.
  FASTPROF_ALWAYS_INLINE void before(FunctionName name, int64_t sequence_number = -1) noexcept {
    before(name, {}, {}, sequence_number);
  }
  FASTPROF_ALWAYS_INLINE void before(FunctionName name, Span<const Value> inputs,
                                     int64_t sequence_number = -1) noexcept {
    before(name, inputs, {}, sequence_number);
  }
  FASTPROF_ALWAYS_INLINE void before(FunctionName name, Span<const Value> inputs,
                                     Span<const NamedValue> kwinputs,
                                     int64_t sequence_number = -1) noexcept {
    if (FASTPROF_LIKELY(stage_ != Stage::chosen)) return;
    if (name.borrowed_) {
      name_ = name.data_;
      name_bytes_ = name.size_;
    } else {
      copy_name(name);
    }
    set_inputs(inputs, kwinputs, sequence_number);
    functions()->start_function(state(), this, nullptr);
  }
  // Uses the site's name and records under that site, which must be static or interned. If the site
  // has arguments, their words are recorded as 0.
  FASTPROF_ALWAYS_INLINE void before(const Site& site, Span<const Value> inputs = {},
                                     Span<const NamedValue> kwinputs = {},
                                     int64_t sequence_number = -1) noexcept {
    if (FASTPROF_LIKELY(stage_ != Stage::chosen)) return;
    set_name(site);
    set_inputs(inputs, kwinputs, sequence_number);
    functions()->start_function(state(), this, &site);
  }

  // Ends the recorded range and calls the end callbacks of those that were started. A second call
  // does nothing.
  FASTPROF_ALWAYS_INLINE void end() noexcept {
    if (FASTPROF_UNLIKELY(stage_ == Stage::begun)) functions()->end_function(this);
  }

  // Whether a callback or the recorder observes this call. If not, the accessors below return their
  // documented defaults and the setters do nothing.
  bool is_active() const noexcept { return stage_ != Stage::inactive; }
  // Whether a callback reads the inputs or a session records them. Gather inputs only if true.
  bool needs_inputs() const noexcept {
    return callbacks_need_inputs() || (is_active() && recorder_needs_inputs());
  }
  bool needs_outputs() const noexcept {
    return is_active() && (steps_.needs & callback_needs::outputs) != 0;
  }
  RecordScope scope() const noexcept { return is_active() ? steps_.scope : RecordScope::FUNCTION; }

  // The name passed to before; "" before that. Valid during the life of this object.
  std::string_view name() const noexcept {
    if (!has_name()) return {};
    return {name_,
            name_bytes_ != FunctionName::kUnknownSize ? name_bytes_ : __builtin_strlen(name_)};
  }
  // As name(), NUL-terminated.
  const char* name_c_str() const noexcept { return has_name() ? name_ : ""; }
  // The overload of an operator ("Tensor", "out"); "" if not set. Borrowed.
  std::string_view overload_name() const noexcept {
    return is_active() && flags_.has_overload_name ? std::string_view(overload_name_)
                                                   : std::string_view();
  }
  void set_overload_name(const char* name) noexcept {
    if (!is_active()) return;
    overload_name_ = name != nullptr ? name : "";
    flags_.has_overload_name = true;
    note_details();
  }
  // Whether this call reports the parameters of a collective operation.
  bool is_nccl_meta() const noexcept { return name() == "record_param_comms"; }

  // The inputs, during the start callbacks and if some callback needs inputs; otherwise empty.
  Span<const Value> inputs() const noexcept {
    return stage_ == Stage::starting && flags_.has_inputs && callbacks_need_inputs()
               ? inputs_
               : Span<const Value>();
  }
  Span<const NamedValue> kwinputs() const noexcept {
    return stage_ == Stage::starting && flags_.has_kwinputs && callbacks_need_inputs()
               ? kwinputs_
               : Span<const NamedValue>();
  }
  // The number of inputs given; available until the end.
  size_t num_inputs() const noexcept {
    return is_active() && flags_.has_inputs ? inputs_.size() : 0;
  }

  // The outputs, during the end callbacks and if some callback needs outputs; otherwise empty.
  Span<const Value> outputs() const noexcept {
    if (stage_ != Stage::ending || !flags_.has_outputs) return {};
    return outputs_->list_values();
  }
  size_t num_outputs() const noexcept {
    return is_active() && flags_.has_outputs ? outputs_->list_values().size() : 0;
  }
  // Sets the outputs. They are copied, and only if some callback needs them.
  void set_outputs(Span<const Value> outputs) {
    if (!needs_outputs() || stage_ >= Stage::ending) return;
    Value list(outputs);
    if (!flags_.has_outputs) {
      void* memory = __builtin_malloc(sizeof(Value));
      if (memory == nullptr) return;
      outputs_ = new (memory) Value();
      flags_.has_outputs = flags_.owns = true;
    }
    *outputs_ = std::move(list);
  }

  // When the recorder recorded the begin, in ticks; 0: it did not (yet).
  uint64_t recorded_begin_ticks() const noexcept {
    if (!is_active() || !flags_.range_open) return 0;
    return begin_stamp(range_.begin);
  }
  // Sets recorded_begin_ticks() for a range that is recorded elsewhere, while only callbacks use
  // this object. begin: in ticks.
  void set_recorded_begin(uint64_t begin) noexcept {
    if (!is_active() || flags_.range_open) return;
    new (&range_) RangeHandle{nullptr, begin, nullptr, 0};  // nothing to end
    flags_.range_open = true;
  }

  // Links forward and backward operators; -1: none.
  int64_t sequence_number() const noexcept {
    return is_active() && flags_.has_sequence_number ? sequence_number_ : -1;
  }
  // Id of the thread that began the call (current_thread_id()); 0 if inactive.
  uint64_t thread_id() const noexcept { return is_active() ? steps_.thread_id : 0; }
  // For a backward function: id of the thread of the forward call; 0: unknown.
  uint64_t forward_thread_id() const noexcept {
    return is_active() && flags_.has_forward_thread_id ? forward_thread_id_ : 0;
  }
  void set_forward_thread_id(uint64_t id) noexcept {
    if (!is_active()) return;
    forward_thread_id_ = id;
    flags_.has_forward_thread_id = true;
    note_details();
  }
  // Unique over the life of the process; 0 if no callback needs ids.
  uint64_t handle() const noexcept { return is_active() && flags_.has_handle ? handle_ : 0; }
  void set_handle(uint64_t handle) noexcept {
    if (!is_active()) return;
    handle_ = handle;
    flags_.has_handle = true;
  }
  // User-defined id, for debuggers of compiled graphs; -1: none.
  int64_t debug_handle() const noexcept {
    return is_active() && flags_.has_debug_handle ? debug_handle_ : -1;
  }
  void set_debug_handle(int64_t handle) noexcept {
    if (!is_active()) return;
    debug_handle_ = handle;
    flags_.has_debug_handle = true;
  }
  // Node of a distributed program: the value set here, else default_node_id(); -1: none.
  int64_t node_id() const noexcept {
    return !is_active() ? -1 : flags_.has_node_id ? node_id_ : fastprof::default_node_id();
  }
  void set_node_id(int64_t id) noexcept {
    if (!is_active()) return;
    node_id_ = id;
    flags_.has_node_id = true;
    note_details();
  }

  // Whether the call is asynchronous: it may end on another thread or outlive its scope. Set by the
  // caller that begins it.
  bool is_async() const noexcept { return is_active() && flags_.async; }
  void set_async() noexcept {
    if (is_active()) flags_.async = true;
  }
  bool is_static_runtime_out_variant() const noexcept { return is_active() && flags_.out_variant; }
  void set_static_runtime_out_variant(bool on) noexcept {
    if (is_active()) flags_.out_variant = on;
  }

  static uint64_t current_thread_id() noexcept { return fastprof::current_thread_id(); }
  static inline void set_default_node_id(int64_t id);  // set_node_id.hpp
  static int64_t default_node_id() noexcept { return fastprof::default_node_id(); }

 private:
  // Progress of the call, in this order. Only ever stored as a constant.
  enum class Stage : uint8_t {
    inactive,  // nothing observes; no other member is set
    chosen,    // callbacks are selected; before() not yet called
    starting,  // inside the start callbacks
    begun,
    ending,  // inside the end callbacks
    ended
  };
  bool has_name() const noexcept { return stage_ >= Stage::starting; }
  bool callbacks_need_inputs() const noexcept {
    return is_active() && (steps_.needs & callback_needs::inputs) != 0;
  }
  bool recorder_needs_inputs() const noexcept {
    return flags_.recorder != Recorder::none && load_relaxed(&state()->input_users) != 0;
  }
  // For data given before the range begins: makes the recorder read it (Recorder::details).
  void note_details() noexcept {
    if (flags_.recorder != Recorder::none) flags_.recorder = Recorder::details;
  }

  FASTPROF_ALWAYS_INLINE void set_inputs(Span<const Value> inputs, Span<const NamedValue> kwinputs,
                                         int64_t sequence_number) noexcept {
    if (!inputs.empty()) {
      new (&inputs_) Span<const Value>(inputs);
      flags_.has_inputs = true;
      note_details();
    }
    if (!kwinputs.empty()) {
      new (&kwinputs_) Span<const NamedValue>(kwinputs);
      flags_.has_kwinputs = true;
      note_details();
    }
    if (sequence_number != -1) {
      sequence_number_ = sequence_number;
      flags_.has_sequence_number = true;
      note_details();
    }
  }

  friend struct FunctionCalls;  // record_function_run.hpp: the part that runs in the leader
  struct OpenTag {};
  inline RecordFunction(const Site& site, OpenTag) noexcept;  // also begins it; for the macros

  static const RecorderFunctions* functions() noexcept { return state()->functions; }
  // None of these functions throws.
  void activate(RecordScope scope, uint32_t category) noexcept {
    State* s = state();
    s->functions->activate_function(s, this, scope, category);
  }
  FASTPROF_COLD inline void copy_name(FunctionName name) noexcept;
  // End callbacks may read the name after a session name was reclaimed, so such a name is copied.
  FASTPROF_ALWAYS_INLINE void set_name(const Site& site) noexcept {
    if (FASTPROF_UNLIKELY((site.flags & site_flag::reclaimable) != 0)) {
      copy_name(FunctionName(std::string_view(site.name)));
      return;
    }
    name_ = site.name;
    name_bytes_ = FunctionName::kUnknownSize;
  }

  // Whether the recorder is active for this call, and whether it must record more than the name.
  enum class Recorder : uint8_t { none = 0, name = 1, details = 2 };

  // Flags are separate bytes that are only ever stored as constants: bit fields would chain
  // read-modify-writes through memory.
  struct Flags {
    Recorder recorder;
    bool range_open;  // range_ is open
    bool owns;        // name_, outputs_ or steps_ must be freed
    bool owned_name;  // name_ is malloc'ed
    bool async;
    bool out_variant;
    bool has_inputs;
    bool has_kwinputs;
    bool has_outputs;
    bool has_sequence_number;
    bool has_forward_thread_id;
    bool has_handle;
    bool has_debug_handle;
    bool has_node_id;
    bool has_overload_name;
  };

  // While inactive only stage_ is initialised. Members that most calls do not use stay
  // uninitialised until their flag is set; the unions keep constructors from initialising them.
  Stage stage_ = Stage::inactive;
  Flags flags_;
  StepSet steps_;
  const char* name_;
  size_t name_bytes_;
  union {
    Span<const Value> inputs_;
  };
  union {
    Span<const NamedValue> kwinputs_;
  };
  Value* outputs_;  // a list, malloc'ed
  int64_t sequence_number_;
  uint64_t forward_thread_id_;
  uint64_t handle_;
  int64_t debug_handle_;
  int64_t node_id_;
  const char* overload_name_;
  union {
    RangeHandle range_;
  };
};

void RecordFunction::copy_name(FunctionName name) noexcept {
  auto* copy = static_cast<char*>(__builtin_malloc(name.size_ + 1));
  if (copy == nullptr) {
    name_ = "(out of memory for the name)";
    name_bytes_ = FunctionName::kUnknownSize;
    return;
  }
  if (name.size_ != 0) __builtin_memcpy(copy, name.data_, name.size_);
  copy[name.size_] = '\0';
  name_ = copy;
  name_bytes_ = name.size_;
  flags_.owned_name = flags_.owns = true;
}

FASTPROF_NAMESPACE_END
