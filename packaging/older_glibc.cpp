// SPDX-License-Identifier: Apache-2.0
// Functions of newer C libraries that a CPython refers to, for tests on glibc 2.31: see
// older_glibc.py. Compiled against the old system's headers and preloaded there.
#include <fcntl.h>
#include <spawn.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cwchar>

extern "C" {
// Exported by libc up to 2.32 under these names only.
int __xstat(int version, const char* path, struct stat* out);
int __lxstat(int version, const char* path, struct stat* out);
int __fxstat(int version, int file, struct stat* out);
int __fxstatat(int version, int folder, const char* path, struct stat* out, int flags);
int __xmknodat(int version, int folder, const char* path, mode_t mode, dev_t* device);

#define FASTPROF_EXPORT __attribute__((visibility("default")))

// On x86-64 the 64-bit forms are the same functions. Version 1 is the kernel's struct stat.
#define FASTPROF_STAT(suffix)                                                                      \
  FASTPROF_EXPORT int old_stat##suffix(const char* p, struct stat* out) __asm__("stat" #suffix);   \
  int old_stat##suffix(const char* p, struct stat* out) {                                          \
    return __xstat(1, p, out);                                                                     \
  }                                                                                                \
  FASTPROF_EXPORT int old_lstat##suffix(const char* p, struct stat* out) __asm__("lstat" #suffix); \
  int old_lstat##suffix(const char* p, struct stat* out) {                                         \
    return __lxstat(1, p, out);                                                                    \
  }                                                                                                \
  FASTPROF_EXPORT int old_fstat##suffix(int file, struct stat* out) __asm__("fstat" #suffix);      \
  int old_fstat##suffix(int file, struct stat* out) {                                              \
    return __fxstat(1, file, out);                                                                 \
  }                                                                                                \
  FASTPROF_EXPORT int old_fstatat##suffix(int folder, const char* p, struct stat* out,             \
                                          int flags) __asm__("fstatat" #suffix);                   \
  int old_fstatat##suffix(int folder, const char* p, struct stat* out, int flags) {                \
    return __fxstatat(1, folder, p, out, flags);                                                   \
  }
FASTPROF_STAT()
FASTPROF_STAT(64)

FASTPROF_EXPORT int old_mknodat(int folder, const char* path, mode_t mode,
                                dev_t device) __asm__("mknodat");
int old_mknodat(int folder, const char* path, mode_t mode, dev_t device) {
  return __xmknodat(0, folder, path, mode, &device);
}
FASTPROF_EXPORT int old_mknod(const char* path, mode_t mode, dev_t device) __asm__("mknod");
int old_mknod(const char* path, mode_t mode, dev_t device) {
  return __xmknodat(0, AT_FDCWD, path, mode, &device);
}

FASTPROF_EXPORT int close_range(unsigned first, unsigned last, int) {
  const long open_max = sysconf(_SC_OPEN_MAX);
  for (unsigned file = first; file <= last && file < static_cast<unsigned>(open_max); ++file)
    close(static_cast<int>(file));
  return 0;
}
FASTPROF_EXPORT void closefrom(int first) {
  close_range(static_cast<unsigned>(first), ~0u, 0);
}
// Closing what is not open is no error here.
FASTPROF_EXPORT int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t* actions,
                                                             int first) {
  for (int file = first; file < 256; ++file)
    if (const int error = posix_spawn_file_actions_addclose(actions, file)) return error;
  return 0;
}

FASTPROF_EXPORT void arc4random_buf(void* out, size_t size) {
  auto* at = static_cast<char*>(out);
  while (size != 0) {
    const ssize_t got = getrandom(at, size, 0);
    if (got <= 0) abort();
    at += got;
    size -= static_cast<size_t>(got);
  }
}
FASTPROF_EXPORT uint32_t arc4random() {
  uint32_t value;
  arc4random_buf(&value, sizeof value);
  return value;
}

// What C23 changed (binary literals) is not used by what calls them.
FASTPROF_EXPORT long __isoc23_strtol(const char* text, char** end, int base) {
  return strtol(text, end, base);
}
FASTPROF_EXPORT unsigned long __isoc23_strtoul(const char* text, char** end, int base) {
  return strtoul(text, end, base);
}
FASTPROF_EXPORT long long __isoc23_strtoll(const char* text, char** end, int base) {
  return strtoll(text, end, base);
}
FASTPROF_EXPORT unsigned long long __isoc23_strtoull(const char* text, char** end, int base) {
  return strtoull(text, end, base);
}
FASTPROF_EXPORT long __isoc23_wcstol(const wchar_t* text, wchar_t** end, int base) {
  return wcstol(text, end, base);
}
FASTPROF_EXPORT int __isoc23_sscanf(const char* text, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int count = vsscanf(text, format, arguments);
  va_end(arguments);
  return count;
}
FASTPROF_EXPORT int __isoc23_fscanf(FILE* file, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int count = vfscanf(file, format, arguments);
  va_end(arguments);
  return count;
}
}
