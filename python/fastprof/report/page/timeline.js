// SPDX-License-Identifier: Apache-2.0
// timeline: the view with the canvas: what mouse and keyboard do, the overview above it, hits and tool tips.

R.timeline = (() => {
  const { el } = R.base;
  const { GUTTER, RULER } = R.timelineDraw;
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
    parent.append(top, box, tip, el("p", { class: "keys" },
      "drag pan · Ctrl+wheel or W S zoom · A D move · Shift+drag measure · double click zoom in · F fit selection · 0 all · Esc clear"));
    overview = R.base.canvas(top, drawOverview, "Overview of the whole recording");
    canvas = R.base.canvas(box, (context, width, height) => {
      clamp(height);
      R.timelineDraw.draw(context, width, height, model, layout, view);
    }, "Timeline; the table has the same data as text");
    listen(canvas.element);
    overview.element.addEventListener("pointerdown", onOverview);
    overview.element.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => { if (event.buttons) onOverview(event); });
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
    const band = layout.bands.find((/** @type {any} */ each) => each.lane === lane);
    if (band) view.scroll = band.y + (R.model.lineOf(model, row) - band.first) * R.lanes.LINE - 120;
    redraw();
  }

  // ---- what is under a point ------------------------------------------------------------------------------------------

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
      return R.state.set({ interval: to > drag.from ? [drag.from, to] : [to, drag.from] });
    }
    const by = ((drag.x - x) / (canvas.width - GUTTER)) * (drag.end - drag.begin);
    view.scroll = drag.scroll + drag.y - y;
    return show(drag.begin + by, drag.end + by);
  }

  function onUp(/** @type {PointerEvent} */ event) {
    const { offsetX: x, offsetY: y } = event;
    const ended = drag;
    drag = null;
    if (!ended || ended.moved) return;
    const band = bandAt(y);
    if (band && (band.type === "process" || (band.type === "lane" && x < GUTTER))) {
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
    }
    if (!lines.length) return;
    R.base.fill(tip, ...lines.filter((line) => line && line !== "(no name)").map((line) => el("div", null, line)));
    tip.hidden = false;
    const box = canvas.element.getBoundingClientRect();
    tip.style.left = `${Math.min(box.left + x + 14, window.innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(box.top + y + 16, window.innerHeight - tip.offsetHeight - 8)}px`;
  }

  function onOverview(/** @type {PointerEvent} */ event) {
    const share = event.offsetX / overview.width;
    const middle = model.begin + share * (model.end - model.begin);
    const half = (view.end - view.begin) / 2;
    show(middle - half, middle + half);
  }

  /** @returns {boolean} whether the key meant something here */
  function onKey(/** @type {KeyboardEvent} */ event) {
    const { row } = R.state.state;
    const middle = (GUTTER + canvas.width) / 2;
    /** @type {Record<string, () => void>} */
    const keys = {
      w: () => zoom(0.7, middle), s: () => zoom(1 / 0.7, middle), a: () => pan(-0.2), d: () => pan(0.2),
      "+": () => zoom(0.7, middle), "-": () => zoom(1 / 0.7, middle), ArrowLeft: () => pan(-0.1), ArrowRight: () => pan(0.1),
      ArrowUp: () => { view.scroll -= 60; redraw(); }, ArrowDown: () => { view.scroll += 60; redraw(); },
      0: fit, Home: fit, o: () => { R.lanes.toggleOuter(); layout = R.lanes.layout(model); redraw(); }, f: () => { if (row >= 0) zoomTo(row); },
      m: () => { if (row >= 0) R.state.set({ interval: [model.start[row], model.start[row] + model.length[row]] }); },
    };
    const action = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    action?.();
    return Boolean(action);
  }

  // ---- overview: how much of each pixel's time the threads were in a range ------------------------------------------------

  let shares = /** @type {Float64Array | null} */ (null);
  function busy() {
    const bins = 800;
    const found = new Float64Array(bins);
    const scale = bins / (model.end - model.begin);
    for (const lane of model.lanes) {
      for (const row of lane.levels[lane.levels.length > 1 ? 1 : 0] || []) {
        const [from, to] = [(model.start[row] - model.begin) * scale, (model.start[row] + model.length[row] - model.begin) * scale];
        for (let bin = Math.floor(from); bin < Math.min(to, bins); bin++) found[bin] += Math.min(to, bin + 1) - Math.max(from, bin);
      }
    }
    return found;
  }

  function drawOverview(/** @type {CanvasRenderingContext2D} */ context, /** @type {number} */ width, /** @type {number} */ height) {
    shares = shares || busy();
    context.fillStyle = R.base.colour("panel");
    context.fillRect(0, 0, width, height);
    const most = Math.max(1e-9, ...shares);
    context.fillStyle = R.base.colour("overview");
    shares.forEach((share, bin) => {
      const tall = (share / most) * (height - 4);
      context.fillRect((bin * width) / 800, height - tall, width / 800 + 0.5, tall);
    });
    const x = (/** @type {number} */ t) => ((t - model.begin) / (model.end - model.begin)) * width;
    const [from, to] = [Math.max(x(view.begin), 0), Math.min(x(view.end), width)];
    context.fillStyle = R.base.colour("outside");
    context.fillRect(0, 0, from, height);
    context.fillRect(to, 0, width - to, height);
    context.fillStyle = R.base.colour("accent");
    context.fillRect(from, 0, 1.5, height);
    context.fillRect(to - 1.5, 0, 1.5, height);
  }

  return { start, redraw, zoomTo, onKey, fit, show, view, rowAt, canvas: () => canvas, layout: () => layout };
})();
