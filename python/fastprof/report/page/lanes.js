// SPDX-License-Identifier: Apache-2.0
// lanes: the timeline's layout from top to bottom: bands of processes, threads, streams, counters and memory.

/**
 * @typedef {{type: "process" | "group" | "lane" | "counter" | "memory", id: string, label: string, y: number, height: number, lane: number,
 *            first: number, lines: number, series: any, open: boolean, lanes: number[]}} Band  first: the line drawn at the top;
 *   lanes: of a group of tasks or idle workers
 */
R.lanes = (() => {
  const LINE = 18; // pixels: a line of slices
  const GUTTER = 168; // for the names of threads, at the left
  const RULER = 26; // for the ruler, at the top
  const HEAD = 22;
  const GRAPH = 46;
  const MOST_LINES = 60; // of a lane; deeper rows are shown in the flame graph and can be selected there

  /** Ids of the bands that are collapsed, and of the groups of tasks that are expanded. */
  const closed = new Set();
  const opened = new Set();
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
      bands.push({ lane: -1, first: 0, lines: 0, series: null, lanes: [], open: !closed.has(band.id), ...band, y });
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
      const addLane = (/** @type {number} */ number) => {
        const lane = model.lanes[number];
        const laneId = `lane ${number}`;
        const first = showsOuter ? 0 : outerLines(model, lane);
        const lines = closed.has(laneId) ? 1 : Math.max(1, Math.min(lane.levels.length - first, MOST_LINES));
        add({ type: "lane", id: laneId, label: lane.label, height: Math.max(lines * LINE + 8, first ? 40 : 0), lane: number, first, lines });
      };
      const groups = groupsOf(model, pid);
      model.lanes.forEach((/** @type {any} */ lane, /** @type {number} */ number) => {
        if (lane.pid !== pid) return;
        const group = groups.get(number);
        if (!group) addLane(number);
        else if (group.lanes[0] === number) {
          add({ type: "group", ...group, height: LINE + 8, open: opened.has(group.id) });
          if (opened.has(group.id)) group.lanes.forEach(addLane);
        }
      });
      if (pid === pids[0]) {
        for (const device of extra.memory) {
          add({ type: "memory", id: `memory ${device.device}`, label: `memory ${device.device}`, height: GRAPH + 14, series: device.series });
        }
      }
    }
    return { bands, height: y + 12 };
  }

  /** Groups, by number of lane: the tasks of a thread that run the same coroutine, if there are several; idle workers. */
  function groupsOf(/** @type {any} */ model, /** @type {number} */ pid) {
    const found = /** @type {Map<string, number[]>} */ (new Map());
    model.lanes.forEach((/** @type {any} */ lane, /** @type {number} */ number) => {
      if (lane.pid !== pid || !(lane.idle || (lane.task && lane.kind === "thread"))) return;
      const id = lane.idle ? `group ${pid} idle` : `group ${pid} ${lane.thread} ${lane.group}`;
      const lanes = found.get(id);
      if (lanes) lanes.push(number);
      else found.set(id, [number]);
    });
    const groups = /** @type {Map<number, {id: string, label: string, lanes: number[]}>} */ (new Map());
    for (const [id, lanes] of found) {
      const { idle, group } = model.lanes[lanes[0]];
      if (lanes.length < 2 && !idle) continue;
      const label = `${idle ? "idle workers" : model.text(group)} × ${lanes.length}`;
      for (const number of lanes) groups.set(number, { id, label, lanes });
    }
    return groups;
  }

  /**
   * The entries of a selection of lanes, in their order: a lane with rows, or a group. `number`: of the lane; of a group,
   * counted on from the last lane.
   * @returns {{number: number, label: string, pid: number, lanes: number[]}[]}
   */
  function choices(/** @type {any} */ model) {
    if (model.laneChoices) return model.laneChoices;
    const entries = /** @type {{number: number, label: string, pid: number, lanes: number[]}[]} */ ([]);
    const pids = [...new Set(model.lanes.map((/** @type {any} */ lane) => lane.pid))];
    const groups = new Map(pids.flatMap((pid) => [...groupsOf(model, pid)]));
    let next = model.lanes.length;
    model.lanes.forEach((/** @type {any} */ { label, pid, count }, /** @type {number} */ number) => {
      const group = groups.get(number);
      if (!group && count) entries.push({ number, label, pid, lanes: [number] });
      if (group && group.lanes[0] === number) entries.push({ number: next++, label: group.label, pid, lanes: group.lanes });
    });
    return (model.laneChoices = entries);
  }

  /** The lanes of a chosen number; all for a negative one. */
  function chosen(/** @type {any} */ model, /** @type {number} */ number) {
    if (number < 0) return model.lanes;
    if (number < model.lanes.length) return [model.lanes[number]];
    const entry = choices(model).find((/** @type {any} */ each) => each.number === number);
    return entry ? entry.lanes.map((lane) => model.lanes[lane]) : [];
  }

  /** Expand the group of a lane, so that the lane has a band. */
  function reveal(/** @type {any} */ model, /** @type {number} */ number) {
    const group = groupsOf(model, model.lanes[number].pid).get(number);
    if (group) opened.add(group.id);
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
    if (id.startsWith("group ")) opened.has(id) ? opened.delete(id) : opened.add(id);
    else if (closed.has(id)) closed.delete(id);
    else closed.add(id);
  }

  return { LINE, GUTTER, RULER, layout, choices, chosen, readSignals, toggle, reveal, toggleOuter: () => { showsOuter = !showsOuter; }, signals: () => extra };
})();
