// SPDX-License-Identifier: Apache-2.0
// steps: a bar for each ProfilerStep#N, divided into its parts, and a table that compares one step with the median.

R.steps = (() => {
  const { el } = R.base;
  const { time, percent, shown } = R.format;
  const MOST_PARTS = 9;
  let model = /** @type {any} */ (null);
  let steps = /** @type {any[]} */ ([]);
  let box = /** @type {any} */ (null);
  let side = /** @type {any} */ (null);
  const choice = { order: "time" };

  /** @returns {any[]} the steps in order: row, name, length, parts by key */
  function find(/** @type {any} */ of) {
    const { keys, rowKey, length, n } = of;
    const isStep = keys.map((/** @type {any} */ key) => key.name === "ProfilerStep*" && !key.device);
    const found = new Map();
    // The parts of a step are the ranges and ops directly in it; if there are none, its Python calls.
    const parents = [R.aggregate.withoutCalls(of), of.parent];
    const hasRanges = keys.some((/** @type {any} */ key, /** @type {number} */ i) => !key.call && !isStep[i] && !key.device && inSteps(of, isStep, i));
    const parent = hasRanges ? parents[0] : parents[1];
    for (let row = 0; row < n; row++) {
      if (hasRanges && keys[rowKey[row]].call) continue;
      if (isStep[rowKey[row]]) found.set(row, { row, name: of.siteName(row), length: length[row], parts: new Map(), rest: length[row] });
      const step = found.get(parent[row]);
      if (!step) continue;
      step.parts.set(rowKey[row], (step.parts.get(rowKey[row]) || 0) + length[row]);
      step.rest -= length[row];
    }
    return [...found.values()];
  }

  /** Whether a row of the key is directly in a step, disregarding Python calls in between. */
  function inSteps(/** @type {any} */ of, /** @type {boolean[]} */ isStep, /** @type {number} */ key) {
    const parent = R.aggregate.withoutCalls(of);
    for (let row = 0; row < of.n; row++) if (of.rowKey[row] === key && parent[row] >= 0 && isStep[of.rowKey[parent[row]]]) return true;
    return false;
  }

  const median = (/** @type {number[]} */ values) => {
    const sorted = [...values].sort((a, b) => a - b);
    const middle = sorted.length >> 1;
    return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  };

  function start(/** @type {HTMLElement} */ parent, /** @type {any} */ of) {
    model = of;
    steps = find(model);
    const form = R.controls.bar();
    R.controls.select(form, "Order", { time: "of the program", slow: "slowest first" }, choice.order, (order) => { choice.order = order; render(); });
    box = el("div", { class: "scrolled steps" });
    side = el("div", { class: "step" });
    parent.append(form, el("div", { class: "columns wide" }, box, side));
    render();
    compare(steps.reduce((slow, step) => (step.length > slow.length ? step : slow), steps[0]));
  }

  function legend() {
    const sums = new Map();
    for (const step of steps) for (const [key, ns] of step.parts) sums.set(key, (sums.get(key) || 0) + ns);
    return [...sums].sort((a, b) => b[1] - a[1]).slice(0, MOST_PARTS).map(([key]) => key);
  }

  function render() {
    const kinds = legend();
    const most = Math.max(...steps.map((step) => step.length));
    const middle = median(steps.map((step) => step.length));
    const ordered = choice.order === "slow" ? [...steps].sort((a, b) => b.length - a.length) : steps;
    const part = (/** @type {number} */ ns, /** @type {string} */ colour, /** @type {string} */ title) =>
      el("i", { title, css: { width: `${(100 * Math.max(ns, 0)) / most}%`, background: colour } });
    const rows = ordered.slice(0, 2000).map((step) => el("div", {
      class: "step-row", tabindex: "0", onclick: () => compare(step), ondblclick: () => R.timeline.zoomTo(step.row),
      onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter") compare(step); },
    },
    el("span", { class: "step-name" }, shown(step.name, 40)),
    el("span", { class: "step-bar" }, ...kinds.map((key) => step.parts.has(key)
      ? part(step.parts.get(key), R.base.sliceVariable(model.keys[key]), `${R.format.label(model.keys[key].name, 100)}: ${time(step.parts.get(key))}`) : null),
    part(step.length - kinds.reduce((sum, key) => sum + (step.parts.get(key) || 0), 0), "var(--faint)", "everything else")),
    el("span", { class: step.length > 1.5 * middle ? "step-time slow" : "step-time" }, time(step.length))));
    R.base.fill(box, el("p", { class: "legend" }, ...kinds.map((key) => el("span", null, el("span", { class: "swatch", css: { background: R.base.sliceVariable(model.keys[key]) } }), R.format.label(model.keys[key].name, 40)))),
      ...rows, communication());
  }

  /** A table of the time that each step communicated, and how much of it nothing was computed beside. */
  function communication() {
    const lines = model.head.communication;
    if (!lines.length) return null;
    const name = new Map(steps.map((step) => [step.row, step]));
    return el("div", null, el("h3", null, "Communication"),
      el("table", null, el("tr", null, el("th", { class: "text" }, "Step"), el("th", null, "Device"), el("th", null, "Communication"),
        el("th", null, "Beside computation"), el("th", null, "Exposed"), el("th", null, "Of the step")),
      ...lines.filter((/** @type {any} */ line) => name.has(line.row)).slice(0, 2000).map((/** @type {any} */ line) => {
        const step = name.get(line.row);
        return el("tr", { onclick: () => compare(step) }, el("td", { class: "text" }, shown(step.name, 40)), el("td", null, String(line.device)),
          el("td", null, time(line.comm_ns)), el("td", null, time(line.comm_ns - line.exposed_ns)), el("td", null, time(line.exposed_ns)),
          el("td", null, percent(line.exposed_ns / step.length)));
      })));
  }

  /** Show one step beside the median of each part over all steps. */
  function compare(/** @type {any} */ step) {
    if (!step) return;
    const keys = new Set();
    for (const each of steps) for (const key of each.parts.keys()) keys.add(key);
    const rows = [...keys].map((key) => {
      const usual = median(steps.map((each) => each.parts.get(key) || 0));
      return { key, own: step.parts.get(key) || 0, usual };
    }).sort((a, b) => Math.abs(b.own - b.usual) - Math.abs(a.own - a.usual)).slice(0, 30);
    const middle = median(steps.map((each) => each.length));
    const line = (/** @type {string} */ name, /** @type {number} */ own, /** @type {number} */ usual, /** @type {number} */ key) => el("tr", { onclick: key >= 0 ? () => R.state.selectKey(key) : null },
      el("td", { class: "text", title: shown(name) }, R.format.label(name, 60)), el("td", null, time(own)), el("td", null, time(usual)),
      el("td", { class: own > usual ? "worse" : "better" }, `${own >= usual ? "+" : "−"}${time(Math.abs(own - usual))}`));
    R.base.fill(side, el("h3", null, `${shown(step.name, 60)} beside the median step`),
      el("p", { class: "note" }, `${time(step.length)}; the median of ${steps.length} steps is ${time(middle)} (${percent(step.length / middle)})`),
      el("table", null, el("tr", null, el("th", { class: "text" }, "Part"), el("th", null, "This step"), el("th", null, "Median"), el("th", null, "Change")),
        ...rows.map(({ key, own, usual }) => line(model.keys[key].name, own, usual, key)), line("outside of its parts", step.rest, median(steps.map((each) => each.rest)), -1)),
      el("p", { class: "jumps" }, el("button", { onclick: () => R.timeline.zoomTo(step.row) }, "Timeline"),
        el("button", { onclick: () => R.state.set({ interval: [model.start[step.row], model.start[step.row] + step.length], view: "flame" }) }, "Flame graph of this step")));
  }

  return { start, find, steps: () => steps };
})();
