// SPDX-License-Identifier: Apache-2.0
// flame: the flame graph and its inverted form, drawn in a canvas. A click zooms; the form shows the share that the search matches.

/**
 * @typedef {{node: any, x: number, y: number, width: number}} Box
 */
R.flame = (() => {
  const { el } = R.base;
  const LINE = 20;
  const METRICS = /** @type {Record<string, string>} */ ({
    time: "time", memory: "memory allocated", count: "number of calls",
  });

  /**
   * Create a flame graph in an element. `fill` returns a node's colour, `tip` the lines of its tool tip.
   * @param {HTMLElement} parent
   * @param {{format: (value: number) => string, fill: (node: any) => string, value: (node: any) => number,
   *          tip: (node: any, root: any) => string[], select: (node: any) => void}} options
   */
  function graph(parent, options) {
    const state = { root: /** @type {any} */ (null), zoomed: /** @type {any} */ (null), boxes: /** @type {Box[]} */ ([]), scroll: 0 };
    const box = el("div", { class: "canvas flame" });
    const tip = el("div", { class: "tip", hidden: true });
    parent.append(box, tip);
    const canvas = R.base.canvas(box, draw, "Flame graph; the table has the same data as text");

    function draw(/** @type {CanvasRenderingContext2D} */ context, /** @type {number} */ width, /** @type {number} */ height) {
      context.fillStyle = R.base.colour("canvas");
      context.fillRect(0, 0, width, height);
      state.boxes = [];
      if (!state.zoomed) return;
      const path = [];
      for (let up = state.zoomed.parent; up; up = up.parent) path.unshift(up);
      path.forEach((node, line) => place(context, node, 0, line, width, height, width));
      place(context, state.zoomed, 0, path.length, width, height, width);
    }

    function place(/** @type {CanvasRenderingContext2D} */ context, /** @type {any} */ node, /** @type {number} */ x, /** @type {number} */ line,
      /** @type {number} */ width, /** @type {number} */ height, /** @type {number} */ whole) {
      const y = 4 + line * LINE - state.scroll;
      if (y > height || width < 0.4) return;
      const outer = node !== state.zoomed && contains(node, state.zoomed);
      if (y + LINE > 0) {
        const matches = R.state.matches();
        const { key } = R.state.state;
        const wanted = !matches || (node.key >= 0 && matches[node.key] === 1);
        context.globalAlpha = outer ? 0.55 : 1;
        context.fillStyle = node.parent && wanted ? options.fill(node) : R.base.colour(node.parent ? "faint" : "head");
        context.fillRect(x, y, Math.max(width - 0.7, 0.5), LINE - 1.5);
        state.boxes.push({ node, x, y, width });
        if (key >= 0 && node.key === key && width > 3) {
          context.strokeStyle = R.base.colour("accent");
          context.lineWidth = 1.5;
          context.strokeRect(x + 0.75, y + 0.75, width - 2.2, LINE - 3);
        }
        if (width > 24) {
          context.fillStyle = R.base.colour(wanted && node.parent ? "slice-text" : "muted");
          const name = node.parent ? R.format.label(node.name, 200) : `${node.name} · ${options.format(options.value(node))}`;
          context.fillText(R.format.fitted(context, name, width - 8), x + 4, y + LINE / 2);
        }
        context.globalAlpha = 1;
      }
      if (outer) return;
      let at = x;
      const value = options.value(node);
      for (const child of node.children) {
        const wide = value > 0 ? (options.value(child) / value) * width : 0;
        if (wide >= 0.4) place(context, child, at, line + 1, wide, height, whole);
        at += wide;
      }
    }

    const contains = (/** @type {any} */ node, /** @type {any} */ inner) => {
      for (let up = inner.parent; up; up = up.parent) if (up === node) return true;
      return false;
    };
    const hit = (/** @type {MouseEvent} */ event) =>
      state.boxes.find(({ x, y, width }) => event.offsetX >= x && event.offsetX < x + width && event.offsetY >= y && event.offsetY < y + LINE);

    canvas.element.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
      const found = hit(event);
      tip.hidden = !found;
      if (!found) return;
      R.base.fill(tip, ...options.tip(found.node, state.root).map((line) => el("div", null, line)));
      tip.hidden = false;
      tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8)}px`;
      tip.style.top = `${Math.min(event.clientY + 16, window.innerHeight - tip.offsetHeight - 8)}px`;
    });
    canvas.element.addEventListener("pointerleave", () => { tip.hidden = true; });
    canvas.element.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      const found = hit(event);
      if (!found) return;
      zoom(found.node);
      if (found.node.parent) options.select(found.node);
    });
    canvas.element.addEventListener("wheel", (/** @type {WheelEvent} */ event) => {
      event.preventDefault();
      const depth = Math.max(0, ...state.boxes.map((each) => each.y + state.scroll));
      state.scroll = Math.min(Math.max(0, state.scroll + event.deltaY), Math.max(0, depth - canvas.height + 2 * LINE));
      canvas.redraw();
    }, { passive: false });

    function zoom(/** @type {any} */ node) {
      // The lines keep their places: a node has its callers above it, whatever the zoom.
      state.zoomed = node;
      canvas.redraw();
    }
    return {
      canvas, state, zoom,
      set: (/** @type {any} */ root) => { state.root = root; state.scroll = 0; zoom(root); },
      redraw: () => canvas.redraw(),
    };
  }

  // ---- the view ---------------------------------------------------------------------------------------------------------

  let model = /** @type {any} */ (null);
  let shownGraph = /** @type {any} */ (null);
  let matchedText = /** @type {any} */ (null);
  let tree = /** @type {any} */ (null);
  const choice = { inverted: false, byThread: false, stacks: false, waits: true, metric: "time" };

  function start(/** @type {HTMLElement} */ parent, /** @type {any} */ of) {
    model = of;
    const form = R.controls.bar();
    R.controls.toggle(form, "Upside down", choice.inverted, (on) => { choice.inverted = on; update(); });
    if (model.head.stacks) R.controls.toggle(form, "By Python stack", choice.stacks, (on) => { choice.stacks = on; update(); });
    R.controls.toggle(form, "By thread", choice.byThread, (on) => { choice.byThread = on; update(); });
    const metrics = { ...METRICS };
    if (!(model.head.blocks.numbers || []).some((/** @type {any} */ c) => c.name === "self_cpu_memory_usage")) delete metrics.memory;
    R.controls.select(form, "Width", metrics, choice.metric, (name) => { choice.metric = name; update(); });
    R.controls.lane(form, model);
    if (model.hasCalls) R.controls.calls(form);
    if (model.hasWaits) R.controls.toggle(form, "Waits", choice.waits, (on) => { choice.waits = on; update(); });
    form.append(el("button", { onclick: () => shownGraph.set(tree) }, "Reset zoom"), (matchedText = el("span", { class: "note", role: "status" })));
    parent.append(form, el("p", { class: "keys" }, R.base.legend(model)));
    shownGraph = graph(parent, {
      format, value: (node) => node.total, fill: (node) => R.base.sliceColour(node.key >= 0 ? model.keys[node.key] : node),
      tip: (node, root) => [R.format.shown(node.name), `${format(node.total)} · ${R.format.percent(node.total / root.total)} of all`,
        `self ${format(node.self)} · ${R.format.count(node.count)} calls`],
      select: (node) => { if (node.key >= 0) R.state.selectKey(node.key); },
    });
    R.state.on((changed) => {
      if (R.state.state.view !== "flame") { if (changed.has("interval") || changed.has("lane") || changed.has("calls")) tree = null; return; }
      if (changed.has("interval") || changed.has("lane") || changed.has("calls") || !tree) update();
      else { shownGraph.redraw(); showMatched(); }
    });
  }

  const format = (/** @type {number} */ value) =>
    choice.metric === "memory" ? R.format.bytes(value) : choice.metric === "count" ? R.format.count(value) : R.format.time(value);

  /** Rebuild the tree for the current selection. */
  async function update() {
    const numbers = choice.metric === "memory" ? await model.block("numbers") : null;
    const chosen = choice.metric === "count" ? () => 1
      : numbers ? (/** @type {number} */ row) => numbers.self_cpu_memory_usage[row] : (/** @type {number} */ row, /** @type {number} */ self) => self;
    const { rowKey, keys } = model;
    const metric = choice.waits ? chosen
      : (/** @type {number} */ row, /** @type {number} */ self) => (keys[rowKey[row]].wait ? 0 : chosen(row, self));
    const codes = choice.stacks ? (await model.block("stacks")).stack : null;
    tree = codes ? R.flameTree.buildFromStacks(model, R.state.state, metric, codes, await model.json("values"))
      : R.flameTree.build(model, R.state.state, metric, choice.byThread);
    if (choice.inverted) tree = R.flameTree.inverted(tree);
    shownGraph.set(tree);
    showMatched();
  }

  /** Show the share of the tree that the search matches. */
  function showMatched() {
    const { query } = R.state.state;
    matchedText.textContent = query.trim() && tree
      ? `matched: ${R.format.percent(R.flameTree.share(tree, R.state.tester(query.trim())))}` : "";
  }

  return { start, graph, redraw: () => shownGraph?.redraw(), tree: () => tree, choice, update, graphState: () => shownGraph.state };
})();
