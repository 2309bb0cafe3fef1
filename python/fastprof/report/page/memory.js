// SPDX-License-Identifier: Apache-2.0
// memory: memory in use over time, and at the peak (or a chosen time) by the range that allocated it.

R.memory = (() => {
  const { el } = R.base;
  const { bytes, time, tick, tickStep, count, percent, shown } = R.format;
  let model = /** @type {any} */ (null);

  function start(/** @type {HTMLElement} */ parent, /** @type {any} */ of) {
    model = of;
    const scrolled = el("div", { class: "scrolled padded" });
    parent.append(scrolled);
    R.lanes.readSignals(model).then((/** @type {any} */ { memory }) => {
      if (model.head.memory_missing) scrolled.append(el("section", { class: "box warning" }, el("p", null, shown(model.head.memory_missing, 600))));
      if (model.head.failures.length) scrolled.append(failures());
      for (const device of memory) scrolled.append(section(device));
    });
  }

  /** @returns {number} the index of the record after which memory in use was at its maximum */
  function peakOf(/** @type {any} */ device) {
    let peak = -1;
    let most = 0;
    device.held.forEach((/** @type {number} */ held, /** @type {number} */ i) => { if (held > most) [most, peak] = [held, i]; });
    return peak;
  }

  /**
   * Memory in use after record `at`, by key of the allocating row (-1: outside of any range). A free whose allocation
   * was not recorded counts against `before`.
   */
  function heldBy(/** @type {any} */ device, /** @type {number} */ at) {
    const { bytes: sizes, pointer, row, allocated } = device.columns;
    const sampled = device.device.includes("(sampled)"); // the sizes are scaled; `allocated` is the block's own
    const live = new Map();
    const kept = []; // blocks at whose address another one was allocated: their free was not recorded
    let before = 0;
    for (let i = 0; i <= at; i++) {
      if (!pointer[i]) { // no address: only sums are known
        before += sizes[i];
      } else if (sizes[i] >= 0) {
        if (live.has(pointer[i])) kept.push(live.get(pointer[i]));
        live.set(pointer[i], [row[i] - 1, sizes[i], sampled ? allocated[i] : sizes[i]]);
      } else if (!live.delete(pointer[i])) before += sizes[i];
    }
    const groups = new Map();
    for (const [owner, size, own] of [...live.values(), ...kept]) {
      const key = owner >= 0 ? model.rowKey[owner] : -1;
      const found = groups.get(key) || { key, size: 0, blocks: 0, row: owner, largest: 0 };
      found.size += size;
      found.blocks += own ? size / own : 1;
      if (own > found.largest) [found.largest, found.row] = [own, owner];
      groups.set(key, found);
    }
    return { groups: [...groups.values()].sort((a, b) => b.size - a.size), before };
  }

  function section(/** @type {any} */ device) {
    const peak = peakOf(device);
    const box = el("div", { class: "canvas memory" });
    const made = el("section", { class: "memory" }, el("h2", null, `Memory of ${shown(device.device)}`), box);
    const { series } = device;
    const area = { begin: model.begin, end: model.end };
    const GAP = 74;
    const canvas = R.base.canvas(box, (context, width, height) => {
      context.fillStyle = R.base.colour("canvas");
      context.fillRect(0, 0, width, height);
      axes(context, series, area, width, height, GAP);
      R.chart.draw(context, series, { x: GAP, y: 10, width: width - GAP - 8, height: height - 34, ...area }, R.base.colour("memory"), R.base.colour("memory-area"));
      if (peak < 0) return;
      const x = GAP + ((device.columns.time[peak] - area.begin) / (area.end - area.begin)) * (width - GAP - 8);
      context.fillStyle = R.base.colour("accent");
      context.fillRect(x, 10, 1, height - 34);
      const label = `peak ${bytes(device.held[peak])}`;
      const left = Math.min(x + 6, width - 130);
      context.fillStyle = R.base.colour("panel"); // a dense curve would hide the text
      context.fillRect(left - 3, 10, context.measureText(label).width + 6, 16);
      context.fillStyle = R.base.colour("accent");
      context.fillText(label, left, 18);
    }, "Memory over time");
    R.state.on(() => canvas.redraw());
    const held = el("div", null);
    const show = (/** @type {number} */ at, /** @type {string} */ title) => R.base.fill(held, ...explained(device, at, title));
    canvas.element.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      const t = area.begin + ((event.offsetX - GAP) / (canvas.width - GAP - 8)) * (area.end - area.begin);
      const at = Math.max(R.chart.below(series.time, t) - 1, 0);
      show(at, `At ${time(series.time[at])}`);
    });
    made.append(el("p", { class: "note" }, "Click the curve to see which memory was in use at that time."), held);
    if (peak >= 0) show(peak, `At the peak, ${time(series.time[peak])}`);
    const known = model.head.memory.find((/** @type {any} */ one) => one.device === device.device);
    if (known && known.growth && known.growth.length) made.append(growing(known.growth));
    if (known && known.sums) made.append(sums(known.sums));
    if (known && known.peak) made.append(...byCategory(known.peak));
    if (known && known.temporaries && known.temporaries.length) made.append(...temporaries(known.temporaries));
    return made;
  }

  const text = (/** @type {number} */ number) => model.head.strings[number];
  const head = (/** @type {string[]} */ texts, /** @type {string[]} */ numbers) => el("tr", null,
    ...texts.map((title) => el("th", { class: "text" }, title)), ...numbers.map((title) => el("th", null, title)));
  const exact = (/** @type {number} */ size) => size.toLocaleString("en");

  /** @returns {string} " ± 1.2 MB" for the peak of a sampled device, else "" */
  function error(/** @type {number[]} */ most) {
    return most && most[2] ? ` ± ${bytes(most[2])}` : "";
  }

  function growing(/** @type {string[]} */ lines) {
    return el("section", { class: "box warning" }, el("h3", null, "Memory that grows"), el("ul", null, ...lines.map((line) => el("li", null, shown(line, 600)))));
  }

  /** A line with the sums of allocations and frees, to the byte. */
  function sums(/** @type {any} */ of) {
    const line = `In use at the begin ${exact(of.in_use_at_begin)} + allocated ${exact(of.allocated)} − freed ${exact(of.freed)} = ${exact(of.in_use_at_end)} bytes in use at the end.`;
    const wrong = of.difference ? ` The records disagree by ${exact(of.difference)} bytes.` : "";
    const lost = of.lost_frees ? ` The frees of ${count(of.lost_frees)} blocks were not recorded.` : "";
    const sampled = of.allocated_error ? ` A sample, scaled to all blocks: standard errors ${exact(of.allocated_error)} bytes of allocated, ${exact(of.in_use_at_end_error)} of in use at the end.` : "";
    return el("p", { class: "sums" }, line + sampled + wrong + lost);
  }

  /** A table of the temporaries with the largest products of size and lifetime. */
  function temporaries(/** @type {any[]} */ of) {
    const rows = of.map(([ranges, frame, size, life]) => el("tr", null,
      el("td", { class: "text" }, R.format.label(text(ranges), 160)), el("td", { class: "text" }, R.format.label(text(frame), 120)),
      el("td", null, bytes(size)), el("td", null, time(life))));
    return [el("h3", null, "Longest-lived temporaries, by size times lifetime"),
      el("table", { class: "averages temporaries" }, head(["Allocated in", "Stack"], ["Size", "Lifetime"]), ...rows)];
  }

  /** A table of the allocations that failed. */
  function failures() {
    const rows = model.head.failures.map((/** @type {number[]} */ [device, ranges, frame, size, at]) => el("tr", null,
      el("td", { class: "text" }, shown(text(device))), el("td", { class: "text" }, R.format.label(text(ranges), 160)),
      el("td", { class: "text" }, R.format.label(text(frame), 120)), el("td", null, bytes(size)), el("td", null, time(at))));
    return el("section", { class: "box warning failures" }, el("h2", null, "Out of memory"),
      el("table", { class: "averages" }, head(["Device", "Requested in", "Stack"], ["Requested", "At"]), ...rows));
  }

  /** Tables of a peak's parts: bytes by category, and by category and place of allocation. */
  function byCategory(/** @type {any} */ peak) {
    const whole = peak.total || 1;
    const most = Math.max(1, ...peak.categories.map((/** @type {number[]} */ [, size]) => size));
    const categories = peak.categories.map((/** @type {number[]} */ [name, size]) => el("tr", null,
      el("td", { class: "text" }, text(name)), el("td", null, bytes(size)),
      el("td", { class: "bar" }, el("span", { css: { width: `${(100 * size) / most}%` } }), el("b", null, percent(size / whole)))));
    const parts = peak.parts.map((/** @type {number[]} */ [name, ranges, frame, size, blocks]) => el("tr", null,
      el("td", { class: "text" }, text(name)), el("td", { class: "text" }, R.format.label(text(ranges), 160)),
      el("td", { class: "text" }, R.format.label(text(frame), 120)), el("td", null, bytes(size)), el("td", null, count(blocks))));
    return [el("h3", null, `The peak by category: ${bytes(peak.total)} at ${time(peak.time)}, including memory allocated before the recording`),
      el("table", { class: "averages categories" }, el("tr", null, el("th", { class: "text" }, "Category"), el("th", null, "Held"), el("th", null, "Share")), ...categories),
      el("table", { class: "averages categories" }, el("tr", null, ...["Category", "Allocated in", "Stack"].map((title) => el("th", { class: "text" }, title)), el("th", null, "Held"), el("th", null, "Blocks")), ...parts)];
  }

  function axes(/** @type {CanvasRenderingContext2D} */ context, /** @type {any} */ series, /** @type {any} */ area, /** @type {number} */ width, /** @type {number} */ height, /** @type {number} */ gap) {
    const low = Math.min(series.least, 0);
    const high = Math.max(series.most, low + 1e-12);
    const [right, bottom] = [width - gap - 8, height - 34];
    const sizes = 2 ** Math.ceil(Math.log2(Math.max(high - low, 4) / 5)); // three to six lines, at round numbers of KiB or MiB
    for (let value = Math.ceil(low / sizes) * sizes; value <= high; value += sizes) {
      const y = 10 + (bottom * (high - value)) / (high - low);
      context.fillStyle = R.base.colour("muted");
      context.fillText(bytes(value), 4, y);
      context.fillStyle = R.base.colour("grid");
      context.fillRect(gap, y, right, 1);
    }
    context.fillStyle = R.base.colour("muted");
    const step = tickStep(Math.max(((area.end - area.begin) * 110) / right, 1));
    for (let t = Math.ceil(area.begin / step) * step; t <= area.end; t += step) {
      const x = gap + (right * (t - area.begin)) / (area.end - area.begin);
      context.fillText(tick(t, step), Math.min(x, width - 70), height - 10);
    }
  }

  function explained(/** @type {any} */ device, /** @type {number} */ at, /** @type {string} */ title) {
    const { groups, before: unmatched } = heldBy(device, at);
    // Frees of earlier memory count against what was in use at the begin.
    const before = Math.max(unmatched + (device.before || 0), 0);
    const whole = device.held[at] || 1;
    const rows = groups.slice(0, 40).map((group) => el("tr", { onclick: () => (group.row >= 0 ? R.state.selectRow(group.row) : null) },
      el("td", { class: "text" }, group.key >= 0 ? R.format.label(model.keys[group.key].name, 120) : "outside of any range"),
      el("td", null, bytes(group.size)), el("td", { class: "bar" }, el("span", { css: { width: `${(100 * group.size) / groups[0].size}%` } }), el("b", null, percent(group.size / whole))),
      el("td", null, count(Math.round(group.blocks))), el("td", null, bytes(group.largest))));
    return [el("h3", null, `${title}: ${bytes(device.held[at])} held`),
      el("table", { class: "averages" }, el("tr", null, el("th", { class: "text" }, "Allocated in"), el("th", null, "Held"), el("th", null, "Share"), el("th", null, "Blocks"), el("th", null, "Largest")), ...rows),
      before ? el("p", { class: "note" }, `${bytes(before)} of it were allocated before the recording, or reported without an address.`) : null].filter(Boolean);
  }

  return { start, peakOf, heldBy, error };
})();
