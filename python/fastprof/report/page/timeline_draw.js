// SPDX-License-Identifier: Apache-2.0
// timeline_draw: draw the visible part of the timeline. The work per frame depends on the number of pixels, not of rows.

/**
 * @typedef {{begin: number, end: number, scroll: number}} Window  times in ns from t0; scroll in pixels
 * @typedef {{row: number, x: number, y: number, width: number}} Drawn
 */
R.timelineDraw = (() => {
  const { GUTTER, RULER } = R.lanes;
  const MERGED = 2; // pixels: slices narrower than 1.5 that begin in one of these cells are drawn as one
  const { time, tick, tickStep, shown, label, fitted, bytes } = R.format;
  /** @type {Drawn[] | null} slices that the last frame drew individually, for tests */
  let record = null;

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} width
   * @param {number} height
   * @param {any} model
   * @param {{bands: any[], height: number}} layout
   * @param {Window} view
   * @param {[number, number] | null} measured
   */
  function draw(context, width, height, model, layout, view, measured) {
    const { colour } = R.base;
    context.fillStyle = colour("canvas");
    context.fillRect(0, 0, width, height);
    const scale = (width - GUTTER) / (view.end - view.begin);
    const frame = { context, width, height, model, view, scale, x: (/** @type {number} */ t) => GUTTER + (t - view.begin) * scale };
    if (record) record.length = 0;
    grid(frame);
    for (const band of layout.bands) {
      const y = RULER + band.y - view.scroll;
      if (y + band.height < RULER || y > height) continue;
      if (band.type === "process") processHead(frame, band, y);
      else if (band.type === "lane") lane(frame, band, y);
      else if (band.type === "group") group(frame, band, y);
      else graph(frame, band, y);
    }
    R.timelineMarks.flows(frame, layout);
    interval(frame, measured);
    ruler(frame);
  }

  function grid(/** @type {any} */ { context, width, height, view, scale, x }) {
    const step = tickStep(110 / scale);
    context.fillStyle = R.base.colour("grid");
    for (let t = Math.ceil(view.begin / step) * step; t < view.end; t += step) context.fillRect(Math.round(x(t)), RULER, 1, height);
  }

  function ruler(/** @type {any} */ { context, width, view, scale, x }) {
    const step = tickStep(110 / scale);
    context.fillStyle = R.base.colour("panel");
    context.fillRect(0, 0, width, RULER);
    context.fillStyle = R.base.colour("line");
    context.fillRect(0, RULER - 1, width, 1);
    context.fillStyle = R.base.colour("muted");
    for (let t = Math.ceil(view.begin / step) * step; t < view.end; t += step) {
      const at = x(t);
      if (at < GUTTER) continue;
      context.fillRect(Math.round(at), RULER - 6, 1, 6);
      if (at + 60 < width) context.fillText(tick(t, step), at + 4, RULER / 2);
    }
    context.fillStyle = R.base.colour("panel");
    context.fillRect(0, 0, GUTTER, RULER - 1);
    context.fillStyle = R.base.colour("text");
    context.fillText(`${time(view.end - view.begin)} in view`, 12, RULER / 2);
  }

  function gutter(/** @type {any} */ { context }, /** @type {any} */ band, /** @type {number} */ y, /** @type {string} */ second) {
    context.fillStyle = R.base.colour("panel");
    context.fillRect(0, y, GUTTER - 1, band.height);
    context.fillStyle = R.base.colour("line");
    context.fillRect(GUTTER - 1, y, 1, band.height);
    context.fillRect(0, y + band.height - 1, GUTTER, 1);
    // The name of a band that begins above the view stays at the top.
    const at = Math.min(Math.max(y, RULER), y + band.height - (second ? 38 : 22));
    context.fillStyle = R.base.colour("text");
    context.fillText(fitted(context, shown(band.label, 80), GUTTER - 30, true), 22, at + 12);
    if (second) {
      context.fillStyle = R.base.colour("muted");
      context.fillText(fitted(context, second, GUTTER - 30), 22, at + 28);
    }
    if (band.type === "lane" || band.type === "group") {
      context.fillStyle = R.base.colour("muted");
      context.fillText(band.open ? "▾" : "▸", 8, at + 12);
    }
  }

  function processHead(/** @type {any} */ { context, width }, /** @type {any} */ band, /** @type {number} */ y) {
    context.fillStyle = R.base.colour("head");
    context.fillRect(0, y, width, band.height - 2);
    context.fillStyle = R.base.colour("text");
    context.font = "600 12px system-ui, sans-serif";
    context.fillText(`${band.open ? "▾" : "▸"}  ${shown(band.label, 160)}`, 8, y + band.height / 2 - 1);
    context.font = "12px system-ui, sans-serif";
  }

  /** A group of lanes: the outermost slices of all of them on one line. */
  function group(/** @type {any} */ frame, /** @type {any} */ band, /** @type {number} */ y) {
    frame.context.save();
    frame.context.beginPath();
    frame.context.rect(GUTTER, RULER, frame.width - GUTTER, frame.height - RULER);
    frame.context.clip();
    for (const number of band.lanes) if (frame.model.lanes[number].levels.length) slices(frame, frame.model.lanes[number], 0, y + 3);
    frame.context.restore();
    gutter(frame, band, y, "");
  }

  function lane(/** @type {any} */ frame, /** @type {any} */ band, /** @type {number} */ y) {
    const of = frame.model.lanes[band.lane];
    frame.context.save();
    frame.context.beginPath();
    frame.context.rect(GUTTER, RULER, frame.width - GUTTER, frame.height - RULER);
    frame.context.clip();
    for (let line = band.first; line < Math.min(band.first + band.lines, of.levels.length); line++) {
      const top = y + 3 + (line - band.first) * R.lanes.LINE;
      if (top + R.lanes.LINE >= RULER && top <= frame.height) slices(frame, of, line, top);
    }
    R.timelineMarks.marks(frame, band, y);
    frame.context.restore();
    const deeper = of.levels.length - band.lines - band.first;
    const second = band.first ? `${band.first} outer lines (O)` : deeper > 0 ? `${deeper} deeper lines` : "";
    gutter(frame, band, y, band.height > 34 && band.open ? second : "");
  }

  /** Draw one line of slices. Slices narrower than 1.5 pixels are merged with the others of their cell. */
  function slices(/** @type {any} */ { context, width, model, view, x, scale }, /** @type {any} */ lane, /** @type {number} */ line, /** @type {number} */ top) {
    const rows = lane.levels[line];
    const { start, length, rowKey, keys } = model;
    const { state } = R.state;
    const matches = R.state.matches();
    const height = R.lanes.LINE - 2;
    const faint = R.base.colour("faint");
    const pixel = 1 / scale;
    const reach = lane.reach[line];
    let at = reach ? nextReaching(model, rows, reach, view.begin, 0) : firstAfter(rows, start, view.begin);
    if (!reach && at > 0 && start[rows[at - 1]] + length[rows[at - 1]] > view.begin) at -= 1;
    let style = "";
    let [pendingX, pendingEnd] = [-1, -1]; // a run of merged slices, drawn at once
    const flush = () => {
      if (pendingX >= 0) context.fillRect(pendingX, top, Math.max(pendingEnd - pendingX, 1), height);
      pendingX = -1;
    };
    const labels = /** @type {any[]} */ ([]);
    while (at < rows.length) {
      const row = rows[at];
      const from = start[row];
      if (from > view.end) break;
      const key = rowKey[row];
      const wanted = matches ? matches[key] === 1 : state.key < 0 || state.key === key || state.row >= 0;
      const colour = wanted ? R.base.sliceColour(keys[key]) : faint;
      const left = Math.max(x(from), GUTTER - 2);
      const wide = length[row] * scale;
      if (wide < 1.5) {
        const pixelX = Math.floor(left / MERGED) * MERGED;
        if (colour !== style || pixelX > pendingEnd + 1) {
          flush();
          if (colour !== style) context.fillStyle = style = colour;
          pendingX = pixelX;
        }
        pendingEnd = pixelX + MERGED;
        const t = view.begin + (pixelX + MERGED - GUTTER) * pixel;
        at = reach ? nextReaching(model, rows, reach, t, at + 1) : nextPixel(rows, start, length, t, at);
        continue;
      }
      flush();
      const right = Math.min(x(from + length[row]), width + 2);
      at += 1;
      if (right < GUTTER) continue;
      if (colour !== style) context.fillStyle = style = colour;
      context.fillRect(left, top, Math.max(right - left - 0.7, 1), height);
      if (record) record.push({ row, x: left, y: top, width: right - left });
      if (right - left > 22) labels.push(row, left, right - left, wanted);
      if (row === state.row) labels.push(-1, left, right - left, true);
    }
    flush();
    text(context, model, labels, top, height);
  }

  function text(/** @type {CanvasRenderingContext2D} */ context, /** @type {any} */ model, /** @type {any[]} */ labels, /** @type {number} */ top, /** @type {number} */ height) {
    for (let i = 0; i < labels.length; i += 4) {
      const [row, left, wide, wanted] = labels.slice(i, i + 4);
      if (row < 0) {
        context.strokeStyle = R.base.colour("accent");
        context.lineWidth = 2;
        context.strokeRect(left + 1, top + 1, Math.max(wide - 2, 2), height - 2);
        continue;
      }
      context.fillStyle = R.base.colour(wanted ? "slice-text" : "muted");
      const from = Math.max(left, GUTTER);
      context.fillText(fitted(context, label(model.siteName(row), 200), left + wide - from - 6), from + 4, top + height / 2 + 0.5);
    }
  }

  function firstAfter(/** @type {Uint32Array} */ rows, /** @type {Float64Array} */ start, /** @type {number} */ t) {
    let [low, high] = [0, rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (start[rows[middle]] < t) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The first position after `from` whose row starts at `t` or later, by doubling steps. */
  function skip(/** @type {Uint32Array} */ rows, /** @type {Float64Array} */ start, /** @type {number} */ t, /** @type {number} */ from) {
    let step = 1;
    let low = from;
    while (low + step < rows.length && start[rows[low + step]] < t) { low += step; step *= 2; }
    let high = Math.min(rows.length, low + step);
    while (low < high) {
      const middle = (low + high) >> 1;
      if (start[rows[middle]] < t) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The next position after `at`, whose cell ends at `t`. Of the slices that begin in the cell, only the last can reach beyond it. */
  function nextPixel(/** @type {Uint32Array} */ rows, /** @type {Float64Array} */ start, /** @type {ArrayLike<number>} */ length, /** @type {number} */ t, /** @type {number} */ at) {
    const next = Math.max(at + 1, skip(rows, start, t, at));
    const last = rows[next - 1];
    return next - 1 > at && start[last] + length[last] > t ? next - 1 : next;
  }

  /** The first position from `from` whose row begins at `t` or later, or ends after it. */
  function nextReaching(/** @type {any} */ { start, length }, /** @type {Uint32Array} */ rows, /** @type {Float64Array} */ reach, /** @type {number} */ t, /** @type {number} */ from) {
    let at = from;
    while (at < rows.length && start[rows[at]] < t && start[rows[at]] + length[rows[at]] <= t) {
      at += 1;
      while (at % 64 === 0 && at + 64 < rows.length && reach[at / 64] <= t && start[rows[at + 63]] < t) at += 64;
    }
    return at;
  }

  function graph(/** @type {any} */ frame, /** @type {any} */ band, /** @type {number} */ y) {
    const { context, width, view } = frame;
    const box = { x: GUTTER, y: y + 6, width: width - GUTTER, height: band.height - 12, begin: view.begin, end: view.end };
    const memory = band.type === "memory";
    R.chart.draw(context, band.series, box, R.base.colour(memory ? "memory" : "counter"), R.base.colour(memory ? "memory-area" : "counter-area"));
    const most = memory ? bytes(band.series.most) : String(Number(band.series.most.toPrecision(4)));
    gutter(frame, band, y, `max ${most}`);
  }

  function interval(/** @type {any} */ { context, height, x }, /** @type {[number, number] | null} */ of) {
    if (!of) return;
    const [from, to] = [Math.max(x(of[0]), GUTTER), x(of[1])];
    if (to < GUTTER) return;
    context.fillStyle = R.base.colour("interval");
    context.fillRect(from, RULER, to - from, height);
    context.fillStyle = R.base.colour("accent");
    context.fillRect(from, RULER, 1, height);
    context.fillRect(to, RULER, 1, height);
    const label = time(of[1] - of[0]);
    context.fillText(label, Math.max((from + to) / 2 - context.measureText(label).width / 2, GUTTER + 4), height - 10);
  }

  return { draw, GUTTER, RULER, firstAfter, record: (/** @type {Drawn[] | null} */ into) => { record = into; } };
})();
