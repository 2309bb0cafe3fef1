// SPDX-License-Identifier: Apache-2.0
// Double of an ITT collector such as VTune's: writes one line for each call that it receives to the
// file that COLLECTOR_LOG names, "thread call domain text". Its declarations are its own, so that
// it does not share a mistake with fastprof's.
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

struct Handle {
  const char* text;
  void* wide;
  int extra1;
  void* extra2;
  Handle* next;
};
struct Domain {
  volatile int flags;
  const char* name;
  void* wide;
  int extra1;
  void* extra2;
  Domain* next;
};
struct Id {
  unsigned long long words[3];
};
struct ApiInfo {
  const char* name;
  void** function;
  void* initial;
  void* none;
  unsigned group;
};
struct Global {
  unsigned char magic[8];
  unsigned long version[3];
  volatile long flags[3];
  pthread_mutex_t mutex;
  void* library;
  void* error_handler;
  const char** path;
  ApiInfo* list;
};

void write_line(const char* call, const char* domain, const char* text) {
  static const int file =
      open(std::getenv("COLLECTOR_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const std::string line =
      std::to_string(syscall(SYS_gettid)) + " " + call + " " + domain + " " + text + "\n";
  if (write(file, line.data(), line.size()) < 0) std::perror("collector");
}

Domain* create_domain(const char* name) {
  return new Domain{1, strdup(name), nullptr, 0, nullptr, nullptr};
}
Handle* create_string(const char* text) {
  return new Handle{strdup(text), nullptr, 0, nullptr, nullptr};
}
void begin(const Domain* domain, Id, Id, Handle* name) {
  write_line("begin", domain->name, name->text);
}
void end(const Domain* domain) {
  write_line("end", domain->name, "");
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void __itt_api_init(Global* global, unsigned) {
  for (ApiInfo* info = global->list; info->name != nullptr; ++info) {
    const std::string name = info->name;
    if (name == "__itt_domain_create") *info->function = reinterpret_cast<void*>(create_domain);
    if (name == "__itt_string_handle_create")
      *info->function = reinterpret_cast<void*>(create_string);
    if (name == "__itt_task_begin") *info->function = reinterpret_cast<void*>(begin);
    if (name == "__itt_task_end") *info->function = reinterpret_cast<void*>(end);
  }
}
