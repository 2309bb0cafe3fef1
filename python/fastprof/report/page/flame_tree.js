// SPDX-License-Identifier: Apache-2.0
// flame_tree: merge rows by name path, from callers to callees or, inverted, from callees to callers.

/**
 * @typedef {{name: string, key: number, kind: number, hash: number, self: number, total: number, count: number, before: number, depth: number,
 *            parent: FlameNode | null, children: FlameNode[]}} FlameNode
 *   before: total in the earlier profile, for comparisons
 */
R.flameTree = (() => {
  const MAX_DEPTH = 400;

  /** @returns {FlameNode} */
  function node(/** @type {string} */ name, /** @type {number} */ key, /** @type {FlameNode | null} */ parent) {
    const made = { name, key, kind: 1, hash: key < 0 ? R.base.hash(name) : 0, self: 0, total: 0, count: 0, before: 0, depth: parent ? parent.depth + 1 : 0, parent, children: [] };
    if (parent) /** @type {any} */ (parent.children).push(made);
    return made;
  }

  /**
   * Merge the rows of a selection. metric(row, self) returns a row's contribution to the widths.
   * @param {any} model
   * @param {any} selection
   * @param {(row: number, self: number) => number} metric
   * @param {boolean} byThread  one root for each thread
   * @returns {FlameNode}
   */
  function build(model, selection, metric, byThread) {
    const root = node("all", -1, null);
    const size = model.keys.length;
    /** @type {FlameNode[]} */
    const nodes = [];
    const nodeOf = new Int32Array(model.n).fill(-1);
    const found = new Map();
    const threads = new Map();
    let lane = -1;
    let top = root;
    let topId = 0;
    R.aggregate.forRows(model, selection, (row, length, self, parent) => {
      if (byThread && (lane < 0 || row >= model.lanes[lane].first + model.lanes[lane].count || row < model.lanes[lane].first)) {
        lane = model.laneOf(row);
        const of = model.lanes[lane].task && model.lanes[lane].thread >= 0 ? model.lanes[lane].thread : lane; // a task's work is its thread's
        if (!threads.has(of)) threads.set(of, [node(model.lanes[of].label, -1, root), threads.size + 1]);
        [top, topId] = threads.get(of);
      }
      const above = parent >= 0 ? nodeOf[parent] : -1;
      const key = model.rowKey[row];
      const id = (above >= 0 ? above + 1000000 : topId) * size + key;
      let at = found.get(id);
      if (at === undefined) {
        const upper = above >= 0 ? nodes[above] : top;
        at = nodes.length;
        found.set(id, at);
        nodes.push(upper.depth >= MAX_DEPTH ? upper : node(model.keys[key].name, key, upper));
      }
      nodeOf[row] = at;
      const merged = nodes[at];
      merged.self += Math.max(metric(row, self), 0);
      merged.count += 1;
    });
    return summed(root);
  }

  /**
   * Merge the rows of a selection by Python stack, outermost frame first; the row's own name is innermost.
   * @param {any} model
   * @param {any} selection
   * @param {(row: number, self: number) => number} metric
   * @param {ArrayLike<number>} codes  of the rows, 0 for none
   * @param {{stacks: number[][], frame_kinds: Record<string, number>}} texts  frames, innermost first, and their kinds
   */
  function buildFromStacks(model, selection, metric, codes, { stacks, frame_kinds: kinds }) {
    const root = node("all", -1, null);
    const children = new Map([[root, new Map()]]);
    const leaves = new Map();
    const child = (/** @type {FlameNode} */ of, /** @type {string} */ name, /** @type {number} */ key) => {
      const known = /** @type {Map<string, FlameNode>} */ (children.get(of));
      let next = known.get(name);
      if (!next) {
        known.set(name, (next = node(name, key, of)));
        children.set(next, new Map());
      }
      return next;
    };
    R.aggregate.forRows(model, selection, (/** @type {number} */ row, /** @type {number} */ length, /** @type {number} */ self) => {
      const key = model.rowKey[row];
      const id = codes[row] * model.keys.length + key;
      let leaf = leaves.get(id);
      if (!leaf) {
        let at = root;
        const frames = codes[row] ? stacks[codes[row] - 1] : [];
        for (let i = frames.length - 1; i >= 0 && at.depth < MAX_DEPTH; i--) {
          at = child(at, model.text(frames[i]), -1);
          at.kind = kinds[frames[i]];
        }
        leaves.set(id, (leaf = child(at, model.keys[key].name, key)));
      }
      leaf.self += Math.max(metric(row, self), 0);
      leaf.count += 1;
    });
    return summed(root);
  }

  /** Compute totals from self values, sort children by total, and remove those without any. */
  function summed(/** @type {FlameNode} */ root) {
    /** @type {FlameNode[]} */
    const order = [root];
    for (let i = 0; i < order.length; i++) for (const child of order[i].children) order.push(child);
    for (let i = order.length - 1; i >= 0; i--) {
      const each = order[i];
      each.total = each.self;
      for (const child of each.children) each.total += child.total;
    }
    for (const each of order) {
      each.children = each.children.filter((child) => child.total > 0 || child.before > 0);
      each.children.sort((a, b) => Math.max(b.total, b.before) - Math.max(a.total, a.before) || (a.name < b.name ? -1 : 1));
    }
    return root;
  }

  /** Return the inverted tree, from callees to callers: the self value of each path under its names in reverse. */
  function inverted(/** @type {FlameNode} */ tree) {
    const root = node("all", -1, null);
    const children = new Map([[root, new Map()]]);
    const visit = (/** @type {FlameNode} */ each) => {
      if (each.self > 0 && each.parent) {
        let at = root;
        for (let up = /** @type {FlameNode | null} */ (each); up && up.parent && at.depth < MAX_DEPTH; up = up.parent) {
          const known = /** @type {Map<string, FlameNode>} */ (children.get(at));
          let next = known.get(up.name);
          if (!next) {
            known.set(up.name, (next = node(up.name, up.key, at)));
            next.kind = up.kind;
            children.set(next, new Map());
          }
          next.total += each.self;
          next.count += each.count;
          at = next;
        }
        at.self += each.self;
      }
      each.children.forEach(visit);
    };
    visit(tree);
    root.total = tree.total;
    const sort = (/** @type {FlameNode} */ each) => {
      each.children.sort((a, b) => b.total - a.total);
      each.children.forEach(sort);
    };
    sort(root);
    return root;
  }

  /** Merge two trees by name path: `total` is that of `after`, `before` that of `before`. */
  function compared(/** @type {FlameNode} */ after, /** @type {FlameNode} */ before) {
    const join = (/** @type {FlameNode} */ into, /** @type {FlameNode} */ from) => {
      into.before = from.total;
      const known = new Map(into.children.map((child) => [child.name, child]));
      for (const child of from.children) join(known.get(child.name) || node(child.name, -1, into), child);
    };
    join(after, before);
    return summed(after);
  }

  /** Return the share of the tree in nodes whose name passes the test; nodes below one of them do not count again. */
  function share(/** @type {FlameNode} */ tree, /** @type {(name: string) => boolean} */ test) {
    let found = 0;
    const visit = (/** @type {FlameNode} */ each) => {
      if (each.parent && test(each.name)) found += each.total;
      else each.children.forEach(visit);
    };
    visit(tree);
    return tree.total > 0 ? found / tree.total : 0;
  }

  return { build, buildFromStacks, inverted, compared, share };
})();
