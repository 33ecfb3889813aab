// What the page shows, made of two states, the later one and the one before: rates are differences.

import { number } from "./words.js";

const HISTORY = 60;

/** Where a column lies: "0:1024 3:2048" as a map. */
export function places(text) {
  const found = new Map();
  for (const one of (text ?? "").split(" ")) {
    const [node, bytes] = one.split(":");
    if (bytes !== undefined) found.set(Number(node), number(bytes));
  }
  return found;
}

/** What a table is called where traffic is told. */
export const called = (column) => (column.schema === "public" ? column.table : `${column.schema}.${column.table}`);

const summed = (rows, key, value) => {
  const sums = new Map();
  for (const row of rows) sums.set(key(row), (sums.get(key(row)) ?? 0) + number(value(row)));
  return sums;
};

/** Follows states and makes models of them. */
export class Follower {
  constructor() {
    this.forget();
    this.links = [];
  }

  /** The next state does not come after the last one. */
  forget() {
    this.last = null;
    this.history = new Map();
  }

  /** The model of a state; `step` is false where the state before it was shown already. */
  model(state) {
    const before = this.last;
    this.last = state;
    if (state.links) this.links = state.links;
    const dt = before ? state.seconds - before.seconds : 0;
    const per = (now, then) => (dt > 0 ? Math.max(0, number(now) - number(then)) / dt : 0);
    const rows = (name, of = state) => of?.[name] ?? [];
    const rates = (name, key, value) => {
      const then = summed(rows(name, before), key, value);
      const now = summed(rows(name), key, value);
      return new Map([...now].map(([k, v]) => [k, before ? per(v, then.get(k)) : 0]));
    };
    const served = rates(
      "traffic",
      (t) => t.from_node,
      (t) => t.bytes,
    );
    const away = rates(
      "traffic",
      (t) => (t.from_node === t.to_node ? -1 : t.from_node),
      (t) => t.bytes,
    );
    const local = rates(
      "thread_groups",
      (g) => g.node,
      (g) => g.bytes_local,
    );
    const remote = rates(
      "thread_groups",
      (g) => g.node,
      (g) => g.bytes_remote,
    );
    const busy = rates(
      "workers",
      (w) => w.node,
      (w) => w.busy_seconds,
    );
    const workers = summed(
      rows("workers"),
      (w) => w.node,
      () => 1,
    );
    const queued = summed(
      rows("thread_groups"),
      (g) => g.node,
      (g) => number(g.queued_stealable) + number(g.queued_hard) + number(g.queued_private),
    );
    const read = rates(
      "nodes",
      (n) => n.node,
      (n) => n.memory_read_bytes,
    );
    const written = rates(
      "nodes",
      (n) => n.node,
      (n) => n.memory_written_bytes,
    );
    const own = new Map(this.links.filter((l) => l.from_node === l.to_node).map((l) => [l.to_node, l]));
    const nodes = rows("nodes").map((n) => ({
      node: n.node,
      package: n.package,
      usable: n.usable !== false,
      cpus: n.cpus ? n.cpus.split(",").length : 0,
      memory: number(n.memory_bytes),
      stored: number(n.stored_bytes),
      served: served.get(n.node) ?? 0,
      away: away.get(n.node) ?? 0,
      local: local.get(n.node) ?? 0,
      remote: remote.get(n.node) ?? 0,
      busy: workers.get(n.node) ? Math.min(1, (busy.get(n.node) ?? 0) / workers.get(n.node)) : null,
      queued: queued.get(n.node) ?? 0,
      read: n.memory_read_bytes === undefined ? null : read.get(n.node),
      written: n.memory_written_bytes === undefined ? null : written.get(n.node),
      held: rows("memory")
        .filter((m) => m.node === n.node)
        .map((m) => ({ kind: m.kind, bytes: number(m.bytes) })),
      most: number(n.bandwidth ?? own.get(n.node)?.read_bytes_per_second),
    }));
    for (const n of nodes) {
      const points = this.history.get(n.node) ?? [];
      if (before) points.push(Math.max(n.served, n.local + n.remote));
      if (points.length > HISTORY) points.shift();
      this.history.set(n.node, points);
      n.history = points;
    }
    const pair = (t) => `${t.from_node}>${t.to_node}`;
    const crossing = rates("traffic", pair, (t) => t.bytes);
    const traffic = rows("traffic").map((t) => ({
      from: t.from_node,
      to: t.to_node,
      rate: crossing.get(pair(t)) ?? 0,
      bytes: number(t.bytes),
    }));
    const name = (t) => `${t.table}\u0000${t.column}`;
    const heat = rates("column_traffic", name, (t) => t.bytes);
    const total = summed(rows("column_traffic"), name, (t) => t.bytes);
    const columns = rows("columns").map((c) => ({
      ...c,
      key: `${c.schema}\u0000${c.table}\u0000${c.column}`,
      size: number(c.bytes),
      places: places(c.bytes_by_node),
      heat: heat.get(`${called(c)}\u0000${c.column}`) ?? 0,
      read: total.get(`${called(c)}\u0000${c.column}`) ?? 0,
    }));
    const sum = (of) => nodes.reduce((all, n) => all + of(n), 0);
    const counts = state.counts ?? {};
    return {
      state,
      dt,
      nodes,
      traffic,
      columns,
      hops: new Map(this.links.map((l) => [`${l.to_node}>${l.from_node}`, l])),
      figures: {
        statements: per(counts.statements, before?.counts?.statements),
        failed: number(counts.failed),
        bytes: sum((n) => n.local + n.remote),
        remote: sum((n) => n.remote),
        stored: sum((n) => n.stored),
        memory: sum((n) => n.memory),
        cpus: sum((n) => n.cpus),
        seconds: state.seconds,
      },
    };
  }
}
