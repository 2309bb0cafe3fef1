// SPDX-License-Identifier: Apache-2.0
// summary: what was profiled, where and for how long; what is missing and why; the five names with the most self time.

R.summary = (() => {
  const { el } = R.base;
  const { time, bytes, count, percent, shown } = R.format;

  async function start(/** @type {HTMLElement} */ parent, /** @type {any} */ model) {
    const { head } = model;
    const groups = R.aggregate.groups(model, { calls: true });
    const self = groups.reduce((sum, group) => sum + group.self, 0);
    const lanes = model.lanes.filter((/** @type {any} */ lane) => lane.kind === "thread" && lane.count);
    const tasks = lanes.filter((/** @type {any} */ lane) => lane.task).length;
    const threads = lanes.length - tasks;
    const processes = new Set(model.lanes.map((/** @type {any} */ lane) => lane.pid)).size;
    const streams = model.lanes.filter((/** @type {any} */ lane) => lane.kind === "device").length;
    const device = groups.reduce((sum, group) => sum + (model.keys[group.key].device ? group.device : 0), 0);
    const cards = el("div", { class: "cards" },
      card(time(head.span_ns), "recorded"),
      card(count(model.n), model.n === 1 ? "event" : "events"),
      card(count(threads), threads === 1 ? "thread" : "threads"),
      tasks ? card(count(tasks), tasks === 1 ? "task" : "tasks") : null,
      processes > 1 ? card(count(processes), "processes") : null,
      streams ? card(time(device), `on ${count(streams)} device ${streams === 1 ? "stream" : "streams"}`) : null,
      card(count(groups.length), "distinct names"),
      ...(await memoryCards(model)));
    R.base.fill(parent, cards, el("div", { class: "columns" }, tops(model, groups, self), el("div", null, findings(head), problems(head), about(model))));
  }

  /** Findings of explain(): waits, changes, slow steps, anti-patterns. A click on a line selects its first event. */
  function findings(/** @type {any} */ head) {
    const { lines = [], first = "" } = head.findings;
    if (!lines.length) return null;
    const items = lines.map(([line, rows]) => el("li", rows.length
      ? { tabindex: "0", class: "link", onclick: () => select(rows[0]), onkeydown: (/** @type {KeyboardEvent} */ e) => { if (e.key === "Enter") select(rows[0]); } }
      : null, shown(line, 700)));
    const select = (/** @type {number} */ row) => { R.state.selectRow(row); R.state.set({ view: "timeline" }); };
    return el("section", { class: "box findings" }, el("h2", null, "What stands out"), el("ul", null, ...items),
      first ? el("p", null, el("b", null, "First: "), shown(first, 700)) : null);
  }

  const card = (/** @type {string} */ value, /** @type {string} */ label) => el("div", { class: "card" }, el("b", null, value), el("span", null, label));

  async function memoryCards(/** @type {any} */ model) {
    if (!model.head.memory.length) return [];
    const { memory } = await R.lanes.readSignals(model);
    return memory.map((/** @type {any} */ each) => card(`${bytes(each.known.most ? each.known.most[0] : each.series.most)}${R.memory.error(each.known.most)}`, `peak of ${each.device}`));
  }

  /** The five names with the most self time, with bars. */
  function tops(/** @type {any} */ model, /** @type {any[]} */ groups, /** @type {number} */ self) {
    const imports = model.head.kinds.indexOf("import");
    const sorted = [...groups].sort((a, b) => b.self - a.self).filter((group) => group.self > 0 && model.keys[group.key].kind !== imports);
    const waits = sorted.filter((group) => model.keys[group.key].wait);
    const first = sorted.filter((group) => !model.keys[group.key].wait).slice(0, 5);
    const most = first.length ? first[0].self : 1;
    const list = el("ol", { class: "tops" });
    for (const group of first) {
      list.append(el("li", { tabindex: "0", onclick: () => choose(group), onkeydown: (/** @type {KeyboardEvent} */ e) => { if (e.key === "Enter") choose(group); } },
        el("div", { class: "top-name" }, R.format.label(group.label, 120)),
        el("div", { class: "top-bar" }, el("span", { css: { width: `${(100 * group.self) / most}%`, background: R.base.sliceVariable(model.keys[group.key]) } })),
        el("div", { class: "top-text" }, `${percent(group.self / self)} · ${time(group.self)} in ${count(group.count)} ${group.count === 1 ? "call" : "calls"}, `
          + `${time(group.total / group.count)} each, longest ${time(group.most)}`)));
    }
    const choose = (/** @type {any} */ group) => { R.state.selectKey(group.key); R.state.set({ view: "table" }); };
    return el("section", { class: "box" }, el("h2", null, "What took most"),
      first.length ? list : el("p", null, "The profile contains no ranges. Add some with record_function, or record calls (python_calls=True)."),
      first.length ? R.base.legend(model) : null,
      first.length ? el("p", { class: "note" }, "By self time: time in a range or call without the ranges and calls inside it.") : null,
      waits.length ? waiting(waits, self, choose) : null,
      model.head.imports ? el("p", { class: "note" }, "Not listed: imports, ", shown(model.head.imports, 700)) : null);
  }

  /** One line on calls that only wait. They are not among the five names, where idle threads would hide the program's work. */
  function waiting(/** @type {any[]} */ waits, /** @type {number} */ self, /** @type {(group: any) => void} */ choose) {
    const whole = waits.reduce((sum, group) => sum + group.self, 0);
    const parts = waits.slice(0, 3).flatMap((group, i) => [i ? ", " : "",
      el("button", { class: "link", onclick: () => choose(group) }, R.format.label(group.label, 80)), ` ${time(group.self)}`]);
    return el("p", { class: "note waits" }, `Not listed: threads waited for ${time(whole)} (${percent(whole / self)}), in `, ...parts,
      waits.length > 3 ? ` and ${count(waits.length - 3)} more` : "");
  }

  function problems(/** @type {any} */ head) {
    const lines = [...head.notes, ...Object.entries(head.missing).map(([what, why]) => `Not recorded: ${what}: ${why}`)];
    if (!lines.length) return el("section", { class: "box fine" }, el("h2", null, "Complete"), el("p", null, "Nothing was dropped, and everything requested was recorded."));
    return el("section", { class: "box warning" }, el("h2", null, "What is missing"), el("ul", null, ...lines.map((line) => el("li", null, shown(line, 1000)))));
  }

  function about(/** @type {any} */ model) {
    const { head } = model;
    const list = el("dl", null);
    const started = new Date(Number(BigInt(head.t0_ns) / 1000000n));
    const pairs = /** @type {[string, string][]} */ ([
      ["process", head.process ? `${head.process}, pid ${head.pid}` : String(head.pid)],
      ["started", Number.isNaN(started.getTime()) || started.getFullYear() < 1990 ? "" : started.toISOString().replace("T", " ").replace("Z", " UTC")],
      ...Object.entries(head.facts),
      ["marks", head.marks ? count(head.marks) : ""], ["flows", head.flows ? count(head.flows) : ""],
    ]);
    for (const [label, text] of pairs) if (text) list.append(el("dt", null, shown(label)), el("dd", null, shown(String(text), 400)));
    return el("section", { class: "box" }, el("h2", null, "About this profile"), list);
  }

  return { start };
})();
