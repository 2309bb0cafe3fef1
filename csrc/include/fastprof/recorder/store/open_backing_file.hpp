// SPDX-License-Identifier: Apache-2.0
// Opening and closing a backing file: the file itself, its header, and what of the pool is set
// aside while it is in force.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/files.hpp"
#include "fastprof/platform/process.hpp"
#include "fastprof/recorder/store/calibration.hpp"
#include "fastprof/recorder/store/directory.hpp"
#include "fastprof/recorder/store/pool.hpp"

FASTPROF_NAMESPACE_BEGIN

// A file that is complete but not in force yet. `error`: errno, 0 if it was opened.
struct OpenedFile {
  int fd = -1;
  char* segment = nullptr;  // mapping of segment 0, anywhere
  int error = 0;
  bool no_room = false;  // the file system has no room, or cannot reserve any
};

namespace backing {

// Fills in the header, except for the fields that are set once the file is in force.
inline void write_header(const State* s, BackingHeader& header) noexcept {
  std::memcpy(header.magic, kBackingMagic, sizeof header.magic);
  header.format = kBackingFormat;
  header.header_bytes = sizeof header;
  header.abi_major = FASTPROF_ABI_MAJOR;
  header.abi_minor = FASTPROF_ABI_MINOR;
  header.byte_order = 0x01020304;
  header.segment_bytes = kSlabBytes;
  header.chunk_bytes = kChunkBytes;
  header.pid = ::getpid();
  header.parent_pid = ::getppid();
  header.process_start = platform::process_start();
  header.opened_monotonic_ns = platform::monotonic_ns();
  header.node_id = load_relaxed(&s->node_id);
  header.slow_clock = s->slow_clock;
  header.segments = 1;
  platform::read_boot_id(header.boot_id, sizeof header.boot_id);
  platform::read_process_name(header.process_name, sizeof header.process_name);
}

// Opens an unnamed file in the folder of `path`, or, where that is not supported, a temporary one.
// `name`, of `size` bytes, receives the temporary name, empty for an unnamed file. Returns the
// descriptor, or -1 with errno set.
inline int open_unnamed(const char* path, char* name, size_t size) noexcept {
  const char* slash = std::strrchr(path, '/');
  const size_t folder = slash == nullptr ? 0 : static_cast<size_t>(slash - path) + 1;
  if (folder + 2 > size) {
    errno = ENAMETOOLONG;
    return -1;
  }
  std::memcpy(name, path, folder);
  std::memcpy(name + folder, ".", 2);
  int fd = platform::open_unnamed_file(name, true);
  name[0] = 0;
  if (fd >= 0 || errno != EOPNOTSUPP) return fd;
  if (std::snprintf(name, size, "%s.XXXXXX", path) >= static_cast<int>(size)) {
    name[0] = 0;
    errno = ENAMETOOLONG;
    return -1;
  }
  fd = platform::open_temporary_file(name);
  if (fd < 0) name[0] = 0;
  return fd;
}

// Gives the file its name, which must not exist. Returns 0 or errno.
inline int give_name(int fd, const char* temporary, const char* path) noexcept {
  const int result =
      temporary[0] != 0 ? ::link(temporary, path) : platform::link_unnamed_file(fd, path);
  return result == 0 ? 0 : errno;
}

}  // namespace backing

// Makes the file `path` (mode 0600; it must not exist). It gets its name when its header is
// complete, so that whoever finds the file can read it. No lock held.
inline OpenedFile open_backing_file(const State* s, const char* path) noexcept {
  OpenedFile opened;
  char temporary[4096];
  opened.fd = backing::open_unnamed(path, temporary, sizeof temporary);
  if (opened.fd < 0) {
    opened.error = errno;
    opened.no_room = errno == ENOSPC || errno == EDQUOT;
    return opened;
  }
  opened.error = extend_file(opened.fd, kSlabBytes);
  if (opened.error == 0)
    opened.error = platform::reserve_in_file(opened.fd, 0, kFirstDirectoryAt + kReservedAtOnce);
  opened.no_room = opened.error != 0;
  if (opened.error == 0) {
    opened.segment = map_segment(opened.fd, 0, nullptr);
    if (opened.segment == nullptr) opened.error = errno;
  }
  if (opened.error == 0) {
    auto* header = reinterpret_cast<BackingHeader*>(opened.segment);
    backing::write_header(s, *header);
    auto* directory = reinterpret_cast<Directory*>(opened.segment + kFirstDirectoryAt);
    directory->header_bytes = sizeof(Directory);
    directory->magic = kDirectoryMagic;
    opened.error = backing::give_name(opened.fd, temporary, path);
  }
  if (temporary[0] != 0) ::unlink(temporary);
  if (opened.error != 0) {
    if (opened.segment != nullptr) ::munmap(opened.segment, kSlabBytes);
    ::close(opened.fd);
    opened.fd = -1;
  }
  return opened;
}

// Takes the pool's free chunks and pre-faulted slabs out of use: they lie outside the file.
// State::lock held.
inline void park_pool(State* s, BackingFile* file) noexcept {
  file->parked_ready = s->ready;
  file->parked_chunks = s->free_chunks;
  s->ready = nullptr;
  s->ready_count = 0;
  s->chunk_count -= s->free_count;
  s->free_count = 0;
  s->free_chunks = nullptr;
  if (s->carving != nullptr && s->carving->carved < kChunksPerSlab) {
    // The slab's remaining chunks become free ones.
    while (s->carving->carved < kChunksPerSlab) {
      Chunk* chunk = carve_chunk(s->carving);
      chunk->next = file->parked_chunks;
      file->parked_chunks = chunk;
      ++s->carving->free;
    }
  }
  s->carving = nullptr;
}

// Ends what end_file() left: what threads or sessions still use of the file becomes a copy of this
// process, so that the file keeps the records of its session, whatever is written there later (ends
// of open ranges, records without their names). Called once the session has been read. State::lock
// held.
inline void seal_file(State* s) noexcept {
  BackingFile* file = s->backing_file;
  if (file == nullptr || file_in_force(s) || file->fd < 0) return;
  const int fd = file->slabs != nullptr ? file_descriptor(file) : -1;
  for (FileSlab* slab = file->slabs; slab != nullptr && fd >= 0; slab = slab->next)
    if (slab->generation == file->generation)
      ::mmap(slab, kSlabBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd,
             static_cast<off_t>(slab->segment * kSlabBytes));
  close_file(file);
}

// Brings the file at `path` into force, on behalf of the session in slot `owner`. False if another
// one is. State::lock held.
inline bool enforce_file(State* s, const OpenedFile& opened, const char* path,
                         unsigned owner) noexcept {
  if (s->backing_file == nullptr)
    s->backing_file = static_cast<BackingFile*>(arena_allocate(s, sizeof(BackingFile)));
  BackingFile* file = s->backing_file;
  if (file == nullptr || file->in_force != 0) return false;
  seal_file(s);
  if (file->header == nullptr) {
    file->header = reinterpret_cast<BackingHeader*>(opened.segment);
  } else {
    if (map_segment(opened.fd, 0, file->header) == nullptr) return false;
    ::munmap(opened.segment, kSlabBytes);
  }
  file->fd = opened.fd;
  struct stat facts {};
  ::fstat(opened.fd, &facts);
  file->device = static_cast<uint64_t>(facts.st_dev);
  file->inode = facts.st_ino;
  const size_t length = std::strlen(path);
  const bool fits = length < sizeof file->path;
  std::memcpy(file->path, fits ? path : "", fits ? length + 1 : 1);
  file->owner = owner;
  ++file->generation;
  file->segments = 1;
  file->directories[0] = reinterpret_cast<char*>(file->header);
  file->directory_count = 1;
  file->directory_reserved = kFirstDirectoryAt + kReservedAtOnce;
  file->fallback_slabs = file->names_lost = 0;
  file->fallback_error = 0;
  file->threads_outside = 0;
  park_pool(s, file);
  store_relaxed(&file->in_force, 1u);
  copy_knots(s);
  return true;
}

// Takes the file out of force: new records go to anonymous memory again. Chunks of the file that
// sessions still read, or threads still write, stay mapped until they are given back, see
// seal_file(). State::lock held.
inline void end_file(State* s) noexcept {
  if (!file_in_force(s)) return;
  BackingFile* file = s->backing_file;
  for (SessionSlot& slot : s->sessions)
    store_relaxed(&slot.dropped_in_file, static_cast<uint64_t*>(nullptr));
  if (s->carving != nullptr && is_file_slab(s->carving)) s->carving = nullptr;
  for (Slab** link = &s->ready; *link != nullptr;) {
    Slab* slab = *link;
    if (!is_file_slab(slab)) {
      link = &slab->next;
      continue;
    }
    *link = slab->next;
    --s->ready_count;
  }
  for (Chunk** link = &s->free_chunks; *link != nullptr;) {
    if (!is_file_slab(slab_of(*link))) {
      link = &(*link)->next;
      continue;
    }
    *link = (*link)->next;
    --s->free_count;
    --s->chunk_count;
  }
  while (Chunk* chunk = file->parked_chunks) {
    file->parked_chunks = chunk->next;
    chunk->next = s->free_chunks;
    s->free_chunks = chunk;
    ++s->free_count;
    ++s->chunk_count;
  }
  while (Slab* slab = file->parked_ready) {
    file->parked_ready = slab->next;
    slab->next = s->ready;
    s->ready = slab;
    ++s->ready_count;
  }
  store_relaxed(&file->in_force, 0u);
  for (FileSlab** link = &file->slabs; *link != nullptr;) {
    FileSlab* slab = *link;
    if (slab->slab.free != slab->slab.carved) {
      link = &slab->next;
      continue;
    }
    *link = slab->next;
    retire_file_slab(s, &slab->slab);
  }
  for (uint32_t i = 1; i < file->directory_count; ++i) ::munmap(file->directories[i], kSlabBytes);
  unmap_segment(file->header);
  if (file->slabs == nullptr) close_file(file);
}

// In a forked child: the parent's file is mapped here too (MAP_SHARED), so it is replaced by
// anonymous memory before the child can store an end in it. State::lock held.
inline void leave_file_in_child(State* s) noexcept {
  BackingFile* file = s->backing_file;
  if (file == nullptr) return;
  for (FileSlab* slab = file->slabs; slab != nullptr;) {
    FileSlab* next = slab->next;
    unmap_segment(slab);
    slab = next;
  }
  file->slabs = nullptr;
  file->parked_chunks = nullptr;
  file->parked_ready = nullptr;
  if (file->in_force == 0) return;
  store_relaxed(&file->in_force, 0u);
  for (uint32_t i = 1; i < file->directory_count; ++i) ::munmap(file->directories[i], kSlabBytes);
  unmap_segment(file->header);
  close_file(file);
}

FASTPROF_NAMESPACE_END
