// SPDX-License-Identifier: Apache-2.0
// Links from the op that made a node of the autograd graph to the backward function that ran it, as
// arrows for trace writers, and the sequence numbers that the engine's own ranges show.
//
// Rule (PyTorch's): a backward function carries the sequence number of its node and the thread it
// was made on. Among the ops of that thread with this number the one that began last, before the
// backward function, is the one that made it. A node links once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "fastprof/export/details.hpp"
#include "fastprof/range_detail/engine_range.hpp"

FASTPROF_NAMESPACE_BEGIN

// The node of the autograd graph that a row runs.
struct AutogradNode {
  int64_t sequence_nr = -1;     // -1: none
  uint64_t forward_thread = 0;  // number of the track that made the node
};

// One end of an arrow: both ends carry the same id, 1 and up in the order of the backward
// functions.
struct ForwardBackwardLink {
  uint64_t id = 0;  // 0: none
  bool begins = false;
};

class ForwardBackwardLinks {
 public:
  // The capture must have been validated. O(rows), and O(n log n) in the ops that are linked.
  explicit ForwardBackwardLinks(const Capture& capture) {
    std::vector<Op> ops = find_ops(capture, true);
    if (ops.empty()) return;
    find_engine_ranges(capture, ops);
    std::unordered_map<Key, uint32_t, KeyHash> forward_row;  // kNone: nobody yet, or taken
    for (const Op& op : ops) forward_row.emplace(op.key, kNone);
    for (const Op& op : find_ops(capture, false))
      if (forward_row.count(op.key) != 0) ops.push_back(op);
    std::sort(ops.begin(), ops.end(), [](const Op& a, const Op& b) {
      return std::tie(a.start_ns, a.row) < std::tie(b.start_ns, b.row);
    });
    uint64_t id = 0;
    for (const Op& op : ops) {
      uint32_t& row = forward_row[op.key];
      if (!op.backward) {
        row = op.row;
      } else if (row != kNone) {
        links_[row] = {++id, true};
        links_[op.row] = {id, false};
        row = kNone;
      }
    }
  }

  bool empty() const noexcept { return links_.empty(); }
  // Whether node_inside() has numbers for this row.
  bool is_engine_row(size_t row) const {
    return !engine_nodes_.empty() && engine_nodes_.count(static_cast<uint32_t>(row)) != 0;
  }
  // For a range that the autograd engine puts around a backward function: the node of that
  // function. PyTorch shows the same numbers in both.
  AutogradNode node_inside(size_t row) const {
    const auto found = engine_nodes_.find(static_cast<uint32_t>(row));
    return found == engine_nodes_.end() ? AutogradNode{} : found->second;
  }
  // The end of an arrow at this row, at its begin.
  ForwardBackwardLink at(size_t row) const {
    const auto found = links_.find(static_cast<uint32_t>(row));
    return found == links_.end() ? ForwardBackwardLink{} : found->second;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Key {
    uint64_t thread;
    uint64_t sequence_nr;
    bool operator==(const Key& other) const noexcept {
      return thread == other.thread && sequence_nr == other.sequence_nr;
    }
  };
  struct KeyHash {
    size_t operator()(const Key& key) const noexcept {
      const uint64_t mixed = (key.sequence_nr * 0x9E3779B97F4A7C15u) ^ key.thread;
      return static_cast<size_t>(mixed ^ mixed >> 32);
    }
  };
  struct Op {
    int64_t start_ns;
    uint32_t row;
    bool backward;
    Key key;
  };

  void find_engine_ranges(const Capture& capture, const std::vector<Op>& backward_ops) {
    std::vector<bool> is_engine(capture.sites.size());
    for (size_t site = 0; site < is_engine.size(); ++site)
      is_engine[site] = is_engine_range(capture.sites[site].name);
    for (const Op& op : backward_ops) {
      const int32_t parent = capture.parent[op.row];
      if (parent < 0 || !is_engine[capture.site[static_cast<size_t>(parent)]]) continue;
      engine_nodes_[static_cast<uint32_t>(parent)] = {static_cast<int64_t>(op.key.sequence_nr),
                                                      op.key.thread};
    }
  }

  static std::vector<Op> find_ops(const Capture& capture, bool backward) {
    std::vector<Op> found;
    for (size_t row = 0; row < capture.size(); ++row)
      for_each_detail(capture, row, [&](DetailType type, const uint64_t* words, size_t count) {
        if (type != DetailType::op || count == 0 || static_cast<int64_t>(words[0]) < 0) return;
        const uint64_t forward_thread = count > 1 ? words[1] : 0;
        if ((forward_thread != 0) != backward) return;
        const uint64_t thread = backward ? forward_thread : capture.tracks[capture.track[row]].id;
        found.push_back(
            {capture.start_ns[row], static_cast<uint32_t>(row), backward, {thread, words[0]}});
      });
    return found;
  }

  std::unordered_map<uint32_t, ForwardBackwardLink> links_;
  std::unordered_map<uint32_t, AutogradNode> engine_nodes_;
};

FASTPROF_NAMESPACE_END
