// SPDX-License-Identifier: Apache-2.0
// timeline_marks: marks as diamonds and flows as arrows, over the slices of the timeline.

R.timelineMarks = (() => {
  const { GUTTER, RULER } = R.lanes;
  const MOST_FLOWS = 40; // arrows in view that are drawn without a selection

  function marks(/** @type {any} */ { context, model, view, x }, /** @type {any} */ band, /** @type {number} */ y) {
    const { marks: all } = R.lanes.signals();
    if (!all) return;
    const { state } = R.state;
    context.fillStyle = R.base.colour("mark");
    let last = -10;
    for (let i = 0; i < all.time.length; i++) {
      if (all.lane[i] !== band.lane || all.time[i] < view.begin || all.time[i] > view.end) continue;
      const at = x(all.time[i]);
      if (at < last + 2) continue;
      last = at;
      const row = all.row[i] - 1;
      const top = y + 3 + (row >= 0 ? Math.max(0, Math.min(model.depth[row] + 1 - band.first, band.lines - 1)) : 0) * R.lanes.LINE;
      context.beginPath();
      context.moveTo(at, top);
      context.lineTo(at + 4, top + 6);
      context.lineTo(at, top + 12);
      context.lineTo(at - 4, top + 6);
      context.fill();
      if (state.key >= 0 && model.siteKey[all.site[i]] === state.key) context.fillRect(at, top, 1, 16);
    }
  }

  function flows(/** @type {any} */ { context, model, view, x, height, width }, /** @type {any} */ layout) {
    const { flows: all } = R.lanes.signals();
    const { row } = R.state.state;
    if (!all) return;
    const bandOf = new Map(layout.bands.filter((/** @type {any} */ b) => b.type === "lane").map((/** @type {any} */ b) => [b.lane, b]));
    const n = all.from_time.length;
    const selected = row >= 0;
    let inView = 0;
    for (let i = 0; i < n && !selected; i++) {
      if (Math.max(all.from_time[i], all.to_time[i]) >= view.begin && Math.min(all.from_time[i], all.to_time[i]) <= view.end) inView += 1;
      if (inView > MOST_FLOWS) return; // more would hide the slices below; zooming in or selecting one end shows them
    }
    context.lineWidth = selected ? 1.6 : 1;
    context.globalAlpha = selected ? 1 : 0.35;
    context.strokeStyle = R.base.colour("flow");
    const y = (/** @type {number} */ lane, /** @type {number} */ at) => {
      const band = bandOf.get(lane);
      if (!band) return NaN;
      const line = at >= 0 ? Math.max(0, Math.min(R.model.lineOf(model, at) - band.first, band.lines - 1)) : 0;
      return RULER + band.y - view.scroll + 3 + line * R.lanes.LINE + R.lanes.LINE / 2;
    };
    for (let i = 0; i < n; i++) {
      const [from, to] = [all.from_row[i] - 1, all.to_row[i] - 1];
      if (selected && from !== row && to !== row) continue;
      const [x0, x1] = [x(all.from_time[i]), x(all.to_time[i])];
      if (Math.max(x0, x1) < GUTTER || Math.min(x0, x1) > width) continue;
      const [y0, y1] = [y(all.from_lane[i], from), y(all.to_lane[i], to)];
      if (Number.isNaN(y0 + y1) || Math.max(y0, y1) < RULER || Math.min(y0, y1) > height) continue;
      const bend = Math.max(20, Math.abs(x1 - x0) / 3);
      context.beginPath();
      context.moveTo(Math.max(x0, GUTTER), y0);
      context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
      context.moveTo(x1 - 6, y1 - 4);
      context.lineTo(x1, y1);
      context.lineTo(x1 - 6, y1 + 4);
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  return { marks, flows };
})();
