// SPDX-License-Identifier: Apache-2.0
// aggregate: sums of rows by group, like key_averages(), for all rows or for those in a measured interval.

/**
 * @typedef {{interval?: [number, number] | null, lane?: number, calls?: boolean}} Selection
 *   lane: only rows of this lane or group of lanes (R.lanes.choices). calls: false leaves Python calls out; their time then belongs to the enclosing row
 * @typedef {{label: string, key: number, detail: string, row: number, count: number, self: number, total: number,
 *            least: number, most: number, memory: number, selfMemory: number, device: number, selfDevice: number,
 *            flops: number}} Group
 */
R.aggregate = (() => {
  /**
   * Call `each(row, length, self, parent)` for the rows of a selection. Times, in ns, are those inside the interval.
   * @param {any} model
   * @param {Selection} selection
   * @param {(row: number, length: number, self: number, parent: number) => void} each
   */
  function forRows(model, selection, each) {
    const { start, length, rowKey, keys } = model;
    const { interval = null, lane = -1, calls = true } = selection;
    const hidesCalls = !calls && model.hasCalls;
    const plain = !interval && !hidesCalls;
    const parents = hidesCalls ? withoutCalls(model) : model.parent;
    const inside = plain ? length : clipped(model, interval);
    const self = plain ? model.self : selfOf(model, parents, inside, hidesCalls);
    for (const { first, count } of R.lanes.chosen(model, lane)) {
      for (let row = first; row < first + count; row++) {
        if (interval && (start[row] >= interval[1] || start[row] + length[row] < interval[0])) continue;
        if (hidesCalls && keys[rowKey[row]].call) continue;
        each(row, inside[row], self[row], parents[row]);
      }
    }
  }

  function clipped(/** @type {any} */ model, /** @type {[number, number] | null} */ interval) {
    if (!interval) return model.length;
    const { start, length, n } = model;
    const inside = new Float64Array(n);
    for (let row = 0; row < n; row++) {
      const begin = Math.max(start[row], interval[0]);
      inside[row] = Math.max(0, Math.min(start[row] + length[row], interval[1]) - begin);
    }
    return inside;
  }

  /** The nearest ancestor of each row that is not a Python call; cached in the model. */
  function withoutCalls(/** @type {any} */ model) {
    if (!model.parentWithoutCalls) {
      const { n, parent, rowKey, keys } = model;
      const above = new Int32Array(n);
      for (let row = 0; row < n; row++) {
        const up = parent[row];
        above[row] = up >= 0 && keys[rowKey[up]].call ? above[up] : up;
      }
      model.parentWithoutCalls = above;
    }
    return model.parentWithoutCalls;
  }

  /**
   * Self times: those of the rows inside of a row are left out. A task's work is its thread's (block "away"): the time in
   * which a row's task was suspended is nobody's, and a row has no time that rows which are not its children had. Of an
   * interval, a proportional part of both counts.
   */
  function selfOf(/** @type {any} */ model, /** @type {Int32Array} */ parents, /** @type {any} */ inside, hidesCalls = false) {
    const self = Float64Array.from(inside);
    const { n, rowKey, keys, length, away } = model;
    const hidden = (/** @type {number} */ row) => hidesCalls && keys[rowKey[row]].call;
    const part = (/** @type {number} */ ns, /** @type {number} */ row) => (length[row] ? (ns * inside[row]) / length[row] : 0);
    const subtract = (/** @type {number} */ row, /** @type {number} */ ns) => {
      if (row >= 0) self[row] -= ns;
    };
    for (let row = 0; row < n; row++) if (!hidden(row)) subtract(parents[row], inside[row]);
    for (let i = 0; away && i < away.row.length; i++) {
      const row = away.row[i];
      const suspended = part(away.suspended[i], row);
      self[row] -= suspended;
      if (!hidden(row)) subtract(parents[row], -suspended);
      subtract(hidden(row) ? parents[row] : row, part(away.given[i], row));
    }
    for (const lane of model.lanes) {
      if (lane.kind !== "thread") self.fill(0, lane.first, lane.first + lane.count);
    }
    return self;
  }

  /**
   * Return the groups of a selection.
   * @param {any} model
   * @param {Selection} selection
   * @param {{of: (row: number) => number, label: (code: number) => string} | null} [split]  a second criterion
   * @param {any} [numbers]  the block "numbers", for memory, device times and FLOPs
   * @returns {Group[]}
   */
  function groups(model, selection, split = null, numbers = null) {
    const columns = numbers || {};
    const memory = columns.cpu_memory_usage;
    const selfMemory = columns.self_cpu_memory_usage;
    const { device_ns: device, self_device_ns: selfDevice, flops } = columns;
    const { rowKey, keys } = model;
    /** @type {Map<number, Group>} */
    const found = new Map();
    const size = keys.length;
    forRows(model, selection, (row, length, self) => {
      const key = rowKey[row];
      const part = split ? split.of(row) : 0;
      let group = found.get(part * size + key);
      if (!group) {
        group = {
          label: keys[key].name, key, detail: split ? split.label(part) : "", row, count: 0, self: 0, total: 0,
          least: Infinity, most: 0, memory: 0, selfMemory: 0, device: 0, selfDevice: 0, flops: 0,
        };
        found.set(part * size + key, group);
      }
      group.count += 1;
      if (length > group.most) { group.most = length; group.row = row; }
      if (length < group.least) group.least = length;
      if (!keys[key].device) {
        group.self += self;
        group.total += length;
      }
      if (memory) { group.memory += memory[row]; group.selfMemory += selfMemory[row]; }
      if (device) { group.device += device[row]; group.selfDevice += selfDevice[row]; }
      else if (keys[key].device) { group.device += length; group.selfDevice += length; }
      if (flops) group.flops += flops[row];
    });
    return [...found.values()];
  }

  return { groups, forRows, selfOf, withoutCalls };
})();
