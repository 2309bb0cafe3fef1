// SPDX-License-Identifier: Apache-2.0
// lanes: the timeline's layout from top to bottom: bands of processes, threads, streams, counters and memory.

/**
 * @typedef {{type: "process" | "lane" | "counter" | "memory", id: string, label: string, y: number, height: number, lane: number,
 *            first: number, lines: number, series: any, open: boolean}} Band  first: the line drawn at the top
 */
R.lanes = (() => {
  const LINE = 18; // pixels: a line of slices
  const GUTTER = 168; // for the names of threads, at the left
  const RULER = 26; // for the ruler, at the top
  const HEAD = 22;
  const GRAPH = 46;
  const MOST_LINES = 60; // of a lane; deeper rows are shown in the flame graph and can be selected there

  /** Ids of the bands that are collapsed. */
  const closed = new Set();
  let extra = /** @type {{counters: any[], memory: any[], marks: any, flows: any}} */ ({ counters: [], memory: [], marks: null, flows: null });

  /** Decode counters, memory, marks and flows, which the first frame does not need. */
  async function readSignals(/** @type {any} */ model) {
    const counters = [];
    for (const [number, counter] of model.head.counters.entries()) {
      const columns = await model.block(`counter ${number}`);
      counters.push({ name: model.text(counter.name), pid: counter.pid, series: R.chart.series(columns.time, columns.value) });
    }
    const memory = [];
    for (const [number, device] of model.head.memory.entries()) memory.push(await memoryOf(model, number, device.device));
    extra = { counters, memory, marks: await model.block("marks"), flows: await model.block("flows") };
    return extra;
  }

  async function memoryOf(/** @type {any} */ model, /** @type {number} */ number, /** @type {string} */ device) {
    const columns = await model.block(`memory ${number}`);
    const held = new Float64Array(columns.time.length);
    const known = model.head.memory[number];
    const before = known.sums ? known.sums.in_use_at_begin : 0; // so that the maximum is the report's peak
    let sum = before;
    for (let i = 0; i < held.length; i++) held[i] = sum += columns.bytes[i];
    return { device, columns, held, before, known, series: R.chart.series(columns.time, held) };
  }

  /** @returns {{bands: Band[], height: number}} */
  function layout(/** @type {any} */ model) {
    /** @type {Band[]} */
    const bands = [];
    let y = 4;
    const add = (/** @type {any} */ band) => {
      bands.push({ lane: -1, first: 0, lines: 0, series: null, open: !closed.has(band.id), ...band, y });
      y += band.height;
    };
    const pids = [...new Set(model.lanes.map((/** @type {any} */ lane) => lane.pid))];
    for (const pid of pids) {
      const id = `process ${pid}`;
      const name = model.head.processes[String(pid)] || "process";
      if (pids.length > 1 || name) add({ type: "process", id, label: `${name} · pid ${pid}`, height: HEAD + 4 });
      if (closed.has(id)) continue;
      for (const counter of extra.counters) {
        if (counter.pid === pid) add({ type: "counter", id: `counter ${pid} ${counter.name}`, label: counter.name, height: GRAPH, series: counter.series });
      }
      model.lanes.forEach((/** @type {any} */ lane, /** @type {number} */ number) => {
        if (lane.pid !== pid) return;
        const laneId = `lane ${number}`;
        const open = !closed.has(laneId);
        const first = showsOuter ? 0 : outerLines(model, lane);
        const lines = open ? Math.max(1, Math.min(lane.levels.length - first, MOST_LINES)) : 1;
        add({ type: "lane", id: laneId, label: lane.label, height: Math.max(lines * LINE + 8, first ? 40 : 0), lane: number, first, lines });
      });
      if (pid === pids[0]) {
        for (const device of extra.memory) {
          add({ type: "memory", id: `memory ${device.device}`, label: `memory ${device.device}`, height: GRAPH + 14, series: device.series });
        }
      }
    }
    return { bands, height: y + 12 };
  }

  /** Whether to draw the outer lines that contain only calls that were on the stack before the start. */
  let showsOuter = false;

  /** Return how many such lines at the top of a lane to hide: all but the last if there are more than four, else none. */
  function outerLines(/** @type {any} */ model, /** @type {any} */ lane) {
    let lines = 0;
    while (lines < lane.levels.length && lane.levels[lines].every((/** @type {number} */ row) => model.flags[row] & 4)) lines++;
    return lines > 4 ? lines - 1 : 0;
  }

  function toggle(/** @type {string} */ id) {
    if (closed.has(id)) closed.delete(id);
    else closed.add(id);
  }

  return { LINE, GUTTER, RULER, layout, readSignals, toggle, toggleOuter: () => { showsOuter = !showsOuter; }, signals: () => extra };
})();
