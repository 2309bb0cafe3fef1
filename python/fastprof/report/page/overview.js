// SPDX-License-Identifier: Apache-2.0
// overview: the strip above the timeline: the load of the threads over the whole recording, and the part in view.

R.overview = (() => {
  const BINS = 800;

  /**
   * @param {HTMLElement} parent
   * @param {any} model
   * @param {{begin: number, end: number}} view  of the timeline, read at each drawing
   * @param {(begin: number, end: number) => void} show  moves the timeline
   */
  function start(parent, model, view, show) {
    const shares = busy(model);
    const canvas = R.base.canvas(parent, draw, "Overview of the whole recording");
    const move = (/** @type {PointerEvent} */ event) => {
      const middle = model.begin + (event.offsetX / canvas.width) * (model.end - model.begin);
      const half = (view.end - view.begin) / 2;
      show(middle - half, middle + half);
    };
    canvas.element.addEventListener("pointerdown", move);
    canvas.element.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => { if (event.buttons) move(event); });
    return canvas;

    function draw(/** @type {CanvasRenderingContext2D} */ context, /** @type {number} */ width, /** @type {number} */ height) {
      context.fillStyle = R.base.colour("panel");
      context.fillRect(0, 0, width, height);
      const most = Math.max(1e-9, ...shares);
      context.fillStyle = R.base.colour("overview");
      shares.forEach((share, bin) => {
        const tall = (share / most) * (height - 4);
        context.fillRect((bin * width) / BINS, height - tall, width / BINS + 0.5, tall);
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
  }

  /** Time covered by the slices of each lane's second line in each bin; the first line is often one range around all. */
  function busy(/** @type {any} */ model) {
    const found = new Float64Array(BINS);
    const scale = BINS / (model.end - model.begin);
    for (const lane of model.lanes) {
      for (const row of lane.levels[lane.levels.length > 1 ? 1 : 0] || []) {
        const from = (model.start[row] - model.begin) * scale;
        const to = from + model.length[row] * scale;
        for (let bin = Math.floor(from); bin < Math.min(to, BINS); bin++) found[bin] += Math.min(to, bin + 1) - Math.max(from, bin);
      }
    }
    return found;
  }

  return { start };
})();
