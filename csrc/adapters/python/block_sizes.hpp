// SPDX-License-Identifier: Apache-2.0
// BlockSizes: maps the addresses of recorded blocks to their sizes, since a free reports only the
// address. A filter rejects most unrecorded addresses without a lookup.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// The process's hash table of 64 shards, each with a spin lock and linear probing. Its memory comes
// from malloc(), never from a Python allocator, whose hooks call it. Any thread.
class BlockSizes {
 public:
  struct Block {
    size_t bytes = 0;     // that its records report: scaled for a sampled block. Less than 2^63
    size_t own_size = 0;  // of a sampled block; for others equal to `bytes`
    bool sampled = false;
  };

  // Adds a block, or replaces the one at that address. Returns false if there is no memory for the
  // entry. The address and `bytes` must not be 0.
  bool add(const void* block, const Block& of) noexcept {
    const auto address = reinterpret_cast<uintptr_t>(block);
    const uint64_t hash = hash_of(address);
    Shard& shard = shard_of(hash);
    const Lock hold(shard);
    if ((shard.count + 1) * 4 > shard.room * 3 && !grow(shard)) return false;
    Entry& entry = shard.entries[place_of(shard, hash, address)];
    if (entry.address == 0)
      ++shard.count;
    else if (entry.block.sampled)
      add_to_filter(address, -1);
    if (of.sampled) add_to_filter(address, 1);
    entry = {address, of};
    return true;
  }

  // Returns false if no sampled block has this address; true if one may. One relaxed load: a thread
  // that frees a block has received it from the thread that allocated it, and therefore sees its
  // count.
  static bool may_be_sampled(const void* block) noexcept {
    return filter_[filter_place(reinterpret_cast<uintptr_t>(block))].load(
               std::memory_order_relaxed) != 0;
  }

  // Removes a block and returns it; 0 bytes if it is unknown.
  Block remove(const void* block) noexcept {
    const auto address = reinterpret_cast<uintptr_t>(block);
    const uint64_t hash = hash_of(address);
    Shard& shard = shard_of(hash);
    const Lock hold(shard);
    if (shard.count == 0) return {};
    size_t at = place_of(shard, hash, address);
    if (shard.entries[at].address == 0) return {};
    const Block found = shard.entries[at].block;
    if (found.sampled) add_to_filter(address, -1);
    // Close the gap: later entries of the run move up, unless that would put one before its home
    // position.
    const size_t mask = shard.room - 1;
    for (size_t next = (at + 1) & mask; shard.entries[next].address != 0;
         next = (next + 1) & mask) {
      const size_t own = hash_of(shard.entries[next].address) & mask;
      if (((next - own) & mask) < ((next - at) & mask)) continue;
      shard.entries[at] = shard.entries[next];
      at = next;
    }
    shard.entries[at] = {0, {}};
    --shard.count;
    return found;
  }

  // Forgets all blocks and returns the memory.
  void clear() noexcept {
    for (Shard& shard : shards_) {
      const Lock hold(shard);
      std::free(shard.entries);
      shard.entries = nullptr;
      shard.count = shard.room = 0;
    }
    clear_filter();
  }

  // In a forked child: as clear(), although other threads of the parent may have held locks. The
  // memory of a shard that was locked may be inconsistent and is leaked.
  void forget_in_child() noexcept {
    for (Shard& shard : shards_) {
      if (!shard.locked.load(std::memory_order_relaxed)) std::free(shard.entries);
      shard.entries = nullptr;
      shard.count = shard.room = 0;
      shard.locked.store(false, std::memory_order_relaxed);
    }
    clear_filter();
  }

 private:
  struct Entry {
    uintptr_t address;  // 0: free
    Block block;
  };
  struct alignas(64) Shard {
    std::atomic<bool> locked{false};
    Entry* entries = nullptr;
    size_t count = 0;
    size_t room = 0;  // a power of two
  };
  class Lock {
   public:
    explicit Lock(Shard& shard) noexcept : shard_(shard) {
      while (shard_.locked.exchange(true, std::memory_order_acquire)) ::sched_yield();
    }
    ~Lock() { shard_.locked.store(false, std::memory_order_release); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    Shard& shard_;
  };

  // Mixes the bits of an address, whose low four are always 0. (Constants of splitmix64.)
  static uint64_t hash_of(uintptr_t address) noexcept {
    uint64_t mixed = static_cast<uint64_t>(address) * 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9u;
    return mixed ^ (mixed >> 32);
  }
  Shard& shard_of(uint64_t hash) noexcept { return shards_[hash >> 58]; }

  // Neighbouring blocks share a cache line of the filter. The high bits distinguish large blocks,
  // which begin at the same offset within a page.
  static size_t filter_place(uintptr_t address) noexcept {
    return ((address >> 4) ^ (address >> 18)) % kFilter;
  }
  static void add_to_filter(uintptr_t address, int change) noexcept {
    filter_[filter_place(address)].fetch_add(static_cast<uint16_t>(change),
                                             std::memory_order_relaxed);
  }
  static void clear_filter() noexcept {
    for (auto& count : filter_) count.store(0, std::memory_order_relaxed);
  }

  // Returns the index of the address, or of the free entry where it belongs. The shard must have a
  // free entry.
  static size_t place_of(const Shard& shard, uint64_t hash, uintptr_t address) noexcept {
    const size_t mask = shard.room - 1;
    size_t at = hash & mask;
    while (shard.entries[at].address != 0 && shard.entries[at].address != address)
      at = (at + 1) & mask;
    return at;
  }

  static bool grow(Shard& shard) noexcept {
    Shard larger;
    larger.room = shard.room == 0 ? 256 : shard.room * 2;
    larger.entries = static_cast<Entry*>(std::calloc(larger.room, sizeof(Entry)));
    if (larger.entries == nullptr) return false;
    for (size_t i = 0; i < shard.room; ++i) {
      const Entry& entry = shard.entries[i];
      if (entry.address == 0) continue;
      larger.entries[place_of(larger, hash_of(entry.address), entry.address)] = entry;
    }
    std::free(shard.entries);
    shard.entries = larger.entries;
    shard.room = larger.room;
    return true;
  }

  static constexpr size_t kFilter = 16384;
  Shard shards_[64];
  // Number of sampled blocks by a hash of their address, modulo 2^16. Static: a fixed address.
  inline static std::atomic<uint16_t> filter_[kFilter] = {};
};

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
