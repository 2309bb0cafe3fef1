// SPDX-License-Identifier: Apache-2.0
// StackSampler: a native thread that samples the Python stacks of all threads of this process's
// interpreter, or of another process's, without the GIL and without stopping them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "adapters/python/code_table.hpp"
#include "adapters/python/native_stacks.hpp"
#include "adapters/python/other_threads.hpp"
#include "adapters/python/sample_file.hpp"
#include "adapters/python/stack_reader.hpp"
#include "adapters/python/thread_waits.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// States of a thread in a sample, as bits.
constexpr uint8_t kHasGil = 1;
constexpr uint8_t kOnCpu = 2;
constexpr uint8_t kTruncated = 4;  // outer frames are missing
constexpr uint8_t kHasException = 8;
constexpr unsigned kWaitShift = 4;  // above: a ThreadWait

// Consecutive samples of a thread with the same stack and state.
struct SampleRun {
  int64_t first_ns;
  int64_t last_ns;
  uint32_t thread;  // index in threads
  int32_t node;     // index in nodes, innermost frame; -1: no Python frame
  uint32_t count;
  uint8_t state;
};

struct SampledThread {
  uint32_t tid;  // 0 if unknown
  uint64_t python_ident;
  std::string name;  // that of name_thread(), or the kernel's of one without a Python state
};

// A frame below another one: a path to the outermost frame is a stack.
struct StackNode {
  int32_t parent;  // -1: outermost
  uint32_t code;   // of a native frame: kNativeCode plus the index of its address
  int32_t line;
};

struct SampleCounts {
  uint64_t ticks;
  uint64_t missed_ticks;
  uint64_t torn;            // samples of a thread whose stack changed while it was copied
  uint64_t no_room;         // samples that are not kept, because of max_runs
  int64_t cpu_ns;           // of the sampling thread
  uint64_t native_stacks;   // that were read
  uint64_t without_native;  // samples of running threads that did not answer in time
};

class StackSampler {
 public:
  // classify: of native frames; null: Python stacks only.
  StackSampler(double hz, uint64_t max_runs, NativeStacks::Classify classify = nullptr);
  // Of another process. memory: an open /proc/PID/mem, which serves as long as the process executes
  // the same program; closed by the destructor.
  StackSampler(double hz, uint64_t max_runs, const Interpreter& interpreter, int memory);
  ~StackSampler();
  StackSampler(const StackSampler&) = delete;
  StackSampler& operator=(const StackSampler&) = delete;

  // Begins to sample; returns why it cannot, empty if it can. `unix_offset_ns`: what is added to
  // the monotonic clock. Requires the GIL.
  std::string begin(int64_t unix_offset_ns);

  // Before begin(): the samples go into a file that keeps at least the last `seconds`, if they fit
  // into half of it; results have those of its newest segment only. grows: see SampleFile. Returns
  // what failed.
  std::string write_to(const std::string& path, size_t file_bytes, double seconds, bool grows);

  // Whether the other process has ended, or executes another program.
  bool is_over() const noexcept { return is_over_.load(std::memory_order_relaxed); }

  // Names a thread of this process; if it ends, a later thread with its id has another name. Any
  // thread, between begin() and end().
  void name_thread(uint32_t tid, std::string name, bool ends);

  // Ends the sampling thread; what it has recorded stays. Without the GIL, from one thread.
  void end();

  // In a forked child, where the thread does not exist: releases nothing and waits for nothing.
  void forget_in_child() noexcept;

  // Why there are no native stacks although they were requested; empty: there are.
  const std::string& native_problem() const noexcept { return native_problem_; }

  // After end().
  const std::vector<SampleRun>& runs() const noexcept { return runs_; }
  const std::vector<SampledThread>& threads() const noexcept { return threads_; }
  const std::vector<StackNode>& nodes() const noexcept { return nodes_; }
  const std::vector<CodeNames>& codes() const noexcept { return codes_.codes(); }
  const SampleCounts& counts() const noexcept { return counts_; }
  const std::vector<uint64_t>& native_addresses() const noexcept {
    return native_ != nullptr ? native_->addresses() : no_addresses_;
  }

 private:
  struct Known {
    uint64_t id;
    uint32_t tid;
    uint32_t thread;
    int64_t cpu_ns;
    uint64_t tick;
    uint64_t run;  // index in runs_ plus 1
    int32_t node;
    bool is_current;  // whether `node` is the stack at `cpu_ns`
    bool truncated;
    ThreadWait wait;
    platform::StackExtent extent;
    BlockedRequests blocked;
  };
  // A thread whose stack is read after those of the others.
  struct Wanted {
    ThreadWords thread;
    Known* known;
    int64_t used_ns;
    bool has_clock;
    bool is_new;
    bool advances;  // its CPU time does at this moment
  };
  struct NodeKey {
    int32_t parent;
    uint32_t code;
    int32_t line;
    bool operator==(const NodeKey& o) const noexcept {
      return parent == o.parent && code == o.code && line == o.line;
    }
  };
  struct NodeHash {
    size_t operator()(const NodeKey& key) const noexcept {
      const uint64_t low = (uint64_t{key.code} << 32) | static_cast<uint32_t>(key.line);
      return (low ^ (uint64_t{static_cast<uint32_t>(key.parent)} << 17)) * 0x9E3779B97F4A7C15u >> 7;
    }
  };

  std::string problem_of_layout();
  std::string problem_of_other();
  bool other_is_there() const noexcept;
  void sample_other(const ThreadWords& thread, Known* known, int64_t now_ns, uint64_t number);
  void take_names();
  void name(uint32_t thread, const std::string& name);
  void run();
  void tick(int64_t now_ns, uint64_t number);
  void begin_segment(int64_t now_ns);
  void sample(const ThreadWords& thread, int64_t now_ns, uint64_t number);
  static bool advances(const Wanted& wanted) noexcept;
  void finish(const Wanted& wanted, int64_t now_ns, uint64_t number);
  bool read_python(const ThreadWords& thread, PythonPart* part);
  int32_t node_of(const PythonPart& part);
  int32_t joined_node(const PythonPart& part);
  bool read_node(const ThreadWords& thread, int32_t* node, bool* truncated);
  void list_native_threads(int64_t now_ns);
  bool read_off_cpu(const Wanted& wanted);
  void read_without_native(const Wanted& wanted);
  void sample_wanted(int64_t now_ns, uint64_t number);
  void sample_stopped(size_t first, size_t count, int64_t now_ns, uint64_t number);
  uint32_t number_of(const ThreadWords& thread, const CopiedFrame& frame);
  int32_t child(int32_t parent, uint32_t code, int line);
  void add(Known& known, int64_t now_ns, uint64_t number, uint8_t state);

  StackSampler(double hz, uint64_t max_runs, const Interpreter& interpreter, int memory,
               NativeStacks::Classify classify);

  const int64_t period_ns_;
  const uint64_t max_runs_;
  const Interpreter interpreter_;
  const int pid_;
  const int memory_;
  std::atomic<bool> is_over_{false};
  const double hz_;
  int64_t unix_offset_ns_ = 0;
  std::unique_ptr<SampleFile> file_;
  size_t codes_in_file_ = 0;
  OtherThreads others_;
  StackReader reader_;
  CodeTable codes_;
  ThreadWaits waits_;
  std::unordered_map<uintptr_t, Known> known_;
  std::unordered_map<NodeKey, int32_t, NodeHash> children_;
  std::vector<StackNode> nodes_;
  std::vector<SampledThread> threads_;
  std::vector<SampleRun> runs_;
  SampleCounts counts_{};
  std::unique_ptr<NativeStacks> native_;
  std::string native_problem_;
  const std::vector<uint64_t> no_addresses_;
  std::vector<Wanted> wanted_;
  PythonPart part_;
  std::vector<PythonPart> parts_;      // by slot of ThreadStops
  std::vector<uint32_t> tids_;         // of all threads
  std::vector<uint32_t> native_tids_;  // of those without a Python state
  std::unordered_map<uint32_t, bool> is_own_;
  int64_t listed_ns_ = 0;
  int64_t last_tick_ns_ = 0;

  struct NewName {
    uint32_t tid;
    std::string name;
    bool ends;
  };
  std::mutex names_lock_;
  std::atomic<bool> has_new_names_{false};
  std::vector<NewName> new_names_;                   // under names_lock_
  std::unordered_map<uint32_t, std::string> names_;  // of living threads, by the kernel's id
  // Kernel's id -> index in threads_, of threads with frames: one that has not begun has the id of
  // another one.
  std::unordered_map<uint32_t, uint32_t> thread_of_;

  std::mutex lock_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread* thread_ = nullptr;
};

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
