// SPDX-License-Identifier: Apache-2.0
// BackingFile: the file that new slabs lie in while a session wants one, so that the records of a
// process that is killed can be read from it. Layout: backing_file_layout.hpp; opened and closed by
// open_backing_file.hpp; slabs and chunks are handed out by pool.hpp.
//
// Recording code is the same for both: a slab in the file is mapped memory (MAP_SHARED). Every page
// is reserved on the file system before it is mapped for use, since a store to a page for which
// there is no room raises SIGBUS. A slab for which there is no room lies in anonymous memory
// instead, and is counted in the header.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/files.hpp"
#include "fastprof/platform/memory.hpp"
#include "fastprof/recorder/state/file_slab.hpp"
#include "fastprof/recorder/state/state.hpp"
#include "fastprof/recorder/store/backing_file_layout.hpp"

FASTPROF_NAMESPACE_BEGIN

constexpr size_t kMaxDirectories = 64;         // 128 MB of sites and names
constexpr size_t kReservedAtOnce = 64 * 1024;  // of a directory

// One per process, in the arena: it serves one file after the other. All fields under State::lock.
struct BackingFile {
  uint32_t in_force;    // new slabs come from the file (read without the lock too: relaxed)
  uint32_t generation;  // of the file in force, or of the last one
  int fd;               // -1: none
  uint32_t owner;       // session slot that asked for the file
  // Mapping of segment 0. Its address stays the same for every file and is mapped between files
  // too, because drops are counted there without the lock.
  BackingHeader* header;
  uint64_t segments;  // length of the file
  FileSlab* slabs;    // mapped slabs of this file, and of earlier ones while a thread uses them
  BlankSlabPlace* retired;  // where slabs of earlier files were: untouched anonymous memory
  char* directories[kMaxDirectories];  // mappings; [0] is segment 0
  uint32_t directory_count;
  uint64_t directory_reserved;  // bytes of the last directory's segment that are reserved
  // Free chunks and pre-faulted slabs outside the file, kept for when it is no longer in force.
  Chunk* parked_chunks;
  Slab* parked_ready;
  // Copies of the header's counters, which outlive the file.
  uint64_t fallback_slabs, names_lost;
  int32_t fallback_error;
  uint32_t threads_outside;
  uint64_t device, inode;  // of the file, since a program may close all descriptors, as daemons do
  char path[1024];         // for opening it again; empty if it is longer
};

// Whether a descriptor is that of the file. State::lock held.
inline bool is_file(const BackingFile* file, int fd) noexcept {
  struct stat facts;
  return fd >= 0 && ::fstat(fd, &facts) == 0 &&
         static_cast<uint64_t>(facts.st_dev) == file->device && facts.st_ino == file->inode;
}

// The file's descriptor: opened again if the program has closed it; -1 if that is impossible.
// State::lock held.
inline int file_descriptor(BackingFile* file) noexcept {
  if (is_file(file, file->fd)) return file->fd;  // else the number may be another file's
  file->fd = file->path[0] == 0 ? -1 : ::open(file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file->fd >= 0 && !is_file(file, file->fd)) {
    ::close(file->fd);
    file->fd = -1;
  }
  return file->fd;
}

inline void close_file(BackingFile* file) noexcept {
  if (is_file(file, file->fd)) ::close(file->fd);
  file->fd = -1;
}

inline bool file_in_force(const State* s) noexcept {
  const BackingFile* file = s->backing_file;
  return file != nullptr && load_relaxed(&file->in_force) != 0;
}

// Whether a slab lies in the file in force. State::lock held.
inline bool in_current_file(const State* s, const Slab* slab) noexcept {
  return file_in_force(s) && is_file_slab(slab) &&
         reinterpret_cast<const FileSlab*>(slab)->generation == s->backing_file->generation;
}

// Whether new records may be written to a chunk: while a file is in force, one that lies in it, or
// any if the file has no room; else one that lies in no file. State::lock held.
inline bool may_reuse(const State* s, const Chunk* chunk) noexcept {
  const Slab* slab = slab_of(chunk);
  if (!file_in_force(s)) return !is_file_slab(slab);
  if (is_file_slab(slab)) return in_current_file(s, slab);
  return s->backing_file->fallback_slabs != 0;
}

// The session's entry in the file in force. State::lock held.
inline FileSession* file_session(const BackingFile* file, unsigned index) noexcept {
  return reinterpret_cast<FileSession*>(reinterpret_cast<char*>(file->header) + kFileSessionsAt) +
         index;
}

// Sets the file's length; returns 0 or errno. Beyond RLIMIT_FSIZE, the kernel would send SIGXFSZ.
inline int extend_file(int fd, uint64_t bytes) noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      bytes > limit.rlim_cur)
    return EFBIG;
  return ::ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
}

// Counts a slab for which the file had no room. State::lock held.
inline void count_fallback(BackingFile* file, int error) noexcept {
  if (file->fallback_slabs++ == 0) file->fallback_error = error;
  file->header->fallback_slabs = file->fallback_slabs;
  file->header->fallback_error = file->fallback_error;
}

// Maps a segment of the file, at `at` (mapped already) or, if that is null, at an address aligned
// to its size. Null with errno set.
inline char* map_segment(int fd, uint64_t segment, void* at) noexcept {
  void* raw = nullptr;
  if (at == nullptr) {
    raw = platform::reserve_addresses(2 * kSlabBytes);
    if (raw == nullptr) return nullptr;
    const auto first = reinterpret_cast<uintptr_t>(raw);
    const uintptr_t aligned = (first + kSlabBytes - 1) & ~(kSlabBytes - 1);
    if (aligned > first) ::munmap(raw, aligned - first);
    if (first + kSlabBytes > aligned)
      ::munmap(reinterpret_cast<void*>(aligned + kSlabBytes), first + kSlabBytes - aligned);
    at = raw = reinterpret_cast<void*>(aligned);
  }
  if (::mmap(at, kSlabBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
             static_cast<off_t>(segment * kSlabBytes)) == MAP_FAILED) {
    const int error = errno;
    if (raw != nullptr) ::munmap(raw, kSlabBytes);
    errno = error;
    return nullptr;
  }
  platform::want_huge_pages(at, kSlabBytes);
  return static_cast<char*>(at);
}

// Replaces a segment of a file by untouched anonymous memory at the same address: stores through
// old pointers (late ends) stay harmless.
inline void unmap_segment(void* at) noexcept {
  if (platform::map_blank(kSlabBytes, at) == nullptr) return;
  platform::wipe_in_children(at, kSlabBytes);
}

// Appends a segment to the file, reserves its first `bytes` and maps it as map_segment() does.
// Returns its position, or 0 with *error set if there is no room. State::lock held.
inline uint64_t take_segment(BackingFile* file, uint64_t bytes, void* at, char** address,
                             int* error) noexcept {
  const uint64_t segment = file->segments;
  const int fd = file_descriptor(file);
  *error = fd < 0 ? EBADF : extend_file(fd, (segment + 1) * kSlabBytes);
  if (*error == 0) *error = platform::reserve_in_file(fd, segment * kSlabBytes, bytes);
  if (*error != 0) return 0;
  *address = map_segment(fd, segment, at);
  if (*address == nullptr) {
    *error = errno;
    return 0;
  }
  file->header->segments = file->segments = segment + 1;
  return segment;
}

FASTPROF_NAMESPACE_END
