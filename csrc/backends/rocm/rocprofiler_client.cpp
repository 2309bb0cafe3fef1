// SPDX-License-Identifier: Apache-2.0
// Registration with rocprofiler-sdk, and what it delivers: see rocprofiler_client.hpp.
#include "backends/rocm/rocprofiler_client.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <thread>

#include "core/library_search.hpp"
#include "fastprof/leader/attach.hpp"
#include "fastprof/payload/native_stack/symbolize.hpp"
#include "fastprof/recorder/state/ticks.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace rocm {
namespace {

// A buffer is delivered when it is half full; threads that launch then fill its second half.
constexpr size_t kBufferBytes = size_t{4} << 20;
constexpr uint64_t kMaxBytes = uint64_t{1} << 30;  // of records that wait to be read
constexpr std::chrono::seconds kMaxWait{1};

// Calls that start no work and that programs make all the time; Kineto leaves them out, too.
constexpr const char* kQuietCalls[] = {"hipGetDevice",
                                       "hipSetDevice",
                                       "hipGetLastError",
                                       "__hipPushCallConfiguration",
                                       "__hipPopCallConfiguration",
                                       "hipCtxSetCurrent",
                                       "hipGetDevicePropertiesR0600",
                                       "hipGetDeviceCount",
                                       "hipDeviceGetAttribute",
                                       "hipRuntimeGetVersion",
                                       "hipPeekAtLastError",
                                       "hipModuleGetFunction"};

// Makes rocprofiler-sdk configure PyTorch's tool, too, while this lives: rocprofiler-sdk configures
// the tools of the libraries in ROCP_TOOL_LIBRARIES together with the first that registers itself,
// and refuses all later ones, so that torch.profiler would record no kernels after fastprof.
class TorchToolIncluded {
 public:
  TorchToolIncluded() {
    void* const torch = ::dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    void* configure = nullptr;
    if (torch == nullptr || !devices::find_symbol(torch, "rocprofiler_configure", &configure))
      return;
    if (const char* const given = std::getenv(kVariable)) before_ = given;
    const std::string path = devices::path_of_function(configure, "libtorch_cpu.so");
    ::setenv(kVariable, before_.empty() ? path.c_str() : (before_ + ":" + path).c_str(), 1);
    changed_ = true;
  }
  ~TorchToolIncluded() {
    if (!changed_) return;
    if (before_.empty())
      ::unsetenv(kVariable);
    else
      ::setenv(kVariable, before_.c_str(), 1);
  }
  TorchToolIncluded(const TorchToolIncluded&) = delete;
  TorchToolIncluded& operator=(const TorchToolIncluded&) = delete;

 private:
  static constexpr const char* kVariable = "ROCP_TOOL_LIBRARIES";
  bool changed_ = false;
  std::string before_;
};

}  // namespace

std::string RocprofilerClient::problem() {
  if (!std::exchange(tried_, true)) {
    only_ = this;
    register_tool();
    registered_.store(problem_.empty(), std::memory_order_release);
  }
  return problem_;
}

void RocprofilerClient::register_tool() {
  library_ = load_rocprofiler(libraries_, problem_);
  if (library_ == nullptr) return;
  int initialized = 0;
  library_->is_initialized(&initialized);
  const char* const remedy =
      "call fastprof.supported_activities() earlier, or start the program with `fastprof run`";
  if (initialized != 0) {
    problem_ =
        "another tool registered itself with rocprofiler-sdk in this process before fastprof "
        "(torch.profiler, rocprofv3), and later ones are refused: " +
        std::string(remedy);
    return;
  }
  if (hip_has_started()) {
    problem_ =
        "HIP has started before fastprof registered itself with rocprofiler-sdk, which cannot "
        "trace it any more: " +
        std::string(remedy);
    return;
  }
  const TorchToolIncluded both;
  const Status code = library_->force_configure(&configure);
  if (code != status::success)
    problem_ = "rocprofiler-sdk refuses fastprof: " + library_->text_of(code);
  else if (problem_.empty() && traces_ == 0)
    problem_ = "rocprofiler-sdk has not configured fastprof";
}

ToolConfiguration* RocprofilerClient::configure(uint32_t, const char*, uint32_t, ClientId* client) {
  client->name = "fastprof";
  static ToolConfiguration configuration = {sizeof(ToolConfiguration),
                                            [](void (*)(ClientId), void*) {
                                              only_->initialize();
                                              return only_->problem_.empty() ? 0 : -1;
                                            },
                                            nullptr, nullptr};
  return &configuration;
}

void RocprofilerClient::initialize() {
  const RocprofilerLibrary& l = *library_;
  const auto done = [&](Status code, const char* what) {
    if (code != status::success && problem_.empty())
      problem_ = "rocprofiler-sdk refuses " + std::string(what) + ": " + l.text_of(code);
    return problem_.empty();
  };
  const auto is_valid = [&](Handle context) {
    int valid = 0;
    return done(l.context_is_valid(context, &valid), "a context") && valid != 0;
  };
  l.each_agent(
      kAgentVersion,
      [](uint32_t, const void** agents, size_t count, void*) -> Status {
        for (size_t i = 0; i < count; ++i) {
          const auto& agent = *static_cast<const Agent*>(agents[i]);
          if (agent.size >= sizeof(Agent) && agent.type == kAgentGpu) only_->gpus_.push_back(agent);
        }
        return status::success;
      },
      sizeof(Agent), nullptr);
  const int32_t symbol = kKernelSymbolRegister;
  if (!done(l.create_context(&names_), "a context") ||
      !done(l.trace_by_callback(names_, kCallbackCodeObject, &symbol, 1, &add_kernel_name, nullptr),
            "the names of kernels") ||
      !is_valid(names_) || !done(l.start_context(names_), "the names of kernels"))
    return;

  std::vector<int32_t> calls;
  l.each_operation(
      buffered::hip_runtime_api,
      [](uint32_t kind, int32_t operation, void* data) {
        const char* name = nullptr;
        only_->library_->operation_name(kind, operation, &name, nullptr);
        const auto is_quiet = [name](const char* quiet) { return std::string(quiet) == name; };
        if (name != nullptr &&
            std::none_of(std::begin(kQuietCalls), std::end(kQuietCalls), is_quiet))
          static_cast<std::vector<int32_t>*>(data)->push_back(operation);
        return 0;
      },
      &calls);
  // A call's external correlation is the time of its begin on the recorder's clock, so that a call
  // nests among the ranges of its thread exactly.
  const ExternalRequest stamp = [](uint64_t, Handle, uint32_t, int32_t, uint64_t,
                                   uint64_t* external, void*) {
    *external = ticks(state());
    return 0;
  };
  const uint32_t stamped = kRequestHipRuntimeApi;
  Handle traces = 0;
  if (done(l.create_context(&traces), "a context") &&
      done(l.create_buffer(traces, kBufferBytes, kBufferBytes / 2, kPolicyLossless, &receive,
                           nullptr, &buffer_),
           "a buffer") &&
      done(l.trace_into_buffer(traces, buffered::hip_runtime_api, calls.data(), calls.size(),
                               buffer_),
           "calls of HIP") &&
      done(l.trace_into_buffer(traces, buffered::kernel_dispatch, nullptr, 0, buffer_),
           "kernels") &&
      done(l.trace_into_buffer(traces, buffered::memory_copy, nullptr, 0, buffer_), "copies") &&
      done(l.trace_into_buffer(traces, buffered::retirement, nullptr, 0, buffer_),
           "the ends of calls") &&
      done(l.request_external(traces, &stamped, 1, stamp, nullptr), "stamps of calls") &&
      is_valid(traces))
    traces_ = traces;
}

bool RocprofilerClient::begin(std::string& reason) {
  const Status code = library_->start_context(traces_);
  if (code != status::success)
    reason = "rocprofiler-sdk does not begin: " + library_->text_of(code);
  return code == status::success;
}

void RocprofilerClient::wait_for_work(std::vector<std::string>& problems) {
  // The runtime reports the end of work on a thread of its own, some time after a wait for the
  // device has returned.
  const auto until = std::chrono::steady_clock::now() + kMaxWait;
  std::unordered_set<uint64_t> waiting;
  for (bool first = true;; first = false) {
    if (const Status code = library_->flush_buffer(buffer_); code != status::success) {
      problems.push_back("the records could not be flushed: " + library_->text_of(code));
      return;
    }
    {
      const std::lock_guard<std::mutex> hold(lock_);
      if (first) waiting = unfinished_;
      for (auto at = waiting.begin(); at != waiting.end();)
        at = unfinished_.count(*at) != 0 ? std::next(at) : waiting.erase(at);
    }
    if (waiting.empty()) return;
    if (std::chrono::steady_clock::now() > until) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  problems.push_back("rocprofiler-sdk has not reported the end of the work of " +
                     std::to_string(waiting.size()) +
                     " calls within a second: their kernels or copies may be missing");
}

void RocprofilerClient::end() {
  library_->stop_context(traces_);
  library_->flush_buffer(buffer_);
  const std::lock_guard<std::mutex> hold(lock_);
  batches_.clear();
  unfinished_.clear();
}

Batches RocprofilerClient::take(uint64_t* dropped) {
  const std::lock_guard<std::mutex> hold(lock_);
  *dropped = std::exchange(dropped_, 0);
  return std::exchange(batches_, {});
}

std::string RocprofilerClient::kernel_name(uint64_t kernel_id) {
  const std::lock_guard<std::mutex> hold(lock_);
  const auto at = kernel_names_.find(kernel_id);
  return at != kernel_names_.end() ? at->second : "Kernel";
}

int32_t RocprofilerClient::device_of(Handle agent) const {
  for (const Agent& gpu : gpus_)
    if (gpu.id == agent) return gpu.device_index;
  return -1;
}

uint64_t RocprofilerClient::now_ns() const noexcept {
  uint64_t now = 0;
  if (library_ != nullptr) library_->timestamp(&now);
  return now;
}

void RocprofilerClient::add_kernel_name(CallbackRecord record, uint64_t*, void*) {
  // Names stay after a kernel is unloaded, since its records may come later.
  if (record.kind != kCallbackCodeObject || record.operation != kKernelSymbolRegister ||
      record.phase != kPhaseLoad)
    return;
  const auto& symbol = *static_cast<const KernelSymbol*>(record.payload);
  if (symbol.name == nullptr) return;
  try {
    std::string name = symbol.name;
    constexpr std::string_view kDescriptor = ".kd";  // the symbol is the kernel's descriptor
    if (name.size() > kDescriptor.size() &&
        name.compare(name.size() - kDescriptor.size(), kDescriptor.size(), kDescriptor) == 0)
      name.resize(name.size() - kDescriptor.size());
    const std::lock_guard<std::mutex> hold(only_->lock_);
    only_->kernel_names_[symbol.kernel_id] = demangle(name);
  } catch (const std::exception&) {  // no memory: the kernel has no name
  }
}

void RocprofilerClient::receive(Handle, Handle, RecordHeader** headers, size_t count, void*,
                                uint64_t dropped) {
  try {
    only_->add(headers, count, dropped);
  } catch (const std::exception&) {  // no memory
    const std::lock_guard<std::mutex> hold(only_->lock_);
    only_->dropped_ += count;
  }
}

void RocprofilerClient::add(RecordHeader** headers, size_t count, uint64_t dropped) {
  auto batch = std::make_unique<Batch>();
  const std::lock_guard<std::mutex> hold(lock_);
  dropped_ += dropped - std::exchange(library_drops_, dropped);
  for (size_t i = 0; i < count; ++i) {
    const RecordHeader& header = *headers[i];
    if (header.category != kCategoryTracing) continue;
    switch (header.kind) {
      case buffered::hip_runtime_api:
        batch->calls.push_back(*static_cast<const CallRecord*>(header.payload));
        unfinished_.insert(batch->calls.back().correlation.internal);
        break;
      case buffered::kernel_dispatch:
        batch->kernels.push_back(*static_cast<const KernelRecord*>(header.payload));
        break;
      case buffered::memory_copy:
        batch->copies.push_back(*static_cast<const CopyRecord*>(header.payload));
        break;
      case buffered::retirement:
        unfinished_.erase(static_cast<const RetirementRecord*>(header.payload)->internal);
        break;
      default:
        break;
    }
  }
  const uint64_t bytes = batch->calls.size() * sizeof(CallRecord) +
                         batch->kernels.size() * sizeof(KernelRecord) +
                         batch->copies.size() * sizeof(CopyRecord);
  if (alive_bytes_ + bytes > kMaxBytes) {
    dropped_ += batch->calls.size() + batch->kernels.size() + batch->copies.size();
    return;
  }
  alive_bytes_ += bytes;
  batches_.emplace_back(batch.release(), [this, bytes](const Batch* read) {
    alive_bytes_ -= bytes;
    delete read;
  });
}

}  // namespace rocm
FASTPROF_NAMESPACE_END
