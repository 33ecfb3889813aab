// What happens: statements, placements, workers, units, transactions, the log.

import { by, h, list, say, set, variable } from "./dom.js";
import { askUndo, cancel } from "./actions.js";
import { hue } from "./machine.js";
import { bytes, count, number, percent, rate, time } from "./words.js";

/** Rows with these parts, each an element of its own; `draw` fills them. */
function rows(id, items, key, parts, draw, empty) {
  const parent = by(id);
  list(
    parent,
    items.length ? items : [{ isEmpty: true }],
    (item) => (item.isEmpty ? "empty" : key(item)),
    (item) => {
      if (item.isEmpty) return h("p", { class: "quiet", role: "listitem" }, empty);
      const made = Object.fromEntries(parts.map((name) => [name, h("span", { class: name })]));
      const element = h("div", { class: `row ${id}`, role: "listitem" }, ...Object.values(made));
      element.parts = made;
      return element;
    },
    (element, item) => (item.isEmpty ? undefined : draw(element.parts, item, element)),
  );
}

/** A button in a part, made once. */
function button(part, text, label, press, isShown) {
  if (!part.firstChild) part.append(h("button", { type: "button", class: "plain" }, text));
  part.firstChild.onclick = press;
  set(part.firstChild, "aria-label", label);
  part.firstChild.hidden = !isShown;
}

/** A bar of two shares, made once. */
function two(part, near, far, told) {
  if (!part.firstChild) part.append(h("i", { class: "near" }), h("i", { class: "far" }));
  part.classList.add("meter");
  const sum = near + far;
  variable(part.firstChild, "--share", sum > 0 ? (near / sum).toFixed(3) : 0);
  variable(part.lastChild, "--share", sum > 0 ? (far / sum).toFixed(3) : 0);
  set(part, "title", told);
  set(part, "role", "img");
  set(part, "aria-label", told);
}

/** Statements that run. */
export function statements(model, isLive) {
  const all = [...(model.state.statements ?? [])].sort((a, b) => b.age_seconds - a.age_seconds);
  rows(
    "statement-rows",
    all,
    (of) => of.statement_time,
    ["sql", "progress", "reach", "about", "act"],
    (parts, of) => {
      const [done, left] = [number(of.tasks_run), number(of.queued)];
      const [near, far] = [number(of.bytes_local), number(of.bytes_remote)];
      say(parts.sql, of.sql ?? "");
      set(parts.sql, "title", of.sql ?? "");
      two(parts.progress, done, left, `${count(done)} tasks done, ${count(left)} entries queued`);
      two(parts.reach, near, far, `${bytes(near)} touched on their node, ${bytes(far)} on others`);
      const reach = near + far > 0 ? `, ${bytes(near + far)}, ${percent(far / (near + far))} remote` : "";
      say(
        parts.about,
        `${time(of.age_seconds)}, ${count(done)} tasks done, ${count(left)} queued${reach}, ` +
          `holds ${bytes(number(of.memory_bytes))}`,
      );
      button(parts.act, "Cancel", `Cancel ${of.sql ?? ""}`, () => cancel(of.statement_time), isLive);
    },
    "Nothing runs.",
  );
}

/** What the placer and users have placed, and why. */
export function placements(model, isLive) {
  const log = (model.state.placement_log ?? []).map((of) => ({ ...of, id: `log ${of.number}` }));
  const changes = (model.state.placement_changes ?? []).map((of) => ({
    ...of,
    id: `change ${of.at} ${of.table}`,
    isChange: true,
  }));
  rows(
    "placement-rows",
    [...log, ...changes],
    (of) => of.id,
    ["what", "ways", "why", "outcome", "act"],
    (parts, of, element) => {
      say(
        parts.what,
        of.isChange ? `${of.table ?? ""}` : `${of.number}. ${of.table ? `${of.table}.${of.column}` : "the placer"}`,
      );
      say(parts.ways, `${of.from_placement ?? "?"} → ${of.to_placement ?? "?"}`);
      const gain = of.achieved_gain ?? of.predicted_gain;
      const gains = gain ? `, ${number(gain).toFixed(2)}x ${of.achieved_gain ? "achieved" : "expected"}` : "";
      const moved = number(of.bytes ?? of.moved_bytes);
      say(
        parts.why,
        of.isChange
          ? `by a user, ${bytes(moved)} moved in ${time(number(of.seconds))}${of.error ? `: ${of.error}` : ""}`
          : `${of.why ?? ""}; ${bytes(moved)}${gains}${of.error ? `: ${of.error}` : ""}`,
      );
      const outcome = of.isChange ? (of.error ? "failed" : "changed") : (of.outcome ?? "");
      say(parts.outcome, `${outcome}${of.at ? `, ${clock(of.at)}` : ""}`);
      set(element, "data-outcome", outcome);
      const mayUndo = !of.isChange && isLive && (outcome === "done" || outcome === "moving");
      button(parts.act, "Undo", `Undo decision ${of.number}`, () => askUndo(of), mayUndo);
    },
    "Nothing was moved yet.",
  );
  const advice = model.state.advice ?? [];
  const said = by("advice");
  said.hidden = advice.length === 0;
  say(said, advice.map((of) => `Advice: ${of.table}.${of.column} to ${of.to_placement}, ${of.why}`).join(". "));
}

/** The time of day of a timestamp. */
function clock(at) {
  const found = /\d\d:\d\d:\d\d/.exec(at);
  return found ? found[0] : at;
}

const workerName = (w) => `worker ${w.worker}${w.cpu === undefined ? "" : ` on cpu ${w.cpu}`}`;

/** Workers by what they do, group by group. */
export function workers(model) {
  const groups = model.state.thread_groups ?? [];
  const of = new Map();
  // A worker belongs to a node; groups of one node share what they have.
  for (const worker of model.state.workers ?? []) of.set(worker.node, [...(of.get(worker.node) ?? []), worker]);
  by("workers").hidden = of.size === 0;
  const nodes = [...of.keys()].sort((a, b) => a - b);
  list(
    by("worker-groups"),
    nodes,
    (node) => node,
    () => h("div", { class: "group" }, h("strong"), h("span", { class: "dots" }), h("span", { class: "quiet" })),
    (element, node) => {
      const [name, dots, words] = element.children;
      const all = of.get(node);
      const mine = groups.filter((group) => group.node === node);
      const sum = (what) => mine.reduce((s, group) => s + number(group[what]), 0);
      variable(element, "--hue", hue(node, model.nodes));
      say(name, `Node ${node}`);
      list(
        dots,
        all,
        (w) => w.worker,
        () => h("i"),
        (dot, w) => {
          set(dot, "data-state", w.state);
          set(
            dot,
            "title",
            `${workerName(w)}: ${w.state}, ${count(number(w.tasks_run))} tasks,` +
              ` ${count(number(w.stolen))} of them taken ` +
              `from others, ${time(number(w.busy_seconds))} busy`,
          );
        },
      );
      const working = all.filter((w) => w.state === "working").length;
      say(
        words,
        `${working} of ${all.length} work; queued ${count(sum("queued_stealable"))} ` +
          `for anyone, ${count(sum("queued_hard"))} for this node, ${count(sum("queued_private"))} ` +
          `of workers; ${count(sum("tasks_run"))} tasks so far, ${count(sum("stolen"))} ` +
          `taken from others`,
      );
    },
  );
}

/** Units: commands of each beside the mean, and cycles that moved keys. */
export function units(model) {
  const all = model.state.units ?? [];
  by("units").hidden = all.length === 0;
  const most = Math.max(1, ...all.map((u) => number(u.commands)));
  list(
    by("unit-bars"),
    all,
    (u) => u.unit,
    () => h("i"),
    (bar, u) => {
      variable(bar, "--share", (number(u.commands) / most).toFixed(3));
      variable(bar, "--hue", hue(u.node, model.nodes));
      set(
        bar,
        "title",
        `unit ${u.unit} on node ${u.node}: ${count(number(u.commands))} commands, ${count(number(u.keys))} keys`,
      );
    },
  );
  rows(
    "balancing-rows",
    model.state.balancing ?? [],
    (of) => `${of.at} ${of.object}`,
    ["what", "why", "outcome"],
    (parts, of) => {
      say(parts.what, of.table ?? `object ${of.object}`);
      say(
        parts.why,
        `${of.algorithm ?? ""}: ${count(number(of.ranges))} ranges, ${count(number(of.keys))} ` +
          `keys moved in ${time(number(of.seconds))}; deviation was ${number(of.deviation).toFixed(2)}`,
      );
      say(parts.outcome, of.error ?? clock(of.at ?? ""));
    },
    "No keys had to move.",
  );
}

/** Transactions that are open, and small writes. */
export function transactions(model) {
  by("transactions").hidden = model.state.transactions === undefined;
  rows(
    "transaction-rows",
    model.state.transactions ?? [],
    (of) => of.id,
    ["what", "why", "outcome"],
    (parts, of) => {
      say(parts.what, `${of.id}`);
      const waits = of.waits_for === undefined ? "" : `, waits for ${of.waits_for}`;
      say(
        parts.why,
        `${of.statement ?? "no statement"}; ${(of.level ?? "").toLowerCase()}, ${count(number(of.written_rows))} ` +
          `rows written${waits}`,
      );
      say(parts.outcome, `${of.state}, ${time(number(of.age_seconds))}`);
    },
    "None is open.",
  );
}

/** The log and checkpoints of a database in a folder, and small writes that are not merged. */
export function log(model) {
  const [of] = model.state.durability ?? [];
  const deltas = model.state.deltas ?? [];
  by("log").hidden = model.state.durability === undefined;
  const facts = of
    ? [
        ["Folder", of.folder],
        ["Commits", `${count(number(of.last_record))}, ${count(number(of.durable_record))} on the disk`],
        ["Log behind the checkpoint", `${bytes(number(of.log_bytes))}, ${count(number(of.syncs))} syncs`],
        [
          "Last checkpoint",
          of.checkpoint_at
            ? `${of.checkpoint_at}, ${bytes(number(of.checkpoint_bytes))} in ${time(number(of.checkpoint_seconds))}`
            : "none by this process",
        ],
        ["Kept to go back", of.history_bytes ? bytes(number(of.history_bytes)) : "nothing"],
        ["Not read yet", `${count(number(of.unread_columns))} columns`],
        ...(of.error ? [["Nothing is written any more", of.error]] : []),
      ]
    : [["Folder", "none: the database is in memory alone"]];
  for (const d of deltas) {
    facts.push([
      `Small writes of ${d.table}`,
      `${count(number(d.live_rows))} rows, ${bytes(number(d.bytes))}, ${count(number(d.merges))} merges` +
        (d.last_failure ? `: ${d.last_failure}` : ""),
    ]);
  }
  list(
    by("log-figures"),
    facts,
    ([name]) => name,
    () => h("div", {}, h("dt"), h("dd")),
    (element, [name, value]) => {
      say(element.firstChild, name);
      say(element.lastChild, value);
    },
  );
}

/** The figures at the top. */
export function figures(model) {
  const f = model.figures;
  const all = [
    ["statements", `${count(f.statements)}/s`],
    ["touched", rate(f.bytes)],
    ["remote", f.bytes > 0 ? percent(f.remote / f.bytes) : "0 %"],
    ["stored", `${bytes(f.stored)} of ${bytes(f.memory)}`],
    ["machine", `${model.nodes.length} ${model.nodes.length === 1 ? "node" : "nodes"}, ${f.cpus} cpus`],
  ];
  list(
    by("figures"),
    all,
    ([name]) => name,
    () => h("div", {}, h("dt"), h("dd")),
    (element, [name, value]) => {
      say(element.firstChild, name);
      say(element.lastChild, value);
    },
  );
}
