// SPDX-License-Identifier: Apache-2.0
// A double of Darwin on Linux: its clocks, threads, waits and loader, made of ours. A library,
// since a program and the libraries that it loads must see the same.
#include "fake_darwin.hpp"

#include <dirent.h>
#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <mach-o/dyld.h>
#include <mach/mach.h>
#include <pthread.h>
#include <sys/proc.h>
#include <sys/syscall.h>
#include <sys/sysctl.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

uint64_t ns_of(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}
uint64_t to_mach(uint64_t ns) {
  return static_cast<uint64_t>(static_cast<__uint128_t>(ns) * fake_darwin()->denom /
                               fake_darwin()->numer);
}

struct FakeImage {
  std::vector<uint64_t> memory;  // header and commands
  std::string path;
  intptr_t slide = 0;
};

std::recursive_mutex& images_lock() {
  static auto& lock = *new std::recursive_mutex;
  return lock;
}
std::map<const char*, const char*>& states() {
  static auto& all = *new std::map<const char*, const char*>;
  return all;
}
std::vector<FakeImage*>& images() {
  static auto& all = *new std::vector<FakeImage*>;
  return all;
}

template <class T>
T* append(FakeImage* image) {
  const size_t at = image->memory.size();
  image->memory.resize(at + (sizeof(T) + 7) / 8);
  return reinterpret_cast<T*>(&image->memory[at]);
}

// Every image ever made: a caller may hold the header of one that is listed no more.
std::vector<std::unique_ptr<FakeImage>>& made_images() {
  static auto& all = *new std::vector<std::unique_ptr<FakeImage>>;
  return all;
}

int add_image(dl_phdr_info* info, size_t, void* first) {
  made_images().push_back(std::make_unique<FakeImage>());
  FakeImage* const image = made_images().back().get();
  image->memory.reserve(1024);  // pointers into it stay valid
  const bool is_program = *static_cast<bool*>(first);
  *static_cast<bool*>(first) = false;
  image->slide = static_cast<intptr_t>(info->dlpi_addr);
  image->path = is_program ? "/fake/program" : info->dlpi_name;
  auto* header = append<mach_header_64>(image);
  header->magic = MH_MAGIC_64;
  header->filetype = is_program ? MH_EXECUTE : MH_DYLIB;
  const size_t begin = image->memory.size();
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    auto* segment = append<segment_command_64>(image);
    segment->cmd = LC_SEGMENT_64;
    segment->cmdsize = sizeof *segment;
    const bool writable = (part.p_flags & PF_W) != 0;
    std::strncpy(segment->segname, writable ? "__DATA" : "__TEXT", sizeof segment->segname);
    segment->vmaddr = part.p_vaddr;
    segment->vmsize = part.p_memsz;
    segment->filesize = part.p_filesz;
    segment->initprot = VM_PROT_READ | (writable ? VM_PROT_WRITE : 0) |
                        ((part.p_flags & PF_X) != 0 ? VM_PROT_EXECUTE : 0);
    ++header->ncmds;
    for (const auto& range : states()) {
      const auto from = reinterpret_cast<uintptr_t>(range.first);
      const uintptr_t at = info->dlpi_addr + part.p_vaddr;
      if (from < at || from >= at + part.p_memsz) continue;
      auto* section = append<section_64>(image);
      std::strncpy(section->segname, "__DATA", sizeof section->segname);
      std::strncpy(section->sectname, "__fastprof", sizeof section->sectname);
      section->addr = from - info->dlpi_addr;
      section->size = static_cast<uint64_t>(range.second - range.first);
      segment->nsects = 1;
      segment->cmdsize += sizeof *section;
    }
  }
  header->sizeofcmds = static_cast<uint32_t>((image->memory.size() - begin) * 8);
  images().push_back(image);
  return 0;
}

FakeImage* image_at(uint32_t index) {
  const std::lock_guard<std::recursive_mutex> hold(images_lock());
  return index < images().size() ? images()[index] : nullptr;
}

}  // namespace

extern "C" {

FakeDarwin* fake_darwin() {
  static auto& only = *new FakeDarwin;
  return &only;
}

void fake_darwin_add_states(const char* first, const char* last) {
  const std::lock_guard<std::recursive_mutex> hold(images_lock());
  states()[first] = last;
}

// ---- clocks
kern_return_t mach_timebase_info(mach_timebase_info_data_t* info) {
  *info = {fake_darwin()->numer, fake_darwin()->denom};
  return KERN_SUCCESS;
}
uint64_t mach_absolute_time() {
  return to_mach(ns_of(CLOCK_MONOTONIC));
}
uint64_t mach_continuous_time() {
  return to_mach(ns_of(CLOCK_MONOTONIC) +
                 static_cast<uint64_t>(fake_darwin()->suspended_ns.load()));
}

// ---- tasks and threads: the port of a thread is its id
task_t mach_task_self() {
  return 1;
}
thread_t mach_thread_self() {
  ++fake_darwin()->ports;
  return static_cast<thread_t>(syscall(SYS_gettid));
}
kern_return_t task_threads(task_t, thread_act_array_t* threads, mach_msg_type_number_t* count) {
  if (const int result = fake_darwin()->threads_result) return result;
  std::vector<thread_act_t> found;
  if (DIR* folder = opendir("/proc/self/task")) {
    while (const dirent* entry = readdir(folder))
      if (entry->d_name[0] != '.')
        found.push_back(static_cast<thread_act_t>(std::atoi(entry->d_name)));
    closedir(folder);
  }
  *threads = static_cast<thread_act_array_t>(std::malloc(found.size() * sizeof(thread_act_t)));
  std::memcpy(*threads, found.data(), found.size() * sizeof(thread_act_t));
  *count = static_cast<mach_msg_type_number_t>(found.size());
  fake_darwin()->ports += static_cast<int64_t>(found.size());
  return KERN_SUCCESS;
}
// The kernel of Linux gives the barrier that a stopped thread has passed.
kern_return_t thread_get_state(thread_act_t, int, thread_state_t, mach_msg_type_number_t*) {
  ++fake_darwin()->stopped;
  if (const int result = fake_darwin()->state_result) return result;
  syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
  syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  return KERN_SUCCESS;
}
kern_return_t thread_info(thread_act_t thread, int, thread_info_t info, mach_msg_type_number_t*) {
  if (syscall(SYS_tgkill, getpid(), thread, 0) != 0) return KERN_TERMINATED;
  reinterpret_cast<thread_identifier_info_data_t*>(info)->thread_id = thread | uint64_t{1} << 32;
  return KERN_SUCCESS;
}
kern_return_t mach_port_deallocate(task_t, mach_port_t) {
  --fake_darwin()->ports;
  return KERN_SUCCESS;
}
kern_return_t vm_deallocate(task_t, vm_address_t address, uintptr_t) {
  std::free(reinterpret_cast<void*>(address));
  return KERN_SUCCESS;
}

// ---- pthread
int pthread_threadid_np(pthread_t, uint64_t* id) {
  *id = static_cast<uint64_t>(syscall(SYS_gettid)) | uint64_t{1} << 32;
  return 0;
}
static void stack_of_this_thread(void** low, size_t* bytes) {
  pthread_attr_t attributes;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, low, bytes);
  pthread_attr_destroy(&attributes);
}
void* pthread_get_stackaddr_np(pthread_t) {
  void* low = nullptr;
  size_t bytes = 0;
  stack_of_this_thread(&low, &bytes);
  return static_cast<char*>(low) + bytes;
}
size_t pthread_get_stacksize_np(pthread_t) {
  void* low = nullptr;
  size_t bytes = 0;
  stack_of_this_thread(&low, &bytes);
  return bytes;
}

// ---- waits
int __ulock_wait(uint32_t operation, void* address, uint64_t value, uint32_t limit_us) {
  if (operation != (1u | 0x1000000u)) return -EINVAL;
  const timespec limit{limit_us / 1000000, static_cast<long>(limit_us % 1000000) * 1000};
  const long result =
      syscall(SYS_futex, address, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, static_cast<uint32_t>(value),
              limit_us != 0 ? &limit : nullptr, nullptr, 0);
  return result == 0 || errno == EAGAIN ? 0 : -errno;
}
int __ulock_wake(uint32_t operation, void* address, uint64_t) {
  const bool all = (operation & 0x100) != 0;
  return syscall(SYS_futex, address, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, all ? INT_MAX : 1, nullptr,
                 nullptr, 0) > 0
             ? 0
             : -ENOENT;
}

// ---- the process
const char* getprogname() {
  return program_invocation_short_name;
}
int sysctl(int* name, unsigned names, void* old, size_t* bytes, void*, size_t) {
  if (names != 4 || name[0] != CTL_KERN || name[1] != KERN_PROC || name[2] != KERN_PROC_PID ||
      *bytes < sizeof(kinfo_proc))
    return -1;
  auto& process = static_cast<kinfo_proc*>(old)->kp_proc;
  if (name[3] == getpid())
    process = {{1700000000, 250000}, SRUN};
  else if (name[3] == fake_darwin()->other_pid)
    process = {{1800000000, 990000}, static_cast<char>(fake_darwin()->other_state)};
  else
    *bytes = 0;  // as the kernel: no error
  return 0;
}
int sysctlbyname(const char* name, void* old, size_t* bytes, void*, size_t) {
  if (std::strcmp(name, "kern.bootsessionuuid") == 0) {
    constexpr char id[] = "0F0E0D0C-0B0A-0908-0706-050403020100";
    if (*bytes < sizeof id) return -1;
    std::memcpy(old, id, sizeof id);
    *bytes = sizeof id;
    return 0;
  }
  if (std::strcmp(name, "hw.memsize") == 0 && *bytes == 8) {
    *static_cast<uint64_t*>(old) = uint64_t{16} << 30;
    return 0;
  }
  return -1;
}
int _NSGetExecutablePath(char* path, uint32_t* size) {
  const ssize_t length = readlink("/proc/self/exe", path, *size - 1);
  if (length < 0) return -1;
  path[length] = 0;
  return 0;
}

// ---- dyld: a walk asks for the count first, so the list is made then
uint32_t _dyld_image_count() {
  const std::lock_guard<std::recursive_mutex> hold(images_lock());
  images().clear();
  bool first = true;
  dl_iterate_phdr(&add_image, &first);
  return static_cast<uint32_t>(images().size());
}
const mach_header* _dyld_get_image_header(uint32_t index) {
  const FakeImage* image = image_at(index);
  return image != nullptr ? reinterpret_cast<const mach_header*>(image->memory.data()) : nullptr;
}
intptr_t _dyld_get_image_vmaddr_slide(uint32_t index) {
  const FakeImage* image = image_at(index);
  return image != nullptr ? image->slide : 0;
}
const char* _dyld_get_image_name(uint32_t index) {
  const FakeImage* image = image_at(index);
  return image != nullptr ? image->path.c_str() : nullptr;
}

}  // extern "C"

int pthread_setname_np(const char* name) {
  return pthread_setname_np(pthread_self(), name);
}
