// SPDX-License-Identifier: Apache-2.0
// diff: compare two profiles, by a flame graph coloured by growth and a table of names with the times of both.

R.diff = (() => {
  const { el } = R.base;
  const { time, count, shown, percent } = R.format;
  let rows = /** @type {any[]} */ ([]);
  let tree = /** @type {any} */ (null);
  const choice = { sort: "change", perCall: false };

  /** Join the names of both profiles: self times and calls before and after. */
  function compare(/** @type {any} */ after, /** @type {any} */ before) {
    const found = new Map();
    const add = (/** @type {any} */ model, /** @type {string} */ side) => {
      for (const group of R.aggregate.groups(model, { calls: true })) {
        const { device } = model.keys[group.key];
        const id = `${device}${group.label}`;
        const row = found.get(id) || { name: group.label, key: -1, before: 0, after: 0, callsBefore: 0, callsAfter: 0 };
        row[side] = device ? group.selfDevice : Math.max(group.self, 0);
        row[side === "before" ? "callsBefore" : "callsAfter"] = group.count;
        if (side === "after") row.key = group.key;
        found.set(id, row);
      }
    };
    add(before, "before");
    add(after, "after");
    return [...found.values()];
  }

  function start(/** @type {HTMLElement} */ parent, /** @type {any} */ after, /** @type {any} */ before) {
    rows = compare(after, before);
    const self = (/** @type {number} */ row, /** @type {number} */ own) => own;
    const all = { calls: true };
    tree = R.flameTree.compared(R.flameTree.build(after, all, self, false), R.flameTree.build(before, all, self, false));
    const [was, is] = [sum("before"), sum("after")];
    parent.append(el("p", { class: "padded" }, "A: ", el("b", null, shown(before.head.title)), ` ${time(was)} of self time · B: `, el("b", null, shown(after.head.title)),
      ` ${time(is)} · `, el("b", { class: is > was ? "worse" : "better" }, `${signed(is - was)} (${change(was, is)})`)));
    const form = R.controls.bar();
    R.controls.select(form, "Sort by", { change: "change", percent: "growth in percent", name: "name" }, choice.sort, (sort) => { choice.sort = sort; render(box); });
    R.controls.toggle(form, "Mean per call", choice.perCall, (on) => { choice.perCall = on; render(box); });
    form.append(el("span", { class: "note" }, "Flame graph: widths are the larger of the two times; red: grew, blue: shrank."));
    parent.append(form);
    const graph = R.flame.graph(parent, {
      format: time, value: widest, fill: colour,
      tip: (node) => [shown(node.name), `A ${time(node.before)} → B ${time(node.total)}`, `${signed(node.total - node.before)} (${change(node.before, node.total)})`],
      select: (node) => { if (node.key >= 0 && node.total > 0) R.state.selectKey(node.key); },
    });
    graph.set(tree);
    R.state.on(() => graph.redraw());
    const box = el("div", { class: "scrolled" });
    parent.append(box);
    render(box);
  }

  const sum = (/** @type {string} */ side) => rows.reduce((total, row) => total + row[side], 0);
  const signed = (/** @type {number} */ ns) => `${ns >= 0 ? "+" : "−"}${time(Math.abs(ns))}`;
  const change = (/** @type {number} */ was, /** @type {number} */ is) => (was <= 0 ? (is > 0 ? "new" : "0 %") : is <= 0 ? "gone" : `${is >= was ? "+" : "−"}${percent(Math.abs(is - was) / was)}`);

  /** Width of a node: the larger of its two totals, and never less than the widths of its children. */
  function widest(/** @type {any} */ node) {
    if (node.wide === undefined) {
      const inside = node.children.reduce((/** @type {number} */ total, /** @type {any} */ child) => total + widest(child), 0);
      node.wide = Math.max(node.total, node.before, inside);
    }
    return node.wide;
  }

  function colour(/** @type {any} */ node) {
    const larger = Math.max(node.total, node.before, 1);
    const share = (node.total - node.before) / larger;
    const strength = Math.round(100 * Math.min(1, Math.abs(share) * 1.4));
    if (strength < 4) return R.base.colour("same");
    const dark = R.base.colour("scheme") === "dark";
    return share > 0 ? `hsl(4 ${30 + strength * 0.5}% ${dark ? 30 + strength * 0.12 : 88 - strength * 0.2}%)` : `hsl(214 ${30 + strength * 0.5}% ${dark ? 30 + strength * 0.12 : 88 - strength * 0.2}%)`;
  }

  function render(/** @type {any} */ box) {
    const value = (/** @type {any} */ row, /** @type {string} */ side) => (choice.perCall ? row[side] / Math.max(1, row[side === "before" ? "callsBefore" : "callsAfter"]) : row[side]);
    const delta = (/** @type {any} */ row) => value(row, "after") - value(row, "before");
    const growth = (/** @type {any} */ row) => (row.before > 0 ? delta(row) / value(row, "before") : row.after > 0 ? Infinity : 0);
    const order = /** @type {Record<string, (a: any, b: any) => number>} */ ({
      change: (a, b) => Math.abs(delta(b)) - Math.abs(delta(a)), percent: (a, b) => growth(b) - growth(a) || 0, name: (a, b) => (a.name < b.name ? -1 : 1),
    });
    const sorted = [...rows].sort(order[choice.sort]);
    const head = el("tr", null, el("th", { class: "text" }, "Name"), ...["Calls A", "Calls B", "Self A", "Self B", "Change", "Percent"].map((text) => el("th", null, text)));
    R.base.fill(box, el("table", { class: "averages diff" }, head, ...sorted.slice(0, 500).map((row) => el("tr", { onclick: () => (row.key >= 0 ? R.state.selectKey(row.key) : null) },
      el("td", { class: "text", title: shown(row.name, 1000) }, R.format.label(row.name, 120)), el("td", null, count(row.callsBefore)), el("td", null, count(row.callsAfter)),
      el("td", null, time(value(row, "before"))), el("td", null, time(value(row, "after"))),
      el("td", { class: delta(row) > 0 ? "worse" : "better" }, signed(delta(row))), el("td", null, change(value(row, "before"), value(row, "after")))))),
    sorted.length > 500 ? el("p", { class: "note" }, `${count(sorted.length - 500)} more names; "fastprof diff A B --row-limit -1" prints all.`) : null);
  }

  return { start, rows: () => rows, tree: () => tree };
})();
