// SPDX-License-Identifier: Apache-2.0
// Spilling: moves full chunks of a session to a file while it records, so that a long session needs
// little memory.
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "fastprof/base/child_handler.hpp"
#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/platform/common/files.hpp"
#include "fastprof/platform/files.hpp"
#include "fastprof/platform/threads.hpp"
#include "fastprof/platform/wait_word.hpp"
#include "fastprof/recorder/store/spill_gate.hpp"
#include "fastprof/session/chunk_buffer.hpp"
#include "fastprof/session/drain.hpp"

FASTPROF_NAMESPACE_BEGIN

// Copies of the sites that spilled records refer to: the library of the originals may be unloaded
// before the file is read back. Addresses of copies are stable.
class SiteCopies {
 public:
  // Returns the copy of a site, made when it is first passed.
  const Site* copy_of(const Site* site) {
    if (site == last_) return last_copy_;
    const auto [at, fresh] = by_address_.try_emplace(site, nullptr);
    if (fresh) {
      copies_.push_back(std::make_unique<Copy>(*site));
      at->second = &copies_.back()->site;
    }
    last_ = site;
    last_copy_ = at->second;
    return last_copy_;
  }
  // Drops cached addresses after an unload, since they may be reused. The copies stay.
  void forget_addresses() {
    by_address_.clear();
    last_ = nullptr;
  }

 private:
  struct Copy {
    explicit Copy(const Site& from) : site(from) {
      const auto keep = [this](const char* text) {
        texts.push_back(std::make_unique<std::string>(text == nullptr ? "" : text));
        return texts.back()->c_str();
      };
      site.name = keep(from.name);
      site.category_name = keep(from.category_name);
      site.file = keep(from.file);
      site.function = keep(from.function);
      for (unsigned i = 0; i < from.arg_count; ++i) {
        names.push_back(keep(from.arg_names[i]));
        types.push_back(from.arg_types[i]);
      }
      site.arg_names = names.data();
      site.arg_types = types.data();
    }
    Site site;
    std::vector<std::unique_ptr<std::string>> texts;
    std::vector<const char*> names;
    std::vector<ArgType> types;
  };
  std::vector<std::unique_ptr<Copy>> copies_;
  std::unordered_map<const Site*, const Site*> by_address_;
  const Site* last_ = nullptr;
  const Site* last_copy_ = nullptr;
};

// Descriptors of this library's open spill files. A forked child closes them, so that the file's
// space is freed when the parent's session ends.
class SpillDescriptors {
 public:
  // Adds a descriptor. False if the table is full: a forked child then keeps the file open.
  static bool add(int fd) noexcept {
    static ChildHandler handler;
    if (!handler.install(&SpillDescriptors::close_all)) return false;
    for (int& entry : entries_)
      if (replace(entry, 0, fd + 1)) return true;
    return false;
  }
  // Removes a descriptor. True if it was still open in this process.
  static bool remove(int fd) noexcept {
    for (int& entry : entries_)
      if (replace(entry, fd + 1, 0)) return true;
    return false;
  }

 private:
  static bool replace(int& entry, int from, int to) noexcept {
    return __atomic_compare_exchange_n(&entry, &from, to, false, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED);
  }
  static void close_all() noexcept {
    for (int& entry : entries_)
      if (const int fd = __atomic_exchange_n(&entry, 0, __ATOMIC_RELAXED) - 1; fd >= 0) ::close(fd);
  }
  static inline int entries_[kMaxSessions] = {};  // descriptor + 1, 0 for none
};

// An unlinked file of chunks: its space is freed when it is closed, even if the process crashes.
// One writer at a time; not thread-safe.
class SpillFile {
 public:
  // Opens the file in `folder`; if empty, in $TMPDIR or the system's temporary folder. Throws
  // IoError.
  explicit SpillFile(const std::string& folder) : folder_(folder) {
    if (folder_.empty()) {
      const char* given = std::getenv("TMPDIR");
      folder_ = given != nullptr && *given != 0 ? given : P_tmpdir;
    }
    fd_ = platform::open_unnamed_file(folder_.c_str(), false);
    if (fd_ < 0) {  // not every file system has unnamed files
      std::string name = folder_ + "/fastprof-spill-XXXXXX";
      fd_ = platform::open_temporary_file(name.data());
      if (fd_ < 0)
        raise<IoError>("cannot create a spill file in " + folder_ + ": " + std::strerror(errno) +
                       ". Choose a writable folder with the option spill_folder.");
      ::unlink(name.c_str());
    }
    listed_ = SpillDescriptors::add(fd_);
  }
  ~SpillFile() {
    if (!listed_ || SpillDescriptors::remove(fd_)) ::close(fd_);
  }
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  // Appends a chunk's records. False if the write fails; the chunk then stays in memory.
  // State::drain_lock held.
  bool append(const TrackInfo& track, const PinnedRun& run, uint64_t unload_epoch) {
    if (epoch_ != unload_epoch) {
      sites_.forget_addresses();
      epoch_ = unload_epoch;
    }
    const auto units = static_cast<size_t>(run.end - chunk_slots(run.chunk));
    buffer_.resize(units);
    const auto* words = reinterpret_cast<const uint64_t*>(chunk_slots(run.chunk));
    auto* out = reinterpret_cast<uint64_t*>(buffer_.data());
    for (size_t i = 0; i < units * 3; ++i) out[i] = load_relaxed(&words[i]);
    const uint64_t open_ticks = run.chunk->open_ticks;
    for (size_t i = 0; i < units && buffer_[i].begin >= open_ticks;) {
      const uint32_t size = record_units(&buffer_[i]);
      const uintptr_t word = buffer_[i].site;
      buffer_[i].site = with_site(word, sites_.copy_of(site_of(word)));
      i += size;
    }
    const char* bytes = reinterpret_cast<const char*>(buffer_.data());
    const size_t size = units * sizeof(Slot);
    for (size_t done = 0; done < size;) {
      const ssize_t n = ::pwrite(fd_, bytes + done, size - done, static_cast<off_t>(bytes_ + done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        const int error = n < 0 ? errno : ENOSPC;
        if (error_ == 0) error_ = error;
        return false;
      }
      done += static_cast<size_t>(n);
    }
    entries_.push_back(Entry{track, bytes_, units, open_ticks, run.shared});
    bytes_ += size;
    return true;
  }

  // Calls feed(track, run) for each chunk, in the order written. Returns false if part of the file
  // cannot be read: `lost` is increased by the number of units in the chunks that it left out.
  template <class Feed>
  bool read_back(Feed&& feed, uint64_t& lost) {
    const ChunkBuffer memory = make_chunk_buffer();
    if (memory == nullptr) return false;
    Chunk* chunk = memory.get();
    bool whole = true;
    for (const Entry& entry : entries_) {
      chunk->open_ticks = entry.open_ticks;
      char* bytes = reinterpret_cast<char*>(chunk_slots(chunk));
      const size_t size = entry.units * sizeof(Slot);
      if (!platform::read_at(fd_, entry.offset, bytes, size)) {
        lost += entry.units;
        whole = false;
        continue;
      }
      feed(entry.track,
           PinnedRun{chunk, chunk_slots(chunk) + entry.units, true, false, entry.shared});
    }
    return whole;
  }

  uint64_t bytes() const noexcept { return bytes_; }
  int error() const noexcept { return error_; }  // errno of the first failed write, 0 if none
  const std::string& folder() const noexcept { return folder_; }

 private:
  struct Entry {
    TrackInfo track;
    uint64_t offset;
    size_t units;
    uint64_t open_ticks;
    bool shared;
  };
  std::string folder_;
  int fd_ = -1;
  bool listed_ = false;  // in SpillDescriptors
  int error_ = 0;
  uint64_t bytes_ = 0;
  uint64_t epoch_ = 0;
  std::vector<Slot> buffer_;
  std::vector<Entry> entries_;
  SiteCopies sites_;
};

// Runs one pass: moves the session's closed chunks without open ranges to the file, and wakes the
// threads that wait for room. Any thread; takes the recorder's locks. Returns the number of chunks
// moved.
inline size_t spill_now(State* s, int index, SpillFile& file) {
  constexpr size_t kBatch = 16;  // chunks written before they are released to waiting threads
  ScopedLock drains(s->drain_lock);
  SessionSlot& slot = s->sessions[index];
  Snapshot snapshot;
  {
    StateLock hold(s);
    if ((s->session_bits >> index & 1) == 0) return 0;
    slot.spill_pass = static_cast<uint8_t>(slot.spill_pass | 1);  // already odd if a pass threw
    snapshot = take_closed(s, index);
  }
  std::vector<Chunk*> batch;
  batch.reserve(kBatch);  // so that nothing throws between writing a chunk and releasing it
  size_t moved = 0;
  const auto give_back = [&] {  // State::lock held
    for (Chunk* chunk : batch) finish_chunk(s, index, chunk);
    if (!batch.empty()) sweep(s);
    moved += batch.size();
    batch.clear();
  };
  bool refused = false;
  for (const TrackSnapshot& track : snapshot.tracks) {
    for (const PinnedRun& run : track.runs) {
      // Skipping a chunk with an open range does not delay later chunks: assemble() sorts by begin.
      if (refused || has_open_slots(run.chunk)) continue;
      refused = !file.append(track.info, run, s->unload_epoch);
      if (refused) continue;
      batch.push_back(run.chunk);
      if (batch.size() < kBatch) continue;
      StateLock hold(s);
      give_back();
      announce_spill(s);
    }
  }
  StateLock hold(s);
  give_back();
  slot.spill_state &= static_cast<uint8_t>(~(spill_state::failing | spill_state::stalled));
  if (refused) slot.spill_state |= spill_state::failing;
  ++slot.spill_pass;
  announce_spill(s);
  return moved;
}

// The thread that spills while a session records. It runs a pass if half of the bound is used or a
// recording thread waits for room.
class SpillThread {
 public:
  SpillThread(State* s, int index, SpillFile* file) : s_(s), index_(index), file_(file) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    running_ = pthread_create(&thread_, nullptr, &SpillThread::main, this) == 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!running_)
      raise<UnavailableError>(
          "cannot start the thread that writes the spill file: too many threads. Use another "
          "overflow policy.");
  }
  // Stops the thread; from here on, threads at the bound no longer wait but exceed it until the
  // session ends. In a forked child, where the thread does not exist, pass joinable = false.
  void stop(bool joinable) noexcept {
    if (!running_) return;
    running_ = false;
    store_release(&ended_, 1u);  // partner: acquire in main
    if (!joinable) return;
    {
      StateLock hold(s_);
      s_->sessions[index_].spill_state |= spill_state::ending;
      announce_spill(s_);
    }
    request_spill(s_);
    pthread_join(thread_, nullptr);
  }
  ~SpillThread() { stop(true); }
  SpillThread(const SpillThread&) = delete;
  SpillThread& operator=(const SpillThread&) = delete;

 private:
  static void* main(void* argument) noexcept {
    auto* self = static_cast<SpillThread*>(argument);
    platform::name_this_thread("fastprof-spill");
    const SessionSlot& slot = self->s_->sessions[self->index_];
    uint32_t answered = load_acquire(&self->s_->spill_requests) - 1;  // a thread may already wait
    while (load_acquire(&self->ended_) == 0) {
      const uint32_t requests = load_acquire(&self->s_->spill_requests);
      const bool half_full = load_relaxed(&slot.pinned_chunks) * 2 >= slot.max_chunks;
      if ((half_full || requests != answered) && self->spill() != 0) {
        answered = requests;
        continue;
      }
      answered = requests;
      platform::wait_word(&self->s_->spill_requests, requests, 20000000);
    }
    return nullptr;
  }

  // Runs a pass. Returns 0 if memory runs out.
  size_t spill() noexcept {
#if FASTPROF_EXCEPTIONS
    try {
      return spill_now(s_, index_, *file_);
    } catch (...) {
      return 0;
    }
#else
    return spill_now(s_, index_, *file_);
#endif
  }

  State* s_;
  int index_;
  SpillFile* file_;
  pthread_t thread_{};
  uint32_t ended_ = 0;
  bool running_ = false;
};

FASTPROF_NAMESPACE_END
