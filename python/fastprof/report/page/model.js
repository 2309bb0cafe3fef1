// SPDX-License-Identifier: Apache-2.0
// model: the decoded data of one profile. Rows have the order of fastprof/report/rows.py: by lane, then by start, parents first.

/**
 * @typedef {{name: string, hash: number, kind: number, device: boolean, call: boolean, wait: boolean, category: string,
 *            file: string, line: number}} Key
 *   kind: index in head.kinds, for the colour. wait: a call of a C function that only waits
 * @typedef {{kind: string, name: string, label: string, pid: number, tid: number, device: string, stream: number,
 *            first: number, count: number, levels: Uint32Array[], reach: (Float64Array | null)[]}} Lane
 *   levels: rows of each line. reach: for a line whose rows overlap, the latest end in each block of 64 rows; else null
 */
R.model = (() => {
  const BLOCK = 64; // rows: see Lane.reach

  class Model {
    constructor(/** @type {string} */ prefix, /** @type {any} */ head) {
      this.prefix = prefix;
      this.head = head;
      this.n = head.rows;
      this.lanes = /** @type {Lane[]} */ ([]);
      this.keys = /** @type {Key[]} */ ([]);
      this.rowKey = new Uint32Array(0);
      this.site = /** @type {ArrayLike<number>} */ ([]);
      this.waiting = /** @type {Map<string, Promise<any>>} */ (new Map());
    }

    /** A text of the string table. */
    text(/** @type {number} */ number) {
      return this.head.strings[number];
    }

    /** Columns of a block, decoded on first use; null if the report has no such block. */
    block(/** @type {string} */ name) {
      return this.once(`block:${name}`, () =>
        R.decode.block(`${this.prefix}:block:${name}`, this.head.blocks[name] || []));
    }

    /** JSON value of a text block; null if the report has no such block. */
    json(/** @type {string} */ name) {
      return this.once(`text:${name}`, () => R.decode.json(`${this.prefix}:text:${name}`));
    }

    once(/** @type {string} */ name, /** @type {() => Promise<any>} */ read) {
      let found = this.waiting.get(name);
      if (!found) this.waiting.set(name, (found = read()));
      return found;
    }

    keyOf(/** @type {number} */ row) {
      return this.keys[this.rowKey[row]];
    }

    siteName(/** @type {number} */ row) {
      return this.text(this.head.sites.name[this.site[row]]);
    }

    laneOf(/** @type {number} */ row) {
      let [low, high] = [0, this.lanes.length - 1];
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (this.lanes[middle].first <= row) low = middle;
        else high = middle - 1;
      }
      while (low > 0 && this.lanes[low].count === 0) low--;
      return low;
    }
  }

  /** @returns {Promise<any>} the model, with the columns of its rows */
  async function load(/** @type {string} */ prefix) {
    const head = await R.decode.json(`${prefix}:head`);
    if (head === null) return null;
    const model = /** @type {any} */ (new Model(prefix, head));
    const rows = await model.block("rows");
    model.site = rows.site;
    model.length = rows.length;
    model.depth = rows.depth;
    model.flags = rows.flags;
    readLanes(model, rows);
    readKeys(model);
    nest(model, await model.block("callers"), await model.block("away"));
    giveColours(model);
    model.lanes.forEach((/** @type {Lane} */ lane) => place(model, lane));
    return model;
  }

  function readLanes(/** @type {any} */ model, /** @type {any} */ rows) {
    const start = new Float64Array(model.n);
    const delta = rows.start_delta;
    let number = 0;
    model.lanes = model.head.lanes.map((/** @type {any} */ lane) => {
      if (lane.count) {
        let at = (start[lane.first] = rows.lane_start[number++]);
        for (let row = lane.first + 1; row < lane.first + lane.count; row++) start[row] = at += delta[row];
      }
      const name = model.text(lane.name);
      const thread = name || (lane.tid ? `thread ${lane.tid}` : "thread");
      const label = lane.kind === "device" ? `${lane.device} stream ${lane.stream}`
        : lane.kind === "async" ? `${thread}, async` : lane.task ? `task ${name}` : thread;
      return { ...lane, name, label, levels: [], reach: [] };
    });
    model.start = start;
    let [low, high] = [0, model.head.span_ns];
    for (let row = 0; row < model.n; row++) {
      if (start[row] < low) low = start[row];
      if (start[row] + model.length[row] > high) high = start[row] + model.length[row];
    }
    model.begin = low;
    model.end = Math.max(high, low + 1);
  }

  /** Read the keys by which key_averages() groups: the displayed name, on the CPU or on a device. */
  function readKeys(/** @type {any} */ model) {
    const { sites } = model.head;
    const numbers = new Map();
    model.keys = /** @type {Key[]} */ ([]);
    const make = (/** @type {number} */ site, /** @type {boolean} */ device) => {
      const name = model.text(sites.key[site]);
      const id = `${device ? "d" : "c"}${name}`;
      let number = numbers.get(id);
      if (number === undefined) {
        numbers.set(id, (number = model.keys.length));
        model.keys.push({
          name, device, hash: R.base.hash(name), kind: device ? model.head.kinds.length - 1 : sites.kind[site], call: Boolean(sites.call[site]), wait: Boolean(sites.wait[site]), category: model.text(sites.category[site]),
          file: model.text(sites.file[site]), line: sites.line[site],
        });
      }
      return number;
    };
    const onCpu = new Int32Array(sites.name.length).fill(-1);
    const onDevice = new Int32Array(sites.name.length).fill(-1);
    model.rowKey = new Uint32Array(model.n);
    for (const lane of model.lanes) {
      const device = lane.kind === "device";
      const of = device ? onDevice : onCpu;
      for (let row = lane.first; row < lane.first + lane.count; row++) {
        const site = model.site[row];
        if (of[site] < 0) of[site] = make(site, device);
        model.rowKey[row] = of[site];
      }
    }
    model.siteKey = onCpu;
    model.hasCalls = sites.call.some(Boolean);
    model.hasWaits = sites.wait.some(Boolean);
  }

  /** Compute parents from depths, for rows of tasks from the block "callers", and self times. */
  function nest(/** @type {any} */ model, /** @type {any} */ callers, /** @type {any} */ away) {
    const { n, depth, length } = model;
    const parent = new Int32Array(n).fill(-1);
    const last = /** @type {number[]} */ ([]);
    let caller = 0;
    for (const lane of model.lanes) {
      last.length = 0;
      for (let row = lane.first; row < lane.first + lane.count; row++) {
        const level = depth[row];
        const above = level > 0 ? last[level - 1] : undefined;
        if (lane.task && callers) parent[row] = callers.row[caller++] - 1;
        else if (above !== undefined) parent[row] = above;
        last[level] = row;
      }
    }
    model.away = away;
    model.parent = parent;
    model.self = R.aggregate.selfOf(model, parent, length);
  }

  /** Give the names of each kind with the most self time distinct shades; the others keep the shade of their hash. */
  function giveColours(/** @type {any} */ { keys, rowKey, self, length, n }) {
    const time = new Float64Array(keys.length);
    for (let row = 0; row < n; row++) time[rowKey[row]] += keys[rowKey[row]].device ? length[row] : Math.max(self[row], 0);
    const given = /** @type {Record<number, number>} */ ({});
    for (const number of Array.from(keys.keys()).sort((a, b) => time[b] - time[a])) {
      const { kind } = keys[number];
      given[kind] = (given[kind] || 0) + 1;
      if (given[kind] <= R.base.SHADES) keys[number].hash = given[kind] - 1;
    }
  }

  /** Assign the rows of a lane to lines: by depth, or, if rows do not nest, to the first free line. */
  function place(/** @type {any} */ model, /** @type {Lane} */ lane) {
    const { start, length } = model;
    const last = lane.first + lane.count;
    let level = model.depth;
    if (lane.kind !== "thread") {
      const free = /** @type {number[]} */ ([]);
      level = model.placed = model.placed || new Uint32Array(model.n);
      for (let row = lane.first; row < last; row++) {
        let line = 0;
        while (line < free.length && free[line] > start[row]) line++;
        if (line > 500) line = 500;
        free[line] = start[row] + length[row];
        level[row] = line;
      }
    }
    const counts = /** @type {number[]} */ ([]);
    for (let row = lane.first; row < last; row++) counts[level[row]] = (counts[level[row]] || 0) + 1;
    for (let line = 0; line < counts.length; line++) lane.levels.push(new Uint32Array(counts[line] || 0));
    const filled = new Uint32Array(counts.length);
    const end = new Float64Array(counts.length).fill(-Infinity);
    const overlap = new Array(counts.length).fill(false);
    for (let row = lane.first; row < last; row++) {
      const line = level[row];
      lane.levels[line][filled[line]++] = row;
      if (start[row] + length[row] < end[line]) overlap[line] = true;
      else end[line] = start[row] + length[row];
    }
    lane.reach = lane.levels.map((rows, line) => (overlap[line] ? latestEnds(model, rows) : null));
  }

  function latestEnds(/** @type {any} */ { start, length }, /** @type {Uint32Array} */ rows) {
    const ends = new Float64Array(Math.ceil(rows.length / BLOCK)).fill(-Infinity);
    rows.forEach((row, i) => { ends[i >> 6] = Math.max(ends[i >> 6], start[row] + length[row]); });
    return ends;
  }

  /** The line in its lane on which a row is drawn. */
  const lineOf = (/** @type {any} */ model, /** @type {number} */ row) =>
    model.lanes[model.laneOf(row)].kind === "thread" ? model.depth[row] : model.placed[row];

  return { load, lineOf };
})();
