// SPDX-License-Identifier: Apache-2.0
// timeline: the timeline view: mouse and keyboard input, zooming, hit tests and tool tips. timeline_draw.js draws it.

R.timeline = (() => {
  const { el } = R.base;
  const { GUTTER, RULER } = R.lanes;
  const { time, shown } = R.format;
  let model = /** @type {any} */ (null);
  let layout = /** @type {any} */ (null);
  let canvas = /** @type {any} */ (null);
  let overview = /** @type {any} */ (null);
  let tip = /** @type {any} */ (null);
  const view = { begin: 0, end: 1, scroll: 0 };
  let drag = /** @type {any} */ (null);

  function start(/** @type {HTMLElement} */ parent, /** @type {any} */ of) {
    model = of;
    layout = R.lanes.layout(model);
    fit();
    const top = el("div", { class: "overview" });
    const box = el("div", { class: "canvas" });
    tip = el("div", { class: "tip", hidden: true });
    parent.append(top, box, tip, el("p", { class: "keys" }, R.base.legend(model), el("span", null,
      "drag pan · Ctrl+wheel or W S zoom · A D move · Shift+drag measure · double click zoom in · F fit selection · 0 all · Esc clear")));
    overview = R.overview.start(top, model, view, show);
    canvas = R.base.canvas(box, (context, width, height) => {
      clamp(height);
      keepScale(width);
      R.timelineDraw.draw(context, width, height, model, layout, view, drag?.interval || R.state.state.interval);
    }, "Timeline; the table has the same data as text");
    listen(canvas.element);
    R.state.on(() => redraw());
    R.lanes.readSignals(model).then(() => {
      layout = R.lanes.layout(model);
      redraw();
    });
  }

  function redraw() {
    canvas?.redraw();
    overview?.redraw();
  }

  function fit() {
    const margin = (model.end - model.begin) * 0.01;
    show(model.begin - margin, model.end + margin);
  }

  function show(/** @type {number} */ begin, /** @type {number} */ end) {
    const whole = (model.end - model.begin) * 1.04 + 10;
    const span = Math.min(Math.max(end - begin, 5), whole);
    const middle = (begin + end) / 2;
    view.begin = Math.min(Math.max(middle - span / 2, model.begin - whole * 0.05), model.end + whole * 0.05 - span);
    view.end = view.begin + span;
    redraw();
  }

  function clamp(/** @type {number} */ height) {
    view.scroll = Math.min(Math.max(view.scroll, 0), Math.max(layout.height + RULER - height, 0));
  }

  /** Keep the scale when the details panel opens or closes, so that both clicks of a double click hit the same slice. */
  let lastWidth = 0;
  function keepScale(/** @type {number} */ width) {
    if (lastWidth && width !== lastWidth) view.end = view.begin + ((view.end - view.begin) * (width - GUTTER)) / (lastWidth - GUTTER);
    lastWidth = width;
  }

  const timeAt = (/** @type {number} */ x) => view.begin + ((x - GUTTER) / (canvas.width - GUTTER)) * (view.end - view.begin);

  function zoom(/** @type {number} */ factor, /** @type {number} */ x) {
    const at = timeAt(Math.max(x, GUTTER));
    show(at - (at - view.begin) * factor, at + (view.end - at) * factor);
  }

  function pan(/** @type {number} */ share) {
    const by = (view.end - view.begin) * share;
    show(view.begin + by, view.end + by);
  }

  /** Show a row in the middle of the view and select it. */
  function zoomTo(/** @type {number} */ row) {
    R.state.set({ view: "timeline" });
    R.state.selectRow(row);
    const span = Math.max(model.length[row] * 1.3, 20);
    const middle = model.start[row] + model.length[row] / 2;
    show(middle - span / 2, middle + span / 2);
    const lane = model.laneOf(row);
    reveal(lane);
    const band = layout.bands.find((/** @type {any} */ each) => each.lane === lane);
    if (band) view.scroll = band.y + (R.model.lineOf(model, row) - band.first) * R.lanes.LINE - 120;
    redraw();
  }

  /** Select and show the next (step 1) or previous (-1) row that the search matches, or that has the selected name. */
  function find(/** @type {number} */ step) {
    const matches = R.state.matches();
    const { row, key } = R.state.state;
    if (!matches && key < 0) return;
    const first = row < 0 ? (step > 0 ? 0 : model.n - 1) : row + step;
    for (let n = 0, at = first; n < model.n; n++, at += step) {
      const each = (at + model.n) % model.n;
      if (matches ? !matches[model.rowKey[each]] : model.rowKey[each] !== key) continue;
      R.state.selectRow(each);
      bring(each);
      return;
    }
  }

  /** Expand the group of a lane. */
  function reveal(/** @type {number} */ lane) {
    R.lanes.reveal(model, lane);
    layout = R.lanes.layout(model);
  }

  /** Scroll to a row without changing the zoom. */
  function bring(/** @type {number} */ row) {
    const span = view.end - view.begin;
    const middle = model.start[row] + Math.min(model.length[row], span) / 2;
    if (model.start[row] < view.begin || model.start[row] > view.end) show(middle - span / 2, middle + span / 2);
    reveal(model.laneOf(row));
    const band = layout.bands.find((/** @type {any} */ each) => each.lane === model.laneOf(row));
    if (!band) return;
    const y = band.y + (R.model.lineOf(model, row) - band.first) * R.lanes.LINE;
    if (y < view.scroll || y > view.scroll + canvas.height - 2 * RULER) view.scroll = y - 120;
    redraw();
  }

  // ---- hit tests ------------------------------------------------------------------------------------------------------

  function bandAt(/** @type {number} */ y) {
    const inside = y - RULER + view.scroll;
    return y < RULER ? null : layout.bands.find((/** @type {any} */ b) => inside >= b.y && inside < b.y + b.height) || null;
  }

  /** @returns {number} the row under a point, -1 for none */
  function rowAt(/** @type {number} */ x, /** @type {number} */ y) {
    const band = bandAt(y);
    if (!band || band.type !== "lane" || x < GUTTER) return -1;
    const line = band.first + Math.floor((y - RULER + view.scroll - band.y - 3) / R.lanes.LINE);
    const lane = model.lanes[band.lane];
    if (line < band.first || line >= Math.min(band.first + band.lines, lane.levels.length)) return -1;
    const rows = lane.levels[line];
    const slack = (2 * (view.end - view.begin)) / canvas.width; // two pixels
    const t = timeAt(x);
    let best = -1;
    for (let i = R.timelineDraw.firstAfter(rows, model.start, t + slack) - 1, n = 0; i >= 0 && n < 64; i--, n++) {
      const row = rows[i];
      if (model.start[row] + model.length[row] >= t - slack && (best < 0 || model.length[row] > model.length[best])) best = row;
      if (!lane.reach[line] && model.start[row] < t - slack) break;
    }
    return best;
  }

  function markAt(/** @type {number} */ x, /** @type {number} */ y) {
    const { marks } = R.lanes.signals();
    const band = bandAt(y);
    if (!marks || !band || band.type !== "lane") return -1;
    const slack = (5 * (view.end - view.begin)) / canvas.width;
    const t = timeAt(x);
    for (let i = 0; i < marks.time.length; i++) {
      if (marks.lane[i] === band.lane && Math.abs(marks.time[i] - t) < slack) return i;
    }
    return -1;
  }

  // ---- input ----------------------------------------------------------------------------------------------------------

  function listen(/** @type {HTMLCanvasElement} */ element) {
    element.addEventListener("wheel", onWheel, { passive: false });
    element.addEventListener("pointerdown", onDown);
    element.addEventListener("pointermove", onMove);
    element.addEventListener("pointerup", onUp);
    element.addEventListener("pointerleave", () => { tip.hidden = true; });
    element.addEventListener("dblclick", (event) => {
      const row = rowAt(event.offsetX, event.offsetY);
      if (row >= 0) zoomTo(row);
    });
  }

  function onWheel(/** @type {WheelEvent} */ event) {
    event.preventDefault();
    tip.hidden = true;
    if (event.ctrlKey || event.metaKey) return zoom(Math.exp(Math.max(-240, Math.min(240, event.deltaY)) / 240), event.offsetX);
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return pan((event.deltaX || event.deltaY) / canvas.width);
    if (layout.height + RULER <= canvas.height) return zoom(Math.exp(Math.max(-240, Math.min(240, event.deltaY)) / 400), event.offsetX);
    view.scroll += event.deltaY;
    return redraw();
  }

  function onDown(/** @type {PointerEvent} */ event) {
    const { offsetX: x, offsetY: y } = event;
    canvas.element.setPointerCapture(event.pointerId);
    drag = { x, y, begin: view.begin, end: view.end, scroll: view.scroll, from: timeAt(x), moved: false, measures: event.shiftKey || y < RULER };
  }

  function onMove(/** @type {PointerEvent} */ event) {
    const { offsetX: x, offsetY: y } = event;
    if (!drag) return hover(x, y);
    if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < 4) return undefined;
    drag.moved = true;
    if (drag.measures) {
      const to = timeAt(x);
      // Only set in the state at the end of the drag: the details panel that it opens makes the canvas narrower.
      drag.interval = to > drag.from ? [drag.from, to] : [to, drag.from];
      return redraw();
    }
    const by = ((drag.x - x) / (canvas.width - GUTTER)) * (drag.end - drag.begin);
    view.scroll = drag.scroll + drag.y - y;
    return show(drag.begin + by, drag.end + by);
  }

  function onUp(/** @type {PointerEvent} */ event) {
    const { offsetX: x, offsetY: y } = event;
    const ended = drag;
    drag = null;
    if (ended?.interval) R.state.set({ interval: ended.interval });
    if (!ended || ended.moved) return;
    const band = bandAt(y);
    if (band && (band.type === "process" || band.type === "group" || (band.type === "lane" && x < GUTTER))) {
      R.lanes.toggle(band.id);
      layout = R.lanes.layout(model);
      redraw();
      return;
    }
    const mark = markAt(x, y);
    const row = rowAt(x, y);
    if (row < 0 && mark >= 0 && model.siteKey[R.lanes.signals().marks.site[mark]] >= 0) {
      R.state.selectKey(model.siteKey[R.lanes.signals().marks.site[mark]]);
    } else R.state.selectRow(row);
  }

  async function hover(/** @type {number} */ x, /** @type {number} */ y) {
    const row = rowAt(x, y);
    const mark = row < 0 ? markAt(x, y) : -1;
    const band = bandAt(y);
    tip.hidden = true;
    let lines = /** @type {string[]} */ ([]);
    if (row >= 0) {
      lines = [shown(model.siteName(row)), `${time(model.length[row])} · self ${time(model.self[row])} · at ${time(model.start[row])}`];
    } else if (mark >= 0) {
      const { marks } = R.lanes.signals();
      const name = model.text(model.head.sites.name[marks.site[mark]]);
      const texts = await model.json("values");
      lines = [shown(name), `mark at ${time(marks.time[mark])}`, shown((texts?.marks || {})[`${marks.time[mark]} ${name}`] || "", 500)];
    } else if (band?.series && x >= GUTTER) {
      const at = R.chart.below(band.series.time, timeAt(x)) - 1;
      const value = at >= 0 ? band.series.value[at] : 0;
      lines = [shown(band.label), band.type === "memory" ? R.format.bytes(value) : String(value)];
    } else if (band && x < GUTTER) lines = [shown(band.label)];
    if (!lines.length) return;
    R.base.fill(tip, ...lines.filter((line) => line && line !== "(no name)").map((line) => el("div", null, line)));
    tip.hidden = false;
    const box = canvas.element.getBoundingClientRect();
    tip.style.left = `${Math.min(box.left + x + 14, window.innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(box.top + y + 16, window.innerHeight - tip.offsetHeight - 8)}px`;
  }

  /** @returns {boolean} whether the timeline handled the key */
  function onKey(/** @type {KeyboardEvent} */ event) {
    const { row } = R.state.state;
    const middle = (GUTTER + canvas.width) / 2;
    /** @type {Record<string, () => void>} */
    const keys = {
      w: () => zoom(0.7, middle), s: () => zoom(1 / 0.7, middle), a: () => pan(-0.2), d: () => pan(0.2),
      "+": () => zoom(0.7, middle), "-": () => zoom(1 / 0.7, middle), ArrowLeft: () => pan(-0.1), ArrowRight: () => pan(0.1),
      ArrowUp: () => { view.scroll -= 60; redraw(); }, ArrowDown: () => { view.scroll += 60; redraw(); },
      0: fit, Home: fit, n: () => find(1), p: () => find(-1), o: () => { R.lanes.toggleOuter(); layout = R.lanes.layout(model); redraw(); }, f: () => { if (row >= 0) zoomTo(row); },
      m: () => { if (row >= 0) R.state.set({ interval: [model.start[row], model.start[row] + model.length[row]] }); },
    };
    const action = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    action?.();
    return Boolean(action);
  }

  return { start, redraw, zoomTo, find, onKey, fit, show, view, rowAt, canvas: () => canvas, layout: () => layout };
})();
