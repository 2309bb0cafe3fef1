// SPDX-License-Identifier: Apache-2.0
// table: averages by name, and by shape, stack, module or thread. The sorted and filtered table can be copied as shown.

R.table = (() => {
  const { el } = R.base;
  const { time, bytes, count, percent, shown } = R.format;
  const PAGE = 200; // rows in the document at first; each click on "more rows" adds five times as many

  /**
   * @typedef {{id: string, title: string, value: (group: any) => number | string, text: (group: any, sum: any) => string, wanted?: (groups: any[]) => boolean}} TableColumn
   */
  const times = (/** @type {string} */ id, /** @type {string} */ title, /** @type {(g: any) => number} */ value, wanted = (/** @type {any[]} */ _) => true) =>
    ({ id, title, value, text: (/** @type {any} */ group) => time(value(group)), wanted });
  const sizes = (/** @type {string} */ id, /** @type {string} */ title, /** @type {(g: any) => number} */ value) =>
    ({ id, title, value, text: (/** @type {any} */ group) => bytes(value(group)), wanted: (/** @type {any[]} */ groups) => groups.some((g) => value(g)) });
  /** @type {TableColumn[]} */
  const COLUMNS = [
    { id: "name", title: "Name", value: (g) => g.label, text: (g) => g.label },
    { id: "detail", title: "By", value: (g) => g.detail, text: (g) => g.detail, wanted: (groups) => groups.some((g) => g.detail) },
    { id: "share", title: "Self %", value: (g) => g.self, text: (g, sum) => percent(sum.self ? g.self / sum.self : 0) },
    times("self", "Self", (g) => g.self),
    times("total", "Total", (g) => g.total),
    { id: "count", title: "Calls", value: (g) => g.count, text: (g) => count(g.count) },
    times("mean", "Mean", (g) => (g.total || g.device) / g.count),
    times("least", "Min", (g) => g.least),
    times("most", "Max", (g) => g.most),
    times("selfDevice", "Self device", (g) => g.selfDevice, (groups) => groups.some((g) => g.selfDevice)),
    times("device", "Device", (g) => g.device, (groups) => groups.some((g) => g.device)),
    sizes("selfMemory", "Self memory", (g) => g.selfMemory),
    sizes("memory", "Memory", (g) => g.memory),
    { id: "flops", title: "FLOPs", value: (g) => g.flops, text: (g) => count(g.flops), wanted: (groups) => groups.some((g) => g.flops) },
  ];

  let model = /** @type {any} */ (null);
  let body = /** @type {any} */ (null);
  let foot = /** @type {any} */ (null);
  const choice = { by: "name", sort: "self", down: true, limit: PAGE };
  let groups = /** @type {any[]} */ ([]);
  let visible = /** @type {any[]} */ ([]);
  let stale = true;

  function start(/** @type {HTMLElement} */ parent, /** @type {any} */ of) {
    model = of;
    const form = R.controls.bar();
    const coded = new Set((model.head.blocks.values || []).map((/** @type {any} */ each) => each.name));
    const options = /** @type {Record<string, string>} */ ({ name: "name" });
    if (coded.has("input_shapes")) options.shape = "name and input shapes";
    if (model.head.stacks) options.stack = "name and stack";
    if (coded.has("module_hierarchy")) options.module = "name and module";
    if (model.lanes.filter((/** @type {any} */ lane) => lane.count).length > 1) options.thread = "name and thread";
    R.controls.select(form, "Average by", options, choice.by, (by) => { choice.by = by; update(); });
    R.controls.lane(form, model);
    if (model.hasCalls) R.controls.calls(form);
    form.append(
      el("button", { onclick: () => R.base.copy(asText()) }, "Copy as text"),
      el("button", { onclick: () => R.base.copy(asCsv()) }, "Copy as CSV"),
      el("button", { onclick: () => R.base.download("averages.csv", asCsv(), "text/csv") }, "Save CSV"));
    body = el("div", { class: "scrolled" });
    foot = el("p", { class: "note" });
    parent.append(form, body, foot);
    R.state.on((changed) => {
      if (["interval", "lane", "calls"].some((name) => changed.has(name))) stale = true;
      if (R.state.state.view !== "table") return;
      if (stale) update();
      else if (changed.has("query")) render();
      else if (changed.has("key") || changed.has("row")) mark();
    });
  }

  /** @returns {Promise<{of: (row: number) => number, label: (code: number) => string} | null>} the second criterion */
  async function split() {
    if (choice.by === "thread") return { of: (row) => model.laneOf(row), label: (lane) => model.lanes[lane].label };
    if (choice.by === "name") return null;
    const texts = await model.json("values");
    if (choice.by === "stack") {
      const { stack } = await model.block("stacks");
      return { of: (row) => stack[row], label: (code) => (code ? texts.stacks[code - 1].slice(0, 5).map((/** @type {number} */ f) => model.text(f)).join(" < ") : "") };
    }
    const name = choice.by === "shape" ? "input_shapes" : "module_hierarchy";
    const codes = (await model.block("values"))[name];
    const values = texts.columns.find((/** @type {any} */ column) => column.name === name).values;
    return { of: (row) => codes[row], label: (code) => (code ? values[code - 1] : "") };
  }

  async function update() {
    stale = false;
    groups = R.aggregate.groups(model, R.state.state, await split(), await model.block("numbers"));
    choice.limit = PAGE;
    render();
  }

  const columns = () => COLUMNS.filter((column) => !column.wanted || column.wanted(groups));

  function sorted() {
    const matches = R.state.matches();
    const kept = matches ? groups.filter((group) => matches[group.key]) : [...groups];
    const column = COLUMNS.find((each) => each.id === choice.sort) || COLUMNS[3];
    const sign = choice.down ? -1 : 1;
    return kept.sort((a, b) => {
      const [x, y] = [column.value(a), column.value(b)];
      return x === y ? (a.label < b.label ? -1 : 1) : sign * (x < y ? -1 : 1);
    });
  }

  const sums = () => groups.reduce((sum, group) => ({ self: sum.self + group.self, device: sum.device + group.selfDevice }), { self: 0, device: 0 });

  function render() {
    visible = sorted();
    const sum = sums();
    const most = Math.max(...groups.map((group) => group.self), 1);
    const head = el("tr", null, ...columns().map((column) => el("th", {
      scope: "col", class: column.id === "name" || column.id === "detail" ? "text" : null,
      "aria-sort": choice.sort !== column.id ? "none" : choice.down ? "descending" : "ascending",
    }, el("button", { onclick: () => sortBy(column.id) }, column.title, choice.sort === column.id ? (choice.down ? " ↓" : " ↑") : ""))));
    const rows = visible.slice(0, choice.limit).map((group) => el("tr", {
      "data-key": group.key, "data-row": group.row, tabindex: "0",
      onclick: () => R.state.selectKey(group.key), ondblclick: () => R.timeline.zoomTo(group.row),
      onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter") R.state.selectKey(group.key); },
    }, ...columns().map((column) => cell(column, group, sum, most))));
    R.base.fill(body, el("table", { class: "averages" }, el("thead", null, head), el("tbody", null, ...rows)));
    if (visible.length > choice.limit) {
      body.append(el("button", { onclick: () => { choice.limit += 5 * PAGE; render(); } }, `${count(visible.length - choice.limit)} more rows`));
    }
    foot.textContent = `${count(visible.length)} rows. Self time of all: ${time(sum.self)}${sum.device ? `, of devices: ${time(sum.device)}` : ""}. `
      + "Total counts a recursive function at each level. A click selects; a double click shows the longest call in the timeline.";
    mark();
  }

  function cell(/** @type {TableColumn} */ column, /** @type {any} */ group, /** @type {any} */ sum, /** @type {number} */ most) {
    const text = (column.id === "name" ? R.format.label : shown)(column.text(group, sum) || "", 160);
    if (column.id === "name") {
      return el("td", { class: "text", title: shown(group.label, 1000) },
        el("span", { class: "swatch", css: { background: R.base.sliceVariable(model.keys[group.key]) } }), text,
        model.keys[group.key].device ? el("span", { class: "tag" }, "device") : null);
    }
    if (column.id === "detail") return el("td", { class: "text", title: shown(group.detail, 1000) }, text === "(no name)" ? "" : text);
    if (column.id !== "share") return el("td", null, text);
    return el("td", { class: "bar" }, el("span", { css: { width: `${(100 * Math.max(group.self, 0)) / most}%` } }), el("b", null, text));
  }

  function sortBy(/** @type {string} */ id) {
    if (choice.sort === id) choice.down = !choice.down;
    else Object.assign(choice, { sort: id, down: id !== "name" && id !== "detail" });
    render();
  }

  function mark() {
    const { key } = R.state.state;
    for (const row of body.querySelectorAll("tr[data-key]")) row.classList.toggle("chosen", Number(row.dataset.key) === key);
  }

  function cells() {
    const sum = sums();
    return [columns().map((column) => column.title), ...visible.map((group) => columns().map((column) => column.text(group, sum)))];
  }

  function asText() {
    const lines = cells().map((line) => line.map((text) => shown(text, 80).replace("(no name)", "")));
    const widths = lines[0].map((_, i) => Math.max(...lines.map((line) => line[i].length)));
    return lines.map((line) => line.map((text, i) => (i ? text.padStart(widths[i]) : text.padEnd(widths[i]))).join("  ")).join("\n");
  }

  /** CSV with times in ns. A cell that a spreadsheet would read as a formula is prefixed with an apostrophe. */
  function asCsv() {
    const quote = (/** @type {string | number} */ value) => {
      const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const used = columns().filter((column) => column.id !== "share");
    const units = (/** @type {TableColumn} */ column) => (column.text({ label: "", detail: "", count: 1, self: 1, total: 1, least: 1, most: 1, device: 1, selfDevice: 1, memory: 1, selfMemory: 1, flops: 1 }, {}).endsWith(" ns") ? `${column.title} (ns)` : column.title);
    return [used.map(units), ...visible.map((group) => used.map((column) => column.value(group)))].map((line) => line.map(quote).join(",")).join("\r\n");
  }

  return { start, update, render, asText, asCsv, choice, groups: () => groups, visible: () => visible };
})();
