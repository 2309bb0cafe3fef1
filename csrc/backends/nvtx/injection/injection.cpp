// SPDX-License-Identifier: Apache-2.0
// Entry point of the injection library for NVTX: replaces the functions of each copy of NVTX in the
// process by ours, which record its calls.
#include "backends/annotations/fork.hpp"
#include "backends/annotations/own_recording.hpp"
#include "backends/nvtx/injection/object_names.hpp"
#include "backends/nvtx/injection/received_calls.hpp"
#include "backends/nvtx/nvtx_abi.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace nvtx {
namespace {

// Replaces the functions of one module, as far as the program's version of NVTX has them. Returns
// false if it lacks the module.
template <size_t Count>
bool replace(const CallbacksTable& callbacks, Module module,
             const ReceivedCall (&calls)[Count]) noexcept {
  FunctionTable table = nullptr;
  unsigned int count = 0;
  if (callbacks.get_module_function_table(module, &table, &count) == 0 || table == nullptr)
    return false;
  for (const ReceivedCall& call : calls)
    if (call.id < count && table[call.id] != nullptr) *table[call.id] = call.function;
  return true;
}

int attach(GetExportTable get_export_table) noexcept {
  if (get_export_table == nullptr) return 0;
  const auto* callbacks =
      static_cast<const CallbacksTable*>(get_export_table(ExportTable::callbacks));
  if (callbacks == nullptr || callbacks->struct_size < sizeof(CallbacksTable)) return 0;
  annotations::watch_forks();
  watch_forks_of_object_names();
  annotations::start_own_recording();
  const bool has_core = replace(*callbacks, Module::core, received_core_calls);
  const bool has_domains = replace(*callbacks, Module::core2, received_domain_calls);
  // The modules for OpenCL and for locks (nvtxDomainSyncUser...) are left alone, which makes their
  // calls do nothing: fastprof has no rows of OpenCL's queues or of locks that they could name.
  replace(*callbacks, Module::cuda, received_cuda_calls);
  replace(*callbacks, Module::cudart, received_cudart_calls);
  return has_core || has_domains ? kSuccess : 0;
}

}  // namespace
}  // namespace nvtx
FASTPROF_NAMESPACE_END

// NVTX calls it once for each binary that contains it, at its first NVTX call.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    fastprof::nvtx::GetExportTable get_export_table) {
  return fastprof::nvtx::attach(get_export_table);
}
