// SPDX-License-Identifier: Apache-2.0
#include "adapters/python/stack_sampler.hpp"

#include <Python.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <new>

#include "adapters/python/frames.hpp"
#include "fastprof/platform/checked_copy.hpp"
#include "fastprof/platform/clock.hpp"
#include "fastprof/platform/threads.hpp"
#include "fastprof/sampling/fork_hold.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

constexpr int kReadingsOfNewCode = 32;

uint64_t next_random(uint64_t* state) noexcept {  // splitmix64
  *state += 0x9E3779B97F4A7C15u;
  uint64_t mixed = (*state ^ (*state >> 30)) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
  return mixed ^ (mixed >> 31);
}

// The frames of the calling thread by the public interface: code objects and lines.
std::vector<std::pair<uintptr_t, int>> frames_by_interface() {
  std::vector<std::pair<uintptr_t, int>> found;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    found.emplace_back(reinterpret_cast<uintptr_t>(code), PyFrame_GetLineNumber(frame));
    Py_DECREF(code);
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  return found;
}

}  // namespace

StackSampler::StackSampler(double hz, uint64_t max_runs, NativeStacks::Classify classify)
    : StackSampler(hz, max_runs, own_interpreter(), -1, classify) {}

StackSampler::StackSampler(double hz, uint64_t max_runs, const Interpreter& interpreter, int memory)
    : StackSampler(hz, max_runs, interpreter, memory, nullptr) {}

StackSampler::StackSampler(double hz, uint64_t max_runs, const Interpreter& interpreter, int memory,
                           NativeStacks::Classify classify)
    : period_ns_(std::max<int64_t>(static_cast<int64_t>(1e9 / hz), 1000)),
      max_runs_(max_runs),
      interpreter_(interpreter),
      pid_(interpreter.pid),
      memory_(memory),
      hz_(hz),
      others_(interpreter_),
      reader_(interpreter_),
      codes_(interpreter_),
      waits_(interpreter_),
      native_(classify != nullptr ? std::make_unique<NativeStacks>(classify) : nullptr),
      parts_(classify != nullptr ? platform::ThreadStops::kSlots : 0) {}

StackSampler::~StackSampler() {
  end();
  if (memory_ >= 0) ::close(memory_);
}

std::string StackSampler::problem_of_layout() {
  if (!platform::can_copy_pieces())
    return "the system does not permit process_vm_readv: allow it in the container's seccomp "
           "profile";
  const auto expected = frames_by_interface();
  const auto own = reinterpret_cast<uintptr_t>(PyThreadState_Get());
  bool agrees = others_.read();
  const auto& threads = others_.threads();
  const auto self = std::find_if(threads.begin(), threads.end(),
                                 [own](const ThreadWords& words) { return words.address == own; });
  agrees = agrees && self != threads.end() && reader_.read(*self) == StackState::complete;
  const std::vector<CopiedFrame> frames = agrees ? reader_.frames() : std::vector<CopiedFrame>();
  agrees = agrees && frames.size() == std::min(expected.size(), StackReader::kMaxFrames);
  for (size_t i = 0; agrees && i < frames.size(); ++i) {
    const char* head = reader_.code_head(frames[i]);
    uint32_t number = codes_.find(frames[i].code, head);
    if (number == CodeTable::kUnknown) {
      number = codes_.read(frames[i].code, head);
      if (number != CodeTable::kUnknown) codes_.keep(frames[i].code, head, number);
    }
    agrees = number != CodeTable::kUnknown && frames[i].code == expected[i].first &&
             codes_.line(number, frames[i].offset) == std::max(expected[i].second, 0);
  }
  return agrees ? std::string()
                : std::string(
                      "frames of this interpreter cannot be read without the GIL: use "
                      "python_calls=True, or CPython 3.10 to 3.13");
}

std::string StackSampler::begin(int64_t unix_offset_ns) {
  unix_offset_ns_ = unix_offset_ns;
  std::string problem = interpreter_.is_own ? problem_of_layout() : problem_of_other();
  if (!problem.empty()) return problem;
  if (native_ != nullptr) {
    native_problem_ = install_fork_hold() ? native_->stops.begin() : "no memory";
    if (!native_problem_.empty()) native_ = nullptr;
  }
  const auto pthread = reinterpret_cast<uintptr_t>(::pthread_self());
  const uint32_t tid = platform::thread_id();
  // Signals of the program are for its own threads.
  sigset_t all;
  sigset_t former;
  sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) sigdelset(&all, fault);
  ::pthread_sigmask(SIG_SETMASK, &all, &former);
  try {
    thread_ = new std::thread([this, pthread, tid] {
      platform::name_this_thread("fastprof-sample");
      others_.learn_kernel_ids(pthread, tid);
      run();
    });
  } catch (const std::exception& error) {
    problem = std::string("the sampling thread could not be started: ") + error.what();
  }
  ::pthread_sigmask(SIG_SETMASK, &former, nullptr);
  return problem;
}

std::string StackSampler::write_to(const std::string& path, size_t file_bytes, double seconds,
                                   bool grows) {
  auto file = std::make_unique<SampleFile>(hz_, file_bytes / kSampleSegments,
                                           static_cast<int64_t>(seconds * 1e9), grows);
  std::string problem = file->open(path);
  if (problem.empty()) file_ = std::move(file);
  return problem;
}

void StackSampler::name_thread(uint32_t tid, std::string name, bool ends) {
  const std::lock_guard<std::mutex> hold(names_lock_);
  new_names_.push_back({tid, std::move(name), ends});
  has_new_names_.store(true, std::memory_order_release);
}

void StackSampler::take_names() {
  if (!has_new_names_.load(std::memory_order_acquire)) return;
  std::vector<NewName> taken;
  {
    const std::lock_guard<std::mutex> hold(names_lock_);
    taken.swap(new_names_);
    has_new_names_.store(false, std::memory_order_relaxed);
  }
  for (NewName& each : taken) {
    const auto found = thread_of_.find(each.tid);
    if (found != thread_of_.end()) name(found->second, each.name);
    if (each.ends) {
      names_.erase(each.tid);
      thread_of_.erase(each.tid);
    } else {
      names_[each.tid] = std::move(each.name);
    }
  }
}

void StackSampler::name(uint32_t thread, const std::string& name) {
  if (threads_[thread].name == name) return;
  threads_[thread].name = name;
  if (file_ != nullptr) file_->add_name(thread, name);
}

void StackSampler::end() {
  if (thread_ == nullptr) return;
  {
    const std::lock_guard<std::mutex> hold(lock_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_->join();
  delete thread_;
  thread_ = nullptr;
  take_names();
  if (file_ != nullptr) file_->commit(counts_);
  if (native_ != nullptr) native_->stops.end();
}

void StackSampler::forget_in_child() noexcept {
  thread_ = nullptr;  // its destructor would end the process
  if (native_ != nullptr) native_->stops.forget();
}

void StackSampler::run() {
  using Clock = std::chrono::steady_clock;
  uint64_t random = static_cast<uint64_t>(platform::monotonic_ns());
  int64_t grid_ns = platform::monotonic_ns();
  const int64_t start_ns = grid_ns;
  const Clock::time_point start = Clock::now();
  uint64_t number = 0;
  try {
    for (;;) {
      grid_ns += period_ns_;
      const int64_t now_ns = platform::monotonic_ns();
      if (now_ns > grid_ns) {  // the last tick took too long, or this thread had no CPU
        const int64_t missed = (now_ns - grid_ns) / period_ns_ + 1;
        counts_.missed_ticks += static_cast<uint64_t>(missed);
        grid_ns += missed * period_ns_;
      }
      // Uniform in the period: a program's own period cannot stay in step with the ticks.
      const auto jitter =
          static_cast<int64_t>(next_random(&random) % static_cast<uint64_t>(period_ns_));
      const int64_t at_ns = grid_ns - period_ns_ / 2 + (jitter - period_ns_ / 2) / 2;
      {
        std::unique_lock<std::mutex> hold(lock_);
        if (changed_.wait_until(hold, start + std::chrono::nanoseconds(at_ns - start_ns),
                                [this] { return ends_; }))
          break;
      }
      is_over_ = !interpreter_.is_own && !other_is_there();
      if (is_over_ || (interpreter_.is_own && is_python_finalizing())) break;
      tick(platform::monotonic_ns(), ++number);
    }
  } catch (const std::bad_alloc&) {
    ++counts_.no_room;  // and no later samples
  }
  platform::read_thread_cpu_ns(platform::thread_id(), &counts_.cpu_ns);
}

void StackSampler::tick(int64_t now_ns, uint64_t number) {
  ++counts_.ticks;
  if (!others_.read()) {
    ++counts_.torn;
    return;
  }
  if (file_ != nullptr && file_->is_segment_over(now_ns)) begin_segment(now_ns);
  take_names();
  wanted_.clear();
  for (const ThreadWords& thread : others_.threads()) sample(thread, now_ns, number);
  if (native_ != nullptr) {
    const ForkHold hold;
    list_native_threads(now_ns);
    for (const uint32_t tid : native_tids_) sample({tid, 0, 0, 0, 0, tid, false}, now_ns, number);
    sample_wanted(now_ns, number);
  }
  last_tick_ns_ = now_ns;
  if (file_ == nullptr) return;
  platform::read_thread_cpu_ns(platform::thread_id(), &counts_.cpu_ns);
  file_->commit(counts_);
}

// Forgets all numbers: the records of a segment do not refer to another one.
void StackSampler::begin_segment(int64_t now_ns) {
  known_.clear();
  children_.clear();
  nodes_.clear();
  threads_.clear();
  thread_of_.clear();
  runs_.clear();
  codes_.clear();
  codes_in_file_ = 0;
  file_->begin_segment(now_ns);
}

void StackSampler::sample(const ThreadWords& thread, int64_t now_ns, uint64_t number) {
  if (thread.tid == 0 && interpreter_.layout.kernel_id != kAbsent)
    return;  // its thread has not begun
  Known& known = known_[thread.address];
  // A new thread's state has its creator's id until the thread runs.
  const bool is_new = known.tick == 0 || known.id != thread.id || known.tid != thread.tid;
  if (is_new) {
    known = Known{};
    known.id = thread.id;
    known.tid = thread.tid;
    known.thread = static_cast<uint32_t>(threads_.size());
    std::string name;
    if (!interpreter_.is_own)
      name = waits_.name_of(thread.tid);
    else if (thread.frame_word == 0)
      name = platform::thread_name_of(thread.tid);
    threads_.push_back({thread.tid, thread.id, std::move(name)});
    if (file_ != nullptr) file_->add_thread(thread.tid);
  }
  if (!interpreter_.is_own) {
    sample_other(thread, &known, now_ns, number);
    return;
  }
  int64_t cpu_ns = 0;
  const bool has_clock = thread.tid != 0 && platform::read_thread_cpu_ns(thread.tid, &cpu_ns);
  if (!has_clock && thread.tid != 0 && !FASTPROF_DARWIN) return;  // it has ended
  const int64_t used_ns = cpu_ns - known.cpu_ns;
  known.cpu_ns = cpu_ns;
  Wanted wanted{thread, &known, used_ns, has_clock, is_new, false};
  // A thread that used no CPU has the stack of the last tick.
  if (!has_clock || used_ns != 0 || is_new || !known.is_current) {
    if (native_ != nullptr) {
      wanted.advances = advances(wanted);
      wanted_.push_back(wanted);
      return;
    }
    known.is_current = read_node(thread, &known.node, &known.truncated);
  }
  wanted.advances = advances(wanted);
  finish(wanted, now_ns, number);
}

bool StackSampler::advances(const Wanted& wanted) noexcept {
  int64_t later_ns = 0;
  return wanted.has_clock && wanted.used_ns != 0 && !wanted.is_new &&
         platform::read_thread_cpu_ns(wanted.thread.tid, &later_ns) &&
         later_ns != wanted.known->cpu_ns;
}

// Adds the sample of a thread whose stack was read, or is that of the last tick.
void StackSampler::finish(const Wanted& wanted, int64_t now_ns, uint64_t number) {
  const ThreadWords& thread = wanted.thread;
  Known& known = *wanted.known;
  if (!known.is_current) {
    ++counts_.torn;
    return;
  }
  uint8_t state = thread.has_gil ? kHasGil : 0;
  if (known.truncated) state |= kTruncated;
  if (thread.has_exception) state |= kHasException;
  if (!wanted.has_clock) {
    state |= thread.has_gil ? kOnCpu : 0;
  } else if (wanted.used_ns != 0 && !wanted.is_new) {
    const bool mostly = 2 * wanted.used_ns >= now_ns - last_tick_ns_;
    if (wanted.advances || thread.has_gil || mostly) state |= kOnCpu;
  }
  // A thread that used no CPU waits where it did at the last tick.
  bool runs = false;
  if (wanted.used_ns != 0 || wanted.is_new) known.wait = ThreadWait::unknown;
  if (wanted.has_clock && !wanted.advances && known.wait == ThreadWait::unknown)
    known.wait = waits_.read(thread.tid, &runs);
  state |= static_cast<uint8_t>(static_cast<unsigned>(known.wait) << kWaitShift);
  add(known, now_ns, number, state);
}

bool StackSampler::read_python(const ThreadWords& thread, PythonPart* part) {
  part->frames.clear();
  part->started_loops = 0;
  const StackState found = reader_.read(thread);
  if (found == StackState::torn) return false;
  part->truncated = found == StackState::complete && reader_.truncated();
  part->started_loops = reader_.started_loops();
  if (found == StackState::empty) return true;
  for (const CopiedFrame& frame : reader_.frames()) {
    const uint32_t code = number_of(thread, frame);
    if (code == CodeTable::kUnknown) return false;
    part->frames.push_back({code, codes_.line(code, frame.offset), frame.is_entry});
  }
  return true;
}

int32_t StackSampler::node_of(const PythonPart& part) {
  int32_t at = -1;
  for (size_t i = part.frames.size(); i-- != 0;)
    at = child(at, part.frames[i].code, part.frames[i].line);
  return at;
}

bool StackSampler::read_node(const ThreadWords& thread, int32_t* node, bool* truncated) {
  if (!read_python(thread, &part_)) return false;
  *node = node_of(part_);
  *truncated = part_.truncated;
  return true;
}

uint32_t StackSampler::number_of(const ThreadWords& thread, const CopiedFrame& frame) {
  const char* head = reader_.code_head(frame);
  const uint32_t known = codes_.find(frame.code, head);
  if (known != CodeTable::kUnknown) return known;
  const uint32_t number = codes_.read(frame.code, head);
  if (number == CodeTable::kUnknown) return number;
  for (int i = 0; i < kReadingsOfNewCode; ++i) {
    if (!reader_.is_still_running(thread, frame)) continue;
    codes_.keep(frame.code, head, number);
    return number;
  }
  codes_.drop_newest();
  return CodeTable::kUnknown;
}

int32_t StackSampler::child(int32_t parent, uint32_t code, int line) {
  const auto next = static_cast<int32_t>(nodes_.size());
  const auto [found, added] = children_.emplace(NodeKey{parent, code, line}, next);
  if (added) {
    nodes_.push_back({parent, code, line});
    if (file_ != nullptr) {
      for (; codes_in_file_ < codes_.codes().size(); ++codes_in_file_) {
        const CodeNames& names = codes_.codes()[codes_in_file_];
        file_->add_code(names.name, names.file, names.first_line);
      }
      file_->add_node(nodes_.back());
    }
  }
  return found->second;
}

void StackSampler::add(Known& known, int64_t now_ns, uint64_t number, uint8_t state) {
  const int64_t at_ns = now_ns + unix_offset_ns_;
  const bool consecutive = known.tick + 1 == number && known.run != 0;
  known.tick = number;
  if (consecutive) {
    SampleRun& last = runs_[known.run - 1];
    if (last.node == known.node && last.state == state) {
      last.last_ns = at_ns;
      ++last.count;
      if (file_ != nullptr) file_->update_run(known.run - 1, last);
      return;
    }
  }
  if (known.node >= 0 && interpreter_.is_own) {
    const auto [named, is_new] = thread_of_.emplace(known.tid, known.thread);
    if (is_new || named->second != known.thread) {
      named->second = known.thread;
      const auto given = names_.find(known.tid);
      if (given != names_.end()) name(known.thread, given->second);
    }
  }
  const SampleRun run{at_ns, at_ns, known.thread, known.node, 1, state};
  if (runs_.size() >= max_runs_ || (file_ != nullptr && !file_->add_run(run))) {
    ++counts_.no_room;
    known.run = 0;
    return;
  }
  runs_.push_back(run);
  known.run = runs_.size();
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
