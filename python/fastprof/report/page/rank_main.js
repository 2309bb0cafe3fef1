// SPDX-License-Identifier: Apache-2.0
// rank_main: the page of a job's ranks: what is wrong, the heat map with the selected rank beside it, and the tables.

R.rankMain = (() => {
  const { el } = R.base;
  const { time, count, percent, shown } = R.format;

  async function open() {
    const model = await R.rankModel.load();
    const { head } = model;
    document.title = `${shown(head.title, 80)} · fastprof ranks`;
    const root = /** @type {HTMLElement} */ (document.getElementById("report"));
    const theme = el("button", { title: "Dark or light (T)", onclick: () => nextTheme() }, "◐");
    const header = el("header", null, el("h1", null, "fastprof"), el("span", { class: "title", title: shown(head.title, 400) }, shown(head.title, 80)),
      el("nav", { class: "rank-links" }, ...SECTIONS.map(([id, title]) => el("button", { onclick: () => document.getElementById(id)?.scrollIntoView() }, title))), theme);
    const heat = el("div", { class: "rank-heat" });
    const details = el("aside", { class: "rank-details box", "aria-label": "Selected rank" });
    const sections = SECTIONS.map(([id, title]) => el("section", { id, class: "box" }, el("h2", null, title)));
    R.base.fill(root, header, el("main", { class: "ranks scrolled" }, cards(model), problems(head), el("div", { class: "rank-map box" }, heat, details), ...sections));
    const map = R.rankHeat.start(heat, model);
    const makers = [R.rankTables.stragglers, R.rankTables.path, R.rankTables.stages, R.rankTables.collectives, R.rankTables.ranks];
    sections.forEach((section, at) => makers[at](section, model));
    R.rankModel.on(() => show(details, model));
    const worst = head.stragglers.length ? head.ranks.indexOf(head.stragglers[0].rank) : -1;
    show(details, model);
    R.rankModel.select(worst);
    const nextTheme = () => {
      R.base.forgetColours();
      document.documentElement.dataset.theme = R.base.colour("scheme") === "dark" ? "light" : "dark";
      R.base.drawAll();
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => R.base.drawAll());
    addEventListener("beforeprint", () => R.base.drawAll());
    document.addEventListener("keydown", (event) => {
      if (event.target instanceof HTMLSelectElement || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape") R.rankModel.select(-1);
      if (event.key === "t") nextTheme();
    });
    return { model, map };
  }

  const SECTIONS = [["slow", "Slow ranks"], ["path", "Critical path"], ["stages", "Exposed time by stage"], ["collectives", "Collectives"], ["all-ranks", "Ranks (mean of a step)"]];

  const card = (/** @type {string} */ value, /** @type {string} */ label) => el("div", { class: "card" }, el("b", null, value), el("span", null, label));

  function cards(/** @type {any} */ { head, steps }) {
    const duration = R.rankModel.median(head.per_rank.map((/** @type {any} */ row) => row.duration_ns));
    const gain = head.stragglers.length ? head.stragglers[0].cost_ns : 0;
    return el("div", { class: "cards" }, card(`${count(head.ranks_read)} of ${count(head.world_size)}`, "ranks"), card(count(new Set(head.hosts).size), "hosts"), card(count(steps), "steps"),
      card(time(duration), "a step"), card(count(head.stragglers.length), "slow ranks"), gain ? card(time(gain), "a step costs the slowest") : null);
  }

  function problems(/** @type {any} */ head) {
    if (!head.problems.length) return null;
    return el("section", { class: "box warning" }, el("h2", null, "Problems"), el("ul", null, ...head.problems.map((/** @type {string} */ each) => el("li", null, shown(each, 600)))));
  }

  /** The selected rank: its times beside the median rank's, and its own time by step. */
  function show(/** @type {HTMLElement} */ parent, /** @type {any} */ model) {
    const { head, steps, times } = model;
    const { rank } = R.rankModel.selection;
    if (rank < 0) return R.base.fill(parent, el("p", { class: "note" }, "Click on a rank. Wheel: zoom; drag: move; double click: all ranks."));
    const row = head.per_rank[rank];
    const straggler = head.stragglers.find((/** @type {any} */ each) => each.rank === head.ranks[rank]);
    const rows = head.values.map((/** @type {any} */ each) => {
      const middle = R.rankModel.median(head.per_rank.map((/** @type {any} */ other) => other[each.name]));
      const more = row[each.name] - middle;
      return el("tr", null, el("td", { class: "text", title: each.means }, each.title), el("td", null, time(row[each.name])), el("td", { class: more > 0 ? "worse" : "better" }, `${more > 0 ? "+" : ""}${time(more)}`), el("td", null, middle ? percent(more / middle) : "-"));
    });
    const longest = R.rankModel.medians(model, "own_ns").reduce((/** @type {number} */ most, /** @type {number} */ each) => Math.max(most, each || 0), 1);
    const bars = Array.from({ length: Math.min(steps, 200) }, (_, step) => {
      const value = times.own_ns[rank * steps + step];
      return el("i", { title: `step ${head.step_numbers[step]}: ${value < 0 ? "-" : time(value)}`, css: { height: `${Math.min(100, Math.max(0, (60 * value) / longest))}%` } });
    });
    R.base.fill(parent, el("h2", null, `Rank ${head.ranks[rank]}`), el("p", { class: "note" }, shown(head.hosts[rank], 120)),
      straggler ? el("p", null, el("b", null, `Costs ${time(straggler.cost_ns)} a step. `), straggler.more.length ? "Longer than the median rank's:" : "",
        el("ul", { class: "more" }, ...straggler.more.map((/** @type {any} */ [name, value]) => el("li", null, `${time(value)} ${shown(name, 120)}`)))) : null,
      el("table", null, el("thead", null, el("tr", null, ...["", "Mean", "Beside median", ""].map((each) => el("th", null, each)))), el("tbody", null, ...rows)),
      el("h3", null, "Own time by step"), el("div", { class: "rank-bars" }, ...bars));
  }

  const ready = open().catch((error) => {
    R.base.fill(/** @type {any} */ (document.getElementById("report")), el("p", { class: "padded" },
      `This page cannot be shown: ${error.message.replace(/\.+$/, "")}. Open it in a browser released in 2023 or later (it uses DecompressionStream).`));
    throw error;
  });
  // For tests: the modules of the page, and a promise that is fulfilled when the page is ready.
  /** @type {any} */ (window).fastprof = { ready, parts: R };
  return {};
})();
