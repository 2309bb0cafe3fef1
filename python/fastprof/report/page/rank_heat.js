// SPDX-License-Identifier: Apache-2.0
// rank_heat: the heat map of ranks x steps. A pixel that covers several ranks or steps shows the most unusual one, so that
// one odd rank of thousands is seen. The strip beside it has the median of each rank's steps.
// Colours saturate at six deviations, or at the 99th percentile.

R.rankHeat = (() => {
  const { el } = R.base;
  const { time, count, shown } = R.format;
  const AXIS = 64; // pixels of the ranks' numbers
  const FOOT = 22; // of the steps'
  const STRIP = 34; // of the ranks' medians, and the gap before it
  const SHADES = 256;
  const SAMPLE = 100000;
  const MAD_TO_SIGMA = 1.4826;

  /** @param {HTMLElement} parent @param {any} model */
  function start(parent, model) {
    const { head, ranks, steps, times } = model;
    const slow = new Set(head.stragglers.map((/** @type {any} */ each) => head.ranks.indexOf(each.rank)));
    const choice = { value: "own_ns", colour: "difference", sort: "rank" };
    let order = /** @type {number[]} */ ([]); // rank at each row
    let rowOf = /** @type {number[]} */ ([]);
    let shade = new Float64Array(0); // what is coloured, by (rank, step); NaN: no such step
    let [low, high] = [0, 1];
    let middles = /** @type {number[]} */ ([]); // medians of what is coloured, by rank
    let [lowMiddle, highMiddle] = [0, 1];
    let view = { first: 0, last: ranks }; // rows
    let cells = { across: 0, down: 0, at: new Int32Array(0), strip: new Int32Array(0) };
    const picture = document.createElement("canvas");

    const form = R.controls.bar();
    const again = () => { compute(); canvas.redraw(); };
    R.controls.select(form, "Show", Object.fromEntries(head.values.map((/** @type {any} */ each) => [each.name, each.title])), choice.value, (value) => { choice.value = value; again(); });
    R.controls.select(form, "Colour", { difference: "against the median", value: "time" }, choice.colour, (colour) => { choice.colour = colour; again(); });
    R.controls.select(form, "Order", { rank: "rank", most: "most first", host: "host" }, choice.sort, (sort) => { choice.sort = sort; again(); });
    const scale = el("span", { class: "rank-scale note" });
    const inView = el("span", { class: "note" });
    form.append(scale, inView);
    const area = el("div", { class: "canvas heat" });
    const tip = el("div", { class: "tip", hidden: true });
    parent.append(form, area, tip);
    const canvas = R.base.canvas(area, draw, "Times of ranks by step. Arrow keys select a rank.");
    compute();

    function compute() {
      const values = times[choice.value];
      const middle = choice.colour === "difference" ? R.rankModel.medians(model, choice.value) : null;
      shade = new Float64Array(ranks * steps);
      for (let i = 0; i < shade.length; i++) shade[i] = values[i] < 0 ? NaN : middle ? values[i] - middle[i % steps] : values[i];
      middles = Array.from({ length: ranks }, (_, rank) => R.rankModel.middle(model, shade, rank));
      const stride = Math.max(1, Math.floor(shade.length / SAMPLE));
      const sample = [];
      for (let i = 0; i < shade.length; i += stride) if (!Number.isNaN(shade[i])) sample.push(middle ? Math.abs(shade[i]) : shade[i]);
      const typical = middle ? R.rankModel.median([...middle].filter((each) => !Number.isNaN(each))) || 0 : 0;
      [low, high] = limits(sample, middle !== null, typical);
      [lowMiddle, highMiddle] = limits(middles.filter((each) => !Number.isNaN(each)).map((each) => (middle ? Math.abs(each) : each)), middle !== null, typical);
      order = middles.map((_, rank) => rank);
      if (choice.sort === "most") order.sort((a, b) => (middles[b] || -Infinity) - (middles[a] || -Infinity) || a - b);
      if (choice.sort === "host") order.sort((a, b) => (head.hosts[a] < head.hosts[b] ? -1 : head.hosts[a] > head.hosts[b] ? 1 : a - b));
      rowOf = [];
      order.forEach((rank, row) => { rowOf[rank] = row; });
      R.base.fill(scale, el("span", null, middle ? `${time(low)} ` : time(low)), el("i", { class: middle ? "both" : "one" }), el("span", null, `${middle ? "+" : ""}${time(high)}`));
    }

    /** The values of the first and last colour. */
    function limits(/** @type {number[]} */ sample, /** @type {boolean} */ both, /** @type {number} */ typical) {
      sample.sort((a, b) => a - b);
      const at = (/** @type {number} */ share) => sample[Math.min(sample.length - 1, Math.floor(share * sample.length))] || 0;
      if (!both) return [at(0.01), Math.max(at(0.99), at(0.01) + 1)];
      const most = Math.max(6 * MAD_TO_SIGMA * at(0.5), 0.005 * typical, 1);
      return [-most, most];
    }

    /** How unusual a cell is: the greater is shown where several share a pixel. */
    const weight = (/** @type {number} */ value) => (choice.colour === "difference" ? Math.abs(value) : value);

    /** The most unusual cell behind each pixel; one cell a pixel where there is room. And the rank of the strip's pixels. */
    function bin(/** @type {number} */ width, /** @type {number} */ height) {
      const rows = view.last - view.first;
      const across = Math.max(1, Math.min(steps, Math.floor(width)));
      const down = Math.max(1, Math.min(Math.ceil(rows), Math.floor(height)));
      const at = new Int32Array(across * down).fill(-1);
      const strip = new Int32Array(down).fill(-1);
      const difference = choice.colour === "difference";
      for (let row = Math.floor(view.first); row < Math.min(ranks, Math.ceil(view.last)); row++) {
        const y = Math.min(down - 1, Math.max(0, Math.floor(((row - view.first) * down) / rows)));
        const begin = order[row] * steps;
        if (strip[y] < 0 || weight(middles[order[row]]) > weight(middles[strip[y]])) strip[y] = order[row];
        for (let step = 0; step < steps; step++) {
          const value = shade[begin + step];
          if (value !== value) continue; // NaN
          const pixel = y * across + Math.floor((step * across) / steps);
          const other = at[pixel] < 0 ? 0 : shade[at[pixel]];
          if (at[pixel] < 0 || (difference ? Math.abs(value) > Math.abs(other) : value > other)) at[pixel] = begin + step;
        }
      }
      return { across, down, at, strip };
    }

    function draw(/** @type {CanvasRenderingContext2D} */ context, /** @type {number} */ width, /** @type {number} */ height) {
      const [inner, tall] = [width - AXIS - STRIP, height - FOOT];
      context.fillStyle = R.base.colour("canvas");
      context.fillRect(0, 0, width, height);
      if (inner < 1 || tall < 1) return;
      cells = bin(inner, tall);
      const { across, down, at, strip } = cells;
      const colours = palette();
      paint(context, across, down, (pixel) => (at[pixel] < 0 ? NaN : shade[at[pixel]]), low, high, colours, AXIS, inner, tall);
      paint(context, 1, down, (pixel) => (strip[pixel] < 0 ? NaN : middles[strip[pixel]]), lowMiddle, highMiddle, colours, width - STRIP + 8, STRIP - 10, tall);
      axes(context, inner, tall, width);
    }

    /** Colours from the least to the greatest value, and that of no value, as pixels. */
    function palette() {
      const [none, less, more, hot] = ["canvas", "better", "worse", "heat"].map((name) => rgb(R.base.colour(name)));
      const mixed = (/** @type {number[]} */ full, /** @type {number} */ part) => pixel(none.map((each, k) => each + (full[k] - none[k]) * part));
      const found = new Uint32Array(SHADES + 1);
      for (let i = 0; i < SHADES; i++) {
        const part = i / (SHADES - 1);
        found[i] = choice.colour !== "difference" ? mixed(hot, part) : part < 0.5 ? mixed(less, 1 - 2 * part) : mixed(more, 2 * part - 1);
      }
      found[SHADES] = pixel(rgb(R.base.colour("faint")));
      return found;
    }

    /**
     * Draw across x down values, stretched to a rectangle.
     * @param {CanvasRenderingContext2D} context @param {number} across @param {number} down @param {(pixel: number) => number} value
     * @param {number} least @param {number} most @param {Uint32Array} colours @param {number} x @param {number} width @param {number} height
     */
    function paint(context, across, down, value, least, most, colours, x, width, height) {
      const image = new ImageData(across, down);
      const pixels = new Uint32Array(image.data.buffer);
      const scale = (SHADES - 1) / (most - least);
      for (let i = 0; i < pixels.length; i++) {
        const shown = value(i);
        pixels[i] = colours[shown !== shown ? SHADES : Math.min(SHADES - 1, Math.max(0, Math.round((shown - least) * scale)))];
      }
      picture.width = across;
      picture.height = down;
      /** @type {any} */ (picture.getContext("2d")).putImageData(image, 0, 0);
      context.imageSmoothingEnabled = false;
      context.drawImage(picture, x, 0, width, height);
    }

    function axes(/** @type {CanvasRenderingContext2D} */ context, /** @type {number} */ inner, /** @type {number} */ tall, /** @type {number} */ width) {
      const rows = view.last - view.first;
      const y = (/** @type {number} */ row) => ((row - view.first) / rows) * tall;
      context.fillStyle = R.base.colour("muted");
      context.textAlign = "right";
      const each = Math.max(1, R.format.tickStep((rows * 18) / tall));
      for (let row = Math.ceil(view.first / each) * each; row < view.last; row += each) {
        if (order[row] !== undefined) context.fillText(String(head.ranks[order[row]]), AXIS - 14, Math.max(7, Math.min(y(row + 0.5), tall - 7)));
      }
      context.textAlign = "left";
      const apart = Math.max(1, R.format.tickStep((steps * 70) / inner));
      for (let step = 0; step < steps; step += apart) {
        context.fillText((step ? "" : "step ") + head.step_numbers[step], AXIS + (step * inner) / steps, tall + FOOT / 2);
      }
      // Slow ranks have a mark beside the map, which is never thinner than two pixels.
      context.fillStyle = R.base.colour("worse");
      for (const rank of slow) {
        const top = y(rowOf[rank]);
        if (top > -3 && top < tall) context.fillRect(AXIS - 10, top, 7, Math.max(2, tall / rows));
      }
      const chosen = R.rankModel.selection.rank;
      if (chosen >= 0) {
        const [top, size] = [y(rowOf[chosen]), tall / rows];
        context.fillStyle = context.strokeStyle = R.base.colour("accent");
        context.lineWidth = 2;
        if (size >= 4) context.strokeRect(AXIS - 2, top - 1, inner + 3, size + 2);
        else for (const x of [AXIS - 3, AXIS + inner + 1]) context.fillRect(x, top - 3, 3, 7); // a frame would hide it
      }
      context.fillStyle = R.base.colour("muted");
      context.textAlign = "right";
      context.fillText("median", width, tall + FOOT / 2);
      context.textAlign = "left";
      inView.textContent = rows < ranks ? `rows ${count(Math.floor(view.first) + 1)} to ${count(Math.min(ranks, Math.ceil(view.last)))} of ${count(ranks)}; double click shows all` : "";
    }

    /** The rank at a point of the canvas, and the step, -1 in the strip; null outside. */
    function cellAt(/** @type {number} */ x, /** @type {number} */ y) {
      const [inner, tall] = [canvas.width - AXIS - STRIP, canvas.height - FOOT];
      const column = Math.floor(((x - AXIS) / inner) * cells.across);
      const line = Math.floor((y / tall) * cells.down);
      if (column < 0 || line < 0 || line >= cells.down) return null;
      if (column >= cells.across) return cells.strip[line] < 0 ? null : { rank: cells.strip[line], step: -1 };
      const cell = cells.at[line * cells.across + column];
      return cell < 0 ? null : { rank: Math.floor(cell / steps), step: cell % steps };
    }

    function hover(/** @type {PointerEvent} */ event) {
      const cell = cellAt(event.offsetX, event.offsetY);
      tip.hidden = cell === null;
      if (cell === null) return;
      const { rank, step } = cell;
      const of = (/** @type {string} */ name) => (step < 0 ? head.per_rank[rank][name] : times[name][rank * steps + step]);
      const more = step < 0 ? middles[rank] : shade[rank * steps + step];
      R.base.fill(tip, el("div", null, `rank ${head.ranks[rank]}, ${step < 0 ? "mean of its steps" : `step ${head.step_numbers[step]}`}`), el("div", { class: "note" }, shown(head.hosts[rank], 80)),
        ...head.values.map((/** @type {any} */ each) => {
          const text = `${each.title}: ${of(each.name) < 0 ? "-" : time(of(each.name))}`;
          if (each.name !== choice.value) return el("div", null, text);
          const than = step < 0 ? "than the median rank in half of its steps" : "than the median";
          return el("b", { class: "chosen-value" }, choice.colour === "difference" ? `${text} (${signed(more)} ${than})` : text);
        }));
      tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
      tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
    }

    function zoom(/** @type {number} */ factor, /** @type {number} */ around) {
      const rows = Math.min(ranks, Math.max(Math.min(4, ranks), (view.last - view.first) * factor));
      const part = (around - view.first) / (view.last - view.first);
      show(around - part * rows, rows);
    }
    function show(/** @type {number} */ first, /** @type {number} */ rows) {
      const begin = Math.max(0, Math.min(first, ranks - rows));
      view = { first: begin, last: begin + rows };
      canvas.redraw();
    }

    const row = (/** @type {MouseEvent} */ event) => view.first + (event.offsetY / (canvas.height - FOOT)) * (view.last - view.first);
    let from = /** @type {{y: number, first: number, moved: boolean} | null} */ (null);
    canvas.element.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
      if (from && event.buttons) {
        const rows = view.last - view.first;
        if (Math.abs(event.offsetY - from.y) > 3) from.moved = true;
        if (from.moved) show(from.first - ((event.offsetY - from.y) / (canvas.height - FOOT)) * rows, rows);
      } else hover(event);
    });
    canvas.element.addEventListener("pointerleave", () => { tip.hidden = true; });
    canvas.element.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => { from = { y: event.offsetY, first: view.first, moved: false }; });
    canvas.element.addEventListener("pointerup", (/** @type {PointerEvent} */ event) => {
      const cell = from && !from.moved ? cellAt(event.offsetX, event.offsetY) : null;
      from = null;
      if (cell) R.rankModel.select(cell.rank);
    });
    canvas.element.addEventListener("dblclick", () => show(0, ranks));
    canvas.element.addEventListener("wheel", (/** @type {WheelEvent} */ event) => {
      event.preventDefault();
      zoom(1.0015 ** event.deltaY, row(event));
    }, { passive: false });
    canvas.element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      const { rank } = R.rankModel.selection;
      const next = rank < 0 ? 0 : Math.min(ranks - 1, Math.max(0, rowOf[rank] + by));
      R.rankModel.select(order[next]);
    });
    R.rankModel.on(() => {
      const { rank } = R.rankModel.selection;
      const rows = view.last - view.first;
      if (rank >= 0 && (rowOf[rank] < view.first || rowOf[rank] >= view.last)) show(rowOf[rank] - rows / 2, rows);
      canvas.redraw();
    });
    return { canvas, place };

    /** The point of the canvas where a cell is drawn; step -1: in the strip. */
    function place(/** @type {number} */ rank, /** @type {number} */ step) {
      return { x: step < 0 ? canvas.width - STRIP / 2 : AXIS + ((step + 0.5) / steps) * (canvas.width - AXIS - STRIP), y: ((rowOf[rank] + 0.5 - view.first) / (view.last - view.first)) * (canvas.height - FOOT) };
    }
  }

  const signed = (/** @type {number} */ ns) => `${time(Math.abs(ns))} ${ns < 0 ? "less" : "more"}`;

  /** A pixel of ImageData as one number: its bytes are red, green, blue and alpha. */
  const pixel = (/** @type {number[]} */ [red, green, blue]) => ((255 << 24) | (Math.round(blue) << 16) | (Math.round(green) << 8) | Math.round(red)) >>> 0;

  /** @returns {number[]} red, green and blue of "#rrggbb" */
  const rgb = (/** @type {string} */ text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));

  return { start };
})();
