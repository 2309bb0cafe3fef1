// SPDX-License-Identifier: Apache-2.0
// Links each backward function to the op that created its node of the autograd graph, as flow
// arrows of trace writers, and finds the sequence numbers of the engine's own ranges.
//
// Rule (PyTorch's): a backward function carries the sequence number of its node and the id of the
// thread that created it. Of the ops on that thread with that number, the last to begin before the
// backward function created the node. Each node is linked once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "fastprof/export/details.hpp"
#include "fastprof/payload/blocks/engine_range.hpp"

FASTPROF_NAMESPACE_BEGIN

// The autograd node that a row evaluates.
struct AutogradNode {
  int64_t sequence_nr = -1;     // -1: none
  uint64_t forward_thread = 0;  // id of the track that created the node
};

// One end of a flow arrow. Both ends have the same id, counting from 1 in the order of the backward
// functions.
struct ForwardBackwardLink {
  uint64_t id = 0;  // 0: none
  bool begins = false;
};

// All links of a capture, found by the constructor.
class ForwardBackwardLinks {
 public:
  // The capture must be validated. O(rows), plus O(n log n) in the number of linked ops.
  explicit ForwardBackwardLinks(const Capture& capture) {
    std::vector<Op> ops = find_ops(capture, true);
    if (ops.empty()) return;
    find_engine_ranges(capture, ops);
    std::unordered_map<Key, uint32_t, KeyHash> forward_row;  // kNone: no op yet, or linked
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
  // Returns whether node_inside() has a result for this row.
  bool is_engine_row(size_t row) const {
    return !engine_nodes_.empty() && engine_nodes_.count(static_cast<uint32_t>(row)) != 0;
  }
  // For a range that the autograd engine records around a backward function: returns the node of
  // that function. PyTorch shows the same numbers on both.
  AutogradNode node_inside(size_t row) const {
    const auto found = engine_nodes_.find(static_cast<uint32_t>(row));
    return found == engine_nodes_.end() ? AutogradNode{} : found->second;
  }
  // Returns the arrow end at the begin of this row; id 0 if there is none.
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
        const uint64_t thread =
            backward ? forward_thread : capture.tracks[capture.track[row]].id_of_thread();
        found.push_back(
            {capture.start_ns[row], static_cast<uint32_t>(row), backward, {thread, words[0]}});
      });
    return found;
  }

  std::unordered_map<uint32_t, ForwardBackwardLink> links_;
  std::unordered_map<uint32_t, AutogradNode> engine_nodes_;
};

FASTPROF_NAMESPACE_END
