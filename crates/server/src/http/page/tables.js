// Tables: their columns, where their pages lie, and how much is read of them.

import { by, h, list, say, set, variable } from "./dom.js";
import { askPlacement } from "./actions.js";
import { hue } from "./machine.js";
import { called } from "./state.js";
import { bytes, count, rate } from "./words.js";

const SHOWN = 40;

/** What the user has chosen here. */
const wanted = { text: "", byHeat: true, all: false };

/** Listens to the bar above the columns; `again` shows them again. */
export function listen(again) {
  by("filter").addEventListener("input", (event) => {
    wanted.text = event.target.value.toLowerCase();
    again();
  });
  by("by-heat").addEventListener("change", (event) => {
    wanted.byHeat = event.target.checked;
    again();
  });
  by("more").addEventListener("click", () => {
    wanted.all = !wanted.all;
    again();
  });
}

function row() {
  const parts = {
    name: h("span", { class: "name" }),
    kind: h("span", { class: "quiet kind" }),
    size: h("span", { class: "size number" }),
    lies: h("span", { class: "lies", role: "img" }),
    placement: h("span", { class: "quiet placement" }),
    heat: h("span", { class: "heat" }),
    rate: h("span", { class: "number quiet" }),
  };
  const place = h("button", { type: "button", class: "plain" }, "Place");
  const element = h(
    "div",
    { class: "column", role: "listitem" },
    h("span", { class: "who" }, parts.name, parts.kind),
    parts.size,
    parts.lies,
    parts.placement,
    h("span", { class: "heats" }, parts.heat, parts.rate),
    place,
  );
  place.addEventListener("click", () => askPlacement(element.column, element.nodes));
  element.parts = { ...parts, place };
  return element;
}

/** A bar of where bytes lie, in the colours of the nodes. */
function lies(element, places, nodes) {
  const sum = [...places.values()].reduce((all, of) => all + of, 0);
  const shown = [...places].filter(([, of]) => of > 0).sort((a, b) => a[0] - b[0]);
  list(
    element,
    shown,
    ([node]) => node,
    () => h("i"),
    (piece, [node, of]) => {
      variable(piece, "--share", (of / sum).toFixed(4));
      variable(piece, "--hue", hue(node, nodes));
    },
  );
  const told = shown.map(([node, of]) => `node ${node}: ${bytes(of)}`).join(", ") || "nowhere yet";
  set(element, "title", told);
  set(element, "aria-label", told);
}

function drawn(element, c, model, most, isLive) {
  const { name, kind, size, lies: bar, placement, heat, rate: now, place } = element.parts;
  element.column = c;
  element.nodes = model.nodes;
  say(name, `${called(c)}.${c.column}`);
  const parts = c.parts > 1 ? `, ${c.parts} parts` : "";
  say(kind, `${(c.type ?? "").toLowerCase()}, ${count(c.rows)} rows${parts}`);
  say(size, bytes(c.size));
  lies(bar, c.places, model.nodes);
  say(placement, c.placement ?? "");
  set(placement, "title", c.placement ?? "");
  variable(heat, "--share", most > 0 ? (c.heat / most).toFixed(3) : 0);
  say(now, c.heat > 0 ? rate(c.heat) : c.read > 0 ? `${bytes(c.read)} so far` : "not read");
  place.hidden = !isLive;
  set(place, "aria-label", `Place ${called(c)}.${c.column}`);
}

/** Parts of tables that are cut into some: a line each, with its pages. */
function withParts(model) {
  const cut = new Map();
  for (const part of model.state.parts ?? []) {
    const key = `${part.schema}\u0000${part.table}`;
    const known = cut.get(key) ?? new Map();
    const of = known.get(part.part) ?? new Map();
    of.set(part.node, (of.get(part.node) ?? 0) + Number(part.bytes));
    cut.set(key, known.set(part.part, of));
  }
  return cut;
}

function partsOf(columns, model) {
  const cut = withParts(model);
  const tables = new Map();
  for (const c of columns) {
    const key = `${c.schema}\u0000${c.table}`;
    const parts = cut.get(key);
    if (c.parts > 1 && parts && !tables.has(key)) tables.set(key, { key, name: called(c), parts });
  }
  return [...tables.values()];
}

/** Shows the columns, those of a chosen node alone where there is one. */
export function tables(model, chosen, isLive) {
  const { text } = wanted;
  const fits = (c) => !text || `${called(c)}.${c.column}`.toLowerCase().includes(text);
  const here = (c) => chosen === null || (c.places.get(chosen) ?? 0) > 0;
  const found = model.columns.filter((c) => fits(c) && here(c));
  const name = (a, b) =>
    called(a).localeCompare(called(b)) || a.column.localeCompare(b.column, "en", { numeric: true });
  found.sort((a, b) => (wanted.byHeat ? b.heat - a.heat || b.read - a.read || name(a, b) : name(a, b)));
  const most = Math.max(0, ...model.columns.map((c) => c.heat));
  const shown = wanted.all ? found : found.slice(0, SHOWN);
  const items = [...partsOf(shown, model).map((of) => ({ of })), ...shown];
  list(
    by("columns"),
    items,
    (c) => (c.of ? `parts ${c.of.key}` : c.key),
    (c) =>
      c.of
        ? h(
            "div",
            { class: "parts", role: "listitem" },
            h("span", { class: "name" }),
            h("span", { class: "part-bars" }),
          )
        : row(),
    (element, c) => {
      if (!c.of) return drawn(element, c, model, most, isLive);
      say(element.firstChild, `parts of ${c.of.name}`);
      list(
        element.lastChild,
        [...c.of.parts],
        ([part]) => part,
        () => h("span", { class: "lies", role: "img" }),
        (bar, [, of]) => lies(bar, of, model.nodes),
      );
      return undefined;
    },
  );
  const more = by("more");
  more.hidden = found.length <= SHOWN;
  say(more, wanted.all ? "Show fewer" : `Show all ${found.length} columns`);
  const empty =
    model.columns.length === 0 ? "There are no tables yet." : `No column ${text ? "is called so" : "lies there"}.`;
  const tells = chosen === null ? "" : `columns that lie on node ${chosen}; choose it again for all`;
  say(by("legend"), found.length ? tells : empty);
}
