// SPDX-License-Identifier: Apache-2.0
// A library that reports ranges by the genuine NVTX headers, for a program that has the double of
// libcupti as NVTX's tool.
#include <nvtx3/nvToolsExt.h>

#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void push(const char* name) {
  nvtxRangePushA(name);
}
EXPORT void pop() {
  nvtxRangePop();
}
EXPORT void mark(const char* name) {
  nvtxMarkA(name);
}
EXPORT nvtxRangeId_t start(const char* name) {
  return nvtxRangeStartA(name);
}
EXPORT void end(nvtxRangeId_t id) {
  nvtxRangeEnd(id);
}
EXPORT void annotated() {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("a \"domain\"");
  nvtxEventAttributes_t event;
  std::memset(&event, 0, sizeof event);
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.category = 4;
  event.colorType = NVTX_COLOR_ARGB;
  event.color = 0xFF76B900;
  event.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
  event.payload.dValue = 0.5;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = "annotated";
  nvtxDomainRangePushEx(domain, &event);
  nvtxDomainRangePop(domain);
}
