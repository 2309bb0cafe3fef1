// SPDX-License-Identifier: Apache-2.0
// details: the panel on the selected row or name. Arguments and stacks are decoded when a row is first selected.

R.details = (() => {
  const { el, fill } = R.base;
  const { time, bytes, count, shown, percent } = R.format;
  let panel = /** @type {any} */ (null);
  let model = /** @type {any} */ (null);
  let token = 0;

  function start(/** @type {HTMLElement} */ parent, /** @type {any} */ of) {
    panel = parent;
    model = of;
    R.state.on((changed) => {
      if (changed.has("row") || changed.has("key") || changed.has("interval")) show();
    });
    show();
  }

  /** Show the selection. Discards its result if the selection has changed while data were decoded. */
  async function show() {
    const { row, key, interval } = R.state.state;
    const own = ++token;
    panel.hidden = row < 0 && key < 0 && !interval;
    panel.parentElement?.classList.toggle("with-details", !panel.hidden); // keeps the width of the controls
    if (panel.hidden) return;
    const parts = [];
    if (interval) parts.push(intervalPart(interval));
    if (row >= 0) parts.push(...(await rowParts(row)));
    else if (key >= 0) parts.push(...keyParts(key));
    if (own !== token) return;
    fill(panel, el("button", { class: "close", title: "Close (Esc)", onclick: clear }, "×"), ...parts);
  }

  const clear = () => R.state.set({ row: -1, key: -1, interval: null });

  function intervalPart(/** @type {[number, number]} */ [begin, end]) {
    return el("section", null,
      el("h3", null, "Measured interval"),
      facts([["from", time(begin)], ["to", time(end)], ["length", time(end - begin)]]),
      el("p", { class: "note" }, "The table, the flame graph and the source view show only the time inside it."),
      el("button", { onclick: () => R.state.set({ interval: null }) }, "Clear the interval"));
  }

  function facts(/** @type {[string, any][]} */ pairs) {
    const list = el("dl", null);
    for (const [label, value] of pairs) {
      if (value === null || value === undefined || value === "") continue;
      list.append(el("dt", null, label), el("dd", null, value instanceof Node ? value : shown(String(value), 4200)));
    }
    return list;
  }

  async function rowParts(/** @type {number} */ row) {
    const [numbers, values, texts, stacks] = await Promise.all([
      model.block("numbers"), model.block("values"), model.json("values"), model.block("stacks")]);
    const lane = model.lanes[model.laneOf(row)];
    const key = model.keyOf(row);
    const flags = model.flags[row];
    const own = numbers || {};
    const read = (/** @type {string} */ name) => (own[name] ? own[name][row] : null);
    /** @type {[string, any][]} */
    const pairs = [
      ["begin", R.format.tick(model.start[row], Math.max(1, Math.min(model.length[row] / 10, 1e6)))],
      ["length", time(model.length[row])],
      ["self", lane.kind === "thread" ? `${time(model.self[row])} (${percent(model.self[row] / model.length[row])})` : null],
      ["on", `${lane.label}, pid ${lane.pid}`],
      ["category", key.category],
      ["defined at", key.file ? placeLink(key.file, key.line) : null],
      ["memory", memoryText(read("cpu_memory_usage"), read("self_cpu_memory_usage"))],
      ["device memory", memoryText(read("device_memory_usage"), read("self_device_memory_usage"))],
      ["device time", read("device_ns") ? time(read("device_ns")) : null],
      ["FLOPs", read("flops") ? count(read("flops")) : null],
      ["sequence number", positive(read("sequence_nr"))],
      ["state", [flags & 1 ? "unfinished: counted up to the end" : "", flags & 2 ? "ended on another thread" : "",
        flags & 4 ? "was on the stack before the start" : ""].filter(Boolean).join(", ")],
    ];
    for (const column of (texts && texts.columns) || []) {
      const code = values[column.name][row];
      if (code) pairs.push([column.label, column.values[code - 1]]);
    }
    const parts = [
      el("h3", { class: "name" }, swatch(key), ...broken(shown(model.siteName(row), 500))), facts(pairs), jumps(row, model.rowKey[row])];
    const code = stacks ? stacks.stack[row] : 0;
    if (code) parts.push(stackPart(texts.stacks[code - 1]));
    return parts;
  }

  const positive = (/** @type {number | null} */ value) => (value !== null && value >= 0 ? value : null);
  const memoryText = (/** @type {number | null} */ all, /** @type {number | null} */ self) =>
    all || self ? `${bytes(all || 0)} (self ${bytes(self || 0)})` : null;
  const swatch = (/** @type {any} */ key) => el("span", { class: "swatch", css: { background: R.base.sliceVariable(key) } });

  /** A text that may be broken after the parts of a path or a qualified name. */
  const broken = (/** @type {string} */ text) => text.split(/(?<=[/:_])|(?<=\.)(?!pyx?\()/).flatMap((part) => [part, el("wbr")]);

  function placeLink(/** @type {string} */ file, /** @type {number} */ line) {
    return el("button", { class: "link", onclick: () => R.source.open(file, line) }, shown(line ? `${file}:${line}` : file));
  }

  function stackPart(/** @type {number[]} */ frames) {
    const list = el("ol", { class: "stack" });
    for (const frame of frames) {
      const text = model.text(frame);
      const place = R.format.frame(text);
      list.append(el("li", null, place ? placeLink(place.file, place.line) : null, place ? ` ${shown(place.name)}` : shown(text)));
    }
    return el("section", null, el("h4", null, "Python stack, innermost first"), list);
  }

  /** Buttons that show the selection in other views. */
  function jumps(/** @type {number} */ row, /** @type {number} */ key) {
    const go = (/** @type {string} */ view) => () => R.state.set({ view });
    const parent = row >= 0 ? model.parent[row] : -1;
    return el("p", { class: "jumps" },
      row >= 0 ? el("button", { onclick: () => R.timeline.zoomTo(row) }, "Zoom to it (F)") : null,
      parent >= 0 ? el("button", { onclick: () => R.state.selectRow(parent) }, "Caller") : null,
      row >= 0 ? el("button", { onclick: () => R.state.set({ interval: [model.start[row], model.start[row] + model.length[row]] }) }, "Measure (M)") : null,
      el("button", { onclick: go("flame") }, "Flame graph"),
      el("button", { onclick: go("table") }, "Table"),
      el("button", { onclick: () => R.state.set({ query: `/^${model.keys[key].name.slice(0, 300).replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")}$/` }) }, "Search this name"));
  }

  function keyParts(/** @type {number} */ key) {
    let [calls, total, self, most, longest] = [0, 0, 0, -1, -1];
    const { rowKey, length } = model;
    for (let row = 0; row < model.n; row++) {
      if (rowKey[row] !== key) continue;
      calls += 1;
      total += length[row];
      self += model.self[row];
      if (length[row] > most) [most, longest] = [length[row], row];
    }
    const of = model.keys[key];
    return [
      el("h3", { class: "name" }, swatch(of), ...broken(shown(of.name, 500))),
      facts([
        ["calls", count(calls)], ["total", time(total)], ["self", time(self)], ["mean", time(total / calls)],
        ["longest", el("button", { class: "link", onclick: () => R.timeline.zoomTo(longest) }, `${time(most)}, show it`)],
        ["category", of.category], ["defined at", of.file ? placeLink(of.file, of.line) : null],
      ]),
      jumps(-1, key)];
  }

  return { start, placeLink };
})();
