// SPDX-License-Identifier: Apache-2.0
// A program annotated with the genuine NVTX headers: every kind of call that the injection library
// receives. Prints what the calls return.
#define _GNU_SOURCE
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static nvtxRangeId_t crossing;

static void* on_another_thread(void* unused) {
  (void)unused;
  nvtxNameOsThreadA((uint32_t)syscall(SYS_gettid), "worker of the client");
  nvtxRangePushA("on the worker");
  nvtxRangeEnd(crossing);
  nvtxRangePop();
  return NULL;
}

static nvtxEventAttributes_t event_named(const char* name) {
  nvtxEventAttributes_t event;
  memset(&event, 0, sizeof event);
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name;
  return event;
}

int main(void) {
  // A name that is overwritten after the push must have been copied.
  char name[32] = "outer";
  printf("push outer %d\n", nvtxRangePushA(name));
  strcpy(name, "changed");
  printf("push wide %d\n", nvtxRangePushW(L"wide \u00e4\u20ac\U0001F600"));

  nvtxDomainHandle_t domain = nvtxDomainCreateA("client.domain");
  printf("same domain %d\n", domain == nvtxDomainCreateA("client.domain"));
  nvtxDomainNameCategoryA(domain, 7, "loading");
  nvtxEventAttributes_t event = event_named("in the domain");
  event.category = 7;
  event.colorType = NVTX_COLOR_ARGB;
  event.color = 0xFF76B900;
  event.payloadType = NVTX_PAYLOAD_TYPE_INT32;
  event.payload.iValue = -5;
  printf("push in domain %d\n", nvtxDomainRangePushEx(domain, &event));

  nvtxEventAttributes_t registered = event_named("");
  registered.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  registered.message.registered = nvtxDomainRegisterStringA(domain, "registered text");
  registered.payloadType = NVTX_PAYLOAD_TYPE_FLOAT;
  registered.payload.fValue = 0.5f;
  registered.category = 8;
  printf("push registered %d\n", nvtxDomainRangePushEx(domain, &registered));
  printf("pop registered %d\n", nvtxDomainRangePop(domain));

  nvtxEventAttributes_t number = event_named("unsigned payload");
  number.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  number.payload.ullValue = UINT64_MAX;
  nvtxMarkEx(&number);
  nvtxMarkA("plain mark");
  nvtxDomainMarkEx(domain, &event);

  // The default domain's innermost range lies below one of another domain.
  printf("pop wide %d\n", nvtxRangePop());
  printf("pop in domain %d\n", nvtxDomainRangePop(domain));

  crossing = nvtxRangeStartA("ends on another thread");
  nvtxRangeId_t overlapping = nvtxDomainRangeStartEx(domain, &event);
  printf("numbers %d\n", crossing != 0 && overlapping != 0 && crossing != overlapping);
  pthread_t thread;
  pthread_create(&thread, NULL, on_another_thread, NULL);
  pthread_join(thread, NULL);
  nvtxDomainRangeEnd(domain, overlapping);

  printf("pop outer %d\n", nvtxRangePop());
  printf("pop nothing %d\n", nvtxRangePop() < 0);
  for (int i = 0; i < 200; ++i) nvtxRangePushA("deep");
  int level = -1;
  for (int i = 0; i < 200; ++i) level = nvtxRangePop();
  printf("deepest was over %d\n", level);
  nvtxRangePushA("never popped");
  return 0;
}
