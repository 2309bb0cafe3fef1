// SPDX-License-Identifier: Apache-2.0
// source: source files with lines coloured by time or memory, and links to callers, callees and the flame graph.

R.source = (() => {
  const { el } = R.base;
  const { time, percent, shown, count, bytes } = R.format;
  let model = /** @type {any} */ (null);
  let list = /** @type {any} */ (null);
  let page = /** @type {any} */ (null);
  let side = /** @type {any} */ (null);
  let files = /** @type {Map<string, any> | null} */ (null);
  let texts = /** @type {Record<string, string>} */ ({});
  let measure = "time";
  let current = { file: "", line: 0 };

  function start(/** @type {HTMLElement} */ parent, /** @type {any} */ of) {
    model = of;
    list = el("div", { class: "files" });
    if ((model.head.blocks.numbers || []).some((/** @type {any} */ c) => c.name === "self_cpu_memory_usage")) {
      const form = R.controls.bar();
      R.controls.select(form, "Lines by", { time: "time", memory: "memory allocated" }, measure, (value) => { measure = value; update(); });
      parent.append(form);
    }
    page = el("div", { class: "code", tabindex: "0" });
    side = el("div", { class: "neighbours", hidden: true });
    parent.append(el("div", { class: "source" }, list, page, side));
    R.state.on((changed) => {
      if (["interval", "lane", "calls"].some((name) => changed.has(name))) files = null;
      if (R.state.state.view === "source" && (!files || changed.has("view"))) update();
    });
  }

  const ownOf = (/** @type {any} */ of) => (measure === "memory" ? of.memory : of.self);
  const own = (/** @type {any} */ of) => (measure === "memory" ? bytes(of.memory).replace(/^\+/, "") : time(of.self));
  const weight = (/** @type {any} */ line) => (measure === "memory" ? line.memory : Math.max(line.self, line.total));

  async function update() {
    if (!files) {
      const found = await R.sourceLines.compute(model, R.state.state);
      texts = (await model.json("sources")) || {};
      files = found;
    }
    const known = /** @type {Map<string, any>} */ (files);
    const sorted = [...known.values()].sort((a, b) => Number(b.own) - Number(a.own) || ownOf(b) - ownOf(a));
    if (!known.has(current.file) && !(current.file in texts)) current = { file: sorted.length ? sorted[0].file : "", line: 0 };
    const whole = sorted.reduce((sum, file) => sum + ownOf(file), 0) || 1;
    R.base.fill(list, ...sorted.slice(0, 400).map((file) => el("button", {
      class: file.file === current.file ? "file chosen" : "file", title: shown(file.file, 1000), onclick: () => open(file.file, 0),
    }, el("span", null, shown(R.format.baseName(file.file), 60)), el("b", null, percent(ownOf(file) / whole)), el("i", { css: { width: `${(100 * ownOf(file)) / whole}%` } }))));
    if (!sorted.length) {
      R.base.fill(page, el("p", { class: "note padded" }, "No range or call of this profile has a place in the source. "
        + "Record stacks (with_stack=True) or calls (python_calls=True, fastprof run --calls)."));
      return;
    }
    showFile(whole);
  }

  function showFile(/** @type {number} */ whole) {
    const of = /** @type {Map<string, any>} */ (files).get(current.file) || { lines: new Map(), self: 0, memory: 0 };
    const text = texts[current.file];
    const most = Math.max(1, ...[...of.lines.values()].map(weight));
    const lines = text === undefined ? null : text.split(/\r\n|\n|\r/);
    const numbers = lines ? lines.map((_, i) => i + 1) : [...of.lines.keys()].sort((a, b) => a - b);
    const table = el("table", { class: "lines" }, el("tr", { class: "heads" }, el("td", null, measure === "memory" ? "allocated" : "self"), el("td", null, "total"), el("td", { class: "number" }, "line"), el("td", null)));
    for (const number of numbers) {
      const line = of.lines.get(number);
      const key = line && line.keys.size ? [...line.keys][0] : -1;
      const share = line ? weight(line) / most : 0;
      table.append(el("tr", {
        class: number === current.line ? "chosen" : null, "data-line": number,
        onclick: line ? () => choose(number, key) : null,
      },
      el("td", null, line && ownOf(line) > 0 ? own(line) : ""), el("td", null, line && line.total > 0 ? time(line.total) : ""),
      el("td", { class: "number" }, number),
      el("td", { class: "text", css: line ? { background: `color-mix(in srgb, var(--heat) ${Math.round(8 + 52 * share)}%, transparent)` } : {} },
        lines ? R.format.sourceLine(lines[number - 1]) : shown([...(line ? line.keys : [])].map((each) => model.keys[each].name).join(", ") || "(called from here)", 200))));
    }
    R.base.fill(page, el("div", { class: "path" }, shown(current.file, 400), " ", el("span", { class: "note" }, `${own(of)} ${measure === "memory" ? "allocated" : "self"}, ${percent(ownOf(of) / whole)} of the ${measure} that has a place in the source`),
      lines ? null : el("p", { class: "note" }, "The text of this file is not in the report, so only lines with time are listed.")),
    table);
    const hottest = [...of.lines].sort((a, b) => ownOf(b[1]) - ownOf(a[1]))[0];
    const target = current.line || (hottest ? hottest[0] : 0);
    const row = target ? table.querySelector(`tr[data-line="${Number(target)}"]`) : null;
    if (row) page.scrollTop = Math.max(0, row.offsetTop - page.clientHeight / 3);
  }

  function choose(/** @type {number} */ number, /** @type {number} */ key) {
    current.line = number;
    for (const row of page.querySelectorAll("tr[data-line]")) row.classList.toggle("chosen", Number(row.dataset.line) === number);
    side.hidden = key < 0;
    if (key < 0) return;
    R.state.selectKey(key);
    const { callers, callees } = R.sourceLines.neighbours(model, key);
    const part = (/** @type {string} */ title, /** @type {any[]} */ entries) => el("section", null, el("h4", null, title),
      entries.length ? el("ul", null, ...entries.map(([of, [ns, calls]]) => el("li", null,
        of < 0 ? "the thread's begin" : el("button", { class: "link", onclick: () => openKey(of) }, R.format.label(model.keys[of].name, 100)), ` ${time(ns)}, ${count(calls)}×`)))
        : el("p", { class: "note" }, "none"));
    R.base.fill(side, el("h3", null, R.format.label(model.keys[key].name, 200)), part("Called by", callers), part("Calls", callees),
      el("button", { onclick: () => R.state.set({ view: "flame" }) }, "Flame graph"));
  }

  /** Select a key and open the place where it is defined, if it has one. */
  function openKey(/** @type {number} */ key) {
    const of = model.keys[key];
    const frame = R.format.frame(of.name);
    R.state.selectKey(key);
    if (of.file && of.line) open(of.file, of.line);
    else if (frame) open(frame.file, frame.line);
  }

  /** Show a file at a line; 0: the line with the most time. */
  function open(/** @type {string} */ file, /** @type {number} */ line) {
    current = { file, line };
    side.hidden = true;
    if (R.state.state.view === "source") update();
    else R.state.set({ view: "source" });
  }

  return { start, open, update, files: () => files };
})();
