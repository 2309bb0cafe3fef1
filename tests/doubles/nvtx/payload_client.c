// SPDX-License-Identifier: Apache-2.0
// A program that describes its payloads by schemas, with the genuine headers of NVTX's extension.
#include <nvtx3/nvToolsExtPayload.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  float x, y;
} Point;
typedef struct {
  uint8_t kind;
  int32_t count;
  double rate;
  const char* title;
  char fixed[8];
  uint16_t sizes[3];
  int mode;
  Point at;
  const void* address;
  nvtxStringHandle_t registered;
} Batch;

#define ENTRY(type, member, flags, entry_type, detail) \
  { flags, entry_type, #member, NULL, detail, offsetof(type, member), NULL, NULL }

static uint64_t registered_schema(nvtxDomainHandle_t domain,
                                  const nvtxPayloadSchemaEntry_t* entries, size_t count,
                                  uint64_t type, size_t size, uint64_t id) {
  nvtxPayloadSchemaAttr_t attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.fieldMask =
      NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
      NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE |
      NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID;
  attributes.type = type;
  attributes.entries = entries;
  attributes.numEntries = count;
  attributes.payloadStaticSize = size;
  attributes.schemaId = id;
  return nvtxPayloadSchemaRegister(domain, &attributes);
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
  nvtxDomainHandle_t domain = nvtxDomainCreateA("payloads");
  printf("enabled %d\n", nvtxDomainIsEnabled(domain));

  const nvtxPayloadEnum_t modes[] = {{"off", 0, 0}, {"read", 1, 1}, {"write", 2, 1}};
  nvtxPayloadEnumAttr_t enumeration;
  memset(&enumeration, 0, sizeof enumeration);
  enumeration.fieldMask = NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES |
                          NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES |
                          NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE;
  enumeration.entries = modes;
  enumeration.numEntries = 3;
  enumeration.sizeOfEnum = sizeof(int);
  const uint64_t mode = nvtxPayloadEnumRegister(domain, &enumeration);

  const nvtxPayloadSchemaEntry_t point[] = {
      ENTRY(Point, x, 0, NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, 0),
      ENTRY(Point, y, 0, NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, 0),
  };
  const uint64_t points = registered_schema(domain, point, 2, NVTX_PAYLOAD_SCHEMA_TYPE_STATIC,
                                            sizeof(Point), NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 1);
  const nvtxPayloadSchemaEntry_t batch[] = {
      ENTRY(Batch, kind, 0, NVTX_PAYLOAD_ENTRY_TYPE_UINT8, 0),
      ENTRY(Batch, count, 0, NVTX_PAYLOAD_ENTRY_TYPE_INT32, 0),
      ENTRY(Batch, rate, 0, NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, 0),
      ENTRY(Batch, title, 0, NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, 0),
      ENTRY(Batch, fixed, 0, NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8, 8),
      ENTRY(Batch, sizes, NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE, NVTX_PAYLOAD_ENTRY_TYPE_UINT16,
            3),
      ENTRY(Batch, mode, 0, mode, 0),
      ENTRY(Batch, at, 0, points, 0),
      ENTRY(Batch, address, 0, NVTX_PAYLOAD_ENTRY_TYPE_ADDRESS, 0),
      ENTRY(Batch, registered, NVTX_PAYLOAD_ENTRY_FLAG_HIDE,
            NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE, 0),
  };
  const uint64_t batches =
      registered_schema(domain, batch, 10, NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, sizeof(Batch), 0);
  printf("ids %d\n", mode != 0 && points == NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 1 &&
                         batches >= NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START);

  Batch first = {7,           -3,
                 2.5,         "first title",
                 "12345678",  {1, 2, 65535},
                 3,           {0.5f, -1.0f},
                 (void*)4096, nvtxDomainRegisterStringA(domain, "hidden")};
  memcpy(first.fixed, "abcdefgh", 8);  // without a zero
  nvtxPayloadData_t data = {batches, sizeof first, &first};
  nvtxEventAttributes_t event = event_named("with payload");
  event.payloadType = NVTX_PAYLOAD_TYPE_EXT;
  event.reserved0 = 1;
  event.payload.ullValue = (uint64_t)(uintptr_t)&data;
  printf("push %d\n", nvtxDomainRangePushEx(domain, &event));
  nvtxDomainMarkEx(domain, &event);
  const nvtxRangeId_t started = nvtxDomainRangeStartEx(domain, &event);
  printf("pop %d\n", nvtxDomainRangePop(domain));
  nvtxDomainRangeEnd(domain, started);

  // Offsets by natural alignment; an array of a length that the payload has; a message.
  const nvtxPayloadSchemaEntry_t dynamic[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT8, "length", NULL, 0, 0, NULL, NULL},
      {NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_INDEX, NVTX_PAYLOAD_ENTRY_TYPE_INT32, "values", NULL, 0,
       0, NULL, NULL},
      {NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE | NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED,
       NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "message", NULL, 0, 0, NULL, NULL},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "cut short", NULL, 0, 0, NULL, NULL},
  };
  const uint64_t dynamics =
      registered_schema(domain, dynamic, 4, NVTX_PAYLOAD_SCHEMA_TYPE_DYNAMIC, 0, 0);
  struct {
    uint8_t length;
    int32_t values[2];
    char message[12];
  } some = {2, {-1, 5}, "from inside"};
  const nvtxPayloadData_t several[] = {{dynamics, sizeof some, &some},
                                       {NVTX_PAYLOAD_ENTRY_TYPE_INT32, 4, &some.values[1]},
                                       {NVTX_TYPE_PAYLOAD_SCHEMA_RAW, 4, &some.values[0]}};
  printf("push payload %d\n", nvtxRangePushPayload(domain, several, 3));
  printf("pop payload %d\n", nvtxRangePopPayload(domain, &several[1], 1));

  const nvtxPayloadSchemaEntry_t choice[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT32, "whole", NULL, 0, 0, NULL, NULL},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, "real", NULL, 0, 0, NULL, NULL},
  };
  const uint64_t choices =
      registered_schema(domain, choice, 2, NVTX_PAYLOAD_SCHEMA_TYPE_UNION, 4, 0);
  const nvtxPayloadSchemaEntry_t chosen[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT32, "which", NULL, 0, 0, NULL, NULL},
      {0, choices, "value", NULL, 0, 0, NULL, NULL},
  };
  const uint64_t unions =
      registered_schema(domain, chosen, 2, NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, 8, 0);
  for (int which = 0; which < 3; ++which) {
    struct {
      int32_t which;
      union {
        int32_t whole;
        float real;
      } value;
    } choice_of = {which, {12}};
    if (which == 1) choice_of.value.real = 0.25f;
    const nvtxPayloadData_t payload = {unions, sizeof choice_of, &choice_of};
    nvtxMarkPayload(domain, &payload, 1);
  }

  // A union whose first member is the union itself.
  const uint64_t endless_id = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 2;
  const nvtxPayloadSchemaEntry_t endless[] = {{0, endless_id, "itself", NULL, 0, 0, NULL, NULL}};
  registered_schema(domain, endless, 1, NVTX_PAYLOAD_SCHEMA_TYPE_UNION, 4, endless_id);
  const nvtxPayloadSchemaEntry_t deep[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT32, "which", NULL, 0, 0, NULL, NULL},
      {0, endless_id, "endless", NULL, 0, 0, NULL, NULL},
  };
  const int32_t zeros[2] = {0, 0};
  const nvtxPayloadData_t bottomless = {
      registered_schema(domain, deep, 2, NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, 8, 0), 8, zeros};
  nvtxMarkPayload(domain, &bottomless, 1);

  // More values than a record has arguments; a payload of no schema; a missing one.
  nvtxPayloadSchemaEntry_t many[16];
  memset(many, 0, sizeof many);
  for (int i = 0; i < 16; ++i) many[i].type = NVTX_PAYLOAD_ENTRY_TYPE_UINT8;
  const uint64_t bytes =
      registered_schema(domain, many, 16, NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, 16, 0);
  const nvtxPayloadData_t sixteen = {bytes, 16, "0123456789abcdef"};
  const nvtxRangeId_t long_one = nvtxRangeStartPayload(domain, &sixteen, 1);
  nvtxRangeEndPayload(domain, long_one, NULL, 0);
  const nvtxPayloadData_t odd[] = {{123456789, 4, &some}, {batches, 5, &first}, {batches, 4, NULL}};
  printf("push odd %d\n", nvtxRangePushPayload(domain, odd, 3));
  printf("pop odd %d\n", nvtxRangePopPayload(domain, NULL, 0));
  printf("refused %d\n", nvtxPayloadSchemaRegister(domain, NULL) == 0);
  return 0;
}
