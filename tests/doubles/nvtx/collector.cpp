// SPDX-License-Identifier: Apache-2.0
// Double of an NVTX tool such as Nsight Systems, on the genuine headers: writes one line for each
// call that it receives to the file that COLLECTOR_LOG names, "thread call text". COLLECTOR_REFUSES
// makes it refuse to attach.
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

void write_line(const char* call, const char* text) {
  static const int file =
      open(std::getenv("COLLECTOR_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const std::string line =
      std::to_string(syscall(SYS_gettid)) + " " + call + " " + (text ? text : "") + "\n";
  if (write(file, line.data(), line.size()) < 0) std::perror("collector");
}

int push(const char* text) {
  write_line("push", text);
  return 0;
}
int pop() {
  write_line("pop", "");
  return 0;
}
void mark(const char* text) {
  write_line("mark", text);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_export_table) {
  if (std::getenv("COLLECTOR_REFUSES") != nullptr) return 0;
  const auto* version =
      static_cast<const NvtxExportTableVersionInfo*>(get_export_table(NVTX_ETID_VERSIONINFO));
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_export_table(NVTX_ETID_CALLBACKS));
  if (version == nullptr || version->struct_size < sizeof *version || version->version != 3)
    return 0;
  version->SetInjectionNvtxVersion(NVTX_VERSION);
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  // As tools do, it asks for every module, and needs all the functions that its headers have.
  const struct {
    NvtxCallbackModule module;
    unsigned int size;
  } modules[] = {{NVTX_CB_MODULE_CUDA, NVTX_CBID_CUDA_SIZE},
                 {NVTX_CB_MODULE_CUDART, NVTX_CBID_CUDART_SIZE},
                 {NVTX_CB_MODULE_OPENCL, NVTX_CBID_OPENCL_SIZE},
                 {NVTX_CB_MODULE_SYNC, NVTX_CBID_SYNC_SIZE},
                 {NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_SIZE},
                 {NVTX_CB_MODULE_CORE, NVTX_CBID_CORE_SIZE}};
  for (const auto& wanted : modules)
    if (callbacks->GetModuleFunctionTable(wanted.module, &table, &size) == 0 || size < wanted.size)
      return 0;
  *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
  *table[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  *table[NVTX_CBID_CORE_MarkA] = reinterpret_cast<NvtxFunctionPointer>(mark);
  return 1;
}
